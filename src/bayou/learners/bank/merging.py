"""Banks that learned apart as one: what their lanes have gained over the one they grew from adds up (`core.gains`).

In rounds (`bayou.rounds`), where shards learn their rows with weights, natural parameters add; parts that were learned
by anybody are averaged. Moves of lanes that forget are averaged always, those of plain gradients weighed by what was
gained. Of combinations there is the mean of what parts have learned; that is a guess, as they were learned on other
lanes than those that come out.
"""

from __future__ import annotations

import math

import numpy as np

from bayou.core.gains import AVERAGE, EVIDENCE, GRADIENT, RECENT, Places, changed, gained, joined, refuse_less
from bayou.core.model_file import nonzero_rows
from bayou.kernels.vector import LANES
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.lanes import (
    BIAS_PRIOR,
    KEEP,
    LOG_LENGTH,
    NATURAL,
    OTHER,
    PER_SQUARE,
    PRECISION,
    RATE,
    ROWS,
    STAYS,
    WEIGHT,
    Lanes,
)
from bayou.learners.bank.priors import GROUPS, HELD, KNOWN, LEAST_FADE, SQUARES, renewed
from bayou.learners.bank.rows import LEAST_SQUARE
from bayou.learners.bank.steps import LIMIT_32, LIMIT_64, SCALE_FARTHEST, SCALE_PRECISION

# Features at a time, to bound what is held in float64.
BLOCK = 1 << 16


def rules_of(lanes: Lanes) -> np.ndarray:
    """By which of the rules of `core.gains` each lane is merged."""
    settings = lanes.settings
    forgets = (settings[KEEP] < 1) | (settings[STAYS] < 1)
    return np.where(settings[RATE] > 0, GRADIENT, np.where(forgets, RECENT, EVIDENCE))


def gain_at(lanes: Lanes, base: Lanes, features: np.ndarray, rules: np.ndarray) -> np.ndarray:
    """What lanes have learned of some features since `base`: A and B of every lane, uses, summed squares, groups.

    In units of the features, as lanes that learned apart have scales of their own. The base counts in the lanes' own
    scale: a feature that was not met has gained nothing.
    """
    factors, before = lanes.factors(), _places(base._replace(fade=_faded(lanes, base)), features)
    a, b = gained(_places(lanes, features), before, rules)
    refuse_less(a, before, rules)
    more = _counted(lanes.squares[features]) - _counted(base.squares[features])
    groups = lanes.groups[features].astype(np.float64) - base.groups[features]
    return np.hstack([a / factors**2, b * np.where(rules == RECENT, factors, 1.0 / factors), more, groups[:, None]])


def join_at(
    lanes: Lanes, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float, rules: np.ndarray
) -> None:
    """Let lanes learn of some features what parts have gained over them in sum (`gains.joined`)."""
    factors, width = lanes.factors(), lanes.width
    most = LIMIT_32 if lanes.state.itemsize == 4 else LIMIT_64
    uses, squared = (_counted(lanes.squares[features]) + np.maximum(gains[:, 2 * width : -1], 0.0)).T
    square = np.divide(squared, uses, out=np.ones(len(features)), where=uses > 0)
    square = np.clip(square, LEAST_SQUARE, most)
    a = gains[:, :width] * factors**2
    b = gains[:, width : 2 * width] * np.where(rules == RECENT, 1.0 / factors, factors)
    before = _places(lanes, features)
    # Parts that have met a feature have it in the same group, unless two columns share it.
    groups = lanes.groups[features] + gains[:, -1] / np.maximum(met, 1)
    lanes.groups[features] = np.clip(np.rint(groups), 0, GROUPS - 1)
    held = _held(lanes, features, square)
    mean, strength = joined(before, held, a, b, met[:, None], weight, rules)
    far = math.sqrt(most)
    _put(lanes, features, Places(np.clip(mean, -far, far), np.minimum(strength, most), held))
    lanes.squares[features] = np.stack([np.where(uses > 0, square, 0.0), uses], axis=1)


def gain_apart(lanes: Lanes, base: Lanes, rules: np.ndarray) -> np.ndarray:
    """What lanes have learned since `base` of intercept, scales, stream and priors, and how far evidence has faded."""
    intercept = gained(_intercepts(lanes), _intercepts(base), rules)
    scale = gained(_scales(lanes), _scales(base), _lasting(rules))
    counted = _summed(lanes.stream) - _summed(base.stream)
    fade = _faded(lanes, base) / base.fade - 1.0
    return np.concatenate([*intercept, *scale, fade, counted, (_sums(lanes) - _sums(base)).ravel()])


def join_apart(lanes: Lanes, gains: np.ndarray, parts: int, weight: float, rules: np.ndarray) -> None:
    """Let lanes learn that of so many parts; before all else, as it decides of the units in which features count."""
    *pairs, fade, more, sums = np.split(gains.copy(), [*(np.arange(1, 6) * lanes.width), 5 * lanes.width + 4])
    sums = _sums(lanes) + sums.reshape(-1, 2, 2, GROUPS) / weight
    intercept, scale = _intercepts(lanes), _scales(lanes)
    lanes.intercept[:] = joined(intercept, intercept.held, pairs[0], pairs[1], parts, weight, rules)
    lanes.scale[:] = joined(scale, scale.held, pairs[2], pairs[3], parts, weight, _lasting(rules))
    np.clip(lanes.scale[0], -SCALE_FARTHEST, SCALE_FARTHEST, out=lanes.scale[0])
    lanes.fade[:] = np.clip(lanes.fade * (1.0 + fade / max(parts, 1)) ** weight, LEAST_FADE, 1.0)
    more[WEIGHT] /= weight
    total = np.maximum(_summed(lanes.stream) + more, [0.0, -np.inf, 0.0, 0.0])
    length = total[LOG_LENGTH] / total[ROWS] if total[ROWS] else 0.0
    lanes.stream[[ROWS, LOG_LENGTH, OTHER, WEIGHT]] = total[ROWS], length, total[OTHER] > 0, total[WEIGHT]
    _put_sums(lanes, sums)


def discount_lanes(lanes: Lanes, share: float) -> None:
    """Let everything that was learned and does not fade by itself count less; means stay as they are."""
    lasting = np.where(rules_of(lanes) == RECENT, 1.0, share)
    lanes.intercept[1] *= lasting
    lanes.scale[1] *= share
    rows = nonzero_rows(lanes.state)
    for start in range(0, len(rows), BLOCK):
        here = rows[start : start + BLOCK]
        places = _places(lanes, here)
        _put(lanes, here, places._replace(strength=places.strength * lasting))


def changed_at(lanes: Lanes, base: Lanes) -> np.ndarray:
    """The features of which lanes know something else than their base."""
    return changed([lanes.state, lanes.squares], [base.state, base.squares])


def merge_lanes(parts: list[Lanes], into: Lanes) -> None:
    """Of parts that grew from `into`, which then knows what all know: the average of what they have come to.

    Nobody knows by how much corrections that all parts have made would overshoot in sum.
    """
    rules = rules_of(into)
    rules = np.where(rules == EVIDENCE, AVERAGE, rules)
    small = ("stream", "intercept", "scale", "fade", "priors", "fresh", "held")
    base = into._replace(**{name: getattr(into, name).copy() for name in small})
    met = [changed_at(part, base) for part in parts]
    features = np.unique(np.concatenate(met))
    learned = sum(bool(part.stream[WEIGHT] > base.stream[WEIGHT]) for part in parts)
    join_apart(into, np.sum([gain_apart(part, base, rules) for part in parts], axis=0), learned, 1.0, rules)
    for start in range(0, len(features), BLOCK):
        here = features[start : start + BLOCK]
        count = np.sum([np.isin(here, own, assume_unique=True) for own in met], axis=0)
        gains = np.sum([gain_at(part, base, here, rules) for part in parts], axis=0)
        join_at(into, here, gains, count, 1.0, rules)


def _lasting(rules: np.ndarray) -> int:
    """By which rule scales are merged, which nobody forgets."""
    return AVERAGE if AVERAGE in rules else EVIDENCE


def _places(lanes: Lanes, features: np.ndarray) -> Places:
    rows = lanes.state[features].astype(np.float64).reshape(len(features), lanes.width // LANES, 2, LANES)
    squares = lanes.squares[features].astype(np.float64)
    held = _held(lanes, features, np.where(squares[:, 1] > 0, squares[:, 0], 1.0))
    kept, strength = (rows[:, :, at].reshape(held.shape) for at in (0, 1))
    strength = strength * lanes.fade
    learned = np.flatnonzero(lanes.settings[NATURAL])
    kept[:, learned] /= (held + strength)[:, learned]
    return Places(kept, strength, held)


def _put(lanes: Lanes, features: np.ndarray, places: Places) -> None:
    """Eight means, eight precisions, and so on: what `_places` has read."""
    whole = places.held + places.strength
    kept = np.where(lanes.settings[NATURAL] > 0, places.mean * whole, places.mean)
    rows = np.stack([kept, places.strength / lanes.fade], axis=1).reshape(len(kept), 2, -1, LANES)
    lanes.state[features] = rows.swapaxes(1, 2).reshape(len(kept), -1)


def _held(lanes: Lanes, features: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The precision of each feature's prior in each lane; plain gradients have none."""
    held = lanes.held[lanes.groups[features]] + lanes.settings[PER_SQUARE] * squares[:, None]
    return np.where(lanes.settings[RATE] > 0, 0.0, held)


def _sums(lanes: Lanes) -> np.ndarray:
    """What priors are learned from, in units of the features: of each group what is in P, and what is fresh."""
    learned = np.flatnonzero(lanes.settings[NATURAL])
    units = np.stack([lanes.factors()[learned] ** 2, np.ones(len(learned))], axis=1)[:, :, None]
    return np.stack([lanes.priors[:, [SQUARES, KNOWN]] * units, lanes.fresh.swapaxes(1, 2) * units], axis=1)


def _put_sums(lanes: Lanes, sums: np.ndarray) -> None:
    """What `_sums` has read."""
    learned = np.flatnonzero(lanes.settings[NATURAL])
    units = np.stack([lanes.factors()[learned] ** 2, np.ones(len(learned))], axis=1)[:, :, None]
    lanes.priors[:, [SQUARES, KNOWN]], lanes.fresh[:] = sums[:, 0] / units, (sums[:, 1] / units).swapaxes(1, 2)
    renewed(lanes.priors, learned, lanes.held, lanes.settings[PRECISION])
    lanes.priors[:, HELD] *= sums[:, 0].any(axis=1)  # as before anything was learned: 0


def _faded(lanes: Lanes, base: Lanes) -> np.ndarray:
    """To what the base's own evidence has faded by now; where a part has begun anew with 1, to nothing."""
    return np.where(lanes.fade <= base.fade, lanes.fade, LEAST_FADE * base.fade)


def _counted(squares: np.ndarray) -> np.ndarray:
    """Uses and summed squares of features; their mean squares are kept."""
    mean, uses = squares.astype(np.float64).T
    return np.stack([uses, uses * mean], axis=1)


def _intercepts(lanes: Lanes) -> Places:
    return Places(
        lanes.intercept[0], lanes.intercept[1], np.where(lanes.settings[RATE] > 0, 0.0, lanes.settings[BIAS_PRIOR])
    )


def _scales(lanes: Lanes) -> Places:
    return Places(lanes.scale[0], lanes.scale[1], np.full(lanes.width, SCALE_PRECISION))


def _summed(stream: np.ndarray) -> np.ndarray:
    """What is counted of the stream, with the sum of log lengths in the place of their mean."""
    summed = stream.copy()
    summed[LOG_LENGTH] *= stream[ROWS]
    return summed


def merge_combinations(parts: list[Combination], counts: np.ndarray) -> None:
    """Into the first of `parts`: what they know in the mean, each counting so much; losses are left to the caller.

    Stackers have learned how to correct lanes that knew less than those that come out: of many parts, half of that.
    """
    mine, counts = parts[0], counts / counts.sum()
    mine.damping[:] = counts @ [part.damping for part in parts]
    for j in range(len(mine.stacker_mean)):
        _merge_stackers(j, parts, counts)
    mine.stacker_mean[:] *= (1.0 + float(counts @ counts)) / 2.0
    mine.shares[:] = _merged_shares([part.shares for part in parts], counts)
    mine.final_shares[:] = _merged_shares([part.final_shares for part in parts], counts)


def losses_of(combination: Combination) -> np.ndarray:
    """Of outputs and finals, so far."""
    return combination.losses[0] - np.log(combination.losses[1])


def mirror_lanes(lanes: Lanes) -> None:
    """What lanes would believe of the opposite labels: all means are the opposite."""
    lanes.intercept[0] = 0.0 - lanes.intercept[0]  # which leaves no -0.0: zero bytes mean the prior
    rows = nonzero_rows(lanes.state)
    for at in range(0, lanes.state.shape[1], 2 * LANES):
        lanes.state[rows, at : at + LANES] = 0.0 - lanes.state[rows, at : at + LANES]


def mirror_combination(combination: Combination) -> None:
    """Of lanes that say the opposite; the stackers' b is the opposite, and all else as it was."""
    combination.stacker_mean[:, 0] *= -1.0
    combination.stacker_covariance[:, 0, 1:] *= -1.0
    combination.stacker_covariance[:, 1:, 0] *= -1.0


def _merge_stackers(j: int, parts: list[Combination], counts: np.ndarray) -> None:
    """The j-th ones: the mean of precisions, and of precisions times means, beyond the prior's."""
    mine = parts[0]
    live = np.flatnonzero(mine.stacker_prior > 0)
    own_prior = mine.stacker_prior[live]
    prior = np.diag(1.0 / own_prior)
    gained, moved = np.zeros_like(prior), np.zeros(len(live))
    for part, count in zip(parts, counts, strict=True):
        # Where an output was dropped there is nothing to invert: it counts as never learned.
        there = part.stacker_prior[live] > 0
        covariance = part.stacker_covariance[j][np.ix_(live, live)]
        covariance = np.where(np.outer(there, there), covariance, np.diag(own_prior))
        precision = np.linalg.inv(covariance)
        gained += count * (precision - prior)
        moved += count * precision @ part.stacker_mean[j][live]
    # With memory less may be known than the prior says in some direction; that much is known.
    root = np.sqrt(own_prior)
    values, vectors = np.linalg.eigh(root[:, None] * (gained + gained.T) / 2.0 * root)
    half = root[:, None] * vectors
    covariance = half / (1.0 + np.maximum(values, 0.0)) @ half.T
    mine.stacker_covariance[j][np.ix_(live, live)] = (covariance + covariance.T) / 2.0
    mine.stacker_mean[j][live] = covariance @ moved


def _merged_shares(shares: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """The mean of the shares' logarithms. A share of 0 stays one."""
    there = np.all([each > 0 for each in shares], axis=0)
    logs = counts @ [np.log(np.where(there, each, 1.0)) for each in shares]
    merged = np.where(there, np.exp(logs - np.max(logs[there])), 0.0)
    return merged / merged.sum()
