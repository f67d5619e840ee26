"""Learners that can be trained in shards: the interface for `bayou.rounds`, and the hooks of learners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.learner import Learner, check_alike, check_writable

# Features that are processed at a time.
CHUNK_FEATURES = 1 << 16

Rows = Mapping[str, np.ndarray]


class BaseState(NamedTuple):
    """State of a learner before it learned a shard, without the tables that have a row for each feature.

    Attributes:
        arrays: all other arrays, by name.
        examples: number of examples learned.
        negative_label: the negative label of its stream, -1 or 0; None before the first.
    """

    arrays: Rows
    examples: int
    negative_label: int | None


class Gain(NamedTuple):
    """Gain of one shard over its base, or the sum over several shards.

    Attributes:
        features: ascending indices; those beyond the last feature are rows of other tables.
        numbers: the gain of each of them, one row per entry of `features`.
        apart: all other gains, then the number of examples, and the number of shards that learned any.
        n_shards: number of shards that have seen each feature; 1 for a single shard.
    """

    features: np.ndarray
    numbers: np.ndarray
    apart: np.ndarray
    n_shards: Any = 1


class ShardingLearner(Learner):
    """Base class of learners that `bayou.rounds` can train in shards; their records have `sharding=True`."""

    @property
    def sharding(self) -> Sharding:
        """The operations on this learner as a shard, or as the base of shards."""
        raise NotImplementedError


class Sharding:
    """Operations on a learner as a shard, or as the base of shards: computing gains over a base, and joining them.

    Gains over a common base are additive, and are computed for blocks of features so that no full table is held in
    float64.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    # --- hooks ----------------------------------------------------------------------------------------------------

    def _learn_mergeable(self, batch: Batch, shard: bool) -> None:
        """Learn a batch, in sequence or as a shard, except for what is relearned after the shards are joined."""
        self.learner.learn(batch)

    def begin_shard(self) -> None:
        """Prepare for learning as a shard, until `go_back`: what cannot be merged stays as it is in the base."""

    def _finish_merge(self) -> None:
        """Finish a join, after the gains of all shards were added."""

    @property
    def _n_mergeable_rows(self) -> int:
        """Maximum number of rows of a gain: the features, and after them the rows of other tables."""
        return self.learner._n_features

    def _changed_extra_rows(self, base: Rows) -> np.ndarray:
        """Return the rows of other tables (after the features) that have changed since `base`."""
        return np.empty(0, np.int64)

    def _gain_of_extra_rows(self, base: Rows, places: np.ndarray, width: int) -> np.ndarray:
        """Return the gain of these rows of other tables over `base`, with `width` columns."""
        raise NotImplementedError

    def _changed_since(self, base: Any) -> np.ndarray:
        """Return the features whose state differs from `base`, from which this learner was trained."""
        raise NotImplementedError

    def _feature_gain(self, base: Rows, features: np.ndarray) -> np.ndarray:
        """Return the gain of each feature over its row in `base`, one row per feature."""
        raise NotImplementedError

    def _global_gain(self, base: Rows) -> np.ndarray:
        """Return the gain of everything else over the arrays `base`."""
        raise NotImplementedError

    def _apply_global_gain(self, gains: np.ndarray, parts: int, weight: float) -> None:
        """Add the other gains, summed over `parts` shards with rows of that weight. Called first."""
        raise NotImplementedError

    def _apply_feature_gain(self, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float) -> None:
        """Add the summed gains of some features, each seen by `met` shards."""
        raise NotImplementedError

    def _discount(self, share: float) -> None:
        """Reduce the evidence to the fraction `share`."""
        raise NotImplementedError

    # --- interface for rounds -------------------------------------------------------------------------------------

    def learn_mergeable(self, batch: Batch, weight: float) -> None:
        """Learn a batch with row weights multiplied by `weight`, except for what is relearned after the join."""
        if weight != 1:
            batch = batch.with_labels(batch.labels, batch.weights_or_ones() * weight)
        self._learn_mergeable(batch, shard=weight != 1)

    def base_state(self) -> BaseState:
        """Return a copy of the current state, without the tables that have a row for each feature."""
        arrays = {name: array.copy() for name, array in self._other_arrays().items()}
        return BaseState(arrays, self.learner._examples, self.learner._negative)

    def _other_arrays(self) -> Rows:
        of_features = self.learner._per_feature_arrays
        return {name: array for name, array in self.learner._arrays().items() if name not in of_features}

    def rows_at(self, features: Any) -> Rows:
        """Return a copy of the rows of some features in the per-feature tables."""
        arrays = self.learner._arrays()
        return {name: arrays[name][features] for name in arrays if name in self.learner._per_feature_arrays}

    def go_back(self, base: BaseState, changed: Iterable[tuple[np.ndarray, Rows]]) -> None:
        """Restore an earlier state: `changed` yields all features that have changed, with their earlier rows."""
        arrays = self.learner._arrays()
        for name, array in base.arrays.items():
            arrays[name][:] = array
        for features, before in changed:
            for name, rows in before.items():
                arrays[name][features] = rows
        self.learner._examples, self.learner._negative = base.examples, base.negative_label

    def thaw(self) -> None:
        """Let a snapshot learn again; nothing else may use it."""
        self.learner._frozen = False

    def gain_over(self, base: ShardingLearner) -> Gain:
        """Return the gain over `base`, from which this learner was trained. Raise BadModel if it was not."""
        check_alike(self.learner, base)
        features, before = self._changed_since(base), base.sharding
        state = BaseState(before._other_arrays(), base.examples, base.negative_label)
        return self.gain_since(state, features, lambda cut: before.rows_at(features[cut]))

    def gain_since(self, base: BaseState, features: np.ndarray, rows: Callable[[slice], Rows]) -> Gain:
        """Return the gain of some features over `base`; `rows` returns the base's rows of a slice of `features`."""
        more = self.learner._examples - base.examples
        apart = np.append(self._global_gain(base.arrays), [more, more > 0])
        cuts = _feature_chunks(len(features))
        numbers = [self._feature_gain({**base.arrays, **rows(cut)}, features[cut]).astype(np.float32) for cut in cuts]
        if len(extra := self._changed_extra_rows(base.arrays)):
            numbers.append(self._gain_of_extra_rows(base.arrays, extra, numbers[0].shape[1]).astype(np.float32))
            features = np.concatenate([features, extra])
        return Gain(features, np.concatenate(numbers), apart)

    def join(self, gain: Gain, weight: float, named: np.ndarray, names: list[bytes]) -> None:
        """Add the summed gain of shards whose rows had that weight, and the names of the features `named`.

        Raises:
            BadInput: if the gain does not fit this learner; then nothing is changed.
        """
        check_writable(self.learner)
        features, numbers, apart, n_shards = gain
        nothing = np.empty(0, np.int64)
        now = {**self.learner._arrays(), **self.rows_at(nothing)}
        width = self._feature_gain(now, nothing).shape[1]
        fits = numbers.size == width * len(features) == width * len(n_shards)
        fits &= len(apart) == len(self._global_gain(now)) + 2
        fits &= features.max(initial=0) < self._n_mergeable_rows and named.max(initial=0) < self.learner._n_features
        if not (fits and np.isfinite(numbers).all() and np.isfinite(apart).all()):
            raise BadInput("the sum does not fit the model; add up the gains of shards of this same base.")
        numbers = numbers.reshape(len(features), width)
        with self.learner._lock:
            examples, learned = apart[-2:].astype(np.int64).tolist()
            self._apply_global_gain(apart[:-2], learned, weight)
            self.learner._examples += examples
            for cut in _feature_chunks(len(features)) if len(features) else ():
                self._apply_feature_gain(features[cut], numbers[cut], n_shards[cut], weight)
            self._finish_merge()
            if self.learner.extras.names is not None:
                self.learner.extras.names.add_missing(named, names)

    def discount(self, share: float) -> None:
        """Reduce the evidence to the fraction `share`."""
        with self.learner._lock:
            self._discount(share)


def _feature_chunks(n: int) -> list[slice]:
    """Return slices of CHUNK_FEATURES, at least one, to bound what is held in float64."""
    return [slice(start, start + CHUNK_FEATURES) for start in range(0, max(n, 1), CHUNK_FEATURES)]
