"""The lanes of the regression bank: their state, the prediction of a row, and the update from its label.

There are eight lanes side by side, so that vectors run across them; the equations are in the docstring of `learner`.
Four of them, the block lanes, keep a full covariance over the intercept and a head of columns (`head`); all else is
diagonal. Statistics of a column (unit, uses, sums, spread) are shared by all lanes, and the head by the block lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, broadcast, load, store, where_above
from bayou.learners.number_bank import head as heads
from bayou.learners.number_bank.head import HeadState

WIDER = 0.25  # lanes learn from their means, cut to the range of labels, widened by this fraction at either side
FAR, LEAST = 1e30, 1e-60  # bounds of values in units, and of units, for absurd data
# The least fraction of a precision that is left, and the largest variance, in units of the noise.
MIN_LEFT, MAX_VARIANCE = 1e-9, 1e30
# After VARIED uses a column's variance is trusted, if it is more than CONSTANT times the mean square.
VARIED, CONSTANT = 15.0, 1e-12


@dataclass(frozen=True)
class NumberLane:
    """Settings of one lane, one alternative for each setting that a user would otherwise have to tune.

    >>> [str(lane) for lane in PRESET][:2]
    ['block', 'block, walking 0.01']
    """

    kind: str  # "block", "diagonal", or "raw": diagonal, in the units that columns come in
    signal: float = 1.0  # S, the signal-to-noise of a whole row under the prior
    walk: float = 0.0  # growth of weights' variances, each time they are used
    drift: float = 0.0  # growth of the intercept's variance, with every row
    share: float = 0.4  # initial share, to be divided by the sum
    later: float = 1.0  # relative prior variance of its coefficient for later rows; below 1: left out of the mixture

    def __str__(self) -> str:
        words = [self.kind if self.signal == 1.0 else f"{self.kind} {self.signal:g}"]
        words += [f"walking {self.walk:g}"] if self.walk else []
        words += [f"drifting {self.drift:g}"] if self.drift and not self.walk else []
        return ", ".join(words)


PRESET = (
    NumberLane("block", share=6.0),
    NumberLane("block", walk=0.01, drift=0.01, later=0.0),
    NumberLane("block", drift=0.1),
    NumberLane("block", drift=1.0),
    NumberLane("diagonal", walk=0.1, drift=0.01, later=0.0),
    NumberLane("diagonal", 10.0, walk=0.3, drift=0.1, later=0.0),
    NumberLane("raw"),
    NumberLane("raw", 10.0, walk=0.01, drift=0.01, later=0.1),
)
# Rows of the settings: a column for each lane.
#   PRECISION_PER_VARIANCE  prior precision per spread of a column; 0 for raw lanes
#   PRECISION_PER_LENGTH    prior precision per mean squared length of a row; of raw lanes alone
#   SCALED                  1 for diagonal lanes, which see columns in their own units
#   IS_RAW                  1 for lanes that see columns in the units of the data
#   HAS_HEAD                1 for lanes with a full covariance in the head
#   WALK_DECAY              fraction of its precision that a weight keeps at each use
#   INTERCEPT_DRIFT         variance that the intercept gains with every row
PRECISION_PER_VARIANCE, PRECISION_PER_LENGTH, SCALED, IS_RAW, HAS_HEAD, WALK_DECAY, INTERCEPT_DRIFT = range(7)
# Statistics of a column of the data; its uses are stored separately.
#   COLUMN_UNIT       1 / |first value|; 0 before that
#   COLUMN_SUM        sum of values in units
#   SQUARES           sum of their squares
#   SPREAD            spread times the mean number of non-zeros, at the last use
#   LENGTH            mean squared length of a row, at the last use
#   COLUMN_HEAD_SLOT  place in the head, from 1 on; 0 outside
COLUMN_UNIT, COLUMN_SUM, SQUARES, SPREAD, LENGTH, COLUMN_HEAD_SLOT = range(6)
# Statistics of the stream.
#   LENGTHS      sum of squared lengths
#   FIRST_LABEL  the first label
#   LOW          smallest label, less the first
#   HIGH         largest label, less the first
ROWS, NONZEROS, LENGTHS, FIRST_LABEL, LOW, HIGH = range(6)


class NumberLaneState(NamedTuple):
    """Settings and learned state of all lanes, as kernels take it."""

    settings: np.ndarray
    has_intercept: bool
    state: np.ndarray  # of each column the lanes' means, then the precisions gained
    columns: np.ndarray  # unit, sums of scaled values and squares, spread and length at the last use, place in the head
    uses: np.ndarray
    stream: np.ndarray  # rows, non-zeros, squared values; the first label, and the range of labels less that
    intercept: np.ndarray  # means and variances in lanes that are not block lanes
    head: HeadState


def new_lanes(n_features: int, has_intercept: bool, head_columns: int) -> NumberLaneState:
    settings = np.zeros((INTERCEPT_DRIFT + 1, LANES))
    for k, lane in enumerate(PRESET):
        settings[PRECISION_PER_LENGTH if lane.kind == "raw" else PRECISION_PER_VARIANCE, k] = 1.0 / lane.signal
        settings[{"diagonal": SCALED, "raw": IS_RAW, "block": HAS_HEAD}[lane.kind], k] = 1.0
        settings[WALK_DECAY, k], settings[INTERCEPT_DRIFT, k] = 1.0 - lane.walk, lane.drift * has_intercept
    intercept = np.zeros((2, LANES))
    intercept[1] = heads.WIDE * has_intercept * (1.0 - settings[HAS_HEAD])
    return NumberLaneState(
        settings=settings,
        has_intercept=has_intercept,
        state=np.zeros((n_features, 2 * LANES)),
        columns=np.zeros((n_features, COLUMN_HEAD_SLOT + 1)),
        uses=np.zeros((n_features, 1)),
        stream=np.zeros(HIGH + 1),
        intercept=intercept,
        head=heads.new_head(
            *(min(head_columns, n_features), has_intercept, [lane.walk for lane in PRESET[: heads.N_HEAD_LANES]]),
            settings[PRECISION_PER_VARIANCE, : heads.N_HEAD_LANES],
        ),
    )


@kernel
def is_refresh_row(rows):
    """Return whether `rows` is 2, 3, 4, 6, 8, 12, 16, ..., where the head is chosen again and its priors updated."""
    while rows > 3 and rows % 2 == 0:
        rows //= 2
    return rows == 2 or rows == 3


@kernel(forceinline=True)
def column_variance(total, squares, uses, rows):
    """Return the variance of a dense column, or the mean square of a rare one; never 0, even if all values are equal.

    S2/n^2 keeps a column that was constant so far from a huge prior. For a column that does vary, with a mean far from
    0 compared to its deviation, it would count the mean as spread: there it is at most ten variances, but no less than
    S2/n^2/100.
    """
    variance, floor = max(squares - total * total / rows, 0.0) / uses, squares / (uses * uses)
    if uses > VARIED and variance > CONSTANT * floor * uses:
        floor = min(max(10.0 * variance, 0.01 * floor), floor)
    return max(variance + floor, LEAST)


class NumberRowScratch(NamedTuple):
    """Scratch of one row: vectors of each non-zero, and statistics of its column including this row."""

    z: np.ndarray
    zv: np.ndarray
    mean: np.ndarray
    gained: np.ndarray
    column_stats: np.ndarray  # as in `NumberLaneState.columns`, uses at the end
    m: np.ndarray  # of each lane
    q: np.ndarray
    mean_step: np.ndarray  # dm
    variance_step: np.ndarray  # dv
    places: np.ndarray  # the row's places in the head, newcomers last
    values: np.ndarray  # its values there
    cov_x: np.ndarray  # covariance times values
    across: np.ndarray
    steps: np.ndarray
    has_lost_sign: np.ndarray  # lanes whose covariance has lost its sign


def scratch_for(lanes: NumberLaneState, longest: int) -> NumberRowScratch:
    """Allocate scratch for any row of a batch; not in a kernel, as Numba would take a second to compile it."""
    width, n = lanes.head.covariance.shape[1], longest + 1
    z, zv, mean, gained = np.zeros((4, n * LANES))
    m, q, mean_step, variance_step = np.zeros((4, LANES))
    return NumberRowScratch(
        *(z, zv, mean, gained, np.zeros((n, COLUMN_HEAD_SLOT + 2)), m, q, mean_step, variance_step),
        *(np.zeros(n, np.int64), np.zeros(n), np.zeros(width), np.zeros(2 * width + LANES)),
        *(np.zeros(heads.MAX_PENDING_UPDATES * LANES), np.zeros(LANES, np.bool_)),
    )


@inlined
def _load_row(lanes, scratch, indices, values, start, length, rows, mean_length, mean_square):
    """Compute m and q of a row without the head; return the numbers of its columns there and of newcomers."""
    settings, state, columns, uses = lanes.settings.reshape(-1), lanes.state.reshape(-1), lanes.columns, lanes.uses
    intercept, column_stats = lanes.intercept.reshape(-1), scratch.column_stats
    head_room, inside = lanes.head.columns.size, 0
    places, head_values = scratch.places, scratch.values
    used = int(lanes.head.counts[0])
    newcomers = 0
    m, q = load(intercept, 0), load(intercept, LANES)
    for k in range(length):
        j, value = indices[start + k], values[start + k]
        unit, place = columns[j, COLUMN_UNIT], int(columns[j, COLUMN_HEAD_SLOT])
        place = place if 0 < place <= used else 0
        if unit == 0.0:
            unit = 1.0 / max(abs(value), LEAST)
            if used + newcomers < head_room:
                newcomers += 1
                place = -(used + newcomers)
        x = max(min(value * unit, FAR), -FAR)
        n, s1, s2 = uses[j, 0] + 1.0, columns[j, COLUMN_SUM] + x, columns[j, SQUARES] + x * x
        spread = column_variance(s1, s2, n, rows) * mean_length
        middle = s1 / n if n > 0.5 * rows and lanes.has_intercept else 0.0
        column_stats[k, COLUMN_UNIT] = unit
        column_stats[k, COLUMN_SUM] = s1
        column_stats[k, SQUARES] = s2
        column_stats[k, SPREAD] = spread
        column_stats[k, LENGTH] = mean_square
        column_stats[k, COLUMN_HEAD_SLOT] = place
        column_stats[k, COLUMN_HEAD_SLOT + 1] = n
        if place > 0:
            places[inside], head_values[inside] = place, x
            inside += 1
        outside = 0.0 if place > 0 else (x if place < 0 else x - middle)
        z = load(settings, SCALED * LANES) * (x - middle) + load(settings, IS_RAW * LANES) * (value - middle / unit)
        z = z + load(settings, HAS_HEAD * LANES) * outside
        per_spread = load(settings, PRECISION_PER_VARIANCE * LANES)
        per_length = load(settings, PRECISION_PER_LENGTH * LANES)
        prior = per_spread * spread + per_length * mean_square
        before = per_spread * columns[j, SPREAD] + per_length * columns[j, LENGTH]
        mean, gained = load(state, j * 2 * LANES), load(state, j * 2 * LANES + LANES)
        # A prior that has become narrower since the last use shrinks what was learned under the wider one.
        mean = mean * where_above(before, 0.0, min((before + gained) / (prior + gained), 1.0), broadcast(mean, 1.0))
        keep = load(settings, WALK_DECAY * LANES)
        gained = max(gained * keep - prior * (1.0 - keep), 0.0)
        zv = z / (prior + gained)
        m, q = m + z * mean, q + z * zv
        at = k * LANES
        store(scratch.z, at, z)
        store(scratch.zv, at, zv)
        store(scratch.mean, at, mean)
        store(scratch.gained, at, gained)
    store(scratch.m, 0, m)
    store(scratch.q, 0, q)
    return inside, newcomers


@inlined
def _learn_columns(lanes, scratch, indices, start, length):
    """Update all lanes' weights outside the head, and the statistics of the row's columns."""
    settings, state, columns, uses = lanes.settings.reshape(-1), lanes.state.reshape(-1), lanes.columns, lanes.uses
    column_stats, newcomers = scratch.column_stats, 0
    dm, dv = load(scratch.mean_step, 0), load(scratch.variance_step, 0)
    for k in range(length):
        j, at = indices[start + k], k * LANES
        z, zv = load(scratch.z, at), load(scratch.zv, at)
        if column_stats[k, COLUMN_HEAD_SLOT] < 0.0:  # in block lanes it belongs to the head from now on
            newcomers += 1
            apart = 1.0 - load(settings, HAS_HEAD * LANES)
            z, zv = z * apart, zv * apart
        more = z * z * dv
        gained = load(scratch.gained, at) + more / max(1.0 - z * zv * dv, MIN_LEFT)
        store(state, j * 2 * LANES, load(scratch.mean, at) + zv * dm)
        store(state, j * 2 * LANES + LANES, gained)
        for i in range(COLUMN_HEAD_SLOT):
            columns[j, i] = column_stats[k, i]
        columns[j, COLUMN_HEAD_SLOT] = abs(column_stats[k, COLUMN_HEAD_SLOT])
        uses[j, 0] = column_stats[k, COLUMN_HEAD_SLOT + 1]


@kernel
def run_lanes(rows, lanes, scratch, row, last, outputs):
    """Predict each row in [row, last), then update from rows with nonzero weight.

    Returns the row after the last one done, and whether it stopped because the head must be maintained. The lane
    outputs, less the first label, are written to outputs[row]: means, cut to the widened range of labels, and their
    variances in units of the noise.

    The data, with vectors across the eight lanes; lanes below N_HEAD_LANES have a head:

        lanes.state      [feature][2][LANES]      means, precisions gained over the prior's
        lanes.columns    [feature][COLUMN_HEAD_SLOT + 1]     statistics of a column, and its place in the head
        lanes.intercept  [2][LANES]               means and variances in lanes that are not block lanes
        here.z, zv, ...  [non-zero][LANES]        the row's values, as each lane sees them
        here.places      [place in the row]       the row's columns in the head, newcomers last
    """
    indptr, indices, values, labels, weights = rows.indptr, rows.indices, rows.values, rows.labels, rows.weights
    stream, head, intercept, settings = lanes.stream, lanes.head, lanes.intercept, lanes.settings
    while row < last:
        start = indptr[row]
        length = indptr[row + 1] - start
        n_rows = stream[ROWS] + 1.0
        squares = 0.0
        for k in range(start, start + length):
            squares += values[k] * values[k]
        mean_length = max((stream[NONZEROS] + length) / n_rows, 1.0)
        mean_square = max((stream[LENGTHS] + squares) / n_rows, LEAST * LEAST)
        inside, newcomers = _load_row(lanes, scratch, indices, values, start, length, n_rows, mean_length, mean_square)
        heads.covariance_times_row(head, scratch.places, scratch.values, inside, 1.0, scratch.cov_x, scratch.across)
        room = WIDER * (stream[HIGH] - stream[LOW])
        # predict: the lanes' own part, and the head's
        for lane in range(LANES):
            m, q = scratch.m[lane], scratch.q[lane]
            if lane < heads.N_HEAD_LANES:
                of_head, own, total = heads.head_output(
                    head, scratch.places, scratch.values, inside, scratch.cov_x, lane
                )
                scratch.has_lost_sign[lane] = own < heads.LOST * total
                m, q = m + of_head, q + max(own, heads.KEPT * total)
            cut = min(max(m, stream[LOW] - room), stream[HIGH] + room) if n_rows > 1.0 else m
            is_exact = lane < heads.N_HEAD_LANES and inside + newcomers == length
            scratch.m[lane], scratch.q[lane] = m if is_exact else cut, min(q, MAX_VARIANCE)
            outputs[row, 0, lane], outputs[row, 1, lane] = cut, scratch.q[lane]
        c = weights[row]
        # update from the label: intercepts, columns, newcomers to the head, the head
        if c != 0.0:
            if n_rows == 1.0 and lanes.has_intercept:
                stream[FIRST_LABEL] = labels[row]
            y, due = labels[row] - stream[FIRST_LABEL], False
            for lane in range(LANES):
                # a mean far out of range is a reason to trust the row less, but not to learn another error
                error, error_of_cut = abs(y - scratch.m[lane]), abs(y - outputs[row, 0, lane])
                trusted = c * error_of_cut / error if error > error_of_cut else c
                scratch.variance_step[lane] = trusted / (1.0 + trusted * scratch.q[lane])
                if scratch.has_lost_sign[lane]:  # nothing is learned from such a row
                    scratch.variance_step[lane] = 0.0
                    due = True
                scratch.mean_step[lane] = scratch.variance_step[lane] * (y - scratch.m[lane])
                intercept[0, lane] += intercept[1, lane] * scratch.mean_step[lane]
                intercept[1, lane] -= intercept[1, lane] * intercept[1, lane] * scratch.variance_step[lane]
                if lane >= heads.N_HEAD_LANES:
                    intercept[1, lane] += settings[INTERCEPT_DRIFT, lane]
            head.misfit[0] += scratch.mean_step[0] * (y - scratch.m[0])
            _learn_columns(lanes, scratch, indices, start, length)
            for k in range(length if newcomers else 0):
                place = -int(scratch.column_stats[k, COLUMN_HEAD_SLOT])
                if place > 0:
                    x = scratch.column_stats[k, COLUMN_SUM]  # the first value of a column is its sum
                    heads.add_column(head, place, indices[start + k], scratch.column_stats[k, SPREAD], x, scratch.cov_x)
                    scratch.places[inside], scratch.values[inside] = place, x
                    inside += 1
            heads.queue_update(head, scratch.cov_x, scratch.mean_step, scratch.variance_step, scratch.steps)
            # weights walk, intercepts drift
            for k in range(inside):
                place = scratch.places[k]
                prior = head.prior[place]
                for block in range(heads.N_HEAD_LANES):
                    if head.walk[block] > 0.0 and head.variances[place * heads.N_HEAD_LANES + block] * prior < 1.0:
                        heads.add_variance(head, place, block, head.walk[block] / prior)
            for block in range(heads.N_HEAD_LANES):
                heads.add_variance(head, 0, block, settings[INTERCEPT_DRIFT, block])
            # counters
            stream[LOW], stream[HIGH] = (y, y) if n_rows == 1.0 else (min(stream[LOW], y), max(stream[HIGH], y))
            stream[ROWS] = n_rows
            stream[NONZEROS] += length
            stream[LENGTHS] += squares
            if due or is_refresh_row(int(n_rows)):
                return row + 1, True
        row += 1
    return row, False


def column_means(lanes: NumberLaneState, columns: np.ndarray) -> np.ndarray:
    """Return the means subtracted from some columns where they are centered, in the units of the data."""
    if not lanes.has_intercept:
        return np.zeros(len(columns))
    column_stats, uses = lanes.columns[columns], lanes.uses[columns, 0]
    return (
        np.where(uses > 0.5 * lanes.stream[ROWS], column_stats[:, COLUMN_SUM] / np.maximum(uses, 1.0), 0.0)
        / column_stats[:, COLUMN_UNIT]
    )


def maintain_head(lanes: NumberLaneState, scratch: NumberRowScratch) -> None:
    """Maintain the head: choose its columns again if it is full, update its priors to the spreads and the learned S."""
    head, columns, stream = lanes.head, lanes.columns, lanes.stream
    rows, factors = stream[ROWS], lanes.head.prior_factors.copy()
    heads.apply_pending_updates(head, scratch.steps)
    for block in np.flatnonzero(scratch.has_lost_sign).tolist():
        heads.drop_correlations(head, block)
    if not is_refresh_row(int(rows)):
        return
    # Fewer rows than weights say how strong these are together only if no weight is left out.
    is_determined = rows > head.counts[0] or np.count_nonzero(columns[:, COLUMN_UNIT]) == head.counts[0]
    if is_determined and head.misfit[0] > 0.0:
        factors[0] = heads.learned_factor(head, rows)
    if head.counts[0] == len(head.columns):
        for place, new in zip(*heads.plan_swaps(head, lanes.uses), strict=True):
            old = head.columns[place - 1]
            middles = column_means(lanes, np.array([old, new])) * columns[[old, new], COLUMN_UNIT]
            heads.swap(head, place, old, new, *middles, lanes.state, columns[old, SPREAD], columns[new, SPREAD])
            columns[old, COLUMN_HEAD_SLOT], columns[new, COLUMN_HEAD_SLOT] = 0.0, place
    there = head.columns[: int(head.counts[0])]
    column_stats, priors = columns[there], np.zeros(len(head.prior))
    sums = zip(column_stats[:, COLUMN_SUM], column_stats[:, SQUARES], lanes.uses[there, 0], strict=True)
    spreads = [column_variance(*of, rows) for of in sums]
    priors[1 : len(there) + 1] = np.array(spreads) * max(stream[NONZEROS] / rows, 1.0)
    heads.renew_priors(head, priors, factors, scratch.cov_x, scratch.across, scratch.steps)
