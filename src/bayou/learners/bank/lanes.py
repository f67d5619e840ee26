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
from bayou.kernels.vector import LANES, fill, like, load, sqrt, store, where_above
from bayou.learners.bank.priors import (
    EVERY,
    GROUPS,
    HELD,
    LEAST,
    fade_lanes,
    fresh_sums,
    groups_met,
    keep_fresh,
    note_groups,
    renew_priors,
)
from bayou.learners.bank.row_scaling import (
    AHEAD,
    SETTLED,
    CountEstimate,
    count_marked,
    count_row,
    is_marked,
    new_row,
    row_log_length,
    row_phases,
    row_places,
    row_squares,
    scaled_row,
    unit_of,
)
from bayou.learners.bank.updates import (
    FARTHEST_32,
    FARTHEST_64,
    LIMIT_32,
    LIMIT_64,
    SCALE_FARTHEST,
    SCALE_PRECISION,
    evidence,
    heavy_evidence,
    intercept_step,
    scale_step,
    weight_step,
)

# Rows of the table of settings.
#   PRIOR       the part of a prior's precision that does not depend on the feature; initial value of learned priors
#   PER_SQUARE  prior precision per mean square of the feature, of normalized lanes
#   SPREAD      C8 ku
#   KEEP        1 / (1 + memory): fraction of a precision that is kept at each use
#   RATE        of AdaGrad; 0 for a Gaussian lane
#   SCALED      1 where a scale is learned
#   NORMALISED  1 where the prior variance is v0/q
#   LIVE        0 once no output of the lane is left, and for lanes that only fill a vector
#   BIAS_PRIOR  prior precision of the intercept
#   PRECISION   1 / v0
#   NATURAL     1 where the prior of each group is learned: the state then has precision times mean
#   STAYS       1 - fading
PRIOR, PER_SQUARE, SPREAD, KEEP, RATE, SCALED, NORMALISED, LIVE, BIAS_PRIOR, PRECISION, NATURAL, STAYS = range(12)
# Counters of the stream.
#   ROWS        rows measured
#   LOG_LENGTH  their mean log length
#   OTHER       rows with a value other than 1 or -1
#   WEIGHT      sum of weights
ROWS, LOG_LENGTH, OTHER, WEIGHT = range(4)
# Rows with other values are few as long as they are less than one in FEW.
FEW = 32.0


class LaneState(NamedTuple):
    """Settings and learned state of the lanes, as kernels take it. `width`: number of lanes, a multiple of LANES."""

    settings: np.ndarray  # PRIOR to STAYS, a column for each lane
    has_intercept: bool
    widest: float  # the largest variance that a weight can have, at least 1
    # For each feature: eight means, eight gained precisions; a second such block for lanes 8 to 15, and so on. Zero
    # bytes mean the prior. A lane that learns its prior has precision times mean in place of the mean; the gains of a
    # lane that fades are the values here times `fade`.
    state: np.ndarray
    # Mean square and uses of a feature. While few rows have a value other than 1 or -1 (`FEW`), as when a hash merges
    # two indicators, they are counted from the feature's own first such value on; zeros before mean a mean square of 1.
    squares: np.ndarray
    marks: np.ndarray  # a bit for each feature: whether its squares are counted; derived from them (`mark_again`)
    stream: np.ndarray  # ROWS to WEIGHT
    intercept: np.ndarray  # means; gained precisions
    scale: np.ndarray  # likewise, of l
    fade: np.ndarray  # factor of each lane; how often it was folded into the stored gains
    groups: np.ndarray  # of each feature seen
    priors: np.ndarray  # of each lane that learns them: SQUARES, KNOWN, HELD of each group
    fresh: np.ndarray  # of each such lane and group: sums not yet in SQUARES, and in KNOWN (without its factor HELD)
    held: np.ndarray  # prior precisions that do not depend on the feature, of each group in each lane
    renews: bool = True  # whether priors are recomputed as rows are learned

    @property
    def width(self) -> int:
        return self.settings.shape[1]

    def factors(self) -> np.ndarray:
        """Return the factor of values in each lane: its scale, times the unit of the stream unless it is normalized."""
        unit = unit_of(self.stream[LOG_LENGTH]) if self.stream[ROWS] else 1.0
        return np.exp(self.scale[0]) * np.where(self.settings[NORMALISED] > 0, 1.0, unit)


def new_lanes(settings: np.ndarray, n_features: int, has_intercept: bool, dtype: str) -> LaneState:
    """Return the state at the prior."""
    width, learned = settings.shape[1], np.count_nonzero(settings[NATURAL])
    least = np.where(settings[NATURAL] > 0, LEAST, settings[PRECISION])
    widest = np.where(settings[SCALED] > 0, math.exp(2 * SCALE_FARTHEST), 1.0) / least
    return LaneState(
        settings=settings,
        has_intercept=has_intercept,
        widest=max(1.0, float(widest.max()), float((1.0 / settings[BIAS_PRIOR]).max())),
        state=aligned_zeros(n_features, 2 * width, dtype),
        squares=aligned_zeros(n_features, 2, dtype),
        marks=aligned_zeros(n_features // 8 + 1, 1, "uint8").reshape(-1),
        stream=np.zeros(4),
        intercept=np.zeros((2, width)),
        scale=np.zeros((2, width)),
        fade=np.stack([np.ones(width), np.zeros(width)]),
        groups=aligned_zeros(n_features, 1, "uint8").reshape(-1),
        priors=np.zeros((learned, HELD + 1, GROUPS)),
        fresh=np.zeros((learned, GROUPS, 2), dtype),
        held=aligned_zeros(GROUPS, width, dtype),
    )


class LaneConfig(NamedTuple):
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
    stays: np.ndarray
    natural: np.ndarray  # in the type of the state: whether it keeps precision times mean


class LaneScratch(NamedTuple):
    """Scratch for the lanes, of one row."""

    m: np.ndarray  # the score's mean
    s: np.ndarray  # and variance
    own: np.ndarray  # M, the part of m that the learned scale multiplies
    v_bias: np.ndarray
    v_scale: np.ndarray
    factors: np.ndarray
    slopes: np.ndarray
    curvatures: np.ndarray
    fade: np.ndarray
    unfade: np.ndarray
    least: np.ndarray  # smallest gained precision of the row's features


@inlined
def _make_factors(each, tables, scale_log, unit):
    """Fill the factors of the row's values: the scale of the lane; normalized lanes undo the unit of the stream."""
    for at in range(0, scale_log.size, LANES):
        factor = exp2(load(scale_log, at) * LOG2E)
        factor = where_above(load(tables.normalised, at), 0.0, factor / unit, factor) * load(tables.live, at)
        store(each.factors, at, like(factor, load(each.factors, at)))


@inlined
def _score_row(same, counts, lanes, state, held, row, length, each, tables, most, farthest, indices, ahead):
    """Compute mean and variance of a row's score in every lane; leave variances in `vs`.

    Means are left in `means` if `counts`. `same`: all values are equal. The lanes of as many non-zeros from `ahead` on
    are prefetched.

    Where a prior has moved, precision times mean stays, as what the examples contributed does not depend on the prior.
    Elsewhere the mean is unchanged, bit for bit.
    """
    width = each.m.size
    bias_mean, bias_gain, scale_gain = lanes.intercept[0], lanes.intercept[1], lanes.scale[1]
    zero = fill(load(each.m, 0), 0.0)
    one = zero + 1.0
    for at in range(0, width, LANES):
        factor, moving = load(each.factors, at), load(tables.per_square, at)
        fade, natural = load(each.fade, at), load(tables.natural, at)
        sum_m = sum_s = zero
        x, least = factor * row.xs[0], one
        for k in range(np.uint64(length)):
            place = row.places[k] + 2 * at
            prefetch(state, np.int64(indices[np.uint64(ahead) + k]) * (2 * width) + 2 * at)
            if not same:
                x = factor * row.xs[k]
            mean, gained = load(state, place), load(state, place + LANES)
            precision, least = load(held, row.held[k] + at) + fade * gained, min(least, gained)
            if counts:
                before = precision + moving * row.squares_before[k]
                v = 1.0 / (precision + moving * row.mean_squares[k])
                mean = mean * where_above(moving, 0.0, before * v, where_above(natural, 0.0, v, one))
                mean = max(min(mean, most), -most)
                store(row.means, np.int64(k) * width + at, mean)
                sum_m = sum_m + x * mean
            else:
                v = 1.0 / (precision + moving)
                sum_m = sum_m + where_above(natural, 0.0, x * v, x) * mean
            sum_s = sum_s + x * (x * v)
            store(row.vs, np.int64(k) * width + at, v)
        live = like(load(tables.live, at), zero) * np.float32(lanes.has_intercept)
        v_b = live / like(load(tables.bias_prior, at) + load(bias_gain, at), zero)
        v_l = like(load(tables.scaled, at), zero) / like(load(scale_gain, at) + SCALE_PRECISION, zero)
        sum_m = max(min(sum_m, farthest), -farthest)
        sum_s = where_above(load(tables.rate, at), 0.0, zero, sum_s + v_b)
        store(each.own, at, sum_m)
        store(each.least, at, least)
        store(each.v_bias, at, v_b)
        store(each.v_scale, at, v_l)
        store(each.s, at, sum_s + sum_m * sum_m * v_l)
        store(each.m, at, sum_m + live * like(load(bias_mean, at), zero))


@inlined
def _learn_label(each, tables, intercept, scale, has_intercept, any_rate, y, c):
    """Compute the label's `slopes` and `curvatures` in every lane, and update scales and intercepts."""
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


@inlined
def _learn_row(
    same, counts, state, fresh, row, length, each, tables, any_rate, any_natural, most, squares, marks, indices, ahead
):
    """Update the weights of a row's features in every lane; add to `fresh` the sums of lanes that learn their priors.

    If `counts`, the squares of as many non-zeros from `ahead` on are prefetched: there is most time for it here.
    """
    width = each.m.size
    zero, one = fill(load(each.m, 0), 0.0), fill(load(each.m, 0), 1.0)
    for at in range(0, width, LANES):
        factor, step, fall = load(each.factors, at), load(each.slopes, at), load(each.curvatures, at)
        stay, lose, pace = load(tables.keep, at), load(tables.lose, at), load(tables.rate, at)
        fixed, moving, natural = load(tables.prior, at), load(tables.per_square, at), load(tables.natural, at)
        unfade = load(each.unfade, at)
        limit = min(unfade * most, FARTHEST_32 if state.itemsize == 4 else FARTHEST_64)
        lost = (fixed + moving) * lose
        x = factor * row.xs[0]
        sums, squared, known = 2 * (row.held[0] + at), zero, zero
        if any_natural:
            squared, known = load(fresh, sums), load(fresh, sums + LANES)
        for k in range(np.uint64(length)):
            place, there = row.places[k] + 2 * at, np.int64(k) * width + at
            phase = row.phases[k]
            kept, gained, v = load(state, place), load(state, place + LANES), load(row.vs, there)
            mean = load(row.means, there) if counts else kept * where_above(natural, 0.0, v, one)
            if not same:
                x = factor * row.xs[k]
            xv = x * v
            shift, more, share = weight_step(gained, x, xv, pace, any_rate, step, fall)
            if counts:
                if is_marked(marks, np.int64(indices[np.uint64(ahead) + k])):
                    prefetch(squares, 2 * np.int64(indices[np.uint64(ahead) + k]))
                lost = (fixed + moving * row.mean_squares[k]) * lose
                kept = where_above(natural, 0.0, kept, mean)
            if any_natural:
                if 2 * (row.held[k] + at) != sums:  # not the group of the previous feature
                    store(fresh, sums, squared)
                    store(fresh, sums + LANES, known)
                    sums = 2 * (row.held[k] + at)
                    squared, known = load(fresh, sums), load(fresh, sums + LANES)
                squared, known = squared + shift * (mean * 2.0 + shift), known + (v - v * share)
                # Select one of the two products, so that the compiler cannot choose which of them fuses with the sum.
                told = where_above(natural, 0.0, more, zero)
                shift = (mean + shift) * told + where_above(natural, 0.0, x * step, shift)
            grown = gained + (more * unfade + phase * power_below(gained))
            grown = min(max(grown * stay - lost, 0.0), limit)
            store(state, place, kept + (shift + phase * power_below(kept)))
            store(state, place + LANES, grown)
        if any_natural:
            store(fresh, sums, squared)
            store(fresh, sums + LANES, known)


@kernel
def numbers_of(marks):
    """Return the indices of the lanes whose mark is above 0."""
    numbers, n = zeros(marks.size, np.int64), 0
    for lane in range(marks.size):
        if marks[lane] > 0.0:
            numbers[n] = lane
            n += 1
    return numbers[:n]


@inlined
def _make_fades(each, fade):
    """Fill the factors of gained precisions, and their inverses."""
    for at in range(0, fade.size, LANES):
        part = load(fade, at)
        store(each.fade, at, like(part, load(each.fade, at)))
        store(each.unfade, at, like(1.0 / part, load(each.fade, at)))


@kernel(forceinline=True)
def _uses_known(lanes, state, normalised, dtype):
    """Return the estimate of uses for features that are not counted; it is 0 if no lane is normalized."""
    if normalised.size == 0:
        return CountEstimate(state, 0, 0, dtype(0))
    lane, width = normalised[0], lanes.settings.shape[1]
    per_gain = 4.0 * lanes.fade[0, lane] * math.exp(-2.0 * lanes.scale[0, lane])
    return CountEstimate(state, 2 * width, 2 * lane - lane % LANES + LANES, dtype(per_gain))


@kernel
def run_lanes(indptr, indices, values, longest, ones, groups, signs, weights, lanes, row, last, examples, stop, said):
    """Predict each row in [row, last), then update from rows with nonzero weight; return (next row, examples learned).

    It ends early when `examples` reaches `stop`. `lanes` is a `LaneState`; if `groups` is empty, all features are in
    group 0. Vectors run across lanes:

        state        [feature][block][2][LANES]  eight means of a feature, then its eight gained precisions;
                                                 a block for each eight lanes, one cache line in float32
        squares      [feature][2]                mean square of its values and uses; a bit of `marks` if counted
        held         [group][lane]               prior precisions that do not depend on the feature
        fresh        [group][block][2][LANES]    sums that lanes have not yet added to the statistics of priors
        said         [row][2][lane]              mean m and variance s of the row's score
        here, each   scratch of a row: of its non-zeros (`LaneRowScratch`), and of each lane (`LaneScratch`)

    A row is read three times: for its values and squares, by `_score_row` for the outputs, and by `_learn_row`, which
    updates the state in place.
    """
    settings, stream = lanes.settings, lanes.stream
    state, squares, room_said = lanes.state.reshape(-1), lanes.squares.reshape(-1), said.reshape(-1)
    dtype = state.dtype.type
    width = settings.shape[1]
    wide = said.shape[2]
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    reach = math.sqrt(most / lanes.widest)
    farthest = math.sqrt(most)  # of any score, so that its square is finite

    # Slice the tables once: in a loop, slicing a row costs more than the work on it.
    typed = settings.astype(state.dtype)
    tables = LaneConfig(
        *(typed[PRIOR], typed[PER_SQUARE], typed[SPREAD], typed[KEEP], dtype(1) - typed[KEEP], typed[RATE]),
        *(settings[KEEP], settings[SCALED], settings[NORMALISED], settings[LIVE], settings[BIAS_PRIOR]),
        *(settings[STAYS], typed[NATURAL]),
    )
    any_natural, any_fading, grouped = lanes.priors.shape[0] > 0, np.any(tables.stays < 1.0), groups.size > 0
    held, learned, fade = lanes.held.reshape(-1), numbers_of(settings[NATURAL]), lanes.fade[0]
    marks, normalised = lanes.marks, numbers_of(settings[NORMALISED])
    n_groups = groups_met(lanes.fresh, lanes.priors, groups, indptr[row], indptr[last]) if any_natural else 0
    fresh = fresh_sums(lanes.fresh, learned, width, n_groups)
    any_rate, any_scaled, has_intercept = tables.rate.any(), tables.scaled.any(), dtype(lanes.has_intercept)
    here = new_row(longest + LANES, width, state)
    scratch = zeros((11, width), state.dtype)
    each = LaneScratch(
        *(scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5]),
        *(scratch[6], scratch[7], scratch[8], scratch[9], scratch[10]),
    )
    _make_fades(each, fade)

    counted, log_length = stream[ROWS], stream[LOG_LENGTH]
    unit = unit_of(log_length) if counted > 0.0 else 1.0
    filled = dtype(-1)
    stale = True  # factors must be recomputed
    end = indptr[indptr.size - 1]
    while row < last:
        start = indptr[row]
        length = indptr[row + 1] - start
        c = np.float64(weights[row])

        # the row in units of the stream
        new_log_length = log_length
        if counted < SETTLED and length > 0:
            new_log_length += (row_log_length(values, start, start + length) - log_length) / (counted + 1.0)
            row_unit = unit_of(new_log_length)
            stale |= row_unit != unit
            unit = row_unit
        if stale:
            _make_factors(each, tables, lanes.scale[0], unit)
            stale = False
        marked = count_marked(marks, indices, start, length) if stream[OTHER] > 0.0 else 0
        counts, all_marked, same, other = marked > 0, marked == length, ones, False
        if not ones:
            bound = dtype(reach / math.sqrt(1.0 + length))
            other, same = scaled_row(here.xs, values, start, length, dtype(unit), bound)
        elif filled != dtype(unit):
            filled = dtype(unit)
            here.xs[:] = filled
        others = stream[OTHER] + other
        every = others * FEW > examples + 1.0
        counts |= other or (every and length > 0)
        ahead = start + AHEAD if start + AHEAD + length <= end else start
        if counts:
            # if the row is learned, `_learn_row` prefetches the squares
            known = _uses_known(lanes, state, normalised, dtype)
            row_squares(
                here, squares, marks, known, every, indices, values, start, length, all_marked, ahead, c == 0.0, most
            )

        # predict. Indices are unsigned: Numba would check of every signed one whether it counts from the end.
        row_places(here, indices, groups, start, length, width)
        asked = lanes, state, held, here, length, each, tables, most, farthest, indices, ahead
        if counts:
            _score_row(False, True, *asked)
        elif same:
            _score_row(True, False, *asked)
        else:
            _score_row(False, False, *asked)
        for at in range(0, width, LANES):
            store(room_said, 2 * row * wide + at, load(each.m, at))
            store(room_said, (2 * row + 1) * wide + at, load(each.s, at))
        row += 1
        if c == 0.0:
            continue

        # update from the label
        examples += 1
        _learn_label(each, tables, lanes.intercept, lanes.scale, has_intercept, any_rate, dtype(signs[row - 1]), c)
        row_phases(here.phases, indices, start, length, examples)
        if grouped and each.least[0] == 0:
            note_groups(lanes.groups, state, here.places, indices, groups, start, length)
        told = state, fresh, here, length, each, tables, any_rate, any_natural, most, squares, marks, indices, ahead
        if counts:
            _learn_row(False, True, *told)
        elif same:
            _learn_row(True, False, *told)
        else:
            _learn_row(False, False, *told)
        if any_natural and lanes.renews and examples % EVERY == 0:
            renew_priors(lanes.priors, fresh, learned, lanes.held, settings[PRECISION], n_groups)
        if any_fading:
            fade_lanes(fade, tables.stays)
            _make_fades(each, fade)

        # counters
        if counts:
            stream[OTHER] = others
            count_row(here, squares, marks, indices, start, length, all_marked)
        if counted < SETTLED and length > 0:
            counted += 1.0
            log_length = new_log_length
        stream[WEIGHT] += c
        stale |= any_scaled
        if examples == stop:
            break
    stream[ROWS], stream[LOG_LENGTH] = counted, log_length
    if lanes.renews:
        keep_fresh(lanes.fresh, fresh, learned, n_groups)
    return row, examples
