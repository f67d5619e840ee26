"""Groups: which column or namespace a non-zero is of, as a byte; for learners that tell those apart.

    0               of no column: crosses, and what stands outside of all ranges
    columns         of a table: 1, 2, ... in the order of the recipe's columns that give features, beginning again
                    behind 255
    ranges          of svmlight data: likewise, in the order of the ranges
    names           of whatever namespaces (VW text) or keys (JSON objects, dictionaries): those that are crossed by
                    name have 1, 2, ... in the order in which they are named first; any other has a number behind
                    those, by its hash

All are functions of the recipe and the name alone, so that files, shards and resumed runs agree. Readers work them out
for whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix
from bayou.recipe.crosses import ANY
from bayou.recipe.recipe import Recipe

# The largest number of a group.
LAST = 255
NONE = np.empty(0, np.uint8)


def in_turn(n: int) -> np.ndarray:
    """The numbers of n columns or ranges.

    >>> in_turn(3), in_turn(257)[-3:]
    (array([1, 2, 3], dtype=uint8), array([255,   1,   2], dtype=uint8))
    """
    return (1 + np.arange(n) % LAST).astype(np.uint8)


def of_columns(recipe: Recipe) -> dict[str, int]:
    """The numbers of a fitted table's columns, those that give features, by their names.

    >>> from bayou.recipe.recipe import Column
    >>> of_columns(Recipe("table", columns=[Column("age", "numeric"), Column("y", "label"), Column("ad", "category")]))
    {'age': 1, 'ad': 2}
    """
    names = [column.name for column in recipe.columns or () if column.gives]
    return dict(zip(names, in_turn(len(names)).tolist(), strict=True))


def columns_by_group(recipe: Recipe) -> dict[int, str]:
    """What a fitted table's columns are called, by their numbers; one that several share has the names of all.

    >>> from bayou.recipe.recipe import Column
    >>> columns_by_group(Recipe("table", columns=[Column("age", "numeric"), Column("ad", "category")]))
    {1: 'age', 2: 'ad'}
    """
    found: dict[int, str] = {}
    for name, group in of_columns(recipe).items():
        found[group] = f"{found[group]}, {name}" if group in found else name
    return found


def named_in(cross: Iterable[Iterable[str]], key_of: Callable[[str], int]) -> np.ndarray:
    """The keys (hashes, say) of the names that have numbers of their own, in the order of these: for `group_of`."""
    names = dict.fromkeys(name for names in cross for name in names if name != ANY)
    keys = dict.fromkeys(key_of(name) for name in names)
    return np.array(list(keys)[: LAST - 1], np.uint64)


def crossed_in(recipe: Recipe) -> Any:
    """Which groups a recipe's pairs are of, as `Bank` takes it: those of different columns where it names none.

    >>> crossed_in(Recipe("vw", pairs=[("user", "ad")])), crossed_in(Recipe("vw")), crossed_in(Recipe("table"))
    ([[1, 2]], 'all', 'columns')
    """
    if not recipe.pairs:
        return "columns" if recipe.kind == "table" else "all"
    if (ANY, ANY) in recipe.pairs:
        return "columns"
    if recipe.kind == "table":
        numbers = of_columns(recipe)
    elif recipe.kind == "svmlight":
        numbers = dict(zip([name for name, _, _ in recipe.ranges], in_turn(len(recipe.ranges)).tolist(), strict=True))
        numbers[" "] = 0
    else:
        named = dict.fromkeys(name for names in recipe.pairs for name in names if name != ANY)
        numbers = {name: k + 1 for k, name in enumerate(named)}
    found = set()
    for names in recipe.pairs:
        for name in names:
            if name != ANY and name not in numbers:
                raise BadInput(f"cross names {name!r}, which gives no features; there are {', '.join(numbers)}.")
        one, other = (range(LAST + 1) if name == ANY else [numbers[name]] for name in names)
        found |= {(min(g, h), max(g, h)) for g in one for h in other if g != h or ANY not in names}
    return [list(pair) for pair in sorted(found)]


@kernel
def group_of(key, named):  # noqa: ANN201
    """The number of a name, by its key. Keys are mixed: the features of a name have its key's bits."""
    for k in range(named.size):
        if named[k] == key:
            return np.uint8(k + 1)
    share = mix(np.uint64(key) + GOLDEN) >> np.uint64(32)  # of 2^32: a product is quicker than a remainder
    return np.uint8(np.uint64(named.size + 1) + (share * np.uint64(LAST - named.size) >> np.uint64(32)))


@kernel
def groups_of(keys, named, groups):  # noqa: ANN201
    """The number of each key; those of neighbours are mostly the same."""
    for k in range(keys.size):
        groups[k] = groups[k - 1] if k and keys[k] == keys[k - 1] else group_of(keys[k], named)
