"""Uses: counts and values of features, estimated from a sample of the learned rows.

They are needed to interpret weights: whether a column gives every row one feature, what the mean row is, how much of
the score's variance a column explains. Row number t is sampled with probability min(1, 4096/t) and weighted by the
inverse; so counting costs almost nothing after the first few thousand rows, and memory grows with the number of
different features among some tens of thousands of rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadModel
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import prefetch
from bayou.kernels.inlining import inlined
from bayou.kernels.random import in_sample
from bayou.recipe.numbering import first_place

N_SAMPLED_EXAMPLES = 4096
_SMALLEST = 1 << 10
_NONE = np.empty(0, np.int64)


class FeatureMoments(NamedTuple):
    """Moments of some features over all rows; the value is 0 in rows without the feature."""

    seen: np.ndarray  # the fraction of rows that have the feature
    mean: np.ndarray  # the mean of its value
    square: np.ndarray  # the mean of its squared value


class FeatureCounts:
    """Sums over rows for each feature: the number of rows that have it, its values, and their squares.

    Attributes:
        rows: number of rows; counted: number of rows that the sampled ones stand for.

    >>> uses = FeatureCounts()
    >>> uses.count(Batch.from_rows([{3: 1.0}, {3: 1.0, 7: 2.0}], labels=[1, 0]))
    >>> uses.counts_of(np.array([3, 7, 9])).mean.tolist()
    [1.0, 1.0, 0.0]
    """

    def __init__(self) -> None:
        self.rows = 0
        self.counted = 0.0
        self._features = 0
        # Hash table, at most half full. A slot holds the feature's index + 1 (0: free) and the sums of rows, values and
        # squares; they are adjacent, so that one prefetch loads them.
        self._table = np.zeros((_SMALLEST, 4))

    def __len__(self) -> int:
        return self._features

    def count(self, batch: Batch) -> None:
        """Count the rows of a batch, except those of weight 0."""
        every = batch.weights is None
        learned = _NONE if batch.weights is None else np.flatnonzero(batch.weights)
        count, done = len(batch) if every else len(learned), 0
        while done < count:
            done, self._features, counted = _count(
                self.rows, done, count, every, learned, batch.indptr, batch.indices, batch.values, self._table,
                self._features,
            )  # fmt: skip
            self.counted += counted
            if done < count:
                self._resize(2 * len(self._table))
        self.rows += count

    def add(self, lengths: np.ndarray, features: np.ndarray, values: np.ndarray, stands_for: np.ndarray) -> None:
        """Add rows given by their numbers of features, concatenated; each counts as `stands_for` rows."""
        features, which = np.unique(features, return_inverse=True)
        each, values = np.repeat(stands_for, lengths), values.astype(np.float64)
        sums = [np.bincount(which, each * part, len(features)) for part in (1.0, values, values**2)]
        self._put(_entries(features, sums))
        self.counted += float(np.sum(stands_for))

    def _put(self, entries: np.ndarray, times: float = 1.0) -> None:
        """Add `times` the sums in `entries`, rows in the format of the table, each of a different feature."""
        slots = len(self._table)
        while 2 * (len(self) + np.count_nonzero(entries[:, 0])) > slots:
            slots *= 2
        self._resize(slots)
        self._features = _put(entries, times, self._table, self._features)

    def _resize(self, slots: int) -> None:
        if len(self._table) != slots:
            # Not np.zeros, whose pages fault twice if they are read before they are written.
            table, self._table = self._table, np.full((slots, 4), 0.0)
            _put(table, 1.0, self._table, 0)

    def counts_of(self, features: np.ndarray) -> FeatureMoments:
        """Return the moments of some features; all 0 for those that are not in the sample."""
        features = np.asarray(features)
        means, counted = np.zeros((3, len(features))), max(self.counted, 1e-300)
        if len(features) > len(self) and (features[1:] > features[:-1]).all():  # it is faster to look up the few
            own, sums = self._sorted()
            own = own.astype(features.dtype)
            positions = np.minimum(np.searchsorted(features, own), len(features) - 1)
            there = np.flatnonzero(features[positions] == own)
            means[:, positions[there]] = sums[:, there] / counted
        else:
            _find(np.ascontiguousarray(features, np.int64), self._table, counted, means)
        return FeatureMoments(*means)

    def merge(self, other: FeatureCounts, base: FeatureCounts | None = None) -> FeatureCounts:
        """Return the counts of two streams together; those of `base`, which both include, count once."""
        merged = copy.deepcopy(self)
        for one, sign in ((other, 1.0), (base, -1.0)):
            if one is not None:
                merged._put(one._table, sign)
                merged.rows += int(sign) * one.rows
                merged.counted += sign * one.counted
        return merged

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the features in ascending order, and their sums, one row per sum."""
        entries = self._table[self._table[:, 0] > 0]
        entries = entries[np.argsort(entries[:, 0])]
        return entries[:, 0] - 1, entries[:, 1:].T

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counts as arrays for a file. If all three sums are equal (indicators), only one is included."""
        features, sums = self._sorted()
        plain = {"features": features.astype(np.uint32), "rows": np.array([self.rows, self.counted])}
        return plain | {"sums": (sums[:1] if (sums == sums[0]).all() else sums).copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the counts from the result of `arrays`."""
        self = cls()
        try:
            features, (rows, counted), sums = (arrays[name] for name in ("features", "rows", "sums"))
            self._put(_entries(features, np.broadcast_to(sums, (3, len(features)))))
        except (KeyError, TypeError, ValueError):
            raise BadModel("the feature counts are incomplete; the file is damaged.") from None
        if len(self) != len(features) or not (np.isfinite(sums).all() and counted >= 0 and rows >= 0):
            raise BadModel("the feature counts do not fit the model; the file is damaged.")
        self.rows, self.counted = int(rows), float(counted)
        return self


def _entries(features: np.ndarray, sums: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return features and sums as rows in the format of the table."""
    return np.stack([np.asarray(features, np.uint32) + 1.0, *sums], axis=1)


@inlined
def _place_of(table, key):
    """Return the slot of a feature, or the free slot for it; its key is its index + 1."""
    at = first_place(table.shape[0] - 1, np.uint64(key))
    while table[at, 0] != key and table[at, 0] != 0.0:
        at = (at + 1) & (table.shape[0] - 1)
    return at


@kernel
def _count(before, done, count, every, learned, indptr, indices, values, table, n_features):
    """Count a sample of the learned rows from number `done` on, drawn by their numbers alone.

    If `every`, all rows of the batch are learned, else those in `learned`. Stops early if the table has no space for a
    row. Returns the number of rows done, the number of features in the table, and the number of rows that the counted
    ones stand for.
    """
    taken, rows, counted = empty(count - done, np.bool_), empty(count - done + 1, np.int64), 0.0
    for k in range(count - done):  # a loop of its own, so that it vectorizes
        taken[k] = in_sample(before + 1 + done + k, N_SAMPLED_EXAMPLES)
    n_taken = 0
    for k in range(count - done):
        rows[n_taken] = done + k
        n_taken += taken[k]
    for n in range(n_taken):
        row = rows[n] if every else learned[rows[n]]
        if n + 1 < n_taken:
            ahead = rows[n + 1] if every else learned[rows[n + 1]]
            for k in range(indptr[ahead], indptr[ahead + 1]):
                key = np.uint64(indices[k]) + np.uint64(1)
                prefetch(table, first_place(table.shape[0] - 1, key) * table.shape[1])
        if 2 * (n_features + indptr[row + 1] - indptr[row]) > table.shape[0]:
            return rows[n], n_features, counted
        stands_for = max((before + 1 + rows[n]) / N_SAMPLED_EXAMPLES, 1.0)
        counted += stands_for
        for k in range(indptr[row], indptr[row + 1]):
            key, value = np.float64(indices[k]) + 1.0, np.float64(values[k])
            at = _place_of(table, key)
            n_features += table[at, 0] == 0.0
            table[at, 0] = key
            table[at, 1] += stands_for
            table[at, 2] += stands_for * value
            table[at, 3] += stands_for * (value * value)
    return count, n_features, counted


@kernel
def _put(entries, times, table, n_features):
    """Add `times` the sums of all occupied `entries` to the table; return its number of features."""
    for n in range(entries.shape[0]):
        key = entries[n, 0]
        if key != 0.0:
            at = _place_of(table, key)
            n_features += table[at, 0] == 0.0
            table[at, 0] = key
            for k in range(1, 4):
                table[at, k] += times * entries[n, k]
    return n_features


@kernel
def _find(features, table, counted, means):
    """Fill the columns of `means` with the means of some features."""
    for n in range(features.size):
        at = _place_of(table, np.float64(features[n]) + 1.0)
        for k in range(3 if table[at, 0] != 0.0 else 0):
            means[k, n] = table[at, k + 1] / counted
