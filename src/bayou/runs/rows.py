"""Batching for runs: rebatching, rejected rows and warm-up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import AT_ONCE
from bayou.learners.ensembles.delayed import BLOCK_DIVISOR, MAX_BLOCK_EXAMPLES
from bayou.runs.warming import TRIED_ROWS
from bayou.sources import Source

# How many refused rows are described.
DESCRIBED = 5
# A batch ends where it has so many feature values: it bounds the memory that very long rows take.
MAX_BATCH_NONZEROS = 1 << 22
# Of the first rows a batch has so many, and is worth the calls that it takes.
MIN_BATCH_ROWS = 1024


def first_rows(source: Source) -> Batch:
    """A few rows, which will come again: something to try a learner on before time is measured."""
    return source.peek()[:TRIED_ROWS]


def spread_evenly(first: int, n: int, share: float) -> np.ndarray:
    """Which of the rows numbered `first` to `first + n - 1` of a stream are of a share that is spread evenly.

    They are the same however the stream is cut.

    >>> spread_evenly(0, 8, 0.25)
    array([False, False, False,  True, False, False, False,  True])
    """
    numbers = np.arange(first, first + n)
    found: np.ndarray = np.floor((numbers + 1) * share) > np.floor(numbers * share)
    return found


def halved(batch: Batch, attempt: Callable[[Batch], Any], first: int = 0) -> Iterator[tuple[int, Batch, Any]]:
    """Try something on a batch that may be refused because of some rows: then on its halves, and so on.

    Gives (number of its first row, part, what the attempt gave) in order; of a single row that is refused, the error.
    A batch is refused whole, before its first row, so that nothing is done twice.
    """
    try:
        answer = attempt(batch)
    except BadInput as error:
        answer = error
    if isinstance(answer, BadInput) and len(batch) > 1:
        half = len(batch) // 2
        yield from halved(batch[:half], attempt, first)
        yield from halved(batch[half:], attempt, first + half)
    else:
        yield first, batch, answer


def block_size(learned: int) -> int:
    """Return the rows of the block that a bank looks ahead in, after so many learned rows."""
    return max(1, min(learned // BLOCK_DIVISOR, MAX_BLOCK_EXAMPLES))


def block_sizes(learned: int) -> int:
    """Return the rows of as many whole blocks as make a batch that is worth its calls, and soon there.

    >>> block_size(2000), block_sizes(2000)
    (250, 7235)
    """
    rows = block_size(learned)
    while rows < max(4 * learned, MIN_BATCH_ROWS) and rows + block_size(learned + rows) <= AT_ONCE:
        rows += block_size(learned + rows)
    return rows


def rebatch(
    batches: Iterable[Batch], learned: Callable[[], int], dtype: Any, blocks: Callable[[int], int]
) -> Iterator[Batch]:
    """Yield the same rows in batches whose ends depend on the rows alone, not on how they arrive.

    What a bank learns for later rows depends on how far it can look ahead, which is to the end of a batch. So a batch
    has `blocks(t)` learned rows after t of them; it ends earlier with the row that brings it to MAX_BATCH_NONZEROS
    values or AT_ONCE rows. Rows of weight 0 are not learned, and count in the latter alone. Rows that a learner is
    going to refuse count like any other in the batch that they are in, and not in t: so a run that is resumed at the
    end of a batch goes on with the same batches.

    Args:
        batches: the rows as they arrive.
        learned: returns t; called once the rows that were yielded before have been learned.
        dtype: in which weights are learned: one that is 0 in it is 0.
        blocks: `block_size`, or `block_sizes` where it does not matter whether a learner gets blocks one by one.
    """
    waiting: list[Batch] = []
    rows = values = counted = size = 0
    for batch in batches:
        start = 0
        while start < len(batch):
            if not waiting:
                rows = values = counted = 0
                size = blocks(learned())
            part = batch[start : start + AT_ONCE - rows]
            counts = None if part.weights is None else np.cumsum(part.weights.astype(dtype) != 0)
            end = size - counted if counts is None else int(np.searchsorted(counts, size - counted)) + 1
            end = min(end, int(np.searchsorted(part.indptr[1:], MAX_BATCH_NONZEROS - values)) + 1)
            part = part[:end] if end < len(part) else part
            waiting.append(part)
            start, rows, values = start + len(part), rows + len(part), values + part.nonzeros
            counted += len(part) if counts is None else int(counts[len(part) - 1])
            if counted == size or rows == AT_ONCE or values >= MAX_BATCH_NONZEROS:
                yield waiting[0] if len(waiting) == 1 else Batch.concatenate(waiting)
                waiting = []
    if waiting:
        yield waiting[0] if len(waiting) == 1 else Batch.concatenate(waiting)


def behind(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Yield what comes after so many rows."""
    for batch in batches:
        if rows < len(batch):
            yield batch[rows:] if rows else batch
        rows = max(rows - len(batch), 0)


class Refused:
    """Rows that a learner refuses: skipped and counted, or an error, as the source does with bad lines.

    Attributes:
        count: how many there were.
        sentences: what was wrong with the first few.
        kinds: that, of those of the source and these, the commonest first: how many there were, and the first.
    """

    def __init__(self, source: Source) -> None:
        self._skips, self._source = source.skips, source
        self.count = 0
        self.sentences: list[str] = []

    def accepted(self, batch: Batch, attempt: Callable[[Batch], Any]) -> Iterator[tuple[int, Batch, Any]]:
        """As `halved`, without the rows that are refused."""
        for first, part, answer in halved(batch, attempt):
            if isinstance(answer, BadInput):
                self.refuse(part, str(answer))
            else:
                yield first, part, answer

    def refuse(self, row: Batch, why: str) -> None:
        sentence = why if row.positions is None else f"line {row.positions[0] + self._source.uncounted}: {why}"
        if not self._skips:
            raise BadInput(sentence)
        self.count += 1
        if len(self.sentences) < DESCRIBED:
            self.sentences.append(sentence)

    def hear(self, count: int, sentences: list[str]) -> None:
        """Count what was refused in another process."""
        self.count += count
        self.sentences = [*self.sentences, *sentences][:DESCRIBED]

    @property
    def kinds(self) -> list[tuple[int, str]]:
        found = list(self._source.kinds.values())
        found += [(self.count, self.sentences[0])] if self.count else []
        return sorted(found, key=lambda kind: -kind[0])
