"""Lanes P and Q of the bank: field-weighted factorisation machines with Gaussian factors.

A feature i of group g (its column; `Batch.groups` modulo GROUPS, or a hash where there are none) has eight factors
a_if, N(sign_if, 10) at first, sign_if = +-1 by a hash of the feature. Pairs of groups have weights r_gh, about 1 at
first. With t = u x, u = 1 / the stream's typical length (the geometric mean over the first SETTLED rows):

    S_gf = sum_{i in g} t_i a_if     N_gf = sum_{i in g} t_i^2 a_if^2
    D_gh = sum_f c_ghf S_gf S_hf     D_gg = 1/2 sum_f (S_gf^2 - N_gf)
    T_gf = sum_h r_gh c_ghf S_hf     j_if = t_i (T_gf - r_gg t_i a_if), the score's derivative by a_if
    m = sum_{g<=h} r_gh D_gh         s = sum j^2 v + sum_{g<=h} D^2 v_r

and the steps of a tempered lane (ku = .3, kp = .1; `learner`). That the product of two variances is left out of s is on
purpose: with it factors learn less.

    P   seven factors with signs c_ghf by a hash of (g, h, f); its eighth is a weight of the feature alone, N(0, 1), and
        it has an intercept. r ~ N(1, .1)
    Q   eight factors, c = 1, memory .01 (r has none). r ~ N(1, 1)

Vectors run across factors, and across groups where pairs of these are taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.gather import prefetch
from bayou.kernels.inlining import inlined
from bayou.kernels.pages import aligned_zeros
from bayou.kernels.random import GOLDEN, mix
from bayou.kernels.room import aligned, empty
from bayou.kernels.rounding import last_place, rounding_phase
from bayou.kernels.vector import LANES, fill, like, load, load_one, pick, store, total
from bayou.learners.bank.crosses import heard
from bayou.learners.bank.rows import SETTLED, row_log_length
from bayou.learners.bank.steps import LIMIT_32, LIMIT_64

P, Q, MACHINES = range(3)
GROUPS = 16
# Of each feature: means less their signs and gained precisions, of P, then of Q.
STRIDE = 2 * MACHINES * LANES
ALONE = LANES - 1  # the factor of P that is a weight of the feature alone
UPDATE, SAYS = 0.3, 0.1  # ku, kp
FACTOR_PRIOR, ALONE_PRIOR, BIAS_PRIOR, PAIR_PRIORS = 0.1, 1.0, 1.0 / 3.0, (10.0, 1.0)
KEEPS = (1.0, 1.0 / 1.01)
# How far a value in units of the stream, a factor and a ratio of groups may go: squares of sums of their products are
# still numbers of float32.
LONGEST, MOST_FACTOR, MOST_RATIO = 100.0, 1e5, 1e3
# Of what is said of a row.
M, S = range(2)
# So many non-zeros between a feature and the one that is asked for.
AHEAD = 32


class Factors(NamedTuple):
    """What lanes P and Q are and believe, as kernels take it. Zero bytes mean the prior."""

    has_intercept: bool
    signs: np.ndarray  # +-1 of eight bits, 256 times eight
    by_pair: np.ndarray  # c_ghf of P, then of Q: (GROUPS, GROUPS, LANES) each
    by_factor: np.ndarray  # the same as (GROUPS, LANES, GROUPS)
    state: np.ndarray
    stream: np.ndarray  # rows measured and their mean log length
    intercept: np.ndarray  # of P: mean, gained precision
    pairs: np.ndarray  # (MACHINES, 2, GROUPS, GROUPS): r less 1, what its precision has gained


def new_factors(n_features: int, has_intercept: bool, dtype: str) -> Factors:
    bits = np.arange(256)[:, None] >> np.arange(LANES) & 1
    by_pair = _pair_signs()
    return Factors(
        has_intercept=has_intercept,
        signs=(2.0 * bits - 1.0).astype(dtype).ravel(),
        by_pair=by_pair.astype(dtype).ravel(),
        by_factor=np.ascontiguousarray(by_pair.swapaxes(2, 3)).astype(dtype).ravel(),
        state=aligned_zeros(n_features, STRIDE, dtype),
        stream=np.zeros(2),
        intercept=np.zeros(2),
        pairs=np.zeros((MACHINES, 2, GROUPS, GROUPS)),
    )


def _pair_signs() -> np.ndarray:
    """c_ghf of both: (MACHINES, GROUPS, GROUPS, LANES). What P has in the eighth place belongs to no pair."""
    signs = np.ones((MACHINES, GROUPS, GROUPS, LANES))
    for g in range(GROUPS):
        for h in range(g + 1, GROUPS):
            bits = int(mix(np.uint64((g << 8 | h) + 1)))
            signs[P, g, h] = signs[P, h, g] = [1.0 if bits >> f & 1 else -1.0 for f in range(LANES)]
    signs[P, :, :, ALONE] = 0.0
    return signs


class Row(NamedTuple):
    """Scratch for a row."""

    places: np.ndarray  # where features begin in the state
    groups: np.ndarray
    bits: np.ndarray  # of their signs: eight for P, eight for Q
    xs: np.ndarray  # values, and in units of the stream
    ts: np.ndarray
    factors: np.ndarray  # a of each feature, of P, then of Q
    slopes: np.ndarray  # j
    variances: np.ndarray
    there: np.ndarray  # the groups that the row has
    marks: np.ndarray  # the last row that had each


class Sums(NamedTuple):
    """Scratch for the groups of a row, of P, then of Q."""

    by_group: np.ndarray  # S_gf
    by_factor: np.ndarray  # the same, factors first; zero for groups that the row has not
    own: np.ndarray  # N_gf
    weighted: np.ndarray  # T_gf
    products: np.ndarray  # D_gh; zero likewise
    ratios: np.ndarray  # r_gh
    unsure: np.ndarray  # its variance
    halves: np.ndarray  # 1/2, and 1 for a group with itself: each pair of groups is there twice


@inlined
def _lay_out(row, indices, values, groups, start, length, unit, bound, number):
    """The row's features; how many groups it has."""
    dtype = row.xs.dtype.type
    n = 0
    for k in range(length):
        feature = indices[np.uint64(start + k)]
        found = mix(np.uint64(feature) + GOLDEN)
        row.places[k] = np.int64(feature) * STRIDE
        g = np.int64(groups[np.uint64(start + k)]) % GROUPS if groups.size else np.int64(found >> np.uint64(60))
        row.groups[k] = g
        row.bits[k] = np.int64(found & np.uint64(0xFFFF))
        x = max(min(np.float64(values[start + k]), bound), -bound)
        row.xs[k], row.ts[k] = dtype(x), dtype(max(min(x * unit, LONGEST), -LONGEST))
        if row.marks[g] != number:
            row.marks[g] = number
            row.there[n] = g
            n += 1
    return n


@inlined
def _add_up(row, sums, into, length, n, machine):
    """Factors of each feature, and their sums over groups; the part of m that is not of pairs."""
    state, signs = into.state.reshape(-1), into.signs
    zero = fill(load(row.factors, 0), 0.0)
    base = machine * GROUPS * LANES
    for p in range(n):
        store(sums.by_group, base + row.there[p] * LANES, zero)
        store(sums.own, base + row.there[p] * LANES, zero)
    alone = zero
    for k in range(length):
        a = load(state, row.places[k] + 2 * LANES * machine)
        sign = load(signs, ((row.bits[k] >> (8 * machine)) & 255) * LANES)
        if machine == P:
            sign = sign * load(into.by_pair, 0)  # none for the weight of the feature alone
            alone = alone + a * row.xs[k]
        a = a + sign
        at, part = base + row.groups[k] * LANES, a * row.ts[k]
        store(sums.by_group, at, load(sums.by_group, at) + part)
        store(sums.own, at, load(sums.own, at) + part * part)
        store(row.factors, (machine * row.places.size + k) * LANES, a)
    for p in range(n):
        g = row.there[p]
        for f in range(LANES):
            sums.by_factor[base + f * GROUPS + g] = sums.by_group[base + g * LANES + f]
    return np.float64(pick(alone, ALONE))


@inlined
def _pair_groups(row, sums, into, n, machine):
    """D and T of the row's groups; m and s of what pairs of groups say."""
    zero = fill(load(row.factors, 0), 0.0)
    base, lines = machine * GROUPS * LANES, machine * GROUPS * GROUPS
    r, gained = into.pairs[machine, 0].reshape(-1), into.pairs[machine, 1].reshape(-1)
    signs, turned = into.by_pair, into.by_factor
    mask = load(signs, lines * LANES)  # c_00f: which factors belong to pairs
    sum_m = sum_s = zero
    for p in range(n):
        g = row.there[p]
        line, mine = lines + g * GROUPS, base + g * LANES
        of_group = load(sums.by_group, mine)
        for at in range(0, GROUPS, LANES):
            product = zero
            for f in range(LANES):
                other = load(sums.by_factor, base + f * GROUPS + at)
                if machine == P:
                    other = other * load(turned, line * LANES + f * GROUPS + at)
                product = product + other * load_one(sums.by_group, mine + f)
            store(sums.products, line + at, product)
            store(sums.ratios, line + at, like(load(r, g * GROUPS + at), zero) + 1.0)
            v = 1.0 / (like(load(gained, g * GROUPS + at), zero) + PAIR_PRIORS[machine])
            store(sums.unsure, line + at, v)
        sums.products[line + g] = 0.5 * total(mask * (of_group * of_group - load(sums.own, mine)))
        for at in range(line, line + GROUPS, LANES):
            d, half = load(sums.products, at), load(sums.halves, at - lines)
            sum_m = sum_m + d * load(sums.ratios, at) * half
            sum_s = sum_s + d * d * load(sums.unsure, at) * half
        weighted = zero
        for q in range(n):
            h = row.there[q]
            other = load(sums.by_group, base + h * LANES)
            if machine == P:
                other = other * load(signs, (line + h) * LANES)
            weighted = weighted + other * load_one(sums.ratios, line + h)
        store(sums.weighted, mine, weighted)
    return np.float64(total(sum_m)), np.float64(total(sum_s))


@inlined
def _slopes(row, sums, into, length, machine, most):
    """j of every factor, and its variance; s of what factors say."""
    state = into.state.reshape(-1)
    prior = into.signs.dtype.type(FACTOR_PRIOR)
    zero = fill(load(row.factors, 0), 0.0)
    mask = load(into.by_pair, machine * GROUPS * GROUPS * LANES)
    alone = 1.0 - mask  # P's eighth
    priors = zero + prior + alone * (ALONE_PRIOR - FACTOR_PRIOR)
    sum_s = zero
    for k in range(length):
        g, at = row.groups[k], (machine * row.places.size + k) * LANES
        t = row.ts[k]
        own = sums.ratios[(machine * GROUPS + g) * GROUPS + g] * t
        rest = load(sums.weighted, (machine * GROUPS + g) * LANES) - load(row.factors, at) * own
        j = max(min(mask * rest * t + alone * row.xs[k], most), -most)
        v = 1.0 / (load(state, row.places[k] + 2 * LANES * machine + LANES) + priors)
        sum_s = sum_s + j * j * v
        store(row.slopes, at, j)
        store(row.variances, at, v)
    return np.float64(total(sum_s))


@inlined
def _learn_factors(row, into, indices, start, length, machine, step, fall, examples, most):
    state = into.state.reshape(-1)
    zero = fill(load(row.factors, 0), 0.0)
    dtype = state.dtype.type
    mask = load(into.by_pair, machine * GROUPS * GROUPS * LANES)
    keep = dtype(KEEPS[machine])
    lost = (zero + FACTOR_PRIOR + (1.0 - mask) * (ALONE_PRIOR - FACTOR_PRIOR)) * (dtype(1) - keep)
    for k in range(length):
        at, place = (machine * row.places.size + k) * LANES, row.places[k] + 2 * LANES * machine
        j, v = load(row.slopes, at), load(row.variances, at)
        mean, gained = load(state, place), load(state, place + LANES)
        phase = dtype(rounding_phase(indices[np.uint64(start + k)], examples))
        square = j * j * dtype(fall)
        more = square / max(1.0 - square * v, 0.5)
        mean = mean + (j * v * dtype(step) + phase * last_place(mean))
        store(state, place, max(min(mean, MOST_FACTOR), -MOST_FACTOR))
        grown = gained + (more + phase * last_place(gained))
        store(state, place + LANES, min(max(grown * keep - lost, 0.0), most))


@inlined
def _learn_pairs(row, sums, into, n, machine, step, fall):
    r, gained = into.pairs[machine, 0].reshape(-1), into.pairs[machine, 1].reshape(-1)
    dtype, wide = sums.products.dtype.type, fill(load(r, 0), 0.0)
    for p in range(n):
        g = row.there[p]
        for at in range(g * GROUPS, (g + 1) * GROUPS, LANES):
            d, v = (
                load(sums.products, machine * GROUPS * GROUPS + at),
                load(sums.unsure, machine * GROUPS * GROUPS + at),
            )
            square = d * d * dtype(fall)
            more = square / max(1.0 - square * v, 0.5)
            store(r, at, max(min(load(r, at) + like(d * v * dtype(step), wide), MOST_RATIO), -MOST_RATIO))
            store(gained, at, min(load(gained, at) + like(more, wide), LIMIT_64))


@kernel
def run_factors(indptr, indices, values, groups, longest, signs, weights, into, row, last, examples, column, said):
    """Predict rows from `row` to `last`, learn from those whose weight is not 0. `into` is a `Factors`.

    Mean and variance of each row's score in P and Q go to `column` of `said` and the next one.
    """
    state, stream, intercept = into.state.reshape(-1), into.stream, into.intercept
    kind = state.dtype
    dtype = kind.type
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    farthest, reach = math.sqrt(most), math.sqrt(math.sqrt(most)) / 1e3
    room = longest + LANES
    here = Row(
        *(empty(room, np.int64), empty(room, np.int64), empty(room, np.int64), empty(room, kind), empty(room, kind)),
        *(aligned(MACHINES * room * LANES, kind), aligned(MACHINES * room * LANES, kind)),
        aligned(MACHINES * room * LANES, kind),
        *(empty(GROUPS, np.int64), np.full(GROUPS, -1)),
    )
    each, both = MACHINES * GROUPS * LANES, MACHINES * GROUPS * GROUPS
    sums = Sums(
        *(aligned(each, kind), aligned(each, kind), aligned(each, kind), aligned(each, kind)),
        *(aligned(both, kind), aligned(both, kind), aligned(both, kind), aligned(GROUPS * GROUPS, kind)),
    )
    for g in range(GROUPS):
        for h in range(GROUPS):
            sums.halves[g * GROUPS + h] = 1.0 if g == h else 0.5
    zero = fill(load(into.pairs.reshape(-1), 0), 0.0)
    counted, log_length, end = stream[0], stream[1], indptr[indptr.size - 1]
    for r in range(row, last):
        start, length, c = indptr[r], indptr[r + 1] - indptr[r], np.float64(weights[r])
        new_log_length = log_length
        if counted < SETTLED and length > 0:
            new_log_length += (row_log_length(values, start, start + length) - log_length) / (counted + 1.0)
        unit, bound = math.exp(min(max(-new_log_length, -69.0), 69.0)), reach / math.sqrt(1.0 + length)
        if start + AHEAD + length <= end:
            for k in range(start + AHEAD, start + AHEAD + length):
                there = np.int64(indices[np.uint64(k)]) * STRIDE
                for at in range(0, STRIDE, 2 * LANES):
                    prefetch(state, there + at)
        n = _lay_out(here, indices, values, groups, start, length, unit, bound, r)
        v_b = 1.0 / (BIAS_PRIOR + intercept[1]) if into.has_intercept else 0.0
        for machine in range(MACHINES):
            alone = _add_up(here, sums, into, length, n, machine)
            m, s = _pair_groups(here, sums, into, n, machine)
            s += _slopes(here, sums, into, length, machine, most)
            if machine == P:
                m, s = m + alone + intercept[0], s + v_b
            m, s = max(min(m, farthest), -farthest), min(s, farthest)
            said[r, M, column + machine], said[r, S, column + machine] = m, s
            if c != 0.0:
                step, fall = heard(m, s, np.float64(signs[r]), c, UPDATE, zero)
                _learn_factors(here, into, indices, start, length, machine, step, fall, examples + 1, most)
                _learn_pairs(here, sums, into, n, machine, step, fall)
                if machine == P and into.has_intercept:
                    intercept[0] += v_b * step
                    intercept[1] = min(intercept[1] + fall / max(1.0 - v_b * fall, 0.5), LIMIT_64)
            for p in range(n):
                for f in range(LANES):
                    sums.by_factor[(machine * LANES + f) * GROUPS + here.there[p]] = 0
        if c != 0.0:
            examples += 1
            if counted < SETTLED and length > 0:
                counted, log_length = counted + 1.0, new_log_length
    stream[0], stream[1] = counted, log_length
