"""Recipe: checked when it is made, the same after JSON, and compared in words."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayou.core.errors import BadInput, BadModel
from bayou.recipe.recipe import ROLES, Column, Recipe

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.builds(
    Column,
    st.text(max_size=5),
    st.sampled_from(list(ROLES)),
    edges=st.lists(FLOATS, unique=True, max_size=5).map(sorted).map(tuple),
    centre=FLOATS,
    scale=FLOATS.filter(lambda x: x > 0),
)
RECIPES = st.builds(
    Recipe,
    kind=st.just("table"),
    bits=st.integers(1, 31),
    exact=st.booleans(),
    cross=st.lists(st.tuples(st.text(min_size=1, max_size=3), st.text(min_size=1, max_size=3)), max_size=3),
    label=st.none() | st.just("label"),
    positive=st.none() | st.text(max_size=4),
    ignore=st.lists(st.just("ignored"), max_size=2),
    bins=st.integers(0, 1000),
    slope=st.sampled_from(["rank", "raw"]),
    negative_rate=st.floats(min_value=1e-9, max_value=1.0),
    columns=st.none() | st.lists(COLUMNS, max_size=4).map(tuple),
)


@given(RECIPES)
def test_json_brings_back_every_bit(recipe: Recipe) -> None:
    plain = json.loads(json.dumps(recipe.to_json()))
    assert plain == recipe.to_json()
    again = Recipe.from_json(plain)
    assert again == recipe
    assert hash(again) == hash(recipe)
    assert recipe.differences(again) == []


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"kind": "spreadsheet"}, "kind is 'spreadsheet'; it must be one of 'svmlight', 'vw', 'table'"),
        ({"bits": 32}, "bits is 32; it must be a whole number from 1 to 31"),
        ({"bins": -1}, "bins is -1"),
        ({"exact": 1}, "exact is 1; it must be True or False"),
        ({"negative_rate": 1.5}, "negative_rate is 1.5"),
        ({"positive": "a", "label_above": 1.0}, "cannot be combined"),
        ({"label_above": float("nan")}, "label_above is nan"),
        ({"ignore": "abc"}, "ignore is 'abc'; it must be a list of column names"),
        ({"cross": [("a",)]}, "a pair or triple of names"),
        ({"cross": ["ab"]}, "a pair or triple of names"),
        ({"label": "a", "ignore": ["a"]}, "'a' is named by both label and ignore"),
        ({"label": 3}, "label is 3; it must be text"),
        ({"label": "\udcff"}, "label is .* UTF-8 can encode"),
        ({"positive": "\udcff"}, "positive is .* UTF-8 can encode"),
        ({"ignore": ["a", "\udcff"]}, "ignore is .* UTF-8 can encode"),
        ({"cross": [("a", "\udcff")]}, "cross is .* UTF-8 can encode"),
        ({"kind": "vw", "label": "a"}, "vw data have no columns"),
        ({"kind": "svmlight", "cross": [("a", "b")]}, "svmlight data have neither"),
        ({"kind": "vw", "columns": ()}, "only a table has columns"),
        ({"decimal": "dot"}, "decimal is 'dot'; it must be one of 'point', 'comma'"),
        ({"slope": "log"}, "slope is 'log'; it must be one of 'rank', 'raw'"),
        ({"kind": "vw", "slope": "raw"}, "slope applies to a table's columns of numbers; vw data have none"),
        ({"kind": "vw", "missing": ["x"]}, "missing and decimal apply to the cells of a table"),
        ({"missing": "x"}, "missing is 'x'; it must be a list of texts"),
        ({"missing": ["x" * 101]}, "missing holds a text of 101 bytes"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(parts: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Recipe(**{"kind": "table", **parts})


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"role": "bin"}, "the role of column .* must be one of"),
        ({"role": "bins", "edges": (2.0, 1.0)}, "ascend"),
        ({"role": "bins", "edges": (float("inf"),)}, "finite"),
        ({"role": "numeric", "scale": 0.0}, "scale"),
        ({"role": "numeric", "centre": float("inf")}, "centre"),
        (
            {"role": "bins", "knots": (2.0, 1.0), "levels": (0.0, 1.0)},
            "knots of its slope must be finite",
        ),
        ({"role": "bins", "knots": (2.0, 3.0)}, "at least two knots, and a level for each"),
        ({"role": "bins", "knots": (2.0,), "levels": (0.5,)}, "at least two knots"),
        ({"role": "code", "knots": (2.0, 3.0), "levels": (0.0, 1.0)}, "is code, which has no slope"),
        ({"role": "bins", "raw_knots": (2.0, 3.0), "raw_levels": (0.5,)}, "at least two knots, and a level for each"),
        ({"role": "date", "raw_knots": (2.0, 3.0), "raw_levels": (0.0, 1.0)}, "is date, which has no slope"),
        ({"role": "date", "parts": ("year",)}, "a part of column 'a' is 'year'; it must be one of 'hour'"),
    ],
)
def test_columns_that_cannot_be(parts: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Column("a", **parts)


@pytest.mark.parametrize("parts", [{"kind": "table"}, {"kind": "table", "edition": 3}, {"kind": "vw", "edition": 2}])
def test_a_recipe_of_other_rules_is_refused(parts: dict) -> None:
    with pytest.raises(BadModel, match="rules that this version of bayou does not know"):
        Recipe.from_json(parts)


def test_marks_are_added_or_cleared() -> None:
    assert Recipe(kind="table").marks[:2] == ("na", "n/a")
    assert Recipe(kind="table", missing=["-999"]).marks[-2:] == ("\\n", "-999")
    assert Recipe(kind="table", missing=["", "x"]).marks == ("x",)


def test_only_tables_need_a_fit() -> None:
    assert Recipe(kind="svmlight").fitted
    assert Recipe(kind="vw").fitted
    assert not Recipe(kind="table").fitted
    assert Recipe(kind="table", columns=()).fitted


@pytest.mark.parametrize("plain", [[], {"kind": "table", "colour": 1}, {"bits": "many"}, {"columns": [{"nam": "a"}]}])
def test_damaged_recipes_are_refused(plain: object) -> None:
    with pytest.raises(BadModel):
        Recipe.from_json(plain)


def test_differences_in_words() -> None:
    columns = (Column("a", "bins", edges=(1.0,)), Column("b", "category"))
    recipe = Recipe(kind="table", label="y", columns=columns)
    assert recipe.differences(replace(recipe, label=None, ignore=("c",))) == [
        "label is y in one and not given in the other",
        "ignore is nothing in one and c in the other",
    ]
    other = (Column("a", "bins", edges=(2.0,)), Column("b", "text"), Column("c", "category"))
    assert recipe.differences(replace(recipe, columns=other)) == [
        "column 'c' is only in one",
        "column 'a' is bins in both, fitted to other numbers",
        "column 'b' is category in one and text in the other",
    ]
    assert recipe.differences(replace(recipe, columns=columns[::-1])) == ["the columns are in a different order"]
    assert recipe.differences(replace(recipe, columns=None)) == ["columns is fitted in one and not fitted in the other"]
    crossed = replace(recipe, cross=(("a", "b"),))
    assert crossed.differences(recipe) == ["cross is a:b in one and nothing in the other"]
