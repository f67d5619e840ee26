"""Weights that a bank displays: those of its combination, linearized at its current state.

Every mixture is treated as one of logits, so that the score is a sum over lanes. The coefficients of a lane's outputs
belong to logits z = m / sqrt(1 + C8 kp s); each is divided by the mean of sqrt((1 + C8 kp s) / (1 + C8 variance)) over
about the last thousand examples, which turns it into a coefficient of m in the score. The variance of a weight is that
of the mixture of lanes. `log_odds_reading` gives the same in units of the log-odds, for people, and each lane alone,
for variances of sums and differences. `row_weights` and `row_coefficients` work row by row, with the roots of each row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.learner import cast_batch
from bayou.core.links import C8
from bayou.core.prediction import Weights, WeightView, WeightViewPart
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES
from bayou.learners.bank.combination import SCORE, Combination
from bayou.learners.bank.lanes import (
    ADAGRAD_RATE,
    HAS_LEARNED_PRIOR,
    INTERCEPT_PRECISION,
    PRECISION_PER_SQUARE,
    LaneState,
)
from bayou.learners.bank.pairs import PairLanes
from bayou.learners.ensembles.learner import frozen_combination
from bayou.learners.ensembles.stackers import MAX_STACKED_LOGIT, output_coefficients

# A lane with less of the mixture than this changes no digit of a variance.
NEGLIGIBLE = 1e-12


class LinearizedCombination(NamedTuple):
    """The combination as a sum over lanes; arrays have an entry for each lane, lanes of pairs after the others."""

    coefficients: np.ndarray  # of the lane's score
    mixing: np.ndarray  # its share in the mixture of lanes that have a variance
    stretched: np.ndarray  # the factor of its means there
    offset: float


def linearised(lanes: LaneState, combination: Combination) -> LinearizedCombination:
    of, slots, damping = combination.lane_of, combination.slots, combination.damping
    width = len(combination.has_weights)
    shares, stretch = combination.shares[slots], (1.0 + damping[SCORE]) / (1.0 + damping[slots])
    each, offset = _output_coefficients(combination)
    each_share = np.bincount(of, shares, minlength=width)
    gaussian = combination.has_weights * each_share
    if not gaussian.sum():
        gaussian = each_share
    stretched = np.bincount(of, shares * stretch, minlength=width) / np.where(each_share > 0, each_share, 1.0)
    coefficients = np.bincount(of, each * stretch, minlength=width)
    return LinearizedCombination(coefficients, gaussian / gaussian.sum(), stretched, float(offset))


def in_log_odds(combination: Combination) -> Combination:
    """Return the combination with the damping of outputs alone, not relative to that of the score."""
    damping = combination.damping.copy()
    damping[SCORE] = 0.0
    return combination._replace(damping=damping)


def _output_coefficients(combination: Combination) -> tuple[np.ndarray, float]:
    """Return the coefficient of each output's logit, and the offset."""
    final_shares, means = combination.final_shares, combination.stacker_mean[:, : combination.slots.stop]
    offset = sum((share * mean[0] for share, mean in zip(final_shares[1:], means, strict=True)), 0.0)
    return output_coefficients(combination.shares[combination.slots], final_shares, means), offset


class MeanRowWeights(NamedTuple):
    """The weights of every lane and its score of the mean row, from which a bank's log-odds follow."""

    mean: np.ndarray  # (features, lanes)
    variance: np.ndarray
    score_mean: np.ndarray  # (lanes,)
    score_variance: np.ndarray


def row_weights(bank: Any, features: np.ndarray, mean: np.ndarray, square: np.ndarray) -> MeanRowWeights:
    """Return the lanes' weights of `features`, given the means over the rows of their values and squared values."""
    with bank._lock:
        parts = [*_lane_parts(bank._lanes, features, dict.fromkeys(range(bank._lanes.width), 1.0)).values()]
        parts += [] if bank._pairs is None else bank._pairs.parts(features)
        parts += [] if bank._head is None else bank._head.parts(features)
    weights = np.stack([part.weights.mean for part in parts], axis=1)
    variance = np.stack([np.asarray(part.weights.variance) for part in parts], axis=1)
    intercepts = np.array([part.intercept[0] for part in parts])
    unsure = np.array([part.intercept[1] for part in parts])
    return MeanRowWeights(weights, variance, mean @ weights + intercepts, square @ variance + unsure)


def row_coefficients(bank: Any, batch: Batch, mean_row: MeanRowWeights) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of each row and lane that make the log-odds of (later) rows a sum over features.

    The log-odds are sum_k C_k z_k and an offset. Logits z = m/r, which are cut, have roots r = sqrt(1 + C8 kp s) that
    grow with the uncertainty of a lane about the row. With M, V, R and Z of the mean row,

        z - Z = (m - M)/r - M C8 kp (s - V) / (r R (r + R)),   cut: times (cut z - cut Z) / (z - Z)

    So the first array has the coefficients of m, a sum of w x, and the second those of s, a sum of v x^2.
    """
    with bank._lock:
        combination, rows = frozen_combination(bank), len(batch)
        outputs = bank._lane_runner.predict(cast_batch(bank, batch), bank._examples)
        each, of = _output_coefficients(combination)[0], combination.lane_of
        spread = combination.output_damping[combination.slots].astype(np.float64)
    coefficients, moments = np.zeros((2, rows, outputs.shape[2])), outputs.astype(np.float64)
    for output, lane in enumerate(of.tolist()):
        root = np.sqrt(1.0 + spread[output] * moments[:, 1, lane])
        middle = math.sqrt(1.0 + spread[output] * mean_row.score_variance[lane])
        z, mean = moments[:, 0, lane] / root, mean_row.score_mean[lane]
        apart, cut_apart = z - mean / middle, _cut(z) - _cut(mean / middle)
        counts = each[output] * np.divide(cut_apart, apart, out=np.ones(rows), where=np.abs(apart) > 1e-9) / root
        coefficients[0, :, lane] += counts
        coefficients[1, :, lane] -= counts * mean * spread[output] / (middle * (root + middle))
    return coefficients[0], coefficients[1]


def mean_row_log_odds(bank: Any, mean_row: MeanRowWeights) -> float:
    """Return the log-odds of the mean row, from the lanes' scores of it."""
    combination = frozen_combination(bank)
    each, offset = _output_coefficients(combination)
    spread, of = combination.output_damping[combination.slots].astype(np.float64), combination.lane_of
    return offset + float(each @ _cut(mean_row.score_mean[of] / np.sqrt(1.0 + spread * mean_row.score_variance[of])))


def _cut(logits: Any) -> Any:
    return np.clip(logits, -MAX_STACKED_LOGIT, MAX_STACKED_LOGIT)


def intercept_of(lanes: LaneState, combination: Combination, pairs: PairLanes | None = None) -> tuple[float, float]:
    """Return mean and variance of the intercept."""
    *arrays, offset = linearised(lanes, combination)
    intercepts, variances = lanes.intercept[0], _intercept_variances(lanes)
    if pairs is not None:
        there = pairs.parts(np.empty(0, np.int64))[: len(arrays[0]) - lanes.width]
        more, unsure = zip(*(part.intercept for part in there), strict=True)
        intercepts, variances = np.append(intercepts, more), np.append(variances, unsure)
    coefficients, mixing, stretched = (array[: len(intercepts)] for array in arrays)  # without a head that was dropped
    means = stretched * intercepts
    variances = variances + _stacked_variance(combination)
    return float(coefficients @ intercepts) + offset, float(mixing @ (variances + (means - mixing @ means) ** 2))


def _intercept_variances(lanes: LaneState) -> np.ndarray:
    return np.where(
        lanes.settings[ADAGRAD_RATE] > 0, 0.0, 1.0 / (lanes.settings[INTERCEPT_PRECISION] + lanes.intercept[1])
    )


def _stacked_variance(combination: Combination) -> float:
    """Return the variance of the stackers' b, weighted by their shares."""
    stackers = zip(combination.final_shares[1:], combination.stacker_covariance, strict=True)
    return float(sum(share * covariance[0, 0] for share, covariance in stackers))


def lane_weights(lanes: LaneState, lane: int, features: np.ndarray) -> Weights:
    """Return one lane's means and variances of some weights."""
    return lane_component(lanes, lane, features).weights


def lane_component(lanes: LaneState, lane: int, features: np.ndarray) -> WeightViewPart:
    """Return one lane alone."""
    return _lane_parts(lanes, features, {lane: 1.0})[lane]


def _lane_parts(lanes: LaneState, features: np.ndarray, stretched: Mapping[int, float]) -> dict[int, WeightViewPart]:
    """Return some lanes, each alone and multiplied by its factor in `stretched`."""
    which, stretch = np.array([*stretched], np.int64), np.array([*stretched.values()], np.float64)
    means, variances = np.empty((2, len(which), len(features)))
    _lane_weights(features, lanes, lanes.factors()[which] * stretch, which, means, variances)
    biases, unsure = lanes.intercept[0, which] * stretch, _intercept_variances(lanes)[which] * stretch**2
    parts = zip(stretched, means, variances, biases.tolist(), unsure.tolist(), strict=True)
    return {
        lane: WeightViewPart(1.0, Weights(mean, variance), (bias, own)) for lane, mean, variance, bias, own in parts
    }


def _row_variances(lanes: LaneState, features: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return s of the mean row in each lane: the mean over rows of sum x^2 v, plus the intercept's variance."""
    variances = _intercept_variances(lanes)
    _add_variances(features, lanes, lanes.factors(), np.asarray(squares, np.float64), variances)
    return variances


def lane_reading(lanes: LaneState, lane: int, features: np.ndarray, squares: np.ndarray | None) -> WeightView:
    """Return one lane alone, in units of the log-odds if the mean squares of all features are given."""
    root = 1.0 if squares is None else math.sqrt(1.0 + C8 * _row_variances(lanes, features, squares)[lane])
    part = _lane_parts(lanes, features, {lane: 1.0 / root})[lane]
    return WeightView(part.weights.mean, part.intercept[0], [part])


def log_odds_reading(
    lanes: LaneState,
    combination: Combination,
    features: np.ndarray,
    squares: np.ndarray | None,
    pairs: PairLanes | None = None,
) -> WeightView:
    """Return the combination in units of the log-odds, sum C_k m_k / sqrt(1 + C8 kp s_k), and each lane alone.

    Given the mean squares of all features over the rows, s_k is that of the mean row in the lanes as they are now;
    otherwise the roots are their mean over about the last thousand examples.
    """
    combination = in_log_odds(combination)
    damping = combination.damping
    if squares is not None:
        s = _row_variances(lanes, features, squares)
        own = np.flatnonzero(combination.lane_of < lanes.width)  # those of pairs stay as they are
        spread = combination.output_damping[2 + own].astype(np.float64) * s[combination.lane_of[own]]
        damping[2 + own] = np.sqrt(1.0 + spread) - 1.0
    _, mixing, stretched, _ = linearised(lanes, combination)
    stretch = {k: float(stretched[k]) for k in np.flatnonzero(mixing > NEGLIGIBLE).tolist()}
    parts = _lane_parts(lanes, features, {k: by for k, by in stretch.items() if k < lanes.width})
    for k, (_, weights, (bias, unsure)) in enumerate([] if pairs is None else pairs.parts(features), start=lanes.width):
        if by := stretch.get(k):
            weights = Weights(by * weights.mean, by**2 * np.asarray(weights.variance))
            parts[k] = WeightViewPart(1.0, weights, (by * bias, by**2 * unsure))
    stacked = _stacked_variance(combination)  # further variance of the intercept
    shown = [WeightViewPart(float(mixing[k]), weights, (b, v + stacked)) for k, (_, weights, (b, v)) in parts.items()]
    mean = weights_of(lanes, combination, features, pairs)[0].astype(np.float64)
    intercept = intercept_of(lanes, combination, pairs)[0] if lanes.has_intercept else 0.0
    return WeightView(mean, intercept, shown, "log_odds")


def weights_of(
    lanes: LaneState, combination: Combination, features: np.ndarray, pairs: PairLanes | None = None
) -> np.ndarray:
    """Return means and variances of some features' weights."""
    coefficients, mixing, stretched, _ = linearised(lanes, combination)
    moments = np.empty((2, len(features)), lanes.state.dtype)
    if pairs is not None:
        there = pairs.parts(features)[: len(mixing) - lanes.width]
        parts = [*_lane_parts(lanes, features, dict.fromkeys(range(lanes.width), 1.0)).values(), *there]
        coefficients, mixing, stretched = coefficients[: len(parts)], mixing[: len(parts)], stretched[: len(parts)]
        means = np.array([part.weights.mean for part in parts])
        own = np.array([part.weights.variance for part in parts])
        middle = (mixing * stretched) @ means
        moments[:] = coefficients @ means, mixing @ (own + (stretched[:, None] * means - middle) ** 2)
        return moments
    _weights(features, lanes, lanes.factors(), coefficients, mixing, stretched, moments)
    return moments


@inlined
def _known(lanes, i):
    """Return the mean square of a feature's values, and its group."""
    return (lanes.squares[i, 0] if lanes.squares[i, 1] > 0 else 1.0), lanes.groups[i]


@inlined
def _weight(lanes, feature, factor, i, k):
    """Return (mean, variance) of a feature's weight in lane k, multiplied by the factor of the lane."""
    settings, place = lanes.settings, k // LANES * 2 * LANES + k % LANES
    prior = lanes.prior_precisions[feature[1], k] + settings[PRECISION_PER_SQUARE, k] * feature[0]
    v = 1.0 / (prior + lanes.fade[0, k] * lanes.state[i, place + LANES])
    mean = factor * lanes.state[i, place] * (v if settings[HAS_LEARNED_PRIOR, k] > 0.0 else 1.0)
    return mean, 0.0 if settings[ADAGRAD_RATE, k] > 0.0 else factor * factor * v


@kernel
def _lane_weights(numbers, lanes, factors, which, means, variances):
    """Fill means and variances of some features' weights in each lane of `which`."""
    for n in range(numbers.size):
        feature = _known(lanes, numbers[n])
        for j in range(which.size):
            means[j, n], variances[j, n] = _weight(lanes, feature, factors[j], numbers[n], which[j])


@kernel
def _add_variances(numbers, lanes, factors, squares, variances):
    """Add to each lane's entry its weights' variances, each times a square; features with a square of 0 add nothing."""
    for n in range(numbers.size):
        if squares[n] != 0.0:
            feature = _known(lanes, numbers[n])
            for k in range(variances.size):
                variances[k] += squares[n] * _weight(lanes, feature, factors[k], numbers[n], k)[1]


@kernel
def _weights(numbers, lanes, factors, coefficients, mixing, stretched, moments):
    """Fill `moments` with means and variances of some features' weights in the linearized combination of all lanes."""
    most = 1e37 if moments.itemsize == 4 else 1e300  # bounds for absurd values in absurd units
    width = lanes.settings.shape[1]
    weights, variances = zeros(width, np.float64), zeros(width, np.float64)
    for n in range(numbers.size):
        mean = middle = variance = 0.0
        feature = _known(lanes, numbers[n])
        for k in range(width):
            weights[k], variances[k] = _weight(lanes, feature, factors[k], numbers[n], k)
            mean += coefficients[k] * weights[k]
            middle += mixing[k] * stretched[k] * weights[k]
        for k in range(width):
            if mixing[k] > 0.0:
                apart = stretched[k] * weights[k] - middle
                variance += mixing[k] * (variances[k] + apart * apart)
        moments[0, n] = min(max(mean, -most), most)
        moments[1, n] = min(variance, most)
