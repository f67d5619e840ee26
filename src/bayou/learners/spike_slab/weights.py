"""What is kept of every weight, and its posterior; the equations are in `learner`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core import links
from bayou.core.validation import LIMIT
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined

# A feature's row: of the positive examples the sum of factors (precision, precision * mean) and of weights, then the
# precision that is held; from NEGATIVE on the same of the negative ones, and the precision * mean that is held.
COLUMNS = 8
#     PRECISION        the sum of the factors' precisions
#     SHIFT            the sum of their precision * mean
#     COUNT            the sum of the weights of the examples that gave them
#     HELD_PRECISION   the precision that is held of the prior's factor, HELD_SHIFT its precision * mean
#     NEGATIVE         where the three sums of the negative examples begin
PRECISION, SHIFT, COUNT = range(3)
HELD_PRECISION, NEGATIVE, HELD_SHIFT = 3, 4, 7
# A row of averages: (precision, precision * mean) of a positive example, then of a negative one.
AVERAGES, NEGATIVE_AVERAGE = 4, 2
HELD = [HELD_PRECISION, HELD_SHIFT]
# What is never negative: sums of precisions and of weights.
COUNTS = [COUNT, NEGATIVE + COUNT]
SUMS = [PRECISION, COUNT, NEGATIVE + PRECISION, NEGATIVE + COUNT]
# No factor is larger than this, in float64 as in float32, and no mean than its root: all stays finite.
MOST = LIMIT["float32"]
LEAST_VARIANCE = 1e-30
LONGEST_ODDS = 1e30  # against a feature; pi is no smaller than its inverse
MOST_REPEATS = 64  # of an example by its weight


class SpikeSlabState(NamedTuple):
    """What a kernel knows of the weights, and writes to."""

    state: np.ndarray  # a row for every feature, and a spare one to pad with
    intercept: np.ndarray  # as a row of the state
    has_intercept: bool
    intercept_precision: float  # of its prior
    inclusion_prior: float
    slab_variance: float
    selects: bool  # whether predictions use the selected weights alone


def likelihood(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Lr, Lh) of some rows."""
    rows = rows.astype(np.float64)
    precision = rows[:, PRECISION] + rows[:, NEGATIVE + PRECISION]
    return precision, rows[:, SHIFT] + rows[:, NEGATIVE + SHIFT]


@inlined
def intercept_posterior(weights):
    """(mean, variance) of the intercept, which is always in the slab."""
    intercept = weights.intercept
    precision = weights.intercept_precision + intercept[PRECISION] + intercept[NEGATIVE + PRECISION]
    variance = 1.0 / precision
    return variance * (intercept[SHIFT] + intercept[NEGATIVE + SHIFT]), variance


@kernel
def posterior(precision, shift, inclusion_prior, slab_variance, far):
    """(mean, variance, whether selected) of a weight with this likelihood; the equations of `learner`, in odds."""
    slab = 1.0 / (precision + 1.0 / slab_variance)
    there = min(max(slab * shift, -far), far)
    against = (1.0 - inclusion_prior) / inclusion_prior * math.sqrt(1.0 + slab_variance * precision)
    against = min(against * math.exp(max(-0.5 * shift * there, -700.0)), LONGEST_ODDS)
    inclusion = 1.0 / (1.0 + against)
    variance = inclusion * (slab + against * inclusion * there * there)
    return inclusion * there, max(variance, LEAST_VARIANCE), against < 1.0


@kernel
def freeze_averages(state, averages, inclusion_prior, slab_variance):
    """Fill the averages of every row's factors, an example of each class; how far an inclusion probability moved."""
    moved = 0.0
    for row in range(state.shape[0]):
        precision = shift = old_precision = old_shift = 0.0
        for half in range(2):
            at, average = NEGATIVE * half, NEGATIVE_AVERAGE * half
            count = np.float64(state[row, at + COUNT])
            if count == 0.0:
                continue
            old_precision += averages[row, average + PRECISION] * count
            old_shift += averages[row, average + SHIFT] * count
            precision += state[row, at + PRECISION]
            shift += state[row, at + SHIFT]
            averages[row, average + PRECISION] = state[row, at + PRECISION] / count
            averages[row, average + SHIFT] = state[row, at + SHIFT] / count
        if precision > 0.0:
            new = _inclusion(precision, shift, inclusion_prior, slab_variance)
            moved = max(moved, abs(new - _inclusion(old_precision, old_shift, inclusion_prior, slab_variance)))
    return moved


@kernel
def _inclusion(precision, shift, inclusion_prior, slab_variance):
    against = (1.0 - inclusion_prior) / inclusion_prior * math.sqrt(1.0 + slab_variance * precision)
    return 1.0 / (1.0 + against * math.exp(max(-0.5 * shift * shift / (precision + 1.0 / slab_variance), -700.0)))


@kernel
def probabilities(selects, mean, variance, probability):
    """P(y = 1) from the score's mean and variance."""
    for row in range(mean.size):
        z = mean[row] if selects else mean[row] / math.sqrt(1.0 + variance[row])
        probability[row] = links.normal_cdf(z)
