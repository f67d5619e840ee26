"""Incremental snapshots: a learner's state at one moment, copied in steps while the learner keeps learning.

Copying a large table at once would delay every prediction that waits for it. Here the per-feature tables are copied
block by block between batches; rows that a batch is about to change and that are not copied yet are saved first
(`before_learn`). The result is the state at the beginning, to the bit, and gives the file that `Learner.save` would
have written then.

Feature counts (`recipe.feature_counts`) are copied last, when the result is requested, perhaps in another thread: they
must not change until `uses_taken`.

Learning changes only the rows of the features in a batch; the laws check that for every learner. Before a batch that
changes others, too (`Learner.will_change_other_features`), which is rare, the rest is copied. Learners with other
table layouts (multiclass and dense ones) are copied at once.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import numpy as np

from bayou.core import model_file, state
from bayou.core.batch import Batch
from bayou.core.extras import Extras
from bayou.core.learner import Learner
from bayou.core.registry import find

# Rows per step, which takes about half a millisecond.
BLOCK_ROWS = 1 << 14
# Tables of at most this many bytes are copied at once.
MIN_INCREMENTAL_BYTES = 4 << 20


class IncrementalSnapshot:
    """Copy of a learner's current state. Call `copy_some` until it returns True, and `before_learn` before each batch.

    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=2**20)
    >>> batch = Batch.from_rows([{7: 1.0, 9: 2.0}], labels=[1])
    >>> p = learner.learn(batch)
    >>> copy, mean = IncrementalSnapshot(learner), learner.mean
    >>> while not copy.copy_some():
    ...     copy.before_learn(batch)
    ...     p = learner.learn(batch)
    >>> bool((copy.to_learner().mean == mean).all()), learner.examples > 1
    (True, True)
    """

    def __init__(self, to_learner: Learner) -> None:
        self._name, self._rewrites = to_learner.name, to_learner.will_change_other_features
        self._uses = to_learner.extras.uses
        self.uses_taken = self._uses is None
        self._lock = threading.Lock()
        with to_learner._lock:
            self._header, arrays = state.contents_of(to_learner, replace(to_learner.extras, uses=None))
            in_rows = isinstance(type(to_learner)._per_feature_arrays, tuple) and not to_learner.record.dense
            large = (
                [name for name in type(to_learner)._per_feature_arrays if arrays[name].nbytes > MIN_INCREMENTAL_BYTES]
                if in_rows
                else []
            )
            self._tables = {name: arrays[name] for name in large}
            own = to_learner._arrays().keys() - large  # the other arrays are copies already, or never change
            self._small = {k: a.copy() if k in own else a for k, a in arrays.items() if k not in large}
        self._size = max((len(table) for table in self._tables.values()), default=0)
        self._next = 0  # the first row not copied yet
        self._imaged = np.zeros(self._size, bool)
        self._images: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        self._blocks: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in self._tables}
        self.done = not self._tables

    def before_learn(self, batch: Batch) -> None:
        """Save the rows that a batch will change; call it before the batch is learned."""
        if not self.done and self._rewrites(len(batch)):
            while not self.copy_some():
                pass
        if self.done:
            return
        rows = np.unique(batch.indices)
        rows = rows[rows >= self._next]
        rows = rows[~self._imaged[rows]]
        if len(rows):
            self._imaged[rows] = True
            self._images.append((rows, {name: table[rows] for name, table in self._tables.items()}))

    def copy_some(self) -> bool:
        """Copy the next block of rows and return whether all are copied."""
        if self.done:
            return True
        start, stop = self._next, min(self._next + BLOCK_ROWS, self._size)
        images = [(rows, kept) for rows, kept in self._images if rows[-1] >= start and rows[0] < stop]
        for name, table in self._tables.items():
            block = table[start:stop].copy()
            for rows, kept in images:
                first, last = np.searchsorted(rows, (start, stop))
                block[rows[first:last] - start] = kept[name][first:last]
            touched = model_file.nonzero_rows(block)
            self._blocks[name].append(((touched + start).astype(np.uint32), block[touched]))
        self._next, self.done = stop, stop == self._size
        if self.done:
            self._images, self._tables = [], {name: table[:0] for name, table in self._tables.items()}
        return self.done

    def finish(self) -> None:
        """Copy all remaining rows."""
        while not self.copy_some():
            pass

    def copy_counts(self) -> None:
        """Copy the feature counts, unless that is done."""
        with self._lock:
            if not self.uses_taken:
                self._small |= {f"attached:{name}": array for name, array in Extras(uses=self._uses).arrays().items()}
                self._uses, self.uses_taken = None, True

    def _arrays(self) -> dict[str, np.ndarray | model_file.PackedArray]:
        self.copy_counts()
        arrays: dict[str, np.ndarray | model_file.PackedArray] = dict(self._small)
        for name, blocks in self._blocks.items():
            rows = _concatenate_all([rows for rows, _ in blocks])
            kept = _concatenate_all([block for _, block in blocks])
            packed = model_file.PackedArray((self._size, *kept.shape[1:]), rows, kept)
            small = model_file.is_sparse_smaller(packed.shape, kept.dtype, len(rows))
            arrays[name] = packed if small else model_file.PackedArray(packed.shape, None, packed.dense())
        return arrays

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that `Learner.save` would have written at the beginning."""
        self.finish()
        model_file.write(path, self._header, self._arrays())

    def to_learner(self) -> Learner:
        """Return an independent learner with the state at the beginning."""
        self.finish()
        packed = {
            k: a if isinstance(a, model_file.PackedArray) else model_file.packed(a) for k, a in self._arrays().items()
        }
        return state.restore(find(self._name).load(), self._header, packed)


def _concatenate_all(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays one by one: NumPy lets other threads run while it copies each."""
    joined = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    start = 0
    for block in parts:
        joined[start : start + len(block)] = block
        start += len(block)
    return joined
