"""Weights that a regression bank displays: those of its combination, as a sum over lanes.

Except for cuts, the combination is linear in the lanes' means m_k: the sum of C_k m_k, and an offset. A weight's mean
is the sum of C_k times its means in the lanes, in the units of the data; its variance is that of the mixture of lanes.
"""

from __future__ import annotations

import numpy as np

from bayou.learners.ensembles.stackers import output_coefficients
from bayou.learners.number_bank import lanes as layout
from bayou.learners.number_bank.combination import (
    DEGREES,
    LABEL_SUM_SQUARES,
    LOG_FACTOR,
    MEAN,
    N_SHAPE_ERRORS,
    ROWS,
    NumberCombination,
)
from bayou.learners.number_bank.head import N_HEAD_LANES
from bayou.learners.number_bank.lanes import NumberLaneState, column_means

AT_ONCE = 1 << 16
MOST = 1e37  # bound for absurd values in absurd units


def coefficients(combination: NumberCombination) -> tuple[np.ndarray, float]:
    """Return C_k of every lane, and the offset."""
    labels = combination.labels
    rows = labels[ROWS]
    sd = np.sqrt(labels[LABEL_SUM_SQUARES] / rows) if rows else 0.0
    final_shares, means = combination.final_shares, combination.stacker_mean
    each, offset = output_coefficients(combination.shares, final_shares, means), 0.0
    for share, (b, a, *_) in zip(final_shares[1:], means, strict=True):
        offset += share * (b * sd - a * labels[MEAN] * combination.has_intercept)
    return each, float(offset)


def noise_of(combination: NumberCombination) -> float:
    scales = combination.shape_scales if combination.steering[N_SHAPE_ERRORS] else np.ones(len(DEGREES))
    square = np.exp(2.0 * combination.steering[LOG_FACTOR])
    return float(square * combination.shape_shares @ (scales * DEGREES / (DEGREES - 2.0)))


def lane_weights(lanes: NumberLaneState, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances (in units of the noise) of some weights in every lane, in the units of the data."""
    state, columns, settings, head = lanes.state[features], lanes.columns[features], lanes.settings, lanes.head
    unit = np.where(columns[:, layout.COLUMN_UNIT] > 0, columns[:, layout.COLUMN_UNIT], 1.0)
    new = columns[:, layout.COLUMN_UNIT] == 0  # as if its first value were 1
    length = max(lanes.stream[layout.NONZEROS] / max(lanes.stream[layout.ROWS], 1.0), 1.0)
    spread, square = np.where(new, length, columns[:, layout.SPREAD]), np.where(new, length, columns[:, layout.LENGTH])
    mean, gained = state[:, : len(settings[0])], state[:, len(settings[0]) :]
    prior = np.outer(spread, settings[layout.PRECISION_PER_VARIANCE]) + np.outer(
        square, settings[layout.PRECISION_PER_LENGTH]
    )
    variance = 1.0 / (prior + gained)
    mean = mean.copy()
    inside = np.flatnonzero(columns[:, layout.COLUMN_HEAD_SLOT])
    for place, k in zip(columns[inside, layout.COLUMN_HEAD_SLOT].astype(int).tolist(), inside.tolist(), strict=True):
        at = slice(place * N_HEAD_LANES, (place + 1) * N_HEAD_LANES)
        mean[k, :N_HEAD_LANES], variance[k, :N_HEAD_LANES] = head.weights[at], np.maximum(head.variances[at], 0.0)
    scale = np.where(settings[layout.IS_RAW] > 0, 1.0, unit[:, None])
    return mean * scale, variance * scale**2


def _over_lanes(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return `values @ times`, summed lane by lane: bits of a matrix product would depend on the number of rows."""
    total = np.zeros(len(values))
    for lane, share in enumerate(times.tolist()):
        total += share * values[:, lane]
    return total


def weights_of(lanes: NumberLaneState, combination: NumberCombination, features: np.ndarray) -> np.ndarray:
    """Return means and variances of some features' weights."""
    moments, (each, _), noise = np.empty((2, len(features))), coefficients(combination), noise_of(combination)
    for start in range(0, len(features), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        mean, variance = lane_weights(lanes, features[part])
        middle = _over_lanes(mean, combination.shares)
        moments[0, part] = _over_lanes(mean, each)
        moments[1, part] = _over_lanes(noise * variance + (mean - middle[:, None]) ** 2, combination.shares)
    return np.clip(moments, -MOST, MOST)


def intercept_of(lanes: NumberLaneState, combination: NumberCombination) -> tuple[float, float]:
    """Return mean and variance of the intercept, the score of a row without features."""
    each, offset = coefficients(combination)
    head, middles = lanes.head, np.zeros(len(each))
    mean, variance = lanes.intercept[0].copy(), lanes.intercept[1].copy()
    mean[:N_HEAD_LANES], variance[:N_HEAD_LANES] = head.weights[:N_HEAD_LANES], head.variances[:N_HEAD_LANES]
    dense = np.flatnonzero(lanes.uses[:, 0] > 0.5 * lanes.stream[layout.ROWS])
    if len(dense) and lanes.has_intercept:  # where columns are centered, their means are part of the intercept
        weights, _ = lane_weights(lanes, dense)
        outside = np.ones((len(dense), len(each)))
        outside[lanes.columns[dense, layout.COLUMN_HEAD_SLOT] > 0, :N_HEAD_LANES] = 0.0
        middles = (weights * outside * column_means(lanes, dense)[:, None]).sum(0)
    mean = mean - middles
    center = float(mean @ combination.shares)
    spread = noise_of(combination) * np.maximum(variance, 0.0) + (mean - center) ** 2
    origin = float(lanes.stream[layout.FIRST_LABEL])
    return float(np.clip(origin + mean @ each + offset, -MOST, MOST)), float(min(spread @ combination.shares, MOST))
