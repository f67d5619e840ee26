"""Shares of a mixture: fixed share while a stream continues, Bayes' rule for a model that has stopped learning.

    fixed share   w_k <- (1 - a) w_k p_k(y) / P(y) + a w0_k,   a = max(1/(t+1), MIN_LEAK) at example t
    Bayes         w_k ~ exp(-L_k), L_k the summed loss: stored as losses, never as shares

The bank keeps a vectorised kernel of its own for fixed share (`bank.combination_kernels`), of whole lines of outputs.

Fixed share: Herbster and Warmuth 1998.
"""

from __future__ import annotations

from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, broadcast, load, max_lane, store, sum_lanes, where_above

# The smallest fraction of all shares that is redistributed after an example.
MIN_LEAK = 1e-5
# The best output with a variance has a share of at least exp(-MAX_VARIANCE_LAG), which changes no probability.
MAX_VARIANCE_LAG = 230.0
# Outputs whose loss lags the best by more than this get share 0 instead of a denormal.
MAX_LAG = 690.0
# Stands for minus infinity.
INFINITE_LOSS = 1e300


@kernel(forceinline=True)
def leak_after(examples):
    """Return the fraction of all shares that is redistributed after an example with `examples` before it."""
    return max(1.0 / (examples + 2.0), MIN_LEAK)


@inlined
def set_shares(shares, masses, keep, leak, initial):
    """Write `masses` as shares: normalized and times `keep`, plus `leak` times the `initial` shares."""
    total = 0.0
    for k in range(shares.size):
        total += masses[k]
    for k in range(shares.size):
        shares[k] = keep * masses[k] / total + leak * initial[k]


@inlined
def shares_from_losses(losses, losses_start, kept, knows, shares, shares_start, n_slots):
    """Write the shares that Bayes' rule gives for summed losses; outputs that are not `kept` have none.

    Outputs with a variance (`knows`) keep a share however far others are ahead, so that there is a variance.
    """
    zero = broadcast(load(losses, 0), 0.0)
    none = zero - INFINITE_LOSS
    largest = largest_known = none
    for slot in range(0, n_slots, LANES):
        gained = where_above(load(kept, slot), 0.0, load(losses, losses_start + slot) * -1.0, none)
        largest = max(largest, gained)
        largest_known = max(largest_known, where_above(load(knows, slot), 0.0, gained, none))
    best, best_known = max_lane(largest), max_lane(largest_known)
    head_start = max(best - best_known - MAX_VARIANCE_LAG, 0.0) if best_known > -INFINITE_LOSS else 0.0
    total = zero
    for slot in range(0, n_slots, LANES):
        lag = where_above(load(knows, slot), 0.0, zero + head_start, zero) - load(losses, losses_start + slot) - best
        share = where_above(lag, -MAX_LAG, exp2(lag * LOG2E), zero)
        share = where_above(load(kept, slot), 0.0, share, zero)
        total = total + share
        store(shares, shares_start + slot, share)
    scale = 1.0 / sum_lanes(total)
    for slot in range(0, n_slots, LANES):
        store(shares, shares_start + slot, load(shares, shares_start + slot) * scale)
