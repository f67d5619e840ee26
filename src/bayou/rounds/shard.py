"""Shards: the part of a round that one worker learns."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from bayou.core.batch import Batch, require_labels
from bayou.core.checks import check_positive
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.rounds.gains import apply, check_shardable, gain_table, learn_mergeable


class Shard:
    """A worker's learner, with what is needed to compute its gain over the base of each round, and to return to it.

    The shard owns the learner from now on. It saves the base's state of each feature when it first sees it, so there is
    only one table, and neither gains nor going back need to scan all of it.

    >>> from bayou.learners import Bank
    >>> from bayou.rounds import add
    >>> shard = Shard(Bank(n_features=10))
    >>> shard.learn(Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0]), weight=2.0)
    >>> shard.apply(add([shard.gain(task=0)]), weight=2.0)
    >>> shard.part.examples
    2
    """

    def __init__(self, base: Learner) -> None:
        self._part = check_shardable(base)
        self._part.sharding.thaw()
        self._met = np.zeros(base.n_features, bool)
        self._begin()

    @property
    def part(self) -> Learner:
        """The learner: the base plus what the shard has learned since."""
        return self._part

    def _begin(self) -> None:
        """Make the learner's current state the base."""
        learner, names = self._part, self._part.extras.names
        nothing = np.empty(0, np.int64)
        self._base, self._changed = learner.sharding.base_state(), [(nothing, learner.sharding.rows_at(nothing))]
        self._named = None if names is None else names.known.copy()
        self._met[:] = False

    def learn(self, batch: Batch, weight: float) -> None:
        """Learn some rows, each counted `weight` times."""
        self._part.check(batch, learn=False)
        learned = batch.weights is None or np.repeat(batch.weights > 0, np.diff(batch.indptr))
        features = _first_seen(batch.indices if learned is True else batch.indices[learned], self._met)
        previous_rows = self._part.sharding.rows_at(features)
        self._part.sharding.begin_shard()
        try:
            learn_mergeable(self._part, batch, weight)
        except BadInput:
            self._met[features] = False
            raise
        self._changed.append((features, previous_rows))

    def gain(self, task: int) -> pa.Table:
        """Return the gain since the last `apply` as an Arrow table."""
        features = np.concatenate([indices for indices, _ in self._changed])
        order = np.argsort(features)
        rows = {name: np.concatenate([rows[name] for _, rows in self._changed])[order] for name in self._changed[0][1]}
        gain_of_shard = self._part.sharding.gain_since(
            self._base, features[order], lambda index: {name: values[index] for name, values in rows.items()}
        )
        return gain_table(gain_of_shard, task, self._part.extras.names, self._named)

    def apply(self, summed: pa.Table, weight: float) -> None:
        """Go back to the base, add the summed gains of all shards, and make the result the new base."""
        self._part.sharding.go_back(self._base, self._changed)
        apply(self._part, summed, weight)
        self._begin()


@kernel
def _first_seen(features, is_seen):
    """Return the features that are seen for the first time, once each, and mark them in `is_seen`."""
    new_features, n = empty(features.size, np.int64), 0
    for feature in features:
        if not is_seen[feature]:
            is_seen[feature] = True
            new_features[n] = feature
            n += 1
    return new_features[:n].copy()


def learn_shard(base: Learner, batches: Iterable[Batch], weight: float, task: int = 0) -> pa.Table:
    """Return the gain of a copy of `base` that learns some rows, each counted `weight` times.

    >>> from bayou.learners import Bank
    >>> base = Bank(n_features=10)
    >>> gain_ = learn_shard(base, [Batch.from_rows([{0: 1.0}, {7: 1.0}], labels=[1, 0])], weight=2.0)
    >>> gain_.num_rows, base.examples  # a block and what is apart; the base is as it was
    (2, 0)
    """
    weight, shard = check_positive("weight", weight), Shard(copy.copy(check_shardable(base)))
    for batch in require_labels(batches):
        shard.learn(batch, weight)
    return shard.gain(task)
