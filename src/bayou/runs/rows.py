"""Rows of a stream: which are held out, which a learner refuses, and a few to try a learner on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import AT_ONCE, Learner
from bayou.evaluate.progressive import predict_then_learn
from bayou.evaluate.regression import meter_for
from bayou.sources import Source

# How many refused rows are described.
DESCRIBED = 5
# How many rows a learner is tried on.
TRIED = 64
# How many rows a learner gets at a time, at least; but not more than so many feature values.
AT_HAND, MOST_AT_HAND = 1024, 1 << 22


def first_rows(source: Source) -> Batch:
    """A few rows, which will come again: something to try a learner on before time is measured."""
    return source.peek()[:TRIED]


def warm_up(learner: Learner, source: Source) -> None:
    """Have the kernels loaded, or compiled, by learning the first few rows with weight 0. Changes nothing.

    Several classes have nothing to learn with before the first one is met, so another learner like theirs tries it.
    """
    first = source.peek()
    learner.touch(first.indices)  # meanwhile memory is made ready for them, if they need much
    batch = first[:TRIED]
    weights = np.zeros(len(batch))
    if learner.record.task == "multiclass" and not learner.examples:
        learner, weights = type(learner)(**{**learner.parameters, "classes": [0, 1]}), np.ones(len(batch))
    with suppress(BadInput):  # it will be said when these rows come
        told = predict_then_learn(learner, batch.with_labels(batch.labels, weights))
        told.score(meter_for(learner.record.task))


def spread_evenly(first: int, n: int, share: float) -> np.ndarray:
    """Which of the rows numbered `first` to `first + n - 1` of a stream are of a share that is spread evenly.

    They are the same however the stream is cut.

    >>> spread_evenly(0, 8, 0.25)
    array([False, False, False,  True, False, False, False,  True])
    """
    numbers = np.arange(first, first + n)
    return np.floor((numbers + 1) * share) > np.floor(numbers * share)


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


def at_hand(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same rows in batches of at least AT_HAND rows: the bank looks ahead as far as there are rows at hand.

    Of very long rows there are fewer, so that memory is bounded. There are at most as many as learners take at once.
    """
    waiting: list[Batch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= AT_HAND or sum(part.nonzeros for part in waiting) >= MOST_AT_HAND:
            yield from _cut(_joined(waiting))
            waiting = []
    if waiting:
        yield from _cut(_joined(waiting))


def _joined(batches: list[Batch]) -> Batch:
    return batches[0] if len(batches) == 1 else Batch.concatenate(batches)


def _cut(batch: Batch) -> Iterator[Batch]:
    if len(batch) <= AT_ONCE:
        return iter([batch])
    return (batch[start : start + AT_ONCE] for start in range(0, len(batch), AT_ONCE))


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
