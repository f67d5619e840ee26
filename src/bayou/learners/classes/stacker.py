"""A multiclass stacker: its predictions, row by row, and its update from each label.

The equations are in the docstring of `learner`; `stack` explains the lines. Vectors run across slots where classes are
summed, and across classes where each class has a scalar.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import aligned_zeros_1d, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import (
    LANES,
    broadcast,
    broadcast_load,
    load,
    max_lane,
    sqrt,
    store,
    sum_lanes,
    sum_lanes_many,
    where_above,
)
from bayou.learners.classes.stack_inputs import LOG_BASE, MIN_PROBABILITY
from bayou.learners.ensembles.stackers import STACKER_MEMORY

# A weight above 1 takes several steps, and counts as at most this much: a single long step would overshoot.
MOST_REPEATS = 8
# Fields of each class.
#   IS_CLASS              1; 0 for padding
#   BASE_LOG_PROBABILITY  l_k, the log-probability of the base
#   OFFSET                b_k
#   OFFSET_GAIN           gained precision of b_k
#   SCORE_MEAN            m_k sqrt(g_k), the damped mean of its score
#   SCORE_VARIANCE        variance of its score
#   SQRT_G                sqrt(g_k)
#   Q                     its probability
#   D                     sqrt(g_k) (y_k - q_k), times the weight
IS_CLASS, BASE_LOG_PROBABILITY, OFFSET, OFFSET_GAIN, SCORE_MEAN, SCORE_VARIANCE, SQRT_G, Q, D, N_CLASS_FIELDS = range(
    10
)


class StackerScratch(NamedTuple):
    """Scratch of a stacker, with a copy of its learned state."""

    mean: np.ndarray
    C: np.ndarray  # rows padded to a multiple of four
    A: np.ndarray
    B: np.ndarray  # I + C A
    weighted: np.ndarray  # lines times g_k q_k
    u: np.ndarray
    slope: np.ndarray
    of_class: np.ndarray
    sums: np.ndarray
    unit: np.ndarray  # 1 in the middle


@kernel(forceinline=True)
def _new_work(state, which, n_classes):
    room, slots, padded = state.prior.size, state.covariance.shape[1], (n_classes + LANES - 1) // LANES * LANES
    rows = (slots + 3) // 4 * 4
    work = StackerScratch(
        *(
            aligned_zeros_1d(room, np.float64),
            aligned_zeros_1d(rows * room, np.float64),
            aligned_zeros_1d(rows * room, np.float64),
        ),
        *(
            aligned_zeros_1d(rows * room, np.float64),
            aligned_zeros_1d(n_classes * room, np.float64),
            aligned_zeros_1d(room, np.float64),
        ),
        *(
            aligned_zeros_1d(room, np.float64),
            aligned_zeros_1d(N_CLASS_FIELDS * padded, np.float64),
            aligned_zeros_1d(2 * padded * LANES, np.float64),
        ),
        zeros(2 * max(room, padded), np.float64),
    )
    work.unit[max(room, padded)] = 1.0
    for slot in range(room):
        work.mean[slot] = state.mean[which, slot]
        for i in range(slots):
            work.C[i * room + slot] = state.covariance[which, i, slot]
    for k in range(n_classes):
        work.of_class[IS_CLASS * padded + k] = 1.0
        work.of_class[OFFSET * padded + k] = state.offsets[which, 0, k]
        work.of_class[OFFSET_GAIN * padded + k] = state.offsets[which, 1, k]
    return work


@kernel(forceinline=True)
def _keep(state, which, n_classes, work):
    """Copy the learned state from the scratch back to the stack."""
    room, slots, padded = state.prior.size, state.covariance.shape[1], work.of_class.size // N_CLASS_FIELDS
    for slot in range(room):
        state.mean[which, slot] = work.mean[slot]
        for i in range(slots):
            state.covariance[which, i, slot] = work.C[i * room + slot]
    for k in range(n_classes):
        state.offsets[which, 0, k] = work.of_class[OFFSET * padded + k]
        state.offsets[which, 1, k] = work.of_class[OFFSET_GAIN * padded + k]


@inlined
def _answer(view, begin, work, room, n_classes, offset_prior):
    """Compute mean and variance of each class's score, and q, the softmax."""
    numbers, C, sums, padded = work.of_class, work.C, work.sums, work.of_class.size // N_CLASS_FIELDS
    zero = broadcast(load(C, 0), 0.0)
    for k in range(n_classes):
        line = begin + k * room
        numbers[BASE_LOG_PROBABILITY * padded + k] = view[line + room - LOG_BASE]
        score = spread = zero
        for at in range(0, room, LANES):
            even = odd = zero
            for i in range(0, C.size // room, 2):
                even = even + load(C, i * room + at) * broadcast_load(view, line + i)
                odd = odd + load(C, i * room + room + at) * broadcast_load(view, line + i + 1)
            seen = load(view, line + at)
            score, spread = score + load(work.mean, at) * seen, spread + (even + odd) * seen
        store(sums, k * LANES, score)
        store(sums, (padded + k) * LANES, spread)
    best = zero - 1e300
    for k in range(0, padded, LANES):
        m = (
            sum_lanes_many(sums, k * LANES, LANES)
            + load(numbers, BASE_LOG_PROBABILITY * padded + k)
            + load(numbers, OFFSET * padded + k)
        )
        s = max(sum_lanes_many(sums, (padded + k) * LANES, LANES), 0.0)
        s = s + offset_prior / (load(numbers, OFFSET_GAIN * padded + k) * offset_prior + 1.0)
        root = 1.0 / sqrt(s * C8 + 1.0)
        logit = where_above(load(numbers, IS_CLASS * padded + k), 0.0, m * root, zero - 1e300)
        best = max(best, logit)
        store(numbers, SCORE_VARIANCE * padded + k, s)
        store(numbers, SQRT_G * padded + k, root)
        store(numbers, SCORE_MEAN * padded + k, logit)
    most, total = max_lane(best), zero
    for k in range(0, padded, LANES):
        q = exp2((load(numbers, SCORE_MEAN * padded + k) - most) * LOG2E) * load(numbers, IS_CLASS * padded + k)
        total = total + q
        store(numbers, Q * padded + k, q)
    part = 1.0 / sum_lanes(total)
    for k in range(0, padded, LANES):
        q = max(load(numbers, Q * padded + k) * part, MIN_PROBABILITY) * load(numbers, IS_CLASS * padded + k)
        store(numbers, Q * padded + k, q)


@inlined
def _product(target, left, right, n, room, plus):
    """Compute target = left right + I, four rows at a time; `left` and `right` have n rows, a multiple of four."""
    middle = plus.size // 2
    zero = broadcast(load(left, 0), 0.0)
    for i in range(0, n, 4):
        for at in range(0, room, LANES):
            first = second = third = fourth = zero
            for j in range(n):
                row, place = load(right, j * room + at), i * room + j
                first = first + row * broadcast_load(left, place)
                second = second + row * broadcast_load(left, place + room)
                third = third + row * broadcast_load(left, place + 2 * room)
                fourth = fourth + row * broadcast_load(left, place + 3 * room)
            there = middle + at - i
            store(target, i * room + at, first + load(plus, there))
            store(target, (i + 1) * room + at, second + load(plus, there - 1))
            store(target, (i + 2) * room + at, third + load(plus, there - 2))
            store(target, (i + 3) * room + at, fourth + load(plus, there - 3))


@inlined
def _weigh(view, begin, work, room, n_classes, c):
    """Compute u, the slope, and A for a label of weight c, four rows at a time."""
    numbers, A, weighted, padded = work.of_class, work.A, work.weighted, work.of_class.size // N_CLASS_FIELDS
    zero = broadcast(load(A, 0), 0.0)
    for at in range(0, room, LANES):
        u = slope = zero
        for k in range(n_classes):
            seen, root = load(view, begin + k * room + at), broadcast_load(numbers, SQRT_G * padded + k)
            part = seen * (root * broadcast_load(numbers, Q * padded + k))
            u, slope = u + part, slope + seen * broadcast_load(numbers, D * padded + k)
            store(weighted, k * room + at, part * root * c)
        store(work.u, at, u)
        store(work.slope, at, slope)
    for i in range(0, A.size // room, 4):
        for at in range(0, room, LANES):
            u = load(work.u, at) * -c
            first, second = u * broadcast_load(work.u, i), u * broadcast_load(work.u, i + 1)
            third, fourth = u * broadcast_load(work.u, i + 2), u * broadcast_load(work.u, i + 3)
            for k in range(n_classes):
                row, place = load(weighted, k * room + at), begin + k * room + i
                first = first + row * broadcast_load(view, place)
                second = second + row * broadcast_load(view, place + 1)
                third = third + row * broadcast_load(view, place + 2)
                fourth = fourth + row * broadcast_load(view, place + 3)
            store(A, i * room + at, first)
            store(A, (i + 1) * room + at, second)
            store(A, (i + 2) * room + at, third)
            store(A, (i + 3) * room + at, fourth)


@inlined
def _solve(C, B, slots, room):
    """Compute C <- B^-1 C by elimination with pivots, then make C symmetric again."""
    stride = np.uint64(room)
    for i in range(slots):
        pivot, most = i, 0.0
        for r in range(i, slots):
            size = abs(B[np.uint64(r) * stride + np.uint64(i)])
            if size > most:
                pivot, most = r, size
        if pivot != i:
            for at in range(0, room, LANES):
                for table in (B, C):
                    mine, other = load(table, i * room + at), load(table, pivot * room + at)
                    store(table, i * room + at, other)
                    store(table, pivot * room + at, mine)
        inverse = 1.0 / broadcast_load(B, i * room + i)
        for r in range(i + 1, slots):
            factor = broadcast_load(B, r * room + i) * inverse
            for at in range(i // LANES * LANES, room, LANES):
                store(B, r * room + at, load(B, r * room + at) - load(B, i * room + at) * factor)
            for at in range(0, room, LANES):
                store(C, r * room + at, load(C, r * room + at) - load(C, i * room + at) * factor)
    for at in range(0, room, LANES):
        for i in range(slots - 1, -1, -1):
            left = load(C, i * room + at)
            for q in range(i + 1, slots):
                left = left - load(C, q * room + at) * broadcast_load(B, i * room + q)
            store(C, i * room + at, left / broadcast_load(B, i * room + i))
    for i in range(np.uint64(slots)):
        for j in range(i):
            C[i * stride + j] = C[j * stride + i] = 0.5 * (C[i * stride + j] + C[j * stride + i])


@inlined
def _learn(view, begin, work, prior, slots, room, n_classes, label, c, memory, offset_prior):
    """Update the coefficients and the offsets from a label."""
    numbers, C, mean, padded = work.of_class, work.C, work.mean, work.of_class.size // N_CLASS_FIELDS
    middle, rows = work.unit.size // 2, work.C.size // room
    for k in range(0, padded, LANES):
        off = load(work.unit, middle - label + k) - load(numbers, Q * padded + k)
        store(numbers, D * padded + k, off * load(numbers, SQRT_G * padded + k) * c)
    _weigh(view, begin, work, room, n_classes, c)
    _product(work.B, C, work.A, rows, room, work.unit)
    _solve(C, work.B, slots, room)
    for at in range(0, room, LANES):
        moved = load(mean, at)
        for i in range(slots):
            moved = moved + load(C, i * room + at) * broadcast_load(work.slope, i)
        store(mean, at, moved)
        if memory > 0.0:
            for i in range(slots):
                pull = load(work.unit, middle - i + at) * (broadcast_load(prior, i) * memory)
                store(C, i * room + at, load(C, i * room + at) * (1.0 - memory) + pull)
    if offset_prior == 0.0:
        return
    for k in range(0, padded, LANES):
        root, q, gained = (
            load(numbers, SQRT_G * padded + k), load(numbers, Q * padded + k), load(numbers, OFFSET_GAIN * padded + k)
        )  # fmt: skip
        v = offset_prior / (gained * offset_prior + 1.0)
        h = root * root * q * (1.0 - q) * c
        store(numbers, OFFSET * padded + k, load(numbers, OFFSET * padded + k) + v * load(numbers, D * padded + k))
        v = 1.0 / (1.0 / v + h / max(1.0 - h * v, 0.5))
        gained = max(1.0 / (v + (offset_prior - v) * memory) - 1.0 / offset_prior, 0.0)
        store(numbers, OFFSET_GAIN * padded + k, gained)


@kernel
def stack(lines, labels, weights, state, which, n_classes, first, last, answers, variances):
    """Run one stacker over rows in [first, last): write its answers and the variances of its scores, and learn.

    Rows of weight 0, or with a label that is not among the classes, are only predicted. `state` is a `StackState`.
    """
    prior, slots, room, view = state.prior, state.covariance.shape[1], lines.shape[2], lines.reshape(-1)
    memory = STACKER_MEMORY * which  # the second one forgets
    work = _new_work(state, which, n_classes)
    numbers, padded = work.of_class, work.of_class.size // N_CLASS_FIELDS
    for row in range(first, last):
        begin = row * lines.shape[1] * room
        c = min(weights[row], float(MOST_REPEATS)) if 0 <= labels[row] < n_classes else 0.0
        steps = math.ceil(c)
        for step in range(max(steps, 1)):
            _answer(view, begin, work, room, n_classes, state.offset_prior)
            if step == 0:
                for k in range(n_classes):
                    answers[row, k], variances[row, k] = numbers[Q * padded + k], numbers[SCORE_VARIANCE * padded + k]
            if steps > 0:
                _learn(
                    *(view, begin, work, prior, slots, room, n_classes, labels[row]),
                    *(c / steps, memory, state.offset_prior),
                )
    _keep(state, which, n_classes, work)
