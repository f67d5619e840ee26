"""Drivers, which decide where the shards of a round are learned. Everything else about a round is shared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bayou.core.batch import Batch
from bayou.core.learner import Learner
from bayou.rounds.gains import add, apply, discount, learn_mergeable
from bayou.rounds.shard import learn_shard


class Driver(ABC):
    """Base class of drivers; a subclass defines where shards are learned, and the type of `rows`."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def learn_round(self, rows: Any, shards: int, is_repeated: bool = False) -> None:
        """Learn rows in this many shards: one in sequence, several in parallel with the number of shards as weight.

        In a further pass, `is_repeated`, everything learned before counts half, and so does each row.
        """
        weight = float(shards)
        if is_repeated:
            discount(self.learner, 0.5)
            weight /= 2
        if shards == 1:
            self._learn_alone(rows, weight)
        else:
            self._join(self._sum_gains(rows, shards, weight), shards)

    @abstractmethod
    def _learn_alone(self, rows: Any, weight: float) -> None:
        """Learn rows in sequence, each counted `weight` times."""

    @abstractmethod
    def _sum_gains(self, rows: Any, shards: int, weight: float) -> pa.Table:
        """Return the sum of the gains of the rows' shards over the learner."""

    def _join(self, summed: pa.Table, shards: int) -> None:
        apply(self.learner, summed, shards)


class LoopDriver(Driver):
    """Driver that learns shards one after another in this process. Rows: a batch, or an iterable of them, per shard.

    >>> from bayou.learners import Bank
    >>> driver = LoopDriver(Bank(n_features=10))
    >>> rows = Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])
    >>> driver.learn_round([rows], shards=1)
    >>> driver.learn_round([rows, rows], shards=2)
    >>> driver.learner.examples
    6
    """

    def _learn_alone(self, rows: Sequence[Batch | Iterable[Batch]], weight: float) -> None:
        for batch in _batches(rows[0]):
            learn_mergeable(self.learner, batch, weight)

    def _sum_gains(self, rows: Sequence[Batch | Iterable[Batch]], shards: int, weight: float) -> pa.Table:
        return add(learn_shard(self.learner, _batches(shard), weight, task) for task, shard in enumerate(rows))


def _batches(shard: Batch | Iterable[Batch]) -> Iterable[Batch]:
    return [shard] if isinstance(shard, Batch) else shard


def learn_held_out(
    learner: Learner, held: Iterable[Batch], on_told: Callable[[Batch, np.ndarray], object] | None = None
) -> None:
    """Learn the held-out rows after the last round; a bank relearns from them how to combine its lanes.

    Args:
        learner: a learner that has learned all rounds.
        held: batches that no shard has learned.
        on_told: called with each batch and P(y = 1) of its rows, predicted before they were learned.
    """
    if hasattr(learner, "recombine"):
        learner.recombine(held, on_told, learn=True)
        return
    for batch in held:
        if on_told is not None:
            on_told(batch, learner.predict(batch).expected)
        learn_mergeable(learner, batch)
