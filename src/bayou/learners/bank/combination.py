"""The combination on top of the bank's lanes, in three storeys: fixed share, two stackers, fixed share.

It reads what the lanes said of each row (`bank_lanes`) and tells them nothing. The equations are in the docstring of
`bank`. All of it is small, dense and in float64.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from bayou.core.links import C8
from bayou.kernels.exponential import exp2_within
from bayou.kernels.vector import LANES, any_above, fill, like, load, sqrt, store, total
from bayou.learners.bank.lanes import LOG2E, heavy_evidence

# An output says no more than this, so that no product of probabilities vanishes: S(-30) is 1e-13. To the stackers it
# says no more than that: beyond, a larger logit tells nothing but pulls the harder.
SUREST, SUREST_STACKED = 30.0, 15.0
STACKER_PRIOR, STACKER_SPREAD, STACKER_MEMORY = 0.01, 10.0, 1e-4
# The mean of how far outputs are damped is that of about a thousand examples; none counts for more than this.
DAMPED_MEMORY, DAMPED_MOST = 1e-3, 100.0


@njit(cache=True, nogil=True, error_model="numpy")
def combine(
    said,
    signs,
    weights,
    gaussian,
    lane_of,
    output_spread,
    shares,
    kept,
    final_shares,
    stacker_prior,
    n_stackers,
    stacker_mean,
    stacker_covariance,
    losses,
    damping,
    first,
    last,
    examples,
    probability,
    score_mean,
    score_variance,
):
    """Predict rows from `first` to `last`, learn from those whose weight is not 0.

    gaussian: of each lane, whether it knows the variance of what it says.
    """
    width = gaussian.size
    room = shares.size
    n_outputs = lane_of.size
    summed, products = losses[0], losses[1]
    # One row's scratch.
    output_m, output_s, z = np.zeros(room, said.dtype), np.zeros(room, said.dtype), np.zeros(room, said.dtype)
    plus, minus, f, along = np.zeros(room), np.zeros(room), np.zeros(room), np.zeros(n_stackers * room)
    stacked_m, stacked_s = np.zeros(n_stackers), np.zeros(n_stackers)
    logits, finals_plus, finals_minus = np.zeros(1 + n_stackers), np.zeros(1 + n_stackers), np.zeros(1 + n_stackers)
    chance = np.zeros(room)
    share_floor = kept / kept.sum()
    knows = np.zeros(room)
    for o in range(n_outputs):
        knows[2 + o] = gaussian[lane_of[o]]
    is_b, is_a = np.zeros(room), np.zeros(room)
    is_b[0], is_a[1] = 1.0, 1.0
    zero = fill(load(z, 0), 0.0)
    zeros = fill(load(f, 0), 0.0)
    for row in range(first, last):
        c = np.float64(weights[row])

        # --- first storey
        here = row * 2 * width
        for o in range(n_outputs):
            output_m[2 + o], output_s[2 + o] = said[here + lane_of[o]], said[here + width + lane_of[o]]
        sum_plus = sum_minus = zeros
        for at in range(0, room, LANES):
            logit = load(output_m, at) / sqrt(load(output_s, at) * load(output_spread, at) + 1.0)
            logit = max(min(logit, SUREST), -SUREST) * like(load(kept, at), zero)
            e = exp2_within(logit * LOG2E)
            negative = 1.0 / (e + 1.0)
            positive, negative = like(e * negative, zeros), like(negative, zeros)
            share = load(shares, at)
            sum_plus, sum_minus = sum_plus + share * positive, sum_minus + share * negative
            store(z, at, logit)
            store(plus, at, positive)
            store(minus, at, negative)
        mixed_plus, mixed_minus = total(sum_plus), total(sum_minus)
        mixed = math.log(mixed_plus / mixed_minus)
        logits[0] = mixed
        finals_plus[0] = mixed_plus / (mixed_plus + mixed_minus)
        finals_minus[0] = mixed_minus / (mixed_plus + mixed_minus)

        # --- second storey
        if n_stackers:
            offset = min(max(mixed, -SUREST_STACKED), SUREST_STACKED)
            for at in range(0, room, LANES):
                logit = like(max(min(load(z, at), SUREST_STACKED), -SUREST_STACKED), zeros)
                store(f, at, (logit - offset) * load(kept, at) + load(is_b, at) + load(is_a, at) * offset)
        for j in range(n_stackers):
            score, spread = zeros, zeros
            for at in range(0, room, LANES):
                product = zeros
                for k in range(n_outputs + 2):
                    product = product + f[k] * load(stacker_covariance, (j * room + k) * room + at)
                store(along, j * room + at, product)
                score = score + load(stacker_mean, j * room + at) * load(f, at)
                spread = spread + product * load(f, at)
            stacked_m[j] = offset + total(score)
            stacked_s[j] = max(total(spread), 0.0)
            logit = stacked_m[j] / math.sqrt(1.0 + C8 * stacked_s[j])
            logits[1 + j] = min(max(logit, -SUREST), SUREST)
            e = math.exp(logits[1 + j])
            finals_minus[1 + j] = 1.0 / (1.0 + e)
            finals_plus[1 + j] = e * finals_minus[1 + j]

        # --- third storey
        sure_plus = sure_minus = 0.0
        for j in range(1 + n_stackers):
            sure_plus += final_shares[j] * finals_plus[j]
            sure_minus += final_shares[j] * finals_minus[j]
        probability[row] = sure_plus / (sure_plus + sure_minus)
        # --- the score: own variances and disagreement of the outputs, then of the finals
        sum_known = sum_own = sum_center = zeros
        for at in range(0, room, LANES):
            share = load(shares, at)
            known = share * load(knows, at)
            sum_known, sum_own = sum_known + known, sum_own + known * like(load(output_s, at), zeros)
            sum_center = sum_center + share * like(load(z, at), zeros)
        known, center = total(sum_known), total(sum_center)
        apart = zeros
        for at in range(0, room, LANES):
            distance = like(load(z, at), zeros) - center
            apart = apart + load(shares, at) * distance * distance
        variance = (total(sum_own) / known if known > 0.0 else 0.0) + final_shares[0] * total(apart)
        center = 0.0
        for j in range(1 + n_stackers):
            center += final_shares[j] * logits[j]
        for j in range(1 + n_stackers):
            variance += final_shares[j] * (logits[j] - center) ** 2
            if j > 0:
                variance += final_shares[j] * stacked_s[j - 1]
        score_variance[row] = variance
        score_mean[row] = math.log(sure_plus / sure_minus) * math.sqrt(1.0 + C8 * variance)
        if c == 0.0:
            continue

        # --- what the label tells the combination
        y = np.float64(signs[row])
        alpha = max(1.0 / (examples + 2.0), 1e-5)
        examples += 1
        latest = max(1.0 / examples, DAMPED_MEMORY)
        for at in range(0, room, LANES):
            own = like(load(output_s, at) * load(output_spread, at), zeros) + 1.0
            ratio = max(min(sqrt(own / (zeros + (1.0 + C8 * variance))), DAMPED_MOST), 1.0 / DAMPED_MOST) - 1.0
            so_far = load(damping, at)
            store(damping, at, so_far + (ratio - so_far) * latest * load(kept, at))
        if y > 0.0:
            mixed_chance, bank_chance = mixed_plus, sure_plus / (sure_plus + sure_minus)
            for at in range(0, room, LANES):
                store(chance, at, load(plus, at))
            for j in range(1 + n_stackers):
                logits[j] = finals_plus[j]
        else:
            mixed_chance, bank_chance = mixed_minus, sure_minus / (sure_plus + sure_minus)
            for at in range(0, room, LANES):
                store(chance, at, load(minus, at))
            for j in range(1 + n_stackers):
                logits[j] = finals_minus[j]
        if c == 1.0:
            whole = (1.0 - alpha) / mixed_chance
            low = False
            for at in range(0, room, LANES):
                of_label = load(chance, at)
                store(shares, at, load(shares, at) * of_label * whole + load(share_floor, at) * alpha)
                product = load(products, at) * of_label
                store(products, at, product)
                low |= any_above(1e-250 - product, 0.0)
            products[room] *= bank_chance
            low |= products[room] < 1e-250
            for j in range(1 + n_stackers):
                products[room + 1 + j] *= logits[j]
                low |= products[room + 1 + j] < 1e-250
            if low:
                for k in range(room + LANES):
                    summed[k] -= math.log(products[k])
                    products[k] = 1.0
            whole = 0.0
            for j in range(1 + n_stackers):
                final_shares[j] *= logits[j]
                whole += final_shares[j]
            for j in range(1 + n_stackers):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / (1 + n_stackers)
        else:
            summed[room] -= c * math.log(bank_chance)
            best = -np.inf
            for o in range(2, n_outputs + 2):
                if kept[o] > 0.0:
                    likely = math.log(chance[o])
                    summed[o] -= c * likely
                    chance[o] = math.log(shares[o]) + c * likely
                    best = max(best, chance[o])
            whole = 0.0
            for o in range(2, n_outputs + 2):
                shares[o] = math.exp(chance[o] - best) if kept[o] > 0.0 else 0.0
                whole += shares[o]
            for o in range(2, n_outputs + 2):
                shares[o] = (1.0 - alpha) * shares[o] / whole + alpha * share_floor[o]
            best = -np.inf
            for j in range(1 + n_stackers):
                likely = math.log(logits[j])
                summed[room + 1 + j] -= c * likely
                logits[j] = math.log(final_shares[j]) + c * likely
                best = max(best, logits[j])
            whole = 0.0
            for j in range(1 + n_stackers):
                final_shares[j] = math.exp(logits[j] - best)
                whole += final_shares[j]
            for j in range(1 + n_stackers):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / (1 + n_stackers)
        for j in range(n_stackers):
            spread = stacked_s[j]
            g = 1.0 / (1.0 + C8 * spread)
            against = finals_minus[1 + j] if y > 0.0 else finals_plus[1 + j]
            in_favour = finals_plus[1 + j] if y > 0.0 else finals_minus[1 + j]
            if c > 1.0:
                slope, curvature = heavy_evidence(y * stacked_m[j] * math.sqrt(g), g * spread, c)
            else:
                slope, curvature = c * against, c * against * in_favour
            step, fall = y * math.sqrt(g) * slope, g * curvature
            root = math.sqrt(min(fall, 2.0 * fall / (1.0 + 2.0 * spread * fall)))
            stay = 1.0 - STACKER_MEMORY * j  # the second one forgets
            for at in range(j * room, (j + 1) * room, LANES):
                product = load(along, at)
                store(stacker_mean, at, load(stacker_mean, at) + product * step)
                store(along, at, product * root)
            for k in range(n_outputs + 2):
                here = (j * room + k) * room
                for at in range(0, room, LANES):
                    fallen = along[j * room + k] * load(along, j * room + at)
                    store(stacker_covariance, here + at, (load(stacker_covariance, here + at) - fallen) * stay)
                if j > 0:
                    stacker_covariance[here + k] += STACKER_MEMORY * j * stacker_prior[k]
