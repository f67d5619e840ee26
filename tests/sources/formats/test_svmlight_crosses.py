"""Crosses of svmlight's features by named ranges."""

import numpy as np
import pytest

from bayou.core.errors import BadInput
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.svmlight import SvmlightParser
from tests.sources import slow_svmlight
from tests.sources.formats.test_svmlight import block_of

RANGES = (("bare", 1, 4), ("age", 5, 5), ("again", 6, 20), ("c", 30, 99))
CASES = [
    {"cross": (("bare", "c"),)},
    {"cross": (("*", "*"), ("c", "c"))},
    {"cross": (("age", "*"), (" ", "bare", "c"))},
    {"cross": (("*", "*", "*"),)},
    {"interactions": ("ab", "::")},
    {"interactions": ("cab", "aa"), "cross": (("c", "bare"),)},
]


def text_of(rng: np.random.Generator, n: int = 200) -> bytes:
    lines = []
    for _ in range(n):
        indices = rng.choice(120, rng.integers(0, 9), replace=False)
        values = rng.choice([1, 1, 2, 0.5, -3, 0], len(indices))
        lines.append(b"1 " + b" ".join(b"%d:%g" % pair for pair in zip(indices, values, strict=True)))
    return b"\n".join([*lines[: n // 2], b"1 3:x", *lines[n // 2 :]]) + b"\n"


@pytest.mark.parametrize("how", CASES, ids=str)
def test_crosses_of_ranges_are_those_of_the_slow_reference(how):
    text = text_of(np.random.default_rng(1))
    for bits, dtype in ((22, "float64"), (7, "float32")):
        recipe = Recipe(kind="svmlight", bits=bits, ranges=RANGES, **how)
        piece = SvmlightParser(recipe, dtype).parse(block_of(text))
        rows, bad = slow_svmlight.parse(text, 2**bits)
        assert (piece.skipped, len(bad), len(rows)) == (1, 1, 200)
        made = 0
        for row, start, stop in zip(rows, piece.indptr, piece.indptr[1:], strict=False):
            more = slow_svmlight.crossed(row.features, RANGES, **how)
            expected = [(i % 2**bits, v) for i, v in [*row.features, *more]]
            assert (
                list(zip(piece.indices[start:stop].tolist(), piece.values[start:stop].tolist(), strict=True))
                == expected
            )
            made += len(more)
        assert made > 50


def test_crosses_have_names_and_features_keep_their_numbers():
    names = FeatureNames(2**22)
    recipe = Recipe(kind="svmlight", ranges=RANGES, cross=[("c", "bare"), (" ", "age"), ("c", "bare", "age")])
    parser = SvmlightParser(recipe, names=names)
    piece = parser.parse(block_of(b"1 2:1 5:2 40:3 200:1\n0 2:1 40:1\n"))
    names.add(piece.new_names)
    assert names.name_of(piece.indices) == [
        None, None, None, None, "c^40 & bare^2", "200 & age^5", "c^40 & bare^2 & age^5", None, None, "c^40 & bare^2",
    ]  # fmt: skip
    assert piece.values[4:7].tolist() == [3, 2, 6]
    assert parser.parse(block_of(b"1 2:1 40:1\n")).new_names is None
    assert parser.parse(block_of(b"1\n")).indptr.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"cross": [("a", "b")]}, "ranges='a=1-10"),
        ({"interactions": ["ab"]}, "ranges='a=1-10"),
        ({"ranges": [("a", 1, 10), ("b", 10, 12)]}, "a and b both have feature 10"),
        ({"ranges": [("a", 5, 2)]}, "the last feature of range a"),
        ({"ranges": [("a", 5, 2**30)]}, "the last feature of range a"),
        ({"ranges": [("a", 1, 2), ("a", 3, 4)]}, "two ranges have the same name"),
        ({"ranges": [("*", 1, 2)]}, "a name, a first and a last"),
        ({"ranges": ["a"]}, "a name, a first and a last"),
        ({"ranges": [("a", 1, 2)], "cross": [("a", "z")]}, "the ranges are a"),
        ({"ranges": [("a", 1, 2)], "cross": [("a", "*")], "exact": True}, "keep their numbers"),
        ({"ranges": [("a", 1, 2)], "kind": "vw"}, "numbered features"),
    ],
)
def test_ranges_that_cannot_be(parts, words):
    with pytest.raises(BadInput, match=words):
        Recipe(**{"kind": "svmlight", **parts})


def test_a_recipe_with_ranges_comes_back_from_json():
    recipe = Recipe(kind="svmlight", ranges=RANGES, interactions=["ab"])
    assert Recipe.from_json(recipe.to_json()) == recipe
