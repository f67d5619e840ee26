"""Which columns of a table are crossed."""

from __future__ import annotations

from itertools import product
from math import prod

from bayou.core.errors import BadInput
from bayou.recipe.crosses import ANY, written_out
from bayou.recipe.recipe import Column, Recipe
from bayou.sources.table.cells import MOST_PAIRS

_FEATURES = ("category", "flag", "code", "bins", "whole", "values", "numeric", "date", "text")


def crosses(recipe: Recipe) -> list[tuple[int, ...]]:
    """The columns (their numbers in the recipe) that are crossed, each set of them once, "*" written out.

    "*" stands for every other column that gives features. Interactions are those of columns by the first letters of
    their names; a column is not crossed with itself.
    """
    columns = recipe.columns or ()
    places = {column.name: k for k, column in enumerate(columns)}
    features = [k for k, column in enumerate(columns) if column.role in _FEATURES]
    found: dict[frozenset[int], tuple[int, ...]] = {}
    for names in recipe.cross:
        if len(names) == 2 and names[0] == names[1] != ANY:
            raise BadInput(f"cross pairs the column {names[0]!r} with itself; name two different columns.")
        for name in names:
            if name != ANY and (name not in places or places[name] not in features):
                role = columns[places[name]].role if name in places else "not there"
                raise BadInput(f"cross names the column {name!r}, which gives no features: it is {role}.")
        _add(found, [features if name == ANY else [places[name]] for name in names])
    begin: dict[str, list[int]] = {}
    for k in features:
        begin.setdefault(columns[k].name[:1], []).append(k)
    for letters in recipe.interactions:
        if strange := set(letters) - {":", *begin}:
            raise BadInput(
                f"interactions hold {letters!r}, but no column that gives features begins with {min(strange)!r}."
            )
    for term in written_out(recipe.interactions, begin):
        _add(found, [begin[letter] for letter in term])
    return list(found.values())


def _add(found: dict[frozenset[int], tuple[int, ...]], choices: list[list[int]]) -> None:
    for chosen in product(*choices):
        if len(set(chosen)) == len(chosen):
            found.setdefault(frozenset(chosen), chosen)


def check_crosses(recipe: Recipe) -> int:
    """How many features crosses give a row at least, where text is there; refused if that is more than a row may have.

    >>> columns = tuple(Column(name, "category") for name in "abcd")
    >>> check_crosses(Recipe(kind="table", columns=columns, cross=[("*", "*"), ("a", "b", "c")]))
    7
    """
    columns = recipe.columns or ()
    total = sum(prod(_least(columns[c]) for c in chosen) for chosen in crosses(recipe))
    if total > MOST_PAIRS:
        raise BadInput(
            f"the crosses would give every row {total:,} features, and a row may have {MOST_PAIRS:,} of them; cross "
            "fewer columns."
        )
    return total


def _least(column: Column) -> int:
    """How many features a column gives a row, at least."""
    return len(column.parts) if column.role == "date" else 1
