"""The combination on top of the bank's lanes, in three levels: fixed share, two stackers, fixed share.

It reads what the lanes said of each row (`lanes`) and tells them nothing. The equations are in the docstring of
`learner`. All of it is small, dense and in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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


class Combination(NamedTuple):
    """The outputs of all lanes and what was learned of them, as kernels take it.

    Slots of a stacker's coefficients: b, A, then one for each output. What is kept of outputs has the same slots.
    """

    lane_of: np.ndarray  # the lane of each output
    knows: np.ndarray  # of each slot, whether the lane knows the variance of what it says
    output_spread: np.ndarray  # C8 kp
    kept: np.ndarray  # 1; 0 for slots of no output, or of one that narrowing has dropped
    shares: np.ndarray  # w
    final_shares: np.ndarray  # of the mixture and the stackers, in the third level
    stacker_prior: np.ndarray  # the diagonal of S0
    stacker_mean: np.ndarray  # a row for each stacker
    stacker_covariance: np.ndarray
    # Losses of outputs and finals, and the products of probabilities that were not yet added to them.
    losses: np.ndarray
    damping: np.ndarray  # how much more an output is damped than the score is, lately; less 1

    @property
    def slots(self) -> slice:
        return slice(2, 2 + len(self.lane_of))


@njit(forceinline=True, error_model="numpy")
def _logit_and_chances(mean, spread, kept, zeros):
    """What an output says: its logit, and the probabilities of both labels."""
    logit = mean / sqrt(spread + 1.0)
    logit = max(min(logit, SUREST), -SUREST) * like(kept, mean)
    e = exp2_within(logit * LOG2E)
    negative = 1.0 / (e + 1.0)
    return logit, like(e * negative, zeros), like(negative, zeros)


@njit(forceinline=True, error_model="numpy")
def _stacked_evidence(y, mean, spread, against, in_favour, c):
    """What a label tells a stacker whose score is N(mean, spread): its step, and how much the covariance falls."""
    g = 1.0 / (1.0 + C8 * spread)
    if c > 1.0:
        slope, curvature = heavy_evidence(y * mean * math.sqrt(g), g * spread, c)
    else:
        slope, curvature = c * against, c * against * in_favour
    fall = g * curvature
    return y * math.sqrt(g) * slope, min(fall, 2.0 * fall / (1.0 + 2.0 * spread * fall))


@njit(cache=True, nogil=True, error_model="numpy")
def combine(said, signs, weights, into, first, last, examples, probability, score_mean, score_variance):
    """Predict rows from `first` to `last`, learn from those whose weight is not 0. `into` is a `Combination`.

    One function, because helpers that take arrays count their references in every row: with fixed share in one,
    examples of other weights than 1 took 9 to 23 % longer.
    """
    shares, kept, final_shares = into.shares, into.kept, into.final_shares
    stacker_mean, stacker_covariance = into.stacker_mean.reshape(-1), into.stacker_covariance.reshape(-1)
    summed, products, damping = into.losses[0], into.losses[1], into.damping
    lane_of, knows, output_spread = into.lane_of, into.knows, into.output_spread
    n_stackers, n_outputs, room = into.stacker_mean.shape[0], lane_of.size, shares.size
    width, n_finals, told = said.shape[2], 1 + n_stackers, said.reshape(-1)
    # One row's scratch.
    outputs, slots, finals = np.zeros((3, room), said.dtype), np.zeros((3, room)), np.zeros((3, n_finals))
    output_m, output_s, z = outputs[0], outputs[1], outputs[2]
    f, is_b, is_a, along = slots[0], slots[1], slots[2], np.zeros(n_stackers * room)
    logits, stacked_m, stacked_s = finals[0], finals[1], finals[2]
    # Chances of a positive label, then those of a negative one.
    chances, final_chances = np.zeros(2 * room), np.zeros(2 * n_finals)
    share_floor = kept / kept.sum()
    is_b[0], is_a[1] = 1.0, 1.0
    zeros = fill(load(f, 0), 0.0)
    for row in range(first, last):
        c = np.float64(weights[row])

        # --- first level
        here = row * 2 * width
        for o in range(n_outputs):
            output_m[2 + o], output_s[2 + o] = told[here + lane_of[o]], told[here + width + lane_of[o]]
        sum_plus = sum_minus = zeros
        for at in range(0, room, LANES):
            spread = load(output_s, at) * load(output_spread, at)
            logit, positive, negative = _logit_and_chances(load(output_m, at), spread, load(kept, at), zeros)
            share = load(shares, at)
            sum_plus, sum_minus = sum_plus + share * positive, sum_minus + share * negative
            store(z, at, logit)
            store(chances, at, positive)
            store(chances, room + at, negative)
        mixed_plus, mixed_minus = total(sum_plus), total(sum_minus)
        mixed = math.log(mixed_plus / mixed_minus)
        logits[0] = mixed
        final_chances[0] = mixed_plus / (mixed_plus + mixed_minus)
        final_chances[n_finals] = mixed_minus / (mixed_plus + mixed_minus)

        # --- second level
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
            final_chances[n_finals + 1 + j] = 1.0 / (1.0 + e)
            final_chances[1 + j] = e * final_chances[n_finals + 1 + j]

        # --- third level
        sure_plus = sure_minus = 0.0
        for j in range(n_finals):
            sure_plus += final_shares[j] * final_chances[j]
            sure_minus += final_shares[j] * final_chances[n_finals + j]
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
        for j in range(n_finals):
            center += final_shares[j] * logits[j]
        for j in range(n_finals):
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
        positive = y > 0.0
        mixed_chance = mixed_plus if positive else mixed_minus
        bank_chance = (sure_plus if positive else sure_minus) / (sure_plus + sure_minus)
        label, final_label = (0, 0) if positive else (room, n_finals)  # where the chances of the label begin
        if c == 1.0:
            whole = (1.0 - alpha) / mixed_chance
            low = False
            for at in range(0, room, LANES):
                of_label = load(chances, label + at)
                store(shares, at, load(shares, at) * of_label * whole + load(share_floor, at) * alpha)
                product = load(products, at) * of_label
                store(products, at, product)
                low |= any_above(1e-250 - product, 0.0)
            products[room] *= bank_chance
            low |= products[room] < 1e-250
            for j in range(n_finals):
                products[room + 1 + j] *= final_chances[final_label + j]
                low |= products[room + 1 + j] < 1e-250
            if low:
                for k in range(room + LANES):
                    summed[k] -= math.log(products[k])
                    products[k] = 1.0
            whole = 0.0
            for j in range(n_finals):
                final_shares[j] *= final_chances[final_label + j]
                whole += final_shares[j]
            for j in range(n_finals):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / n_finals
        else:
            summed[room] -= c * math.log(bank_chance)
            best = -np.inf
            for o in range(2, n_outputs + 2):
                if kept[o] > 0.0:
                    likely = math.log(chances[label + o])
                    summed[o] -= c * likely
                    f[o] = math.log(shares[o]) + c * likely  # f is free by now
                    best = max(best, f[o])
            whole = 0.0
            for o in range(2, n_outputs + 2):
                shares[o] = math.exp(f[o] - best) if kept[o] > 0.0 else 0.0
                whole += shares[o]
            for o in range(2, n_outputs + 2):
                shares[o] = (1.0 - alpha) * shares[o] / whole + alpha * share_floor[o]
            best = -np.inf
            for j in range(n_finals):
                likely = math.log(final_chances[final_label + j])
                summed[room + 1 + j] -= c * likely
                logits[j] = math.log(final_shares[j]) + c * likely  # so are logits
                best = max(best, logits[j])
            whole = 0.0
            for j in range(n_finals):
                final_shares[j] = math.exp(logits[j] - best)
                whole += final_shares[j]
            for j in range(n_finals):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / n_finals
        for j in range(n_stackers):
            in_favour, against = final_chances[final_label + 1 + j], final_chances[n_finals - final_label + 1 + j]
            step, fall = _stacked_evidence(y, stacked_m[j], stacked_s[j], against, in_favour, c)
            root = math.sqrt(fall)
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
                    stacker_covariance[here + k] += STACKER_MEMORY * j * into.stacker_prior[k]
