"""Rows of features in the tables of all classes.

K tables of millions of weights, each sparsely touched, would take far more memory than the features need. So features
that are learned are numbered as they arrive (`recipe.numbering`), and take consecutive rows: the rows after them use no
memory, and tables grow by GROWTH_FACTOR when they are full. Row 0 is never learned: it stands for all features without
a number.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.canonical import CsrStats
from bayou.recipe.numbering import Numbering

# Up to FEW features, tables have a row for each; larger tables grow by GROWTH_FACTOR.
FEW, GROWTH_FACTOR = 1 << 16, 4


class CompactIndex:
    """Map from features to table rows: the features themselves, or their numbers."""

    def __init__(self, n_features: int, numbered: bool) -> None:
        self._n_features = n_features
        self.numbering = Numbering(n_features) if numbered else None
        self.rows = FEW if numbered else n_features

    def n_rows_after(self, batch: Batch, weights: np.ndarray) -> int:
        """Return the maximum number of rows that use memory after the batch is learned."""
        return self.rows if self.numbering is None else self.n_rows_used + int(np.diff(batch.indptr)[weights > 0].sum())

    @property
    def n_rows_used(self) -> int:
        """Number of rows that use memory."""
        return self.rows if self.numbering is None else len(self.numbering) + 1

    def reindex(self, batch: Batch, weights: np.ndarray) -> Batch:
        """Return the batch with table rows as features; features of rows with a weight are numbered first."""
        if self.numbering is None:
            return batch
        numbers = self.numbering.add(_ids(batch, weights))
        while self.rows < self.n_rows_used:
            self.rows *= GROWTH_FACTOR
        indices = numbers + np.uint32(1) if len(numbers) == batch.nonzeros else self.rows_of(batch.indices)
        seen = CsrStats(batch.max_row_length, self.rows - 1, batch.max_abs_value, batch.is_all_ones)
        return Batch.from_trusted((batch.indptr, indices, batch.values, batch.groups), seen, None, None)

    def rows_of(self, features: np.ndarray) -> np.ndarray:
        """Return the table rows of some features."""
        if self.numbering is None:
            return features
        numbers = self.numbering.lookup(features.astype(np.uint64) + np.uint64(1))
        return numbers + np.uint32(1)  # UNKNOWN is the largest number: adding 1 wraps to row 0

    def features(self) -> np.ndarray | None:
        """Return the feature of each table row from 1 on; None if rows are features."""
        return None if self.numbering is None else self.numbering.arrays()["ids"].astype(np.int64) - 1


class SharedBatch(Batch):
    """A batch that several learners read: selections of its rows are cached."""

    _lock: threading.Lock
    _taken: dict[bytes, Batch]

    @classmethod
    def of(cls, batch: Batch) -> SharedBatch:
        self = object.__new__(cls)
        self.__dict__ = vars(batch) | {}
        self._lock, self._taken = threading.Lock(), {}
        return self

    def take(self, rows: Any) -> Batch:
        with self._lock:
            key = rows.tobytes()
            if key not in self._taken:
                self._taken[key] = super().take(rows)
            return self._taken[key]


def _ids(batch: Batch, weights: np.ndarray) -> np.ndarray:
    """Return the features of the rows with a weight, counted from 1, since no id is 0."""
    indices = batch.indices
    if not weights.all():
        indices = indices[np.repeat(weights > 0, np.diff(batch.indptr))]
    return indices.astype(np.uint64) + np.uint64(1)
