"""The lanes of the bank: what they believe, what they say of a row, and what a label tells them.

Lanes know nothing of the combination on top of them (`combination`), so that the two can work at the same time, the
lanes some rows ahead. The equations are in the docstring of `learner`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.validation import LIMIT
from bayou.kernels.exponential import exp2
from bayou.kernels.gather import prefetch
from bayou.kernels.rounding import last_place, rounding_phase, rounding_phases
from bayou.kernels.vector import LANES, any_above, copy_lanes, fill, like, load, magnitude, sqrt, store, where_above

LOG2E = 1.0 / math.log(2.0)
LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]

# l ~ N(0, .05) before any data; an example moves it by at most 1/2, and it stays within +-5.
SCALE_PRECISION, SCALE_STEP, SCALE_FARTHEST = 1.0 / 0.05, 0.5, 5.0
# A typical row's length is brought to between these, and is settled after SETTLED rows.
SHORTEST, LONGEST, SETTLED = 0.9, 12.0, 1024
# A root of squared gradients counts as at least this: what is sure to 1e-6 should not move a weight by the whole rate.
LEAST_ROOT = 1e-6
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


@njit(cache=True, nogil=True, error_model="numpy")
def unit_of(log_length):
    """By how much values are multiplied, for a typical row to have a length between SHORTEST and LONGEST."""
    there = min(max(log_length, math.log(SHORTEST)), math.log(LONGEST))
    return math.exp(min(max(there - log_length, -69.0), 69.0))


@njit(cache=True, nogil=True, error_model="numpy")
def heavy_evidence(z, tau, c):
    """Slope and curvature of c > 1 units of evidence at z: the first as it stands, c - 1 where they leave z.

    t = tau [q(z) + (c - 1) q(z + t)], q(z) = S(-z), by Newton's steps from beyond the inflection of q: monotone.
    """
    slope, curvature = links.slope_and_curvature(links.LOGISTIC, z)
    first, rest = tau * slope, (c - 1.0) * tau
    t = max(first, -z)
    for _ in range(100):
        q, k = links.slope_and_curvature(links.LOGISTIC, z + t)
        previous = t
        t = (first + rest * (q + k * t)) / (1.0 + rest * k)
        if abs(t - previous) <= 1e-12 * abs(t):
            break
    q, k = links.slope_and_curvature(links.LOGISTIC, z + t)
    return slope + (c - 1.0) * q, curvature + (c - 1.0) * k


@njit(forceinline=True, error_model="numpy")
def _evidence(logit, c):
    """Slope and curvature of c <= 1 units of evidence, from log2 of the odds of the label."""
    e = exp2(logit)
    slope = c / (e + 1.0)
    return slope, slope * (e / (e + 1.0))


@njit(forceinline=True, error_model="numpy")
def _scale_step(log, gained, scaled, total, v, step, fall):
    """The scale's logarithm and what its precision has gained; `total` is M, its value."""
    log = log + like(max(min(total * v * step, SCALE_STEP), -SCALE_STEP), log)
    more = scaled * (total * total * fall)
    more = like(more / max(1.0 - more * v, 0.5), log)
    return max(min(log, SCALE_FARTHEST), -SCALE_FARTHEST), min(gained + more, LIMIT_64)


@njit(forceinline=True, error_model="numpy")
def _intercept_step(mean, gained, prior, keep, live, v, rate, any_rate, step, fall):
    """The intercept's mean and what its precision has gained."""
    grown = gained + live * like(step * step, mean)
    moved, more = v * step, fall / max(1.0 - v * fall, 0.5)
    if any_rate:
        moved = where_above(rate, 0.0, rate * step / max(sqrt(like(grown, v)), LEAST_ROOT), moved)
    gained = gained + live * like(more, mean)
    gained = max(gained * keep - prior * (1.0 - keep), 0.0)
    return mean + live * like(moved, mean), min(where_above(like(rate, mean), 0.0, grown, gained), LIMIT_64)


@njit(forceinline=True, error_model="numpy")
def _weight_step(gained, x, xv, rate, any_rate, step, fall):
    """How far a feature's means move and how much its precisions gain."""
    xf = x * fall
    top, bottom = x * xf, max(1.0 - xv * xf, 0.5)
    shift = xv * step
    if any_rate:
        gradient = x * step
        square = gradient * gradient
        top = where_above(rate, 0.0, rate * gradient, top)
        bottom = where_above(rate, 0.0, max(sqrt(gained + square), LEAST_ROOT), bottom)
        more = top / bottom
        shift = where_above(rate, 0.0, more, shift)
        return shift, where_above(rate, 0.0, square, more)
    return shift, top / bottom


@njit(cache=True, nogil=True, error_model="numpy")
def _log_length(values, start, stop):
    square = 0.0
    for k in range(start, stop):
        square += np.float64(values[k]) ** 2
    return 0.5 * math.log(max(square, 1e-300))


@njit(forceinline=True, error_model="numpy")
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


@njit(forceinline=True, error_model="numpy")
def _row_squares(mean_squares, squares, indices, values, start, length, most):
    """Each feature's mean square, this row counted."""
    dtype = squares.dtype.type
    for k in range(length):
        there = 2 * np.int64(indices[start + k])
        x = dtype(values[start + k])
        q = squares[there] + (x * x - squares[there]) / (squares[there + 1] + dtype(1))
        mean_squares[k] = min(max(q, dtype(LEAST_SQUARE)), most)


@njit(forceinline=True, error_model="numpy")
def _ask_for(state, squares, indices, start, stop, stride, counts):
    """Have the lanes of some non-zeros in the cache by the time they come."""
    for k in range(start, stop):
        there = np.int64(indices[np.uint64(k)])
        for at in range(0, stride, 2 * LANES):
            prefetch(state, there * stride + at)
        if counts:
            prefetch(squares, 2 * there)


@njit(forceinline=True, error_model="numpy")
def _sums(state, places, xs, mean_squares, xvs, length, width, at, factor, fixed, moving, counts):
    """Mean and variance of a row's score in eight lanes; leaves x v of each feature in `xvs`."""
    sum_m = sum_s = fill(factor, 0.0)
    for k in range(length):
        place = places[k] + 2 * at
        x = factor * xs[k]
        precision = fixed + load(state, place + LANES)
        if counts:
            precision = precision + moving * mean_squares[k]
        xv = x / precision
        sum_m = sum_m + x * load(state, place)
        sum_s = sum_s + x * xv
        store(xvs, k * width + at, xv)
    return sum_m, sum_s


@njit(forceinline=True, error_model="numpy")
def _heavy_evidence(slopes, curvatures, m, s, spreads, rate, y, c, at):
    """`heavy_evidence` of eight lanes."""
    for k in range(at, at + LANES):
        shrink = 1.0 / (1.0 + np.float64(spreads[k]) * s[k])
        if rate[k] > 0.0:
            slopes[k], curvatures[k] = c * links.sigmoid(-y * m[k]), 0.0
        else:
            slopes[k], curvatures[k] = heavy_evidence(y * m[k] * math.sqrt(shrink), shrink * s[k], c)


@njit(forceinline=True, error_model="numpy")
def _row_phases(phases, indices, zero, start, length, examples):
    """What each feature's sums are rounded by."""
    whole = length // LANES * LANES
    for k in range(0, whole, LANES):
        store(phases, k, rounding_phases(zero, indices, start + k, np.uint64(examples)))
    for k in range(whole, length):
        phases[k] = rounding_phase(indices[np.uint64(start + k)], examples)


@njit(forceinline=True, error_model="numpy")
def _learn_row(
    state,
    places,
    xs,
    mean_squares,
    xvs,
    phases,
    length,
    width,
    at,
    counts,
    any_rate,
    most,
    factor,
    step,
    fall,
    stay,
    fade,
    pace,
    fixed,
    moving,
):
    """Every feature of a row in eight lanes."""
    lost = (fixed + moving) * fade
    for k in range(length):
        place = places[k] + 2 * at
        phase = phases[k]
        mean, gained, xv = load(state, place), load(state, place + LANES), load(xvs, k * width + at)
        shift, more = _weight_step(gained, factor * xs[k], xv, pace, any_rate, step, fall)
        if counts:
            lost = (fixed + moving * mean_squares[k]) * fade
        grown = gained + (more + phase * last_place(gained))
        grown = min(max(grown * stay - lost, 0.0), most)
        store(state, place, mean + (shift + phase * last_place(mean)))
        store(state, place + LANES, grown)


@njit(forceinline=True, error_model="numpy")
def _count_row(squares, mean_squares, indices, start, length):
    for k in range(length):
        there = 2 * np.int64(indices[start + k])
        squares[there] = mean_squares[k]
        squares[there + 1] += squares.dtype.type(1)


@njit(cache=True, nogil=True, error_model="numpy")
def run_lanes(indptr, indices, values, longest, ones, signs, weights, lanes, row, last, examples, stop, said):
    """Predict rows from `row` to `last`, learn from those whose weight is not 0. (The next row, examples learned.)

    Vectors run across lanes: one register holds the eight means of a feature, another what its eight precisions have
    gained. `said` of a row is the mean m and the variance s of its score in every lane. It ends early where `examples`
    reaches `stop`. `lanes` is a `Lanes`.
    """
    settings, stream, has_intercept = lanes.settings, lanes.stream, lanes.has_intercept
    state, squares, told = lanes.state.reshape(-1), lanes.squares.reshape(-1), said.reshape(-1)
    dtype = state.dtype.type
    width = settings.shape[1]
    stride = 2 * width
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    reach = math.sqrt(most / lanes.widest)
    farthest = math.sqrt(most)  # of any score, so that its square is finite

    # Rows of tables as arrays of their own: in a loop, taking one costs more than what is done with it.
    typed = settings.astype(state.dtype)
    prior, per_square, spreads, keep, rate = typed[PRIOR], typed[PER_SQUARE], typed[SPREAD], typed[KEEP], typed[RATE]
    lose = dtype(1) - keep
    scaled, keeps, bias_prior = settings[SCALED], settings[KEEP], settings[BIAS_PRIOR]
    normalised, live_lanes = settings[NORMALISED], settings[LIVE]
    bias_mean, bias_gain = lanes.intercept[0], lanes.intercept[1]
    scale_log, scale_gain = lanes.scale[0], lanes.scale[1]
    any_rate, any_scaled = rate.any(), scaled.any()
    # One row's scratch.
    xs = np.zeros(longest + LANES, state.dtype)
    mean_squares = np.ones(longest + LANES, state.dtype)
    xvs = np.zeros((longest + 1) * width, state.dtype)
    places, phases = np.zeros(longest + 1, np.int64), np.zeros(longest + LANES, state.dtype)
    each = np.zeros((10, width), state.dtype)
    m, s, own, v_bias, v_scale = each[0], each[1], each[2], each[3], each[4]
    factors, slopes, curvatures, heavy_slopes, heavy_curvatures = each[5], each[6], each[7], each[8], each[9]

    zero = fill(load(xs, 0), 0.0)
    counted, log_length = stream[ROWS], stream[LOG_LENGTH]
    unit = unit_of(log_length) if counted > 0.0 else 1.0
    filled = dtype(-1)
    stale = True  # factors are to be made anew
    end = indptr[indptr.size - 1]
    while row < last:
        start = indptr[row]
        length = indptr[row + 1] - start
        c = np.float64(weights[row])

        # --- the row in units of the stream
        new_log_length = log_length
        if counted < SETTLED and length > 0:
            new_log_length += (_log_length(values, start, start + length) - log_length) / (counted + 1.0)
            row_unit = unit_of(new_log_length)
            if row_unit != unit:
                unit = row_unit
                stale = True
        if stale:
            for at in range(0, width, LANES):
                factor = exp2(load(scale_log, at) * LOG2E)
                factor = where_above(load(normalised, at), 0.0, factor / unit, factor) * load(live_lanes, at)
                store(factors, at, like(factor, zero))
            stale = False
        counts = stream[OTHER] > 0.0
        if ones:
            if filled != dtype(unit):
                filled = dtype(unit)
                xs[:] = filled
        else:
            bound = dtype(reach / math.sqrt(1.0 + length))
            counts |= _scaled_row(xs, values, start, length, dtype(unit), bound)
        if counts:
            _row_squares(mean_squares, squares, indices, values, start, length, most)

        # --- the lanes' scores. Unsigned: Numba would ask of every signed index whether it counts from the end.
        if start + AHEAD + length <= end:
            _ask_for(state, squares, indices, start + AHEAD, start + AHEAD + length, stride, counts)
        for k in range(length):
            places[k] = np.int64(indices[np.uint64(start + k)]) * stride
        for at in range(0, width, LANES):
            factor = load(factors, at)
            fixed, moving = load(prior, at), load(per_square, at)
            if not counts:
                fixed = fixed + moving
            sum_m, sum_s = _sums(state, places, xs, mean_squares, xvs, length, width, at, factor, fixed, moving, counts)
            live = like(load(live_lanes, at), zero) * dtype(has_intercept)
            v_b = live / like(load(bias_prior, at) + load(bias_gain, at), zero)
            v_l = like(load(scaled, at), zero) / like(load(scale_gain, at) + SCALE_PRECISION, zero)
            sum_m = max(min(sum_m, farthest), -farthest)
            sum_s = where_above(load(rate, at), 0.0, zero, sum_s + v_b)
            store(own, at, sum_m)
            store(v_bias, at, v_b)
            store(v_scale, at, v_l)
            store(s, at, sum_s + sum_m * sum_m * v_l)
            store(m, at, sum_m + live * like(load(bias_mean, at), zero))

        for at in range(0, width, LANES):
            store(told, row * stride + at, load(m, at))
            store(told, row * stride + width + at, load(s, at))
        if c == 0.0:
            row += 1
            continue

        # --- learning: what the label tells every lane
        examples += 1
        y = dtype(signs[row])
        for at in range(0, width, LANES):
            spread = load(s, at)
            g = 1.0 / (load(spreads, at) * spread + 1.0)
            root = sqrt(g)
            if c <= 1.0:
                slope, curvature = _evidence(load(m, at) * root * (y * dtype(LOG2E)), dtype(c))
            else:
                _heavy_evidence(heavy_slopes, heavy_curvatures, m, s, spreads, rate, y, c, at)
                slope, curvature = load(heavy_slopes, at), load(heavy_curvatures, at)
            step, fall = slope * root * y, curvature * g
            store(slopes, at, step)
            store(curvatures, at, fall)

            log, gained = load(scale_log, at), load(scale_gain, at)
            learns = like(load(scaled, at), zero)
            log, gained = _scale_step(log, gained, learns, load(own, at), load(v_scale, at), step, fall)
            store(scale_log, at, log)
            store(scale_gain, at, gained)

            live, stay, pace = load(live_lanes, at) * np.float64(has_intercept), load(keeps, at), load(rate, at)
            mean, gained, v = load(bias_mean, at), load(bias_gain, at), load(v_bias, at)
            held = load(bias_prior, at)
            mean, gained = _intercept_step(mean, gained, held, stay, live, v, pace, any_rate, step, fall)
            store(bias_mean, at, mean)
            store(bias_gain, at, gained)

        # --- every feature in every lane
        _row_phases(phases, indices, zero, start, length, examples)
        for at in range(0, width, LANES):
            factor, step, fall = load(factors, at), load(slopes, at), load(curvatures, at)
            stay, fade, pace = load(keep, at), load(lose, at), load(rate, at)
            fixed, moving = load(prior, at), load(per_square, at)
            _learn_row(
                state,
                places,
                xs,
                mean_squares,
                xvs,
                phases,
                length,
                width,
                at,
                counts,
                any_rate,
                most,
                factor,
                step,
                fall,
                stay,
                fade,
                pace,
                fixed,
                moving,
            )

        # --- what is counted
        if counts:
            stream[OTHER] = 1.0
            _count_row(squares, mean_squares, indices, start, length)
        if counted < SETTLED and length > 0:
            counted += 1.0
            log_length = new_log_length
        stream[WEIGHT] += c
        stale |= any_scaled
        row += 1
        if examples == stop:
            break
    stream[ROWS], stream[LOG_LENGTH] = counted, log_length
    return row, examples
