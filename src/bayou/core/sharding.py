"""Learners that can be trained in shards: what `bayou.rounds` asks of them, and what they must add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import Learner

# Features that are worked on at a time.
CHUNK_FEATURES = 1 << 16

Rows = Mapping[str, np.ndarray]


class BaseState(NamedTuple):
    """A learner as it was before it learned a shard, but for the tables with a row for each feature.

    Attributes:
        arrays: all other arrays, by name.
        examples: how many it had learned.
        negative_label: how its stream writes a negative label, -1 or 0; None before the first.
    """

    arrays: Rows
    examples: int
    negative_label: int | None


class Gain(NamedTuple):
    """What one shard has gained over its base, or several in sum.

    Attributes:
        features: ascending; behind the last feature, the rows of whatever else is kept in a table.
        numbers: a row for each of them.
        apart: what was gained besides, the number of examples, and the number of shards that learned any.
        n_shards: how many shards have seen each feature; of one shard, 1.
    """

    features: np.ndarray
    numbers: np.ndarray
    apart: np.ndarray
    n_shards: Any = 1


class ShardingLearner(Learner):
    """Base of learners that can be trained in shards by `bayou.rounds`; their records say `sharding=True`."""

    @property
    def sharding(self) -> Sharding:
        """What this learner does as a shard, or as the base of some."""
        raise NotImplementedError


class Sharding:
    """A learner as a shard, or as the base of some: what it gains over its base, and how gains are joined.

    Gains over a common base are additive, and are computed for blocks of features so that no full table is held in
    float64.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    # --- hooks ----------------------------------------------------------------------------------------------------

    def _learn_part(self, batch: Batch, shard: bool) -> None:
        """Learn rows, but for what is learned afresh when the parts are one again: in sequence, or as a shard."""
        self.learner.learn(batch)

    def _come_together(self) -> None:
        """Do what follows when the gains of all shards were joined."""

    @property
    def _n_places(self) -> int:
        """The number of rows that gains may have: of features, and behind them of what else is kept in a table."""
        return self.learner._n_features

    def _places_changed(self, base: Rows) -> np.ndarray:
        """Return the rows behind the features that have changed since the other arrays were `base`."""
        return np.empty(0, np.int64)

    def _gain_of_places(self, base: Rows, places: np.ndarray, width: int) -> np.ndarray:
        """Return the gain of these rows, each of this width."""
        raise NotImplementedError

    def _changed_since(self, base: Any) -> np.ndarray:
        """Return the features whose state differs from that of `base`, from which this learner grew."""
        raise NotImplementedError

    def _gain_at(self, base: Rows, features: np.ndarray) -> np.ndarray:
        """Return the gain of each feature over its row in `base`, one row per feature."""
        raise NotImplementedError

    def _gain_apart(self, base: Rows) -> np.ndarray:
        """Return what was gained besides, since the other arrays were `base`."""
        raise NotImplementedError

    def _join_apart(self, gains: np.ndarray, parts: int, weight: float) -> None:
        """Learn the sum of what `parts` shards, with rows of that weight, have gained besides; before all else."""
        raise NotImplementedError

    def _join_at(self, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float) -> None:
        """Learn the summed gains of some features, each seen by `met` shards."""
        raise NotImplementedError

    def _discount(self, share: float) -> None:
        """Reduce what is known to a fraction."""
        raise NotImplementedError

    # --- what rounds call -----------------------------------------------------------------------------------------

    def learn_part(self, batch: Batch, weight: float) -> None:
        """Learn examples, each counted `weight` times, but for what is learned afresh in the end."""
        if weight != 1:
            batch = batch.with_labels(batch.labels, batch.each_weight() * weight)
        self._learn_part(batch, shard=weight != 1)

    def base_state(self) -> BaseState:
        """Return a copy of what this learner is now, but for the tables with a row for each feature."""
        arrays = {name: array.copy() for name, array in self._other_arrays().items()}
        return BaseState(arrays, self.learner._examples, self.learner._negative)

    def _other_arrays(self) -> Rows:
        of_features = self.learner._per_feature
        return {name: array for name, array in self.learner._arrays().items() if name not in of_features}

    def rows_at(self, features: Any) -> Rows:
        """Return a copy of the rows of some features in the tables that have one for each."""
        arrays = self.learner._arrays()
        return {name: arrays[name][features] for name in arrays if name in self.learner._per_feature}

    def go_back(self, base: BaseState, changed: Iterable[tuple[np.ndarray, Rows]]) -> None:
        """Become what this learner was: `changed` are all features that have changed, and their rows."""
        arrays = self.learner._arrays()
        for name, array in base.arrays.items():
            arrays[name][:] = array
        for features, before in changed:
            for name, rows in before.items():
                arrays[name][features] = rows
        self.learner._examples, self.learner._negative = base.examples, base.negative_label

    def thaw(self) -> None:
        """Let a snapshot learn; its owner must be the only one that has it."""
        self.learner._frozen = False

    def gain_over(self, base: ShardingLearner) -> Gain:
        """Return the gain over `base`, from which this learner grew. Raise BadModel if it did not."""
        self.learner._check_alike(base)
        features, before = self._changed_since(base), base.sharding
        state = BaseState(before._other_arrays(), base.examples, base.negative_label)
        return self.gain_since(state, features, lambda cut: before.rows_at(features[cut]))

    def gain_since(self, base: BaseState, features: np.ndarray, rows: Callable[[slice], Rows]) -> Gain:
        """Return the gain of some features over `base`, in which `rows` returns the rows of a slice of them."""
        more = self.learner._examples - base.examples
        apart = np.append(self._gain_apart(base.arrays), [more, more > 0])
        cuts = _feature_chunks(len(features))
        numbers = [self._gain_at({**base.arrays, **rows(cut)}, features[cut]).astype(np.float32) for cut in cuts]
        if len(extra := self._places_changed(base.arrays)):
            numbers.append(self._gain_of_places(base.arrays, extra, numbers[0].shape[1]).astype(np.float32))
            features = np.concatenate([features, extra])
        return Gain(features, np.concatenate(numbers), apart)

    def join(self, gain: Gain, weight: float, named: np.ndarray, names: list[bytes]) -> None:
        """Learn the summed gain of shards whose rows had that weight, and the names of the features `named`.

        Raises:
            BadInput: if the gain is not one over this learner; then nothing is learned.
        """
        self.learner._check_learns()
        features, numbers, apart, n_shards = gain
        nothing = np.empty(0, np.int64)
        now = {**self.learner._arrays(), **self.rows_at(nothing)}
        width = self._gain_at(now, nothing).shape[1]
        fits = numbers.size == width * len(features) == width * len(n_shards)
        fits &= len(apart) == len(self._gain_apart(now)) + 2
        fits &= features.max(initial=0) < self._n_places and named.max(initial=0) < self.learner._n_features
        if not (fits and np.isfinite(numbers).all() and np.isfinite(apart).all()):
            raise BadInput("the sum does not fit the model; add up what shards of this very base have gained.")
        numbers = numbers.reshape(len(features), width)
        with self.learner._lock:
            examples, learned = apart[-2:].astype(np.int64).tolist()
            self._join_apart(apart[:-2], learned, weight)
            self.learner._examples += examples
            for cut in _feature_chunks(len(features)) if len(features) else ():
                self._join_at(features[cut], numbers[cut], n_shards[cut], weight)
            self._come_together()
            if self.learner.extras.names is not None:
                self.learner.extras.names.put(named, names)

    def discount(self, share: float) -> None:
        """Reduce what is known to a fraction."""
        with self.learner._lock:
            self._discount(share)


def _feature_chunks(n: int) -> list[slice]:
    """Return slices of CHUNK_FEATURES, at least one, to bound what is held in float64."""
    return [slice(start, start + CHUNK_FEATURES) for start in range(0, max(n, 1), CHUNK_FEATURES)]
