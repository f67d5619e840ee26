"""The head of the block lanes: the intercept and the columns used most, with a full covariance in each lane.

Place 0 is the intercept. The covariances of the four lanes lie side by side, so that a vector holds two columns of all
four. Only entries on and above the diagonal are kept up to date, in pairs of columns: in row i from column i on, or
from i - 1 if i is odd. Conditioning the matrices on a row is most of the bank's work, and most of that is loading and
storing them: so updates are kept pending, and DUE of them are applied at once (`apply_pending_updates`). Until then

    covariance now = covariance - sum over pending rows of along along' dv
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, load, store

# Columns in the head by default, and at most: 128 take 0.5 MB and most of the time of a row, 2,048 take 135 MB.
HEAD_COLUMNS, MAX_HEAD_COLUMNS = 128, 2048
MAX_PENDING_UPDATES = 4
N_HEAD_LANES = LANES // 2  # lanes that have a head
WIDE = 1e6  # the prior variance of an intercept, in units of the noise
# A column in the head stays there unless another one is used this many times as often.
SWAP_RATIO = 1.25
# A variance is at least KEPT times the sum of the terms it is made of, against rounding; if it is below LOST times that
# sum, the covariance is no longer positive.
KEPT, LOST = 1e-12, -1e-6
LEFT = 1e-6  # bound on the growth of a variance when its prior becomes wider
# The learned S counts this many weights of S = 1 besides the head's, so that few rows do not move it far; it is at most
# MAX_SIGNAL and at least its inverse.
SIGNAL_PRIOR, MAX_SIGNAL = 16.0, 100.0


class HeadState(NamedTuple):
    """Joint state of the block lanes: intercept and head, as kernels take it."""

    walk: np.ndarray  # walk of each lane
    counts: np.ndarray  # places in use, without the intercept's; pending rows
    columns: np.ndarray  # the column in places 1, 2, ...
    prior: np.ndarray  # precision of the prior in each place, for S = 1
    prior_factors: np.ndarray  # 1 / S of each lane, a view into the lanes' settings
    misfit: np.ndarray  # of the first lane: n times the estimated noise, for its current prior
    weights: np.ndarray  # weights of place i in all lanes
    covariance: np.ndarray  # row i: covariances of places i and j in all lanes
    variances: np.ndarray  # up to date, pending rows included
    moments: np.ndarray  # weights and variances in one array
    pending: np.ndarray  # `cov_x` of each pending row
    pending_dv: np.ndarray  # its dv in each lane

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file; rows are short: files omit zero rows."""
        return {
            "head": self.columns.reshape(1, -1),
            "places": self.counts.reshape(1, -1),
            "head priors": self.prior.reshape(1, -1),
            "prior factors": self.prior_factors.reshape(1, -1),
            "misfit": self.misfit.reshape(1, -1),
            "head moments": self.moments.reshape(-1, 1),
            "covariance": self.covariance.reshape(-1, LANES),
            "waiting": self.pending.reshape(-1, 2),
            "waiting falls": self.pending_dv.reshape(1, -1),
        }


def new_head(room: int, has_intercept: bool, walk: list[float], prior_factors: np.ndarray) -> HeadState:
    """Return an empty head with space for this many columns."""
    places = (room + 2) // 2 * 2
    covariance, moments = np.zeros((places, places * N_HEAD_LANES)), np.zeros((2, places * N_HEAD_LANES))
    covariance[0, :N_HEAD_LANES] = moments[1, :N_HEAD_LANES] = WIDE * has_intercept
    return HeadState(
        walk=np.array(walk),
        counts=np.zeros(2),
        columns=np.zeros(room, np.int64),
        prior=np.zeros(places),
        prior_factors=prior_factors,
        misfit=np.zeros(1),
        weights=moments[0],
        covariance=covariance,
        variances=moments[1],
        moments=moments,
        pending=np.zeros((MAX_PENDING_UPDATES, places * N_HEAD_LANES)),
        pending_dv=np.zeros((MAX_PENDING_UPDATES, N_HEAD_LANES)),
    )


@inlined
def covariance_times_row(head, places, values, inside, intercept, cov_x, across):
    """Compute `cov_x`, the covariances of all places with a row's score: the matrices times (intercept, values)."""
    covariance, stride = head.covariance.reshape(-1), head.covariance.shape[1]
    width = (int(head.counts[0]) + 2) // 2 * LANES
    for at in range(0, width, LANES):
        store(cov_x, at, load(covariance, at) * intercept)
    highest = 0
    for k in range(inside):
        highest = max(highest, places[k])
    for at in range(0, highest * LANES, LANES):
        store(across, at, load(covariance, 0) * 0.0)
    both_of = across[-LANES:]
    for k in range(inside):
        place, x = places[k], values[k]
        pair = place // 2 * 2
        for b in range(N_HEAD_LANES):
            both_of[b], both_of[N_HEAD_LANES + b] = (x, 0.0) if place == pair else (0.0, x)
        both = load(both_of, 0)
        for i in range(min(2, pair) // 2, pair):  # the row of the intercept is handled below
            store(
                across, i * LANES, load(across, i * LANES) + load(covariance, i * stride + pair * N_HEAD_LANES) * both
            )
        at_row = place * stride
        for at in range(pair * N_HEAD_LANES, width, LANES):
            store(cov_x, at, load(cov_x, at) + load(covariance, at_row + at) * x)
        for b in range(N_HEAD_LANES if pair else 0):
            cov_x[b] += x * covariance[place * N_HEAD_LANES + b]
    for i in range(1, highest):
        for b in range(N_HEAD_LANES):
            cov_x[i * N_HEAD_LANES + b] += across[i * LANES + b] + across[i * LANES + N_HEAD_LANES + b]
    for w in range(int(head.counts[1])):
        pending = head.pending[w]
        for b in range(N_HEAD_LANES):
            score = pending[b] * intercept
            for k in range(inside):
                score += pending[places[k] * N_HEAD_LANES + b] * values[k]
            both_of[b] = both_of[N_HEAD_LANES + b] = score * head.pending_dv[w, b]
        both = load(both_of, 0)
        for at in range(0, width, LANES):
            store(cov_x, at, load(cov_x, at) - load(pending, at) * both)


@inlined
def head_output(head, places, values, inside, cov_x, block):
    """Return mean and variance of the score of a row in the head of one lane, and the sum of the variance's terms.

    `cov_x` comes from `covariance_times_row`.
    """
    weights, variances = head.weights, head.variances
    m, q, total = weights[block], cov_x[block], abs(variances[block])
    for k in range(inside):
        at, x = places[k] * N_HEAD_LANES + block, values[k]
        m, q = m + x * weights[at], q + x * cov_x[at]
        total += x * x * abs(variances[at])
    return m, q, total


@inlined
def add_column(head, place, column, prior, x, cov_x):
    """Add a column that was never used before to the head, in the next place."""
    head.counts[0] = place
    head.columns[place - 1], head.prior[place] = column, prior
    for block in range(N_HEAD_LANES):
        at, precision = place * N_HEAD_LANES + block, prior * head.prior_factors[block]
        head.covariance[place, at] = head.variances[at] = 1.0 / precision
        cov_x[at] = x / precision


@inlined
def queue_update(head, cov_x, mean_step, pending_dv, steps):
    """Condition the head of every lane: weights += along dm, covariance -= along along' dv, the latter kept pending."""
    weights, variances, pending = head.weights, head.variances, head.pending[int(head.counts[1])]
    size = int(head.counts[0]) + 1
    for i in range(size):
        for b in range(N_HEAD_LANES):
            at = i * N_HEAD_LANES + b
            weights[at] += cov_x[at] * mean_step[b]
            variances[at] -= cov_x[at] * cov_x[at] * pending_dv[b]
            pending[at] = cov_x[at]
    for b in range(N_HEAD_LANES):
        head.pending_dv[int(head.counts[1]), b] = pending_dv[b]
    head.counts[1] += 1.0
    if head.counts[1] == MAX_PENDING_UPDATES:
        apply_pending_updates(head, steps)


@inlined
def add_variance(head, place, block, by):
    """Add `by` to the variance of a place in one lane."""
    head.variances[place * N_HEAD_LANES + block] += by
    head.covariance[place, place * N_HEAD_LANES + block] += by


@kernel
def apply_pending_updates(head, steps):
    """Subtract the pending rank-one updates from the covariance of every head lane, then clear them."""
    covariance, stride = head.covariance.reshape(-1), head.covariance.shape[1]
    pending, pending_dv = head.pending, head.pending_dv
    size = int(head.counts[0]) + 1
    width = (size + 1) // 2 * LANES
    for w in range(MAX_PENDING_UPDATES):
        for b in range(N_HEAD_LANES if w >= head.counts[1] else 0):
            pending_dv[w, b] = 0.0
    first, second, third, fourth = pending[0], pending[1], pending[2], pending[3]
    for i in range(size if head.counts[1] > 0.0 else 0):
        for w in range(MAX_PENDING_UPDATES):
            for b in range(N_HEAD_LANES):
                steps[w * LANES + b] = steps[w * LANES + N_HEAD_LANES + b] = (
                    pending[w, i * N_HEAD_LANES + b] * pending_dv[w, b]
                )
        of_first, of_second = load(steps, 0), load(steps, LANES)
        of_third, of_fourth = load(steps, 2 * LANES), load(steps, 3 * LANES)
        for at in range(i // 2 * LANES, width, LANES):
            two = of_first * load(first, at) + of_second * load(second, at)
            more = of_third * load(third, at) + of_fourth * load(fourth, at)
            place = i * stride + at
            store(covariance, place, load(covariance, place) - (two + more))
    pending[:] = 0.0
    pending_dv[:] = 0.0
    head.counts[1] = 0.0


@inlined
def _set(covariance, i, j, block, value):
    covariance[i, j * N_HEAD_LANES + block] = value
    covariance[j, i * N_HEAD_LANES + block] = value


def drop_correlations(head: HeadState, block: int) -> None:
    """Reset one lane's covariance, no longer positive by rounding, to the diagonal of its clipped variances."""
    places = int(head.counts[0]) + 1
    widest = np.append(WIDE, 1.0 / (head.prior[1:places] * head.prior_factors[block]))
    kept = head.variances[block : places * N_HEAD_LANES : N_HEAD_LANES]
    kept[:] = np.clip(kept, KEPT * widest, widest)
    head.covariance[:, block::N_HEAD_LANES] = 0.0
    head.covariance[:places, block : places * N_HEAD_LANES : N_HEAD_LANES] = np.diag(kept)


def learned_factor(head: HeadState, rows: float) -> float:
    """Return 1 / S of the first lane after one step of MacKay's towards the S of the largest evidence.

    S = (A + sum p w^2 / noise) / (A + sum gamma), gamma = 1 - p v the fraction of a weight that data determine, p its
    prior's precision for S = 1, noise = misfit / rows. A is SIGNAL_PRIOR: as if that many weights had shown S = 1.
    """
    lane = slice(N_HEAD_LANES, int(head.counts[0] + 1.0) * N_HEAD_LANES, N_HEAD_LANES)
    prior, weights, variances = head.prior[1 : int(head.counts[0]) + 1], head.weights[lane], head.variances[lane]
    determined = np.clip(1.0 - prior * head.prior_factors[0] * variances, 0.0, 1.0).sum()
    strength = (prior * weights * weights).sum() * rows / head.misfit[0]
    return float(np.clip((SIGNAL_PRIOR + determined) / (SIGNAL_PRIOR + strength), 1.0 / MAX_SIGNAL, MAX_SIGNAL))


def plan_swaps(head: HeadState, uses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (places to vacate, columns to take them): the head has the columns used most, with a bonus for its own."""
    inside = head.columns[: int(head.counts[0])]
    key = SWAP_RATIO * uses[inside, 0]
    others = np.flatnonzero(uses[:, 0] > key.min())
    others = others[~np.isin(others, inside)]
    out = np.lexsort((-inside, key))
    others = others[np.lexsort((others, -uses[others, 0]))][: len(out)]
    better = uses[others, 0] > key[out[: len(others)]]
    count = int(better.argmin()) if not better.all() else len(others)
    return out[:count] + 1, others[:count]


@kernel
def swap(head, place, old, new, middle_old, middle_new, state, prior_old, prior_new):
    """Replace column `old`, which leaves the head, by `new`; dense columns are centered outside of the head."""
    covariance, weights, size = head.covariance, head.weights, int(head.counts[0]) + 1
    for b in range(N_HEAD_LANES):
        at, factor = place * N_HEAD_LANES + b, head.prior_factors[b]
        own = max(covariance[place, at], KEPT / (factor * prior_old))
        # intercept + w x = (intercept + w middle) + w (x - middle)
        weights[b] += middle_old * weights[at]
        covariance[0, b] += 2.0 * middle_old * covariance[0, at] + middle_old * middle_old * own
        for j in range(1, size):
            between = covariance[min(place, j), max(place, j) * N_HEAD_LANES + b]
            if j != place:
                _set(covariance, 0, j, b, covariance[0, j * N_HEAD_LANES + b] + middle_old * between)
            _set(covariance, place, j, b, 0.0)
        state[old, b], state[old, LANES + b] = weights[at], max(1.0 / own - factor * prior_old, 0.0)
        own = 1.0 / (factor * prior_new + state[new, LANES + b])
        weights[at], covariance[place, at] = state[new, b], own
        weights[b] -= middle_new * weights[at]
        covariance[0, b] += middle_new * middle_new * own
        _set(covariance, 0, place, b, -middle_new * own)
        state[new, b] = state[new, LANES + b] = 0.0
    head.columns[place - 1], head.prior[place] = new, prior_new


@kernel
def renew_priors(head, priors, prior_factors, cov_x, across, steps):
    """Update the prior in each place, as if its weight had been observed to be 0, with more or less precision.

    The misfit changes by what that observation adds to it or takes away. In lanes whose weights walk, a prior may
    become narrower but not wider: what would be removed may be forgotten.
    """
    size = int(head.counts[0]) + 1
    mean_step, pending_dv = zeros(N_HEAD_LANES, np.float64), zeros(N_HEAD_LANES, np.float64)
    places, values = zeros(1, np.int64), zeros(1, np.float64)
    values[0] = 1.0
    for place in range(1, size):
        places[0] = place
        covariance_times_row(head, places, values, 1, 0.0, cov_x, across)
        for b in range(N_HEAD_LANES):
            more = priors[place] * prior_factors[b] - head.prior[place] * head.prior_factors[b]
            left = 1.0 + more * cov_x[place * N_HEAD_LANES + b]
            pending_dv[b] = 0.0 if (head.walk[b] > 0.0 and more < 0.0) or left < LEFT else more / left
            mean_step[b] = -pending_dv[b] * head.weights[place * N_HEAD_LANES + b]
        head.misfit[0] -= mean_step[0] * head.weights[place * N_HEAD_LANES]
        queue_update(head, cov_x, mean_step, pending_dv, steps)
        head.prior[place] = priors[place]
    head.prior_factors[:] = prior_factors
    apply_pending_updates(head, steps)
    for i in range(size):
        for b in range(N_HEAD_LANES):
            head.variances[i * N_HEAD_LANES + b] = head.covariance[i, i * N_HEAD_LANES + b]
