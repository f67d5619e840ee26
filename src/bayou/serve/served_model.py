"""A served model: learning of log units, live or by replay, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.extras import Counters
from bayou.core.incremental_snapshot import IncrementalSnapshot
from bayou.core.learner import Learner
from bayou.recipe.feature_counts import FeatureCounts
from bayou.serve.label_joins import LEARN
from bayou.serve.log import ARROW, BadLog, Log, LogEntry
from bayou.serve.row_reader import ParsedRows, RowReader

# Rows learned at once: a few milliseconds, for which predictions wait. Units are always cut at multiples of this.
CHUNK_ROWS = 2048


class ServedModel:
    """Learner with its row reader and its position in the log.

    Attributes:
        version: the number of the last log entry that it has learned.
        counters: totals of what it has learned, and of its losses.
    """

    def __init__(self, learner: Learner, version: int = 0) -> None:
        self.learner, self.version = learner, version
        self.reading = RowReader(learner)
        self._uses = learner.extras.uses or FeatureCounts()
        self._uncounted: list[Batch] = []  # batches learned while a snapshot is made
        self._copied: IncrementalSnapshot | None = None
        # Sums continue from those of the snapshot, in the order of the log: separate sums would round differently.
        counters = learner.extras.counters or Counters(loss_name=self.loss_name)
        # One more run, however often the server is restarted.
        self.counters = replace(counters, runs=counters.runs + (not version), loss_name=self.loss_name)

    @property
    def loss_name(self) -> str:
        return "squared_loss" if self.learner.record.task == "regression" else "log_loss"

    # --- learning -----------------------------------------------------------------------------------------------------

    def learn(
        self, read: ParsedRows, version: int, before_learn: Callable[[Batch], Any] | None = None
    ) -> Iterator[tuple[Batch, Any, np.ndarray]]:
        """Learn the rows of a unit in chunks; yield each with the predictions made before, and their losses.

        `before_learn` is called with each chunk before it is learned.
        """
        names = self.learner.extras.names
        if names is not None:
            for new_names in read.names:
                names.add(new_names)
        for chunk in pieces(self.reading.with_classes(read)):
            if before_learn is not None:
                before_learn(chunk)
            prediction = self.learner.observe(chunk)
            losses = losses_of(prediction, chunk, self.learner.record.task)
            self._count(chunk, losses)
            yield chunk, prediction, losses
        self.version = version

    def _count(self, chunk: Batch, losses: np.ndarray) -> None:
        weights = chunk.weights_or_ones()
        self._uncounted.append(chunk)
        if self._copied is None or self._copied.uses_taken:
            self._count_uses()
        self.counters = replace(
            self.counters,
            examples=self.counters.examples + int(np.count_nonzero(weights)),
            nonzeros=self.counters.nonzeros + chunk.counted_nonzeros,
            weight=self.counters.weight + float(np.sum(weights)),
            loss=self.counters.loss + float(np.sum(weights * losses)),
        )

    def _count_uses(self) -> None:
        """Count the features of learned chunks, unless a snapshot is copying those counts."""
        if self._copied is not None:
            self._copied.copy_counts()
            self._copied = None
        for chunk in self._uncounted:
            self._uses.count(chunk)
        self._uncounted = []

    def replay(self, log: Log, entries: Sequence[LogEntry]) -> None:
        """Learn a unit from its log entries."""
        read, learns = self._read_again(log, entries), entries[0].kind == LEARN
        if read is not None and learns and read.refused:
            read = None  # as when it was logged: a class had been added before
        if read is not None and read.bad_rows and learns:
            row, reason = next(iter(read.bad_rows.items()))
            raise BadLog(
                f"{log.path}: entry {entries[0].sequence:,} was learned before but can no longer be read; use the "
                f"version of bayou that wrote it. Row {row}: {reason}"
            )
        if read is not None:
            with suppress(BadInput):  # rejected as a whole, as when it was logged
                for _ in self.learn(read, entries[-1].sequence):
                    pass
        self.version = entries[-1].sequence

    def _read_again(self, log: Log, entries: Sequence[LogEntry]) -> ParsedRows | None:
        if entries[0].kind == LEARN:
            form = entries[0].form
            lines = [line for entry in entries for line in ([entry.body] if form == ARROW else entry.body.split(b"\n"))]
            return self.reading.read(form, lines, learns=True)
        rows = [row for entry in entries for row in log.rows_learned_by(entry)]
        return self.reading.rows_with_labels(rows) if rows else None

    # --- predicting and keeping ---------------------------------------------------------------------------------------

    def predict(self, batch: Batch) -> Any:
        """Predict for the next rows of the stream."""
        return self.learner.predict(batch, horizon="next")

    def of_full_stream(self, prediction: Any) -> Any:
        """Return predictions made while learning as `predict` would make them."""
        return prediction.with_sampling_correction(self.learner.negative_rate)

    def copy(self) -> IncrementalSnapshot:
        """Begin a snapshot of the model."""
        self._count_uses()
        extras = self.learner.extras
        extras.counters, extras.unfinished = self.counters, None
        extras.uses = self._uses if extras.recipe is not None else None
        self._copied = IncrementalSnapshot(self.learner)
        return self._copied


def pieces(batch: Batch) -> Iterator[Batch]:
    """Return a batch in chunks of CHUNK_ROWS rows."""
    if len(batch) <= CHUNK_ROWS:
        return iter([batch] if len(batch) else [])
    return (batch[start : start + CHUNK_ROWS] for start in range(0, len(batch), CHUNK_ROWS))


def losses_of(prediction: Any, batch: Batch, task: str) -> np.ndarray:
    """Return the loss of each prediction: squared for regression, else -ln of the label's probability."""
    labels = np.asarray(batch.labels)
    if task == "regression":
        return np.square(prediction.expected - labels)
    if task == "multiclass":
        chance = prediction.label_probability(labels)
    else:
        chance = np.where(labels > 0, prediction.expected, 1.0 - prediction.expected)
    return -np.log(np.maximum(chance, 1e-14))
