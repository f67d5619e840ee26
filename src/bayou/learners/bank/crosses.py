"""Lane X of the bank: a weight for each feature, and one for each pair of features that occur together.

It is a scaled lane (`learner` has the equations) over the row's features and over products of two of them. Features and
pairs have separate prior variances, and separate scales e^l, l ~ N(0, .05); the pairs' values are products of
values in units of the stream. Nothing is forgotten.

**Pairs** are never listed. A pair's place in the table is a hash of both features, in either order; the first two
features to use a place are stored beside it, so that weights have names. A table of groups (columns, `Batch.groups`)
says which pairs count. A row has at most MOST_PAIRS pairs, neighbors first.

If two pairs of one row share a place, both read the same weight, and it is updated from the last of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import aligned_zeros_1d, empty, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E
from bayou.kernels.gather import gather_pairs, prefetch, scatter_pairs
from bayou.kernels.inlining import inlined
from bayou.kernels.random import GOLDEN, mix
from bayou.kernels.rounding import rounding_phases, ulp
from bayou.kernels.vector import LANES, broadcast, extract_lane, load, store, sum_lanes
from bayou.learners.bank.row_scaling import UNIT_FIT_ROWS, row_log_length, stream_scale
from bayou.learners.bank.updates import (
    LIMIT_32,
    LIMIT_64,
    SCALE_FARTHEST,
    SCALE_PRECISION,
    SCALE_STEP,
    evidence,
    evidence_heavy_weight,
)

GROUPS = 256
MOST_PAIRS = 1024
# Prior precisions of the weights of features and of pairs, and of the intercept.
PRIORS, BIAS_PRIOR = (10.0, 10.0), 1.0 / 3.0
FEATURES, PAIRS = range(2)
MEAN, GAIN = range(2)
_SPREAD = np.uint64(0xD6E8FEB86659FD93)


class CrossState(NamedTuple):
    """Settings and learned state of lane X, as kernels take it. Zero bytes mean the prior."""

    crossed: np.ndarray  # (GROUPS, GROUPS): whether features of two groups are crossed
    has_intercept: bool
    weights: np.ndarray  # mean and gained precision at each place; the last place is a dummy
    features: np.ndarray  # the first two features seen at each place, counted from 1; 0 for none
    stream: np.ndarray  # rows measured and their mean log length, as for lanes
    intercept: np.ndarray  # MEAN, GAIN
    scale: np.ndarray  # l of FEATURES and PAIRS: means, gained precisions

    @property
    def bits(self) -> int:
        return (len(self.weights) - 1).bit_length() - 1


def new_crosses(crossed: np.ndarray, has_intercept: bool, bits: int, dtype: str) -> CrossState:
    return CrossState(
        crossed=crossed,
        has_intercept=has_intercept,
        weights=np.zeros((2**bits + 1, 2), dtype),
        features=np.zeros((2**bits + 1, 2), np.uint32),
        stream=np.zeros(2),
        intercept=np.zeros(2),
        scale=np.zeros((2, 2)),
    )


class CrossRowScratch(NamedTuple):
    """Scratch for a row: its features, then its pairs, each padded to whole vectors."""

    places: np.ndarray
    xs: np.ndarray
    means: np.ndarray
    gains: np.ndarray
    xvs: np.ndarray
    owners: np.ndarray  # positions in the row of each slot's feature, or of both features of a pair
    hashes: np.ndarray  # of features


@kernel
def _feature_hash(feature):
    """Return the hash of a feature; that of a pair is the exclusive or of both."""
    return mix(np.uint64(feature) + GOLDEN)


@kernel
def _index_of_hash(hashed, shift):
    """Return the place of a hash in the table of weights."""
    return np.uint32((hashed * _SPREAD) >> shift)


@kernel
def weight_index(one, other, bits):
    """Return the place of a feature's weight, or of the pair's if `other` is not -1."""
    hashed = _feature_hash(one)
    if other >= 0:
        hashed ^= _feature_hash(other)
    return np.int64(_index_of_hash(hashed, np.uint64(64 - bits)))


@kernel
def weight_indices(ones, others, bits):
    """Return `weight_index` for arrays of features."""
    places = empty(ones.size, np.int64)
    for k in range(ones.size):
        places[k] = weight_index(ones[k], others[k], bits)
    return places


@inlined
def _lay_out(row, crosses, indices, values, groups, start, length, unit, bound, shift, nowhere):
    """Write the row's features, then its pairs, and prefetch their weights; return where pairs begin and end."""
    places, xs, hashes, owners = row.places, row.xs, row.hashes, row.owners
    weights, crossed = crosses.weights.reshape(-1), crosses.crossed.reshape(-1)
    dtype = xs.dtype.type
    for k in range(length):
        hashed = _feature_hash(indices[np.uint64(start + k)])
        hashes[k] = hashed
        places[k] = _index_of_hash(hashed, shift)
        xs[k] = max(min(dtype(values[start + k]) * unit, bound), -bound)
        owners[2 * k], owners[2 * k + 1] = k, -1
        prefetch(weights, 2 * np.int64(places[k]))
    first = -(-length // LANES) * LANES
    for k in range(length, first):
        places[k], xs[k] = nowhere, 0
    slot, most = first, first + MOST_PAIRS
    grouped = groups.size > 0
    if not grouped and not crossed[0]:
        return first, slot
    for apart in range(1, length):
        if slot >= most:
            break
        for k in range(length - apart):
            other = np.uint64(k + apart)
            if grouped:
                pair = np.int64(groups[np.uint64(start + k)]) * GROUPS + np.int64(groups[np.uint64(start) + other])
                if not crossed[pair]:
                    continue
            if slot >= most:
                break
            place = _index_of_hash(hashes[k] ^ hashes[other], shift)
            places[slot], xs[slot] = place, xs[k] * xs[other]
            owners[2 * slot], owners[2 * slot + 1] = k, other
            prefetch(weights, 2 * np.int64(place))
            slot += 1
    last = first + -(-(slot - first) // LANES) * LANES
    for k in range(slot, last):
        places[k], xs[k] = nowhere, 0
    return first, last


@inlined
def _gather(row, table, first, last, prior):
    """Return mean and variance of the score of slots `first` to `last`, before it is scaled."""
    zero = broadcast(load(row.xs, 0), 0.0)
    sum_m = sum_s = zero
    for k in range(first, last, LANES):
        x = load(row.xs, k)
        mean, gain = gather_pairs(table, row.places, k)
        xv = x / (gain + prior)
        sum_m, sum_s = sum_m + x * mean, sum_s + x * xv
        store(row.means, k, mean)
        store(row.gains, k, gain)
        store(row.xvs, k, xv)
    return np.float64(sum_lanes(sum_m)), np.float64(sum_lanes(sum_s))


@inlined
def _learn_weights(row, table, first, last, factor, step, fall, examples, most):
    dtype = table.dtype.type
    zero = broadcast(load(row.xs, 0), 0.0)
    for k in range(first, last, LANES):
        x, xv = load(row.xs, k) * dtype(factor), load(row.xvs, k) * dtype(factor)
        mean, gain = load(row.means, k), load(row.gains, k)
        xf = x * dtype(fall)
        more = x * xf / max(1.0 - xv * xf, 0.5)
        phase = rounding_phases(zero, row.places, k, np.uint64(examples))
        mean = mean + (xv * dtype(step) + phase * ulp(mean))
        gain = min(gain + (more + phase * ulp(gain)), most)
        scatter_pairs(table, row.places, k, mean, gain)


@inlined
def _store_pair_features(row, crosses, indices, start, first, last):
    """Store the features of places that are used for the first time."""
    features = crosses.features
    for k in range(first, last):
        if row.gains[k] == 0 and row.xs[k] != 0 and not features[row.places[k], 0]:
            place, one, other = row.places[k], row.owners[2 * k], row.owners[2 * k + 1]
            features[place, 0] = indices[start + one] + np.uint32(1)
            if other >= 0:
                features[place, 1] = indices[start + other] + np.uint32(1)


@inlined
def label_step(m, s, y, c, temper, zero):
    """Return slope and curvature of the evidence of a label of weight c on a score N(m, s); `zero` is a vector."""
    root = 1.0 / math.sqrt(1.0 + C8 * temper * s)
    if c <= 1.0:
        slope, curvature = evidence(zero + m * root * y * LOG2E, c)
    else:
        slope, curvature = evidence_heavy_weight(zero + m * root * y, zero + s * root * root, c)
    return extract_lane(slope, 0) * root * y, extract_lane(curvature, 0) * root * root


@kernel
def run_crosses(rows, groups, crosses, row, last, examples, column, lane_outputs):
    """Predict each row in [row, last), then update from rows with nonzero weight. `crosses` is a `CrossState`.

    Mean and variance of each row's score are written to `column` of `lane_outputs`. The data:

        crosses.weights  [place][2]    mean and gained precision; the last place is a dummy
        scratch          [slot]        the row's features, padded to whole vectors, then its pairs, padded likewise
        scale            [2][2]        MEAN and GAIN of l of FEATURES and of PAIRS
    """
    indptr, indices, values, weights, table = rows.indptr, rows.indices, rows.values, rows.weights, crosses.weights
    dtype = table.dtype.type
    intercept, scale, stream = crosses.intercept, crosses.scale, crosses.stream
    most = dtype(LIMIT_32 if table.itemsize == 4 else LIMIT_64)
    # Squares of products of two, times the widest variance, stay finite.
    farthest = math.sqrt(most)
    reach = math.sqrt(math.sqrt(most) / 1e3)
    shift = np.uint64(64)
    size = 1
    while size < table.shape[0] - 1:
        size, shift = 2 * size, shift - np.uint64(1)
    nowhere = np.uint32(table.shape[0] - 1)
    room = rows.max_row_length + MOST_PAIRS + 2 * LANES
    scratch = CrossRowScratch(
        zeros(room, np.uint32),
        aligned_zeros_1d(room, table.dtype),
        aligned_zeros_1d(room, table.dtype),
        aligned_zeros_1d(room, table.dtype),
        aligned_zeros_1d(room, table.dtype),
        empty(2 * room, np.int64),
        empty(rows.max_row_length + 1, np.uint64),
    )
    zero = broadcast(load(aligned_zeros_1d(LANES, np.float64), 0), 0.0)
    counted, log_length = stream[0], stream[1]
    for r in range(row, last):
        start, length, c = indptr[r], indptr[r + 1] - indptr[r], np.float64(weights[r])
        new_log_length = log_length
        if counted < UNIT_FIT_ROWS and length > 0:
            new_log_length += (row_log_length(values, start, start + length) - log_length) / (counted + 1.0)
        unit, bound = dtype(stream_scale(new_log_length)), dtype(reach / math.sqrt(1.0 + length))
        # predict: features (1) and pairs (2)
        middle, end = _lay_out(scratch, crosses, indices, values, groups, start, length, unit, bound, shift, nowhere)
        m_1, s_1 = _gather(scratch, table, 0, middle, PRIORS[FEATURES])
        m_2, s_2 = _gather(scratch, table, middle, end, PRIORS[PAIRS])
        f_1, f_2 = math.exp(scale[MEAN, FEATURES]), math.exp(scale[MEAN, PAIRS])
        m_1, m_2 = max(min(m_1 * f_1, farthest), -farthest), max(min(m_2 * f_2, farthest), -farthest)
        v_1, v_2 = 1.0 / (SCALE_PRECISION + scale[GAIN, FEATURES]), 1.0 / (SCALE_PRECISION + scale[GAIN, PAIRS])
        v_b = 1.0 / (BIAS_PRIOR + intercept[GAIN]) if crosses.has_intercept else 0.0
        m = m_1 + m_2 + intercept[MEAN]
        s = v_b + f_1 * f_1 * s_1 + f_2 * f_2 * s_2 + m_1 * m_1 * v_1 + m_2 * m_2 * v_2
        lane_outputs[r, 0, column], lane_outputs[r, 1, column] = m, s
        if c == 0.0:
            continue
        # update from the label
        examples += 1
        step, fall = label_step(m, s, np.float64(rows.labels[r]), c, 1.0, zero)
        _store_pair_features(scratch, crosses, indices, start, 0, length)
        _store_pair_features(scratch, crosses, indices, start, middle, end)
        _learn_weights(scratch, table, 0, middle, f_1, step, fall, examples, most)
        _learn_weights(scratch, table, middle, end, f_2, step, fall, examples, most)
        _learn_scale(scale, FEATURES, m_1, v_1, step, fall)
        _learn_scale(scale, PAIRS, m_2, v_2, step, fall)
        if crosses.has_intercept:
            intercept[MEAN] += v_b * step
            intercept[GAIN] = min(intercept[GAIN] + fall / max(1.0 - v_b * fall, 0.5), LIMIT_64)
        if counted < UNIT_FIT_ROWS and length > 0:
            counted, log_length = counted + 1.0, new_log_length
    stream[0], stream[1] = counted, log_length


@inlined
def _learn_scale(scale, kind, value, v, step, fall):
    log = scale[MEAN, kind] + max(min(value * v * step, SCALE_STEP), -SCALE_STEP)
    scale[MEAN, kind] = max(min(log, SCALE_FARTHEST), -SCALE_FARTHEST)
    k = value * value * fall
    scale[GAIN, kind] = min(scale[GAIN, kind] + k / max(1.0 - k * v, 0.5), LIMIT_64)
