"""Random draws of weights that need no storage: each is a function of (seed, draw number, feature)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_UNIT = 2.0**-53


@njit(cache=True, nogil=True)
def _mix(state):
    """splitmix64's finaliser: every bit of the answer depends on every bit of the question."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@njit(cache=True, nogil=True)
def normal(seed, draw, feature):
    """A standard normal number keyed by its three arguments (Box-Muller)."""
    step = np.uint64(0x9E3779B97F4A7C15)
    key = _mix(np.uint64(seed) + step)
    key = _mix(key ^ (np.uint64(draw) + step))
    key = _mix(key ^ (np.uint64(feature) + step))
    radius = (np.float64(key >> np.uint64(11)) + 0.5) * _UNIT
    angle = np.float64(_mix(key + step) >> np.uint64(11)) * _UNIT
    return math.sqrt(-2.0 * math.log(radius)) * math.cos(2.0 * math.pi * angle)


@njit(cache=True, nogil=True)
def draw_scores(indptr, indices, values, mean, sd, intercept, intercept_sd, seed, scores):
    """scores[draw, row] with one weight vector per draw; mean and sd are those of each non-zero's feature."""
    intercept_key = np.uint64(2**63)  # no feature has this number
    for draw in range(scores.shape[0]):
        shared = intercept + intercept_sd * normal(seed, draw, intercept_key)
        for row in range(indptr.size - 1):
            score = shared
            for k in range(indptr[row], indptr[row + 1]):
                score += values[k] * (mean[k] + sd[k] * normal(seed, draw, indices[k]))
            scores[draw, row] = score
