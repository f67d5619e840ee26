"""The head of the block lanes: the intercept and the columns used most, with a full covariance in each lane.

Place 0 is the intercept. The covariances of the four lanes lie side by side, so that a vector holds two columns of all
four. Only entries on and above the diagonal are kept up to date, in pairs of columns: in row i from column i on, or
from i - 1 if i is odd. Conditioning the matrices on a row is most of the bank's work, and most of that is loading and
storing them: so updates are kept pending, and DUE of them are applied at once (`work_in`). Until then

    covariance now = covariance - sum over pending rows of along along' dv
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, load, store

MOST = 128
DUE = 4
BLOCKS = LANES // 2  # lanes that have a head
WIDE = 1e6  # the prior variance of an intercept, in units of the noise
# A column in the head stays there unless another one is used this many times as often.
STAYS = 1.25
# A variance is at least KEPT times the sum of the terms it is made of, against rounding; if it is below LOST times that
# sum, the covariance is no longer positive.
KEPT, LOST = 1e-12, -1e-6
LEFT = 1e-6  # bound on the growth of a variance when its prior becomes wider


class HeadState(NamedTuple):
    """Joint state of the block lanes: intercept and head, as kernels take it."""

    walk: np.ndarray  # walk of each lane
    counts: np.ndarray  # places in use, without the intercept's; pending rows
    columns: np.ndarray  # the column in places 1, 2, ...
    prior: np.ndarray  # precision of the prior in each place; S is 1 in all block lanes
    weights: np.ndarray  # weights of place i in all lanes
    covariance: np.ndarray  # row i: covariances of places i and j in all lanes
    variances: np.ndarray  # up to date, pending rows included
    moments: np.ndarray  # weights and variances in one array
    waiting: np.ndarray  # `along` of each pending row
    falls: np.ndarray  # its dv in each lane

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the learned arrays, keyed by their names in the model file; rows are short: files omit zero rows."""
        return {
            "head": self.columns.reshape(1, -1),
            "places": self.counts.reshape(1, -1),
            "head priors": self.prior.reshape(1, -1),
            "head moments": self.moments.reshape(-1, 1),
            "covariance": self.covariance.reshape(-1, LANES),
            "waiting": self.waiting.reshape(-1, 2),
            "waiting falls": self.falls.reshape(1, -1),
        }


def new_head(n_features: int, has_intercept: bool, walk: list[float]) -> HeadState:
    room = min(MOST, n_features)
    places = (room + 2) // 2 * 2
    covariance, moments = np.zeros((places, places * BLOCKS)), np.zeros((2, places * BLOCKS))
    covariance[0, :BLOCKS] = moments[1, :BLOCKS] = WIDE * has_intercept
    return HeadState(
        walk=np.array(walk),
        counts=np.zeros(2),
        columns=np.zeros(room, np.int64),
        prior=np.zeros(places),
        weights=moments[0],
        covariance=covariance,
        variances=moments[1],
        moments=moments,
        waiting=np.zeros((DUE, places * BLOCKS)),
        falls=np.zeros((DUE, BLOCKS)),
    )


@inlined
def along_row(head, places, values, inside, intercept, along, across):
    """Compute `along`, the covariances of all places with a row's score: the matrices times (intercept, values)."""
    covariance, stride = head.covariance.reshape(-1), head.covariance.shape[1]
    width = (int(head.counts[0]) + 2) // 2 * LANES
    for at in range(0, width, LANES):
        store(along, at, load(covariance, at) * intercept)
    highest = 0
    for k in range(inside):
        highest = max(highest, places[k])
    for at in range(0, highest * LANES, LANES):
        store(across, at, load(covariance, 0) * 0.0)
    both_of = across[-LANES:]
    for k in range(inside):
        place, x = places[k], values[k]
        pair = place // 2 * 2
        for b in range(BLOCKS):
            both_of[b], both_of[BLOCKS + b] = (x, 0.0) if place == pair else (0.0, x)
        both = load(both_of, 0)
        for i in range(min(2, pair) // 2, pair):  # the row of the intercept is handled below
            store(across, i * LANES, load(across, i * LANES) + load(covariance, i * stride + pair * BLOCKS) * both)
        at_row = place * stride
        for at in range(pair * BLOCKS, width, LANES):
            store(along, at, load(along, at) + load(covariance, at_row + at) * x)
        for b in range(BLOCKS if pair else 0):
            along[b] += x * covariance[place * BLOCKS + b]
    for i in range(1, highest):
        for b in range(BLOCKS):
            along[i * BLOCKS + b] += across[i * LANES + b] + across[i * LANES + BLOCKS + b]
    for w in range(int(head.counts[1])):
        waiting = head.waiting[w]
        for b in range(BLOCKS):
            told = waiting[b] * intercept
            for k in range(inside):
                told += waiting[places[k] * BLOCKS + b] * values[k]
            both_of[b] = both_of[BLOCKS + b] = told * head.falls[w, b]
        both = load(both_of, 0)
        for at in range(0, width, LANES):
            store(along, at, load(along, at) - load(waiting, at) * both)


@inlined
def look(head, places, values, inside, along, block):
    """Return mean and variance of the score of a row in the head of one lane, and the sum of the variance's terms.

    `along` comes from `along_row`.
    """
    weights, variances = head.weights, head.variances
    m, q, whole = weights[block], along[block], abs(variances[block])
    for k in range(inside):
        at, x = places[k] * BLOCKS + block, values[k]
        m, q = m + x * weights[at], q + x * along[at]
        whole += x * x * abs(variances[at])
    return m, q, whole


@inlined
def take_in(head, place, column, prior, x, along):
    """Add a column that was never used before to the head, in the next place."""
    head.counts[0] = place
    head.columns[place - 1], head.prior[place] = column, prior
    for block in range(BLOCKS):
        at = place * BLOCKS + block
        head.covariance[place, at] = head.variances[at] = 1.0 / prior
        along[at] = x / prior


@inlined
def condition(head, along, pull, falls, steps):
    """Condition the head of every lane: weights += along dm, covariance -= along along' dv, the latter kept pending."""
    weights, variances, waiting = head.weights, head.variances, head.waiting[int(head.counts[1])]
    size = int(head.counts[0]) + 1
    for i in range(size):
        for b in range(BLOCKS):
            at = i * BLOCKS + b
            weights[at] += along[at] * pull[b]
            variances[at] -= along[at] * along[at] * falls[b]
            waiting[at] = along[at]
    for b in range(BLOCKS):
        head.falls[int(head.counts[1]), b] = falls[b]
    head.counts[1] += 1.0
    if head.counts[1] == DUE:
        work_in(head, steps)


@inlined
def widen(head, place, block, by):
    """Add `by` to the variance of a place in one lane."""
    head.variances[place * BLOCKS + block] += by
    head.covariance[place, place * BLOCKS + block] += by


@kernel
def work_in(head, steps):
    """Subtract the pending rank-one updates from the covariance of every head lane, then clear them."""
    covariance, waiting, falls, stride = head.covariance.reshape(-1), head.waiting, head.falls, head.covariance.shape[1]
    size = int(head.counts[0]) + 1
    width = (size + 1) // 2 * LANES
    for w in range(DUE):
        for b in range(BLOCKS if w >= head.counts[1] else 0):
            falls[w, b] = 0.0
    first, second, third, fourth = waiting[0], waiting[1], waiting[2], waiting[3]
    for i in range(size if head.counts[1] > 0.0 else 0):
        for w in range(DUE):
            for b in range(BLOCKS):
                steps[w * LANES + b] = steps[w * LANES + BLOCKS + b] = waiting[w, i * BLOCKS + b] * falls[w, b]
        of_first, of_second = load(steps, 0), load(steps, LANES)
        of_third, of_fourth = load(steps, 2 * LANES), load(steps, 3 * LANES)
        for at in range(i // 2 * LANES, width, LANES):
            two = of_first * load(first, at) + of_second * load(second, at)
            more = of_third * load(third, at) + of_fourth * load(fourth, at)
            place = i * stride + at
            store(covariance, place, load(covariance, place) - (two + more))
    waiting[:] = 0.0
    falls[:] = 0.0
    head.counts[1] = 0.0


@inlined
def _set(covariance, i, j, block, value):
    covariance[i, j * BLOCKS + block] = value
    covariance[j, i * BLOCKS + block] = value


def drop_correlations(head: HeadState, block: int) -> None:
    """Reset one lane's covariance, no longer positive by rounding, to the diagonal of its clipped variances."""
    places = int(head.counts[0]) + 1
    widest = np.append(WIDE, 1.0 / head.prior[1:places])
    kept = head.variances[block : places * BLOCKS : BLOCKS]
    kept[:] = np.clip(kept, KEPT * widest, widest)
    head.covariance[:, block::BLOCKS] = 0.0
    head.covariance[:places, block : places * BLOCKS : BLOCKS] = np.diag(kept)


def swaps(head: HeadState, uses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (places to vacate, columns to take them): the head has the columns used most, with a bonus for its own."""
    inside = head.columns[: int(head.counts[0])]
    key = STAYS * uses[inside, 0]
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
    for b in range(BLOCKS):
        at = place * BLOCKS + b
        own = max(covariance[place, at], KEPT / prior_old)
        # intercept + w x = (intercept + w middle) + w (x - middle)
        weights[b] += middle_old * weights[at]
        covariance[0, b] += 2.0 * middle_old * covariance[0, at] + middle_old * middle_old * own
        for j in range(1, size):
            between = covariance[min(place, j), max(place, j) * BLOCKS + b]
            if j != place:
                _set(covariance, 0, j, b, covariance[0, j * BLOCKS + b] + middle_old * between)
            _set(covariance, place, j, b, 0.0)
        state[old, b], state[old, LANES + b] = weights[at], max(1.0 / own - prior_old, 0.0)
        own = 1.0 / (prior_new + state[new, LANES + b])
        weights[at], covariance[place, at] = state[new, b], own
        weights[b] -= middle_new * weights[at]
        covariance[0, b] += middle_new * middle_new * own
        _set(covariance, 0, place, b, -middle_new * own)
        state[new, b] = state[new, LANES + b] = 0.0
    head.columns[place - 1], head.prior[place] = new, prior_new


@kernel
def renew_priors(head, priors, along, across, steps):
    """Update the prior in each place, as if its weight had been observed to be 0, with more or less precision.

    In lanes whose weights walk, a prior may become narrower but not wider: what would be removed may be forgotten.
    """
    size = int(head.counts[0]) + 1
    pull, falls = zeros(BLOCKS, np.float64), zeros(BLOCKS, np.float64)
    places, values = zeros(1, np.int64), zeros(1, np.float64)
    values[0] = 1.0
    for place in range(1, size):
        more = priors[place] - head.prior[place]
        places[0] = place
        along_row(head, places, values, 1, 0.0, along, across)
        for b in range(BLOCKS):
            left = 1.0 + more * along[place * BLOCKS + b]
            falls[b] = 0.0 if (head.walk[b] > 0.0 and more < 0.0) or left < LEFT else more / left
            pull[b] = -falls[b] * head.weights[place * BLOCKS + b]
        condition(head, along, pull, falls, steps)
        head.prior[place] = priors[place]
    work_in(head, steps)
    for i in range(size):
        for b in range(BLOCKS):
            head.variances[i * BLOCKS + b] = head.covariance[i, i * BLOCKS + b]
