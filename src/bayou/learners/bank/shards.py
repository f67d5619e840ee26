"""Sharding and merging of banks: the gain of a shard over its base, and several banks merged into one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bayou.core.batch import Batch
from bayou.core.gains import changed_rows
from bayou.core.learner import adopt_state, check_alike
from bayou.core.sharding import BaseState, Gain, Rows, Sharding, ShardingLearner
from bayou.learners.bank import head_shards, merging, pair_merging
from bayou.learners.bank.combination import reset_shares
from bayou.learners.bank.head_merging import merge_heads
from bayou.learners.bank.lanes import STREAM_WEIGHT
from bayou.learners.bank.recombining import learn_lanes
from bayou.learners.ensembles.delayed import N_LEARNED, N_PASSES

if TYPE_CHECKING:
    from bayou.learners.bank.learner import Bank


class BankSharding(Sharding):
    """A bank as a shard: only its lanes and its head learn, and their gains add up."""

    learner: Bank

    def __init__(self, bank: Bank) -> None:
        super().__init__(bank)
        self._lanes, self._pairs, self._head = bank._lanes, bank._pairs, bank.live_head
        self._before_head: np.ndarray | None = None  # the head's stream before a join

    def _learn_mergeable(self, batch: Batch, shard: bool) -> None:
        learn_lanes(self.learner, batch, renews=not shard)  # rows counted several times say little about the prior

    def begin_shard(self) -> None:
        if self._head is not None:
            head_shards.begin_shard(self._head)

    def go_back(self, base: BaseState, changed: Iterable[tuple[np.ndarray, Rows]]) -> None:
        super().go_back(base, changed)
        if self._head is not None:
            self._head.forget_settled()

    def gain_over(self, base: ShardingLearner) -> Gain:
        check_alike(self.learner, base)
        own, before = self._head, cast("Bank", base).live_head  # a head that was dropped has gained nothing
        self._head = before if own is None or before is None else head_shards.with_features_of(own, before)
        return super().gain_over(base)

    def _finish_merge(self) -> None:
        merging.renew(self._lanes)
        if self._head is not None and self._before_head is not None:
            head_shards.finish_merge(self._head, self._before_head)

    @property
    def _n_mergeable_rows(self) -> int:
        return super()._n_mergeable_rows + (0 if self._pairs is None else len(self._pairs.crosses.weights))

    def _changed_since(self, base: Any) -> np.ndarray:
        features = merging.changed_features(self._lanes, base._lanes)
        if self._head is not None:
            features = np.union1d(features, changed_rows([self._head.state.table], [base._head.state.table]))
        if self._pairs is None or base._pairs is None:
            return features
        return np.union1d(features, pair_merging.changed_factors(self._pairs, base._pairs))

    def _feature_gain(self, base: Rows, features: np.ndarray) -> np.ndarray:
        fade = base["fade"].reshape(self._lanes.fade.shape)
        gains = [merging.gain_at(self._lanes, base, fade, features, merging.rules_of(self._lanes))]
        if self._pairs is not None and self._pairs.factors is not None:
            rules = pair_merging.factor_rules(averaged=False)
            gains.append(pair_merging.gain_factors(self._pairs.factors, base["factors"], features, rules))
        if self._head is not None:
            gains.append(head_shards.feature_gain(self._head, base, features))
        return np.hstack(gains)

    def _global_gain(self, base: Rows) -> np.ndarray:
        lanes = self._lanes
        apart = {name: name for name in ("stream", "intercept", "scale", "fade", "priors")}
        apart["pending_sums"] = "fresh priors"
        before: dict[str, Any] = {name: base[kept].reshape(getattr(lanes, name).shape) for name, kept in apart.items()}
        gains = [merging.global_gain(lanes, lanes._replace(**before), merging.rules_of(lanes))]
        if self._pairs is not None:
            gains.append(pair_merging.gain_pairs_apart(self._pairs, self._pairs.with_global_arrays(base)))
        if self._head is not None:
            gains.append(head_shards.global_gain(self._head, base))
        return np.concatenate(gains)

    def _changed_extra_rows(self, base: Rows) -> np.ndarray:
        if self._pairs is None:
            return super()._changed_extra_rows(base)
        return self.learner.n_features + pair_merging.changed_places(self._pairs, self._pairs.with_global_arrays(base))

    def _gain_of_extra_rows(self, base: Rows, places: np.ndarray, width: int) -> np.ndarray:
        assert self._pairs is not None
        rows = np.zeros((len(places), width))
        places = places - self.learner.n_features
        rows[:, : pair_merging.OF_PLACE] = pair_merging.cross_gain(
            self._pairs, self._pairs.with_global_arrays(base), places
        )
        return rows

    def _apply_global_gain(self, gains: np.ndarray, parts: int, weight: float) -> None:
        own = merging.global_gain_size(self._lanes)
        if self._head is not None:
            gains, of_head = np.split(gains, [len(gains) - head_shards.global_gain_size(self._head)])
            self._before_head = head_shards.apply_global_gain(self._head, of_head, parts, weight)
        self.learner._groups.rebase_fade()
        merging.apply_global_gain(self._lanes, gains[:own], parts, weight, merging.rules_of(self._lanes))
        if self._pairs is not None:
            pair_merging.join_pairs_apart(self._pairs, gains[own:], parts, weight)

    def _apply_feature_gain(self, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float) -> None:
        n_features, width = self.learner.n_features, 2 * self._lanes.width + 3
        own = int(np.count_nonzero(features < n_features))
        rules = merging.rules_of(self._lanes)
        merging.apply_feature_gain(self._lanes, features[:own], gains[:own, :width], met[:own], weight, rules)
        self.learner._groups.has_groups |= bool(gains[:own, width - 1].any())
        if self._head is not None and self._before_head is not None:
            gains, of_head = np.split(gains, [gains.shape[1] - head_shards.OF_FEATURE], axis=1)
            gain = Gain(features[:own], of_head[:own], np.zeros(0), met[:own])
            groups = self._lanes.groups[gain.features]
            head_shards.apply_feature_gain(self._head, self._before_head, groups, gain, weight)
        if self._pairs is None:
            return
        if self._pairs.factors is not None:
            rules = pair_merging.factor_rules(averaged=False)
            factors, own_gains = self._pairs.factors, gains[:own, width:]
            pair_merging.join_factors(factors, features[:own], own_gains, met[:own], weight, rules)
        places, gains = features[own:] - n_features, gains[own:, : pair_merging.OF_PLACE]
        pair_merging.apply_cross_gain(self._pairs, places, gains, met[own:], weight)

    def _discount(self, share: float) -> None:
        merging.discount_lanes(self._lanes, share)
        if self._pairs is not None:
            pair_merging.discount_pairs(self._pairs, share)
        if self._head is not None:
            head_shards.discount(self._head, share)


def merge_banks(bank: Bank, others: Sequence[Bank], base: Bank | None) -> None:
    """Merge `others` into a bank, in place; all grew from `base`, or from the prior."""
    banks = [bank, *others]
    merged = type(bank)(**bank.parameters) if base is None else copy.copy(base)
    counts = np.array([one._lanes.stream[STREAM_WEIGHT] for one in banks]) - merged._lanes.stream[STREAM_WEIGHT]
    counts = np.maximum(counts, 0.0) if counts.max() > 0 else np.ones(len(banks))
    lost = np.any([one._combination.is_kept == 0 for one in others], axis=0)
    dropped = np.flatnonzero((bank._combination.is_kept > 0) & lost)
    # counters, read before the first bank changes
    progress = np.array([one._delayed.progress for one in banks])
    n_learned = _sum_over_shards(progress[:, N_LEARNED], merged._delayed.progress[N_LEARNED])
    tally = _sum_over_shards([one._delayed.tally for one in banks], merged._delayed.tally)
    losses = _sum_over_shards([one._combination.summed_losses() for one in banks], merged._combination.summed_losses())
    # combinations
    merging.merge_combinations([one._combination for one in banks], counts)
    bank._combination.losses[:] = losses, np.ones_like(losses)
    twins = [one._dropping.twin for one in banks]
    for parts in ([one._later_combination for one in banks], [twin.later for twin in twins if twin is not None]):
        if len(parts) == len(banks):
            later_losses = counts @ [one.summed_losses() for one in parts] / counts.sum()
            merging.merge_combinations(parts, counts)
            parts[0].losses[:] = later_losses, np.ones_like(later_losses)
            reset_shares(parts[0])
    merged._delayed.tally[:], merged._delayed.progress[:] = tally, (n_learned, progress[:, N_PASSES].max())
    merged._combination.copy_from(bank._combination)
    merged._later_combination.copy_from(bank._later_combination)
    if merged._twin is not None and bank._twin is not None:
        for name, array in merged._twin.arrays().items():
            array[:] = bank._twin.arrays()[name]
    # lanes
    merging.merge_lanes([one._lanes for one in banks], merged._lanes)
    if merged._pairs is not None:
        before: Any = type(bank)(**bank.parameters) if base is None else base
        pair_merging.merge_pair_lanes(
            [one._pairs for one in banks if one._pairs is not None], merged._pairs, before._pairs
        )
    if merged._head is not None:
        merge_heads([one._head for one in banks if one._head is not None], merged._head)
    merged._groups.has_groups = any(one._groups.has_groups for one in banks)
    merged._dropping.drop(dropped)
    merged._examples, merged._negative, merged._frozen = bank._examples, bank._negative, bank._frozen
    adopt_state(bank, merged)


def _sum_over_shards(parts: Any, base: Any) -> Any:
    """Return the sum of the shards' counts, with the base counted once."""
    return np.maximum(np.sum(parts, axis=0) - (len(parts) - 1) * base, 0.0)
