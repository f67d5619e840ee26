import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayou.core.batch import Batch
from bayou.kernels.parse_text import PADDING
from bayou.recipe.crosses import MAX_ROW_CROSSES
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.numbering import Numbering
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.vw.pairs import MAX_NAMESPACES
from bayou.sources.formats.vw.reader import VWParser
from bayou.sources.reading.blocks import TextBlock
from bayou.sources.reading.parsed_block import MAX_DESCRIBED_LINES, ParsedBlock
from tests.sources import slow_vw

CROSSES = [(), (("user", "ad"),), (("w", "w"), ("*", "user"), (" ", "7")), (("*", "*"),), (("ad", "ad"), ("*", "*"))]


def block(text: bytes) -> TextBlock:
    """As readers make it: a newline at the end, and more behind it."""
    if text and not text.endswith(b"\n"):
        text += b"\n"
    return TextBlock(np.frombuffer(text + b"\n" * PADDING, np.uint8).copy(), len(text), "text")


def parse(text: bytes, names=None, numbering=None, dtype="float32", **options) -> ParsedBlock:
    return VWParser(Recipe(kind="vw", **options), names, numbering, dtype, tags=True).parse(block(text))


def rows(piece: ParsedBlock) -> list[list[tuple[int, float]]]:
    pairs = list(zip(piece.indices.tolist(), piece.values.tolist(), strict=True))
    return [pairs[a:b] for a, b in zip(piece.indptr, piece.indptr[1:], strict=False)]


def assert_read_as_slowly(
    text: bytes, bits=22, hash_all=False, cross=(), dtype="float32", interactions=(), ignore=()
) -> ParsedBlock:
    """The same rows with the same bits, the same bad lines, the same names."""
    names = FeatureNames(2**bits)
    more = {"cross": cross, "interactions": interactions, "ignore": ignore}
    piece = parse(text, names, None, dtype, bits=bits, hash_all=hash_all, **more)
    slow = slow_vw.read(text, hash_all, cross, dtype, interactions, ignore) if text else slow_vw.Lines()
    assert piece.positions.tolist() == slow.positions
    assert [(bad.line, bad.column) for bad in piece.bad_lines[:MAX_DESCRIBED_LINES]] == slow.bad[:MAX_DESCRIBED_LINES]
    assert {(bad.line, bad.column) for bad in piece.bad_lines} <= set(slow.bad)
    assert piece.error_counts.total() == len(slow.bad)
    assert piece.skipped == len(slow.bad)
    assert piece.lines == text.count(b"\n") + bool(text and not text.endswith(b"\n"))
    expected = [[(h % 2**bits, v) for h, v, _ in features] for features in slow.features]
    assert rows(piece) == expected
    assert piece.labels.tobytes() == np.array([e.label for e in slow.examples]).tobytes()
    weights = np.ones(len(slow.examples)) if piece.weights is None else piece.weights
    assert weights.tolist() == [e.weight for e in slow.examples]
    assert piece.tags == [e.tag.decode("utf-8", "replace") for e in slow.examples]
    called: dict[int, str] = {}
    for features in slow.features:
        for found, _, name in features:
            # a number that is its feature's own needs no name
            own = re.fullmatch(r"(?:0+\^)?(\d+)", name, re.ASCII) if not (cross or interactions or hash_all) else None
            if not (own and int(own[1]) < 2**bits):
                called.setdefault(found % 2**bits, name)
    if piece.new_names is not None:
        names.add(piece.new_names)
    assert len(names) == len(called)
    assert names.name_of(list(called)) == list(called.values())
    assert parse(text, names, None, dtype, bits=bits, hash_all=hash_all, **more).new_names is None
    assert_bounds_hold(piece, 2**bits)
    return piece


def assert_bounds_hold(piece: ParsedBlock, n_features: int) -> None:
    """What is said about rows is true: ascending features, no zeros, bounds."""
    if piece.bounds is None:
        return
    longest, max_index, largest, ones = piece.bounds[:4]
    assert np.diff(piece.indptr).max(initial=0) <= longest
    assert np.abs(piece.values).max(initial=0) <= largest <= 1e12
    assert piece.indices.max(initial=0) <= max(max_index, 0) < n_features
    assert (piece.values == 1).all() or not ones
    assert (piece.values != 0).all()
    assert all(index < following for row in rows(piece) for (index, _), (following, _) in pairwise(row))


def assert_read_exactly(text: bytes, dtype: str = "float32") -> None:
    """In the exact mode: the same features by their names, the same bad lines."""
    names, numbering = FeatureNames(2**22), Numbering(2**22)
    piece = parse(text, names, numbering, dtype, exact=True)
    assert piece.bounds is None or not len(piece.indices)
    numbering.replace_ids(piece)
    if piece.new_names is not None:
        names.add(piece.new_names)
    slow = slow_vw.read(text)
    number = np.dtype(dtype).type
    kept = [[f for f in e.features if number(f.value) != 0] for e in slow.examples]
    assert np.diff(piece.indptr).tolist() == [len(features) for features in kept]
    assert names.name_of(piece.indices) == [f.shown for features in kept for f in features]
    assert piece.values.tolist() == [number(f.value) for features in kept for f in features]
    assert [(bad.line, bad.column) for bad in piece.bad_lines[:MAX_DESCRIBED_LINES]] == slow.bad[:MAX_DESCRIBED_LINES]
    assert {(bad.line, bad.column) for bad in piece.bad_lines} <= set(slow.bad)
    assert piece.error_counts.total() == len(slow.bad)


# --- the grammar, case by case --------------------------------------------------------------------------------------


def read_one(line: bytes) -> slow_vw.Example:
    """The one example of a line, read fast and slowly."""
    assert_read_as_slowly(line)
    example = slow_vw.read_line(line)
    assert example is not None
    return example


@pytest.mark.parametrize(
    ("line", "label", "weight", "tag"),
    [
        (b"1 |a x", 1, 1, b""),
        (b"-1 |a x", -1, 1, b""),
        (b"  0.5   2.25   |a x", 0.5, 2.25, b""),
        (b"1 2 'today |a x", 1, 2, b"today"),
        (b"1 'today|a x", 1, 1, b"today"),
        (b"1 2 today|a x", 1, 2, b"today"),
        (b"1 today|a x", 1, 1, b"today"),
        (b"1 2|a x", 1, 1, b"2"),
        (b"1|a x", math.nan, 1, b"1"),
        (b"'1 |a x", math.nan, 1, b"1"),
        (b"a:b'c|a x", math.nan, 1, b"a:b'c"),
        (b"1 '|a x", 1, 1, b""),
        (b"|a x", math.nan, 1, b""),
        (b"   |a x", math.nan, 1, b""),
        (b"1e3 0 |a x\r", 1000, 0, b""),
        (b"+1 1 |a x", 1, 1, b""),
    ],
)
def test_label_weight_and_tag(line, label, weight, tag):
    example = read_one(line)
    assert example.label == label or math.isnan(example.label) == math.isnan(label) is True
    assert (example.weight, example.tag) == (weight, tag)


@pytest.mark.parametrize(
    ("line", "features"),
    [
        (b"|a x y", [(b"a", b"x", None, 1), (b"a", b"y", None, 1)]),
        (b"| x\ty \t ", [(b"", b"x", None, 1), (b"", b"y", None, 1)]),
        (b"|a:2 x y:0.5 z:-1e1", [(b"a", b"x", None, 2), (b"a", b"y", None, 1), (b"a", b"z", None, -20)]),
        (b"|a:2 x:red", [(b"a", b"x", b"red", 1)]),
        (b"|a x:red:2 y::", [(b"a", b"x", b"red:2", 1), (b"a", b"y", b":", 1)]),
        (b"|a page:http://a.b/c?d", [(b"a", b"page", b"http://a.b/c?d", 1)]),
        (b"|a x:-red y:elf z:.net", [(b"a", b"x", b"-red", 1), (b"a", b"y", b"elf", 1), (b"a", b"z", b".net", 1)]),
        (b"|a:2 x|b y:3|a z", [(b"a", b"x", None, 2), (b"b", b"y", None, 3), (b"a", b"z", None, 1)]),
        (b"|a|b:2|| |", []),
        (b"|a", []),
        (b"|a 7 007 -7", [(b"a", b"7", None, 1), (b"a", b"007", None, 1), (b"a", b"-7", None, 1)]),
        (b"|a x:.5 y:5. z:+2", [(b"a", b"x", None, 0.5), (b"a", b"y", None, 5), (b"a", b"z", None, 2)]),
        (b"|\xff 'q\" \x7f", [(b"\xff", b"'q\"", None, 1), (b"\xff", b"\x7f", None, 1)]),
    ],
)
def test_namespaces_and_features(line, features):
    assert read_one(b"1 " + line).features == [slow_vw.Feature(*feature) for feature in features]


@pytest.mark.parametrize("line", [b"", b" ", b"\t \t", b"\r", b"  \r"])
def test_lines_of_blanks_are_nothing(line):
    piece = assert_read_as_slowly(b"1 |a x\n" + line + b"\n0 |b y\n")
    assert (piece.lines, piece.skipped, piece.positions.tolist()) == (3, 0, [0, 2])


@pytest.mark.parametrize(
    ("line", "column", "what"),
    [
        (b"1 2 3 |a x", 5, "no more than a label and a weight"),
        (b"1 2 3 tag|a x", 5, "no more than a label and a weight"),
        (b"1:0.5 2:1 |a x", 1, "expected a label"),
        (b"shared |a x", 1, "expected a label"),
        (b"nan |a x", 1, "expected a label"),
        (b"1x |a x", 1, "expected a label"),
        (b"'tag 1 |a x", 1, "expected a label"),
        (b"1 two |a x", 3, "expected a weight"),
        (b"1 -1 |a x", 3, "expected a weight from 0 to 1e+06"),
        (b"1 1e7 |a x", 3, "expected a weight from 0 to 1e+06"),
        (b"1e13 |a x", 1, "at most 1e+12"),
        (b"1 a x", 3, "expected a weight"),
        (b"1 2 a", 6, "expected '|' before the features"),
        (b"1", 2, "expected '|' before the features"),
        (b"1,2,3\r", 6, "expected '|' before the features"),
        (b"1\t|a x", 2, "no tab"),
        (b"\t1 |a x", 1, "no tab"),
        (b"1 \0|a x", 3, "no control character"),
        (b"1 |:2 x", 4, "a namespace's name before ':'"),
        (b"1 |a:b x", 6, "the namespace's scale"),
        (b"1 |a: x", 6, "the namespace's scale"),
        (b"1 |a:2:3 x", 7, "a blank after the number"),
        (b"1 |a:2e12 x", 6, "at most 1e+12"),
        (b"1 |a :3", 6, "a feature's name before ':'"),
        (b"1 |a x:", 8, "a number or a text after ':'"),
        (b"1 |a x: 3", 8, "a number or a text after ':'"),
        (b"1 |a x:|b", 8, "a number or a text after ':'"),
        (b"1 |a x:5kg", 9, "a blank after the number"),
        (b"1 |a x:5e", 9, "a blank after the number"),
        (b"1 |a x:0x10", 9, "a blank after the number"),
        (b"1 |a x:1:2", 9, "a blank after the number"),
        (b"1 |a x:1e13", 8, "at most 1e+12"),
        (b"1 |a:0 x:1e999", 10, "at most 1e+12"),
        (b"1 |a:1e-9 x:1e13", 13, "at most 1e+12"),
        (b"1 |a:1e9 x:1e9", 12, "at most 1e+12"),
        (b"1 |a x:nan", 8, "VW would not read as one"),
        (b"1 |a x:-Infinity", 8, "VW would not read as one"),
        (b"1 |a city:nancy", 11, "VW would not read as one"),
        (b"1 |a x:- y", 8, "VW would not read as one"),
        (b"1 |a x:e5", 8, "VW would not read as one"),
        (b"1 |a x:-.E-\r", 8, "VW would not read as one"),
        (b"1 |a x:red|b y", 11, "a blank before '|'"),
        (b"1 |a x\0y", 7, "no control character"),
        (b"1 |a x\ry", 7, "no control character"),
        (b"1 |a x\r\r", 7, "no control character"),
        (b"1 |a x:red\x1b", 11, "no control character"),
    ],
)
def test_what_is_refused_and_where(line, column, what):
    piece = assert_read_as_slowly(b"1 |a x\n" + line + b"\n0 |b y\n")
    assert piece.positions.tolist() == [0, 2]
    assert piece.skipped == 1
    ((at, found, said),) = piece.bad_lines
    assert (at, found) == (1, column)
    assert what in said


def test_a_bad_line_leaves_nothing_behind():
    names = FeatureNames(2**22)
    piece = parse(b"1 2 t|a p q:2 r\n1 |a s t:2 |b u :3\n0 |c v\n", names)
    assert len(piece.indices) == 4
    assert piece.new_names is not None
    names.add(piece.new_names)
    assert names.name_of(piece.indices) == ["a^p", "a^q", "a^r", "c^v"]
    assert len(names) == 4


def test_only_so_many_bad_lines_are_described_but_all_are_counted():
    piece = assert_read_as_slowly(b"oops\n" * 100 + b"1 |a x\n" + b"\n" * 3)
    assert (len(piece.bad_lines), piece.skipped, piece.lines, len(piece.labels)) == (MAX_DESCRIBED_LINES, 100, 104, 1)


def test_values_of_zero_are_left_out_also_those_that_are_too_small_for_a_float32():
    text = b"1 |a x:0 y:-0.0 z:1e-60 w:1 |b:0 u v:2 t:text"
    assert [name for f in slow_vw.read(text).features for _, _, name in f] == ["a^w", "b^t:text"]
    assert_read_as_slowly(text)
    assert len(assert_read_as_slowly(text, dtype="float64").indices) == 3


def test_whole_numbers_are_indices_unless_all_names_are_hashed():
    text = b"1 | 7 007 123456789 12345678901234567890123 |12 30 |x 5:red"
    piece = assert_read_as_slowly(text)
    assert piece.indices[:3].tolist() == [7, 7, 123456789 % 2**22]
    assert piece.indices[4] == 42
    hashed = assert_read_as_slowly(text, hash_all=True)
    assert len(np.unique(hashed.indices)) == 6


def test_names_and_lines_may_be_long():
    name, digits = b"n" * 1000, b"3" * 100
    assert_read_as_slowly(b"1 tag|" + name + b" " + name + b" " + digits + b" " + name + b":" + name)
    assert_read_as_slowly(b"1 |a " + b" ".join(b"%d:%d" % (k, k) for k in range(1, 20_000)) + b" \n0 |a x\n")
    assert_read_as_slowly(b"|" * 5000)


@pytest.mark.parametrize("shift", range(70))
def test_it_does_not_matter_where_in_a_block_a_line_stands(shift):
    text = b"1 2 tag|user:2 alice bob:3 city:paris 42\r\n"
    assert_read_as_slowly(b"\n" * shift + text)
    assert_read_as_slowly(b"0 |" + b"x" * shift + b" y\n" + text)


def test_weights_are_only_given_if_there_are_any():
    assert parse(b"1 |a x\n0 1 |a y").weights is None
    assert parse(b"1 |a x\n0 2 |a y").weights.tolist() == [1, 2]


def test_tags_are_only_kept_if_asked_for():
    assert VWParser(Recipe(kind="vw")).parse(block(b"1 tag|a x")).tags is None


def test_a_piece_makes_a_batch():
    piece = parse(b"1 |a x y:2 x\n-1 |a\n")
    batch = Batch.from_arrays(piece.indptr, piece.indices, piece.values, piece.labels)
    assert (len(batch), batch.nonzeros) == (2, 2)


# --- against the slow parser ----------------------------------------------------------------------------------------

NAMES = [b"x", b"y", b"user7", b"7", b"007", b"12345678", b"a_rather_long_name_of_a_feature", b"\xc3\xa9", b"q'|"[:2]]
SPACES = [b"", b"a", b"user", b"ad", b"w", b"7", b"a_long_namespace_with_a_long_name"]
NUMBERS = [b"1", b"0", b"-1", b"2.5", b".5", b"1e-3", b"-12.75", b"1e12", b"123456789", b"0.333333333333", b"1e-60"]
TEXTS = [b"red", b"http://a.b", b"-", b"nan", b"-red", b":", b"e", b"e9", b"elf", b"+x", b""]


def random_line(rng: np.random.Generator) -> bytes:
    """A line that is mostly fine."""

    def one(choices: list[bytes]) -> bytes:
        return choices[rng.integers(len(choices))]

    head = [b"", b"", b"1 ", b"1 ", b"-1 ", b"0 2 ", b"1 .5 tag", b"0 'tag ", b"tag", b"1 'a:b", b" 1 "]
    line = one(head)
    for _ in range(rng.integers(1, 5)):
        line += b"|" + one(SPACES)
        if not line.endswith(b"|") and rng.random() < 0.2:
            line += b":" + one(NUMBERS)
        for _ in range(rng.integers(0, 5)):
            line += one([b" ", b" ", b" ", b"  ", b"\t"]) + one(NAMES)
            if rng.random() < 0.4:
                line += b":" + one(NUMBERS if rng.random() < 0.9 else TEXTS)
        line += one([b" ", b" ", b"", b"\t"])
    return line + one([b"", b"", b"\r"])


def mutated(rng: np.random.Generator, line: bytes) -> bytes:
    """A line with some bytes removed, put in, or replaced."""
    told = b" \t\r\n\0|::'+-.eE019nif\x7f\x80\xff"
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(line) + 1))
        put = bytes([told[rng.integers(len(told))] if rng.random() < 0.7 else rng.integers(256)])
        kind = rng.integers(4)
        line = line[:at] + (b"" if kind == 0 else put) + line[at + (kind != 1) :]
        if kind == 3:
            line = line[:at]
    return line


@pytest.mark.parametrize("cross", CROSSES)
@pytest.mark.parametrize("hash_all", [False, True])
def test_random_lines_are_read_as_slowly(cross, hash_all):
    rng = np.random.default_rng(len(cross) + hash_all)
    text = b"\n".join(random_line(rng) for _ in range(400))
    piece = assert_read_as_slowly(text, cross=cross, hash_all=hash_all)
    assert len(piece.labels) > 200
    assert_read_as_slowly(text, cross=cross, hash_all=hash_all, bits=5, dtype="float64")


@pytest.mark.parametrize("seed", range(12))
def test_mutated_lines_are_read_as_slowly(seed):
    rng = np.random.default_rng(seed)
    text = b"\n".join(mutated(rng, random_line(rng)) for _ in range(1000))
    piece = assert_read_as_slowly(text, cross=CROSSES[seed % len(CROSSES)], hash_all=seed % 2 == 1)
    assert 200 < piece.skipped < 800


lines = st.binary(max_size=300) | st.text(alphabet="|: \t\r\n1.e-+'ax\0n", max_size=200).map(str.encode)


@given(lines, st.sampled_from(CROSSES))
@example(b"|" * 130 + b":", ())
@example(b"1 |a x:" + b"9" * 400, ())
@settings(max_examples=500)
def test_any_bytes_at_all_are_read_as_slowly(text, cross):
    assert_read_as_slowly(text, cross=cross)


# --- runs of plain features, which have loops of their own ----------------------------------------------------------

VALUES = {
    "bare": [b""],
    "ones": [b":1"],
    "mixed": [b"", b":1", b":2", b":0.5", b":-12.75", b":1.0", b":0.1"],
    "zeros": [b"", b":1", b":0", b":0.0", b":-0", b":.000"],
    "long": [b":0.123456", b":1234.567", b":12345678", b":0.1234567", b":-0.33333333333333", b":99999999", b":9e-3"],
}
ODD = [b":0", b":0.0", b":-1", b":-", b":.", b":-.", b":1.", b":.5", b":1e3", b":1e-60", b":1e13", b":1234567."]
ODD += [
    b":12345678",
    b":123456789",
    b":99999999",
    b":+1",
    b":--1",
    b":1-",
    b":1.2.3",
    b":red",
    b":1:2",
    b":",
    b":1|b y",
]
ODD += [b"|b y", b" ", b"\t", b":1\t", b":1\r", b"\r", b"\0", b":1\0", b":1\xff", b":\xb1", b" :1"]
HEADS = [b"|", b"|0", b"|a", b"|7", b"|a:1", b"|0:2", b"|:2", b"|a:0.1", b"|0:0", b"|a:0", b"|a:1e-45", b"|a:1e-50"]
HEADS += [b"|a:-3", b"|a:1e12", b"|0:1.0000000001", b"|0:-1e5", b"|a:2e12", b"|a:"]
RUNS = {
    "ascending": lambda rng, n: [b"%d" % k for k in np.sort(rng.choice(3000, n, replace=False))],
    "numbers": lambda rng, n: [b"%d" % k for k in rng.integers(0, 10 ** rng.integers(1, 12, n))],
    "names": lambda rng, n: [b"n" * length + b"%d" % length for length in rng.integers(0, 80, n)],
    "mixed": lambda rng, n: [
        (b"7", b"007", b"x", b"12_ab", b"4194303", b"4194304", b"12345678", b"123456789")[k]
        for k in rng.integers(0, 8, n) * (rng.random(n) < 0.4)
    ],
}


def long_line(rng: np.random.Generator, names: str, values: str, odd: float) -> bytes:
    """A line of one or two long namespaces, with so large a share of features that are not plain."""
    line = [b"1 ", b"-1 ", b"0 2 ", b"1 'tag ", b"tag", b""][rng.integers(6)]
    for _ in range(rng.integers(1, 3)):
        line += HEADS[rng.integers(len(HEADS))] if rng.random() < 2 * odd else b"|"
        for name in RUNS[names](rng, rng.integers(1, 40)):
            choices = ODD if rng.random() < odd else VALUES[values]
            line += b" " + name + choices[rng.integers(len(choices))]
        line += b" " if rng.random() < 0.3 else b""
    return line + (b"\r" if rng.random() < 0.2 else b"")


@pytest.mark.parametrize("names", RUNS)
@pytest.mark.parametrize("values", VALUES)
def test_long_runs_of_features_are_read_as_slowly(names, values):
    rng = np.random.default_rng(len(names) + len(VALUES[values]))
    for odd, how in [(0, {}), (0.02, {"dtype": "float64"}), (0.2, {"bits": 5}), (0.05, {"hash_all": True})]:
        text = b"\n".join(long_line(rng, names, values, odd) for _ in range(30))
        piece = assert_read_as_slowly(text + b"\n" * int(rng.integers(2)), **how)
        assert (piece.skipped > 0) == (odd > 0)
    few = b"\n".join(long_line(rng, names, values, 0.1) for _ in range(8))
    assert_read_as_slowly(few, cross=(("a", "7"), (" ", "a")))
    for dtype in ("float32", "float64"):
        assert_read_exactly(few, dtype)


@pytest.mark.parametrize("names", RUNS)
def test_mutated_runs_are_read_as_slowly(names):
    rng = np.random.default_rng(5)
    for values in VALUES:
        text = b"\n".join(mutated(rng, long_line(rng, names, values, 0.01)) for _ in range(60))
        assert_read_as_slowly(text, dtype="float64" if values == "long" else "float32")
        assert_read_exactly(text)


@pytest.mark.parametrize("names", RUNS)
def test_one_odd_feature_within_or_at_the_end_of_a_run(names):
    rng = np.random.default_rng(3)
    for values in ("bare", "ones", "mixed"):
        features = [name + VALUES[values][rng.integers(len(VALUES[values]))] for name in RUNS[names](rng, 12)]
        fine = b"1 | " + b" ".join(features)
        lines = [fine]
        for odd in ODD:
            for at in (0, 1, 5, 11):
                spoiled = [feature + (odd if k == at else b"") for k, feature in enumerate(features)]
                lines += [b"0 | " + b" ".join(spoiled), fine]
        assert_read_as_slowly(b"\n".join(lines))


@pytest.mark.parametrize("values", ["bare", "ones", "mixed", "zeros"])
def test_numbers_that_ascend_need_not_be_looked_at_again(values):
    rng = np.random.default_rng(11)
    lines = [long_line(rng, "ascending", values, 0) for _ in range(200)]
    lines = [line for line in lines if line.count(b"|") == 1]
    piece = assert_read_as_slowly(b"\n".join(lines))
    assert piece.bounds is not None
    assert piece.bounds.ones == (values in ("bare", "ones"))
    # A bad line may make the bounds wider, or useless, but leaves nothing else.
    for bad, useful in [(b"0 | 3 5:-12345 7 9 3000000 :", True), (b"0 | 3 2 1 0 :2", False)]:
        worse = assert_read_as_slowly(b"\n".join([lines[0], bad, *lines[1:]]))
        assert (worse.bounds is not None) == useful
        assert (worse.skipped, rows(worse)) == (1, rows(piece))


@pytest.mark.parametrize("line", [b"1 | 5 3", b"1 | 3 3", b"1 | 3 x", b"1 | 3 |a 5", b"1 | 3 123456789", b"1 | 3 |0 2"])
def test_rows_that_do_not_ascend_are_looked_at_again(line):
    assert assert_read_as_slowly(line).bounds is None


def test_the_largest_value_is_that_which_is_kept():
    text = b"1 |0:1.1 3 5:1.1 7:-1.3"
    assert assert_read_as_slowly(text).bounds.largest == np.float32(1.1 * 1.3)
    assert assert_read_as_slowly(text, dtype="float64").bounds.largest == 1.1 * 1.3
    assert float(np.float32(1.1)) > 1.1
    assert assert_read_as_slowly(b"1 | 3:1.1").bounds.largest == np.float32(1.1)
    assert assert_read_as_slowly(b"1 |0:1.1 3").bounds.largest == np.float32(1.1)


def test_indicators_share_one_array_of_ones():
    one, other = parse(b"1 | 3:1 5 7:1\n"), parse(b"1 |a x y:1 z:1.0\n")
    assert np.shares_memory(one.values, other.values)
    for line in (b"1 |a:2 x\n", b"1 |a x:2\n", b"1 | 3 5:2\n", b"1 |0:2 3\n"):
        assert not np.shares_memory(one.values, parse(line).values)


# --- names ----------------------------------------------------------------------------------------------------------


def test_new_names_are_reported_about_once():
    names = FeatureNames(2**22)
    piece = parse(b"1 |a x y z:1 x\n" * 1000, names)
    assert piece.new_names is not None
    assert len(piece.new_names.indices) == 3


def test_known_names_are_not_reported_and_a_full_dictionary_wants_none():
    names = FeatureNames(2**22, limit=2)
    first = parse(b"1 |a x y", names)
    assert first.new_names is not None
    names.add(first.new_names)
    again = parse(b"1 |a y w x", names)
    assert again.new_names is not None
    assert again.new_names.indices.tolist() == [again.indices[1]]
    names.add(again.new_names)
    assert names.full
    assert parse(b"1 |a v", names).new_names is None
    assert parse(b"1 |a v").new_names is None


# --- without hashing ------------------------------------------------------------------------------------------------


def test_in_the_exact_mode_features_are_numbered_as_they_appear():
    rng = np.random.default_rng(5)
    text = b"\n".join(random_line(rng) for _ in range(500))
    names, numbering = FeatureNames(2**22), Numbering(2**22)
    expected: dict[slow_vw.Feature, int] = {}
    for part in (text[: len(text) // 2], text[len(text) // 2 :]):
        piece = parse(part, names, numbering, exact=True)
        assert piece.indices.dtype == np.uint64
        numbering.replace_ids(piece)
        if piece.new_names is not None:
            names.add(piece.new_names)
        slow = slow_vw.read(part)
        kept = [f for e in slow.examples for f in e.features if np.float32(f.value) != 0]
        bare = [slow_vw.Feature(f.space, f.name, f.text, 1) for f in kept]
        assert piece.indices.tolist() == [expected.setdefault(f, len(expected)) for f in bare]
    assert names.name_of(list(expected.values())) == [f.shown for f in expected]
    assert parse(text, names, numbering, exact=True).new_names is None


def test_in_the_exact_mode_crosses_are_features_like_others():
    text = b"1 |ad a b |user u:2 v |w x\n0 |user v |ad b\n1 |user u v |user z"
    names, numbering = FeatureNames(64), Numbering(64)
    cross = (("user", "ad"), ("user", "user"))
    piece = parse(text, names, numbering, exact=True, cross=cross)
    numbering.replace_ids(piece)
    names.add(piece.new_names)
    assert len(numbering) == len(names)
    slow = slow_vw.read(text, rules=cross)
    assert [len(features) for features in slow.features] == np.diff(piece.indptr).tolist()

    def same(name: str) -> frozenset[str]:  # which of two in a namespace is first is a matter of hashes
        return frozenset(name.split(" & "))

    found = [same(name) for name in names.name_of(piece.indices)]
    assert found == [same(name) for features in slow.features for _, _, name in features]


# --- crosses --------------------------------------------------------------------------------------------------------


def crossed(line: bytes, *cross: tuple[str, str]) -> list[str]:
    """The names of a line's crosses."""
    assert_read_as_slowly(line, cross=cross)
    (features,) = slow_vw.read(line, rules=cross).features
    return [name for _, _, name in features if "&" in name]


def test_a_cross_pairs_the_features_of_two_namespaces_in_the_order_of_the_rule():
    line = b"1 |ad x:2 y |user u |other o |user:3 v"
    expected = ["user^u & ad^x", "user^v & ad^x", "user^u & ad^y", "user^v & ad^y"]
    assert crossed(line, ("user", "ad")) == expected
    piece = assert_read_as_slowly(line, cross=(("user", "ad"),))
    assert piece.values[5:].tolist() == [2, 6, 1, 3]


def test_a_namespace_crossed_with_itself_pairs_each_two_once():
    pairs = [set(name.split(" & ")) for name in crossed(b"|w a b c", ("w", "w"))]
    assert pairs == [{"w^a", "w^b"}, {"w^a", "w^c"}, {"w^b", "w^c"}]
    assert len(crossed(b"|w a b a", ("w", "w"))) == 2
    one, other = (parse(text, cross=(("w", "w"),)) for text in (b"|w a b", b"|w b a"))
    assert one.indices[2] == other.indices[2]


def test_a_star_is_every_other_namespace():
    line = b"|a x z |b y | d"
    assert crossed(line, ("*", "b")) == ["a^x & b^y", "a^z & b^y", "d & b^y"]
    assert crossed(line, ("b", "*")) == ["b^y & a^x", "b^y & a^z", "b^y & d"]
    assert len(crossed(line, ("*", "*"))) == 5
    assert crossed(line, (" ", "b")) == ["d & b^y"]
    one, other = (parse(text, cross=(("*", "*"),)) for text in (b"|a x |b y", b"|b y |a x"))
    assert one.indices[2] == other.indices[2]


def test_two_namespaces_are_crossed_once_whatever_rules_say():
    line = b"|a x |b y"
    assert crossed(line, ("a", "b"), ("b", "a"), ("*", "*"), ("a", "*")) == ["a^x & b^y"]
    assert crossed(line, ("b", "a"), ("a", "b")) == ["b^y & a^x"]


def test_a_line_whose_crosses_are_too_large_is_bad_as_a_whole():
    text = b"1 |a x:1e7 |b y:1e7\noops\n0 |a x:1e7 |b y:1e3\n"
    piece = assert_read_as_slowly(text, cross=(("a", "b"),))
    assert [(bad.line, bad.column) for bad in piece.bad_lines] == [(0, 0), (1, 5)]
    assert "product is at most" in piece.bad_lines[0].reason
    assert (piece.skipped, len(piece.indices), piece.tags) == (2, 3, [""])


@pytest.mark.parametrize(
    "line",
    [
        b"1 |a " + b" ".join(b"%d" % k for k in range(2 * int(MAX_ROW_CROSSES**0.5))),
        b"1 " + b"".join(b"|n%d x" % k for k in range(MAX_NAMESPACES + 1)),
    ],
)
def test_a_line_may_not_grow_beyond_all_bounds_by_crosses(line):
    piece = parse(line + b"\n1 |a x y\n", cross=(("a", "a"), ("*", "*")))
    assert [(bad.line, bad.column) for bad in piece.bad_lines] == [(0, 0)]
    assert f"at most {MAX_ROW_CROSSES} pairs" in piece.bad_lines[0].reason
    assert piece.indptr.tolist() == [0, 3]


def test_as_many_pairs_as_a_line_may_have_are_fine():
    side = int(MAX_ROW_CROSSES**0.5)
    assert (side, MAX_ROW_CROSSES) == (256, 65_536)
    a, b = (b" ".join(b"%d" % k for k in range(n)) for n in (side, side + 1))
    piece = parse(b"1 |a %b |b %b\n1 |a %b |b %b\n" % (a, a, a, b), cross=(("a", "b"),))
    assert piece.indptr.tolist() == [0, MAX_ROW_CROSSES + 2 * side]
    assert [bad.line for bad in piece.bad_lines] == [1]


# --- against Vowpal Wabbit ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wabbit():
    vowpalwabbit = pytest.importorskip("vowpalwabbit")
    spaces = {}
    for hash_all in (False, True):
        how = "--hash all" if hash_all else "--hash strings"
        spaces[hash_all] = vowpalwabbit.Workspace(f"-b 22 --noconstant --quiet {how}")
    yield spaces
    for space in spaces.values():
        space.finish()


def read_by_wabbit(wabbit, line: str) -> tuple[float, float, str, list[tuple[int, float]]]:
    """(label, weight, tag, features); VW groups features by the first letter of their namespace, so they are sorted."""
    found = wabbit.parse(line)
    label = found.get_simplelabel_label()
    label = math.nan if label > 3e38 else label
    features = []
    for number in range(found.num_namespaces()):
        space = found.get_ns(number)
        count = found.num_features_in(space)
        features += [(found.feature(space, k) % 2**22, found.feature_weight(space, k)) for k in range(count)]
    result = label, found.get_simplelabel_weight(), found.get_tag(), sorted(features)
    wabbit.finish_example(found)
    return result


@pytest.mark.parametrize("hash_all", [False, True])
def test_vowpal_wabbit_reads_the_lines_that_we_read_as_we_do(wabbit, hash_all):
    rng = np.random.default_rng(11)
    fine = [random_line(rng) for _ in range(3000)]
    compared = 0
    for line in fine + [mutated(rng, line) for line in fine]:
        piece = parse(line, hash_all=hash_all)
        text = line.decode("utf-8", "replace")
        if len(piece.labels) != 1 or "\n" in text or "\ufffd" in text:
            continue
        label, weight, tag, features = read_by_wabbit(wabbit[hash_all], text.removesuffix("\r"))
        ours = sorted(rows(piece)[0])
        assert piece.tags == [tag], line
        assert piece.weights is None or weight == np.float32(piece.weights[0]), line
        assert label == np.float32(piece.labels[0]) or (math.isnan(label) and math.isnan(piece.labels[0])), line
        assert [index for index, _ in ours] == [index for index, _ in features], line
        # VW reads numbers with less care.
        np.testing.assert_allclose([v for _, v in ours], [v for _, v in features], rtol=1e-5, err_msg=str(line))
        compared += 1
    assert compared > 2000
