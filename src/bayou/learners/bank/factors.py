"""Lanes P and Q of the bank: field-weighted factorization machines with Gaussian factors.

A feature i of group g (its column; `Batch.groups` modulo GROUPS, or a hash where there are none) has eight factors
a_if, N(sign_if, 10) at first, sign_if = +-1 by a hash of the feature. Pairs of groups have weights r_gh, about 1 at
first. With t = u x, u = 1 / the stream's typical length (the geometric mean over the first UNIT_FIT_ROWS rows):

    S_gf = sum_{i in g} t_i a_if     N_gf = sum_{i in g} t_i^2 a_if^2
    D_gh = sum_f c_ghf S_gf S_hf     D_gg = 1/2 sum_f (S_gf^2 - N_gf)
    T_gf = sum_h r_gh c_ghf S_hf     j_if = t_i (T_gf - r_gg t_i a_if), the score's derivative by a_if
    m = sum_{g<=h} r_gh D_gh         s = sum j^2 v + sum_{g<=h} D^2 v_r

and the steps of a tempered lane (ku = .3, kp = .1; `learner`). The product of two variances is left out of s on
purpose: with it factors learn less.

    P   seven factors with signs c_ghf by a hash of (g, h, f); its eighth is a weight of the feature alone, N(0, 1), and
        it has an intercept. r ~ N(1, .1)
    Q   eight factors, c = 1, memory .01 (r has none). r ~ N(1, 1)

Vectors run across factors, and across all sixteen groups where pairs of these are taken: with u = c_ghf S_gf for all h,
D_gh gains u S_hf and T_hf gains r_gh u. Weights of pairs are float64 between calls and of the state's type within one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import aligned_zeros_1d, empty
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import prefetch
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.inlining import inlined
from bayou.kernels.random import GOLDEN, mix
from bayou.kernels.rounding import rounding_phase, ulp
from bayou.kernels.vector import (
    LANES,
    broadcast,
    extract_lane,
    load,
    load_double_width,
    store,
    sum_lanes,
    sum_lanes_many,
    transpose,
)
from bayou.learners.bank.crosses import label_step
from bayou.learners.bank.row_scaling import UNIT_FIT_ROWS, row_log_length
from bayou.learners.bank.updates import LIMIT_32, LIMIT_64

P, Q, MACHINES = range(3)
GROUPS = 16
# Row length of the state: for P, then for Q, means less their signs and gained precisions.
STRIDE = 2 * MACHINES * LANES
ALONE = LANES - 1  # the factor of P that is a weight of the feature alone
UPDATE, SAYS = 0.3, 0.1  # ku, kp
FACTOR_PRIOR, ALONE_PRIOR, BIAS_PRIOR, PAIR_PRIORS = 0.1, 1.0, 1.0 / 3.0, (10.0, 1.0)
KEEPS = (1.0, 1.0 / 1.01)
# Bounds of a value in units of the stream, of a factor and of a ratio of groups: squares of sums of their products stay
# finite in float32.
LONGEST, MOST_FACTOR, MOST_RATIO = 100.0, 1e5, 1e3
# Rows of a row's outputs: mean and variance of the score.
M, S = range(2)
# Non-zeros between a feature and the one that is prefetched.
AHEAD = 32


class FactorState(NamedTuple):
    """Settings and learned state of lanes P and Q, as kernels take it. Zero bytes mean the prior."""

    has_intercept: bool
    signs: np.ndarray  # +-1 of eight bits, 256 times eight
    by_pair: np.ndarray  # c_ghf of P, then of Q: (GROUPS, GROUPS, LANES) each
    by_factor: np.ndarray  # c_ghf of P as (GROUPS, LANES, GROUPS)
    state: np.ndarray
    stream: np.ndarray  # rows measured and their mean log length
    intercept: np.ndarray  # of P: mean, gained precision
    pairs: np.ndarray  # (MACHINES, 2, GROUPS, GROUPS): r less 1, its gained precision


def new_factors(n_features: int, has_intercept: bool, dtype: str) -> FactorState:
    bits = np.arange(256)[:, None] >> np.arange(LANES) & 1
    by_pair = _pair_signs()
    return FactorState(
        has_intercept=has_intercept,
        signs=(2.0 * bits - 1.0).astype(dtype).ravel(),
        by_pair=by_pair.astype(dtype).ravel(),
        by_factor=by_pair[P].swapaxes(1, 2).astype(dtype).ravel(),
        state=aligned_zeros(n_features, STRIDE, dtype),
        stream=np.zeros(2),
        intercept=np.zeros(2),
        pairs=np.zeros((MACHINES, 2, GROUPS, GROUPS)),
    )


def _pair_signs() -> np.ndarray:
    """Return c_ghf of both machines, shape (MACHINES, GROUPS, GROUPS, LANES). P's eighth factor belongs to no pair."""
    signs = np.ones((MACHINES, GROUPS, GROUPS, LANES))
    for g in range(GROUPS):
        for h in range(g + 1, GROUPS):
            bits = int(mix(np.uint64((g << 8 | h) + 1)))
            signs[P, g, h] = signs[P, h, g] = [1.0 if bits >> f & 1 else -1.0 for f in range(LANES)]
    signs[P, :, :, ALONE] = 0.0
    return signs


class FactorRowScratch(NamedTuple):
    """Scratch for a row."""

    places: np.ndarray  # where features begin in the state
    groups: np.ndarray
    bits: np.ndarray  # of their signs: eight for P, eight for Q
    xs: np.ndarray  # values, and in units of the stream
    ts: np.ndarray
    phases: np.ndarray  # rounding phases
    factors: np.ndarray  # a of each feature, of P, then of Q
    slopes: np.ndarray  # j
    variances: np.ndarray
    groups_present: np.ndarray  # groups that occur in the row
    marks: np.ndarray  # 1 for each of them


class GroupSums(NamedTuple):
    """Scratch for the groups of a row, of P, then of Q; entries of groups that the row does not have are zero."""

    by_group: np.ndarray  # S_gf
    by_factor: np.ndarray  # S_fg
    own: np.ndarray  # N_gf, and then (S_gf^2 - N_gf) / 2
    group_diagonal: np.ndarray  # D_gg
    weighted: np.ndarray  # T_gf
    weighted_by_factor: np.ndarray  # T_fg
    products: np.ndarray  # D_gh
    product_variance: np.ndarray  # the variance of r_gh
    pairs: np.ndarray  # those of `FactorState`
    one: np.ndarray  # between zeros, to tell a group from the others
    scores: np.ndarray  # vectors whose sums are m and s from pairs of groups
    feature_scores: np.ndarray  # and s from features
    label_step: np.ndarray  # step and fall


@inlined
def _lay_out(row, indices, values, groups, start, length, unit, bound, examples):
    """Write the row's features to scratch; return how many groups it has."""
    dtype = row.xs.dtype.type
    n = 0
    for k in range(length):
        feature = indices[np.uint64(start + k)]
        hashed = mix(np.uint64(feature) + GOLDEN)
        row.places[k] = np.int64(feature) * STRIDE
        g = np.int64(groups[np.uint64(start + k)]) % GROUPS if groups.size else np.int64(hashed >> np.uint64(60))
        row.groups[k] = g
        row.bits[k] = np.int64(hashed & np.uint64(0xFFFF))
        x = max(min(np.float64(values[start + k]), bound), -bound)
        row.xs[k], row.ts[k] = dtype(x), dtype(max(min(x * unit, LONGEST), -LONGEST))
        row.phases[k] = dtype(rounding_phase(feature, examples))
        if row.marks[g] == 0:
            row.marks[g] = 1
            row.groups_present[n] = g
            n += 1
    return n


@inlined
def _sum_factors(row, sums, state, factors, length):
    """Load the factors of each feature and sum them by group; return the part of m that is not from pairs."""
    mask = load(factors.by_pair, 0)  # none for the weight of the feature alone
    group_diagonal = broadcast(mask, 0.0)
    for k in range(length):
        for machine in range(MACHINES):
            a = load(state, row.places[k] + 2 * LANES * machine)
            sign = load(factors.signs, ((row.bits[k] >> (8 * machine)) & 255) * LANES)
            if machine == P:
                sign = sign * mask
                group_diagonal = group_diagonal + a * row.xs[k]
            a = a + sign
            slot, term = (machine * GROUPS + row.groups[k]) * LANES, a * row.ts[k]
            store(sums.by_group, slot, load(sums.by_group, slot) + term)
            store(sums.own, slot, load(sums.own, slot) + term * term)
            store(row.factors, (k * MACHINES + machine) * LANES, a)
    return np.float64(extract_lane(group_diagonal, ALONE))


@inlined
def _transpose_sums(row, sums, factors, n):
    """Compute S_fg and D_gg from the sums over groups."""
    for p in range(n):
        for machine in range(MACHINES):
            slot = (machine * GROUPS + row.groups_present[p]) * LANES
            of_group = load(sums.by_group, slot)
            d = 0.5 * (of_group * of_group - load(sums.own, slot))
            if machine == P:
                d = d * load(factors.by_pair, 0)
            store(sums.own, slot, d)
    for machine in range(MACHINES):
        base = machine * GROUPS * LANES
        for g in range(0, GROUPS, LANES):
            transpose(sums.by_group, base + g * LANES, LANES, sums.by_factor, base + g, GROUPS)
            store(sums.group_diagonal, machine * GROUPS + g, sum_lanes_many(sums.own, base + g * LANES, LANES))


@inlined
def _pair_groups(row, sums, factors, n):
    """Compute D and T of the row's groups, and the parts of m and s that come from pairs of groups."""
    zero = broadcast(load_double_width(row.factors, 0), 0.0)
    for slot in range(0, MACHINES * GROUPS * LANES, GROUPS):
        store(sums.weighted_by_factor, slot, zero)
    for slot in range(0, MACHINES * 2 * GROUPS, GROUPS):
        store(sums.scores, slot, zero)
    for p in range(n):
        g = row.groups_present[p]
        itself = load_double_width(sums.one, GROUPS - g)
        for machine in range(MACHINES):
            base = machine * GROUPS * LANES
            line, by_pair = (machine * GROUPS + g) * GROUPS, (2 * machine * GROUPS + g) * GROUPS
            ratio = load_double_width(sums.pairs, by_pair) + 1.0
            v = 1.0 / (load_double_width(sums.pairs, by_pair + GROUPS * GROUPS) + PAIR_PRIORS[machine])
            d = zero
            for f in range(LANES):
                if machine == P and f == ALONE:
                    continue
                slot = base + f * GROUPS
                u = zero + sums.by_group[np.uint64(base + g * LANES + f)]
                if machine == P:
                    u = u * load_double_width(factors.by_factor, (g * LANES + f) * GROUPS)
                d = d + u * load_double_width(sums.by_factor, slot)
                store(sums.weighted_by_factor, slot, load_double_width(sums.weighted_by_factor, slot) + u * ratio)
            d = d + itself * (load_double_width(sums.group_diagonal, machine * GROUPS) - d)
            once, slot = d * (0.5 + 0.5 * itself), machine * 2 * GROUPS  # each pair of groups is there twice
            store(sums.scores, slot, load_double_width(sums.scores, slot) + once * ratio)
            store(sums.scores, slot + GROUPS, load_double_width(sums.scores, slot + GROUPS) + once * d * v)
            store(sums.products, line, d)
            store(sums.product_variance, line, v)
    for machine in range(MACHINES):
        base = machine * GROUPS * LANES
        for g in range(0, GROUPS, LANES):
            transpose(sums.weighted_by_factor, base + g, GROUPS, sums.weighted, base + g * LANES, LANES)


@inlined
def _slopes(row, sums, state, factors, length, most):
    """Compute j and the variance of every factor, and the part of s that comes from factors."""
    mask = load(factors.by_pair, 0)
    group_diagonal, dtype = 1.0 - mask, row.ts.dtype.type  # P's eighth
    priors = FACTOR_PRIOR + group_diagonal * (ALONE_PRIOR - FACTOR_PRIOR)
    for machine in range(MACHINES):
        store(sums.feature_scores, machine * LANES, 0.0 * mask)
    for k in range(length):
        g, t = row.groups[k], row.ts[k]
        for machine in range(MACHINES):
            slot = (k * MACHINES + machine) * LANES
            own = (sums.pairs[np.uint64((2 * machine * GROUPS + g) * GROUPS + g)] + dtype(1)) * t
            j = (load(sums.weighted, (machine * GROUPS + g) * LANES) - load(row.factors, slot) * own) * t
            if machine == P:
                j = j * mask + group_diagonal * row.xs[k]
            j = max(min(j, most), -most)
            gained = load(state, row.places[k] + 2 * LANES * machine + LANES)
            v = 1.0 / (gained + priors if machine == P else gained + FACTOR_PRIOR)
            store(sums.feature_scores, machine * LANES, load(sums.feature_scores, machine * LANES) + j * j * v)
            store(row.slopes, slot, j)
            store(row.variances, slot, v)


@inlined
def _learn_factors(row, sums, state, length, most):
    dtype = state.dtype.type
    keep = dtype(KEEPS[Q])
    lost = dtype(FACTOR_PRIOR) * (dtype(1) - keep)
    for k in range(length):
        for machine in range(MACHINES):
            slot, place = (k * MACHINES + machine) * LANES, row.places[k] + 2 * LANES * machine
            j, v, phase = load(row.slopes, slot), load(row.variances, slot), row.phases[k]
            mean, gained = load(state, place), load(state, place + LANES)
            square = j * j * sums.label_step[2 * machine + 1]
            more = square / max(1.0 - square * v, 0.5)
            mean = mean + (j * v * sums.label_step[2 * machine] + phase * ulp(mean))
            store(state, place, max(min(mean, MOST_FACTOR), -MOST_FACTOR))
            grown = gained + (more + phase * ulp(gained))
            if machine == Q:
                grown = max(grown * keep - lost, 0.0)
            store(state, place + LANES, min(grown, most))


@inlined
def _learn_pairs(row, sums, n, phase, most):
    phases = phase * load_double_width(row.marks, 0)  # no rounding for groups that the row does not have
    for p in range(n):
        for machine in range(MACHINES):
            line = (machine * GROUPS + row.groups_present[p]) * GROUPS
            by_pair = line + machine * GROUPS * GROUPS
            d, v = load_double_width(sums.products, line), load_double_width(sums.product_variance, line)
            r, gained = load_double_width(sums.pairs, by_pair), load_double_width(sums.pairs, by_pair + GROUPS * GROUPS)
            square = d * d * sums.label_step[2 * machine + 1]
            more = square / max(1.0 - square * v, 0.5)
            r = r + (d * v * sums.label_step[2 * machine] + phases * ulp(r))
            store(sums.pairs, by_pair, max(min(r, MOST_RATIO), -MOST_RATIO))
            store(sums.pairs, by_pair + GROUPS * GROUPS, min(gained + (more + phases * ulp(gained)), most))


@kernel(forceinline=True)
def _new_row(room, kind):
    each = MACHINES * room * LANES
    return FactorRowScratch(
        *(empty(room, np.int64), empty(room, np.int64), empty(room, np.int64)),
        *(empty(room, kind), empty(room, kind), empty(room, kind)),
        *(aligned_zeros_1d(each, kind), aligned_zeros_1d(each, kind), aligned_zeros_1d(each, kind)),
        *(empty(GROUPS, np.int64), aligned_zeros_1d(GROUPS, kind)),
    )


@kernel(forceinline=True)
def _new_sums(kind):
    each, both = MACHINES * GROUPS * LANES, MACHINES * GROUPS * GROUPS
    return GroupSums(
        *(
            aligned_zeros_1d(each, kind),
            aligned_zeros_1d(each, kind),
            aligned_zeros_1d(each, kind),
            aligned_zeros_1d(MACHINES * GROUPS, kind),
        ),
        *(
            aligned_zeros_1d(each, kind),
            aligned_zeros_1d(each, kind),
            aligned_zeros_1d(both, kind),
            aligned_zeros_1d(both, kind),
        ),
        *(aligned_zeros_1d(2 * both, kind), aligned_zeros_1d(2 * GROUPS, kind)),
        *(
            aligned_zeros_1d(2 * MACHINES * GROUPS, kind),
            aligned_zeros_1d(MACHINES * LANES, kind),
            aligned_zeros_1d(2 * MACHINES, kind),
        ),
    )


@kernel
def run_factors(rows, groups, factors, row, last, examples, column, lane_outputs):
    """Predict each row in [row, last), then update from rows with nonzero weight. `factors` is a `FactorState`.

    Mean and variance of each row's score in P and Q are written to `column` of `lane_outputs` and the next one. The
    data:

        state    [feature][machine][2][LANES]       means less their signs, gained precisions, of eight factors
        pairs    [machine][2][GROUPS][GROUPS]       r less 1, its gained precision; `sums.pairs` within a call
        scratch  [non-zero][machine][LANES]         factors, slopes and variances of the row's features
        sums     [machine][group][factor or group]  sums over the row's groups; zero for all other groups
    """
    indptr, indices, values, weights = rows.indptr, rows.indices, rows.values, rows.weights
    state, pairs = factors.state.reshape(-1), factors.pairs.reshape(-1)
    stream, intercept = factors.stream, factors.intercept
    dtype = state.dtype.type
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    farthest, reach = math.sqrt(most), math.sqrt(math.sqrt(most)) / 1e3
    scratch, sums = _new_row(rows.max_row_length + LANES, state.dtype), _new_sums(state.dtype)
    sums.one[GROUPS] = 1
    for k in range(pairs.size):
        sums.pairs[k] = pairs[k]
    zero = broadcast(load(scratch.factors, 0), 0.0)
    before, counted, log_length, end = examples, stream[0], stream[1], indptr[indptr.size - 1]
    for r in range(row, last):
        start, length, c = indptr[r], indptr[r + 1] - indptr[r], np.float64(weights[r])
        new_log_length = log_length
        if counted < UNIT_FIT_ROWS and length > 0:
            new_log_length += (row_log_length(values, start, start + length) - log_length) / (counted + 1.0)
        unit, bound = math.exp(min(max(-new_log_length, -69.0), 69.0)), reach / math.sqrt(1.0 + length)
        if start + AHEAD + length <= end:
            for k in range(start + AHEAD, start + AHEAD + length):
                groups_present = np.int64(indices[np.uint64(k)]) * STRIDE
                for slot in range(0, STRIDE, 2 * LANES):
                    prefetch(state, groups_present + slot)
        # predict with both machines
        n = _lay_out(scratch, indices, values, groups, start, length, unit, bound, examples + 1)
        group_diagonal = _sum_factors(scratch, sums, state, factors, length)
        _transpose_sums(scratch, sums, factors, n)
        _pair_groups(scratch, sums, factors, n)
        _slopes(scratch, sums, state, factors, length, most)
        v_b = 1.0 / (BIAS_PRIOR + intercept[1]) if factors.has_intercept else 0.0
        for machine in range(MACHINES):
            m = np.float64(sum_lanes(load_double_width(sums.scores, machine * 2 * GROUPS)))
            s = np.float64(sum_lanes(load_double_width(sums.scores, (machine * 2 + 1) * GROUPS)))
            s += np.float64(sum_lanes(load(sums.feature_scores, machine * LANES)))
            if machine == P:
                m, s = m + group_diagonal + intercept[0], s + v_b
            m, s = max(min(m, farthest), -farthest), min(s, farthest)
            lane_outputs[r, M, column + machine], lane_outputs[r, S, column + machine] = m, s
            if c != 0.0:
                step, fall = label_step(m, s, np.float64(rows.labels[r]), c, UPDATE, zero)
                sums.label_step[2 * machine], sums.label_step[2 * machine + 1] = dtype(step), dtype(fall)
                if machine == P and factors.has_intercept:
                    intercept[0] += v_b * step
                    intercept[1] = min(intercept[1] + fall / max(1.0 - v_b * fall, 0.5), LIMIT_64)
        # update from the label
        if c != 0.0:
            examples += 1
            _learn_factors(scratch, sums, state, length, most)
            _learn_pairs(scratch, sums, n, dtype(rounding_phase(0, examples)), most)
            if counted < UNIT_FIT_ROWS and length > 0:
                counted, log_length = counted + 1.0, new_log_length
        # clean up for the next row
        for p in range(n):
            scratch.marks[scratch.groups_present[p]] = 0
            for slot in range(scratch.groups_present[p] * LANES, MACHINES * GROUPS * LANES, GROUPS * LANES):
                store(sums.by_group, slot, zero)
                store(sums.own, slot, zero)
    if examples != before:
        for k in range(pairs.size):
            pairs[k] = sums.pairs[k]
    stream[0], stream[1] = counted, log_length
