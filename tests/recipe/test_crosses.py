"""Crosses of columns: which there are, how many, and what their features are called."""

import numpy as np
import pytest

from bayou.core.errors import BadInput
from bayou.recipe.crosses import check_column_crosses, column_crosses
from bayou.recipe.feature_names import FeatureNames
from bayou.recipe.recipe import Column, Recipe
from tests.sources.tables import COLUMNS, NAMES, parse

FEW = (Column("y", "label"), *(Column(name, "category") for name in ("ab", "ac", "b", "c")))


def crossed(**how) -> list[str]:
    """Columns crossed, by their names."""
    return ["*".join(FEW[c].name for c in some) for some in column_crosses(Recipe(kind="table", columns=FEW, **how))]


def test_three_columns_are_crossed_once_in_the_order_of_the_first_rule():
    assert crossed(cross=[("c", "ab", "b"), ("ab", "b", "c"), ("c", "ab")]) == ["c*ab*b", "c*ab"]
    assert crossed(cross=[("b", "*", "ac")]) == ["b*ab*ac", "b*c*ac"]
    assert len(crossed(cross=[("*", "*", "*")])) == 4


def test_interactions_name_columns_by_their_first_letters():
    assert crossed(interactions=["ba"]) == ["b*ab", "b*ac"]
    assert crossed(interactions=["aa", "aab"]) == ["ab*ac", "ab*ac*b"]
    assert len(crossed(interactions=["::"])) == 6
    assert crossed(interactions=["cb"], cross=[("b", "c")]) == ["b*c"]
    with pytest.raises(BadInput, match="'bz', but no column that gives features begins with 'z'"):
        crossed(interactions=["bz"])
    with pytest.raises(BadInput, match="begins with 'y'"):
        crossed(interactions=["by"])


def test_more_crosses_than_a_row_may_have_are_refused_before_the_first_row():
    columns = tuple(Column(f"c{k}", "category") for k in range(400))
    with pytest.raises(BadInput, match=r"every row 79,800 features, but the limit is 65,536"):
        check_column_crosses(Recipe(kind="table", columns=columns, cross=[("*", "*")]))
    assert check_column_crosses(Recipe(kind="table", columns=columns[:300], cross=[("*", "*")])) == 44_850
    text = "y," + ",".join(f"c{k}" for k in range(400)) + "\n1" + ",a" * 400 + "\n"
    with pytest.raises(BadInput, match="cross fewer columns"):
        parse(text.encode(), Recipe(kind="table", interactions=["::"]))


@pytest.mark.parametrize("exact", [False, True])
def test_features_of_three_columns_have_the_names_of_all(exact):
    names = FeatureNames(2**20)
    recipe = Recipe(kind="table", bits=20, columns=COLUMNS, cross=[("said", "city", "age"), ("on", "id")], exact=exact)
    row = ",".join(NAMES).encode() + b"\n1,1,Rome,true,7,0.5,44,12,so it is,x\n"
    piece, _ = parse(row, recipe, names=None if exact else names)
    if exact:
        assert len(np.unique(piece.indices)) == len(piece.indices) == 17
        return
    names.add(piece.new_names)
    assert names.name_of(piece.indices)[-7:] == [
        "on=true & id=7",
        "said=so & city=Rome & age in [30,65)", "said=so & city=Rome & age=44",
        "said=it & city=Rome & age in [30,65)", "said=it & city=Rome & age=44",
        "said=is & city=Rome & age in [30,65)", "said=is & city=Rome & age=44",
    ]  # fmt: skip
