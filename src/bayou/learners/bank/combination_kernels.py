"""Kernels of the combination: its three levels, one tile of rows at a time.

Each step processes all rows of the tile before the next step begins, since only the shares and the stackers depend on
the order of rows. Sums and logarithms are computed for eight rows at a time. Results do not depend on where tiles
begin. The equations are in the docstring of `learner`.

**The data of a tile.** R rows; n_slots slots: b and A of the stackers, then the outputs, padded to a multiple of LANES:

    output_moments  [R][2][n_slots]            mean and variance of each output's score
    output_lines    [R + 1][FIELDS][n_slots]   the fields of each output; shares of line R are those after the tile
    final_lines     [R + 1][FIELDS][LANES]     the last level likewise: 0 the prediction, 1 the mixture, 2.. stackers
    row_fields      [NUMBERS][TILE_ROWS]       scalars of each row
    sums            [SUMS][TILE_ROWS][LANES]   vectors to be summed, eight rows at a time
    slot_vectors    [ALONG + finals][n_slots]  vectors that all rows share, then S f of each stacker
    steps           [4][LANES]                 of each stacker: step of its mean, root of its covariance's; twice

`run_levels` has the steps in order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import aligned, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, exp2_within, log
from bayou.kernels.inlining import inlined
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
from bayou.learners.bank.updates import heavy_evidence
from bayou.learners.ensembles.shares import leak_after, shares_from_losses
from bayou.learners.ensembles.stackers import MAX_LOGIT, MAX_STACKED_LOGIT, STACKER_MEMORY

# The running mean of damping ratios spans about a thousand examples; each ratio is capped.
DAMPING_MEMORY, MAX_DAMPING_RATIO = 1e-3, 100.0
# Products of probabilities below this are added to the losses as logarithms.
MIN_PRODUCT = 1e-250
# Multiplications and additions may fuse, as those of vectors do.
FUSE = {"contract"}

# Rows of a tile: their scratch stays in the innermost cache.
TILE_ROWS = 16
# Fields of a line.
#   LOGIT   damped score, within MAX_LOGIT
#   SPREAD  divisor of the score; for a stacker the variance of its score
#   PLUS    P(y = 1)
#   MINUS   P(y = -1)
#   SHARE   before the row is learned
#   SEEN    input of the stackers; scratch for likelihoods before that
LOGIT, SPREAD, PLUS, MINUS, SHARE, SEEN, FIELDS = range(7)
# Fields of a row, each for all rows of the tile.
#   Y            the label's sign
#   WEIGHT       of the example; with 0 it is only predicted
#   MIXED        logit of the mixture
#   OWN          the lanes' variances, averaged over outputs that have one
#   CENTER       mean logit of the outputs
#   LAST_CENTER  mean logit of the last level
#   ODDS         log-odds of the prediction
#   CHANCE       P(y = 1): of the mixture until the final one is computed
#   OTHER        P(y = -1), likewise
#   VARIANCE     of the score
#   SHRINK       sqrt(1 + C8 variance)
(Y, WEIGHT, MIXED, OWN, CENTER, LAST_CENTER, ODDS, CHANCE, OTHER, VARIANCE, SHRINK, NUMBERS) = (
    TILE_ROWS * k for k in range(12)
)
# Vectors of each row that are to be summed.
SUMS = 5
# Slot vectors: 1 at b; 1 at A; how the leak of shares is distributed; from here on S f of each stacker.
IS_B, IS_A, FLOOR, ALONG = range(4)


class TileScratch(NamedTuple):
    """Scratch for the rows of a tile; the module's docstring has the axes."""

    row_offsets: np.ndarray  # where the lanes' outputs of each row begin
    output_moments: np.ndarray
    output_lines: np.ndarray
    final_lines: np.ndarray
    row_fields: np.ndarray
    sums: np.ndarray
    slot_vectors: np.ndarray
    steps: np.ndarray
    final_floor: np.ndarray  # how the leak of shares is distributed in the last level
    unit_vector: np.ndarray  # 1 in the middle


@kernel(forceinline=True)
def new_tile(combination, said, rows):
    """Allocate scratch for at most TILE_ROWS of these rows, and copy the shares of the combination into it."""
    n_slots, n_finals, size = combination.shares.size, combination.final_shares.size, min(rows, TILE_ROWS) + 1
    tile = TileScratch(
        zeros(TILE_ROWS, np.int64),
        aligned(2 * size * n_slots, said.dtype),
        aligned(size * FIELDS * n_slots, np.float64),
        aligned(size * FIELDS * LANES, np.float64),
        aligned(NUMBERS, np.float64),
        aligned(SUMS * TILE_ROWS * LANES, np.float64),
        aligned((ALONG + n_finals) * n_slots, np.float64),
        aligned(4 * LANES, np.float64),
        aligned(LANES, np.float64),
        aligned(2 * n_slots, np.float64),
    )
    tile.unit_vector[n_slots] = tile.slot_vectors[IS_B * n_slots] = tile.slot_vectors[IS_A * n_slots + 1] = 1.0
    kept = 0.0
    for slot in range(n_slots):
        kept += combination.kept[slot]
    for slot in range(n_slots):
        tile.slot_vectors[FLOOR * n_slots + slot] = combination.kept[slot] / kept
        tile.output_lines[SHARE * n_slots + slot] = combination.shares[slot]
    for r in range(size):
        for slot in range(LANES):
            line = r * FIELDS * LANES + slot
            tile.final_lines[line + PLUS * LANES] = tile.final_lines[line + MINUS * LANES] = 1.0
    for j in range(n_finals):
        tile.final_lines[SHARE * LANES + 1 + j] = combination.final_shares[j]
        tile.final_floor[1 + j] = 1.0 / n_finals
    return tile


@inlined
def carry_shares(combination, tile, n):
    """Carry the shares after n rows over to the next tile, and store them in the combination."""
    n_slots, shares, final_shares = combination.shares.size, combination.shares, combination.final_shares
    for at in range(0, n_slots, LANES):
        share = load(tile.output_lines, (n * FIELDS + SHARE) * n_slots + at)
        store(tile.output_lines, SHARE * n_slots + at, share)
        store(shares, at, share)
    store(tile.final_lines, SHARE * LANES, load(tile.final_lines, (n * FIELDS + SHARE) * LANES))
    for j in range(final_shares.size):
        final_shares[j] = tile.final_lines[SHARE * LANES + 1 + j]


@inlined
def gather_outputs(combination, tile, lane_outputs, width, n):
    """Gather the lane outputs of the tile's rows into one slot per output."""
    n_slots, lane_of = np.uint64(combination.shares.size), combination.lane_of
    row_offsets, moments = tile.row_offsets, tile.output_moments
    for r in range(np.uint64(n)):
        m = np.uint64(2) * r * n_slots + np.uint64(2)
        for o in range(np.uint64(lane_of.size)):
            lane = np.uint64(row_offsets[r] + lane_of[o])
            moments[m + o], moments[m + n_slots + o] = lane_outputs[lane], lane_outputs[lane + np.uint64(width)]


@inlined
def write_output_probabilities(combination, tile, r):
    """Write the logit, the probabilities of both labels and the damping of each output for row r."""
    n_slots, moments, lines = combination.shares.size, tile.output_moments, tile.output_lines
    zero = fill(load(lines, 0), 0.0)
    for at in range(0, n_slots, LANES):
        mean, line = load(moments, 2 * r * n_slots + at), r * FIELDS * n_slots + at
        damping = sqrt(load(moments, (2 * r + 1) * n_slots + at) * load(combination.output_spread, at) + 1.0)
        logit = max(min(mean / damping, MAX_LOGIT), -MAX_LOGIT) * like(load(combination.kept, at), mean)
        e = exp2_within(logit * LOG2E)
        negative = 1.0 / (e + 1.0)
        store(lines, line + LOGIT * n_slots, like(logit, zero))
        store(lines, line + SPREAD * n_slots, like(damping, zero))
        store(lines, line + PLUS * n_slots, like(e * negative, zero))
        store(lines, line + MINUS * n_slots, like(negative, zero))


@kernel(forceinline=True)
def temper_likelihoods(lines, likelihoods, tempered, floor, at_floor, n_slots, c):
    """Write likelihoods to the power of c, divided by the largest of those that have a share."""
    zero = fill(load(lines, 0), 0.0)
    most = zero - 1e300
    for at in range(0, n_slots, LANES):
        likely = log(load(lines, likelihoods + at)) * c
        store(lines, tempered + at, likely)
        most = max(most, where_above(load(floor, at_floor + at), 0.0, likely, zero - 1e300))
    best = highest(most)
    for at in range(0, n_slots, LANES):
        store(lines, tempered + at, exp2((load(lines, tempered + at) - best) * LOG2E))


@inlined
def update_shares(lines, numbers, floor, at_floor, n_slots, r, examples):
    """Write the shares after row r by fixed share; `examples` were learned before it."""
    zero = fill(load(lines, 0), 0.0)
    line, c = r * FIELDS * n_slots, numbers[WEIGHT + r]
    mine, then = line + SHARE * n_slots, line + (FIELDS + SHARE) * n_slots
    if c == 0.0:
        for at in range(0, n_slots, LANES):
            store(lines, then + at, load(lines, mine + at))
        return
    alpha = leak_after(examples)
    of_label = line + (PLUS * n_slots if numbers[Y + r] > 0.0 else MINUS * n_slots)
    if c != 1.0:
        temper_likelihoods(lines, of_label, line + SEEN * n_slots, floor, at_floor, n_slots, c)
        of_label = line + SEEN * n_slots
    whole = zero
    for at in range(0, n_slots, LANES):
        whole = whole + load(lines, mine + at) * load(lines, of_label + at)
    factor = (1.0 - alpha) / total(whole)
    for at in range(0, n_slots, LANES):
        posterior = load(lines, mine + at) * load(lines, of_label + at) * factor
        store(lines, then + at, posterior + load(floor, at_floor + at) * alpha)


@inlined
def update_losses_and_shares(lines, fields, losses, losses_start, kept, knows, n_slots, r):
    """Add the losses of row r, and write the shares after it by Bayes' rule from all losses so far."""
    line, c = r * FIELDS * n_slots, fields[WEIGHT + r]
    of_label = line + (PLUS * n_slots if fields[Y + r] > 0.0 else MINUS * n_slots)
    for at in range(0, n_slots, LANES):
        loss = load(losses, losses_start + at)
        more = where_above(load(kept, at), 0.0, loss - log(load(lines, of_label + at)) * c, loss)
        store(losses, losses_start + at, more)
    shares_from_losses(losses, losses_start, kept, knows, lines, line + (FIELDS + SHARE) * n_slots, n_slots)


@inlined
def mix(combination, tile, n):
    """Write the first level's mixture, and the inputs of the stackers."""
    n_slots, lines, finals, sums = combination.shares.size, tile.output_lines, tile.final_lines, tile.sums
    numbers, slots = tile.row_fields, tile.slot_vectors
    zero = fill(load(lines, 0), 0.0)
    for r in range(n):
        plus = minus = known = own = center = zero
        for at in range(0, n_slots, LANES):
            line = r * FIELDS * n_slots + at
            share = load(lines, line + SHARE * n_slots)
            knows = share * load(combination.knows, at)
            plus = plus + share * load(lines, line + PLUS * n_slots)
            minus = minus + share * load(lines, line + MINUS * n_slots)
            center = center + share * load(lines, line + LOGIT * n_slots)
            known = known + knows
            own = own + knows * like(load(tile.output_moments, (2 * r + 1) * n_slots + at), zero)
        for which, vector in enumerate((plus, minus, known, own, center)):
            store(sums, (which * TILE_ROWS + r) * LANES, vector)
    for r in range(0, n, LANES):
        plus, minus = totals(sums, r * LANES, LANES), totals(sums, (TILE_ROWS + r) * LANES, LANES)
        known, own = totals(sums, (2 * TILE_ROWS + r) * LANES, LANES), totals(sums, (3 * TILE_ROWS + r) * LANES, LANES)
        store(numbers, MIXED + r, log(plus / minus))
        store(numbers, CHANCE + r, plus / (plus + minus))
        store(numbers, OTHER + r, minus / (plus + minus))
        store(numbers, OWN + r, where_above(known, 0.0, own / known, zero))
        store(numbers, CENTER + r, totals(sums, (4 * TILE_ROWS + r) * LANES, LANES))
    for r in range(n):
        mixed, line = numbers[MIXED + r], r * FIELDS * LANES + 1
        finals[line + LOGIT * LANES] = mixed
        finals[line + PLUS * LANES], finals[line + MINUS * LANES] = numbers[CHANCE + r], numbers[OTHER + r]
        offset = min(max(mixed, -MAX_STACKED_LOGIT), MAX_STACKED_LOGIT)
        for at in range(0, n_slots, LANES):
            there = r * FIELDS * n_slots + at
            logit = max(min(load(lines, there + LOGIT * n_slots), MAX_STACKED_LOGIT), -MAX_STACKED_LOGIT)
            fixed = load(slots, IS_B * n_slots + at) + load(slots, IS_A * n_slots + at) * offset
            store(lines, there + SEEN * n_slots, (logit - offset) * load(combination.kept, at) + fixed)


@kernel(forceinline=True)
def step_heavy_example(steps, y, c):
    """Write the steps of stackers with scores N(m, s), and of their covariances, for an example of weight c > 1."""
    s = load(steps, LANES)
    g = 1.0 / (s * C8 + 1.0)
    root = sqrt(g)
    slope, curvature = heavy_evidence(load(steps, 0) * root * y, g * s, c)
    store(steps, 2 * LANES, slope * root * y)
    store(steps, 3 * LANES, root * sqrt(curvature))


@inlined(fastmath=FUSE)
def step_stackers(combination, tile, means, covariances, r):
    """Write the stackers' scores, logits and probabilities of row r; then update the stackers from its label.

    Each step is done for both stackers before the next one, so that neither waits for the other.
    """
    n_slots, n_used = combination.shares.size, (combination.lane_of.size + 5) // 4 * 4
    n_stackers, prior, steps = combination.final_shares.size - 1, combination.stacker_prior, tile.steps
    lines, finals, slots = tile.output_lines, tile.final_lines, tile.slot_vectors
    zero = fill(load(lines, 0), 0.0)
    seen, line = (r * FIELDS + SEEN) * n_slots, r * FIELDS * LANES
    c, y, mixed = tile.row_fields[WEIGHT + r], tile.row_fields[Y + r], tile.row_fields[MIXED + r]
    root_c = math.sqrt(c)
    offset = min(max(mixed, -MAX_STACKED_LOGIT), MAX_STACKED_LOGIT)
    # S f of each stacker, mean and variance of its score
    for j in range(n_stackers):
        score = spread = zero
        for at in range(0, n_slots, LANES):
            even = odd = zero
            for k in range(0, n_used, 2):
                place = (j * n_slots + k) * n_slots + at
                even = even + load(covariances, place) * load_one(lines, seen + k)
                odd = odd + load(covariances, place + n_slots) * load_one(lines, seen + k + 1)
            product = even + odd
            store(slots, (ALONG + j) * n_slots + at, product)
            score = score + load(means, j * n_slots + at) * load(lines, seen + at)
            spread = spread + product * load(lines, seen + at)
        steps[j], steps[LANES + j] = offset + total(score), max(total(spread), 0.0)
    # their logits and probabilities, and how far the label moves them
    if c > 1.0:
        step_heavy_example(steps, y, c)
    for j in range(n_stackers):
        m, s, there = steps[j], steps[LANES + j], line + 2 + j
        root = 1.0 / math.sqrt(1.0 + C8 * s)
        logit = min(max(m * root, -MAX_LOGIT), MAX_LOGIT)
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
    # the step of each mean and covariance; the second stacker forgets
    for j in range(n_stackers):
        step, fall, along = load_one(steps, j), load_one(steps, LANES + j), (ALONG + j) * n_slots
        for at in range(0, n_slots, LANES):
            product = load(slots, along + at)
            store(means, j * n_slots + at, load(means, j * n_slots + at) + product * step)
            store(slots, along + at, product * fall)
        for at in range(0, n_slots, LANES):
            product, first = load(slots, along + at), j * n_slots * n_slots + at
            if j == 0:
                for k in range(n_used):
                    left = load(covariances, first + k * n_slots) - product * load_one(slots, along + k)
                    store(covariances, first + k * n_slots, left)
            else:
                for k in range(n_used):
                    left = load(covariances, first + k * n_slots) - product * load_one(slots, along + k)
                    pull = load(tile.unit_vector, n_slots - k + at) * load_one(prior, k)
                    left = left * (1.0 - STACKER_MEMORY) + pull * STACKER_MEMORY
                    store(covariances, first + k * n_slots, left)


@inlined
def write_predictions(combination, tile, n):
    """Write the prediction of each row, and the variance of its score."""
    n_slots, lines, finals = combination.shares.size, tile.output_lines, tile.final_lines
    sums, numbers = tile.sums, tile.row_fields
    zero = fill(load(lines, 0), 0.0)
    for r in range(n):
        line = r * FIELDS * LANES
        share = load(finals, line + SHARE * LANES)
        for which, field in enumerate((PLUS, MINUS, LOGIT)):
            store(sums, (which * TILE_ROWS + r) * LANES, share * load(finals, line + field * LANES))
    for r in range(0, n, LANES):
        plus, minus = totals(sums, r * LANES, LANES), totals(sums, (TILE_ROWS + r) * LANES, LANES)
        store(numbers, ODDS + r, log(plus / minus))
        store(numbers, CHANCE + r, plus / (plus + minus))
        store(numbers, OTHER + r, minus / (plus + minus))
        store(numbers, LAST_CENTER + r, totals(sums, (2 * TILE_ROWS + r) * LANES, LANES))
    for r in range(n):
        line, center = r * FIELDS * LANES, numbers[CENTER + r]
        finals[line + PLUS * LANES], finals[line + MINUS * LANES] = numbers[CHANCE + r], numbers[OTHER + r]
        apart = zero
        for at in range(0, n_slots, LANES):
            there = r * FIELDS * n_slots + at
            distance = load(lines, there + LOGIT * n_slots) - center
            apart = apart + load(lines, there + SHARE * n_slots) * distance * distance
        distance = load(finals, line + LOGIT * LANES) - numbers[LAST_CENTER + r]
        unsure = distance * distance + load(finals, line + SPREAD * LANES)
        mixture = finals[line + SHARE * LANES + 1]
        store(sums, r * LANES, apart * mixture + load(finals, line + SHARE * LANES) * unsure)
    for r in range(0, n, LANES):
        variance = load(numbers, OWN + r) + totals(sums, r * LANES, LANES)
        store(numbers, VARIANCE + r, variance)
        store(numbers, SHRINK + r, sqrt(variance * C8 + 1.0))


@inlined
def run_levels(combination, tile, lane_outputs, width, n, examples, bayes):
    """Run n rows through the three levels; shares are updated by Bayes' rule if `bayes`, else by fixed share."""
    n_slots, fields, losses, floor = combination.shares.size, tile.row_fields, combination.losses[0], tile.final_floor
    means, covariances = combination.stacker_mean.reshape(-1), combination.stacker_covariance.reshape(-1)
    kept, knows = combination.kept, combination.knows
    gather_outputs(combination, tile, lane_outputs, width, n)
    count = examples
    for r in range(n):
        write_output_probabilities(combination, tile, r)
        if bayes:
            update_losses_and_shares(tile.output_lines, fields, losses, 0, kept, knows, n_slots, r)
        else:
            update_shares(tile.output_lines, fields, tile.slot_vectors, FLOOR * n_slots, n_slots, r, count)
        count += fields[WEIGHT + r] != 0.0
    mix(combination, tile, n)
    count = examples
    for r in range(n):
        step_stackers(combination, tile, means, covariances, r)
        if bayes:
            update_losses_and_shares(tile.final_lines, fields, losses, n_slots, floor, floor, LANES, r)
        else:
            update_shares(tile.final_lines, fields, floor, 0, LANES, r, count)
        count += fields[WEIGHT + r] != 0.0
    write_predictions(combination, tile, n)


@inlined
def update_damping(combination, tile, r, shrink, examples):
    """Add row r to the running mean, over about a thousand examples, of how far outputs are damped."""
    latest, n_slots = max(1.0 / examples, DAMPING_MEMORY), combination.shares.size
    part = 1.0 / shrink
    for at in range(0, n_slots, LANES):
        ratio = load(tile.output_lines, (r * FIELDS + SPREAD) * n_slots + at) * part
        ratio = max(min(ratio, MAX_DAMPING_RATIO), 1.0 / MAX_DAMPING_RATIO) - 1.0
        so_far = load(combination.damping, at)
        store(combination.damping, at, so_far + (ratio - so_far) * latest * load(combination.kept, at))


@inlined
def add_losses(lines, n_slots, r, y, c, losses, products, at_loss):
    """Add the losses of row r, or multiply probabilities to be added later; return whether a product is too low."""
    line = (r * FIELDS + (PLUS if y > 0.0 else MINUS)) * n_slots
    low = False
    for at in range(0, n_slots, LANES):
        chance, there = load(lines, line + at), at_loss + at
        if c == 1.0:
            product = load(products, there) * chance
            store(products, there, product)
            low |= any_above(MIN_PRODUCT - product, 0.0)
        else:
            store(losses, there, load(losses, there) - log(chance) * c)
    return low
