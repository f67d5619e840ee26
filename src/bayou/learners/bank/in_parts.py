"""The bank in parts that learn apart: lanes alone, what they have gained, and a combination learned afresh."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch, labelled
from bayou.core.checks import function, yes_or_no
from bayou.core.errors import BadInput
from bayou.core.learner import AT_ONCE
from bayou.core.sharding import ShardingLearner
from bayou.learners.bank.combination import (
    LOST,
    Combination,
    combine,
    drop_outputs,
    learn_sampled_rows,
    new_combination,
    reset_shares,
)
from bayou.learners.bank.groups import Grouped
from bayou.learners.bank.lanes import WEIGHT
from bayou.learners.bank.merging import (
    changed_at,
    discount_lanes,
    gain_apart,
    gain_at,
    join_apart,
    join_at,
    losses_of,
    merge_combinations,
    merge_lanes,
    n_apart,
    renew,
    rules_of,
)
from bayou.learners.bank.pair_gains import (
    OF_PLACE,
    changed_factors,
    changed_places,
    discount_pairs,
    factor_rules,
    gain_factors,
    gain_pairs_apart,
    gain_places,
    join_factors,
    join_pairs_apart,
    join_places,
    merge_pairs_of,
)
from bayou.learners.bank.pairs import PairLanes
from bayou.learners.ensembles.delayed import ENOUGH_ROWS, N_LEARNED, RESTS, DelayedRows, log_losses
from bayou.learners.ensembles.learner import Ensemble


class InParts(Grouped, Ensemble, ShardingLearner):
    """What a `Bank` can do with others that grew from the same one."""

    _combination: Combination
    _later: Combination
    _delayed: DelayedRows
    _pairs: PairLanes | None
    _outputs: list[tuple[int, float]]
    _said: np.ndarray | None = None
    _static: np.ndarray
    _drop: Any
    _nothing_said: Any
    _run_lanes: Any

    # --- learning in two steps ----------------------------------------------------------------------------------

    def learn(self, batch: Batch, combine: bool = True) -> np.ndarray:
        """As every learner does; or its lanes alone, in less than half the time.

        Args:
            batch: the rows, with labels.
            combine: False leaves the combination as it is, which then knows the lanes as they were. It is for parts
                of a stream that are learned apart and whose combination is learned afresh in the end (`recombine`).
                There is no prediction then: the answer is NaN for every row.
        """
        if yes_or_no("combine", combine):
            return super().learn(batch)
        self._check_learns()
        with self._lock:
            negative, parts = self._checked(batch)
            if self._said is None:  # made once: new memory for every batch is dear, and nobody listens
                self._said = self._nothing_said(AT_ONCE)
            for part, signs, weights in parts:
                self.touch(part.indices)
                said = self._said[: len(part)]
                self._run_lanes(part, signs, weights, 0, len(part), self._examples, -1, said)
                self._examples += int(np.count_nonzero(weights))
            self._negative = negative
        return np.full(len(batch), np.nan)

    def recombine(
        self,
        batches: Iterable[Batch],
        on_told: Callable[[Batch, np.ndarray], object] | None = None,
        learn: bool = False,
    ) -> float:
        """Learn afresh how to combine the lanes, from rows that they have not learned.

        On rows that the lanes know it would come to trust those that remember them best. 20,000 rows are enough, or of
        fewer than 200,000 rows a tenth.

        Args:
            batches: the rows, with labels.
            on_told: called with some rows at a time and P(y = 1) of each, from before they were learned from.
            learn: whether the lanes learn each row, too, once they have said what they think of it. In the end that is
                better: no row is lost, and the combination knows the lanes as they come to be. Otherwise they are left
                as they are, and the same rows serve again after the next round.

        Returns:
            the mean log loss of these rows, each predicted before the combination learned from it.

        >>> from bayou.learners import Bank
        >>> bank = Bank(n_features=10)
        >>> told = bank.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}] * 50, labels=[1, 0] * 50), combine=False)
        >>> bank.recombine([Batch.from_rows([{0: 1.0}, {1: 1.0}] * 50, labels=[1, 0] * 50)]) < 0.1
        True
        """
        self._check_learns()
        function("on_told", on_told)
        yes_or_no("learn", learn)
        with self._lock:
            dropped = np.flatnonzero(self._combination.kept[self._combination.slots] == 0) + 2
            fresh = self._fresh_combinations(dropped)
            counted, lost, weight = 0, 0.0, 0.0
            for batch in labelled(batches):
                negative, parts = self._checked(batch)
                for part, signs, weights in parts:
                    said = self._say_and_learn(part, signs, weights if learn else np.zeros_like(weights))
                    probability = _learn_from(said, signs, weights, *fresh, counted)
                    loss = log_losses(signs, probability)
                    if on_told is not None:
                        on_told(part, probability)
                    counted += int(np.count_nonzero(weights))
                    lost, weight = lost + float(loss @ weights), weight + float(weights.sum())
                self._negative = negative if learn else self._negative
            if not counted:
                raise BadInput("there is no row to learn the combination from; give rows that were held out.")
            self._combination, self._later = fresh
            self._delayed.reset(max(counted, min(self._examples, ENOUGH_ROWS)))
        return lost / weight

    def _fresh_combinations(self, dropped: np.ndarray) -> tuple[Combination, Combination]:
        """Before anything was learned, but for the outputs that narrowing has dropped."""
        n_stackers, static = len(self._combination.stacker_mean), np.flatnonzero(self._static)
        live = new_combination(self._lanes, self._outputs, n_stackers)
        later = new_combination(self._lanes, [self._outputs[k] for k in static], min(n_stackers, 1))
        drop_outputs(live, dropped)
        drop_outputs(later, 2 + np.flatnonzero(np.isin(static, dropped - 2)))
        for one in (live, later):
            one.stacker_prior[2:] *= one.kept[2:]
        return live, later

    def _say_and_learn(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """What the lanes said of each row, just before they learned it; with weight 0 they learn nothing."""
        rows, said = len(batch), self._nothing_said(len(batch))
        if weights.any():
            self._fold()
            self.touch(batch.indices)
        self._run_lanes(batch, signs, weights, 0, rows, self._examples, -1, said)
        self._examples += int(np.count_nonzero(weights))
        return said

    def _checked(self, batch: Batch) -> tuple[int | None, Iterable[tuple[Batch, np.ndarray, np.ndarray]]]:
        """How a batch, checked as a whole, writes negatives; and (rows, signs, weights) of a few thousand at a time."""
        self._check(batch, learn=True)
        weights = self._row_weights(batch)
        signs, negative = self._targets(batch, weights)
        cuts = [slice(start, start + AT_ONCE) for start in range(0, len(batch), AT_ONCE)]
        parts = ((batch if len(cuts) == 1 else batch[cut], cut) for cut in cuts)
        return negative, ((self._typed(part), signs[cut], weights[cut]) for part, cut in parts)

    # --- parts that add up --------------------------------------------------------------------------------------

    def _learn_part(self, batch: Batch, shard: bool) -> None:
        lanes = self._lanes
        self._lanes = lanes._replace(renews=not shard)  # rows that count many times say little of how weights spread
        try:
            self.learn(batch, combine=False)
        finally:
            self._lanes = lanes

    def _come_together(self) -> None:
        renew(self._lanes)

    @property
    def _n_places(self) -> int:
        return self.n_features + (0 if self._pairs is None else len(self._pairs.crosses.weights))

    def _changed_since(self, base: Self) -> np.ndarray:
        features = changed_at(self._lanes, base._lanes)
        if self._pairs is None or base._pairs is None:
            return features
        return np.union1d(features, changed_factors(self._pairs, base._pairs))

    def _gain_at(self, base: Mapping[str, np.ndarray], features: np.ndarray) -> np.ndarray:
        fade = base["fade"].reshape(self._lanes.fade.shape)
        found = gain_at(self._lanes, base, fade, features, rules_of(self._lanes))
        if self._pairs is None or self._pairs.factors is None:
            return found
        rules = factor_rules(averaged=False)
        return np.hstack([found, gain_factors(self._pairs.factors, base["factors"], features, rules)])

    def _gain_apart(self, base: Mapping[str, np.ndarray]) -> np.ndarray:
        lanes = self._lanes
        apart = {name: name for name in ("stream", "intercept", "scale", "fade", "priors")} | {"fresh": "fresh priors"}
        before: dict[str, Any] = {name: base[kept].reshape(getattr(lanes, name).shape) for name, kept in apart.items()}
        found = gain_apart(lanes, lanes._replace(**before), rules_of(lanes))
        if self._pairs is None:
            return found
        return np.concatenate([found, gain_pairs_apart(self._pairs, self._pairs.as_it_was(base))])

    def _places_changed(self, base: Mapping[str, np.ndarray]) -> np.ndarray:
        if self._pairs is None:
            return super()._places_changed(base)
        return self.n_features + changed_places(self._pairs, self._pairs.as_it_was(base))

    def _gain_of_places(self, base: Mapping[str, np.ndarray], places: np.ndarray, width: int) -> np.ndarray:
        assert self._pairs is not None
        rows = np.zeros((len(places), width))
        rows[:, :OF_PLACE] = gain_places(self._pairs, self._pairs.as_it_was(base), places - self.n_features)
        return rows

    def _join_apart(self, gains: np.ndarray, parts: int, weight: float) -> None:
        own = n_apart(self._lanes)
        self._fold()
        join_apart(self._lanes, gains[:own], parts, weight, rules_of(self._lanes))
        if self._pairs is not None:
            join_pairs_apart(self._pairs, gains[own:], parts, weight)

    def _join_at(self, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float) -> None:
        own = int(np.count_nonzero(features < self.n_features))
        width = 2 * self._lanes.width + 3
        join_at(self._lanes, features[:own], gains[:own, :width], met[:own], weight, rules_of(self._lanes))
        self._grouped |= bool(gains[:own, width - 1].any())
        if self._pairs is None:
            return
        if self._pairs.factors is not None:
            rules = factor_rules(averaged=False)
            join_factors(self._pairs.factors, features[:own], gains[:own, width:], met[:own], weight, rules)
        places = features[own:] - self.n_features
        join_places(self._pairs, places, gains[own:, :OF_PLACE], met[own:], weight)

    def _discount(self, share: float) -> None:
        discount_lanes(self._lanes, share)
        if self._pairs is not None:
            discount_pairs(self._pairs, share)

    def _add_all(self, others: Sequence[Self], base: Self | None) -> None:
        parts = [self, *others]
        into = type(self)(**self._parameters) if base is None else copy.copy(base)
        counts = np.array([one._lanes.stream[WEIGHT] for one in parts]) - into._lanes.stream[WEIGHT]
        counts = np.maximum(counts, 0.0) if counts.max() > 0 else np.ones(len(parts))
        lost = np.any([one._combination.kept == 0 for one in others], axis=0)
        dropped = np.flatnonzero((self._combination.kept > 0) & lost)
        losses = [_summed([losses_of(one._combination) for one in parts], losses_of(into._combination))]
        losses.append(counts @ [losses_of(one._later) for one in parts] / counts.sum())
        learned = _summed([one._delayed.progress[N_LEARNED] for one in parts], into._delayed.progress[N_LEARNED])
        rests = max(one._delayed.progress[RESTS] for one in parts)
        tally = _summed([one._delayed.tally for one in parts], into._delayed.tally)
        merge_combinations([one._combination for one in parts], counts)
        merge_combinations([one._later for one in parts], counts)
        for combination, summed in zip((self._combination, self._later), losses, strict=True):
            combination.losses[:] = summed, np.ones_like(summed)
        reset_shares(self._later)
        self._delayed.tally[:], self._delayed.progress[:] = tally, (learned, rests)
        merge_lanes([one._lanes for one in parts], into._lanes)
        self._lanes = into._lanes._replace(settings=self._lanes.settings)
        self._grouped = any(one._grouped for one in parts)
        if into._pairs is not None:
            before: Any = type(self)(**self._parameters) if base is None else base
            merge_pairs_of([one._pairs for one in parts if one._pairs is not None], into._pairs, before._pairs)
            self._pairs = into._pairs
        self._drop(dropped)


def _learn_from(
    said: np.ndarray, signs: np.ndarray, weights: np.ndarray, live: Combination, later: Combination, counted: int
) -> np.ndarray:
    """P(y = 1) of some rows by what lanes said of them, from before both combinations learn from them."""
    rows = len(said)
    probability, mean, variance = (np.empty(rows) for _ in range(3))
    combine(said, signs, weights, live, 0, rows, counted, probability, mean, variance)
    there, delayed = np.flatnonzero(weights), np.full((LOST + 2, rows), np.nan)
    learn_sampled_rows(said[there], signs, weights, there, True, later, float(counted), delayed)
    return probability


def _summed(parts: Sequence[Any], base: Any) -> Any:
    """What parts have counted beyond their base, and that of the base once."""
    return np.maximum(np.sum(parts, axis=0) - (len(parts) - 1) * base, 0.0)
