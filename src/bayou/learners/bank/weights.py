"""What the weights are that a bank shows: those of its combination, linearised as it stands.

Every mixture is read as one of logits, so that the score is a sum over lanes. The coefficients of a lane's outputs
belong to logits z = m / sqrt(1 + C8 kp s); each is divided by the mean of sqrt((1 + C8 kp s) / (1 + C8 variance)) over
the last thousand examples or so, which makes it one of the m and of the score. The variance of a weight is that of the
mixture of lanes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from bayou.kernels.vector import LANES
from bayou.learners.bank.combination import Combination
from bayou.learners.bank.lanes import BIAS_PRIOR, PER_SQUARE, PRIOR, RATE, Lanes


class Linear(NamedTuple):
    """The combination as a sum over lanes; an array entry for each lane."""

    coefficients: np.ndarray  # of the lane's score
    mixing: np.ndarray  # its weight in the mixture of those that have a variance
    stretched: np.ndarray  # how far its means are stretched there
    offset: float


def linearised(lanes: Lanes, combination: Combination) -> Linear:
    width, of, slots = lanes.width, combination.lane_of, combination.slots
    shares, stretch = combination.shares[slots], 1.0 / (1.0 + combination.damping[slots])
    each, offset = combination.final_shares[0] * shares, 0.0
    for share, mean in zip(combination.final_shares[1:], combination.stacker_mean, strict=True):
        c = mean[slots]
        each = each + share * ((1.0 + mean[1] - c.sum()) * shares + c)
        offset += share * mean[0]
    each_share = np.bincount(of, shares, minlength=width)
    gaussian = np.where(lanes.settings[RATE] > 0, 0.0, each_share)
    if not gaussian.sum():
        gaussian = each_share
    stretched = np.bincount(of, shares * stretch, minlength=width) / np.where(each_share > 0, each_share, 1.0)
    coefficients = np.bincount(of, each * stretch, minlength=width)
    return Linear(coefficients, gaussian / gaussian.sum(), stretched, float(offset))


def intercept_of(lanes: Lanes, combination: Combination) -> tuple[float, float]:
    """Mean and variance of the intercept."""
    coefficients, mixing, stretched, offset = linearised(lanes, combination)
    means, gains = lanes.intercept
    mean = float(coefficients @ means) + offset
    means = stretched * means
    variances = np.where(lanes.settings[RATE] > 0, 0.0, 1.0 / (lanes.settings[BIAS_PRIOR] + gains))
    stackers = zip(combination.final_shares[1:], combination.stacker_covariance, strict=True)
    stacked = sum(share * covariance[0, 0] for share, covariance in stackers)
    return mean, float(mixing @ (variances + (means - mixing @ means) ** 2) + stacked)


def weights_of(lanes: Lanes, combination: Combination, features: np.ndarray) -> np.ndarray:
    """Means and variances of some features' weights."""
    coefficients, mixing, stretched, _ = linearised(lanes, combination)
    found = np.empty((2, len(features)), lanes.state.dtype)
    state, squares, settings = lanes.state, lanes.squares, lanes.settings
    _weights(features, state, squares, settings, lanes.factors(), coefficients, mixing, stretched, found)
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _weights(numbers, state, squares, settings, factors, coefficients, mixing, stretched, found):
    """(means, variances) of some features' weights in the linearised combination of all lanes."""
    most = 1e37 if found.itemsize == 4 else 1e300  # absurd values in absurd units
    for n in range(numbers.size):
        i = numbers[n]
        square = squares[i, 0] if squares[i, 1] > 0 else 1.0
        mean = middle = 0.0
        for k in range(settings.shape[1]):
            weight = factors[k] * state[i, k // LANES * 2 * LANES + k % LANES]
            mean += coefficients[k] * weight
            middle += mixing[k] * stretched[k] * weight
        variance = 0.0
        for k in range(settings.shape[1]):
            if mixing[k] > 0.0:
                place = k // LANES * 2 * LANES + k % LANES
                apart = stretched[k] * factors[k] * state[i, place] - middle
                precision = settings[PRIOR, k] + settings[PER_SQUARE, k] * square + state[i, place + LANES]
                own = 0.0 if settings[RATE, k] > 0.0 else factors[k] * factors[k] / precision
                variance += mixing[k] * (own + apart * apart)
        found[0, n] = min(max(mean, -most), most)
        found[1, n] = min(variance, most)
