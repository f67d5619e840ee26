"""What columns are taken for, where bins are cut, and what is said when an option does not fit the table."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayou.core.errors import BadInput
from bayou.core.recipe import MAX_BINS, Recipe
from bayou.sources.table.column_types import centre_and_scale, crosses, quantile_edges
from tests.sources.tables import parse

NUMBERS = st.lists(st.one_of(st.integers(-5, 5).map(float), st.floats(-1e300, 1e300)), max_size=200).map(np.array)


def roles(table: bytes, /, **options) -> dict[str, str]:
    recipe = parse(table, Recipe(kind="table", **options))[1]
    return {column.name: column.role for column in recipe.columns}


def test_columns_are_what_they_look_like() -> None:
    text = (
        b"y,id,share,ok,city,said,none,mixed,gaps\n"
        b"1,17,0.5,true,Paris,this is a long text of many words,,7,3\n"
        b"0,-3,2,False,Rome,and here is another one of those,,x,NA\n"
        b"0,007,-1e3,TRUE,,short now but long on average,,8,\n"
    )
    assert roles(text) == {
        "y": "label",
        "id": "whole",
        "share": "bins",
        "ok": "flag",
        "city": "category",
        "said": "text",
        "none": "category",
        "mixed": "category",
        "gaps": "whole",
    }
    numeric = roles(text, bins=0)
    assert [numeric[name] for name in ("id", "share", "gaps", "city")] == ["numeric"] * 3 + ["category"]


def test_options_overrule_the_looks() -> None:
    table = b"y,id,share,city,said,k\n1,17,0.5,Paris,a b,2\n0,18,0.7,Rome,c,1\n"
    assert roles(table, category=["id"], numeric=["share"], text=["said"], weight="k", ignore=["city"]) == {
        "y": "label",
        "id": "category",
        "share": "numeric",
        "city": "ignored",
        "said": "text",
        "k": "weight",
    }


@pytest.mark.parametrize("name", ["label", "target", "y"])
def test_the_label_is_found_by_its_usual_names(name: str) -> None:
    assert roles(b"a,%b\nx,1\nz,0\n" % name.encode())[name] == "label"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "nope"}, "label names the column 'nope', which is not there; the columns are a, b, c"),
        ({}, "say with --label which column is to be predicted; the columns are a, b, c"),
        ({"label": "a", "ignore": ["x", "b"]}, "ignore names the column 'x'"),
        ({"label": "a", "cross": [("b", "zz")]}, "cross names the column 'zz'"),
        ({"label": "a", "cross": [("b", "b")]}, "'b' with itself"),
        ({"label": "a", "ignore": ["c"], "cross": [("b", "c")]}, "gives no features: it is ignored"),
        ({"label": "b", "task": "regression"}, "'b', holds 'u', but what is to be predicted are numbers"),
        ({"label": "a", "numeric": ["b"]}, "column 'b' cannot be numeric: it holds 'u'"),
        ({"label": "c", "label_above": 3}, "--label-above needs numbers"),
    ],
)
def test_what_does_not_fit_the_table_is_said(options: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        roles(b"a,b,c\n1,u,true\n0,v,false\n", **options)


def test_a_few_strange_labels_are_bad_rows_not_a_refusal() -> None:
    piece, _ = parse(b"y,a\n1,x\noops,x\n0,x\n", Recipe(kind="table"))
    assert (len(piece.labels), piece.skipped) == (2, 1)


def test_crosses_with_a_star() -> None:
    recipe = parse(b"y,a,b,c\n1,u,2,w\n", Recipe(kind="table", cross=[("b", "*"), ("a", "b"), ("*", "*")]))[1]
    assert crosses(recipe) == [(2, 1), (2, 3), (1, 3)]


@example(np.array([0.0, 0.0, 0.0, -1.0, -2.0]), 3)  # two rare values below a frequent one
@given(NUMBERS, st.integers(1, 30))
def test_edges_cut_into_at_most_so_many_bins_none_of_them_empty(numbers: np.ndarray, bins: int) -> None:
    edges = np.array(quantile_edges(numbers, bins))
    assert len(edges) < bins
    assert (np.diff(edges) > 0).all()
    if len(numbers):
        counts = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
        assert (counts > 0).all()
        # few values have a bin each
        assert len(edges) == min(len(np.unique(numbers)), bins) - 1 or len(np.unique(numbers)) > bins


def test_bins_hold_about_equally_many() -> None:
    numbers = np.random.default_rng(0).normal(size=10_000)
    for bins in (2, 10, 20, 50, MAX_BINS):
        counts = np.bincount(np.searchsorted(quantile_edges(numbers, bins), numbers, side="right"))
        assert len(counts) == bins
        assert abs(counts - 10_000 / bins).max() <= 1


def test_a_frequent_value_leaves_the_other_bins_to_the_rest() -> None:
    numbers = np.concatenate([np.zeros(9_000), np.arange(1, 1_001)])
    counts = np.bincount(np.searchsorted(quantile_edges(numbers, 11), numbers, side="right"))
    assert counts.tolist() == [9_000] + [100] * 10


@given(NUMBERS)
def test_scales_are_positive_and_finite(numbers: np.ndarray) -> None:
    centre, scale = centre_and_scale(numbers)
    assert np.isfinite(centre)
    assert 0 < scale < np.inf
