"""The kernel of any pass, in float64 scalars: `vector_kernel` extended by cavities and held prior factors.

The equations are in `learner`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core import links
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.rounding import rounding_phase
from bayou.learners.bases.diagonal import add_rounding_noise
from bayou.learners.spike_slab.weights import (
    COUNT,
    HELD_PRECISION,
    HELD_SHIFT,
    MOST,
    MOST_REPEATS,
    NATURAL_MEAN,
    NEGATIVE,
    NEGATIVE_AVERAGE,
    PRECISION,
    intercept_posterior,
    posterior,
)

FAR = math.sqrt(MOST)


class FrozenAverages(NamedTuple):
    """Arrays and settings that `stream` needs besides the weights; only `stretches` is written to."""

    averages: np.ndarray  # average factors of an example of each class, by feature
    intercept_averages: np.ndarray
    again: bool  # whether this is a further pass, so that an average stands for the example's old factor
    stretches: np.ndarray  # the stretch of examples in which a feature was last used, from 1
    stretch: int  # number of examples for which the prior's factor is held
    standing: bool  # whether the whole posterior is held instead (mini-batches)


@inlined
def _believed(weights, frozen, feature, stretch, learns):
    """Return (mean, variance, whether selected) of a weight in a stretch of examples.

    If the prior's factor is held, the held one is used where it is of this stretch; otherwise a learned row renews it.
    """
    state = weights.state
    precision = np.float64(state[feature, PRECISION]) + state[feature, NEGATIVE + PRECISION]
    shift = np.float64(state[feature, NATURAL_MEAN]) + state[feature, NEGATIVE + NATURAL_MEAN]
    mean, variance, selected = posterior(precision, shift, weights.inclusion_prior, weights.slab_variance, FAR)
    if frozen.stretch > 1:
        held, held_shift = np.float64(state[feature, HELD_PRECISION]), np.float64(state[feature, HELD_SHIFT])
        if not frozen.standing:
            held, held_shift = held + precision, held_shift + shift
        if frozen.stretches[feature] == stretch and held > 0.0:
            mean, variance = held_shift / held, 1.0 / held
        elif learns:
            held = 1.0 / variance - (0.0 if frozen.standing else precision)
            held_shift = mean / variance - (0.0 if frozen.standing else shift)
            state[feature, HELD_PRECISION] = max(min(held, MOST), -MOST)
            state[feature, HELD_SHIFT] = max(min(held_shift, MOST), -MOST)
            frozen.stretches[feature] = stretch
    return mean, variance, selected


@inlined
def _add_factor(state, feature, column, precision, shift, share, count):
    """Add to the sums of one class; share: added to COUNT, 0 if the example was counted in an earlier pass."""
    noise = rounding_phase(feature, count) if state.itemsize == 4 else 0.0
    grown = np.float64(state[feature, column + PRECISION]) + precision
    state[feature, column + PRECISION] = min(max(add_rounding_noise(grown, noise), 0.0), MOST)
    moved = np.float64(state[feature, column + NATURAL_MEAN]) + shift
    state[feature, column + NATURAL_MEAN] = max(min(add_rounding_noise(moved, noise), MOST), -MOST)
    if share > 0.0:
        met = np.float64(state[feature, column + COUNT]) + share
        state[feature, column + COUNT] = min(add_rounding_noise(met, noise), MOST)


@kernel
def stream(examples, weights, frozen, example, score_mean, score_variance):
    """Predict each row, then learn from it if its weight is not 0.

    A row is laid out as in `vector_kernel`, without padding: slot 0 is the intercept, slot k the row's feature k - 1.

        xs, means, variances    values; means and variances of the cavities, without the example
        out[k]                  (PRECISION, NATURAL_MEAN) of the factor that is removed, 0 in a first pass
        alone[k]                whether no precision would be left, so that the weight is not updated
    """
    indptr, indices, values = examples.indptr, examples.indices, examples.values
    state, intercept = weights.state, weights.intercept
    averages, intercept_averages = frozen.averages, frozen.intercept_averages
    numbers = zeros((3, examples.max_row_length + 1), np.float64)
    xs, means, variances = numbers[0], numbers[1], numbers[2]
    out = zeros((examples.max_row_length + 1, 2), np.float64)  # factors removed for the cavity
    alone = zeros(examples.max_row_length + 1, np.bool_)  # weights not to update
    for row in range(indptr.size - 1):
        start = indptr[row]
        size = indptr[row + 1] - start + 1
        c = examples.weights[row]
        sign, half = (1.0, 0) if examples.labels[row] > 0 else (-1.0, 1)
        column, average = NEGATIVE * half, NEGATIVE_AVERAGE * half
        repeats = 1 if c <= 1.0 else int(min(math.ceil(c), MOST_REPEATS))
        share = np.float64(c) / repeats
        stretch = np.int64(example) // frozen.stretch + 1
        example += np.uint64(c != 0.0)
        for repeat in range(repeats):
            m = s2 = score = spread = 0.0
            # Phase 1: get each weight's posterior, remove the example's own factor from it, and add up.
            for k in range(size):
                if k == 0:
                    x = 1.0 if weights.has_intercept else 0.0
                    mean, variance = intercept_posterior(weights)
                    selected = True
                    out[k, PRECISION] = intercept_averages[average + PRECISION]
                    out[k, NATURAL_MEAN] = intercept_averages[average + NATURAL_MEAN]
                else:
                    feature = indices[start + k - 1]
                    x = np.float64(state.dtype.type(values[start + k - 1]))
                    mean, variance, selected = _believed(weights, frozen, feature, stretch, c != 0.0)
                    out[k, PRECISION] = averages[feature, average + PRECISION]
                    out[k, NATURAL_MEAN] = averages[feature, average + NATURAL_MEAN]
                if selected or not weights.selects:
                    score += x * mean
                    spread += x * x * variance
                alone[k] = False
                if frozen.again:
                    left = 1.0 / variance - share * out[k, PRECISION]
                    alone[k] = not left > 0.0
                    if left > 0.0:
                        mean, variance = (mean / variance - share * out[k, NATURAL_MEAN]) / left, 1.0 / left
                else:
                    out[k, PRECISION] = out[k, NATURAL_MEAN] = 0.0
                xs[k], means[k], variances[k] = x, max(min(mean, FAR), -FAR), variance
                m += x * means[k]
                s2 += x * x * variance
            # Phase 2: predict.
            if repeat == 0:
                score_mean[row], score_variance[row] = score, spread
            if c == 0.0:
                break
            deviation = math.sqrt(1.0 + s2)
            slope, curvature = links.slope_and_curvature(links.PROBIT, sign * m / deviation)
            # Phase 3: compute the example's new factor for each weight, and add its difference from the old one.
            for k in range(size):
                x = xs[k]
                if x == 0.0 or alone[k]:
                    continue
                own = x * x * variances[k]
                d = 1.0 / (1.0 + max(s2 - own, 0.0) + own * (1.0 - curvature))
                precision = x * x * curvature * d
                shift = max(min(means[k] * precision, MOST), -MOST)
                shift += max(min(x * sign * slope * deviation * d, MOST), -MOST)
                new = out[k, PRECISION] == 0.0 and out[k, NATURAL_MEAN] == 0.0
                precision, shift = share * (precision - out[k, PRECISION]), share * (shift - out[k, NATURAL_MEAN])
                if k == 0:
                    intercept[column + PRECISION] = min(max(intercept[column + PRECISION] + precision, 0.0), MOST)
                    intercept[column + NATURAL_MEAN] = max(min(intercept[column + NATURAL_MEAN] + shift, MOST), -MOST)
                    intercept[column + COUNT] += share * new
                else:
                    count = example + np.uint64(repeat << 24)
                    _add_factor(state, indices[start + k - 1], column, precision, shift, share * new, count)
