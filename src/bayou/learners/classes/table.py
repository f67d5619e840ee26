"""Where the weights of a feature stand in the tables of all classes.

K tables of millions of weights, each touched here and there, would take K times what the features are worth. So
features that are learned are numbered as they come (`recipe.numbering`), and stand one after another: what lies behind
them takes no memory, and tables grow by GROWTH when they are full. Row 0 is never learned: it stands for all features
that have no number.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.recipe.numbering import Numbering

# Up to so many features tables have them all, as they are.
FEW, GROWTH = 1 << 16, 4


class CompactIndex:
    """Features as they are, or numbered."""

    def __init__(self, n_features: int, numbered: bool) -> None:
        self._n_features = n_features
        self.numbering = Numbering(n_features) if numbered else None
        self.rows = FEW if numbered else n_features

    def taken_with(self, batch: Batch, weights: np.ndarray) -> int:
        """How many rows will be taken, at most, once the batch was learned."""
        return self.rows if self.numbering is None else self.taken + int(np.diff(batch.indptr)[weights > 0].sum())

    @property
    def taken(self) -> int:
        """How many rows take memory."""
        return self.rows if self.numbering is None else len(self.numbering) + 1

    def placed(self, batch: Batch, weights: np.ndarray) -> Batch:
        """The batch by rows of the table; features of rows that are to be learned get their numbers."""
        if self.numbering is None:
            return batch
        numbers = self.numbering.add(_ids(batch, weights))
        while self.rows < self.taken:
            self.rows *= GROWTH
        return Batch.trusted(
            batch.indptr,
            numbers + np.uint32(1) if len(numbers) == batch.nonzeros else self.places(batch.indices),
            batch.values,
            None,
            None,
            tags=None,
            longest=batch.longest,
            largest=batch.largest,
            ones=batch.ones,
            max_index=self.rows - 1,
            groups=batch.groups,
        )

    def places(self, features: np.ndarray) -> np.ndarray:
        """The rows of some features."""
        if self.numbering is None:
            return features
        found = self.numbering.find(features.astype(np.uint64) + np.uint64(1))
        return found + np.uint32(1)  # UNKNOWN is the last number there is: it comes to row 0

    def features(self) -> np.ndarray | None:
        """Of each row from 1 on, its feature; None where rows are features."""
        return None if self.numbering is None else self.numbering.arrays()["ids"].astype(np.int64) - 1


class SharedBatch(Batch):
    """A batch that many learners read: the rows that each of them takes out of it are taken once."""

    __slots__ = ("_lock", "_taken")

    _lock: threading.Lock
    _taken: dict[bytes, Batch]

    @classmethod
    def of(cls, batch: Batch) -> SharedBatch:
        self = object.__new__(cls)
        for name in Batch.__slots__:
            setattr(self, name, getattr(batch, name))
        self._lock, self._taken = threading.Lock(), {}
        return self

    def take(self, rows: Any) -> Batch:
        with self._lock:
            key = rows.tobytes()
            if key not in self._taken:
                self._taken[key] = super().take(rows)
            return self._taken[key]


def _ids(batch: Batch, weights: np.ndarray) -> np.ndarray:
    """Features of the rows that count, from 1: no id is 0."""
    indices = batch.indices
    if not weights.all():
        indices = indices[np.repeat(weights > 0, np.diff(batch.indptr))]
    return indices.astype(np.uint64) + np.uint64(1)
