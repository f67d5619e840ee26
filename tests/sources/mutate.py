"""Lines spoiled in the ways files get spoiled, for tests of parsers."""

import numpy as np

NASTY = (
    b"\x00 : | # ' \" , ; \t \r - + . e E 0 9 nan inf 1e999 -1e-999 \xff\xfe \xef\xbb\xbf qid: 99999999999999999999999 "
    b"0x10 1_0 :: || 1:1 {} [] \\u0000".split(b" ")
)


def mutated(lines: list[bytes], count: int, seed: int) -> bytes:
    """`count` lines, most of them spoiled once or twice, as one text."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        line = bytearray(lines[rng.integers(len(lines))])
        for _ in range(rng.integers(3)):
            at = int(rng.integers(len(line) + 1))
            match rng.integers(6):
                case 0:
                    line[at:at] = NASTY[rng.integers(len(NASTY))]
                case 1:
                    del line[at : at + int(rng.integers(1, 4))]
                case 2:
                    line[at : at + 1] = bytes([rng.integers(256)])
                case 3:
                    del line[at:]
                case 4:
                    other = lines[rng.integers(len(lines))]
                    line[at:] = other[int(rng.integers(len(other) + 1)) :]
                case 5:
                    line += b"\r"
        made.append(bytes(line).replace(b"\n", b" "))
    return b"\n".join(made) + b"\n"
