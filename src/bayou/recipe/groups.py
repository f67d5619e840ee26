"""Groups: the column or namespace of each non-zero as a byte, for learners that distinguish columns.

    0               no column: crosses, and features outside of all ranges
    columns         of a table: 1, 2, ... in the order of the recipe's columns that give features, starting over
                    after 255
    ranges          of svmlight data: likewise, in the order of the ranges
    names           of namespaces (VW text) or keys (JSON objects, dictionaries): those that are crossed by name have
                    1, 2, ... in the order of their first mention; any other has a larger number, by its hash

Groups depend only on the recipe and the name, so that files, shards and resumed runs agree. Readers compute them on
request.
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

# The largest group.
LAST = 255
NONE = np.empty(0, np.uint8)


def sequential_groups(n: int) -> np.ndarray:
    """Return the groups of n columns or ranges.

    >>> sequential_groups(3), sequential_groups(257)[-3:]
    (array([1, 2, 3], dtype=uint8), array([255,   1,   2], dtype=uint8))
    """
    return (1 + np.arange(n) % LAST).astype(np.uint8)


def groups_by_column(recipe: Recipe) -> dict[str, int]:
    """Return the groups of a fitted table's columns that give features, by name.

    >>> from bayou.recipe.recipe import Column
    >>> columns = [Column("age", "numeric"), Column("y", "label"), Column("ad", "category")]
    >>> groups_by_column(Recipe("table", columns=columns))
    {'age': 1, 'ad': 2}
    """
    names = [column.name for column in recipe.columns or () if column.gives]
    return dict(zip(names, sequential_groups(len(names)).tolist(), strict=True))


def columns_by_group(recipe: Recipe) -> dict[int, str]:
    """Return the column names of a fitted table by group; a group of several columns has all their names.

    >>> from bayou.recipe.recipe import Column
    >>> columns_by_group(Recipe("table", columns=[Column("age", "numeric"), Column("ad", "category")]))
    {1: 'age', 2: 'ad'}
    """
    by_group: dict[int, str] = {}
    for name, group in groups_by_column(recipe).items():
        by_group[group] = f"{by_group[group]}, {name}" if group in by_group else name
    return by_group


def group_keys(cross: Iterable[Iterable[str]], key_of: Callable[[str], int]) -> np.ndarray:
    """Return the keys (hashes, say) of the names that have groups of their own, in their order, for `group_of`."""
    names = dict.fromkeys(name for names in cross for name in names if name != ANY)
    keys = dict.fromkeys(key_of(name) for name in names)
    return np.array(list(keys)[: LAST - 1], np.uint64)


def crossed_groups(recipe: Recipe) -> Any:
    """Return the pairs of groups to cross, in the form that `Bank` takes; without `pairs`, a default by kind.

    >>> recipes = Recipe("vw", pairs=[("user", "ad")]), Recipe("vw"), Recipe("table")
    >>> tuple(crossed_groups(recipe) for recipe in recipes)
    ([[1, 2]], 'all', 'columns')
    """
    if not recipe.pairs:
        return "columns" if recipe.kind == "table" else "all"
    if (ANY, ANY) in recipe.pairs:
        return "columns"
    if recipe.kind == "table":
        numbers = groups_by_column(recipe)
    elif recipe.kind == "svmlight":
        numbers = dict(
            zip([name for name, _, _ in recipe.ranges], sequential_groups(len(recipe.ranges)).tolist(), strict=True)
        )
        numbers[" "] = 0
    else:
        named = dict.fromkeys(name for names in recipe.pairs for name in names if name != ANY)
        numbers = {name: k + 1 for k, name in enumerate(named)}
    crossed = set()
    for names in recipe.pairs:
        for name in names:
            if name != ANY and name not in numbers:
                raise BadInput(f"cross names {name!r}, which gives no features; there are {', '.join(numbers)}.")
        one, other = (range(LAST + 1) if name == ANY else [numbers[name]] for name in names)
        crossed |= {(min(g, h), max(g, h)) for g in one for h in other if g != h or ANY not in names}
    return [list(pair) for pair in sorted(crossed)]


@kernel
def group_of(key, named):  # noqa: ANN201
    """Return the group of a name from its key, which is mixed since features of the name share its bits."""
    for k in range(named.size):
        if named[k] == key:
            return np.uint8(k + 1)
    share = mix(np.uint64(key) + GOLDEN) >> np.uint64(32)  # in units of 2^-32: a product is faster than a remainder
    return np.uint8(np.uint64(named.size + 1) + (share * np.uint64(LAST - named.size) >> np.uint64(32)))


@kernel
def groups_of(keys, named, groups):  # noqa: ANN201
    """Fill `groups` with the group of each key; runs of equal keys, which are common, are computed once."""
    for k in range(keys.size):
        groups[k] = groups[k - 1] if k and keys[k] == keys[k - 1] else group_of(keys[k], named)
