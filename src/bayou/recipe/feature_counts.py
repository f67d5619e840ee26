"""Uses: how often features came and with which values, from a sample of the rows that were learned.

Weights cannot be read without them: whether a column gives every row one feature, what the mean row is, how much of
the score's spread a column carries. Row number t is counted with probability min(1, 4096/t), and then for as many rows
as it stands for; so counting costs next to nothing after the first few thousand rows, and memory goes with the number
of different features among some tens of thousands of rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadModel
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import prefetch
from bayou.kernels.inlining import inlined
from bayou.kernels.random import in_sample
from bayou.kernels.room import empty
from bayou.recipe.numbering import first_place

KEPT = 4096
_SMALLEST = 1 << 10
_NONE = np.empty(0, np.int64)


class Moments(NamedTuple):
    """Of some features over all rows, 0 where a feature is absent."""

    seen: np.ndarray  # the share of rows that have it
    mean: np.ndarray  # of its value
    square: np.ndarray  # of its value


class Uses:
    """Sums over rows: how many have a feature, its values, and their squares.

    Attributes:
        rows: how many rows there were; counted: how many rows those in the sample stand for.

    >>> uses = Uses()
    >>> uses.count(Batch.from_rows([{3: 1.0}, {3: 1.0, 7: 2.0}], labels=[1, 0]))
    >>> uses.at(np.array([3, 7, 9])).mean.tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(self) -> None:
        self.rows = 0
        self.counted = 0.0
        self._features = 0
        # A place for each feature, by its hash, and as many free ones: its number and 1 (0: free), and its sums: rows,
        # values, squares; the first alone as long as all values are 1. All in one place, which is asked for ahead.
        self._table = np.zeros((_SMALLEST, 2))

    def __len__(self) -> int:
        return self._features

    def count(self, batch: Batch) -> None:
        """Rows that are learned; those of weight 0 are not."""
        every = batch.weights is None
        learned = _NONE if batch.weights is None else np.flatnonzero(batch.weights)
        count, done = len(batch) if every else len(learned), 0
        while done < count:
            done, self._features, counted, fits = _count(
                self.rows, done, count, every, learned, batch.indptr, batch.indices, batch.values, self._table,
                self._features,
            )  # fmt: skip
            self.counted += counted
            if not fits:
                self._resize(len(self._table), 4)
            elif done < count:
                self._resize(2 * len(self._table), self._table.shape[1])
        self.rows += count

    def add(self, lengths: np.ndarray, features: np.ndarray, values: np.ndarray, stands_for: np.ndarray) -> None:
        """Rows of so many features, one after another, and how many rows each stands for."""
        features, which = np.unique(features, return_inverse=True)
        each, values = np.repeat(stands_for, lengths), values.astype(np.float64)
        sums = [np.bincount(which, each * part, len(features)) for part in (1.0, values, values**2)]
        self._put(_entries(features, sums))
        self.counted += float(np.sum(stands_for))

    def _put(self, entries: np.ndarray, times: float = 1.0) -> None:
        """Add so many times the sums of some features, in rows as those of the table; none comes twice."""
        places = len(self._table)
        while 2 * (len(self) + np.count_nonzero(entries[:, 0])) > places:
            places *= 2
        self._resize(places, max(self._table.shape[1], entries.shape[1]))
        self._features = _put(entries, times, self._table, self._features)

    def _resize(self, places: int, columns: int) -> None:
        if self._table.shape != (places, columns):
            # Not np.zeros, whose pages are brought twice where they are read before they are written to.
            table, self._table = self._table, np.full((places, columns), 0.0)
            _put(table, 1.0, self._table, 0)

    def at(self, features: np.ndarray) -> Moments:
        """Of some features; of those that were not in the sample nothing is known, and all is 0."""
        features = np.asarray(features)
        found, counted = np.zeros((3, len(features))), max(self.counted, 1e-300)
        if len(features) > len(self) and (features[1:] > features[:-1]).all():  # it is quicker to look for the few
            own, sums = self._sorted()
            own = own.astype(features.dtype)
            known = np.minimum(np.searchsorted(features, own), len(features) - 1)
            there = np.flatnonzero(features[known] == own)
            found[:, known[there]] = sums[:, there] / counted
        else:
            _find(np.ascontiguousarray(features, np.int64), self._table, counted, found)
        return Moments(*found)

    def merge(self, other: Uses, base: Uses | None = None) -> Uses:
        """Those of two streams; what both have from `base` counts once."""
        merged = copy.deepcopy(self)
        for one, sign in ((other, 1.0), (base, -1.0)):
            if one is not None:
                merged._put(one._table, sign)
                merged.rows += int(sign) * one.rows
                merged.counted += sign * one.counted
        return merged

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Features in order, and their sums in as many rows as there are."""
        entries = self._table[self._table[:, 0] > 0]
        entries = entries[np.argsort(entries[:, 0])]
        return entries[:, 0] - 1, entries[:, 1:].T

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays, for a file. Indicators, whose three sums are the same, have one."""
        features, sums = self._sorted()
        plain = {"features": features.astype(np.uint32), "rows": np.array([self.rows, self.counted])}
        return plain | {"sums": (sums[:1] if (sums == sums[0]).all() else sums).copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Back from `arrays`."""
        self = cls()
        try:
            features, (rows, counted), sums = (arrays[name] for name in ("features", "rows", "sums"))
            self._put(_entries(features, np.broadcast_to(sums, (3 if len(sums) > 1 else 1, len(features)))))
        except (KeyError, TypeError, ValueError):
            raise BadModel("how often features came is incomplete; the file is damaged.") from None
        if len(self) != len(features) or not (np.isfinite(sums).all() and counted >= 0 and rows >= 0):
            raise BadModel("how often features came does not fit the model; the file is damaged.")
        self.rows, self.counted = int(rows), float(counted)
        return self


def _entries(features: np.ndarray, sums: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Rows as those of a table."""
    return np.stack([np.asarray(features, np.uint32) + 1.0, *sums], axis=1)


@inlined
def _place_of(table, key):
    """Where a feature stands, or the free place for it; its key is its number and 1."""
    at = first_place(table.shape[0] - 1, np.uint64(key))
    while table[at, 0] != key and table[at, 0] != 0.0:
        at = (at + 1) & (table.shape[0] - 1)
    return at


@kernel
def _count(before, done, count, every, learned, indptr, indices, values, table, known):
    """Count some of the next rows, from the number `done` on, as a function of their numbers alone.

    `every` row of a batch is learned, or some. (Rows that are done, features in the table by now, how many rows those
    that were counted stand for, and whether all values fitted); it stops early where the table has no room for a row.
    """
    taken, rows, counted = empty(count - done, np.bool_), empty(count - done + 1, np.int64), 0.0
    for k in range(count - done):  # nothing else, so that several are drawn at once
        taken[k] = in_sample(before + 1 + done + k, KEPT)
    found = 0
    for k in range(count - done):
        rows[found] = done + k
        found += taken[k]
    for n in range(found):
        row = rows[n] if every else learned[rows[n]]
        if n + 1 < found:
            ahead = rows[n + 1] if every else learned[rows[n + 1]]
            for k in range(indptr[ahead], indptr[ahead + 1]):
                key = np.uint64(indices[k]) + np.uint64(1)
                prefetch(table, first_place(table.shape[0] - 1, key) * table.shape[1])
        fits = True
        for k in range(indptr[row], indptr[row + 1]):
            fits &= values[k] == 1
        fits |= table.shape[1] > 2
        if not fits or 2 * (known + indptr[row + 1] - indptr[row]) > table.shape[0]:
            return rows[n], known, counted, fits
        stands_for = max((before + 1 + rows[n]) / KEPT, 1.0)
        counted += stands_for
        for k in range(indptr[row], indptr[row + 1]):
            key, value = np.float64(indices[k]) + 1.0, np.float64(values[k])
            at = _place_of(table, key)
            known += table[at, 0] == 0.0
            table[at, 0] = key
            table[at, 1] += stands_for
            if table.shape[1] > 2:
                table[at, 2] += stands_for * value
                table[at, 3] += stands_for * (value * value)
    return count, known, counted, True


@kernel
def _put(entries, times, table, known):
    """Add so many times the sums of entries (those that are free are none); how many features there are then."""
    for n in range(entries.shape[0]):
        key = entries[n, 0]
        if key != 0.0:
            at = _place_of(table, key)
            known += table[at, 0] == 0.0
            table[at, 0] = key
            for k in range(1, table.shape[1]):
                table[at, k] += times * entries[n, min(k, entries.shape[1] - 1)]
    return known


@kernel
def _find(features, table, counted, found):
    """Put the means of some features into columns."""
    for n in range(features.size):
        at = _place_of(table, np.float64(features[n]) + 1.0)
        for k in range(3 if table[at, 0] != 0.0 else 0):
            found[k, n] = table[at, min(k + 1, table.shape[1] - 1)] / counted
