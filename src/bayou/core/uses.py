"""Uses: how often features came and with which values, from a sample of the rows that were learned.

Weights cannot be read without them: whether a column gives every row one feature, what the mean row is, how much of
the score's spread a column carries. Row number t is counted with probability min(1, 4096/t), and then for as many rows
as it stands for; so counting costs next to nothing after the first few thousand rows, and memory goes with the number
of different features among some tens of thousands of rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadModel
from bayou.core.numbering import UNKNOWN, Numbering
from bayou.kernels.compiling import kernel
from bayou.kernels.random import in_sample
from bayou.kernels.room import empty

KEPT = 4096
_ROOM = 2**32 - 1


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
        self._numbering = Numbering(_ROOM)  # of features, as they come; an id is a feature's number and 1
        self._sums = np.zeros((1024, 3))  # of each feature: rows, values, squares

    def __len__(self) -> int:
        return len(self._numbering)

    def count(self, batch: Batch) -> None:
        """Rows that are learned; those of weight 0 are not."""
        learned = np.arange(len(batch)) if batch.weights is None else np.flatnonzero(batch.weights)
        stands_for, ids, sums = _drawn(self.rows, learned, batch.indptr, batch.indices, batch.values)
        self.rows += len(learned)
        if len(stands_for):
            self._put(ids, sums)
            self.counted += float(np.sum(stands_for))

    def add(self, lengths: np.ndarray, features: np.ndarray, values: np.ndarray, stands_for: np.ndarray) -> None:
        """Rows of so many features, one after another, and how many rows each stands for."""
        each, values = np.repeat(stands_for, lengths), values.astype(np.float64)
        self._put(_ids_of(features), np.stack([each, each * values, each * values**2], axis=1))
        self.counted += float(np.sum(stands_for))

    def _put(self, ids: np.ndarray, sums: np.ndarray) -> None:
        places = self._numbering.add(ids)
        if len(self) > len(self._sums):
            grown = np.zeros((2 * len(self), 3))
            grown[: len(self._sums)] = self._sums
            self._sums = grown
        _add(places, sums, self._sums)

    def at(self, features: np.ndarray) -> Moments:
        """Of some features; of those that were not in the sample nothing is known, and all is 0."""
        features = np.asarray(features)
        if len(features) > len(self) and (features[1:] > features[:-1]).all():  # it is quicker to look for the few
            own = self._features.astype(features.dtype)
            known = np.minimum(np.searchsorted(features, own), len(features) - 1)
            places = np.flatnonzero(features[known] == own)
            known = known[places]
        else:
            places = self._numbering.find(_ids_of(features))
            known = np.flatnonzero(places != UNKNOWN)
            places = places[known]
        found = np.zeros((3, len(features)))
        found[:, known] = self._sums[places].T / max(self.counted, 1e-300)
        return Moments(*found)

    def merge(self, other: Uses, base: Uses | None = None) -> Uses:
        """Those of two streams; what both have from `base` counts once."""
        merged = copy.deepcopy(self)
        for one, sign in ((other, 1), (base, -1)):
            if one is not None:
                merged._put(one._numbering.arrays()["ids"], sign * one._sums[: len(one)])
                merged.rows += sign * one.rows
                merged.counted += sign * one.counted
        return merged

    @property
    def _features(self) -> np.ndarray:
        return self._numbering.arrays()["ids"] - np.uint64(1)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays, for a file. Indicators, whose three sums are the same, have one."""
        sums = self._sums[: len(self)].T
        plain = {"features": self._features.astype(np.uint32), "rows": np.array([self.rows, self.counted])}
        return plain | {"sums": sums[:1].copy() if (sums == sums[0]).all() else sums.copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Back from `arrays`."""
        self = cls()
        try:
            features, (rows, counted), sums = (arrays[name] for name in ("features", "rows", "sums"))
            each = np.ascontiguousarray(np.broadcast_to(sums, (3, len(features))).T, np.float64)
            self._put(_ids_of(np.ascontiguousarray(features, np.uint32)), each)
        except (KeyError, TypeError, ValueError):
            raise BadModel("how often features came is incomplete; the file is damaged.") from None
        if len(self) != len(features) or not (np.isfinite(sums).all() and counted >= 0 and rows >= 0):
            raise BadModel("how often features came does not fit the model; the file is damaged.")
        self.rows, self.counted = int(rows), float(counted)
        return self


def _ids_of(features: np.ndarray) -> np.ndarray:
    return features.astype(np.uint64) + np.uint64(1)


@kernel
def _drawn(before, learned, indptr, indices, values):
    """Of the next rows those that are counted, as a function of their numbers alone.

    (How many rows each stands for, the ids of their features, what is added to the sums of these.)
    """
    rows, stands_for = empty(learned.size, np.int64), empty(learned.size, np.float64)
    found = size = 0
    for k in range(learned.size):
        if in_sample(before + 1 + k, KEPT):
            row = learned[k]
            rows[found], stands_for[found] = row, max((before + 1 + k) / KEPT, 1.0)
            size += indptr[row + 1] - indptr[row]
            found += 1
    ids, sums = empty(size, np.uint64), empty((size, 3), np.float64)
    at = 0
    for k in range(found):
        for place in range(indptr[rows[k]], indptr[rows[k] + 1]):
            value = np.float64(values[place])
            ids[at] = np.uint64(indices[place]) + np.uint64(1)
            sums[at, 0], sums[at, 1] = stands_for[k], stands_for[k] * value
            sums[at, 2] = stands_for[k] * (value * value)
            at += 1
    return stands_for[:found], ids, sums


@kernel
def _add(places, sums, totals):
    """Add to the totals at some places, one after another."""
    for k in range(places.size):
        for part in range(3):
            totals[places[k], part] += sums[k, part]
