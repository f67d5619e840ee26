"""The combination of the lanes: a mean, in three levels, and the distribution of the errors around it.

It reads the lane outputs of each row (`lanes`) and feeds nothing back. The equations are in the docstring of `learner`.
The first label is subtracted from labels and means here, until the mean is written.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.prediction import Scores
from bayou.core.student_t import log_peaks, within
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.learners.ensembles.shares import set_shares
from bayou.learners.ensembles.stackers import STACKER_PRIOR
from bayou.learners.number_bank.lanes import WIDER

TAILS = 5.0  # degrees of freedom of the Student-t by which lanes and levels are judged
COEFFICIENTS_PRIOR = 0.1  # prior variance of all stacking coefficients together
MAX_VARIANCE_RATIO = 1.0 + 1e-9  # bound of a stacker's variance, relative to its initial value
FIRST_STACKED_ROW = 20  # the row from which stackers learn and predict
MAX_OUTPUT_DEVIATIONS = 4.0  # bound of an output's distance from the mixture, in deviations of its errors
MIXTURE_SHARE = 0.9  # initial share in the last level; the stackers have the rest
LEAST_NOISE = 1e-12  # fraction of the labels' variance
DEGREES = np.tile([3.0, 6.0, 30.0], 3)  # degrees of freedom of the nine Student-t's
MAX_SCORE_VARIANCE_RATIO = 1e3  # bound of a row's variance, for the shapes
LEVEL = 0.9  # level of the intervals whose coverage is steered


class ForgettingRates(NamedTuple):
    """Rates at which a combination forgets."""

    stackers: tuple[float, ...]  # fraction of its prior that each regains with every row
    scales: tuple[float, ...]  # least weight of the last row, for a third of the shapes each
    noise: float  # least weight of the last row, for the noise of lanes and levels
    share_leak: float  # the fraction of shares redistributed at row t is handed / (t + 1),
    min_share_leak: float  # and at least this;
    least_shapes: float  # for the shapes at least this
    steering: float  # smallest step of the factor on all scales


LIVE = ForgettingRates(
    (0.0, 1e-3), (0.0, 0.01, 0.05), noise=1e-3, share_leak=1.0, min_share_leak=1e-4, least_shapes=1e-3, steering=0.02
)
# Bayes: shares never vanish, and all rows count the same. A memory of 1e-12 forgets nothing, but makes no outlier count
# less: users judge later rows by squared errors, which ask for means where a robust fit tends to medians.
LATER = ForgettingRates(
    (0.0, 1e-12), (0.0, 0.0, 0.0), noise=0.0, share_leak=0.0, min_share_leak=1e-300, least_shapes=1e-300, steering=0.0
)
# Slots of `NumberCombination.rates`, the rest of `ForgettingRates`.
NOISE, SHARE_LEAK, MIN_SHARE_LEAK, LEAST_SHAPES, STEERING = range(5)
# Slots of `NumberCombination.labels`; in all but the first two, FIRST_LABEL is subtracted from labels.
#   ROWS               number of labels
#   FIRST_LABEL        the first label
#   LABEL_SUM_SQUARES  sum of squared distances from the mean
#   LOW                smallest
#   HIGH               largest
ROWS, FIRST_LABEL, MEAN, LABEL_SUM_SQUARES, LOW, HIGH = range(6)
# Slots of `NumberCombination.steering`: number of errors learned by the shapes, log of the factor on all scales.
N_SHAPE_ERRORS, LOG_FACTOR = range(2)


class NumberCombination(NamedTuple):
    """Settings and learned state of the combination, as kernels take it."""

    initial_shares: np.ndarray  # initial shares of the lanes; 0: left out
    initial_final_shares: np.ndarray
    memory: np.ndarray  # of each stacker
    shape_memory: np.ndarray
    rates: np.ndarray  # the rest of `ForgettingRates`
    has_intercept: bool
    labels: np.ndarray
    shares: np.ndarray
    noise: np.ndarray  # R, of each lane's errors
    final_shares: np.ndarray
    final_noise: np.ndarray
    stacker_prior: np.ndarray  # of b, a, and one coefficient for each lane
    stacker_mean: np.ndarray
    stacker_covariance: np.ndarray
    shape_shares: np.ndarray
    shape_scales: np.ndarray  # squared
    steering: np.ndarray  # number of errors learned by the shapes, log of the factor on all scales

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file."""
        names = ["labels", "shares", "noise", "final_shares", "final_noise", "stacker_mean", "stacker_covariance"]
        names += ["shape_shares", "shape_scales", "steering"]
        return {name.replace("_", " "): getattr(self, name) for name in names}


def new_combination(
    initial_shares: np.ndarray, stacked: np.ndarray, has_intercept: bool, memory: ForgettingRates
) -> NumberCombination:
    """Return an untrained combination of lanes.

    Args:
        initial_shares: initial share of each lane in the mixture; 0: left out.
        stacked: relative prior variance of each lane's coefficient in the stackers; 0: left out.
        has_intercept: whether the stackers have an intercept and subtract the mean label from the mixture.
        memory: the rates of forgetting.
    """
    shares = initial_shares / initial_shares.sum()
    prior = np.append(
        [STACKER_PRIOR * has_intercept, STACKER_PRIOR], COEFFICIENTS_PRIOR / np.count_nonzero(stacked) * stacked
    )
    stackers = len(memory.stackers)
    finals = np.array([MIXTURE_SHARE] + [(1.0 - MIXTURE_SHARE) / stackers] * stackers)
    return NumberCombination(
        initial_shares=shares.copy(),
        initial_final_shares=finals.copy(),
        memory=np.array(memory.stackers),
        shape_memory=np.repeat(memory.scales, len(DEGREES) // len(memory.scales)),
        rates=np.array(memory[2:]),
        has_intercept=has_intercept,
        labels=np.zeros(HIGH + 1),
        shares=shares,
        noise=np.zeros(len(initial_shares)),
        final_shares=finals,
        final_noise=np.zeros(1 + stackers),
        stacker_prior=prior,
        stacker_mean=np.zeros((stackers, len(prior))),
        stacker_covariance=np.tile(np.diag(prior), (stackers, 1, 1)),
        shape_shares=np.full(len(DEGREES), 1.0 / len(DEGREES)),
        shape_scales=np.zeros(len(DEGREES)),
        steering=np.zeros(2),
    )


@kernel(forceinline=True)
def _rate_for_weight(rate, c):
    """Return the rate that amounts to c steps at `rate`."""
    return rate if c == 1.0 else -math.expm1(c * math.log1p(-min(rate, 1.0 - 1e-16)))


@kernel(forceinline=True)
def _log_density(error, scale):
    """Return the log density, up to a constant, of the Student-t with TAILS degrees and this squared scale."""
    return -0.5 * math.log(scale) - 0.5 * (TAILS + 1.0) * math.log1p(error * error / scale / TAILS)


@inlined
def _share(shares, initial_shares, logs, share_leak, c):
    """Update shares by fixed share: Bayes' rule, then a little is redistributed. `logs` are overwritten."""
    best = -np.inf
    for k in range(shares.size):
        best = max(best, logs[k]) if shares[k] > 0.0 else best
    for k in range(shares.size):
        logs[k] = shares[k] * math.exp(c * (logs[k] - best)) if shares[k] > 0.0 else 0.0
    set_shares(shares, logs, 1.0 - share_leak, share_leak, initial_shares)


class CombinationScratch(NamedTuple):
    """Scratch for one row."""

    means: np.ndarray  # of each lane
    spreads: np.ndarray
    seen: np.ndarray  # inputs of the stackers
    cov_x: np.ndarray
    spread: np.ndarray  # of the mixture (0) and each stacker
    finals: np.ndarray
    logs: np.ndarray
    peaks: np.ndarray  # constants of the shapes
    first_shapes: np.ndarray


def _scratch_for(combination: NumberCombination) -> CombinationScratch:
    lanes, (stackers, n) = len(combination.initial_shares), combination.stacker_mean.shape
    return CombinationScratch(
        means=np.zeros(lanes),
        spreads=np.zeros(lanes),
        seen=np.zeros(n),
        cov_x=np.zeros((stackers, n)),
        spread=np.zeros(1 + stackers),
        finals=np.zeros(1 + stackers),
        logs=np.zeros(max(n, len(DEGREES))),
        peaks=log_peaks(DEGREES),
        first_shapes=np.full(len(DEGREES), 1.0 / len(DEGREES)),
    )


@inlined
def _mean_of(combination, scratch, outputs, row):
    """Compute the three levels for one row; return (mean, q)."""
    labels, shares = combination.labels, combination.shares
    means, spreads, finals = scratch.means, scratch.spreads, scratch.finals
    rows, low, high = labels[ROWS], labels[LOW], labels[HIGH]
    mixed, q = 0.0, 0.0
    for k in range(shares.size):
        m = outputs[row, 0, k]
        means[k], spreads[k] = min(max(m, low), high) if rows > 0.0 else m, outputs[row, 1, k]
        mixed, q = mixed + shares[k] * means[k], q + shares[k] * spreads[k]
    seen, prior, cov_x = scratch.seen, combination.stacker_prior, scratch.cov_x
    seen[0] = math.sqrt(labels[LABEL_SUM_SQUARES] / rows) if rows > 0.0 else 0.0
    seen[1] = mixed - labels[MEAN] if combination.has_intercept else mixed
    far = MAX_OUTPUT_DEVIATIONS * math.sqrt(combination.final_noise[0]) if combination.final_noise[0] > 0.0 else np.inf
    for k in range(shares.size):
        seen[2 + k] = min(max(means[k] - mixed, -far), far) if prior[2 + k] > 0.0 else 0.0
    finals[0] = mixed
    mean, room = combination.final_shares[0] * mixed, WIDER * (high - low)
    for s in range(combination.stacker_mean.shape[0]):
        m, spread = mixed, 0.0
        for i in range(seen.size):
            product = 0.0
            for k in range(seen.size):
                product += combination.stacker_covariance[s, i, k] * seen[k]
            cov_x[s, i] = product
            m, spread = m + combination.stacker_mean[s, i] * seen[i], spread + product * seen[i]
        if rows < FIRST_STACKED_ROW:
            m = mixed
        finals[1 + s] = min(max(m, low - room), high + room)
        scratch.spread[1 + s] = max(spread, 0.0)
        mean += combination.final_shares[1 + s] * finals[1 + s]
    return min(max(mean, low), high) if rows > 0.0 else mean, q


@inlined
def _learn_levels(combination, scratch, y, c):
    labels, finals, cov_x, memory = combination.labels, scratch.finals, scratch.cov_x, combination.memory
    rows, variance, stackers = labels[ROWS], labels[LABEL_SUM_SQUARES] / labels[ROWS], combination.stacker_mean.shape[0]
    noise, final_noise, logs, spread = combination.noise, combination.final_noise, scratch.logs, scratch.spread
    if final_noise[0] == 0.0:
        noise[:] = variance
        final_noise[:] = variance
    latest = _rate_for_weight(max(1.0 / (rows + 2.0), combination.rates[NOISE]), c)
    share_leak = max(combination.rates[SHARE_LEAK] / (rows + 1.0), combination.rates[MIN_SHARE_LEAK])
    for k in range(noise.size):
        error, unsure = y - scratch.means[k], scratch.spreads[k]
        logs[k] = _log_density(error, noise[k] * (1.0 + unsure))
        noise[k] += latest * (error * error / (1.0 + c * unsure) - noise[k])
        noise[k] = max(noise[k], LEAST_NOISE * variance)
    _share(combination.shares, combination.initial_shares, logs, share_leak, c)
    for k in range(finals.size):
        error, scale = y - finals[k], final_noise[k] + spread[k]
        # For later rows by squared errors: heavy tails would prefer medians to means.
        by_squares = -0.5 * (math.log(scale) + error * error / scale)
        logs[k] = _log_density(error, scale) if combination.rates[STEERING] > 0.0 else by_squares
    _share(combination.final_shares, combination.initial_final_shares, logs, share_leak, c)
    for s in range(stackers if rows >= FIRST_STACKED_ROW else 0):
        error, own = y - finals[1 + s], final_noise[1 + s]
        if memory[s] == 0.0:  # for the one that does not forget, an outlier counts less
            own *= (TAILS + error * error / (own + spread[1 + s])) / (TAILS + 1.0)
        total = own / c + spread[1 + s]
        for i in range(scratch.seen.size):
            combination.stacker_mean[s, i] += cov_x[s, i] * (error / total)
            for k in range(scratch.seen.size):
                fallen = combination.stacker_covariance[s, i, k] - cov_x[s, i] * cov_x[s, k] / total
                combination.stacker_covariance[s, i, k] = fallen * (1.0 - memory[s])
            combination.stacker_covariance[s, i, i] += memory[s] * combination.stacker_prior[i]
        _clip_variance(combination.stacker_covariance, s, combination.stacker_prior)
    for k in range(finals.size):
        error = y - finals[k]
        square = error * error * (final_noise[k] / (final_noise[k] + c * spread[k]))
        final_noise[k] = max(final_noise[k] + latest * (square - final_noise[k]), LEAST_NOISE * variance)


@inlined
def _clip_variance(covariances, s, prior):
    """Clip the variances of stacker s to between 0 and the prior's, without covariances where that was needed.

    If labels of very different magnitudes mix, rounding can leave another value, from which all would diverge.
    """
    for i in range(prior.size):
        own = covariances[s, i, i]
        if not 0.0 <= own <= prior[i] * MAX_VARIANCE_RATIO:
            for k in range(prior.size):
                covariances[s, i, k] = covariances[s, k, i] = 0.0
            covariances[s, i, i] = prior[i] if own > prior[i] else 0.0


@inlined
def _learn_shapes(combination, scratch, error, unsure, rows, c):
    """Update the scale of each Student-t by online EM, their shares by fixed share, and the factor on all scales."""
    shares, scales, steering = combination.shape_shares, combination.shape_scales, combination.steering
    rates, logs = combination.rates, scratch.logs
    square = error * error / unsure
    if rows < 1.0 or (steering[N_SHAPE_ERRORS] == 0.0 and square == 0.0):
        return
    if steering[N_SHAPE_ERRORS] == 0.0:
        steering[N_SHAPE_ERRORS] = 1.0
        scales[:] = square
        return
    if rows >= 3.0:
        nearer, reach = 0.0, math.sqrt(square) / math.exp(steering[LOG_FACTOR])
        for k in range(shares.size):
            nearer += shares[k] * within(reach / math.sqrt(scales[k]), DEGREES[k])
        # For a stream that may change, steps have a lower bound; else they are those of Robbins and Monro.
        step = 0.5 / math.sqrt(rows + 1.0) if rates[STEERING] > 0.0 else 5.0 / (rows + 1.0)
        step = max(rates[STEERING], min(0.1, step))
        steering[LOG_FACTOR] += min(c, 1.0) * step * ((1.0 if nearer > LEVEL else 0.0) - (1.0 - LEVEL))
    steering[N_SHAPE_ERRORS] += 1.0
    min_share_leak = LEAST_NOISE * combination.labels[LABEL_SUM_SQUARES] / rows
    for k in range(shares.size):
        nu, ratio = DEGREES[k], square / scales[k]
        logs[k] = scratch.peaks[k] - 0.5 * math.log(scales[k]) - 0.5 * (nu + 1.0) * math.log1p(ratio / nu)
        latest = _rate_for_weight(max(1.0 / steering[N_SHAPE_ERRORS], combination.shape_memory[k]), c)
        scales[k] = max(scales[k] + latest * ((nu + 1.0) / (nu + ratio) * square - scales[k]), min_share_leak)
    _share(shares, scratch.first_shapes, logs, max(rates[SHARE_LEAK] / (rows + 1.0), rates[LEAST_SHAPES]), c)


@inlined
def _count_label(labels, y):
    labels[ROWS] += 1.0
    away = y - labels[MEAN]
    labels[MEAN] += away / labels[ROWS]
    labels[LABEL_SUM_SQUARES] += away * (y - labels[MEAN])
    initial_shares = labels[ROWS] == 1.0
    labels[LOW] = y if initial_shares else min(labels[LOW], y)
    labels[HIGH] = y if initial_shares else max(labels[HIGH], y)


def combine(
    outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, combination: NumberCombination, scores: Scores
) -> None:
    """Predict each row, then update from rows with nonzero weight; fill `scores`.

    Their tails get the shares and the scales of the Student-t's around the mean.
    """
    _, mean, variance, noise, tails, _ = scores
    _combine(outputs, targets, weights, combination, _scratch_for(combination), mean, variance, noise, tails)


@kernel
def _combine(outputs, targets, weights, combination, scratch, mean, variance, noise, tails):
    labels, steering = combination.labels, combination.steering
    for row in range(outputs.shape[0]):
        m, q = _mean_of(combination, scratch, outputs, row)
        mean[row] = m + labels[FIRST_LABEL]
        unsure = 1.0 + min(q, MAX_SCORE_VARIANCE_RATIO)
        factor = math.exp(steering[LOG_FACTOR])
        noise[row] = 0.0
        for k in range(DEGREES.size):
            square = factor * factor * (combination.shape_scales[k] if steering[N_SHAPE_ERRORS] > 0.0 else 1.0)
            tails[row, 0, k], tails[row, 1, k] = combination.shape_shares[k], math.sqrt(square * unsure)
            noise[row] += combination.shape_shares[k] * square * (DEGREES[k] / (DEGREES[k] - 2.0))
        variance[row] = noise[row] * (unsure - 1.0)
        c = weights[row]
        if c == 0.0:
            continue
        if labels[ROWS] == 0.0 and combination.has_intercept:
            labels[FIRST_LABEL] = targets[row]
        y = targets[row] - labels[FIRST_LABEL]
        _learn_shapes(combination, scratch, y - m, unsure, labels[ROWS], c)
        if labels[ROWS] > 1.0 and labels[LABEL_SUM_SQUARES] > 0.0:
            _learn_levels(combination, scratch, y, c)
        _count_label(labels, y)
