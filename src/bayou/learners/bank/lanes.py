"""The lanes of the bank: what they believe, what they say of a row, and what a label tells them.

Lanes know nothing of the combination on top of them (`combination`), so that the two can work at the same time, the
lanes some rows ahead. The equations are in the docstring of `learner`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2
from bayou.kernels.gather import prefetch
from bayou.kernels.room import zeros
from bayou.kernels.rounding import last_place, rounding_phase, rounding_phases
from bayou.kernels.vector import LANES, any_above, copy_lanes, fill, like, load, magnitude, sqrt, store, where_above
from bayou.learners.bank.steps import (
    LIMIT_32,
    LIMIT_64,
    SCALE_PRECISION,
    evidence,
    heavy_evidence,
    intercept_step,
    scale_step,
    weight_step,
)

# A typical row's length is brought to between these, and is settled after SETTLED rows.
SHORTEST, LONGEST, SETTLED = 0.9, 12.0, 1024
# Mean squares are at least this, so that v0/q stays a float32.
LEAST_SQUARE = 1e-30
# Non-zeros between a feature and the one whose lanes are asked for.
AHEAD = 96

# Rows of the table of settings.
(PRIOR, PER_SQUARE, SPREAD, KEEP, RATE, SCALED, NORMALISED, LIVE, BIAS_PRIOR, PRECISION) = range(10)
# What is counted of the stream: rows measured, their mean log length, whether a value other than 1 or -1 was met, the
# sum of weights.
ROWS, LOG_LENGTH, OTHER, WEIGHT = range(4)


class Lanes(NamedTuple):
    """What the lanes are and what they believe, as kernels take it. `width` is their number, a multiple of LANES."""

    settings: np.ndarray  # PRIOR to PRECISION, a column for each lane
    has_intercept: bool
    widest: float  # the largest variance that a weight can have, at least 1
    # Of each feature: eight means, eight precisions gained; a second such block for lanes 8 to 15, and so on. Zero
    # bytes mean the prior.
    state: np.ndarray
    # Mean square and uses, counted from the stream's first value other than 1 or -1 on. Before, they are all 1.
    squares: np.ndarray
    stream: np.ndarray  # ROWS to WEIGHT
    intercept: np.ndarray  # means; what precisions have gained
    scale: np.ndarray  # likewise, of l

    @property
    def width(self) -> int:
        return self.settings.shape[1]

    def factors(self) -> np.ndarray:
        """What a value is multiplied by in each lane: scale and unit of the stream."""
        unit = unit_of(self.stream[LOG_LENGTH]) if self.stream[ROWS] else 1.0
        return np.exp(self.scale[0]) * np.where(self.settings[NORMALISED] > 0, 1.0, unit)


class Tables(NamedTuple):
    """Rows of the settings for the kernel: first in the type of the state, then in float64."""

    prior: np.ndarray
    per_square: np.ndarray
    spread: np.ndarray
    keep: np.ndarray
    lose: np.ndarray  # 1 - keep
    rate: np.ndarray
    keep_64: np.ndarray
    scaled: np.ndarray
    normalised: np.ndarray
    live: np.ndarray
    bias_prior: np.ndarray


class Row(NamedTuple):
    """Scratch for the features of a row."""

    xs: np.ndarray  # values in units of the stream
    places: np.ndarray  # where their lanes begin in the state
    mean_squares: np.ndarray  # this row counted
    squares_before: np.ndarray  # and as they were
    means: np.ndarray  # of their weights in every lane, the prior being that of this row's mean squares
    xvs: np.ndarray  # x v in every lane
    phases: np.ndarray  # what sums are rounded by


class Each(NamedTuple):
    """Scratch for the lanes, of one row."""

    m: np.ndarray  # the score's mean
    s: np.ndarray  # and variance
    own: np.ndarray  # M, the part of m that is scaled
    v_bias: np.ndarray
    v_scale: np.ndarray
    factors: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray


@kernel
def unit_of(log_length):
    """By how much values are multiplied, for a typical row to have a length between SHORTEST and LONGEST."""
    there = min(max(log_length, math.log(SHORTEST)), math.log(LONGEST))
    return math.exp(min(max(there - log_length, -69.0), 69.0))


@kernel
def _log_length(values, start, stop):
    square = 0.0
    for k in range(start, stop):
        square += np.float64(values[k]) ** 2
    return 0.5 * math.log(max(square, 1e-300))


@kernel(forceinline=True)
def _scaled_row(xs, values, start, length, unit, bound):
    """Lay out a row in units of the stream; whether a value is other than 1 or -1."""
    other = False
    whole = length // LANES * LANES
    for k in range(0, whole, LANES):
        copy_lanes(xs, k, values, start + k)
        x = load(xs, k)
        other |= any_above(magnitude(x * x - 1.0), 0.0)
        store(xs, k, max(min(x * unit, bound), -bound))
    for k in range(whole, length):
        x = xs.dtype.type(values[start + k])
        other |= x * x != xs.dtype.type(1)
        xs[k] = max(min(x * unit, bound), -bound)
    return other


@kernel(forceinline=True)
def _row_squares(row, squares, indices, values, start, length, most):
    """Each feature's mean square, this row counted, and as it was; what was not yet counted was learned with 1."""
    dtype = squares.dtype.type
    mean_squares, squares_before = row.mean_squares, row.squares_before
    for k in range(length):
        there = 2 * np.int64(indices[start + k])
        x = dtype(values[start + k])
        q = squares[there] + (x * x - squares[there]) / (squares[there + 1] + dtype(1))
        mean_squares[k] = min(max(q, dtype(LEAST_SQUARE)), most)
        squares_before[k] = squares[there] if squares[there + 1] > dtype(0) else dtype(1)


@kernel(forceinline=True)
def _ask_for(state, squares, indices, start, stop, stride, counts):
    """Have the lanes of some non-zeros in the cache by the time they come."""
    for k in range(start, stop):
        there = np.int64(indices[np.uint64(k)])
        for at in range(0, stride, 2 * LANES):
            prefetch(state, there * stride + at)
        if counts:
            prefetch(squares, 2 * there)


@kernel(forceinline=True)
def _make_factors(each, tables, scale_log, unit):
    """What values are multiplied by: scale, and unit of the stream where a lane is normalised anyway."""
    for at in range(0, scale_log.size, LANES):
        factor = exp2(load(scale_log, at) * LOG2E)
        factor = where_above(load(tables.normalised, at), 0.0, factor / unit, factor) * load(tables.live, at)
        store(each.factors, at, like(factor, load(each.factors, at)))


@kernel(forceinline=True)
def _score_row(state, row, length, each, tables, intercept, scale, has_intercept, counts, most, farthest):
    """Mean and variance of a row's score in every lane; leaves x v of each feature in `xvs`, and means in `means`.

    Where a prior has moved, precision times mean stays: what examples told of a weight they told whatever the prior.
    Elsewhere both precisions are the same number, and the mean is what it was, bit for bit.
    """
    width = each.m.size
    bias_mean, bias_gain, scale_gain = intercept[0], intercept[1], scale[1]
    zero = fill(load(each.m, 0), 0.0)
    for at in range(0, width, LANES):
        factor, fixed, moving = load(each.factors, at), load(tables.prior, at), load(tables.per_square, at)
        if not counts:
            fixed = fixed + moving
        sum_m = sum_s = zero
        for k in range(length):
            place = row.places[k] + 2 * at
            x = factor * row.xs[k]
            mean, precision = load(state, place), fixed + load(state, place + LANES)
            if counts:
                before = precision + moving * row.squares_before[k]
                precision = precision + moving * row.mean_squares[k]
                mean = max(min(mean * (before / precision), most), -most)
                store(row.means, k * width + at, mean)
            xv = x / precision
            sum_m = sum_m + x * mean
            sum_s = sum_s + x * xv
            store(row.xvs, k * width + at, xv)
        live = like(load(tables.live, at), zero) * has_intercept
        v_b = live / like(load(tables.bias_prior, at) + load(bias_gain, at), zero)
        v_l = like(load(tables.scaled, at), zero) / like(load(scale_gain, at) + SCALE_PRECISION, zero)
        sum_m = max(min(sum_m, farthest), -farthest)
        sum_s = where_above(load(tables.rate, at), 0.0, zero, sum_s + v_b)
        store(each.own, at, sum_m)
        store(each.v_bias, at, v_b)
        store(each.v_scale, at, v_l)
        store(each.s, at, sum_s + sum_m * sum_m * v_l)
        store(each.m, at, sum_m + live * like(load(bias_mean, at), zero))


@kernel(forceinline=True)
def _learn_label(each, tables, intercept, scale, has_intercept, any_rate, y, c):
    """What a label tells every lane (`slopes`, `curvatures`), its scale and its intercept."""
    bias_mean, bias_gain, scale_log, scale_gain = intercept[0], intercept[1], scale[0], scale[1]
    dtype = each.m.dtype.type
    zero = fill(load(each.m, 0), 0.0)
    for at in range(0, each.m.size, LANES):
        s = load(each.s, at)
        g = 1.0 / (load(tables.spread, at) * s + 1.0)
        root = sqrt(g)
        if c <= 1.0:
            slope, curvature = evidence(load(each.m, at) * root * (y * dtype(LOG2E)), dtype(c))
        else:  # AdaGrad's lanes have no variance: they get c times the slope
            slope, curvature = heavy_evidence(load(each.m, at) * root * y, g * s, c)
        step, fall = slope * root * y, curvature * g
        store(each.slopes, at, step)
        store(each.curvatures, at, fall)

        log, gained = load(scale_log, at), load(scale_gain, at)
        learns = like(load(tables.scaled, at), zero)
        log, gained = scale_step(log, gained, learns, load(each.own, at), load(each.v_scale, at), step, fall)
        store(scale_log, at, log)
        store(scale_gain, at, gained)

        live, stay, pace = load(tables.live, at) * has_intercept, load(tables.keep_64, at), load(tables.rate, at)
        mean, gained, v = load(bias_mean, at), load(bias_gain, at), load(each.v_bias, at)
        held = load(tables.bias_prior, at)
        mean, gained = intercept_step(mean, gained, held, stay, live, v, pace, any_rate, step, fall)
        store(bias_mean, at, mean)
        store(bias_gain, at, gained)


@kernel(forceinline=True)
def _learn_row(state, row, length, each, tables, any_rate, counts, most):
    """Every feature of a row in every lane."""
    width = each.m.size
    for at in range(0, width, LANES):
        factor, step, fall = load(each.factors, at), load(each.slopes, at), load(each.curvatures, at)
        stay, fade, pace = load(tables.keep, at), load(tables.lose, at), load(tables.rate, at)
        fixed, moving = load(tables.prior, at), load(tables.per_square, at)
        lost = (fixed + moving) * fade
        for k in range(length):
            place = row.places[k] + 2 * at
            phase = row.phases[k]
            mean, gained, xv = load(state, place), load(state, place + LANES), load(row.xvs, k * width + at)
            if counts:
                mean = load(row.means, k * width + at)
            shift, more = weight_step(gained, factor * row.xs[k], xv, pace, any_rate, step, fall)
            if counts:
                lost = (fixed + moving * row.mean_squares[k]) * fade
            grown = gained + (more + phase * last_place(gained))
            grown = min(max(grown * stay - lost, 0.0), most)
            store(state, place, mean + (shift + phase * last_place(mean)))
            store(state, place + LANES, grown)


@kernel(forceinline=True)
def _row_phases(phases, indices, start, length, examples):
    """What each feature's sums are rounded by."""
    zero = fill(load(phases, 0), 0.0)
    whole = length // LANES * LANES
    for k in range(0, whole, LANES):
        store(phases, k, rounding_phases(zero, indices, start + k, np.uint64(examples)))
    for k in range(whole, length):
        phases[k] = rounding_phase(indices[np.uint64(start + k)], examples)


@kernel(forceinline=True)
def _count_row(squares, mean_squares, indices, start, length):
    for k in range(length):
        there = 2 * np.int64(indices[start + k])
        squares[there] = mean_squares[k]
        squares[there + 1] += squares.dtype.type(1)


@kernel
def run_lanes(indptr, indices, values, longest, ones, signs, weights, lanes, row, last, examples, stop, said):
    """Predict rows from `row` to `last`, learn from those whose weight is not 0. (The next row, examples learned.)

    Vectors run across lanes: one register holds the eight means of a feature, another what its eight precisions have
    gained. `said` of a row is the mean m and the variance s of its score in every lane. It ends early where `examples`
    reaches `stop`. `lanes` is a `Lanes`.
    """
    settings, stream = lanes.settings, lanes.stream
    state, squares, told = lanes.state.reshape(-1), lanes.squares.reshape(-1), said.reshape(-1)
    dtype = state.dtype.type
    width = settings.shape[1]
    stride, wide = 2 * width, said.shape[2]
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    reach = math.sqrt(most / lanes.widest)
    farthest = math.sqrt(most)  # of any score, so that its square is finite

    # Rows of tables as arrays of their own: in a loop, taking one costs more than what is done with it.
    typed = settings.astype(state.dtype)
    tables = Tables(
        *(typed[PRIOR], typed[PER_SQUARE], typed[SPREAD], typed[KEEP], dtype(1) - typed[KEEP], typed[RATE]),
        *(settings[KEEP], settings[SCALED], settings[NORMALISED], settings[LIVE], settings[BIAS_PRIOR]),
    )
    any_rate, any_scaled, has_intercept = tables.rate.any(), tables.scaled.any(), dtype(lanes.has_intercept)
    room = longest + LANES
    here = Row(
        zeros(room, state.dtype),
        zeros(room, np.int64),
        np.ones(room, state.dtype),
        np.ones(room, state.dtype),
        zeros(room * width, state.dtype),
        zeros(room * width, state.dtype),
        zeros(room, state.dtype),
    )
    scratch = zeros((8, width), state.dtype)
    each = Each(*(scratch[0], scratch[1], scratch[2], scratch[3]), *(scratch[4], scratch[5], scratch[6], scratch[7]))

    counted, log_length = stream[ROWS], stream[LOG_LENGTH]
    unit = unit_of(log_length) if counted > 0.0 else 1.0
    filled = dtype(-1)
    stale = True  # factors are to be made anew
    end = indptr[indptr.size - 1]
    while row < last:
        start = indptr[row]
        length = indptr[row + 1] - start
        c = np.float64(weights[row])

        # the row in units of the stream
        new_log_length = log_length
        if counted < SETTLED and length > 0:
            new_log_length += (_log_length(values, start, start + length) - log_length) / (counted + 1.0)
            row_unit = unit_of(new_log_length)
            stale |= row_unit != unit
            unit = row_unit
        if stale:
            _make_factors(each, tables, lanes.scale[0], unit)
            stale = False
        counts = stream[OTHER] > 0.0
        if not ones:
            bound = dtype(reach / math.sqrt(1.0 + length))
            counts |= _scaled_row(here.xs, values, start, length, dtype(unit), bound)
        elif filled != dtype(unit):
            filled = dtype(unit)
            here.xs[:] = filled
        if counts:
            _row_squares(here, squares, indices, values, start, length, most)

        # what the lanes say of it. Unsigned: Numba would ask of every signed index whether it counts from the end.
        if start + AHEAD + length <= end:
            _ask_for(state, squares, indices, start + AHEAD, start + AHEAD + length, stride, counts)
        for k in range(length):
            here.places[k] = np.int64(indices[np.uint64(start + k)]) * stride
        _score_row(
            state, here, length, each, tables, lanes.intercept, lanes.scale, has_intercept, counts, most, farthest
        )
        for at in range(0, width, LANES):
            store(told, 2 * row * wide + at, load(each.m, at))
            store(told, (2 * row + 1) * wide + at, load(each.s, at))
        row += 1
        if c == 0.0:
            continue

        # what the label tells them
        examples += 1
        _learn_label(each, tables, lanes.intercept, lanes.scale, has_intercept, any_rate, dtype(signs[row - 1]), c)
        _row_phases(here.phases, indices, start, length, examples)
        _learn_row(state, here, length, each, tables, any_rate, counts, most)

        # what is counted
        if counts:
            stream[OTHER] = 1.0
            _count_row(squares, here.mean_squares, indices, start, length)
        if counted < SETTLED and length > 0:
            counted += 1.0
            log_length = new_log_length
        stream[WEIGHT] += c
        stale |= any_scaled
        if examples == stop:
            break
    stream[ROWS], stream[LOG_LENGTH] = counted, log_length
    return row, examples
