"""The expected loss of a frozen model on later rows, for any learner, and a test of the order of labels.

Progressive validation scores the next example, with every earlier label available. If neighboring examples are alike,
or labels follow a pattern, that is optimistic for a model that has stopped learning.

    LaterEvaluator   predicts some rows of each block before its first row is learned, so that no label near them is
                     available; compares that loss with the online loss over the last half of the stream
    LabelOrder       how often the label changes between neighbors, against chance (the runs test of Wald and
                     Wolfowitz, and for several classes of Barton and David): n_k rows of each class in random order
                     make n + 1 - sum n_k^2 / n runs, of two classes 1 + 2 n1 n0 / n
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.class_prediction import ClassPrediction
from bayou.core.spelling import option
from bayou.learners.ensembles.delayed import DelayedRows, LaterLoss, class_log_losses, log_losses

# A pattern is reported from this many standard deviations, and this fraction of the runs expected by chance, on.
SURE, MATERIAL = 10.0, 0.1
# Rows count as sorted by their labels with at most this fraction of the runs expected by chance.
SORTED = 0.01


class LaterEvaluator:
    """Estimator of a learner's loss on later rows, from predictions of blocks before they are learned.

    >>> from bayou import simulate
    >>> from bayou.learners import Marginal
    >>> learner, ahead = Marginal(n_features=200), LaterEvaluator()
    >>> (batch,) = simulate.random(n_features=200).batches(4000)
    >>> for block, kept in ahead.blocks(batch):
    ...     later = learner.predict(block.take(kept), "later")
    ...     ahead.add(block, kept, later, learner.observe(block))
    >>> found = ahead.loss()
    >>> found.expected > found.learned  # by a little: no label of its block was known
    True
    """

    def __init__(self, task: str = "binary") -> None:
        self._squares = task == "regression"
        self._delayed = DelayedRows("squared loss" if self._squares else "log loss")
        self._examples = 0

    def blocks(self, batch: Batch) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yield the blocks of a batch, each with the rows of it to predict before learning; call `add` for each."""
        for block in self._delayed.blocks(batch.weights_or_ones(), self._examples):
            yield batch[block.start : block.stop], block.sampled - block.start

    def add(self, block: Batch, sampled: np.ndarray, frozen: Any, learned: Any) -> None:
        """Add a block's predictions: `frozen` of the sampled rows before learning it, `learned` of all rows meanwhile.

        Both are predictions (binary, multiclass or regression), or arrays of the expected label of each row.
        """
        labels, weights = np.asarray(block.labels), block.weights_or_ones()
        losses = np.full(len(block), np.nan)
        losses[sampled] = self._losses(frozen, labels[sampled])
        self._delayed.add(self._losses(learned, labels), weights, losses, self._examples)
        self._examples += int(np.count_nonzero(weights))

    def loss(self) -> LaterLoss | None:
        """Return the online loss and the expected loss of later rows, over the last half of the stream."""
        return self._delayed.loss()

    def _losses(self, prediction: Any, labels: np.ndarray) -> np.ndarray:
        """Return squared losses, or log losses clipped at 32."""
        if isinstance(prediction, ClassPrediction):
            return class_log_losses(prediction.label_probability(labels))
        expected = np.asarray(prediction if isinstance(prediction, np.ndarray) else prediction.expected, np.float64)
        return (labels - expected) ** 2 if self._squares else log_losses(np.where(labels > 0, 1.0, -1.0), expected)


class LabelOrder:
    """Test of whether labels come in random order, by their number of runs.

    >>> order = LabelOrder()
    >>> order.add(np.tile([1, 0], 1000))
    >>> order.runs, order.expected_runs, order.warning()[:21]
    (2000, 1001.0, 'labels alternate more')
    """

    def __init__(self) -> None:
        self.runs = 0
        self._counts: dict[float, int] = {}
        self._last: float | None = None

    def add(self, labels: Any) -> None:
        """Add the labels of the next examples: -1 or 0 and 1, or the classes as numbers."""
        labels = np.asarray(labels, np.float64)
        if not len(labels):
            return
        self.runs += int(np.count_nonzero(labels[1:] != labels[:-1])) + (float(labels[0]) != self._last)
        for label, times in _counted(labels):
            self._counts[label] = self._counts.get(label, 0) + times
        self._last = float(labels[-1])

    def _sum(self, power: int) -> int:
        return sum(times**power for times in self._counts.values())

    @property
    def expected_runs(self) -> float:
        """Expected number of runs of equal labels in random order."""
        n = self._sum(1)
        return n + 1 - self._sum(2) / max(n, 1)

    @property
    def deviation(self) -> float:
        """Excess of runs over `expected_runs`, in standard deviations."""
        n, squares, cubes = self._sum(1), self._sum(2), self._sum(3)
        if n < 2:
            return 0.0
        variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n * n * (n - 1))
        return (self.runs - self.expected_runs) / math.sqrt(variance) if variance > 0.0 else 0.0

    def warning(self) -> str | None:
        """Return a warning if labels follow a pattern, with its consequence; None if they do not."""
        gap = self.runs - self.expected_runs
        if abs(self.deviation) < SURE or abs(gap) < MATERIAL * self.expected_runs:
            return None
        if self.runs <= max(SORTED * self.expected_runs, len(self._counts)):
            finding, advice = "rows are sorted by their labels, or nearly", "shuffle them and train again"
        else:
            comparison = "come in longer runs than" if gap < 0 else "alternate more than"
            finding = f"labels {comparison} by chance"
            advice = (
                "if the order of the rows is meaningless, shuffle them; otherwise use the loss expected on later rows, "
                f"or {option('holdout')}"
            )
        runs = f"{self.runs:,} runs of equal labels, {self.expected_runs:,.0f} by chance"
        return f"{finding} ({runs}): the loss as it learned benefits from that, unlike that on later rows; {advice}"


def _counted(labels: np.ndarray) -> list[tuple[float, int]]:
    """Return the distinct labels and their counts. With at most two distinct labels nothing needs to be sorted."""
    rest = labels[labels != labels[0]]
    if len(rest) and (rest != rest[0]).any():
        values, times = np.unique(labels, return_counts=True)
        return list(zip(values.tolist(), times.tolist(), strict=True))
    counted = [(float(labels[0]), len(labels) - len(rest))]
    return [*counted, (float(rest[0]), len(rest))] if len(rest) else counted


def describe(loss: LaterLoss) -> str:
    """Describe the two losses in a sentence."""
    return (
        f"over the last half the {loss.measure} is {loss.learned:.4g} as it learned, given every label before the "
        f"next row; once it has stopped learning, {loss.expected:.4g} ± {loss.error:.2g} is expected on later rows"
    )
