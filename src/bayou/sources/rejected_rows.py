"""Rows that a learner rejects: found by bisection, and treated as the source treats bad lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.sources.source import Source

# Number of rejected rows that are described.
MAX_DESCRIBED_ROWS = 5


def bisect_rejected(batch: Batch, attempt: Callable[[Batch], Any], first: int = 0) -> Iterator[tuple[int, Batch, Any]]:
    """Yield (first row, chunk, result or error) of `attempt`, bisecting a batch until each rejected row is isolated.

    A chunk is halved while `attempt` raises or returns BadInput; a single rejected row is yielded with its error.
    `attempt` must be atomic: it accepts the whole chunk or changes nothing.
    """
    try:
        answer = attempt(batch)
    except BadInput as error:
        answer = error
    if isinstance(answer, BadInput) and len(batch) > 1:
        half = len(batch) // 2
        yield from bisect_rejected(batch[:half], attempt, first)
        yield from bisect_rejected(batch[half:], attempt, first + half)
    else:
        yield first, batch, answer


class RejectedRows:
    """Handling of rows that a learner rejects: skipped and counted, or raised, as the source treats bad lines.

    Attributes:
        count: number of rejected rows.
        sentences: messages for the first few.
        error_counts: (count, first message) of the source's kinds of bad lines and of rejected rows, the most
            frequent first.
    """

    def __init__(self, source: Source) -> None:
        self._skips, self._source = source.skips, source
        self.count = 0
        self.sentences: list[str] = []

    def accepted(self, batch: Batch, attempt: Callable[[Batch], Any]) -> Iterator[tuple[int, Batch, Any]]:
        """Yield (first row, chunk, result) of `attempt` as `bisect_rejected` does, without the rejected rows."""
        for first, part, answer in bisect_rejected(batch, attempt):
            if isinstance(answer, BadInput):
                self.refuse(part, str(answer))
            else:
                yield first, part, answer

    def refuse(self, row: Batch, why: str) -> None:
        sentence = why if row.positions is None else f"line {row.positions[0] + self._source.lines_before_block}: {why}"
        if not self._skips:
            raise BadInput(sentence)
        self.count += 1
        if len(self.sentences) < MAX_DESCRIBED_ROWS:
            self.sentences.append(sentence)

    def add_counts(self, count: int, sentences: list[str]) -> None:
        """Add the rows that another process rejected."""
        self.count += count
        self.sentences = [*self.sentences, *sentences][:MAX_DESCRIBED_ROWS]

    @property
    def error_counts(self) -> list[tuple[int, str]]:
        rejected = [(self.count, self.sentences[0])] if self.count else []
        return sorted([*self._source.error_counts.values(), *rejected], key=lambda kind: -kind[0])
