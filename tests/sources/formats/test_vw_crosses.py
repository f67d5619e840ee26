"""Crosses of VW text beyond pairs: three namespaces, Vowpal Wabbit's -q and its kin, and namespaces left out."""

import re
import subprocess
import sys

import numpy as np
import pytest

from bayou.core.errors import BadInput
from bayou.recipe.crosses import MAX_ROW_CROSSES, written_out
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.numbering import Numbering
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.vw.higher_crosses import MOST_TRIPLED
from tests.sources import slow_vw
from tests.sources.formats.test_vw import assert_read_as_slowly, mutated, parse, random_line, rows

TRIPLES = [
    (("user", "*", "a"),),
    (("*", "*", "*"),),
    (("w", "*", "user"), ("ad", "*", "*"), ("user", "ad")),
    ((" ", "7", "*"),),
]
INTERACTIONS = [("ua",), ("aa",), ("::",), ("a:", ":u", "ua"), ("uaw", "aua"), (":::",), (" a:", "7::"), ("uaaw", "wa")]


@pytest.mark.parametrize("cross", TRIPLES)
def test_three_namespaces_are_crossed_as_slowly(cross):
    rng = np.random.default_rng(1)
    text = b"\n".join(random_line(rng) for _ in range(300))
    assert_read_as_slowly(text, cross=cross)
    slow = slow_vw.read(text, rules=cross)
    assert sum(name.count(" & ") == 2 for features in slow.features for _, _, name in features) > 3
    more = {"interactions": ("ua",), "ignore": ("w",)}
    assert_read_as_slowly(text, cross=cross, bits=5, dtype="float64", hash_all=True, **more)


@pytest.mark.parametrize("interactions", INTERACTIONS)
def test_first_letters_are_crossed_as_slowly(interactions):
    rng = np.random.default_rng(2)
    fine = [random_line(rng) for _ in range(150)]
    text = b"\n".join(fine + [mutated(rng, line) for line in fine])
    piece = assert_read_as_slowly(text, interactions=interactions)
    assert 20 < piece.skipped < 280
    assert_read_as_slowly(text, interactions=interactions, bits=6, dtype="float64", hash_all=True, ignore=("a",))


def test_three_namespaces_are_crossed_once_in_the_order_of_the_first_rule():
    line = b"|a x:2 |b y:3 |c z:5 w"
    names = FeatureNames(2**22)
    piece = parse(line, names, cross=(("c", "a", "b"), ("*", "*", "*"), ("b", "a", "*")))
    names.add(piece.new_names)
    assert names.name_of(piece.indices)[4:] == ["c^z & a^x & b^y", "c^w & a^x & b^y"]
    assert piece.values[4:].tolist() == [30, 6]


def test_in_the_exact_mode_crosses_of_three_have_their_names():
    names, numbering = FeatureNames(64), Numbering(64)
    piece = parse(b"|ad x y |bd u |cd w", names, numbering, exact=True, interactions=("abc",), cross=(("bd", "ad"),))
    numbering.replace_ids(piece)
    names.add(piece.new_names)
    expected = [
        "ad^x",
        "ad^y",
        "bd^u",
        "cd^w",
        "bd^u & ad^x",
        "bd^u & ad^y",
        "ad^x & bd^u & cd^w",
        "ad^y & bd^u & cd^w",
    ]
    assert names.name_of(piece.indices) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"1 |a " + b" ".join(b"%d" % k for k in range(100)),
        b"1 " + b"".join(b"|n%d x" % k for k in range(MOST_TRIPLED + 1)),
    ],
)
def test_a_line_may_not_grow_beyond_all_bounds(line):
    piece = parse(line + b"\n1 |a x |n y\n", cross=(("*", "*", "*"),), interactions=("aaa",))
    assert [(bad.line, bad.column) for bad in piece.bad_lines] == [(0, 0)]
    assert f"at most {MAX_ROW_CROSSES} pairs" in piece.bad_lines[0].reason
    assert piece.indptr.tolist() == [0, 3]


def test_a_product_that_is_too_large_makes_a_line_bad():
    piece = assert_read_as_slowly(b"1 |a x:1e7\n1 |a y:1e6 |b u", interactions=("aa", "ab"))
    assert [bad.line for bad in piece.bad_lines] == [0]
    assert_read_as_slowly(b"1 |a x:1e5 |b y:1e5 |c z:1e5\n1 |a x |b y |c z", cross=(("a", "b", "c"),))


def test_namespaces_are_left_out_by_their_first_letter():
    text = b"1 |ad x 3:2 red:blue |b y | 7 8 9 |a z\n0 |b y:oops |ad q\n1 |ad x:- |b y\n1 |ad 5"
    piece = assert_read_as_slowly(text, ignore=("a",))
    assert np.diff(piece.indptr).tolist() == [4, 1, 0]
    assert (piece.skipped, piece.bad_lines[0].line) == (1, 2)  # a line must be fine as a whole
    assert_read_as_slowly(text, ignore=("a", " "), interactions=("::",))
    assert np.diff(parse(text, ignore=("a", "b", " ")).indptr).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"ignore": ["user"]}, "one per entry: u ignores .* reads user as u, s, e, r"),
        ({"interactions": ["a"]}, "first letters of two to 8"),
        ({"interactions": ["a\u00e9"]}, "first letters"),
        ({"interactions": ["a:bc"]}, "without a colon"),
        ({"interactions": "ab"}, "a list of first letters"),
        ({"cross": [("a", "b", "a")]}, "differ from one another"),
        ({"cross": [("a", "b", "c", "d")]}, "a pair or triple of names"),
    ],
)
def test_what_cannot_be_crossed_or_left_out(parts, words):
    with pytest.raises(BadInput, match=words):
        Recipe(kind="vw", **parts)


def test_letters_are_written_out_as_slowly():
    rng = np.random.default_rng(3)
    for _ in range(300):
        terms = ["".join(rng.choice(list("abc::"), rng.integers(2, 4))) for _ in range(rng.integers(1, 4))]
        letters = set("abcd"[: rng.integers(1, 5)])
        assert written_out(terms, letters) == slow_vw.written_out(tuple(terms), letters)


# --- against Vowpal Wabbit ------------------------------------------------------------------------------------------


def audited(path, *flags: str) -> list[list[tuple[int, float]]]:
    """The features of each line as Vowpal Wabbit shows them."""
    command = [sys.executable, "-m", "vowpalwabbit", "-d", str(path), "--audit", "-b", "18", "--noconstant", "--quiet"]
    said = subprocess.run([*command, *flags], capture_output=True, text=True, check=True).stdout
    found = []
    for line in re.sub(r"^-?[\d.]+.*\n", "", said, flags=re.MULTILINE).split("\n"):
        if line.startswith("\t"):
            parts = (feature.rsplit("@", 1)[0].rsplit(":", 3) for feature in line.split("\t") if feature)
            found.append(sorted((int(index), float(value)) for _, index, value, _ in parts))
    return found


@pytest.fixture(scope="module")
def wabbit_lines(tmp_path_factory):
    """A thousand lines with namespaces, weights, tags, values, numbers and texts."""
    pytest.importorskip("vowpalwabbit")
    rng = np.random.default_rng(4)
    spaces = [b"user", b"ad", b"age:0.5", b"u2", b"", b"7x", b"site"]
    names = [b"x", b"y:2", b"z:0.25", b"17", b"18:3", b"city:rome", b"a_long_name_it_is", b"\xc3\xa9:-1.5"]
    heads = [b"1 ", b"-1 ", b"0.5 2 ", b"1 .25 'tag ", b"-1 tag"]
    lines = []
    for _ in range(1000):
        line = heads[rng.integers(len(heads))]
        for space in rng.permutation(len(spaces))[: rng.integers(1, 5)]:
            line += b"|" + spaces[space] + b" "
            line += b" ".join(names[k] for k in rng.integers(len(names), size=rng.integers(1, 4))) + b" "
        lines.append(line)
    path = tmp_path_factory.mktemp("wabbit") / "lines.vw"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize(
    "flags",
    [
        ("-q", "ua"), ("-q", "au", "-q", "ss", "--cubic", "sau"), ("-q", "::"), ("--cubic", "a:u", "-q", ":7"),
        ("--cubic", ":::", "--ignore", "s"), ("--interactions", "uasu", "--interactions", "us", "--cubic", "u::"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_features_are_those_of_vowpal_wabbit(wabbit_lines, flags):
    given = list(zip(flags[::2], flags[1::2], strict=True))
    interactions = tuple(letters for flag, letters in given if flag != "--ignore")
    ignore = tuple(letters for flag, letters in given if flag == "--ignore")
    ours = rows(parse(wabbit_lines.read_bytes(), bits=18, interactions=interactions, ignore=ignore))
    theirs = audited(wabbit_lines, *flags)
    assert len(ours) == 1000
    if ignore:  # of a line without features nothing is shown
        ours = [row for row in ours if row]
    assert len(theirs) == len(ours)
    for mine, their in zip(ours, theirs, strict=True):
        assert [index for index, _ in sorted(mine)] == [index for index, _ in their]
        np.testing.assert_allclose([v for _, v in sorted(mine)], [v for _, v in their], rtol=1e-5)


@pytest.mark.parametrize(
    "terms",
    [
        ("a:", ":a"), ("7:", ":7"), (":7", "::", "a7"), (":::", "acb"), (":::", "7::"), ("7::", "a::"), ("ab:", ":ba"),
        (":b:", "a:c"), (":a7", "aa", "b7:"), ("c77", ":c7", "b:c"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_colons_are_written_out_as_vowpal_wabbit_does(tmp_path, terms):
    pytest.importorskip("vowpalwabbit")
    path = tmp_path / "line.vw"
    path.write_bytes(b"1 |a x |b u:2 |c w |7 k\n")
    (ours,) = rows(parse(path.read_bytes(), bits=18, interactions=terms))
    assert [sorted(ours)] == audited(path, *(flag for term in terms for flag in ("--interactions", term)))
