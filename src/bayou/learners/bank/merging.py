"""Merging banks: the gains of their lanes over the base that they grew from add up (`core.gains`).

In rounds (`bayou.rounds`), where shards learn their rows with weights, natural parameters add; models that were trained
independently are averaged. Changes of lanes that forget are always averaged, those of plain gradients are weighted by
the precision gained. Combinations are averaged; that is approximate, since each was learned on other lanes than the
merged ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from bayou.core.gains import (
    AVERAGE,
    GRADIENT,
    LESS,
    RULE_EVIDENCE,
    RULE_RECENT,
    LocationStrength,
    apply_gain,
    apply_gain_one,
    base_not_ancestor_error,
    changed_rows,
    gain,
    gain_one,
)
from bayou.core.model_file import nonzero_rows
from bayou.kernels.compiling import kernel
from bayou.kernels.vector import LANES
from bayou.learners.bank import lanes as layout
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.lanes import LaneState
from bayou.learners.bank.priors import (
    FADE_REBASE_THRESHOLD,
    GROUPS,
    MIN_FADE,
    PRIOR_COUNT,
    PRIOR_PRECISION_P,
    PRIOR_SQUARES,
    compute_priors,
)
from bayou.learners.bank.row_scaling import LEAST_SQUARE, track
from bayou.learners.bank.updates import FARTHEST_32, FARTHEST_64, LIMIT_32, LIMIT_64, SCALE_FARTHEST, SCALE_PRECISION

# Features per block, to bound the memory held in float64.
BLOCK = 1 << 16


def rules_of(lanes: LaneState) -> np.ndarray:
    """Return the merge rule of each lane, a constant of `core.gains`."""
    settings = lanes.settings
    forgets = (settings[layout.USE_DECAY] < 1) | (settings[layout.TIME_DECAY] < 1)
    return np.where(settings[layout.ADAGRAD_RATE] > 0, GRADIENT, np.where(forgets, RULE_RECENT, RULE_EVIDENCE))


def gain_at(
    lanes: LaneState, base: Mapping[str, np.ndarray], base_fade: np.ndarray, features: np.ndarray, rules: np.ndarray
) -> np.ndarray:
    """Return the gain of some features over their rows in `base`: A and B of each lane, uses, summed squares, groups.

    Gains are in units of the features, as lanes that learned separately have scales of their own. The base is taken in
    the lanes' current scale, and faded: a feature that was not seen has gained nothing.
    """
    gains, each = np.empty((len(features), 2 * lanes.width + 3)), _rules(lanes, rules)
    each = each._replace(
        into_b=np.where(rules == RULE_RECENT, lanes.factors(), 1.0 / lanes.factors()),
        base_fade=_faded(lanes, base_fade),
    )
    before = base["state"], base["squares"], base["groups"]
    if _gain_at(lanes.state, lanes.squares, lanes.groups, *before, features.astype(np.int64), each, gains):
        raise base_not_ancestor_error()
    return gains


def apply_feature_gain(
    lanes: LaneState, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float, rules: np.ndarray
) -> None:
    """Add the summed gains of shards to the lanes at some features (`gains.apply_gain`).

    Shards leave priors as they are: the statistics of the joined weights are added here, for `renew`.
    """
    most, highest = (LIMIT_32, FARTHEST_32) if lanes.state.itemsize == 4 else (LIMIT_64, FARTHEST_64)
    some = features.astype(np.int64), np.array(gains, np.float64), met.astype(np.float64)
    limits = most, math.sqrt(most), highest
    sums = np.zeros((lanes.width, 2, GROUPS))
    own = lanes.state, lanes.squares, lanes.tracked, lanes.groups
    _join_at(*own, *some, float(weight), _rules(lanes, rules), lanes.prior_precisions, sums, *limits)
    if weight != 1:
        lanes.priors[:, [PRIOR_SQUARES, PRIOR_COUNT]] += sums[lanes.settings[layout.HAS_LEARNED_PRIOR] > 0]


def renew(lanes: LaneState) -> None:
    """Recompute the priors of groups that have statistics."""
    learned = np.flatnonzero(lanes.settings[layout.HAS_LEARNED_PRIOR])
    met = lanes.priors[:, [PRIOR_SQUARES, PRIOR_COUNT]].any(axis=1)
    compute_priors(lanes.priors, learned, lanes.prior_precisions, lanes.settings[layout.INITIAL_PRECISION])
    lanes.priors[:, PRIOR_PRECISION_P] *= met  # 0, as at the start, for groups without statistics


def global_gain(lanes: LaneState, base: LaneState, rules: np.ndarray) -> np.ndarray:
    """Return the gain of the lanes since `base` outside the tables: intercept, scales, stream, fade and priors."""
    intercept = gain(_intercepts(lanes), _intercepts(base), rules)
    scale = gain(_scales(lanes), _scales(base), _scale_rules(rules))
    counted, fade = _summed(lanes.stream) - _summed(base.stream), _faded(lanes, base.fade) / base.fade[0] - 1.0
    return np.concatenate([*intercept, *scale, counted, fade, (_sums(lanes) - _sums(base)).ravel()])


def global_gain_size(lanes: LaneState) -> int:
    """Return the length of `global_gain`."""
    return 5 * lanes.width + len(lanes.stream) + 4 * GROUPS * len(lanes.priors)


def apply_global_gain(lanes: LaneState, gains: np.ndarray, parts: int, weight: float, rules: np.ndarray) -> None:
    """Add the summed `global_gain` of shards; call it first, as it sets the units in which features count."""
    *pairs, rest = np.split(gains.copy(), np.arange(1, 5) * lanes.width)
    more, fade, sums = np.split(rest, np.cumsum([len(lanes.stream), lanes.width]))
    sums = _sums(lanes) + sums.reshape(-1, 2, 2, GROUPS)
    lanes.fade[0] = np.maximum(lanes.fade[0] * np.maximum(1.0 + fade / max(parts, 1), 0.0) ** weight, MIN_FADE)
    intercept, scale = _intercepts(lanes), _scales(lanes)
    lanes.intercept[:] = apply_gain(intercept, intercept.held, pairs[0], pairs[1], parts, weight, rules)
    lanes.scale[:] = apply_gain(scale, scale.held, pairs[2], pairs[3], parts, weight, _scale_rules(rules))
    np.clip(lanes.scale[0], -SCALE_FARTHEST, SCALE_FARTHEST, out=lanes.scale[0])
    more[layout.STREAM_WEIGHT] /= weight
    total = np.maximum(_summed(lanes.stream) + more, [0.0, -np.inf, 0.0, 0.0])
    total[layout.STREAM_MEAN_LOG_LENGTH] = (
        total[layout.STREAM_MEAN_LOG_LENGTH] / total[layout.STREAM_ROWS] if total[layout.STREAM_ROWS] else 0.0
    )
    lanes.stream[:] = total
    if weight == 1:
        _store_sums(lanes, sums)


def discount_lanes(lanes: LaneState, share: float) -> None:
    """Multiply by `share` the precision gains of lanes that do not forget, and of all scales; means stay."""
    lasting = np.where(rules_of(lanes) == RULE_RECENT, 1.0, share)
    lanes.intercept[1] *= lasting
    lanes.scale[1] *= share
    rows = nonzero_rows(lanes.state)
    natural = np.flatnonzero(lanes.settings[layout.HAS_LEARNED_PRIOR])
    place = natural // LANES * 2 * LANES + natural % LANES
    for start in range(0, len(rows), BLOCK):
        chunk = rows[start : start + BLOCK]
        held = lanes.prior_precisions[lanes.groups[chunk]][:, natural].astype(np.float64)
        block = lanes.state[chunk].astype(np.float64)
        gained_ = block[:, place + LANES]
        block[:, place] *= (held + lasting[natural] * gained_) / (held + gained_)
        gains = block.reshape(len(chunk), -1, 2, LANES)[:, :, 1]
        gains *= lasting.reshape(-1, LANES)
        lanes.state[chunk] = block


def changed_features(lanes: LaneState, base: LaneState) -> np.ndarray:
    """Return the features whose state or squares differ from the base's."""
    return changed_rows([lanes.state, lanes.squares], [base.state, base.squares])


def merge_lanes(parts: list[LaneState], merged: LaneState) -> None:
    """Merge lanes that grew from `merged` into it, in place, averaging their gains.

    A sum could overshoot, as several of them may have made the same corrections.
    """
    rules = rules_of(merged)
    rules = np.where(rules == RULE_EVIDENCE, AVERAGE, rules)
    small = ("stream", "intercept", "scale", "fade", "priors", "pending_sums", "prior_precisions")
    base = merged._replace(**{name: getattr(merged, name).copy() for name in small})
    met = [changed_features(part, base) for part in parts]
    features = np.unique(np.concatenate(met))
    learned = sum(bool(part.stream[layout.STREAM_WEIGHT] > base.stream[layout.STREAM_WEIGHT]) for part in parts)
    apply_global_gain(merged, np.sum([global_gain(part, base, rules) for part in parts], axis=0), learned, 1.0, rules)
    for start in range(0, len(features), BLOCK):
        block = features[start : start + BLOCK]
        before = {name: getattr(base, name)[block] for name in ("state", "squares", "groups")}
        count = np.sum([np.isin(block, own, assume_unique=True) for own in met], axis=0)
        gains = np.sum([gain_at(part, before, base.fade, block, rules) for part in parts], axis=0)
        apply_feature_gain(merged, block, gains, count, 1.0, rules)


def _scale_rules(rules: np.ndarray) -> int:
    """Return the merge rule of scales, which no lane forgets."""
    return AVERAGE if AVERAGE in rules else RULE_EVIDENCE


class _MergeConfig(NamedTuple):
    """Merge rules of the lanes, and their factors to the units of the features, for kernels."""

    rule: np.ndarray
    into_a: np.ndarray
    into_b: np.ndarray
    prior: np.ndarray  # the precision of a feature's prior, and what its mean square adds; plain gradients have none
    per_square: np.ndarray
    natural: np.ndarray  # whether it keeps precision times mean
    fade: np.ndarray
    base_fade: np.ndarray


def _rules(lanes: LaneState, rules: np.ndarray) -> _MergeConfig:
    factors, settings = lanes.factors(), lanes.settings
    prior, per_square = np.where(
        settings[layout.ADAGRAD_RATE] > 0, 0.0, settings[[layout.PRIOR_PRECISION, layout.PRECISION_PER_SQUARE]]
    )
    into_b, natural = np.where(rules == RULE_RECENT, 1.0 / factors, factors), settings[layout.HAS_LEARNED_PRIOR] > 0
    return _MergeConfig(rules, factors**2, into_b, prior, per_square, natural, lanes.fade[0], lanes.fade[0])


@kernel
def _gain_at(state, squares, groups, base_state, base_squares, base_groups, features, lanes, gains):
    """Fill `gains`, one row per feature; return whether the base has learned more."""
    width, less = lanes.rule.size, False
    for row in range(features.size):
        feature = features[row]
        square, uses = np.float64(squares[feature, 0]), np.float64(squares[feature, 1])
        base_square, base_uses = np.float64(base_squares[row, 0]), np.float64(base_squares[row, 1])
        gains[row, 2 * width] = uses - base_uses
        gains[row, 2 * width + 1] = uses * square - base_uses * base_square
        gains[row, 2 * width + 2] = np.float64(groups[feature]) - np.float64(base_groups[row])
        square, base_square = square if uses > 0 else 1.0, base_square if base_uses > 0 else 1.0
        for k in range(width):
            column, prior, per_square = 2 * k - k % LANES, lanes.prior[k], lanes.per_square[k]
            place, base_place = np.float64(state[feature, column]), np.float64(base_state[row, column])
            strength = np.float64(state[feature, column + LANES]) * lanes.fade[k]
            base_gain = np.float64(base_state[row, column + LANES]) * lanes.base_fade[k]
            if lanes.natural[k]:
                a, b = strength - base_gain, place - base_place
            else:
                a, b = gain_one(
                    place, strength, prior + per_square * square,
                    base_place, base_gain, prior + per_square * base_square, lanes.rule[k],
                )  # fmt: skip
            less |= lanes.rule[k] != RULE_RECENT and a < LESS * base_gain
            gains[row, k], gains[row, width + k] = a / lanes.into_a[k], b * lanes.into_b[k]
    return less


@kernel
def _join_at(state, squares, marks, groups, features, gains, met, weight, lanes, held, sums, most, far, highest):
    """Add gains at some features; add the growth of the sums of learned priors to `sums`."""
    width = lanes.rule.size
    for row in range(features.size):
        feature = features[row]
        base_square, base_uses = np.float64(squares[feature, 0]), np.float64(squares[feature, 1])
        uses = base_uses + max(gains[row, 2 * width], 0.0)
        squared = base_uses * base_square + max(gains[row, 2 * width + 1], 0.0)
        square = min(max(squared / uses if uses > 0 else 1.0, LEAST_SQUARE), most)
        base_square = base_square if base_uses > 0 else 1.0
        # Shards that have seen a feature agree on its group, unless two columns share it.
        group = np.float64(groups[feature]) + gains[row, 2 * width + 2] / max(met[row], 1.0)
        groups[feature] = np.uint8(min(max(group + 0.5, 0.0), 255.0))
        for k in range(width):
            column, prior, per_square = 2 * k - k % LANES, lanes.prior[k], lanes.per_square[k]
            mean = np.float64(state[feature, column])
            strength = np.float64(state[feature, column + LANES]) * lanes.fade[k]
            if lanes.natural[k]:
                prior = np.float64(held[groups[feature], k])
                mean /= prior + strength
                sums[k, 0, groups[feature]] -= mean * mean
                sums[k, 1, groups[feature]] += prior / (prior + strength)
            mean, strength = apply_gain_one(
                mean, strength, prior + per_square * base_square, prior + per_square * square,
                gains[row, k] * lanes.into_a[k], gains[row, width + k] * lanes.into_b[k],
                met[row], lanes.rule[k], weight,
            )  # fmt: skip
            mean, strength = min(max(mean, -far), far), min(strength, most)
            if lanes.natural[k]:
                sums[k, 0, groups[feature]] += mean * mean
                sums[k, 1, groups[feature]] -= prior / (prior + strength)
            state[feature, column] = mean * (prior + strength) if lanes.natural[k] else mean
            state[feature, column + LANES] = min(strength / lanes.fade[k], highest)
        squares[feature, 0], squares[feature, 1] = square if uses > 0 else 0.0, uses
        if uses > 0:
            track(marks, feature)


def _faded(lanes: LaneState, base: np.ndarray) -> np.ndarray:
    """Return the current factor of the base's stored gains, given `base`, its `fade` array at the time."""
    return lanes.fade[0] * FADE_REBASE_THRESHOLD ** (base[1] - lanes.fade[1])


def _units(lanes: LaneState) -> np.ndarray:
    """Return the factors that convert prior statistics to the units of the features."""
    factors = lanes.factors()[lanes.settings[layout.HAS_LEARNED_PRIOR] > 0]
    return np.stack([factors**2, np.ones(len(factors))], axis=1)[:, :, None]


def _sums(lanes: LaneState) -> np.ndarray:
    """Return the statistics that priors are learned from, in units of the features: those in P, then fresh ones."""
    units = _units(lanes)
    return np.stack(
        [lanes.priors[:, [PRIOR_SQUARES, PRIOR_COUNT]] * units, lanes.pending_sums.swapaxes(1, 2) * units], axis=1
    )


def _store_sums(lanes: LaneState, sums: np.ndarray) -> None:
    """Store statistics as `_sums` returns them, and recompute the priors."""
    units = _units(lanes)
    lanes.priors[:, [PRIOR_SQUARES, PRIOR_COUNT]] = sums[:, 0] / units
    lanes.pending_sums[:] = (sums[:, 1] / units).swapaxes(1, 2)
    renew(lanes)


def _intercepts(lanes: LaneState) -> LocationStrength:
    prior = np.where(lanes.settings[layout.ADAGRAD_RATE] > 0, 0.0, lanes.settings[layout.INTERCEPT_PRECISION])
    return LocationStrength(lanes.intercept[0], lanes.intercept[1], prior)


def _scales(lanes: LaneState) -> LocationStrength:
    return LocationStrength(lanes.scale[0], lanes.scale[1], np.full(lanes.width, SCALE_PRECISION))


def _summed(stream: np.ndarray) -> np.ndarray:
    """Return the counters of the stream, with the sum of log lengths in place of their mean."""
    summed = stream.copy()
    summed[layout.STREAM_MEAN_LOG_LENGTH] *= stream[layout.STREAM_ROWS]
    return summed


def merge_combinations(parts: list[Combination], counts: np.ndarray) -> None:
    """Merge combinations into `parts[0]`, in place, weighted by `counts`; losses are left to the caller.

    Stackers have learned to correct weaker lanes than the merged ones, so their means shrink: to half, for many parts.
    """
    mine, counts = parts[0], counts / counts.sum()
    mine.damping[:] = counts @ [part.damping for part in parts]
    for j in range(len(mine.stacker_mean)):
        _merge_stackers(j, parts, counts)
    mine.stacker_mean[:] *= (1.0 + float(counts @ counts)) / 2.0
    mine.shares[:] = _merged_shares([part.shares for part in parts], counts)
    mine.final_shares[:] = _merged_shares([part.final_shares for part in parts], counts)


def negate_lanes(lanes: LaneState) -> None:
    """Negate all means in place, which gives the state that opposite labels would have produced."""
    lanes.intercept[0] = 0.0 - lanes.intercept[0]  # which leaves no -0.0: zero bytes mean the prior
    rows = nonzero_rows(lanes.state)
    for column in range(0, lanes.state.shape[1], 2 * LANES):
        lanes.state[rows, column : column + LANES] = 0.0 - lanes.state[rows, column : column + LANES]


def mirror_combination(combination: Combination) -> None:
    """Adapt a combination, in place, to mirrored lanes: negate the stackers' b, and leave the rest."""
    combination.stacker_mean[:, 0] *= -1.0
    combination.stacker_covariance[:, 0, 1:] *= -1.0
    combination.stacker_covariance[:, 1:, 0] *= -1.0


def _merge_stackers(j: int, parts: list[Combination], counts: np.ndarray) -> None:
    """Average the gains of the j-th stackers in precision, and in precision times mean, into `parts[0]`."""
    mine = parts[0]
    live = np.flatnonzero(mine.stacker_prior > 0)
    own_prior = mine.stacker_prior[live]
    prior = np.diag(1.0 / own_prior)
    gained, moved = np.zeros_like(prior), np.zeros(len(live))
    for part, count in zip(parts, counts, strict=True):
        # A dropped output has nothing to invert: it counts as never learned.
        there = part.stacker_prior[live] > 0
        covariance = part.stacker_covariance[j][np.ix_(live, live)]
        covariance = np.where(np.outer(there, there), covariance, np.diag(own_prior))
        precision = np.linalg.inv(covariance)
        gained += count * (precision - prior)
        moved += count * precision @ part.stacker_mean[j][live]
    # A stacker with memory may be less certain than the prior in some direction: use the prior there.
    root = np.sqrt(own_prior)
    values, vectors = np.linalg.eigh(root[:, None] * (gained + gained.T) / 2.0 * root)
    half = root[:, None] * vectors
    covariance = half / (1.0 + np.maximum(values, 0.0)) @ half.T
    mine.stacker_covariance[j][np.ix_(live, live)] = (covariance + covariance.T) / 2.0
    mine.stacker_mean[j][live] = covariance @ moved


def _merged_shares(shares: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """Return the normalized geometric mean of the shares; a share that is 0 in any part stays 0."""
    there = np.all([each > 0 for each in shares], axis=0)
    logs = counts @ [np.log(np.where(there, each, 1.0)) for each in shares]
    merged = np.where(there, np.exp(logs - np.max(logs[there])), 0.0)
    return merged / merged.sum()
