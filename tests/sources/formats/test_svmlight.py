"""svmlight: the kernel against the slow obvious parser, and the corners of the grammar one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.kernels.parse_text import PADDING
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.svmlight import SvmlightParser
from bayou.sources.reading.blocks import TextBlock
from tests.sources import slow_svmlight
from tests.sources.mutate import mutated


def block_of(text: bytes) -> TextBlock:
    text = text if text.endswith(b"\n") or not text else text + b"\n"
    data = np.full(len(text) + PADDING, 10, np.uint8)
    data[: len(text)] = np.frombuffer(text, np.uint8)
    return TextBlock(data, len(text), "test.svm", first=True)


def parsed(text: bytes, bits: int = 22, exact: bool = False):
    return SvmlightParser(Recipe(kind="svmlight", bits=bits, exact=exact)).parse(block_of(text))


def assert_same(text: bytes, bits: int = 22, exact: bool = False) -> None:
    """The kernel finds the rows, bits and bad lines that the slow parser finds."""
    piece = parsed(text, bits, exact)
    rows, bad = slow_svmlight.parse(text, 2**bits, exact)
    got = (piece.indptr, piece.indices, piece.values, piece.labels, piece.positions)
    for mine, theirs in zip(got, slow_svmlight.arrays(rows), strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert piece.skipped == len(bad)
    described = [(b.line, b.column) for b in piece.bad_lines]
    assert described[:20] == [tuple(b) for b in bad[:20]]
    assert set(described) <= {tuple(b) for b in bad}
    assert piece.error_counts.total() == len(bad)
    assert piece.lines == text.removesuffix(b"\n").count(b"\n") + 1


@pytest.mark.parametrize(
    "line",
    [
        b"1 0:1 5:0.25",
        b"-1\t3:1e-3\t 4:-.5 \r",
        b"+1 1:1 # a comment: 2:3",
        b"# nothing but a comment",
        b"   ",
        b"0 qid:77 3:1",
        b"1 qid: 3:1",
        b"3:1 4:2",
        b"1",
        b"1#",
        b"2.5 1:1",
        b"1 18446744073709551615:1",
        b"1 4294967296:1 12345678:2 123456789:3",
        b"1 3:123456789.123456789 4:0.12345678901234567890123 5:1e-400",
        b"1 3:1e12 4:-1e12",
        b"1 3:1 3:2",
    ],
)
def test_good_lines(line: bytes) -> None:
    assert_same(line)
    assert parsed(line).skipped == 0


@pytest.mark.parametrize(
    ("line", "column", "word"),
    [
        (b"x 1:1", 1, "label"),
        (b"1,2 1:1", 2, "blank"),
        (b"1 a:1", 3, "index"),
        (b"1 -3:1", 3, "index"),
        (b"1 3", 4, "':'"),
        (b"1 3:", 5, "number"),
        (b"1 3:nan", 5, "number"),
        (b"1 3:0x1", 6, "blank"),
        (b"1 3:1:2", 6, "blank"),
        (b"1 3:1e13", 5, "1e+12"),
        (b"1e999 3:1", 1, "1e+12"),
        (b"1 18446744073709551616:1", 3, "2^64"),
        (b"1 3:1\x00", 6, "index"),
        (b"\x00", 1, "label"),
        (b"1 1:1 2:one 3:1", 9, "number"),
    ],
)
def test_bad_lines_are_named(line: bytes, column: int, word: str) -> None:
    text = b"1 7:1\n" + line + b"\n-1 8:1"
    assert_same(text)
    piece = parsed(text)
    assert piece.skipped == 1
    (bad,) = piece.bad_lines
    assert (bad.line, bad.column) == (1, column)
    assert word in bad.reason
    assert piece.indices.tolist() == [7, 8]


def test_indices_beyond_the_table_fold_and_are_counted() -> None:
    piece = parsed(b"1 5:1 16:1 21:1\n1 99:1 x\n", bits=4)
    assert piece.indices.tolist() == [5, 0, 5]
    assert piece.n_wrapped == 2  # the bad line's does not count
    assert parsed(b"1 5:1 16:1", bits=4, exact=True).skipped == 1


def test_mutated_lines() -> None:
    lines = [b"1 3:1 17:0.5 123456:2.25", b"-1 1:1 2:1 3:1 99999999:1", b"0 qid:3 7:-1e-3 # x", b"5:1 6:1"]
    text = mutated(lines, 12_000, seed=1)
    assert_same(text)
    assert_same(text, bits=10, exact=True)


def indicators(rng: np.random.Generator, odd: float) -> bytes:
    """A line of up to forty features, with so large a share of those that are not read several at a time."""
    line = [b"1 ", b"-1 ", b"", b" 0.5\t", b"0  ", b"1 qid:7 "][rng.choice(6, p=[0.5, 0.3, 0.05, 0.05, 0.05, 0.05])]
    count = int(rng.integers(41))
    numbers = np.sort(rng.integers(0, 10 ** rng.integers(1, 8, count)))
    for number in numbers if rng.random() < 0.8 else rng.permutation(numbers):
        text = b"%d:1" % number
        if rng.random() < odd:
            others = [
                b"%d:0.5",
                b"00%d:1",
                b"%d:11",
                b"%d:1.",
                b"%d:-1",
                b"999%09d:1",
                b"%d:1\t",
                b"%d:1 ",
                b"%d:x",
                b"x%d",
            ]
            text = others[rng.integers(len(others))] % number
        line += text + b" "
    return (
        line.rstrip(b" ") + [b"", b" ", b"\r", b" # 3:1 4:1", b"#3:1 4:1"][rng.choice(5, p=[0.6, 0.1, 0.1, 0.1, 0.1])]
    )


@pytest.mark.parametrize("odd", [0.0, 0.01, 0.1])
def test_long_lines_of_indicators(odd: float) -> None:
    rng = np.random.default_rng(int(100 * odd))
    lines = [indicators(rng, odd) for _ in range(600)]
    text = b"\n".join(lines)
    assert_same(text)
    assert_same(text, bits=12)
    assert_same(text, bits=12, exact=True)
    assert_same(mutated(lines, 600, seed=2))


@pytest.mark.parametrize("bad", [b":1", b" :1", b"1:1:1", b"1:1 :1", b"1", b"x:1", b"1:1\r", b"1:1\t"])
def test_lines_that_are_nearly_indicators(bad: bytes) -> None:
    """In particular none may have more features than there is room for."""
    for count in (1, 2, 20, 21, 22, 64, 5000):
        assert_same(b"1 " + b" ".join([bad] * count))
        assert_same(b"1 2:1\n1 " + b" ".join([bad] * count) + b"\r\n-1 3:1 4:1\r\n1 " + b"5:1 " * 30)


def test_what_is_said_of_indicators_is_true() -> None:
    lines = [b"1 " + b" ".join(b"%d:1" % number for number in range(k, 3 * k, 2)) for k in range(1, 40)]
    bounds = parsed(b"\n".join(lines)).bounds
    assert (bounds.longest, bounds.largest, bounds.max_index, bounds.ones) == (39, 1, 115, True)
    for at in (1, 7, 8, 9, 16, 39):  # within a group, and from one to the next
        numbers = [k - (k == at) for k in range(40)]
        assert parsed(b"1 " + b" ".join(b"%d:1" % number for number in numbers)).bounds is None


@given(st.binary(max_size=200))
def test_any_bytes(text: bytes) -> None:
    if text:
        assert_same(text)


@given(st.text(alphabet="0123456789.:+-eE #\t\r\nqid", max_size=120))
def test_likely_characters(text: str) -> None:
    if text:
        assert_same(text.encode())


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20))
def test_values_are_read_as_python_reads_them(values: list[float]) -> None:
    text = b"1 " + b" ".join(b"%d:%s" % (k, repr(v).encode()) for k, v in enumerate(values))
    piece = SvmlightParser(Recipe(kind="svmlight"), dtype="float64").parse(block_of(text))
    assert piece.values.tobytes() == np.array(values).tobytes()
