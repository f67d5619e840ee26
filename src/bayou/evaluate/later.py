"""What later rows are expected to cost, for any learner; and whether labels come in an order that flatters.

Progressive validation scores the next example, with every label told before it. Where neighbouring examples are alike,
or labels follow a pattern, that is better than what a model is worth once it has stopped learning.

    Ahead        some rows of each block are predicted before the first row of it is learned, so that no label near them
                 is known: the loss of that against the loss as it was learned, over the last half of the stream
    LabelOrder   how often the label changes between neighbours, against chance (the runs test of Wald and Wolfowitz):
                 n1 positives and n0 negatives in random order make 1 + 2 n1 n0 / n runs
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.learners.bank.later import LaterLoss, count, later_loss, log_losses, new_tally, next_block

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
    ...     later = learner.predict(block.take(kept), "later").expected
    ...     ahead.add(block, kept, later, learner.learn(block))
    >>> found = ahead.loss()
    >>> found.expected > found.learned  # by a little: no label of its block was known
    True
    """

    def __init__(self) -> None:
        self._tally = new_tally()
        self._examples = 0

    def blocks(self, batch: Batch) -> Iterator[tuple[Batch, np.ndarray]]:
        """Parts of a batch, each with the rows of it to predict before it is learned; `add` each before the next."""
        weights, row = batch.each_weight(), 0
        while row < len(batch):
            end, _, kept = next_block(weights, row, self._examples, -1)
            yield batch[row:end], kept - row
            row = end

    def add(self, block: Batch, kept: np.ndarray, later: np.ndarray, learned: np.ndarray) -> None:
        """P(y = 1) of the kept rows from before the block was learned, and of all rows as it was."""
        signs = np.where(np.asarray(block.labels) > 0, 1.0, -1.0)
        losses = np.full(len(block), np.nan)
        losses[kept] = log_losses(signs[kept], np.asarray(later, np.float64))
        weights = block.each_weight()
        count(self._tally, log_losses(signs, np.asarray(learned, np.float64)), weights, losses, self._examples)
        self._examples += int(np.count_nonzero(weights))

    def loss(self) -> LaterLoss | None:
        """Over the last half of the stream, as it was learned and as expected of later rows."""
        return later_loss(self._tally)


class LabelOrder:
    """How labels follow one another.

    >>> order = LabelOrder()
    >>> order.add(np.tile([1, 0], 1000))
    >>> order.runs, order.by_chance, order.remark()[:21]
    (2000, 1001.0, 'labels alternate more')
    """

    def __init__(self) -> None:
        self.positives = self.negatives = self.runs = 0
        self._last: bool | None = None

    def add(self, labels: Any) -> None:
        """The labels of the next examples."""
        positive = np.asarray(labels) > 0
        if not len(positive):
            return
        self.runs += int(np.count_nonzero(positive[1:] != positive[:-1])) + (bool(positive[0]) is not self._last)
        self.positives += int(np.count_nonzero(positive))
        self.negatives += int(np.count_nonzero(~positive))
        self._last = bool(positive[-1])

    @property
    def by_chance(self) -> float:
        """How many runs of equal labels there would be in random order."""
        return 1.0 + 2.0 * self.positives * self.negatives / max(self.positives + self.negatives, 1)

    @property
    def deviation(self) -> float:
        """How many standard deviations more runs there are than by chance."""
        n, more = self.positives + self.negatives, self.by_chance - 1.0
        variance = more * (more - 1.0) / (n - 1) if n > 1 else 0.0
        return (self.runs - self.by_chance) / math.sqrt(variance) if variance > 0.0 else 0.0

    def remark(self) -> str | None:
        """What there is to say: whether labels come in a pattern, and what that means."""
        gap = self.runs - self.by_chance
        if abs(self.deviation) < SURE or abs(gap) < MATERIAL * self.by_chance:
            return None
        if self.runs <= max(SORTED * self.by_chance, 2):
            what, then = "rows are sorted by their labels, or nearly", "shuffle them, and train again"
        else:
            how = "come in longer runs than" if gap < 0 else "alternate more than"
            what = f"labels {how} by chance"
            then = (
                "if the order of the rows means nothing, shuffle them; else go by what is expected on later rows, or "
                "by --holdout"
            )
        found = f"{self.runs:,} runs of equal labels, {self.by_chance:,.0f} by chance"
        return f"{what} ({found}): the loss as it learned profits from that, and is not that of later rows; {then}"


def in_words(later: LaterLoss) -> str:
    """The two losses, and what they are."""
    return (
        f"over the last half the {later.measure} is {later.learned:.4g} as it learned, told every label before the "
        f"next row; once it has stopped learning, {later.expected:.4g} ± {later.error:.2g} is expected on later rows"
    )
