"""Recorder: collects what a report needs from a run, in memory that grows with the logarithm of the stream.

A run is divided into stretches that grow geometrically, STRETCHES of them per tenfold number of rows. At most PICKED
rows of each stretch are sampled, one drawn from each of as many equal parts, with the prediction made before they were
learned. A sampled row stands for the rows of its part: the sample shows the run at any time and, weighted by
`stands_for`, as a whole. At the end of each stretch the recorder also stores the state of the learner's lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.class_prediction import ClassPrediction
from bayou.core.learner import LEARN_CHUNK_ROWS, Learner, Prediction
from bayou.core.registry import Record
from bayou.learners.ensembles.delayed import next_delay_block
from bayou.recipe.feature_counts import FeatureCounts
from bayou.report.uncertainty import split_classes

STRETCHES = 20
PICKED = 256
# Features are not stored for rows that have more than this.
MAX_SAMPLED_FEATURES = 1000


@dataclass(frozen=True)
class Sample:
    """Sampled rows of the stream, in order. Variances are NaN if the learner has no posterior."""

    row: np.ndarray  # counted from 0, in the order of the stream
    expected: np.ndarray  # predicted before learning: probability of a positive or of the actual class; a number
    mean: np.ndarray  # of the score; for multiclass that of the most probable class
    variance: np.ndarray
    noise: np.ndarray  # variance of a number around its mean; NaN unless regression
    tails: np.ndarray  # as in `Prediction`, if the learner has them; else of width 0
    guess: np.ndarray  # the fields of `TopClass` as columns, if multiclass; else of width 0
    label: np.ndarray  # 1 or 0, a number, or the label of a class
    weight: np.ndarray  # of the example
    stands_for: np.ndarray  # number of rows of the stream that it represents
    line: np.ndarray  # -1 if unknown
    tags: list[str]
    features: list[tuple[np.ndarray, np.ndarray] | None]  # indices and values

    def __len__(self) -> int:
        return len(self.row)

    @property
    def stream_weight(self) -> np.ndarray:
        """Weight of each row in averages over the stream."""
        return self.weight * self.stands_for

    def __getitem__(self, selection: np.ndarray) -> Sample:
        """Return some of the rows, chosen by indices or by a boolean mask."""
        indices = np.flatnonzero(selection) if np.asarray(selection).dtype == bool else np.asarray(selection, np.int64)
        columns: dict[str, Any] = {name: getattr(self, name)[indices] for name in _COLUMNS}
        return Sample(tags=[self.tags[k] for k in indices], features=[self.features[k] for k in indices], **columns)

    def feature_counts(self) -> FeatureCounts:
        """Count the features of the rows, except for rows whose features were not stored."""
        counts, stored = FeatureCounts(), {k: row for k, row in enumerate(self.features) if row is not None}
        if stored:
            features, values = (np.concatenate(arrays) for arrays in zip(*stored.values(), strict=True))
            counts.add(
                np.array([len(row[0]) for row in stored.values()]), features, values, self.stream_weight[list(stored)]
            )
        return counts

    def second_half(self) -> Sample:
        """Return the rows of the second half of the run."""
        return self[self.row >= (self.row[-1] + 1) // 2] if len(self) else self


_COLUMNS = ("row", "expected", "mean", "variance", "noise", "tails", "guess", "label", "weight", "stands_for", "line")


class TopClass(NamedTuple):
    """Most probable class and its uncertainty; the columns of `Sample.guess`."""

    label: Any  # NaN where no class was known
    probability: Any
    low: Any  # of its 95% interval
    high: Any
    aleatoric: Any
    epistemic: Any

    @classmethod
    def of(cls, columns: np.ndarray) -> TopClass:
        """Build from the columns of `Sample.guess`."""
        return cls(*columns.T)


class Recorder:
    """Wrapper of a learner that learns identically, bit for bit, and samples what a report shows.

    >>> from bayou.learners import Marginal
    >>> recorder = Recorder(Marginal(n_features=4))
    >>> batch = Batch.from_rows([{0: 1.0}, {1: 1.0}, {0: 1.0}], labels=[1, 0, 1])
    >>> [recorder.learn(part).shape for part in recorder.split_at_recordings([batch])]
    [(1,), (1,), (1,)]
    >>> recorder.sample().label
    array([1., 0., 1.])
    """

    def __init__(self, learner: Learner, seed: int = 0) -> None:
        self.learner = learner
        self.teaches: Any = learner  # called to learn: the learner, or a wrapper around it
        self.rows = self.nonzeros = 0
        self.shortest: int | None = None  # fewest features of a row
        self.longest = 0
        self.looks: list[tuple[int, list[dict[str, Any]]]] = []  # (examples of this run, the learner's lanes)
        self._begun = learner.examples
        self._random = np.random.default_rng(seed)
        self._ends, self._looks_due = _stretch_ends(), _stretch_ends()
        self._end, self._due = 0, next(self._looks_due)  # rows up to which samples are drawn; when the next look is due
        self._picks, self._stand = np.empty(0, np.int64), np.empty(0, np.int64)
        self._columns: list[list[np.ndarray]] = [[] for _ in _COLUMNS]
        self._tags: list[str] = []
        self._features: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._short: list[np.ndarray] = []

    @property
    def record(self) -> Record:
        """Record of the learner."""
        return self.learner.record

    @property
    def examples(self) -> int:
        """Number of examples learned in this run."""
        return self.learner.examples - self._begun

    def split_at_recordings(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the same rows in batches that end where the learner is due to be recorded; learn each before the next.

        Batches end where a delay block of the bank ends, so that cutting does not change what it learns.
        """
        for batch in batches:
            start = 0
            while start < len(batch):
                stop = self._end_of_block(batch, start, start + self._due - self.rows)
                yield batch if stop - start == len(batch) else batch[start:stop]
                start = stop

    def _end_of_block(self, batch: Batch, start: int, min_row: int) -> int:
        """Return the first end of a delay block at or after row `min_row`, within the rows that are learned at once."""
        weights, row = batch.weights_or_ones(), start
        examples = self.learner.examples + getattr(self.teaches, "n_waiting", 0)  # including those with delayed labels
        end = min(len(batch), (start // LEARN_CHUNK_ROWS + 1) * LEARN_CHUNK_ROWS)
        while row < min(min_row, end):
            first = row
            row, _, _ = next_delay_block(weights[:end], row, examples, -1)
            examples += int(np.count_nonzero(weights[first:row]))
        return row

    def record_lanes(self) -> None:
        """Store the state of the learner's lanes, if it has any and has learned since the last recording."""
        examples = self.examples
        if examples > (self.looks[-1][0] if self.looks else 0) and (lanes := self.learner.parts()):
            self.looks.append((examples, lanes))

    def learn(self, batch: Batch) -> np.ndarray:
        """Learn a batch and return the predictions, as `Learner.learn` does."""
        return self.observe(batch).expected

    def observe(self, batch: Batch) -> Any:
        """Learn a batch and return the full predictions, as `Learner.observe` does."""
        prediction = self.teaches.observe(batch)
        self._store_rows(batch, prediction)
        if self.rows >= self._due:
            self.record_lanes()
        while self.rows >= self._due:
            self._due = next(self._looks_due)
        return prediction

    def _store_rows(self, batch: Batch, prediction: Any) -> None:
        lengths = np.diff(batch.indptr)
        self.nonzeros += batch.nonzeros
        if len(batch):
            self.longest = max(self.longest, int(lengths.max()))
            shortest = int(lengths.min())
            self.shortest = shortest if self.shortest is None else min(self.shortest, shortest)
        first, self.rows = self.rows, self.rows + len(batch)
        self._plan()
        n = int(np.searchsorted(self._picks, self.rows))
        sampled, stand = self._picks[:n] - first, self._stand[:n]
        self._picks, self._stand = self._picks[n:], self._stand[n:]
        weights = batch.weights_or_ones()[sampled]
        if not weights.all():  # rows of weight 0 are not learned, so they do not count
            sampled, stand, weights = sampled[weights > 0], stand[weights > 0], weights[weights > 0]
        if not len(sampled):
            return
        subset = prediction.take(sampled)
        labels = np.full(len(sampled), np.nan) if batch.labels is None else batch.labels[sampled]
        positions = np.full(len(batch), -1) if batch.positions is None else batch.positions
        believed = _of_classes(subset, labels) if isinstance(subset, ClassPrediction) else self._of_one(subset, labels)
        columns = [sampled + first, *believed, weights, stand, positions[sampled]]
        for column, values in zip(self._columns, columns, strict=True):
            column.append(values)
        self._keep_features(batch, sampled)
        self._tags += [""] * len(sampled) if batch.tags is None else [str(batch.tags[row] or "") for row in sampled]

    def _plan(self) -> None:
        """Draw the rows to sample, up to the current row."""
        while self._end < self.rows:
            start, self._end = self._end, next(self._ends)
            step = -(-(self._end - start) // PICKED)
            starts = np.arange(start, self._end, step)
            sizes = np.minimum(step, self._end - starts)
            self._picks = np.append(self._picks, starts + self._random.integers(0, sizes))
            self._stand = np.append(self._stand, sizes)

    def _of_one(self, prediction: Prediction, labels: np.ndarray) -> list[np.ndarray]:
        """Return the columns of a sample for binary or regression predictions."""
        record, unknown = self.learner.record, np.full(len(labels), np.nan)
        return [
            prediction.expected,
            prediction.mean,
            prediction.variance if record.posterior else unknown,
            prediction.noise if record.posterior and record.task == "regression" else unknown,
            np.empty((len(labels), 0)) if prediction.student_t_mixture is None else prediction.student_t_mixture,
            np.empty((len(labels), 0)),
            (labels > 0).astype(np.float64) if record.task == "binary" else labels,
        ]

    def _keep_features(self, batch: Batch, sampled: np.ndarray) -> None:
        """Store indices and values of the picked rows, concatenated, and where each row ends."""
        starts = batch.indptr[sampled]
        lengths = batch.indptr[sampled + 1] - starts
        self._short.append(lengths <= MAX_SAMPLED_FEATURES)
        lengths = np.where(lengths <= MAX_SAMPLED_FEATURES, lengths, 0)
        ends = np.cumsum(lengths)
        offsets = np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
        self._features.append((ends, batch.indices[offsets], batch.values[offsets]))

    def sample(self) -> Sample:
        """Return the sampled rows."""
        columns: dict[str, Any] = {
            name: np.concatenate(arrays) if arrays else np.empty(0)
            for name, arrays in zip(_COLUMNS, self._columns, strict=True)
        }
        rows = [
            row
            for ends, indices, values in self._features
            for row in zip(np.split(indices, ends[:-1]), np.split(values, ends[:-1]), strict=True)
        ]
        is_short = (short for block in self._short for short in block)
        features = [row if short else None for row, short in zip(rows, is_short, strict=True)]
        return Sample(tags=list(self._tags), features=features, **columns)


def _of_classes(prediction: ClassPrediction, labels: np.ndarray) -> list[np.ndarray]:
    """Return the columns of a sample for multiclass predictions; NaN where no class was known."""
    unknown = np.full(len(labels), np.nan)
    mean = variance = unknown
    guess = TopClass(*[unknown] * len(TopClass._fields))
    if len(prediction.labels):
        best = prediction.best_with_interval()
        label = np.where(best.probability > 0.0, prediction.labels[best.column], np.nan)
        low, high, variance = (unknown if c is None else c for c in (best.low, best.high, best.variance))
        split = split_classes(prediction.probability, prediction.mean, prediction.variances)
        mean, guess = best.mean, TopClass(label, best.probability, low, high, *split)
    nothing = np.empty((len(labels), 0))
    return [prediction.label_probability(labels), mean, variance, unknown, nothing, np.stack(guess, axis=1), labels]


def _stretch_ends() -> Iterator[int]:
    """Yield 1, 2, 3, ... and then STRETCHES integers per power of ten, without end."""
    last = k = 0
    while True:
        end = round(10 ** (k / STRETCHES))
        if end > last:
            yield end
            last = end
        k += 1
