"""What later rows are expected to cost, for any learner; and whether labels come in an order that flatters.

Progressive validation scores the next example, with every label told before it. Where neighbouring examples are alike,
or labels follow a pattern, that is better than what a model is worth once it has stopped learning.

    Ahead        some rows of each block are predicted before the first row of it is learned, so that no label near them
                 is known: the loss of that against the loss as it was learned, over the last half of the stream
    LabelOrder   how often the label changes between neighbours, against chance (the runs test of Wald and Wolfowitz,
                 and for several classes of Barton and David): n_k rows of each class in random order make
                 n + 1 - sum n_k^2 / n runs, of two classes 1 + 2 n1 n0 / n
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

# A pattern is worth a word from so many standard deviations and so large a share of the runs by chance on.
SURE, MATERIAL = 10.0, 0.1
# Rows are as good as sorted by their labels if there are no more runs than this share of those by chance.
SORTED = 0.01


class Ahead:
    """What a learner is worth on later rows, of a stream whose blocks it is asked about before it learns them.

    >>> from bayou import simulate
    >>> from bayou.learners import Marginal
    >>> learner, ahead = Marginal(n_features=200), Ahead()
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
        """Parts of a batch, each with the rows of it to predict before it is learned; `add` each before the next."""
        for block in self._delayed.blocks(batch.each_weight(), self._examples):
            yield batch[block.start : block.stop], block.sampled - block.start

    def add(self, block: Batch, kept: np.ndarray, later: Any, learned: Any) -> None:
        """What was said of the kept rows before the block was learned, and of all rows as it was.

        Predictions, of two classes or of several; or P(y = 1) of each row.
        """
        labels, weights = np.asarray(block.labels), block.each_weight()
        losses = np.full(len(block), np.nan)
        losses[kept] = self._losses(later, labels[kept])
        self._delayed.add(self._losses(learned, labels), weights, losses, self._examples)
        self._examples += int(np.count_nonzero(weights))

    def loss(self) -> LaterLoss | None:
        """Over the last half of the stream, as it was learned and as expected of later rows."""
        return self._delayed.loss()

    def _losses(self, said: Any, labels: np.ndarray) -> np.ndarray:
        """Squared losses, or log losses of at most 32 each."""
        if isinstance(said, ClassPrediction):
            return class_log_losses(said.chance_of(labels))
        expected = np.asarray(said if isinstance(said, np.ndarray) else said.expected, np.float64)
        return (labels - expected) ** 2 if self._squares else log_losses(np.where(labels > 0, 1.0, -1.0), expected)


class LabelOrder:
    """How labels follow one another.

    >>> order = LabelOrder()
    >>> order.add(np.tile([1, 0], 1000))
    >>> order.runs, order.by_chance, order.remark()[:21]
    (2000, 1001.0, 'labels alternate more')
    """

    def __init__(self) -> None:
        self.runs = 0
        self._counts: dict[float, int] = {}
        self._last: float | None = None

    def add(self, labels: Any) -> None:
        """The labels of the next examples, -1 or 0 and 1, or the numbers of several classes."""
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
    def by_chance(self) -> float:
        """How many runs of equal labels there would be in random order."""
        n = self._sum(1)
        return n + 1 - self._sum(2) / max(n, 1)

    @property
    def deviation(self) -> float:
        """How many standard deviations more runs there are than by chance."""
        n, squares, cubes = self._sum(1), self._sum(2), self._sum(3)
        if n < 2:
            return 0.0
        variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n * n * (n - 1))
        return (self.runs - self.by_chance) / math.sqrt(variance) if variance > 0.0 else 0.0

    def remark(self) -> str | None:
        """What there is to say: whether labels come in a pattern, and what that means."""
        gap = self.runs - self.by_chance
        if abs(self.deviation) < SURE or abs(gap) < MATERIAL * self.by_chance:
            return None
        if self.runs <= max(SORTED * self.by_chance, len(self._counts)):
            what, then = "rows are sorted by their labels, or nearly", "shuffle them, and train again"
        else:
            how = "come in longer runs than" if gap < 0 else "alternate more than"
            what = f"labels {how} by chance"
            then = (
                "if the order of the rows means nothing, shuffle them; else go by what is expected on later rows, or "
                f"by {option('holdout')}"
            )
        found = f"{self.runs:,} runs of equal labels, {self.by_chance:,.0f} by chance"
        return f"{what} ({found}): the loss as it learned profits from that, and is not that of later rows; {then}"


def _counted(labels: np.ndarray) -> list[tuple[float, int]]:
    """Labels, and how often each comes. Of two, as most streams have, none needs to be sorted."""
    others = labels[labels != labels[0]]
    if len(others) and (others != others[0]).any():
        found, often = np.unique(labels, return_counts=True)
        return list(zip(found.tolist(), often.tolist(), strict=True))
    counted = [(float(labels[0]), len(labels) - len(others))]
    return [*counted, (float(others[0]), len(others))] if len(others) else counted


def in_words(later: LaterLoss) -> str:
    """The two losses, and what they are."""
    return (
        f"over the last half the {later.measure} is {later.learned:.4g} as it learned, told every label before the "
        f"next row; once it has stopped learning, {later.expected:.4g} ± {later.error:.2g} is expected on later rows"
    )
