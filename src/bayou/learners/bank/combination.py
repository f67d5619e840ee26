"""The combination on top of the bank's lanes, in three levels: fixed share, two stackers, fixed share.

It reads what the lanes said of each row (`lanes`) and tells them nothing. The equations are in the docstring of
`learner`. All of it is small, dense and in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import exp2_within
from bayou.kernels.inlining import inlined
from bayou.kernels.room import zeros
from bayou.kernels.vector import LANES, any_above, fill, like, load, padded, sqrt, store, total
from bayou.learners.bank.lanes import RATE, Lanes
from bayou.learners.bank.steps import LOG2E, heavy_evidence

# An output says no more than this, so that no product of probabilities vanishes: S(-30) is 1e-13. To the stackers it
# says no more than that: beyond, a larger logit tells nothing but pulls the harder.
SUREST, SUREST_STACKED = 30.0, 15.0
STACKER_PRIOR, STACKER_SPREAD, STACKER_MEMORY = 0.01, 10.0, 1e-4
# The mean of how far outputs are damped is that of about a thousand examples; none counts for more than this.
DAMPED_MEMORY, DAMPED_MOST = 1e-3, 100.0
SCORE = 0


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
    # How much more an output is damped than the score is, lately; less 1. The combination for later rows has apart how
    # much an output is damped, and in slot SCORE how much the score is.
    damping: np.ndarray

    @property
    def slots(self) -> slice:
        return slice(2, 2 + len(self.lane_of))

    def arrays(self) -> dict[str, np.ndarray]:
        """What was learned, by the names that files have for it."""
        return {
            "shares": self.shares,
            "kept": self.kept,
            "final shares": self.final_shares,
            "stacker means": self.stacker_mean,
            "stacker covariances": self.stacker_covariance,
            "losses": self.losses,
            "damping": self.damping,
        }


def new_combination(lanes: Lanes, chosen: list[tuple[int, float]], n_stackers: int) -> Combination:
    """Of some outputs, each a lane and its kp, before anything was learned."""
    outputs = len(chosen)
    room = padded(outputs + 2)
    slots = slice(2, 2 + outputs)
    lane_of = np.array([lane for lane, _ in chosen])
    knows, kept, output_spread = np.zeros(room), np.zeros(room), np.zeros(room, lanes.state.dtype)
    knows[slots] = lanes.settings[RATE, lane_of] == 0
    kept[slots] = 1.0
    output_spread[slots] = [C8 * temper for _, temper in chosen]
    stacker_prior = kept * (STACKER_SPREAD / outputs)
    stacker_prior[:2] = STACKER_PRIOR if lanes.has_intercept else 0.0, STACKER_PRIOR
    losses = np.zeros((2, room + LANES))
    losses[1] = 1.0
    return Combination(
        lane_of=lane_of,
        knows=knows,
        output_spread=output_spread,
        kept=kept,
        shares=kept / outputs,
        final_shares=np.full(1 + n_stackers, 1.0 / (1 + n_stackers)),
        stacker_prior=stacker_prior,
        stacker_mean=np.zeros((n_stackers, room)),
        stacker_covariance=np.tile(np.diag(stacker_prior), (n_stackers, 1, 1)),
        losses=losses,
        damping=np.zeros(room),
    )


def drop_outputs(combination: Combination, slots: np.ndarray) -> None:
    """The outputs of some slots as if they had never been: the stackers conditioned on c_k = 0."""
    for slot in slots.tolist():
        combination.kept[slot] = 0.0
        for mean, covariance in zip(combination.stacker_mean, combination.stacker_covariance, strict=True):
            gain = covariance[:, slot] / covariance[slot, slot]
            mean -= gain * mean[slot]
            covariance -= np.outer(gain, covariance[slot])
            mean[slot] = covariance[slot] = covariance[:, slot] = 0.0
    combination.shares[:] *= combination.kept
    combination.shares[:] /= combination.shares.sum() or 1.0


@kernel(forceinline=True)
def _logit_and_chances(mean, spread, kept, zeros):
    """What an output says: its logit, and the probabilities of both labels."""
    logit = mean / sqrt(spread + 1.0)
    logit = max(min(logit, SUREST), -SUREST) * like(kept, mean)
    e = exp2_within(logit * LOG2E)
    negative = 1.0 / (e + 1.0)
    return logit, like(e * negative, zeros), like(negative, zeros)


@kernel(forceinline=True)
def _stacked_evidence(y, mean, spread, against, in_favour, c):
    """What a label tells a stacker whose score is N(mean, spread): its step, and how much the covariance falls."""
    g = 1.0 / (1.0 + C8 * spread)
    if c > 1.0:
        slope, curvature = heavy_evidence(y * mean * math.sqrt(g), g * spread, c)
    else:
        slope, curvature = c * against, c * against * in_favour
    fall = g * curvature
    return y * math.sqrt(g) * slope, min(fall, 2.0 * fall / (1.0 + 2.0 * spread * fall))


class Scratch(NamedTuple):
    """What is made of one row. Chances are those of a positive label, then those of a negative one."""

    output_m: np.ndarray  # of each output, as its lane said it
    output_s: np.ndarray
    z: np.ndarray  # its logit
    chances: np.ndarray
    f: np.ndarray  # what stackers see: 1, zm, z - zm
    is_b: np.ndarray  # 1 in the slot of b
    is_a: np.ndarray  # and in that of A
    along: np.ndarray  # S f of each stacker
    logits: np.ndarray  # of the mixture and the stackers
    final_chances: np.ndarray
    stacked_m: np.ndarray  # of each stacker's score
    stacked_s: np.ndarray


@kernel(forceinline=True)
def _first_level(into, here, told, at_row, width):
    """What the outputs say, and the mixture's chances of both labels."""
    room, lane_of, output_m, output_s = into.shares.size, into.lane_of, here.output_m, here.output_s
    zeros = fill(load(here.f, 0), 0.0)
    for o in range(lane_of.size):
        place = at_row + lane_of[o]
        output_m[2 + o], output_s[2 + o] = told[place], told[place + width]
    sum_plus = sum_minus = zeros
    for at in range(0, room, LANES):
        spread = load(here.output_s, at) * load(into.output_spread, at)
        logit, positive, negative = _logit_and_chances(load(here.output_m, at), spread, load(into.kept, at), zeros)
        share = load(into.shares, at)
        sum_plus, sum_minus = sum_plus + share * positive, sum_minus + share * negative
        store(here.z, at, logit)
        store(here.chances, at, positive)
        store(here.chances, room + at, negative)
    return total(sum_plus), total(sum_minus)


@kernel(forceinline=True)
def _second_level(into, here, means, covariances, mixed):
    """The stackers' scores, logits and chances."""
    room, n_finals, n_slots = into.shares.size, into.final_shares.size, into.lane_of.size + 2
    f, stacked_m, stacked_s, logits, chances = here.f, here.stacked_m, here.stacked_s, here.logits, here.final_chances
    zeros = fill(load(here.f, 0), 0.0)
    offset = min(max(mixed, -SUREST_STACKED), SUREST_STACKED)
    for at in range(0, room, LANES):
        logit = like(max(min(load(here.z, at), SUREST_STACKED), -SUREST_STACKED), zeros)
        seen = (logit - offset) * load(into.kept, at) + load(here.is_b, at) + load(here.is_a, at) * offset
        store(here.f, at, seen)
    for j in range(n_finals - 1):
        score, spread = zeros, zeros
        for at in range(0, room, LANES):
            product = zeros
            for k in range(n_slots):
                product = product + f[k] * load(covariances, (j * room + k) * room + at)
            store(here.along, j * room + at, product)
            score = score + load(means, j * room + at) * load(here.f, at)
            spread = spread + product * load(here.f, at)
        stacked_m[j] = offset + total(score)
        stacked_s[j] = max(total(spread), 0.0)
        logit = stacked_m[j] / math.sqrt(1.0 + C8 * stacked_s[j])
        logits[1 + j] = min(max(logit, -SUREST), SUREST)
        e = math.exp(logits[1 + j])
        chances[n_finals + 1 + j] = 1.0 / (1.0 + e)
        chances[1 + j] = e * chances[n_finals + 1 + j]


@kernel(forceinline=True)
def _score_variance(into, here):
    """Own variances and disagreement of the outputs, then of the mixture and the stackers."""
    room, final_shares, logits, stacked_s = into.shares.size, into.final_shares, here.logits, here.stacked_s
    zeros = fill(load(here.f, 0), 0.0)
    sum_known = sum_own = sum_center = zeros
    for at in range(0, room, LANES):
        share = load(into.shares, at)
        known = share * load(into.knows, at)
        sum_known, sum_own = sum_known + known, sum_own + known * like(load(here.output_s, at), zeros)
        sum_center = sum_center + share * like(load(here.z, at), zeros)
    known, center = total(sum_known), total(sum_center)
    apart = zeros
    for at in range(0, room, LANES):
        distance = like(load(here.z, at), zeros) - center
        apart = apart + load(into.shares, at) * distance * distance
    variance = (total(sum_own) / known if known > 0.0 else 0.0) + final_shares[0] * total(apart)
    center = 0.0
    for j in range(final_shares.size):
        center += final_shares[j] * logits[j]
    for j in range(final_shares.size):
        variance += final_shares[j] * (logits[j] - center) ** 2
        if j > 0:
            variance += final_shares[j] * stacked_s[j - 1]
    return variance


@kernel(forceinline=True)
def learn_damping(into, here, variance, examples):
    """How far outputs are damped, in the mean of about the last thousand of so many examples, this one counted."""
    latest = max(1.0 / examples, DAMPED_MEMORY)
    zeros = fill(load(here.f, 0), 0.0)
    for at in range(0, into.shares.size, LANES):
        own = like(load(here.output_s, at) * load(into.output_spread, at), zeros) + 1.0
        ratio = max(min(sqrt(own / (zeros + (1.0 + C8 * variance))), DAMPED_MOST), 1.0 / DAMPED_MOST) - 1.0
        so_far = load(into.damping, at)
        store(into.damping, at, so_far + (ratio - so_far) * latest * load(into.kept, at))


@kernel(forceinline=True)
def learn_stackers(into, here, means, covariances, final_label, y, c):
    room, n_finals, n_slots = into.shares.size, into.final_shares.size, into.lane_of.size + 2
    along, chances, prior = here.along, here.final_chances, into.stacker_prior
    for j in range(n_finals - 1):
        in_favour = chances[final_label + 1 + j]
        against = chances[n_finals - final_label + 1 + j]
        step, fall = _stacked_evidence(y, here.stacked_m[j], here.stacked_s[j], against, in_favour, c)
        root = math.sqrt(fall)
        stay = 1.0 - STACKER_MEMORY * j  # the second one forgets
        for at in range(j * room, (j + 1) * room, LANES):
            product = load(along, at)
            store(means, at, load(means, at) + product * step)
            store(along, at, product * root)
        for k in range(n_slots):
            place = (j * room + k) * room
            for at in range(0, room, LANES):
                fallen = along[j * room + k] * load(along, j * room + at)
                store(covariances, place + at, (load(covariances, place + at) - fallen) * stay)
            if j > 0:
                covariances[place + k] += STACKER_MEMORY * j * prior[k]


@kernel(forceinline=True)
def scratch_for(into, said):
    room, n_finals = into.shares.size, into.final_shares.size
    outputs, slots, finals = (
        zeros((3, room), said.dtype),
        zeros((3, room), np.float64),
        zeros((3, n_finals), np.float64),
    )
    here = Scratch(
        *(outputs[0], outputs[1], outputs[2], zeros(2 * room, np.float64)),
        *(slots[0], slots[1], slots[2], zeros(n_finals * room, np.float64)),
        *(finals[0], zeros(2 * n_finals, np.float64), finals[1], finals[2]),
    )
    here.is_b[0], here.is_a[1] = 1.0, 1.0
    return here


@inlined
def combined(into, here, told, at_row, width, means, covariances):
    """All levels for one row: both chances of the mixture and of the combination, and the variance of the score."""
    n_finals, final_shares = into.final_shares.size, into.final_shares
    logits, final_chances = here.logits, here.final_chances
    plus, minus = _first_level(into, here, told, at_row, width)
    mixed = math.log(plus / minus)
    logits[0] = mixed
    final_chances[0], final_chances[n_finals] = plus / (plus + minus), minus / (plus + minus)
    if n_finals > 1:
        _second_level(into, here, means, covariances, mixed)
    sure_plus = sure_minus = 0.0
    for j in range(n_finals):
        sure_plus += final_shares[j] * final_chances[j]
        sure_minus += final_shares[j] * final_chances[n_finals + j]
    return plus, minus, sure_plus, sure_minus, _score_variance(into, here)


@kernel
def combine(said, signs, weights, into, first, last, examples, probability, score_mean, score_variance):
    """Predict rows from `first` to `last`, learn from those whose weight is not 0. `into` is a `Combination`.

    Fixed share is no stage of its own: as one, it made rows of other weights than 1 take 5 to 45 % longer.
    """
    means, covariances = into.stacker_mean.reshape(-1), into.stacker_covariance.reshape(-1)
    room, n_finals, width, told = into.shares.size, into.final_shares.size, said.shape[2], said.reshape(-1)
    here = scratch_for(into, said)
    share_floor, summed, products = into.kept / into.kept.sum(), into.losses[0], into.losses[1]
    shares, kept, final_shares, n_outputs = into.shares, into.kept, into.final_shares, into.lane_of.size
    chances, final_chances, f, logits = here.chances, here.final_chances, here.f, here.logits
    for row in range(first, last):
        c = np.float64(weights[row])
        plus, minus, sure_plus, sure_minus, variance = combined(
            into, here, told, row * 2 * width, width, means, covariances
        )
        probability[row] = sure_plus / (sure_plus + sure_minus)
        score_variance[row] = variance
        score_mean[row] = math.log(sure_plus / sure_minus) * math.sqrt(1.0 + C8 * variance)
        if c == 0.0:
            continue

        y = np.float64(signs[row])
        alpha = max(1.0 / (examples + 2.0), 1e-5)
        examples += 1
        learn_damping(into, here, variance, examples)
        positive = y > 0.0
        label, final_label = (0, 0) if positive else (room, n_finals)  # where the chances of the label begin
        bank_chance = (sure_plus if positive else sure_minus) / (sure_plus + sure_minus)
        if c == 1.0:
            mixed_chance = plus if positive else minus
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
                    f[o] = math.log(shares[o]) + c * likely  # f is free by now, and so are logits
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
                logits[j] = math.log(final_shares[j]) + c * likely
                best = max(best, logits[j])
            whole = 0.0
            for j in range(n_finals):
                final_shares[j] = math.exp(logits[j] - best)
                whole += final_shares[j]
            for j in range(n_finals):
                final_shares[j] = (1.0 - alpha) * final_shares[j] / whole + alpha / n_finals
        learn_stackers(into, here, means, covariances, final_label, y, c)
