"""Batching for runs: rebatching, rows that are left out, and warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.learner import LEARN_CHUNK_ROWS
from bayou.learners.ensembles.delayed import block_size
from bayou.runs.warmup import TRIED_ROWS
from bayou.sources import Source

# A batch ends when it has this many feature values, which bounds the memory for very long rows.
MAX_BATCH_NONZEROS = 1 << 22
# Size of a batch at the start of a stream, large enough to be worth its calls.
MIN_BATCH_ROWS = 1024


def first_rows(source: Source) -> Batch:
    """Return the first few rows without consuming them, to warm up a learner before time is measured."""
    return source.peek()[:TRIED_ROWS]


def evenly_spaced_mask(first: int, n: int, fraction: float) -> np.ndarray:
    """Return a mask that selects an evenly spread share of the rows `first` to `first + n - 1` of a stream.

    The rows do not depend on how the stream is cut into batches.

    >>> evenly_spaced_mask(0, 8, 0.25)
    array([False, False, False,  True, False, False, False,  True])
    """
    rows = np.arange(first, first + n)
    is_chosen: np.ndarray = np.floor((rows + 1) * fraction) > np.floor(rows * fraction)
    return is_chosen


def block_sizes(learned: int) -> int:
    """Return the number of rows of a batch of several whole blocks, large enough to be worth its calls.

    >>> block_size(2000), block_sizes(2000)
    (250, 7235)
    """
    rows = block_size(learned)
    while rows < max(4 * learned, MIN_BATCH_ROWS) and rows + block_size(learned + rows) <= LEARN_CHUNK_ROWS:
        rows += block_size(learned + rows)
    return rows


def rebatch(
    batches: Iterable[Batch], learned: Callable[[], int], dtype: Any, blocks: Callable[[int], int]
) -> Iterator[Batch]:
    """Yield the same rows in batches whose ends depend on the rows alone, not on how they arrive.

    A bank looks ahead to the end of a batch, so what it learns for later rows depends on where batches end. After t
    learned rows, a batch has `blocks(t)` rows to learn; it ends earlier with the row that brings it to
    MAX_BATCH_NONZEROS values or LEARN_CHUNK_ROWS rows. Rows of weight 0 are not learned and count only towards the
    latter two. Rows that the learner will reject count in their batch, but not in t, so a run resumed at the end of a
    batch continues with the same batches.

    Args:
        batches: the rows as they arrive.
        learned: returns t; called after the previously yielded rows have been learned.
        dtype: type of the learner's weights; an example weight that rounds to 0 in it counts as 0.
        blocks: `block_size`, or `block_sizes` if the learner need not get blocks one by one.
    """
    waiting: list[Batch] = []
    rows = values = counted = size = 0
    for batch in batches:
        start = 0
        while start < len(batch):
            if not waiting:
                rows = values = counted = 0
                size = blocks(learned())
            chunk = batch[start : start + LEARN_CHUNK_ROWS - rows]
            counts = None if chunk.weights is None else np.cumsum(chunk.weights.astype(dtype) != 0)
            end = size - counted if counts is None else int(np.searchsorted(counts, size - counted)) + 1
            end = min(end, int(np.searchsorted(chunk.indptr[1:], MAX_BATCH_NONZEROS - values)) + 1)
            chunk = chunk[:end] if end < len(chunk) else chunk
            waiting.append(chunk)
            start, rows, values = start + len(chunk), rows + len(chunk), values + chunk.nonzeros
            counted += len(chunk) if counts is None else int(counts[len(chunk) - 1])
            if counted == size or rows == LEARN_CHUNK_ROWS or values >= MAX_BATCH_NONZEROS:
                yield waiting[0] if len(waiting) == 1 else Batch.concatenate(waiting)
                waiting = []
    if waiting:
        yield waiting[0] if len(waiting) == 1 else Batch.concatenate(waiting)


def behind(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Skip the first `rows` rows of the stream and yield the rest as batches."""
    for batch in batches:
        if rows < len(batch):
            yield batch[rows:] if rows else batch
        rows = max(rows - len(batch), 0)
