"""Kernels of the head: predictions and updates of rows, and the refresh. `head` has the equations and the state.

**The data of a row.** Features in the head are `inside`, the intercept among them in slot 0; all others are `outside`:

    slots, xs       of each feature inside: its slot, and its value times e^l (the intercept's value is 1)
    outside, ...    of each feature outside: its position in the batch, value times e^l, mean, variance, prior precision
    moments         of each answer: MEAN_ALL to VARIANCE_HEAD, a row of MOMENTS numbers

A feature that enters the head with a row is predicted as one outside, and learned as one inside.

Sums run over a row's features in the order of their indices, so that predictions and updates have the same bits in any
batch. The matrix H may hold an entry above or below the diagonal; only the sum of the two counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import prefetch
from bayou.kernels.inlining import inlined
from bayou.kernels.random import normal
from bayou.kernels.vector import LANES, any_above, broadcast, extract_lane, load, magnitude, store
from bayou.learners.bank.head_matrix import TILE_COLUMNS, add_rows, invert
from bayou.learners.bank.updates import evidence_heavy_weight

GROUPS = 256
# Columns of the table of features: rows with it; its first value; sums of (x - first) and of its square; then, in units
# of the scale 1, the mean and the precision gained while it is outside.
USES, FIRST, SUM, SQUARE, MEAN, GAIN = range(6)
# Counters and scalars of the stream.
#   ROWS         rows learned
#   NONZEROS     their features
#   TAKEN        slots in use, the intercept's included
#   INFORMATION  sum of dv s since the refresh
#   PENDING      of each answer: sum of dv s whose gradients wait
#   EXCESS       of each answer: sum of dv s beyond what is usual
#   SINCE        rows since the refresh
#   MARK         rows at which the next choice of features is due, a power of two
#   RETRY        rows before which there is no refresh, after one that failed
#   FADING       1 once the second answer has begun to fade
#   FADED        rows up to which it has faded
#   SCALE        l
#   SCALE_GAIN   G, its precision gained
#   FOLDED       the sum of all l folded so far
#   UNIT         e^FOLDED
#   LEAST        features outside with more uses than that may enter at the next choice
#   LIMIT        slots that may be in use
#   INSIDE       sum over rows of the slots they use
#   AUTO         1 if LIMIT is to be set from the number of features in a row
(ROWS, NONZEROS, TAKEN, INFORMATION, PENDING, _, EXCESS, _, SINCE, MARK, RETRY, FADING, FADED, SCALE, SCALE_GAIN,
 FOLDED, UNIT, LEAST, LIMIT, INSIDE, AUTO, NUMBERS) = range(22)  # fmt: skip

INTERCEPT_PRECISION = 0.1
# The prior says that the score of a row has this variance: v = 10 / (features per row), at most MAX_FIRST_VARIANCE.
SCORE_VARIANCE, MAX_FIRST_VARIANCE = 10.0, 100.0
# Each learned prior variance counts as this many weights; its bounds, the upper one relative to the first.
PSEUDO_COUNT, MIN_VARIANCE, MAX_GROWTH = 4.0, 1e-4, 100.0
# A row with more information conditions S at once; gradients wait until rows have told MAX_PENDING.
MAX_INFORMATION, MAX_PENDING = 0.2, 0.3
# A refresh is due when rows have told this much for each slot.
REFRESH = 0.2
# Rows beyond the usual may have told MAX_EXCESS together; between refreshes for that, or after a failure, come APART
# rows for each slot.
MAX_EXCESS, APART = 2.0, 4.0
# Of what a row told that conditioned S at once, this much needs no refresh.
CONDITIONED = 0.98
# Fading of the second answer per row; it begins at FADING_FROM / FADE rows, and loses at most MAX_FADED at a time.
FADE, FADING_FROM, MAX_FADED = 1e-3, 0.5, 0.5
# A feature in the head counts so many times as used.
STAYS = 1.25
# Precision of l at first, and gained per row for its stiffness; bounds of a step, of l, and of the sum of all l.
SCALE_PRECISION, SCALE_DECAY = 20.0, 0.03
MAX_SCALE_STEP, MAX_SCALE, MAX_FOLDED = 0.1, 0.5, 3.0
# A mark, or a number of uses, that is never reached; with such a mark prior variances stay, too.
FIRST_MARK, NEVER = 8, 1e300
# Slots by the mean number of features in the first SIZED rows: MANY_SLOTS up to LONG_ROWS. Until then there are
# FEW_SLOTS. More of them gain little: .05 % of the loss in the mean with 256 up to 20 features, for 1.5 times the time.
SIZED, LONG_ROWS = 64, 100
MANY_SLOTS, FEW_SLOTS = 128, 64
# A column varies if its variance is more than CONSTANT of its mean square after VARIED uses.
VARIED, CONSTANT = 15, 1e-12
LEAST_SPREAD = 1e-280
# Added to the diagonal of the matrix that is inverted, which is scaled to 1.
RIDGE = 1e-12
# Outputs of absurd values stay within these.
MAX_MEAN, MAX_VARIANCE = 1e15, 1e30
# Non-zeros between one that is processed and one whose feature is prefetched.
AHEAD = 64

MEAN_ALL, VARIANCE_ALL, MEAN_HEAD, VARIANCE_HEAD, MOMENTS = range(5)


class HeadState(NamedTuple):
    """State of a head, as kernels take it; matrices are flat, in rows of the length of `prior`."""

    has_intercept: bool
    table: np.ndarray  # a row for each feature: USES to GAIN
    groups: np.ndarray  # of each feature seen
    slots: np.ndarray  # of each feature, 0 if it is outside
    features: np.ndarray  # of each slot
    precision: np.ndarray  # H
    vectors: np.ndarray  # shift, prior, mean and waiting, one after the other
    shift: np.ndarray  # b
    prior: np.ndarray  # P
    covariance: np.ndarray  # S of answer 0, then of answer 1
    mean: np.ndarray  # mu, likewise
    waiting: np.ndarray  # gradients that wait, likewise
    group_variance: np.ndarray
    stream: np.ndarray  # ROWS to IS_RESTING
    candidates: np.ndarray  # features outside with more than LEAST uses, as far as there is room
    n_candidates: np.ndarray
    work: np.ndarray  # scratch for the refresh: three matrices, then vectors


class HeadRow(NamedTuple):
    """Scratch for one row."""

    slots: np.ndarray
    xs: np.ndarray
    outside: np.ndarray
    out_xs: np.ndarray
    out_means: np.ndarray
    out_variances: np.ndarray
    out_priors: np.ndarray
    moments: np.ndarray
    evidence: np.ndarray  # dm, dv
    eight: np.ndarray
    rows: np.ndarray  # slots that a sum of rows runs over
    along: np.ndarray  # S x


@kernel(forceinline=True)
def _new_row(longest, width):
    room = longest + 1
    return HeadRow(
        zeros(room, np.int64), zeros(room, np.float64), zeros(room, np.int64), zeros(room, np.float64),
        zeros(room, np.float64), zeros(room, np.float64), zeros(room, np.float64),
        zeros((2, MOMENTS), np.float64), zeros(2, np.float64), zeros(LANES, np.float64), zeros(width, np.int64),
        zeros(width, np.float64),
    )  # fmt: skip


@inlined
def spread(first, total, square, uses, rows):
    """Return the prior's unit of a column, squared: its only value's square, or the variance of one that varies.

    `total` and `square` are sums of x - first and of its square. For a rare column the variance is the mean square.
    A floor keeps a column that hardly varied so far from a huge prior; for one with a mean far from 0 compared to its
    deviation it is at most ten variances, but no less than a hundredth of itself.
    """
    own = first * first
    if square == 0.0:
        return max(own, LEAST_SPREAD)
    absent = 1.0 - uses / rows
    variance = max(square - total * total / rows + absent * (2.0 * first * total + uses * own), 0.0) / uses
    floor = max(square + 2.0 * first * total + uses * own, 0.0) / (uses * uses)
    if uses > VARIED and variance > CONSTANT * floor * uses:
        floor = min(max(10.0 * variance, 0.01 * floor), floor)
    return max(variance + floor, LEAST_SPREAD)


@inlined
def _spread_with(table, j, x, rows):
    """Return the spread of feature j, with one more value counted."""
    uses = table[j, USES]
    if uses == 0.0:
        return max(x * x, LEAST_SPREAD)
    apart = x - table[j, FIRST]
    return spread(table[j, FIRST], table[j, SUM] + apart, table[j, SQUARE] + apart * apart, uses + 1.0, rows)


@inlined
def first_variance(nonzeros, rows):
    return min(MAX_FIRST_VARIANCE, SCORE_VARIANCE * rows / max(nonzeros, 1.0))


@inlined
def _read_row(head, row, indices, values, groups, start, stop):
    """Lay out a row; return the numbers of features inside and outside."""
    stream, table, flat = head.stream, head.table, head.table.reshape(-1)
    rows, factor = stream[ROWS] + 1.0, math.exp(stream[SCALE])
    folded = stream[UNIT]
    unfolded = 1.0 / (folded * folded)
    n_inside, n_outside = np.uint64(0), np.uint64(0)
    if head.has_intercept:
        row.slots[0], row.xs[0] = 0, factor
        n_inside = np.uint64(1)
    ahead = start + AHEAD if start + AHEAD + stop - start <= indices.size else start
    for k in range(np.uint64(start), np.uint64(stop)):  # without a branch, which would be guessed wrong
        coming = np.int64(indices[k + np.uint64(ahead - start)])
        prefetch(head.slots, coming)
        prefetch(flat, coming * (GAIN + 1))
        slot, x = np.int64(head.slots[np.uint64(indices[k])]), np.float64(values[k]) * factor
        row.slots[n_inside], row.xs[n_inside] = slot, x
        row.outside[n_outside], row.out_xs[n_outside] = k, x
        n_inside += np.uint64(slot > 0)
        n_outside += np.uint64(slot == 0)
    common = first_variance(np.float64(stop - start), 1.0)
    for k in range(n_outside):
        at = np.uint64(row.outside[k])
        j, variance = np.uint64(indices[at]), common
        if rows > 1.0:
            variance = head.group_variance[np.uint64(groups[at]) if groups.size else np.uint64(0)]
        prior = _spread_with(table, j, np.float64(values[at]), rows) / variance
        row.out_priors[k], row.out_means[k] = prior, table[j, MEAN] * folded
        row.out_variances[k] = 1.0 / (prior + table[j, GAIN] * unfolded)
    return np.int64(n_inside), np.int64(n_outside)


@inlined
def _quadratic(covariance, second, slots, xs, n, stride, two):
    """Return x'Sx of both answers; of the first one alone if not `two`, twice."""
    one = other = 0.0
    for k in range(np.uint64(n)):
        at, x = np.uint64(slots[k]) * stride, xs[k]
        if two:
            a = b = 0.0
            for i in range(k):
                place = at + np.uint64(slots[i])
                a, b = a + xs[i] * covariance[place], b + xs[i] * covariance[place + second]
            place = at + np.uint64(slots[k])
            one += x * (2.0 * a + x * covariance[place])
            other += x * (2.0 * b + x * covariance[place + second])
        else:
            a = 0.0
            for i in range(k):
                a += xs[i] * covariance[at + np.uint64(slots[i])]
            one += x * (2.0 * a + x * covariance[at + np.uint64(slots[k])])
    return one, other if two else one


@inlined
def _predict_row(head, row, n_inside, n_outside, outputs, r, column):
    """Fill the moments of both answers, and the row's outputs."""
    stream, mean, width = head.stream, head.mean, head.prior.size
    two = stream[FADING] > 0.0
    head_means = head_mean = other = 0.0
    tail_mean = tail_variance = 0.0
    for k in range(n_outside):
        x = row.out_xs[k]
        tail_mean += x * row.out_means[k]
        tail_variance += x * x * row.out_variances[k]
    for k in range(n_inside):
        head_mean += row.xs[k] * mean[row.slots[k]]
        other += row.xs[k] * mean[width + row.slots[k]]
    first, second = _quadratic(
        head.covariance, np.uint64(width * width), row.slots, row.xs, n_inside, np.uint64(width), two
    )
    scale_variance = 1.0 / (SCALE_PRECISION + stream[SCALE_GAIN] + SCALE_DECAY * (stream[ROWS] + 1.0))
    for answer in range(2):
        moments = row.moments[answer]
        here = answer if two else 0
        head_means = other if here else head_mean
        moments[MEAN_HEAD], moments[VARIANCE_HEAD] = head_means, max(second if here else first, 0.0)
        moments[MEAN_ALL] = head_means + tail_mean
        m = moments[MEAN_ALL]
        s = moments[VARIANCE_ALL] = moments[VARIANCE_HEAD] + tail_variance + m * m * scale_variance
        if abs(m) > MAX_MEAN or s > MAX_VARIANCE:  # the same log-odds, within range
            root = math.sqrt(1.0 + C8 * s)
            s = min(s, MAX_VARIANCE)
            m = min(max(m / root * math.sqrt(1.0 + C8 * s), -MAX_MEAN), MAX_MEAN)
        outputs[r, 0, column + answer], outputs[r, 1, column + answer] = m, s
    return scale_variance


@inlined
def _weigh(row, mean, variance, y, c):
    """Write dm and dv of a label for a score N(mean, variance), for an example of weight c."""
    g = 1.0 / (1.0 + C8 * variance)
    root = math.sqrt(g)
    z = y * mean * root
    if c <= 1.0:
        decay = math.exp(-abs(z))
        share = 1.0 / (decay + 1.0)
        small = decay * share
        slope, curvature = c * (small if z > 0.0 else share), c * (small * share)
    else:
        zero = broadcast(load(row.eight, 0), 0.0)
        slopes, curvatures = evidence_heavy_weight(zero + z, zero + g * variance, c)
        slope, curvature = extract_lane(slopes, 0), extract_lane(curvatures, 0)
    row.evidence[0], row.evidence[1] = y * root * slope, g * curvature


@inlined
def fill_slot(head, slot, j, prior, mean, gain):
    """Give a slot to a feature, with what is known of it."""
    width = head.prior.size
    head.features[slot], head.slots[j], head.prior[slot] = j, slot, prior
    head.precision[slot * width + slot], head.shift[slot] = gain, (gain + prior) * mean
    for answer in range(2):
        head.covariance[(answer * width + slot) * width + slot] = 1.0 / (prior + gain)
        head.mean[answer * width + slot] = mean


@inlined
def _fill_from_table(head, slot, j):
    """Give a slot to a feature that the table knows."""
    table, folded = head.table, head.stream[UNIT]
    prior = spread(table[j, FIRST], table[j, SUM], table[j, SQUARE], table[j, USES], head.stream[ROWS])
    prior /= head.group_variance[head.groups[j]]
    fill_slot(head, slot, j, prior, table[j, MEAN] * folded, table[j, GAIN] / (folded * folded))


@kernel
def fill_slots(head, features):
    """Give free slots to features that the table knows."""
    for k in range(features.size):
        _fill_from_table(head, np.int64(head.stream[TAKEN]), features[k])
        head.stream[TAKEN] += 1.0


@inlined
def _count_row(head, row, indices, values, groups, start, stop, n_inside, n_outside):
    """Count a row's values; move features outside to free slots. Return the numbers of features inside and outside."""
    stream, table, moments = head.stream, head.table, row.moments
    stream[ROWS] += 1.0
    stream[NONZEROS] += np.float64(stop - start)
    stream[SINCE] += 1.0
    stream[INSIDE] += np.float64(n_inside)
    if stream[ROWS] == 1.0:
        head.group_variance[:] = first_variance(stream[NONZEROS], 1.0)
    for k in range(np.uint64(start), np.uint64(stop)):
        j, x = np.uint64(indices[k]), np.float64(values[k])
        uses, first = table[j, USES], table[j, FIRST]
        if uses == 0.0:
            table[j, FIRST] = x
            if groups.size:
                head.groups[j] = groups[k]
        elif x != first:
            apart = x - first
            table[j, SUM] += apart
            table[j, SQUARE] += apart * apart
        table[j, USES] = uses + 1.0
    if stream[TAKEN] > stream[LIMIT]:
        return n_inside, n_outside
    left, folded = 0, stream[UNIT] * stream[UNIT]
    for k in range(n_outside):
        j, x = np.int64(indices[row.outside[k]]), row.out_xs[k]
        if stream[TAKEN] <= stream[LIMIT]:
            slot = np.int64(stream[TAKEN])
            stream[TAKEN] += 1.0
            fill_slot(head, slot, j, row.out_priors[k], row.out_means[k], table[j, GAIN] / folded)
            for answer in range(2):
                moments[answer, MEAN_HEAD] += x * row.out_means[k]
                moments[answer, VARIANCE_HEAD] += x * x * row.out_variances[k]
            row.slots[n_inside], row.xs[n_inside] = slot, x
            n_inside += 1
            continue
        row.outside[left], row.out_xs[left], row.out_variances[left] = row.outside[k], x, row.out_variances[k]
        left += 1
    return n_inside, left


@inlined
def _learn_scale(stream, moving, variance, dm, dv):
    step = min(max(moving * variance * dm, -MAX_SCALE_STEP), MAX_SCALE_STEP)
    low, high = max(-MAX_FOLDED - stream[FOLDED], -MAX_SCALE), min(MAX_FOLDED - stream[FOLDED], MAX_SCALE)
    stream[SCALE] = min(max(stream[SCALE] + step, low), high)
    gain = moving * moving * dv
    stream[SCALE_GAIN] += gain / max(1.0 - gain * variance, 0.5)


@inlined
def _add_candidate(head, j):
    """Note that a feature outside has been used often enough to enter the head, if there is room for the note."""
    if head.n_candidates[0] < head.candidates.size:
        head.candidates[head.n_candidates[0]] = j
    head.n_candidates[0] += 1


@inlined
def _learn_outside(head, row, n_outside, indices, dm, dv):
    table, pull, unit = head.table, dm / head.stream[UNIT], head.stream[UNIT] * head.stream[UNIT]
    least = head.stream[LEAST]
    for k in range(np.uint64(n_outside)):
        j, x, v = np.uint64(indices[np.uint64(row.outside[k])]), row.out_xs[k], row.out_variances[k]
        uses, gain = table[j, USES], x * x * dv
        if uses > least >= uses - 1.0:
            _add_candidate(head, j)
        table[j, MEAN] += x * v * pull
        table[j, GAIN] += gain * unit / max(1.0 - gain * v, 0.5)


@inlined
def _add_curvature(head, row, n_inside, curvature, pull):
    """Add a row to H and b."""
    precision, shift, slots, xs, stride = head.precision, head.shift, row.slots, row.xs, np.uint64(head.prior.size)
    for k in range(np.uint64(n_inside)):
        at, x = np.uint64(slots[k]) * stride, curvature * xs[k]
        shift[np.uint64(slots[k])] += xs[k] * pull
        for i in range(k + np.uint64(1)):
            place = at + np.uint64(slots[i])
            precision[place] += x * xs[i]


@inlined
def flush(head, rows, factors, answer):
    """Work in the gradients of an answer that wait: mu += S g. `rows` and `factors` are scratch."""
    width, taken = head.prior.size, np.int64(head.stream[TAKEN])
    waiting, at, used = head.waiting, answer * width, -(-taken // LANES) * LANES
    zero, count = broadcast(load(waiting, 0), 0.0), np.uint64(0)
    for first in range(at, at + used, LANES):
        if any_above(magnitude(load(waiting, first)), 0.0):
            for slot in range(np.uint64(first), np.uint64(first + LANES)):
                if waiting[slot] != 0.0:
                    rows[count], factors[count] = np.int64(slot) * width, waiting[slot]
                    count += np.uint64(1)
            store(waiting, first, zero)
    add_rows(head.covariance, rows, factors, count, used, head.mean, at)
    head.stream[PENDING + answer] = 0.0


@inlined
def _condition(head, row, n_inside, fall, answer):
    """Condition S of an answer on a row: mu += S g, S -= fall S x (S x)'."""
    width, taken = head.prior.size, np.int64(head.stream[TAKEN])
    used, matrix, covariance, along = -(-taken // LANES) * LANES, answer * width * width, head.covariance, row.along
    along[:] = 0.0
    for k in range(n_inside):
        row.rows[k] = matrix + row.slots[k] * width
    add_rows(covariance, row.rows, row.xs, n_inside, used, along, 0)
    flush(head, row.rows, head.work, answer)
    for i in range(taken):
        factor = along[i] * fall
        for c in range(0, used, LANES):
            place = matrix + i * width + c
            store(covariance, place, load(covariance, place) - load(along, c) * factor)


@inlined
def _learn_answer(head, row, n_inside, n_outside, indices, y, c, answer, scale_variance):
    """Learn a row with one answer; return whether it asks for a refresh."""
    stream, moments = head.stream, row.moments[answer]
    taken, width = stream[TAKEN], head.prior.size
    _weigh(row, moments[MEAN_ALL], moments[VARIANCE_ALL], y, c)
    dm, dv, s = row.evidence[0], row.evidence[1], moments[VARIANCE_HEAD]
    information = dv * s
    curvature = dv / max(1.0 - information, 0.1)
    if answer == 0:
        _add_curvature(head, row, n_inside, curvature, dm + curvature * (moments[MEAN_HEAD] + s * dm))
        stream[INFORMATION] += information
        _learn_scale(stream, moments[MEAN_ALL], scale_variance, dm, dv)
        _learn_outside(head, row, n_outside, indices, dm, dv)
    for k in range(n_inside):
        head.waiting[answer * width + row.slots[k]] += row.xs[k] * dm
    usual = 2.0 * taken * max(1.0 / stream[ROWS], answer * FADE)
    most = math.inf if answer else MAX_INFORMATION
    at_once, due = information > most, False
    if usual < information <= most:
        if stream[EXCESS + answer] <= MAX_EXCESS:
            stream[EXCESS + answer] += information - usual
        elif stream[SINCE] < APART * taken:
            at_once = True
        else:
            due = True
    stream[PENDING + answer] += information
    if at_once:
        _condition(head, row, n_inside, curvature / (1.0 + curvature * s) if information > 0.9 else dv, answer)
        if answer == 0:
            stream[INFORMATION] -= CONDITIONED * information
    elif stream[PENDING + answer] > MAX_PENDING:
        flush(head, row.rows, head.work, answer)
    return due


@kernel
def run_head(rows, groups, head, first, last, column, outputs):
    """Predict rows in [first, last), then learn from those with nonzero weight. Fill their outputs from `column` on."""
    indptr, indices, values, signs, weights = rows.indptr, rows.indices, rows.values, rows.labels, rows.weights
    row, stream = _new_row(rows.max_row_length, head.prior.size), head.stream
    for r in range(first, last):
        start, stop = indptr[r], indptr[r + 1]
        n_inside, n_outside = _read_row(head, row, indices, values, groups, start, stop)
        scale_variance = _predict_row(head, row, n_inside, n_outside, outputs, r, column)
        c = np.float64(weights[r])
        if c == 0.0:
            continue
        y = np.float64(signs[r])
        n_inside, n_outside = _count_row(head, row, indices, values, groups, start, stop, n_inside, n_outside)
        due, fading = False, stream[FADING] > 0.0
        for answer in range(2):
            if answer == 0 or fading:
                due |= _learn_answer(head, row, n_inside, n_outside, indices, y, c, answer, scale_variance)
        at_mark = stream[ROWS] == stream[MARK]
        if stream[ROWS] >= stream[RETRY] and (at_mark or due or stream[INFORMATION] > REFRESH * stream[TAKEN]):
            # While more slots may come, all features outside stay candidates: those that come may be used less.
            refresh(head, row.rows, at_mark and (stream[AUTO] == 0.0 or stream[ROWS] > SIZED))
        if at_mark:
            stream[MARK] *= 2.0
            if stream[AUTO] > 0.0 and stream[ROWS] == SIZED:
                stream[LIMIT] = MANY_SLOTS if stream[NONZEROS] <= LONG_ROWS * stream[ROWS] else FEW_SLOTS


# --- the refresh ----------------------------------------------------------------------------------------------------


@inlined
def _even(precision, n, stride):
    """Distribute the entries of H evenly over both sides of the diagonal."""
    for i in range(n):
        for j in range(i):
            half = 0.5 * (precision[i * stride + j] + precision[j * stride + i])
            precision[i * stride + j] = precision[j * stride + i] = half


@inlined
def _fill_priors(head, rows, factors, priors, spreads):
    """Fill the factors that fold the scale, and the prior precisions and spreads of all slots."""
    table, shrink = head.table, math.exp(-head.stream[SCALE])
    factors[0], priors[0], spreads[0] = shrink, head.prior[0], 0.0
    for slot in range(1, np.int64(head.stream[TAKEN])):
        j = head.features[slot]
        spreads[slot] = spread(table[j, FIRST], table[j, SUM], table[j, SQUARE], table[j, USES], rows)
        priors[slot], factors[slot] = spreads[slot] / head.group_variance[head.groups[j]], shrink


@kernel
def _invert_precision(head, phi, factors, priors, units, pivots, matrix, solved):
    """Write (P + phi H)^-1 into `matrix`, H folded by `factors`; return whether that was possible."""
    taken, width, precision = np.int64(head.stream[TAKEN]), head.prior.size, head.precision
    n, begin = -(-taken // TILE_COLUMNS) * TILE_COLUMNS, 0 if head.has_intercept else 1
    for i in range(taken):
        units[i] = 1.0 / math.sqrt(phi * precision[i * width + i] * factors[i] * factors[i] + priors[i])
    for i in range(n):
        for j in range(n):
            matrix[i * width + j] = 0.0
        matrix[i * width + i] = 1.0
        if begin <= i < taken:
            for j in range(begin, taken):
                both = 2.0 * phi * precision[i * width + j]
                matrix[i * width + j] = both * (factors[i] * factors[j]) * (units[i] * units[j])
            matrix[i * width + i] = 1.0 + RIDGE
    if not invert(matrix, solved, pivots, n, width):
        return False
    for i in range(n):
        for j in range(i + 1):
            value = 0.0 - matrix[i * width + j] * units[i] * units[j] if begin <= j and i < taken else 0.0
            matrix[i * width + j] = matrix[j * width + i] = value
    return True


@kernel
def refresh(head, rows, chooses):
    """Compute S and mu anew from H and b, fold the scale, and learn the priors.

    Nothing but waiting gradients changes if the matrix has no Cholesky factors; a refresh is then due again later.

    Args:
        rows: scratch.
        chooses: whether features used more often replace others first.
    """
    stream, width, work, t = head.stream, head.prior.size, head.work, head.stream[ROWS]
    size = width * width
    first, second, third = work[:size], work[size : 2 * size], work[2 * size : 3 * size]
    vectors = work[3 * size :].reshape(-1, width)
    factors, priors, units, pivots, spreads = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    for answer in range(2):
        flush(head, rows, factors, answer)
    _even(head.precision, np.int64(stream[TAKEN]), width)
    if chooses and stream[TAKEN] > stream[LIMIT]:
        _choose(head, factors)
    taken, used = np.int64(stream[TAKEN]), -(-np.int64(stream[TAKEN]) // LANES) * LANES
    # S of both answers
    _fill_priors(head, t, factors, priors, spreads)
    fades, phi = t * FADE >= FADING_FROM, (1.0 - math.exp(-FADE * t)) / (FADE * t)
    possible = _invert_precision(head, 1.0, factors, priors, units, pivots, first, second)
    if not possible or (fades and not _invert_precision(head, phi, factors, priors, units, pivots, second, third)):
        stream[RETRY] = t + APART * taken
        return
    for at in range(0, taken * width, LANES):
        store(head.covariance, at, load(first, at))
        if fades:
            store(head.covariance, size + at, load(second, at))
    # H, b, mu and P, with the scale folded
    for i in range(taken):
        for j in range(taken):
            head.precision[i * width + j] *= factors[i] * factors[j]
        head.shift[i] *= factors[i]
        head.prior[i] = priors[i]
        head.mean[i], head.mean[width + i] = 0.0, head.mean[width + i] / factors[i]
        rows[i] = i * width
    stream[FOLDED] += stream[SCALE]
    stream[UNIT] = math.exp(stream[FOLDED])
    stream[SCALE] = 0.0
    add_rows(head.covariance, rows, head.shift, taken, used, head.mean, 0)
    # the second answer
    if fades:
        if stream[FADING] == 0.0:
            stream[FADING], stream[FADED] = 1.0, t
            for i in range(taken):
                head.mean[width + i] = head.mean[i]
        gone = min(FADE * (t - stream[FADED]), MAX_FADED)
        for i in range(taken):
            units[i], rows[i] = -gone * priors[i] * head.mean[width + i], size + i * width
        add_rows(head.covariance, rows, units, taken, used, head.mean, width)
        stream[FADED] = t
    if stream[MARK] < NEVER:
        _learn_variances(head, spreads, units, pivots)
    stream[INFORMATION] = stream[EXCESS] = stream[EXCESS + 1] = stream[SINCE] = 0.0


@inlined
def _learn_variances(head, spreads, squares, known):
    """Learn the prior variance of each group, around that of all; `squares` and `known` are scratch."""
    stream, variances = head.stream, head.group_variance
    taken, width = np.int64(stream[TAKEN]), head.prior.size
    first = first_variance(stream[NONZEROS], stream[ROWS])
    most, all_squares, all_known = MAX_GROWTH * first, 0.0, 0.0
    for slot in range(1, taken):
        squares[slot] = spreads[slot] * (head.mean[slot] * head.mean[slot])
        known[slot] = 1.0 - min(head.prior[slot] * head.covariance[slot * width + slot], 1.0)
        all_squares, all_known = all_squares + squares[slot], all_known + known[slot]
    shared = (PSEUDO_COUNT * first + all_squares) / (PSEUDO_COUNT + all_known)
    shared = min(max(shared, MIN_VARIANCE), most)
    sums = zeros((GROUPS, 2), np.float64)
    for slot in range(1, taken):
        group = np.int64(head.groups[head.features[slot]])
        sums[group, 0] += squares[slot]
        sums[group, 1] += known[slot]
    for group in range(GROUPS):
        variance = (PSEUDO_COUNT * shared + sums[group, 0]) / (PSEUDO_COUNT + sums[group, 1])
        variances[group] = min(max(variance, MIN_VARIANCE), most)


# --- the choice of features -----------------------------------------------------------------------------------------


@inlined
def _take_out(head, slot, column):
    """Marginalize over the weight in a slot; the table keeps what is known of it. `column` is scratch."""
    table, precision, width, taken = head.table, head.precision, head.prior.size, np.int64(head.stream[TAKEN])
    j, folded = head.features[slot], head.stream[UNIT]
    table[j, MEAN] = head.mean[slot] / folded
    known = max(1.0 / head.covariance[slot * width + slot] - head.prior[slot], 0.0)
    table[j, GAIN] = known * folded * folded
    head.slots[j] = 0
    own = precision[slot * width + slot] + head.prior[slot]
    for i in range(taken):
        column[i] = 2.0 * precision[i * width + slot]
    column[slot] = 0.0
    for i in range(taken):
        share = column[i] / own
        head.shift[i] -= share * head.shift[slot]
        for k in range(taken):
            precision[i * width + k] -= 0.5 * share * column[k]
        precision[i * width + i] -= 0.5 * share * column[i]
    for i in range(taken):
        precision[i * width + slot] = precision[slot * width + i] = 0.0
        for answer in range(2):
            matrix = answer * width * width
            head.covariance[matrix + i * width + slot] = head.covariance[matrix + slot * width + i] = 0.0


@inlined
def _uses_more(table, j, k):
    """Return whether feature j comes before k: by uses, then by index."""
    return table[j, USES] > table[k, USES] or (table[j, USES] == table[k, USES] and j < k)


@inlined
def _insert_rival(table, rivals, count, j):
    """Insert feature j into the rivals used most, if there is room or it is used more; return their number."""
    if count == rivals.size:
        if not _uses_more(table, j, rivals[count - 1]):
            return count
        count -= 1
    k = count
    while k > 0 and _uses_more(table, j, rivals[k - 1]):
        rivals[k] = rivals[k - 1]
        k -= 1
    rivals[k] = j
    return count + 1


@kernel
def _choose(head, column):
    """Let the features used most outside take the slots of those used least inside. `column` is scratch."""
    stream, table, slots, candidates = head.stream, head.table, head.slots, head.candidates
    taken = np.int64(stream[TAKEN])
    order, rivals, n_rivals = zeros(taken - 1, np.int64), zeros(taken - 1, np.int64), 0
    for slot in range(1, taken):
        k = slot - 1
        while k > 0 and table[head.features[order[k - 1]], USES] > table[head.features[slot], USES]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = slot
    if head.n_candidates[0] <= candidates.size:
        for k in range(head.n_candidates[0]):
            if slots[candidates[k]] == 0:
                n_rivals = _insert_rival(table, rivals, n_rivals, candidates[k])
    else:
        for j in range(table.shape[0]):
            if slots[j] == 0 and table[j, USES] > stream[LEAST]:
                n_rivals = _insert_rival(table, rivals, n_rivals, j)
    for k in range(n_rivals):
        slot, j = order[k], rivals[k]
        if table[j, USES] <= STAYS * table[head.features[slot], USES]:
            break
        _take_out(head, slot, column)
        _fill_from_table(head, slot, j)
    find_candidates(head)


@kernel
def find_candidates(head):
    """Set LEAST to the uses that a feature needs to enter the head, and list those that have more."""
    stream, table, slots, candidates = head.stream, head.table, head.slots, head.candidates
    least = math.inf
    for slot in range(1, np.int64(stream[TAKEN])):
        least = min(least, STAYS * table[head.features[slot], USES])
    listed, count = head.n_candidates[0] <= candidates.size, 0
    for k in range(head.n_candidates[0] if listed else table.shape[0]):
        j = candidates[k] if listed else k
        if slots[j] == 0 and table[j, USES] > least:
            if count < candidates.size:
                candidates[count] = j
            count += 1
    stream[LEAST], head.n_candidates[0] = least, count


@kernel
def fill_weights(head, features, means, variances):
    """Fill means and variances of some features' weights, given the scale; a feature never seen has a spread of 1."""
    stream, table, factor = head.stream, head.table, math.exp(head.stream[SCALE])
    for k in range(features.size):
        j = features[k]
        slot = np.int64(head.slots[j])
        if slot > 0:
            means[k] = factor * head.mean[slot]
            variances[k] = factor * factor * head.covariance[slot * (head.prior.size + 1)]
            continue
        unit, own = factor * stream[UNIT], 1.0
        if table[j, USES] > 0.0:
            own = spread(table[j, FIRST], table[j, SUM], table[j, SQUARE], table[j, USES], stream[ROWS])
        prior = own / (head.group_variance[head.groups[j]] if stream[ROWS] > 0.0 else MAX_FIRST_VARIANCE)
        means[k] = unit * table[j, MEAN]
        variances[k] = factor * factor / (prior + table[j, GAIN] / (stream[UNIT] * stream[UNIT]))


@kernel
def fill_normals(seed, draws, features, normals):
    """Fill normals[k, n] with the standard normal number of draw draws[k] and feature features[n]."""
    for k in range(draws.size):
        for n in range(features.size):
            normals[k, n] = normal(seed, draws[k], features[n])
