"""State of every weight, and its posterior; the equations are in `learner`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.validation import LIMIT
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined

# A feature's row: for the positive examples the sums of factors (precision, precision * mean) and of weights, then the
# held precision; from NEGATIVE on the same sums for the negative ones, and the held precision * mean.
COLUMNS = 8
#     PRECISION       the sum of the factors' precisions
#     NATURAL_MEAN    the sum of their precision * mean
#     COUNT           the sum of the weights of their examples
#     HELD_PRECISION  the held precision of the prior's factor, HELD_SHIFT its precision * mean
#     NEGATIVE        first column of the three sums of the negative examples
PRECISION, NATURAL_MEAN, COUNT = range(3)
HELD_PRECISION, NEGATIVE, HELD_SHIFT = 3, 4, 7
# A row of averages: (precision, precision * mean) of a positive example, then of a negative one.
AVERAGES, NEGATIVE_AVERAGE = 4, 2
HELD = [HELD_PRECISION, HELD_SHIFT]
# Columns that are never negative: sums of precisions and of weights.
COUNTS = [COUNT, NEGATIVE + COUNT]
SUMS = [PRECISION, COUNT, NEGATIVE + PRECISION, NEGATIVE + COUNT]
# Largest factor, in float64 as in float32; its root is the largest mean, so that everything stays finite.
MOST = LIMIT["float32"]
LEAST_VARIANCE = 1e-30
LONGEST_ODDS = 1e30  # largest odds against a feature, so that pi >= 1e-30
MOST_REPEATS = 64  # of an example by its weight


class SpikeSlabState(NamedTuple):
    """Weight state that a kernel reads and updates in place."""

    state: np.ndarray  # one row per feature, and a spare one to pad with
    intercept: np.ndarray  # like a row of the state
    has_intercept: bool
    intercept_precision: float  # of the intercept's prior
    inclusion_prior: float
    slab_variance: float
    selects: bool  # whether predictions use only the selected weights


def likelihood(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (Lr, Lh) of some rows of the state."""
    rows = rows.astype(np.float64)
    precision = rows[:, PRECISION] + rows[:, NEGATIVE + PRECISION]
    return precision, rows[:, NATURAL_MEAN] + rows[:, NEGATIVE + NATURAL_MEAN]


@inlined
def intercept_posterior(weights):
    """Return (mean, variance) of the intercept, which is always in the slab."""
    intercept = weights.intercept
    precision = weights.intercept_precision + intercept[PRECISION] + intercept[NEGATIVE + PRECISION]
    variance = 1.0 / precision
    return variance * (intercept[NATURAL_MEAN] + intercept[NEGATIVE + NATURAL_MEAN]), variance


@kernel
def posterior(precision, shift, inclusion_prior, slab_variance, far):
    """Return (mean, variance, whether selected) of a weight with this likelihood: `learner`'s equations, in odds."""
    slab = 1.0 / (precision + 1.0 / slab_variance)
    there = min(max(slab * shift, -far), far)
    against = (1.0 - inclusion_prior) / inclusion_prior * math.sqrt(1.0 + slab_variance * precision)
    against = min(against * math.exp(max(-0.5 * shift * there, -700.0)), LONGEST_ODDS)
    inclusion = 1.0 / (1.0 + against)
    variance = inclusion * (slab + against * inclusion * there * there)
    return inclusion * there, max(variance, LEAST_VARIANCE), against < 1.0


@kernel
def freeze_averages(state, averages, inclusion_prior, slab_variance):
    """Write each row's average factor per class; return the largest move of an inclusion probability."""
    moved = 0.0
    for row in range(state.shape[0]):
        precision = shift = old_precision = old_shift = 0.0
        for half in range(2):
            column, average = NEGATIVE * half, NEGATIVE_AVERAGE * half
            count = np.float64(state[row, column + COUNT])
            if count == 0.0:
                continue
            old_precision += averages[row, average + PRECISION] * count
            old_shift += averages[row, average + NATURAL_MEAN] * count
            precision += state[row, column + PRECISION]
            shift += state[row, column + NATURAL_MEAN]
            averages[row, average + PRECISION] = state[row, column + PRECISION] / count
            averages[row, average + NATURAL_MEAN] = state[row, column + NATURAL_MEAN] / count
        if precision > 0.0:
            new = _inclusion(precision, shift, inclusion_prior, slab_variance)
            moved = max(moved, abs(new - _inclusion(old_precision, old_shift, inclusion_prior, slab_variance)))
    return moved


@kernel
def _inclusion(precision, shift, inclusion_prior, slab_variance):
    against = (1.0 - inclusion_prior) / inclusion_prior * math.sqrt(1.0 + slab_variance * precision)
    return 1.0 / (1.0 + against * math.exp(max(-0.5 * shift * shift / (precision + 1.0 / slab_variance), -700.0)))
