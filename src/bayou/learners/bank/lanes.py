"""The lanes of the bank: their state, the prediction of a row, and the update from its label.

Lanes do not depend on the combination on top of them (`combination`), so that the two can run at the same time, the
lanes some rows ahead. The equations are in the docstring of `learner`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2
from bayou.kernels.gather import prefetch
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.inlining import inlined
from bayou.kernels.rounding import power_below
from bayou.kernels.vector import LANES, broadcast, cast_like, load, sqrt, store, where_above
from bayou.learners.bank import priors, row_scaling, updates
from bayou.learners.bank.row_scaling import CountEstimate

# Rows of the table of settings.
#   PRIOR_PRECISION       part of a prior's precision that depends on no feature; where learned priors begin
#   PRECISION_PER_SQUARE  prior precision per mean square of the feature, of normalized lanes
#   UPDATE_DAMPING        C8 ku
#   USE_DECAY             1 / (1 + memory): fraction of a precision that is kept at each use
#   ADAGRAD_RATE          of AdaGrad; 0 for a Gaussian lane
#   HAS_LEARNED_SCALE     1 where a scale is learned
#   IS_NORMALIZED         1 where the prior variance is v0/q
#   IS_ACTIVE             0 once no output of the lane is left, and for lanes that only fill a vector
#   INTERCEPT_PRECISION   prior precision of the intercept
#   INITIAL_PRECISION     1 / v0
#   HAS_LEARNED_PRIOR     1 where the prior of each group is learned: the state then has precision times mean
#   TIME_DECAY            1 - fading
(
    PRIOR_PRECISION,
    PRECISION_PER_SQUARE,
    UPDATE_DAMPING,
    USE_DECAY,
    ADAGRAD_RATE,
    HAS_LEARNED_SCALE,
    IS_NORMALIZED,
    IS_ACTIVE,
    INTERCEPT_PRECISION,
    INITIAL_PRECISION,
    HAS_LEARNED_PRIOR,
    TIME_DECAY,
) = range(12)
# Counters of the stream.
#   STREAM_ROWS             rows measured
#   STREAM_MEAN_LOG_LENGTH  their mean log length
#   STREAM_NON_UNIT_ROWS    rows with a value other than 1 or -1
#   STREAM_WEIGHT           sum of weights
STREAM_ROWS, STREAM_MEAN_LOG_LENGTH, STREAM_NON_UNIT_ROWS, STREAM_WEIGHT = range(4)
# Rows with other values are few as long as they are less than one in NON_UNIT_ROW_RATIO.
NON_UNIT_ROW_RATIO = 32.0


class LaneState(NamedTuple):
    """Settings and learned state of the lanes, as kernels take it. `width`: number of lanes, a multiple of LANES."""

    settings: np.ndarray  # PRIOR_PRECISION to TIME_DECAY, a column for each lane
    has_intercept: bool
    max_prior_variance: float  # the largest variance that a weight can have, at least 1
    # For each feature: eight means, eight gained precisions; a second such block for lanes 8 to 15, and so on. Zero
    # bytes mean the prior. A lane that learns its prior has precision times mean in place of the mean; the gains of a
    # lane that fades are the values here times `fade`.
    state: np.ndarray
    # Mean square and uses of a feature. While few rows have a value other than 1 or -1 (`NON_UNIT_ROW_RATIO`), as when
    # a hash merges two indicators, they are counted from the feature's own first such value on; zeros before mean a
    # mean square of 1.
    squares: np.ndarray
    tracked: (
        np.ndarray
    )  # a bit for each feature: whether its squares are counted; derived from them (`rebuild_tracked`)
    stream: np.ndarray  # STREAM_ROWS to STREAM_WEIGHT
    intercept: np.ndarray  # means; gained precisions
    scale: np.ndarray  # likewise, of l
    fade: np.ndarray  # factor of each lane; how often it was folded into the stored gains
    groups: np.ndarray  # of each feature seen
    priors: np.ndarray  # of each lane that learns them: PRIOR_SQUARES, PRIOR_COUNT, PRIOR_PRECISION_P of each group
    pending_sums: np.ndarray  # of each such lane and group: sums not yet in `priors`
    prior_precisions: np.ndarray  # prior precisions that do not depend on the feature, of each group in each lane
    should_renew_priors: bool = True  # whether priors are recomputed as rows are learned

    @property
    def width(self) -> int:
        return self.settings.shape[1]

    def factors(self) -> np.ndarray:
        """Return the factor of values in each lane: its scale, times the unit of the stream unless it is normalized."""
        unit = row_scaling.stream_scale(self.stream[STREAM_MEAN_LOG_LENGTH]) if self.stream[STREAM_ROWS] else 1.0
        return np.exp(self.scale[0]) * np.where(self.settings[IS_NORMALIZED] > 0, 1.0, unit)


def new_lanes(settings: np.ndarray, n_features: int, has_intercept: bool, dtype: str) -> LaneState:
    """Return the state at the prior."""
    width, learned = settings.shape[1], np.count_nonzero(settings[HAS_LEARNED_PRIOR])
    min_precision_gain = np.where(
        settings[HAS_LEARNED_PRIOR] > 0, priors.MIN_PRIOR_PRECISION, settings[INITIAL_PRECISION]
    )
    max_prior_variance = (
        np.where(settings[HAS_LEARNED_SCALE] > 0, math.exp(2 * updates.SCALE_FARTHEST), 1.0) / min_precision_gain
    )
    return LaneState(
        settings=settings,
        has_intercept=has_intercept,
        max_prior_variance=max(
            1.0, float(max_prior_variance.max()), float((1.0 / settings[INTERCEPT_PRECISION]).max())
        ),
        state=aligned_zeros(n_features, 2 * width, dtype),
        squares=aligned_zeros(n_features, 2, dtype),
        tracked=aligned_zeros(n_features // 8 + 1, 1, "uint8").reshape(-1),
        stream=np.zeros(4),
        intercept=np.zeros((2, width)),
        scale=np.zeros((2, width)),
        fade=np.stack([np.ones(width), np.zeros(width)]),
        groups=aligned_zeros(n_features, 1, "uint8").reshape(-1),
        priors=np.zeros((learned, priors.PRIOR_PRECISION_P + 1, priors.GROUPS)),
        pending_sums=np.zeros((learned, priors.GROUPS, 2), dtype),
        prior_precisions=aligned_zeros(priors.GROUPS, width, dtype),
    )


class LaneConfig(NamedTuple):
    """Rows of the settings for the kernel: first in the type of the state, then in float64."""

    prior: np.ndarray
    precision_per_square: np.ndarray
    spread: np.ndarray
    use_decay: np.ndarray
    use_loss: np.ndarray  # 1 - keep
    rate: np.ndarray
    keep_64: np.ndarray
    scaled: np.ndarray
    normalised: np.ndarray
    is_active: np.ndarray
    bias_prior: np.ndarray
    time_decay: np.ndarray
    natural: np.ndarray  # in the type of the state: whether it keeps precision times mean
    any_rate: bool  # whether any lane is AdaGrad's
    any_natural: bool
    most: float  # bound of the means, in the type of the state


class LaneScratch(NamedTuple):
    """Scratch of the lanes for one row."""

    score_mean: np.ndarray  # the score's mean
    score_variance: np.ndarray  # and variance
    scaled_mean: np.ndarray  # M, the part of m that the learned scale multiplies
    v_bias: np.ndarray
    v_scale: np.ndarray
    factors: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray
    fade: np.ndarray
    inverse_fade: np.ndarray
    min_precision_gain: np.ndarray  # smallest gained precision of the row's features


@inlined
def _make_factors(each, tables, scale_log, unit):
    """Fill the factors of the row's values: the scale of the lane; normalized lanes undo the unit of the stream."""
    for lane in range(0, scale_log.size, LANES):
        factor = exp2(load(scale_log, lane) * LOG2E)
        factor = where_above(load(tables.normalised, lane), 0.0, factor / unit, factor) * load(tables.is_active, lane)
        store(each.factors, lane, cast_like(factor, load(each.factors, lane)))


@inlined
def _score_row(same, counts, lanes, state, prior_precisions, row, length, each, tables, farthest, indices, ahead):
    """Compute mean and variance of a row's score in every lane; leave variances in `variances`.

    Means are left in `means` if `counts`. `same`: all values are equal. The lanes of as many non-zeros from `ahead` on
    are prefetched.

    Where a prior has moved, precision times mean stays, as what the examples contributed does not depend on the prior.
    Elsewhere the mean is unchanged, bit for bit.
    """
    width = each.score_mean.size
    bias_mean, bias_gain, scale_gain = lanes.intercept[0], lanes.intercept[1], lanes.scale[1]
    zero = broadcast(load(each.score_mean, 0), 0.0)
    one = zero + 1.0
    for lane in range(0, width, LANES):
        factor, moving = load(each.factors, lane), load(tables.precision_per_square, lane)
        fade, natural = load(each.fade, lane), load(tables.natural, lane)
        sum_m = sum_s = zero
        x, min_precision_gain = factor * row.scaled_values[0], one
        for k in range(np.uint64(length)):
            place = row.offsets[k] + 2 * lane
            prefetch(state, np.int64(indices[np.uint64(ahead) + k]) * (2 * width) + 2 * lane)
            if not same:
                x = factor * row.scaled_values[k]
            mean, gained = load(state, place), load(state, place + LANES)
            precision = load(prior_precisions, row.prior_offsets[k] + lane) + fade * gained
            min_precision_gain = min(min_precision_gain, gained)
            if counts:
                before = precision + moving * row.squares_before[k]
                v = 1.0 / (precision + moving * row.mean_squares[k])
                mean = mean * where_above(moving, 0.0, before * v, where_above(natural, 0.0, v, one))
                mean = max(min(mean, tables.most), -tables.most)
                store(row.means, np.int64(k) * width + lane, mean)
                sum_m = sum_m + x * mean
            else:
                v = 1.0 / (precision + moving)
                sum_m = sum_m + where_above(natural, 0.0, x * v, x) * mean
            sum_s = sum_s + x * (x * v)
            store(row.variances, np.int64(k) * width + lane, v)
        is_active = cast_like(load(tables.is_active, lane), zero) * np.float32(lanes.has_intercept)
        v_b = is_active / cast_like(load(tables.bias_prior, lane) + load(bias_gain, lane), zero)
        scale_precision = cast_like(load(scale_gain, lane) + updates.SCALE_PRECISION, zero)
        v_l = cast_like(load(tables.scaled, lane), zero) / scale_precision
        sum_m = max(min(sum_m, farthest), -farthest)
        sum_s = where_above(load(tables.rate, lane), 0.0, zero, sum_s + v_b)
        store(each.scaled_mean, lane, sum_m)
        store(each.min_precision_gain, lane, min_precision_gain)
        store(each.v_bias, lane, v_b)
        store(each.v_scale, lane, v_l)
        store(each.score_variance, lane, sum_s + sum_m * sum_m * v_l)
        store(each.score_mean, lane, sum_m + is_active * cast_like(load(bias_mean, lane), zero))


@inlined
def _label_step(each, tables, intercept, scale, has_intercept, y, c):
    """Compute the label's `slopes` and `curvatures` in every lane, and update scales and intercepts."""
    bias_mean, bias_gain, scale_log, scale_gain = intercept[0], intercept[1], scale[0], scale[1]
    dtype = each.score_mean.dtype.type
    zero = broadcast(load(each.score_mean, 0), 0.0)
    for lane in range(0, each.score_mean.size, LANES):
        score_variance = load(each.score_variance, lane)
        g = 1.0 / (load(tables.spread, lane) * score_variance + 1.0)
        root = sqrt(g)
        if c <= 1.0:
            slope, curvature = updates.evidence(load(each.score_mean, lane) * root * (y * dtype(LOG2E)), dtype(c))
        else:  # AdaGrad's lanes have no variance: they get c times the slope
            slope, curvature = updates.evidence_heavy_weight(
                load(each.score_mean, lane) * root * y, g * score_variance, c
            )
        step, fall = slope * root * y, curvature * g
        store(each.slopes, lane, step)
        store(each.curvatures, lane, fall)

        log, gained = load(scale_log, lane), load(scale_gain, lane)
        learns = cast_like(load(tables.scaled, lane), zero)
        log, gained = updates.scale_step(
            log, gained, learns, load(each.scaled_mean, lane), load(each.v_scale, lane), step, fall
        )
        store(scale_log, lane, log)
        store(scale_gain, lane, gained)

        is_active = load(tables.is_active, lane) * has_intercept
        stay, pace = load(tables.keep_64, lane), load(tables.rate, lane)
        mean, gained, v = load(bias_mean, lane), load(bias_gain, lane), load(each.v_bias, lane)
        prior_precisions = load(tables.bias_prior, lane)
        mean, gained = updates.intercept_step(
            mean, gained, prior_precisions, stay, is_active, v, pace, tables.any_rate, step, fall
        )
        store(bias_mean, lane, mean)
        store(bias_gain, lane, gained)


@inlined
def _learn_row(same, counts, state, pending_sums, row, length, each, tables, squares, tracked, indices, ahead):
    """Update the weights of a row's features in every lane; add the sums of lanes that learn their priors.

    If `counts`, the squares of as many non-zeros from `ahead` on are prefetched: there is most time for it here.
    """
    width = each.score_mean.size
    zero, one = broadcast(load(each.score_mean, 0), 0.0), broadcast(load(each.score_mean, 0), 1.0)
    for lane in range(0, width, LANES):
        factor, step, fall = load(each.factors, lane), load(each.slopes, lane), load(each.curvatures, lane)
        stay, use_loss, pace = load(tables.use_decay, lane), load(tables.use_loss, lane), load(tables.rate, lane)
        fixed, moving = load(tables.prior, lane), load(tables.precision_per_square, lane)
        natural = load(tables.natural, lane)
        inverse_fade = load(each.inverse_fade, lane)
        limit = min(inverse_fade * tables.most, updates.FARTHEST_32 if state.itemsize == 4 else updates.FARTHEST_64)
        lost = (fixed + moving) * use_loss
        x = factor * row.scaled_values[0]
        sums, squared, counted = 2 * (row.prior_offsets[0] + lane), zero, zero
        if tables.any_natural:
            squared, counted = load(pending_sums, sums), load(pending_sums, sums + LANES)
        for k in range(np.uint64(length)):
            place, there = row.offsets[k] + 2 * lane, np.int64(k) * width + lane
            phase = row.dither_phases[k]
            kept, gained, v = load(state, place), load(state, place + LANES), load(row.variances, there)
            mean = load(row.means, there) if counts else kept * where_above(natural, 0.0, v, one)
            if not same:
                x = factor * row.scaled_values[k]
            xv = x * v
            shift, more, share = updates.weight_step(gained, x, xv, pace, tables.any_rate, step, fall)
            if counts:
                if row_scaling.is_tracked(tracked, np.int64(indices[np.uint64(ahead) + k])):
                    prefetch(squares, 2 * np.int64(indices[np.uint64(ahead) + k]))
                lost = (fixed + moving * row.mean_squares[k]) * use_loss
                kept = where_above(natural, 0.0, kept, mean)
            if tables.any_natural:
                if 2 * (row.prior_offsets[k] + lane) != sums:  # not the group of the previous feature
                    store(pending_sums, sums, squared)
                    store(pending_sums, sums + LANES, counted)
                    sums = 2 * (row.prior_offsets[k] + lane)
                    squared, counted = load(pending_sums, sums), load(pending_sums, sums + LANES)
                squared, counted = squared + shift * (mean * 2.0 + shift), counted + (v - v * share)
                # Select one of the two products, so that the compiler cannot choose which of them fuses with the sum.
                natural_gain = where_above(natural, 0.0, more, zero)
                shift = (mean + shift) * natural_gain + where_above(natural, 0.0, x * step, shift)
            grown = gained + (more * inverse_fade + phase * power_below(gained))
            grown = min(max(grown * stay - lost, 0.0), limit)
            store(state, place, kept + (shift + phase * power_below(kept)))
            store(state, place + LANES, grown)
        if tables.any_natural:
            store(pending_sums, sums, squared)
            store(pending_sums, sums + LANES, counted)


@kernel
def marked_lanes(tracked):
    """Return the indices of the lanes whose mark is above 0."""
    numbers, n = zeros(tracked.size, np.int64), 0
    for lane in range(tracked.size):
        if tracked[lane] > 0.0:
            numbers[n] = lane
            n += 1
    return numbers[:n]


@inlined
def _fade_factors(each, fade):
    """Fill the factors of gained precisions, and their inverses."""
    for lane in range(0, fade.size, LANES):
        factor = load(fade, lane)
        store(each.fade, lane, cast_like(factor, load(each.fade, lane)))
        store(each.inverse_fade, lane, cast_like(1.0 / factor, load(each.fade, lane)))


@kernel(forceinline=True)
def _count_estimate(lanes, state, normalised, dtype):
    """Return the estimate of uses for features that are not counted; it is 0 if no lane is normalized."""
    if normalised.size == 0:
        return CountEstimate(state, 0, 0, dtype(0))
    lane, width = normalised[0], lanes.settings.shape[1]
    per_gain = 4.0 * lanes.fade[0, lane] * math.exp(-2.0 * lanes.scale[0, lane])
    return CountEstimate(state, 2 * width, 2 * lane - lane % LANES + LANES, dtype(per_gain))


@kernel
def run_lanes(rows, groups, lanes, row, last, examples, stop, lane_outputs):
    """Predict each row in [row, last), then update from rows with nonzero weight; return (next row, examples learned).

    It ends early when `examples` reaches `stop`. `lanes` is a `LaneState`; if `groups` is empty, all features are in
    group 0. Vectors run across lanes:

        state        [feature][block][2][LANES]  eight means of a feature, then its eight gained precisions;
                                                 a block for each eight lanes, one cache line in float32
        squares      [feature][2]                mean square of its values and uses; a bit of `tracked` if counted
        prior_precisions [group][lane]           those that do not depend on the feature
        pending_sums [group][block][2][LANES]    sums that lanes have not yet added to the statistics of priors
        lane_outputs [row][2][lane]              mean m and variance s of the row's score
        row_scratch  of a row's non-zeros (`LaneRowScratch`); each: of each lane (`LaneScratch`)

    A row is read three times: for its values and squares, by `_score_row` for the outputs, and by `_learn_row`, which
    updates the state in place.
    """
    indptr, indices, values, weights, ones = rows.indptr, rows.indices, rows.values, rows.weights, rows.is_all_ones
    settings, stream = lanes.settings, lanes.stream
    state, squares, flat_outputs = lanes.state.reshape(-1), lanes.squares.reshape(-1), lane_outputs.reshape(-1)
    dtype = state.dtype.type
    width = settings.shape[1]
    wide = lane_outputs.shape[2]
    most = dtype(updates.LIMIT_32 if state.itemsize == 4 else updates.LIMIT_64)
    reach = math.sqrt(most / lanes.max_prior_variance)
    farthest = math.sqrt(most)  # of any score, so that its square is finite

    # Slice the tables once: in a loop, slicing a row costs more than the work on it.
    typed, any_natural = settings.astype(state.dtype), lanes.priors.shape[0] > 0
    tables = LaneConfig(
        *(
            typed[PRIOR_PRECISION],
            typed[PRECISION_PER_SQUARE],
            typed[UPDATE_DAMPING],
            typed[USE_DECAY],
            dtype(1) - typed[USE_DECAY],
            typed[ADAGRAD_RATE],
        ),
        *(
            settings[USE_DECAY],
            settings[HAS_LEARNED_SCALE],
            settings[IS_NORMALIZED],
            settings[IS_ACTIVE],
            settings[INTERCEPT_PRECISION],
        ),
        *(settings[TIME_DECAY], typed[HAS_LEARNED_PRIOR]),
        *(typed[ADAGRAD_RATE].any(), any_natural, most),
    )
    any_fading, grouped = np.any(tables.time_decay < 1.0), groups.size > 0
    prior_precisions, fade = lanes.prior_precisions.reshape(-1), lanes.fade[0]
    learned = marked_lanes(settings[HAS_LEARNED_PRIOR])
    tracked, normalised = lanes.tracked, marked_lanes(settings[IS_NORMALIZED])
    n_groups = 0
    if any_natural:
        n_groups = priors.n_groups_seen(lanes.pending_sums, lanes.priors, groups, indptr[row], indptr[last])
    pending_sums = priors.new_pending_sums(lanes.pending_sums, learned, width, n_groups)
    any_scaled, has_intercept = tables.scaled.any(), dtype(lanes.has_intercept)
    row_scratch = row_scaling.new_row(rows.max_row_length + LANES, width, state)
    scratch = zeros((11, width), state.dtype)
    each = LaneScratch(
        *(scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5]),
        *(scratch[6], scratch[7], scratch[8], scratch[9], scratch[10]),
    )
    _fade_factors(each, fade)

    counted, log_length = stream[STREAM_ROWS], stream[STREAM_MEAN_LOG_LENGTH]
    unit = row_scaling.stream_scale(log_length) if counted > 0.0 else 1.0
    filled = dtype(-1)
    stale = True  # factors must be recomputed
    end = indptr[indptr.size - 1]
    while row < last:
        start = indptr[row]
        length = indptr[row + 1] - start
        c = np.float64(weights[row])

        # the row in units of the stream
        new_log_length = log_length
        if counted < row_scaling.UNIT_FIT_ROWS and length > 0:
            new_log_length += (row_scaling.row_log_length(values, start, start + length) - log_length) / (counted + 1.0)
            row_unit = row_scaling.stream_scale(new_log_length)
            stale |= row_unit != unit
            unit = row_unit
        if stale:
            _make_factors(each, tables, lanes.scale[0], unit)
            stale = False
        marked = row_scaling.count_tracked(tracked, indices, start, length) if stream[STREAM_NON_UNIT_ROWS] > 0.0 else 0
        counts, all_marked, same, other = marked > 0, marked == length, ones, False
        if not ones:
            bound = dtype(reach / math.sqrt(1.0 + length))
            other, same = row_scaling.scaled_row(row_scratch.scaled_values, values, start, length, dtype(unit), bound)
        elif filled != dtype(unit):
            filled = dtype(unit)
            row_scratch.scaled_values[:] = filled
        others = stream[STREAM_NON_UNIT_ROWS] + other
        should_count_all = others * NON_UNIT_ROW_RATIO > examples + 1.0
        counts |= other or (should_count_all and length > 0)
        ahead = start + row_scaling.AHEAD if start + row_scaling.AHEAD + length <= end else start
        if counts:
            # if the row is learned, `_learn_row` prefetches the squares
            table = squares, tracked, _count_estimate(lanes, state, normalised, dtype), should_count_all
            fetched = ahead if c == 0.0 else -1
            row_scaling.row_squares(row_scratch, *table, indices, values, start, length, all_marked, fetched, most)

        # predict. Indices are unsigned: Numba would check of every signed one whether it counts from the end.
        row_scaling.row_offsets(row_scratch, indices, groups, start, length, width)
        asked = lanes, state, prior_precisions, row_scratch, length, each, tables, farthest, indices, ahead
        if counts:
            _score_row(False, True, *asked)
        elif same:
            _score_row(True, False, *asked)
        else:
            _score_row(False, False, *asked)
        for lane in range(0, width, LANES):
            store(flat_outputs, 2 * row * wide + lane, load(each.score_mean, lane))
            store(flat_outputs, (2 * row + 1) * wide + lane, load(each.score_variance, lane))
        row += 1
        if c == 0.0:
            continue

        # update from the label
        examples += 1
        _label_step(each, tables, lanes.intercept, lanes.scale, has_intercept, dtype(rows.labels[row - 1]), c)
        row_scaling.row_phases(row_scratch.dither_phases, indices, start, length, examples)
        if grouped and each.min_precision_gain[0] == 0:
            priors.store_groups(lanes.groups, state, row_scratch.offsets, indices, groups, start, length)
        to_learn = state, pending_sums, row_scratch, length, each, tables, squares, tracked, indices, ahead
        if counts:
            _learn_row(False, True, *to_learn)
        elif same:
            _learn_row(True, False, *to_learn)
        else:
            _learn_row(False, False, *to_learn)
        if any_natural and lanes.should_renew_priors and examples % priors.EVERY == 0:
            priors.update_priors(
                lanes.priors, pending_sums, learned, lanes.prior_precisions, settings[INITIAL_PRECISION], n_groups
            )
        if any_fading:
            priors.fade_lanes(fade, tables.time_decay)
            _fade_factors(each, fade)

        # counters
        if counts:
            stream[STREAM_NON_UNIT_ROWS] = others
            row_scaling.store_squares(row_scratch, squares, tracked, indices, start, length, all_marked)
        if counted < row_scaling.UNIT_FIT_ROWS and length > 0:
            counted += 1.0
            log_length = new_log_length
        stream[STREAM_WEIGHT] += c
        stale |= any_scaled
        if examples == stop:
            break
    stream[STREAM_ROWS], stream[STREAM_MEAN_LOG_LENGTH] = counted, log_length
    if lanes.should_renew_priors:
        priors.store_pending_sums(lanes.pending_sums, pending_sums, learned, n_groups)
    return row, examples
