"""Prior variances that a lane learns, one per group of features, and lanes whose evidence fades over time.

A group is a column or a namespace, by its index in the batch (`Batch.groups`). The prior precision of group g is
recomputed after every 16th example, by empirical Bayes as in MacKay, in the units of the lane:

    A_g += d (2 mu + d)      N_g += P_g v min(h, 1/2)      d = x v dm, h = x^2 v dv, at each use of a feature
    P_g = (2 + max(N_g, 0)) / (2 v0 + max(A_g, 0)), from 1e-3 to 1e4

A_g is the sum of squared weights, N_g the number of weights that are well determined, by how far their variances have
fallen. When P_g moves, eta = mu/v stays, since that is what the examples have contributed: so eta is stored instead of
mu. Shards of a round, whose rows count several times, leave P_g as it is: A_g and N_g grow by the joined weights.

A lane that fades stores the gain G = f G' of each precision as G', f = (1 - fading)^t for all features: only f changes
from one example to the next. Before rows are learned, a factor that has become small is folded into G', in powers of
two, which changes no bit. A shard of a round may change only the features that it sees, so it does not fold.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES

GROUPS, EVERY = 256, 16
# Statistics of each group: A, N, P. A precision of 0 stands for the initial one.
PRIOR_SQUARES, PRIOR_COUNT, PRIOR_PRECISION_P = range(3)
# The number of weights that the prior counts as, and the bounds of P.
PRIOR_PSEUDO_COUNT, MIN_PRIOR_PRECISION, MAX_PRIOR_PRECISION = 2.0, 1e-3, 1e4
# Below FADE_REBASE_THRESHOLD a factor is folded into G'; in a shard, where it cannot be, it is no less than MIN_FADE.
FADE_REBASE_THRESHOLD, MIN_FADE = 2.0**-60, 2.0**-100


@inlined
def store_groups(stored_groups, state, places, indices, groups, start, length):
    """Store the groups of features that are learned for the first time."""
    for k in range(np.uint64(length)):
        if state[np.uint64(places[k] + LANES)] == 0:
            stored_groups[np.uint64(indices[np.uint64(start) + k])] = groups[np.uint64(start) + k]


@kernel
def new_pending_sums(kept, numbers, width, n_groups):
    """Return the sums not yet added to A and N, laid out across all lanes; `numbers`: lanes that learn priors."""
    fresh = zeros(n_groups * 2 * width, kept.dtype)
    for j in range(numbers.size):
        for group in range(n_groups):
            place = _place_of(group, numbers[j], width)
            fresh[place], fresh[place + LANES] = kept[j, group, PRIOR_SQUARES], kept[j, group, PRIOR_COUNT]
    return fresh


@kernel
def store_pending_sums(kept, fresh, numbers, n_groups):
    """Store `fresh` back in `kept`: the inverse of `pending_sums`."""
    for j in range(numbers.size):
        for group in range(n_groups):
            place = _place_of(group, numbers[j], fresh.size // (2 * n_groups))
            kept[j, group, PRIOR_SQUARES], kept[j, group, PRIOR_COUNT] = fresh[place], fresh[place + LANES]


@inlined
def _place_of(group, lane, width):
    return 2 * (np.int64(group) * width + lane // LANES * LANES) + lane % LANES


@inlined
def update_priors(priors, fresh, numbers, held, starts, n_groups):
    """Add and clear the fresh sums, and recompute all priors; `starts` has the initial precision of each lane."""
    for j in range(numbers.size):
        lane, width = numbers[j], held.shape[1]
        more = PRIOR_PSEUDO_COUNT / starts[lane]
        for group in range(np.uint64(n_groups)):
            place = np.uint64(_place_of(group, lane, width))
            squares = priors[j, PRIOR_SQUARES, group] + fresh[place]
            count = priors[j, PRIOR_COUNT, group] + fresh[place + np.uint64(LANES)] * np.float64(held[group, lane])
            p = (PRIOR_PSEUDO_COUNT + max(count, 0.0)) / (more + max(squares, 0.0))
            p = min(max(p, MIN_PRIOR_PRECISION), MAX_PRIOR_PRECISION)
            priors[j, PRIOR_SQUARES, group] = squares
            priors[j, PRIOR_COUNT, group] = count
            priors[j, PRIOR_PRECISION_P, group] = p
            held[group, lane] = p
            fresh[place] = fresh[place + np.uint64(LANES)] = 0.0


@kernel
def n_groups_seen(fresh, priors, groups, start, stop):
    """Return one more than the highest group that has statistics or occurs in `groups[start:stop]`."""
    last = 0
    for k in range(start, stop if groups.size else start):
        last = max(last, np.int64(groups[k]))
    for group in range(GROUPS - 1, last, -1):
        if priors[0, PRIOR_PRECISION_P, group] != 0.0 or fresh[0, group, PRIOR_COUNT] != 0.0:
            return group + 1
    return last + 1


@kernel
def compute_priors(priors, numbers, held, starts):
    """Run `update_priors` without fresh sums."""
    fresh = zeros(2 * held.size, held.dtype)
    update_priors(priors, fresh, numbers, held, starts, held.shape[0])


def fill_prior_precisions(held: np.ndarray, fixed: np.ndarray, priors: np.ndarray, numbers: np.ndarray) -> None:
    """Fill the table of precisions that kernels read, from the initial ones and those learned."""
    held[:] = fixed
    learned = np.where(
        priors[:, PRIOR_PRECISION_P] > 0,
        np.clip(priors[:, PRIOR_PRECISION_P], MIN_PRIOR_PRECISION, MAX_PRIOR_PRECISION),
        fixed[numbers, None],
    )
    held[:, numbers] = learned.T


@inlined
def fade_lanes(fade, stays):
    """Advance the factors of fading lanes by one example."""
    for lane in range(stays.size):
        fade[lane] = max(fade[lane] * stays[lane], MIN_FADE)


@kernel
def rebase_fade(state, fade):
    """Multiply the stored gains of lanes whose factor is below FADE_REBASE_THRESHOLD by it, a power of two: exact."""
    for lane in range(fade.size):
        if fade[lane] < FADE_REBASE_THRESHOLD:
            for place in range(lane // LANES * 2 * LANES + LANES + lane % LANES, state.size, 2 * fade.size):
                if state[place] != 0:  # unseen features stay untouched
                    state[place] *= FADE_REBASE_THRESHOLD
