"""The three levels of a combination, for a block of rows: what outputs say, mixed, stacked, and mixed again.

Each step takes all rows of the block before the next one does, for most of the work waits for nothing: of the rows'
order depend the shares and the stackers alone. Of sums and logarithms eight rows are taken at a time. No bit depends on
where blocks begin. The equations are in the docstring of `learner`.

A line holds the numbers of a row in each of the FIELDS, for every output; a second array has lines for what is mixed in
the last level: in slot 0 the answer itself, then the mixture of the first level, then the stackers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, exp2_within, log
from bayou.kernels.inlining import inlined
from bayou.kernels.room import aligned, zeros
from bayou.kernels.vector import (
    LANES,
    any_above,
    fill,
    highest,
    like,
    load,
    load_one,
    pick,
    sqrt,
    store,
    total,
    totals,
    where_above,
)
from bayou.learners.bank.steps import heavy_evidence

# An output says no more than this, so that no product of probabilities vanishes: S(-30) is 1e-13. To the stackers it
# says no more than that: beyond, a larger logit tells nothing but pulls the harder.
SUREST, SUREST_STACKED = 30.0, 15.0
STACKER_MEMORY = 1e-4
# The mean of how far outputs are damped is that of about a thousand examples; none counts for more than this.
DAMPED_MEMORY, DAMPED_MOST = 1e-3, 100.0
LEAST_PRODUCT = 1e-250
# Multiplications and additions may fuse, as those of vectors do.
FUSE = {"contract"}

# Rows of a block: what is made of them stays in the nearest cache.
BLOCK = 16
# Numbers of each output, or of each part of the last level: logit, damping (of a stacker: variance of its score),
# chances of both labels, share, and what the stackers see of it.
LOGIT, SPREAD, PLUS, MINUS, SHARE, SEEN, FIELDS = range(7)
# Numbers of each row: label, weight, logit of the mixture, variance that outputs know of, mean of their logits, mean of
# the last level's; then the answer: log-odds, probabilities of both labels, variance of the score and its damping.
Y, WEIGHT, MIXED, OWN, CENTER, LAST_CENTER, ODDS, CHANCE, OTHER, VARIANCE, SHRINK, NUMBERS = (
    BLOCK * k for k in range(12)
)
# Vectors of each row that are to be added up.
SUMS = 5
# Vectors of slots: those of b and of A, the least shares, and S f of each stacker.
IS_B, IS_A, FLOOR, ALONG = range(4)


class Block(NamedTuple):
    """What is made of the rows of a block."""

    places: np.ndarray  # where what was said of each row begins
    said: np.ndarray  # mean and variance of each output's score
    outputs: np.ndarray  # lines
    finals: np.ndarray  # lines
    numbers: np.ndarray
    sums: np.ndarray
    slots: np.ndarray
    steps: np.ndarray  # of each stacker's mean, and of its covariance; the same again where a row is heavy
    final_floor: np.ndarray
    unit: np.ndarray  # 1 in the middle


@kernel(forceinline=True)
def new_block(into, said, rows):
    """With the shares of a combination, for so many rows, or for BLOCK of them and again."""
    room, n_finals, size = into.shares.size, into.final_shares.size, min(rows, BLOCK) + 1
    here = Block(
        zeros(BLOCK, np.int64),
        aligned(2 * size * room, said.dtype),
        aligned(size * FIELDS * room, np.float64),
        aligned(size * FIELDS * LANES, np.float64),
        aligned(NUMBERS, np.float64),
        aligned(SUMS * BLOCK * LANES, np.float64),
        aligned((ALONG + n_finals) * room, np.float64),
        aligned(4 * LANES, np.float64),
        aligned(LANES, np.float64),
        aligned(2 * room, np.float64),
    )
    here.unit[room] = here.slots[IS_B * room] = here.slots[IS_A * room + 1] = 1.0
    kept = 0.0
    for slot in range(room):
        kept += into.kept[slot]
    for slot in range(room):
        here.slots[FLOOR * room + slot] = into.kept[slot] / kept
        here.outputs[SHARE * room + slot] = into.shares[slot]
    for r in range(size):
        for slot in range(LANES):
            line = r * FIELDS * LANES + slot
            here.finals[line + PLUS * LANES] = here.finals[line + MINUS * LANES] = 1.0
    for j in range(n_finals):
        here.finals[SHARE * LANES + 1 + j] = into.final_shares[j]
        here.final_floor[1 + j] = 1.0 / n_finals
    return here


@inlined
def next_shares(into, here, n):
    """The shares after n rows are those before the next ones."""
    room, shares, final_shares = into.shares.size, into.shares, into.final_shares
    for at in range(0, room, LANES):
        share = load(here.outputs, (n * FIELDS + SHARE) * room + at)
        store(here.outputs, SHARE * room + at, share)
        store(shares, at, share)
    store(here.finals, SHARE * LANES, load(here.finals, (n * FIELDS + SHARE) * LANES))
    for j in range(final_shares.size):
        final_shares[j] = here.finals[SHARE * LANES + 1 + j]


@inlined
def hear(into, here, told, width, n):
    """What lanes said of the block's rows, by outputs."""
    room, lane_of, places, said = np.uint64(into.shares.size), into.lane_of, here.places, here.said
    for r in range(np.uint64(n)):
        m = np.uint64(2) * r * room + np.uint64(2)
        for o in range(np.uint64(lane_of.size)):
            lane = np.uint64(places[r] + lane_of[o])
            said[m + o], said[m + room + o] = told[lane], told[lane + np.uint64(width)]


@inlined
def say(into, here, r):
    """What the outputs say of row r: logits, chances, damping."""
    room, said, lines = into.shares.size, here.said, here.outputs
    zero = fill(load(lines, 0), 0.0)
    for at in range(0, room, LANES):
        mean, line = load(said, 2 * r * room + at), r * FIELDS * room + at
        damping = sqrt(load(said, (2 * r + 1) * room + at) * load(into.output_spread, at) + 1.0)
        logit = max(min(mean / damping, SUREST), -SUREST) * like(load(into.kept, at), mean)
        e = exp2_within(logit * LOG2E)
        negative = 1.0 / (e + 1.0)
        store(lines, line + LOGIT * room, like(logit, zero))
        store(lines, line + SPREAD * room, like(damping, zero))
        store(lines, line + PLUS * room, like(e * negative, zero))
        store(lines, line + MINUS * room, like(negative, zero))


@kernel(forceinline=True)
def _tilt(lines, chances, tilted, floor, at_floor, room, c):
    """Chances to the power of c, over the largest."""
    zero = fill(load(lines, 0), 0.0)
    most = zero - 1e300
    for at in range(0, room, LANES):
        likely = log(load(lines, chances + at)) * c
        store(lines, tilted + at, likely)
        most = max(most, where_above(load(floor, at_floor + at), 0.0, likely, zero - 1e300))
    best = highest(most)
    for at in range(0, room, LANES):
        store(lines, tilted + at, exp2((load(lines, tilted + at) - best) * LOG2E))


@inlined
def fixed_share(lines, numbers, floor, at_floor, room, r, examples):
    """The shares after row r, which was the first after so many examples."""
    zero = fill(load(lines, 0), 0.0)
    line, c = r * FIELDS * room, numbers[WEIGHT + r]
    mine, then = line + SHARE * room, line + (FIELDS + SHARE) * room
    if c == 0.0:
        for at in range(0, room, LANES):
            store(lines, then + at, load(lines, mine + at))
        return
    alpha = max(1.0 / (examples + 2.0), 1e-5)
    of_label = line + (PLUS * room if numbers[Y + r] > 0.0 else MINUS * room)
    if c != 1.0:
        _tilt(lines, of_label, line + SEEN * room, floor, at_floor, room, c)
        of_label = line + SEEN * room
    whole = zero
    for at in range(0, room, LANES):
        whole = whole + load(lines, mine + at) * load(lines, of_label + at)
    factor = (1.0 - alpha) / total(whole)
    for at in range(0, room, LANES):
        posterior = load(lines, mine + at) * load(lines, of_label + at) * factor
        store(lines, then + at, posterior + load(floor, at_floor + at) * alpha)


@inlined
def mix(into, here, n):
    """The first level's mixture, and what the stackers see."""
    room, lines, finals, sums = into.shares.size, here.outputs, here.finals, here.sums
    numbers, slots = here.numbers, here.slots
    zero = fill(load(lines, 0), 0.0)
    for r in range(n):
        plus = minus = known = own = center = zero
        for at in range(0, room, LANES):
            line = r * FIELDS * room + at
            share = load(lines, line + SHARE * room)
            knows = share * load(into.knows, at)
            plus = plus + share * load(lines, line + PLUS * room)
            minus = minus + share * load(lines, line + MINUS * room)
            center = center + share * load(lines, line + LOGIT * room)
            known = known + knows
            own = own + knows * like(load(here.said, (2 * r + 1) * room + at), zero)
        for which, vector in enumerate((plus, minus, known, own, center)):
            store(sums, (which * BLOCK + r) * LANES, vector)
    for r in range(0, n, LANES):
        plus, minus = totals(sums, r * LANES, LANES), totals(sums, (BLOCK + r) * LANES, LANES)
        known, own = totals(sums, (2 * BLOCK + r) * LANES, LANES), totals(sums, (3 * BLOCK + r) * LANES, LANES)
        store(numbers, MIXED + r, log(plus / minus))
        store(numbers, CHANCE + r, plus / (plus + minus))
        store(numbers, OTHER + r, minus / (plus + minus))
        store(numbers, OWN + r, where_above(known, 0.0, own / known, zero))
        store(numbers, CENTER + r, totals(sums, (4 * BLOCK + r) * LANES, LANES))
    for r in range(n):
        mixed, line = numbers[MIXED + r], r * FIELDS * LANES + 1
        finals[line + LOGIT * LANES] = mixed
        finals[line + PLUS * LANES], finals[line + MINUS * LANES] = numbers[CHANCE + r], numbers[OTHER + r]
        offset = min(max(mixed, -SUREST_STACKED), SUREST_STACKED)
        for at in range(0, room, LANES):
            there = r * FIELDS * room + at
            logit = max(min(load(lines, there + LOGIT * room), SUREST_STACKED), -SUREST_STACKED)
            fixed = load(slots, IS_B * room + at) + load(slots, IS_A * room + at) * offset
            store(lines, there + SEEN * room, (logit - offset) * load(into.kept, at) + fixed)


@kernel(forceinline=True)
def _heavy(steps, y, c):
    """What a label of weight c > 1 tells the stackers whose scores are N(m, s): their steps, and the covariances'."""
    s = load(steps, LANES)
    g = 1.0 / (s * C8 + 1.0)
    root = sqrt(g)
    slope, curvature = heavy_evidence(load(steps, 0) * root * y, g * s, c)
    store(steps, 2 * LANES, slope * root * y)
    store(steps, 3 * LANES, root * sqrt(curvature))


@inlined(fastmath=FUSE)
def stack(into, here, means, covariances, r):
    """The stackers' scores, logits and chances of row r; then they learn its label.

    Each step is taken by both of them before the next one: neither waits for the other.
    """
    room, n_stackers, n_slots = into.shares.size, into.final_shares.size - 1, (into.lane_of.size + 5) // 4 * 4
    lines, finals, slots, prior, steps = here.outputs, here.finals, here.slots, into.stacker_prior, here.steps
    zero = fill(load(lines, 0), 0.0)
    seen, line = (r * FIELDS + SEEN) * room, r * FIELDS * LANES
    c, y, mixed = here.numbers[WEIGHT + r], here.numbers[Y + r], here.numbers[MIXED + r]
    root_c = math.sqrt(c)
    offset = min(max(mixed, -SUREST_STACKED), SUREST_STACKED)
    for j in range(n_stackers):
        score = spread = zero
        for at in range(0, room, LANES):
            even = odd = zero
            for k in range(0, n_slots, 2):
                place = (j * room + k) * room + at
                even = even + load(covariances, place) * load_one(lines, seen + k)
                odd = odd + load(covariances, place + room) * load_one(lines, seen + k + 1)
            product = even + odd
            store(slots, (ALONG + j) * room + at, product)
            score = score + load(means, j * room + at) * load(lines, seen + at)
            spread = spread + product * load(lines, seen + at)
        steps[j], steps[LANES + j] = offset + total(score), max(total(spread), 0.0)
    if c > 1.0:
        _heavy(steps, y, c)
    for j in range(n_stackers):
        m, s, there = steps[j], steps[LANES + j], line + 2 + j
        root = 1.0 / math.sqrt(1.0 + C8 * s)
        logit = min(max(m * root, -SUREST), SUREST)
        half = pick(exp2_within(zero + logit * (0.5 * LOG2E)), 0)
        e = half * half
        negative = 1.0 / (1.0 + e)
        finals[there + LOGIT * LANES], finals[there + SPREAD * LANES] = logit, s
        finals[there + PLUS * LANES], finals[there + MINUS * LANES] = e * negative, negative
        if c > 1.0:
            steps[j], fall = steps[2 * LANES + j], steps[3 * LANES + j]
        else:
            steps[j], fall = c * y * root * negative * (1.0 if y > 0.0 else e), root_c * root * half * negative
        if 2.0 * s * fall * fall > 1.0:
            fall *= math.sqrt(2.0 / (1.0 + 2.0 * s * fall * fall))
        steps[LANES + j] = fall
    if c == 0.0:
        return
    for j in range(n_stackers):
        step, fall, along = load_one(steps, j), load_one(steps, LANES + j), (ALONG + j) * room
        for at in range(0, room, LANES):
            product = load(slots, along + at)
            store(means, j * room + at, load(means, j * room + at) + product * step)
            store(slots, along + at, product * fall)
        for at in range(0, room, LANES):
            product, first = load(slots, along + at), j * room * room + at
            if j == 0:
                for k in range(n_slots):
                    left = load(covariances, first + k * room) - product * load_one(slots, along + k)
                    store(covariances, first + k * room, left)
            else:  # it forgets
                for k in range(n_slots):
                    left = load(covariances, first + k * room) - product * load_one(slots, along + k)
                    pull = load(here.unit, room - k + at) * load_one(prior, k)
                    left = left * (1.0 - STACKER_MEMORY) + pull * STACKER_MEMORY
                    store(covariances, first + k * room, left)


@inlined
def conclude(into, here, n):
    """The answer for each row, and its variance."""
    room, lines, finals, sums, numbers = into.shares.size, here.outputs, here.finals, here.sums, here.numbers
    zero = fill(load(lines, 0), 0.0)
    for r in range(n):
        line = r * FIELDS * LANES
        share = load(finals, line + SHARE * LANES)
        for which, field in enumerate((PLUS, MINUS, LOGIT)):
            store(sums, (which * BLOCK + r) * LANES, share * load(finals, line + field * LANES))
    for r in range(0, n, LANES):
        plus, minus = totals(sums, r * LANES, LANES), totals(sums, (BLOCK + r) * LANES, LANES)
        store(numbers, ODDS + r, log(plus / minus))
        store(numbers, CHANCE + r, plus / (plus + minus))
        store(numbers, OTHER + r, minus / (plus + minus))
        store(numbers, LAST_CENTER + r, totals(sums, (2 * BLOCK + r) * LANES, LANES))
    for r in range(n):
        line, center = r * FIELDS * LANES, numbers[CENTER + r]
        finals[line + PLUS * LANES], finals[line + MINUS * LANES] = numbers[CHANCE + r], numbers[OTHER + r]
        apart = zero
        for at in range(0, room, LANES):
            there = r * FIELDS * room + at
            distance = load(lines, there + LOGIT * room) - center
            apart = apart + load(lines, there + SHARE * room) * distance * distance
        distance = load(finals, line + LOGIT * LANES) - numbers[LAST_CENTER + r]
        unsure = distance * distance + load(finals, line + SPREAD * LANES)
        mixture = finals[line + SHARE * LANES + 1]
        store(sums, r * LANES, apart * mixture + load(finals, line + SHARE * LANES) * unsure)
    for r in range(0, n, LANES):
        variance = load(numbers, OWN + r) + totals(sums, r * LANES, LANES)
        store(numbers, VARIANCE + r, variance)
        store(numbers, SHRINK + r, sqrt(variance * C8 + 1.0))


@inlined
def learn_damping(into, here, r, shrink, examples):
    """How far outputs are damped, in the mean of about the last thousand of so many examples, row r counted."""
    latest, room = max(1.0 / examples, DAMPED_MEMORY), into.shares.size
    part = 1.0 / shrink
    for at in range(0, room, LANES):
        ratio = load(here.outputs, (r * FIELDS + SPREAD) * room + at) * part
        ratio = max(min(ratio, DAMPED_MOST), 1.0 / DAMPED_MOST) - 1.0
        so_far = load(into.damping, at)
        store(into.damping, at, so_far + (ratio - so_far) * latest * load(into.kept, at))


@inlined
def learn_losses(lines, room, r, y, c, losses, products, at_loss):
    """Add what the label of row r has cost to `losses`, or to the products of chances that will be; are any low?"""
    line = (r * FIELDS + (PLUS if y > 0.0 else MINUS)) * room
    low = False
    for at in range(0, room, LANES):
        chance, there = load(lines, line + at), at_loss + at
        if c == 1.0:
            product = load(products, there) * chance
            store(products, there, product)
            low |= any_above(LEAST_PRODUCT - product, 0.0)
        else:
            store(losses, there, load(losses, there) - log(chance) * c)
    return low
