"""Rows that come as dictionaries, with crosses: of ("user", "ad") the features of both are one more, their product.

Names are crossed as columns of tables are (`table.crossed`): each set of names once, in the order of the first rule
that has it; "*" is every other name, and among several of those the smaller hash of the name comes first. A feature's
hash is `hashing.cross` of those of its parts; where names are numbered, " & " stands between the names of its parts.

All rows go the long way here, tables as dictionaries, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from bayou.core.batch import Batch, Row
from bayou.core.errors import BadInput
from bayou.recipe.crosses import ANY, checked_crosses
from bayou.recipe.feature_names import AND
from bayou.sources.rows import Mixed, New, Rows, hashes_of
from bayou.sources.table.cells import MOST_PAIRS

_FNV_PRIME = np.uint32(16777619)
# So many different sets of names are remembered with what is crossed of them.
_REMEMBERED = 256


class CrossedRows(Rows):
    """Makes batches of rows with crosses.

    >>> rows = CrossedRows([("user", "ad")], bits=18)
    >>> row, _ = rows.one({"age": 2.0, "user": "ann", "ad": "shoes"})
    >>> row.size
    4
    """

    def __init__(self, cross: Sequence[Sequence[str]], bits: int, hashing: bool = True, dtype: str = "float32") -> None:
        super().__init__(bits, hashing, dtype)
        self._cross = checked_crosses(cross)
        for names in self._cross:
            if names[0] == names[1] != ANY:
                raise BadInput(f"cross pairs {names[0]!r} with itself; name two different features.")
        self._crossed: dict[tuple[Hashable, ...], list[np.ndarray]] = {}

    def one(self, row: Mapping[Hashable, Any], learn: bool = False) -> tuple[Row, New]:
        """One row, and the names in it that are new, as `Rows.one`."""
        new: New = {}
        return self._any(row, new, learn), new

    def many(self, rows: Any, learn: bool = False) -> tuple[Batch, New]:
        """A batch of whatever `Rows.many` takes."""
        new: New = {}
        if hasattr(rows, "tocsr"):
            matrix = rows.tocsr()
            ends = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
            return self._stacked(
                [dict(zip(matrix.indices[a:b].tolist(), matrix.data[a:b].tolist(), strict=True)) for a, b in ends],
                new,
                learn,
            ), new
        if hasattr(rows, "iloc") and hasattr(rows, "columns"):
            return self._stacked(rows.to_dict("records"), new, learn), new
        if hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "iloc"):
            import pyarrow as pa

            return self._stacked(pa.table(rows).to_pylist(), new, learn), new
        return super().many(rows, learn)

    def _mixed(self, row: Mapping[Hashable, Any], new: New, learn: bool) -> Mixed:
        ids, values, ordered, groups = super()._mixed(row, new, learn)
        there = {name: value for name, value in row.items() if value is not None and value == value}
        hashes = hashes_of(there)
        order = np.argsort(hashes, kind="stable")
        found = list(there)
        names = [found[k] for k in order]
        crosses = self._crosses_of(tuple(names))
        if not crosses:
            return ids, values, ordered, groups
        sizes = np.array([1.0 if isinstance(there[name], str) else float(there[name]) for name in names])
        more = [np.prod(sizes[chosen], axis=1) for chosen in crosses]
        if not all((np.abs(some) <= np.finfo(self._dtype).max).all() for some in more):
            raise BadInput("the product of two features is not a finite number; scale what is crossed.")
        if self.numbers is None:
            own = [_hash_of(there[name], seed) for name, seed in zip(names, hashes[order].tolist(), strict=True)]
            crossed = [_joined(np.array(own, np.uint32)[chosen]) for chosen in crosses]
        else:
            called = [f"{name}={there[name]}" if isinstance(there[name], str) else str(name) for name in names]
            together = [AND.decode().join(called[k] for k in some) for chosen in crosses for some in chosen.tolist()]
            crossed = [self._ids(together, new, learn)]
        made = np.concatenate([ids, *crossed])
        n = len(made) - len(ids)
        groups = None if groups is None else np.concatenate([groups, np.zeros(n, np.uint8)])
        return made, np.concatenate([values, *more]), ordered + n, groups

    def _crosses_of(self, names: tuple[Hashable, ...]) -> list[np.ndarray]:
        """What is crossed of these names, which come in the order of their hashes: places of two, and of three."""
        known = self._crossed.get(names)
        if known is None:
            if len(self._crossed) >= _REMEMBERED:
                self._crossed.clear()
            found: dict[frozenset[int], tuple[int, ...]] = {}
            for chosen in self._chosen(names):
                found.setdefault(frozenset(chosen), chosen)
                if len(found) > MOST_PAIRS:
                    raise BadInput(
                        f"the crosses would give a row of {len(names)} names more than {MOST_PAIRS:,} features; cross "
                        "fewer."
                    )
            sizes = sorted({len(chosen) for chosen in found.values()})
            known = [np.array([some for some in found.values() if len(some) == size]) for size in sizes]
            self._crossed[names] = known
        return known

    def _chosen(self, names: tuple[Hashable, ...]) -> Iterator[tuple[int, ...]]:
        every = range(len(names))
        for rule in self._cross:
            choices = [every if wanted == ANY else [k for k in every if names[k] == wanted] for wanted in rule]
            for chosen in product(*choices):
                if len(set(chosen)) == len(chosen):
                    yield chosen


def _hash_of(value: Any, seed: int) -> int:
    """The hash of a feature whose name has this one."""
    return int(hashes_of([value], np.array([seed], np.uint32))[0]) if isinstance(value, str) else int(seed)


def _joined(parts: np.ndarray) -> np.ndarray:
    """The hashes of crosses, from those of their parts in columns."""
    found = parts[:, 0]
    for k in range(1, parts.shape[1]):
        found = (found * _FNV_PRIME) ^ parts[:, k]
    return found
