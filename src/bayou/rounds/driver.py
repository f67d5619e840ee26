"""Drivers: where the shards of a round are learned. All else about a round is the same everywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bayou.core.batch import Batch
from bayou.core.learner import Learner
from bayou.rounds.gains import add, apply, discount, learn_part
from bayou.rounds.shard import learn_shard


class Driver(ABC):
    """Learns rounds; a subclass says where their shards are learned, and what it takes for rows."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def learn_round(self, rows: Any, shards: int, is_repeated: bool = False) -> None:
        """Learn rows over so many shards: one in sequence, several each with as much weight as all of them.

        In a further pass, `is_repeated`, what is known counts half, and each row half again.
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
        """Return the sum of what shards of the rows gain over the learner."""

    def _join(self, summed: pa.Table, shards: int) -> None:
        apply(self.learner, summed, shards)


class LoopDriver(Driver):
    """Learns shards one after another, here. Rows are a sequence of batches, or of iterables of them, a shard each.

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
            learn_part(self.learner, batch, weight)

    def _sum_gains(self, rows: Sequence[Batch | Iterable[Batch]], shards: int, weight: float) -> pa.Table:
        return add(learn_shard(self.learner, _batches(part), weight, task) for task, part in enumerate(rows))


def _batches(part: Batch | Iterable[Batch]) -> Iterable[Batch]:
    return [part] if isinstance(part, Batch) else part


def learn_held_out(
    learner: Learner, held: Iterable[Batch], on_told: Callable[[Batch, np.ndarray], object] | None = None
) -> None:
    """Learn the rows that were held out, in the end; a bank learns from them how to combine its lanes, afresh.

    Args:
        learner: has learned its rounds.
        held: batches that no shard has learned.
        on_told: called with each batch and P(y = 1) of its rows, from before they were learned.
    """
    if hasattr(learner, "recombine"):
        learner.recombine(held, on_told, learn=True)
        return
    for batch in held:
        if on_told is not None:
            on_told(batch, learner.predict(batch).expected)
        learn_part(learner, batch)
