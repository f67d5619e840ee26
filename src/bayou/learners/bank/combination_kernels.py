"""Kernels of the combination: its three levels, one tile of rows at a time.

Each step processes all rows of the tile before the next step begins, since only the shares and the stackers depend on
the order of rows. Sums and logarithms are computed for eight rows at a time. Results do not depend on where tiles
begin. The equations are in the docstring of `learner`.

**The data of a tile.** R rows; n_slots slots: b and A of the stackers, then the outputs, padded to a multiple of LANES:

    output_moments  [R][2][n_slots]            mean and variance of each output's score
    output_lines    [R + 1][N_OUTPUT_FIELDS][n_slots]
                                               the fields of each output; shares of line R are those after the tile
    final_lines     [R + 1][N_OUTPUT_FIELDS][LANES]
                                               the last level likewise: 0 the prediction, 1 the mixture, 2.. stackers
    row_fields      [NUMBERS][TILE_ROWS]       scalars of each row
    sums            [SUMS][TILE_ROWS][LANES]   vectors to be summed, eight rows at a time
    slot_vectors    [COV_X + finals][n_slots]  vectors that all rows share, then S f of each stacker
    steps           [4][LANES]                 of each stacker: step of its mean, root of its covariance's; twice

`run_levels` has the steps in order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import aligned_zeros_1d, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, exp2_within, log
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import (
    LANES,
    any_above,
    broadcast,
    broadcast_load,
    cast_like,
    extract_lane,
    load,
    max_lane,
    sqrt,
    store,
    sum_lanes,
    sum_lanes_many,
    where_above,
)
from bayou.learners.bank.updates import evidence_heavy_weight
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
#   LOGIT          damped score, within MAX_LOGIT
#   DAMPING        divisor of the score; for a stacker the variance of its score
#   P_POSITIVE     P(y = 1)
#   P_NEGATIVE     P(y = -1)
#   SHARE          before the row is learned
#   STACKER_INPUT  input of the stackers; scratch for likelihoods before that
LOGIT, DAMPING, P_POSITIVE, P_NEGATIVE, SHARE, STACKER_INPUT, N_OUTPUT_FIELDS = range(7)
# Fields of a row, each for all rows of the tile.
#   ROW_SIGN          the label's sign
#   ROW_WEIGHT        of the example; with 0 it is only predicted
#   MIXTURE_LOGIT     logit of the mixture
#   MIXTURE_VARIANCE  the lanes' variances, averaged over outputs that have one
#   MEAN_LOGIT        mean logit of the outputs
#   FINAL_MEAN_LOGIT  mean logit of the last level
#   FINAL_LOG_ODDS    log-odds of the prediction
#   FINAL_P_POSITIVE  P(y = 1): of the mixture until the final one is computed
#   FINAL_P_NEGATIVE  P(y = -1), likewise
#   FINAL_VARIANCE    of the score
#   FINAL_DAMPING     sqrt(1 + C8 variance)
(
    ROW_SIGN,
    ROW_WEIGHT,
    MIXTURE_LOGIT,
    MIXTURE_VARIANCE,
    MEAN_LOGIT,
    FINAL_MEAN_LOGIT,
    FINAL_LOG_ODDS,
    FINAL_P_POSITIVE,
    FINAL_P_NEGATIVE,
    FINAL_VARIANCE,
    FINAL_DAMPING,
    NUMBERS,
) = (TILE_ROWS * k for k in range(12))
# Vectors of each row that are to be summed.
SUMS = 5
# Slot vectors: 1 at b; 1 at A; how the leak of shares is distributed; from here on S f of each stacker.
SLOT_OFFSET, SLOT_SLOPE, SHARE_FLOOR, COV_X = range(4)


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
def new_tile(combination, output_moments, rows):
    """Allocate scratch for at most TILE_ROWS of these rows, and copy the shares of the combination into it."""
    n_slots, n_finals, size = combination.shares.size, combination.final_shares.size, min(rows, TILE_ROWS) + 1
    tile = TileScratch(
        zeros(TILE_ROWS, np.int64),
        aligned_zeros_1d(2 * size * n_slots, output_moments.dtype),
        aligned_zeros_1d(size * N_OUTPUT_FIELDS * n_slots, np.float64),
        aligned_zeros_1d(size * N_OUTPUT_FIELDS * LANES, np.float64),
        aligned_zeros_1d(NUMBERS, np.float64),
        aligned_zeros_1d(SUMS * TILE_ROWS * LANES, np.float64),
        aligned_zeros_1d((COV_X + n_finals) * n_slots, np.float64),
        aligned_zeros_1d(4 * LANES, np.float64),
        aligned_zeros_1d(LANES, np.float64),
        aligned_zeros_1d(2 * n_slots, np.float64),
    )
    tile.unit_vector[n_slots] = tile.slot_vectors[SLOT_OFFSET * n_slots] = tile.slot_vectors[
        SLOT_SLOPE * n_slots + 1
    ] = 1.0
    kept = 0.0
    for slot in range(n_slots):
        kept += combination.is_kept[slot] * combination.first_shares[slot]
    for slot in range(n_slots):
        tile.slot_vectors[SHARE_FLOOR * n_slots + slot] = (
            combination.is_kept[slot] * combination.first_shares[slot] / kept
        )
        tile.output_lines[SHARE * n_slots + slot] = combination.shares[slot]
    for r in range(size):
        for slot in range(LANES):
            line = r * N_OUTPUT_FIELDS * LANES + slot
            tile.final_lines[line + P_POSITIVE * LANES] = tile.final_lines[line + P_NEGATIVE * LANES] = 1.0
    for j in range(n_finals):
        tile.final_lines[SHARE * LANES + 1 + j] = combination.final_shares[j]
        tile.final_floor[1 + j] = 1.0 / n_finals
    return tile


@inlined
def carry_shares(combination, tile, n):
    """Carry the shares after n rows over to the next tile, and store them in the combination."""
    n_slots, shares, final_shares = combination.shares.size, combination.shares, combination.final_shares
    for slot in range(0, n_slots, LANES):
        share = load(tile.output_lines, (n * N_OUTPUT_FIELDS + SHARE) * n_slots + slot)
        store(tile.output_lines, SHARE * n_slots + slot, share)
        store(shares, slot, share)
    store(tile.final_lines, SHARE * LANES, load(tile.final_lines, (n * N_OUTPUT_FIELDS + SHARE) * LANES))
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
    zero = broadcast(load(lines, 0), 0.0)
    for slot in range(0, n_slots, LANES):
        mean, line = load(moments, 2 * r * n_slots + slot), r * N_OUTPUT_FIELDS * n_slots + slot
        damping = sqrt(load(moments, (2 * r + 1) * n_slots + slot) * load(combination.output_damping, slot) + 1.0)
        logit = max(min(mean / damping, MAX_LOGIT), -MAX_LOGIT) * cast_like(load(combination.is_kept, slot), mean)
        e = exp2_within(logit * LOG2E)
        negative = 1.0 / (e + 1.0)
        store(lines, line + LOGIT * n_slots, cast_like(logit, zero))
        store(lines, line + DAMPING * n_slots, cast_like(damping, zero))
        store(lines, line + P_POSITIVE * n_slots, cast_like(e * negative, zero))
        store(lines, line + P_NEGATIVE * n_slots, cast_like(negative, zero))


@kernel(forceinline=True)
def temper_likelihoods(lines, likelihoods, tempered, floor, at_floor, n_slots, c):
    """Write likelihoods to the power of c, divided by the largest of those that have a share."""
    zero = broadcast(load(lines, 0), 0.0)
    most = zero - 1e300
    for slot in range(0, n_slots, LANES):
        likely = log(load(lines, likelihoods + slot)) * c
        store(lines, tempered + slot, likely)
        most = max(most, where_above(load(floor, at_floor + slot), 0.0, likely, zero - 1e300))
    best = max_lane(most)
    for slot in range(0, n_slots, LANES):
        store(lines, tempered + slot, exp2((load(lines, tempered + slot) - best) * LOG2E))


@inlined
def update_shares(lines, row_fields, floor, at_floor, n_slots, r, examples):
    """Write the shares after row r by fixed share; `examples` were learned before it."""
    zero = broadcast(load(lines, 0), 0.0)
    line, c = r * N_OUTPUT_FIELDS * n_slots, row_fields[ROW_WEIGHT + r]
    mine, then = line + SHARE * n_slots, line + (N_OUTPUT_FIELDS + SHARE) * n_slots
    if c == 0.0:
        for slot in range(0, n_slots, LANES):
            store(lines, then + slot, load(lines, mine + slot))
        return
    alpha = leak_after(examples)
    of_label = line + (P_POSITIVE * n_slots if row_fields[ROW_SIGN + r] > 0.0 else P_NEGATIVE * n_slots)
    if c != 1.0:
        temper_likelihoods(lines, of_label, line + STACKER_INPUT * n_slots, floor, at_floor, n_slots, c)
        of_label = line + STACKER_INPUT * n_slots
    total = zero
    for slot in range(0, n_slots, LANES):
        total = total + load(lines, mine + slot) * load(lines, of_label + slot)
    factor = (1.0 - alpha) / sum_lanes(total)
    for slot in range(0, n_slots, LANES):
        posterior = load(lines, mine + slot) * load(lines, of_label + slot) * factor
        store(lines, then + slot, posterior + load(floor, at_floor + slot) * alpha)


@inlined
def update_losses_and_shares(lines, fields, losses, losses_start, kept, knows, n_slots, r):
    """Add the losses of row r, and write the shares after it by Bayes' rule from all losses so far."""
    line, c = r * N_OUTPUT_FIELDS * n_slots, fields[ROW_WEIGHT + r]
    of_label = line + (P_POSITIVE * n_slots if fields[ROW_SIGN + r] > 0.0 else P_NEGATIVE * n_slots)
    for slot in range(0, n_slots, LANES):
        loss = load(losses, losses_start + slot)
        more = where_above(load(kept, slot), 0.0, loss - log(load(lines, of_label + slot)) * c, loss)
        store(losses, losses_start + slot, more)
    shares_from_losses(losses, losses_start, kept, knows, lines, line + (N_OUTPUT_FIELDS + SHARE) * n_slots, n_slots)


@inlined
def mix(combination, tile, n):
    """Write the first level's mixture, and the inputs of the stackers."""
    n_slots, lines, final_lines, sums = combination.shares.size, tile.output_lines, tile.final_lines, tile.sums
    row_fields, slot_vectors = tile.row_fields, tile.slot_vectors
    zero = broadcast(load(lines, 0), 0.0)
    for r in range(n):
        plus = minus = known_share = own = center = zero
        for slot in range(0, n_slots, LANES):
            line = r * N_OUTPUT_FIELDS * n_slots + slot
            share = load(lines, line + SHARE * n_slots)
            knows = share * load(combination.has_variance, slot)
            plus = plus + share * load(lines, line + P_POSITIVE * n_slots)
            minus = minus + share * load(lines, line + P_NEGATIVE * n_slots)
            center = center + share * load(lines, line + LOGIT * n_slots)
            known_share = known_share + knows
            own = own + knows * cast_like(load(tile.output_moments, (2 * r + 1) * n_slots + slot), zero)
        for which, vector in enumerate((plus, minus, known_share, own, center)):
            store(sums, (which * TILE_ROWS + r) * LANES, vector)
    for r in range(0, n, LANES):
        plus, minus = sum_lanes_many(sums, r * LANES, LANES), sum_lanes_many(sums, (TILE_ROWS + r) * LANES, LANES)
        known_share = sum_lanes_many(sums, (2 * TILE_ROWS + r) * LANES, LANES)
        own = sum_lanes_many(sums, (3 * TILE_ROWS + r) * LANES, LANES)
        store(row_fields, MIXTURE_LOGIT + r, log(plus / minus))
        store(row_fields, FINAL_P_POSITIVE + r, plus / (plus + minus))
        store(row_fields, FINAL_P_NEGATIVE + r, minus / (plus + minus))
        store(row_fields, MIXTURE_VARIANCE + r, where_above(known_share, 0.0, own / known_share, zero))
        store(row_fields, MEAN_LOGIT + r, sum_lanes_many(sums, (4 * TILE_ROWS + r) * LANES, LANES))
    for r in range(n):
        mixed, line = row_fields[MIXTURE_LOGIT + r], r * N_OUTPUT_FIELDS * LANES + 1
        final_lines[line + LOGIT * LANES] = mixed
        final_lines[line + P_POSITIVE * LANES] = row_fields[FINAL_P_POSITIVE + r]
        final_lines[line + P_NEGATIVE * LANES] = row_fields[FINAL_P_NEGATIVE + r]
        offset = min(max(mixed, -MAX_STACKED_LOGIT), MAX_STACKED_LOGIT)
        for slot in range(0, n_slots, LANES):
            there = r * N_OUTPUT_FIELDS * n_slots + slot
            logit = max(min(load(lines, there + LOGIT * n_slots), MAX_STACKED_LOGIT), -MAX_STACKED_LOGIT)
            fixed = (
                load(slot_vectors, SLOT_OFFSET * n_slots + slot)
                + load(slot_vectors, SLOT_SLOPE * n_slots + slot) * offset
            )
            store(lines, there + STACKER_INPUT * n_slots, (logit - offset) * load(combination.is_kept, slot) + fixed)


@kernel(forceinline=True)
def step_heavy_example(steps, y, c):
    """Write the steps of stackers with scores N(m, s), and of their covariances, for an example of weight c > 1."""
    s = load(steps, LANES)
    g = 1.0 / (s * C8 + 1.0)
    root = sqrt(g)
    slope, curvature = evidence_heavy_weight(load(steps, 0) * root * y, g * s, c)
    store(steps, 2 * LANES, slope * root * y)
    store(steps, 3 * LANES, root * sqrt(curvature))


@inlined(fastmath=FUSE)
def step_stackers(combination, tile, means, covariances, r):
    """Write the stackers' scores, logits and probabilities of row r; then update the stackers from its label.

    Each step is done for both stackers before the next one, so that neither waits for the other.

        means, covariances   of stacker j: n_slots numbers from j * n_slots on; n_slots rows of as many, of which only
                             the first n_used can differ from the prior
        lines                of row r: the stackers' input f at `seen`, a number per slot
        slot_vectors         of stacker j: S f at (COV_X + j) * n_slots
        steps                by stacker: first means and variances of the scores, then steps of means and of covariances
        final_lines          of row r, at 2 + j: logit, variance and probabilities of stacker j
    """
    n_slots, n_used = combination.shares.size, (combination.lane_of.size + 5) // 4 * 4
    n_stackers, prior, steps = combination.final_shares.size - 1, combination.stacker_prior, tile.steps
    lines, final_lines, slot_vectors = tile.output_lines, tile.final_lines, tile.slot_vectors
    zero = broadcast(load(lines, 0), 0.0)
    seen, line = (r * N_OUTPUT_FIELDS + STACKER_INPUT) * n_slots, r * N_OUTPUT_FIELDS * LANES
    c, y, mixed = tile.row_fields[ROW_WEIGHT + r], tile.row_fields[ROW_SIGN + r], tile.row_fields[MIXTURE_LOGIT + r]
    root_c = math.sqrt(c)
    offset = min(max(mixed, -MAX_STACKED_LOGIT), MAX_STACKED_LOGIT)
    # S f of each stacker, mean and variance of its score
    for j in range(n_stackers):
        score = spread = zero
        for slot in range(0, n_slots, LANES):
            even = odd = zero
            for k in range(0, n_used, 2):
                place = (j * n_slots + k) * n_slots + slot
                even = even + load(covariances, place) * broadcast_load(lines, seen + k)
                odd = odd + load(covariances, place + n_slots) * broadcast_load(lines, seen + k + 1)
            product = even + odd
            store(slot_vectors, (COV_X + j) * n_slots + slot, product)
            score = score + load(means, j * n_slots + slot) * load(lines, seen + slot)
            spread = spread + product * load(lines, seen + slot)
        steps[j], steps[LANES + j] = offset + sum_lanes(score), max(sum_lanes(spread), 0.0)
    # their logits and probabilities, and how far the label moves them
    if c > 1.0:
        step_heavy_example(steps, y, c)
    for j in range(n_stackers):
        m, s, there = steps[j], steps[LANES + j], line + 2 + j
        root = 1.0 / math.sqrt(1.0 + C8 * s)
        logit = min(max(m * root, -MAX_LOGIT), MAX_LOGIT)
        half = extract_lane(exp2_within(zero + logit * (0.5 * LOG2E)), 0)
        e = half * half
        negative = 1.0 / (1.0 + e)
        final_lines[there + LOGIT * LANES], final_lines[there + DAMPING * LANES] = logit, s
        final_lines[there + P_POSITIVE * LANES], final_lines[there + P_NEGATIVE * LANES] = e * negative, negative
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
        step, fall, along = broadcast_load(steps, j), broadcast_load(steps, LANES + j), (COV_X + j) * n_slots
        for slot in range(0, n_slots, LANES):
            product = load(slot_vectors, along + slot)
            store(means, j * n_slots + slot, load(means, j * n_slots + slot) + product * step)
            store(slot_vectors, along + slot, product * fall)
        for slot in range(0, n_slots, LANES):
            product, first = load(slot_vectors, along + slot), j * n_slots * n_slots + slot
            if j == 0:
                for k in range(n_used):
                    left = load(covariances, first + k * n_slots) - product * broadcast_load(slot_vectors, along + k)
                    store(covariances, first + k * n_slots, left)
            else:
                for k in range(n_used):
                    left = load(covariances, first + k * n_slots) - product * broadcast_load(slot_vectors, along + k)
                    pull = load(tile.unit_vector, n_slots - k + slot) * broadcast_load(prior, k)
                    left = left * (1.0 - STACKER_MEMORY) + pull * STACKER_MEMORY
                    store(covariances, first + k * n_slots, left)


@inlined
def write_predictions(combination, tile, n):
    """Write the prediction of each row, and the variance of its score."""
    n_slots, lines, final_lines = combination.shares.size, tile.output_lines, tile.final_lines
    sums, row_fields = tile.sums, tile.row_fields
    zero = broadcast(load(lines, 0), 0.0)
    for r in range(n):
        line = r * N_OUTPUT_FIELDS * LANES
        share = load(final_lines, line + SHARE * LANES)
        for which, field in enumerate((P_POSITIVE, P_NEGATIVE, LOGIT)):
            store(sums, (which * TILE_ROWS + r) * LANES, share * load(final_lines, line + field * LANES))
    for r in range(0, n, LANES):
        plus, minus = sum_lanes_many(sums, r * LANES, LANES), sum_lanes_many(sums, (TILE_ROWS + r) * LANES, LANES)
        store(row_fields, FINAL_LOG_ODDS + r, log(plus / minus))
        store(row_fields, FINAL_P_POSITIVE + r, plus / (plus + minus))
        store(row_fields, FINAL_P_NEGATIVE + r, minus / (plus + minus))
        store(row_fields, FINAL_MEAN_LOGIT + r, sum_lanes_many(sums, (2 * TILE_ROWS + r) * LANES, LANES))
    for r in range(n):
        line, center = r * N_OUTPUT_FIELDS * LANES, row_fields[MEAN_LOGIT + r]
        final_lines[line + P_POSITIVE * LANES] = row_fields[FINAL_P_POSITIVE + r]
        final_lines[line + P_NEGATIVE * LANES] = row_fields[FINAL_P_NEGATIVE + r]
        apart = zero
        for slot in range(0, n_slots, LANES):
            there = r * N_OUTPUT_FIELDS * n_slots + slot
            distance = load(lines, there + LOGIT * n_slots) - center
            apart = apart + load(lines, there + SHARE * n_slots) * distance * distance
        distance = load(final_lines, line + LOGIT * LANES) - row_fields[FINAL_MEAN_LOGIT + r]
        unsure = distance * distance + load(final_lines, line + DAMPING * LANES)
        mixture = final_lines[line + SHARE * LANES + 1]
        store(sums, r * LANES, apart * mixture + load(final_lines, line + SHARE * LANES) * unsure)
    for r in range(0, n, LANES):
        variance = load(row_fields, MIXTURE_VARIANCE + r) + sum_lanes_many(sums, r * LANES, LANES)
        store(row_fields, FINAL_VARIANCE + r, variance)
        store(row_fields, FINAL_DAMPING + r, sqrt(variance * C8 + 1.0))


@inlined
def run_levels(combination, tile, lane_outputs, width, n, examples, bayes):
    """Run n rows through the three levels; shares are updated by Bayes' rule if `bayes`, else by fixed share."""
    n_slots, fields, losses, floor = combination.shares.size, tile.row_fields, combination.losses[0], tile.final_floor
    means, covariances = combination.stacker_mean.reshape(-1), combination.stacker_covariance.reshape(-1)
    kept, knows = combination.is_kept, combination.has_variance
    gather_outputs(combination, tile, lane_outputs, width, n)
    count = examples
    for r in range(n):
        write_output_probabilities(combination, tile, r)
        if bayes:
            update_losses_and_shares(tile.output_lines, fields, losses, 0, kept, knows, n_slots, r)
        else:
            update_shares(tile.output_lines, fields, tile.slot_vectors, SHARE_FLOOR * n_slots, n_slots, r, count)
        count += fields[ROW_WEIGHT + r] != 0.0
    mix(combination, tile, n)
    count = examples
    for r in range(n):
        step_stackers(combination, tile, means, covariances, r)
        if bayes:
            update_losses_and_shares(tile.final_lines, fields, losses, n_slots, floor, floor, LANES, r)
        else:
            update_shares(tile.final_lines, fields, floor, 0, LANES, r, count)
        count += fields[ROW_WEIGHT + r] != 0.0
    write_predictions(combination, tile, n)


@inlined
def update_damping(combination, tile, r, shrink, examples):
    """Add row r to the running mean, over about a thousand examples, of how far outputs are damped."""
    latest, n_slots = max(1.0 / examples, DAMPING_MEMORY), combination.shares.size
    damping = 1.0 / shrink
    for slot in range(0, n_slots, LANES):
        ratio = load(tile.output_lines, (r * N_OUTPUT_FIELDS + DAMPING) * n_slots + slot) * damping
        ratio = max(min(ratio, MAX_DAMPING_RATIO), 1.0 / MAX_DAMPING_RATIO) - 1.0
        so_far = load(combination.damping, slot)
        store(combination.damping, slot, so_far + (ratio - so_far) * latest * load(combination.is_kept, slot))


@inlined
def add_losses(lines, n_slots, r, y, c, losses, products, at_loss):
    """Add the losses of row r, or multiply probabilities to be added later; return whether a product is too low."""
    line = (r * N_OUTPUT_FIELDS + (P_POSITIVE if y > 0.0 else P_NEGATIVE)) * n_slots
    low = False
    for slot in range(0, n_slots, LANES):
        chance, there = load(lines, line + slot), at_loss + slot
        if c == 1.0:
            product = load(products, there) * chance
            store(products, there, product)
            low |= any_above(MIN_PRODUCT - product, 0.0)
        else:
            store(losses, there, load(losses, there) - log(chance) * c)
    return low
