"""Merging lanes of pairs: their gains add up as those of other lanes do (`merging`).

The gains of X at its places are sent with those of features, as if the places came after them, each with its two
features: in halves of 16 bits, whose sums over shards can be decoded if all shards have the same pair there.
"""

from __future__ import annotations

import numpy as np

from bayou.core.gains import (
    AVERAGE,
    RULE_EVIDENCE,
    RULE_RECENT,
    LocationStrength,
    apply_gain,
    changed_rows,
    check_grew_from,
    gain,
)
from bayou.core.model_file import nonzero_rows
from bayou.learners.bank.crosses import BIAS_PRIOR, FEATURES, GAIN, MEAN, PAIRS, PRIORS, CrossState, weight_indices
from bayou.learners.bank.factors import ALONE_PRIOR, FACTOR_PRIOR, PAIR_PRIORS, FactorState
from bayou.learners.bank.pairs import PairLanes
from bayou.learners.bank.updates import LIMIT_32, LIMIT_64, SCALE_FARTHEST, SCALE_PRECISION

# Columns of a place: A and B of its gain, and both features in halves.
OF_PLACE = 6
# A row of the factors' state: means and gained precisions of P, then of Q.
_MEANS, _GAINS = np.r_[0:8, 16:24], np.r_[8:16, 24:32]
_HELD = np.array([*[FACTOR_PRIOR] * 7, ALONE_PRIOR, *[FACTOR_PRIOR] * 8])
_FADES = np.repeat([False, True], 8)


def factor_rules(averaged: bool) -> np.ndarray:
    """Return the merge rule of each factor: Q forgets; P is merged as lasting evidence, or averaged."""
    return np.where(_FADES, RULE_RECENT, AVERAGE if averaged else RULE_EVIDENCE)


def changed_places(pairs: PairLanes, base: PairLanes) -> np.ndarray:
    """Return the places at which X differs from its base."""
    return changed_rows([pairs.crosses.weights], [base.crosses.weights])


def changed_factors(pairs: PairLanes, base: PairLanes) -> np.ndarray:
    """Return the features at which P or Q differ from their base."""
    if pairs.factors is None or base.factors is None:
        return np.empty(0, np.int64)
    return changed_rows([pairs.factors.state], [base.factors.state])


def _at(lane: CrossState, places: np.ndarray) -> LocationStrength:
    mean, strength = lane.weights[places].astype(np.float64).T
    return LocationStrength(mean, strength, PRIORS[FEATURES])


def _scales_of(lane: CrossState, owners: np.ndarray) -> np.ndarray:
    """Return the factor of values at places with these owners; a place with two features is a pair's."""
    return np.exp(lane.scale[MEAN])[np.where(owners[:, 1] > 0, PAIRS, FEATURES)]


def cross_gain(pairs: PairLanes, base: PairLanes, places: np.ndarray, rule: int = RULE_EVIDENCE) -> np.ndarray:
    """Return the gain of X at some places since `base`, one row per place."""
    lane, owners, before = pairs.crosses, pairs.crosses.features[places], _at(base.crosses, places)
    a, b = gain(_at(lane, places), before, rule)
    check_grew_from(a, before, rule)
    factors, halves = _scales_of(lane, owners), owners.astype("<u4").view("<u2").reshape(len(places), 4)
    return np.column_stack([a / factors**2, b / factors, halves.astype(np.float64)])


def apply_cross_gain(
    pairs: PairLanes, places: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float, rule: int = RULE_EVIDENCE
) -> None:
    """Add the summed gains of shards to X at some places."""
    lane, held = pairs.crosses, PRIORS[FEATURES]
    halves = np.rint(gains[:, 2:] / np.maximum(met, 1)[:, None]).clip(0, 65535).astype("<u2")
    hashed_pairs = np.ascontiguousarray(halves).view("<u4").reshape(len(places), 2)
    # If shards have different pairs at a place, their sum is meaningless, and hashes to another place.
    others = np.where(hashed_pairs[:, 1] > 0, hashed_pairs[:, 1].astype(np.int64) - 1, -1)
    right = (hashed_pairs[:, 0] > 0) & (
        weight_indices(np.maximum(hashed_pairs[:, 0], 1).astype(np.int64) - 1, others, lane.bits) == places
    )
    own_pairs = lane.features[places]
    owners = np.where(own_pairs[:, :1] > 0, own_pairs, np.where(right[:, None], hashed_pairs, 0))
    factors, before = _scales_of(lane, owners), _at(lane, places)
    mean, strength = apply_gain(before, held, gains[:, 0] * factors**2, gains[:, 1] * factors, met, weight, rule)
    most = LIMIT_32 if lane.weights.itemsize == 4 else LIMIT_64
    lane.weights[places] = np.stack([np.clip(mean, -np.sqrt(most), np.sqrt(most)), np.minimum(strength, most)], axis=1)
    lane.features[places] = owners


def _factors_at(lanes: FactorState, features: np.ndarray) -> LocationStrength:
    return _of_rows(lanes.state[features])


def _of_rows(rows: np.ndarray) -> LocationStrength:
    wide = rows.astype(np.float64)
    return LocationStrength(wide[:, _MEANS], wide[:, _GAINS], _HELD)


def gain_factors(lanes: FactorState, base: np.ndarray, features: np.ndarray, rules: np.ndarray) -> np.ndarray:
    """Return the gains of P and Q at some features, given their rows of the base's table."""
    return np.hstack(gain(_factors_at(lanes, features), _of_rows(base), rules))


def join_factors(
    lanes: FactorState, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float, rules: np.ndarray
) -> None:
    """Add the summed gains of shards to P and Q at some features."""
    a, b = np.hsplit(gains, 2)
    mean, strength = apply_gain(_factors_at(lanes, features), _HELD, a, b, met[:, None], weight, rules)
    most = LIMIT_32 if lanes.state.itemsize == 4 else LIMIT_64
    rows = np.empty((len(features), 2 * len(_MEANS)), lanes.state.dtype)
    rows[:, _MEANS], rows[:, _GAINS] = mean, np.minimum(strength, most)
    lanes.state[features] = rows


def _small_arrays(pairs: PairLanes) -> list[tuple[LocationStrength, np.ndarray, float]]:
    """Return the parameters outside the tables: their strengths, [means, precision gains], and the bound of means."""
    x = pairs.crosses
    arrays = [
        (LocationStrength(x.intercept[MEAN], x.intercept[GAIN], BIAS_PRIOR), x.intercept, np.inf),
        (LocationStrength(x.scale[MEAN], x.scale[GAIN], SCALE_PRECISION), x.scale, SCALE_FARTHEST),
    ]
    if pairs.factors is not None:
        f = pairs.factors
        arrays.append((LocationStrength(f.intercept[MEAN], f.intercept[GAIN], BIAS_PRIOR), f.intercept, np.inf))
        for prior, own in zip(PAIR_PRIORS, f.pairs, strict=True):
            arrays.append((LocationStrength(own[MEAN], own[GAIN], prior), own, np.inf))
    return arrays


def _streams(pairs: PairLanes) -> list[np.ndarray]:
    return [pairs.crosses.stream] + ([] if pairs.factors is None else [pairs.factors.stream])


def gain_pairs_apart(pairs: PairLanes, base: PairLanes, rule: int = RULE_EVIDENCE) -> np.ndarray:
    """Return the gains of lanes of pairs since `base` in intercepts, scales, pairs of groups, and the stream."""
    gains = []
    for (now, _, _), (before, _, _) in zip(_small_arrays(pairs), _small_arrays(base), strict=True):
        gains += [np.ravel(part) for part in gain(now, before, rule)]
    for mine, theirs in zip(_streams(pairs), _streams(base), strict=True):
        gains.append(np.array([mine[0] - theirs[0], mine[0] * mine[1] - theirs[0] * theirs[1]]))
    return np.concatenate(gains)


def join_pairs_apart(pairs: PairLanes, gains: np.ndarray, parts: int, weight: float, rule: int = RULE_EVIDENCE) -> None:
    """Add the summed `gain_pairs_apart` of shards; call it before the other joins."""
    start = 0
    for before, parameters, farthest in _small_arrays(pairs):
        size = np.size(before.mean)
        a, b = (gains[start + k * size : start + (k + 1) * size].reshape(np.shape(before.mean)) for k in range(2))
        mean, strength = apply_gain(before, before.held, a, b, parts, weight, rule)
        parameters[MEAN], parameters[GAIN] = np.clip(mean, -farthest, farthest), strength
        start += 2 * size
    for stream in _streams(pairs):
        rows = max(stream[0] + gains[start], 0.0)
        stream[:] = rows, (stream[0] * stream[1] + gains[start + 1]) / rows if rows else 0.0
        start += 2


def discount_pairs(pairs: PairLanes, share: float) -> None:
    """Multiply by `share` the precision gains of lanes of pairs, but not of Q's factors, which fade; means stay."""
    for _, parameters, _ in _small_arrays(pairs):
        parameters[GAIN] *= share
    rows = nonzero_rows(pairs.crosses.weights)
    pairs.crosses.weights[rows, GAIN] *= pairs.crosses.weights.dtype.type(share)
    if pairs.factors is not None:
        state = pairs.factors.state
        state[np.ix_(nonzero_rows(state), _GAINS[~_FADES])] *= state.dtype.type(share)


def merge_pair_lanes(parts: list[PairLanes], merged: PairLanes, base: PairLanes) -> None:
    """Merge lanes of pairs that grew from `base` into `merged`, which equals `base`, averaging their gains."""
    counts = [part.crosses.stream[0] > base.crosses.stream[0] for part in parts]
    apart = np.sum([gain_pairs_apart(part, base, AVERAGE) for part in parts], axis=0)
    join_pairs_apart(merged, apart, max(sum(counts), 1), 1.0, AVERAGE)
    met = [changed_places(part, base) for part in parts]
    places = np.unique(np.concatenate(met))
    count = np.sum([np.isin(places, own, assume_unique=True) for own in met], axis=0)
    gains = np.sum([cross_gain(part, base, places, AVERAGE)[:, :2] for part in parts], axis=0)
    owners = np.max([part.crosses.features[places] for part in parts], axis=0)
    halves = owners.astype("<u4").view("<u2").reshape(len(places), 4) * np.maximum(count, 1)[:, None]
    apply_cross_gain(merged, places, np.column_stack([gains, halves]), count, 1.0, AVERAGE)
    if merged.factors is None or base.factors is None:
        return
    rules, machines = factor_rules(averaged=True), [part.factors for part in parts if part.factors is not None]
    met = [changed_factors(part, base) for part in parts]
    features = np.unique(np.concatenate(met))
    count = np.sum([np.isin(features, own, assume_unique=True) for own in met], axis=0)
    gains = np.sum([gain_factors(own, base.factors.state[features], features, rules) for own in machines], axis=0)
    join_factors(merged.factors, features, gains, count, 1.0, rules)
