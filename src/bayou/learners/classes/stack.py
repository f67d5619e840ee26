"""The stack on top of K learners of one class against the rest: two stackers whose coefficients all classes share.

The equations are in the docstring of `learner`. For each row and class there is a line of numbers, in turn

    what is heard    ln p_k, then ln S(z_jk) of each output, then logit p_k
    what is seen     F_k, less its mean under the base; at the end, in slots LOG_BASE and BASE, l_k and the base

Lines are padded to a multiple of LANES. All of it is small, dense and in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import exp2, exp2_within, log1p_unit
from bayou.kernels.room import zeros
from bayou.kernels.vector import LANES, aligned_zeros, fill, load, magnitude, padded, sqrt, store, total

# Logits say no more than this; normalised inputs no less than -CUT; and no class has less than LEAST.
SUREST, CUT, LEAST = 30.0, 15.0, 1e-13
PRIOR_A, PRIOR_C, PRIOR_B, MEMORY = 0.01, 3.0, 0.01, 1e-4
# A weight above 1 is several steps, and counts for no more than this many: far from home a long step overshoots.
MOST_REPEATS = 8
LEAST_SHARE = 1e-5
LOG2E = math.log2(math.e)
# Slots counted from the end of a line.
LOG_BASE, BASE = 2, 1


class Stack(NamedTuple):
    """What was learned of the outputs, as kernels take it. Coefficients: a, one for each output, that of the logits."""

    prior: np.ndarray  # variances of the coefficients
    mean: np.ndarray  # a row for each stacker
    covariance: np.ndarray
    offsets: np.ndarray  # of each stacker, class by class: b, and what its precision has gained
    shares: np.ndarray  # of the base and the stackers
    offset_prior: float  # the variance of each b at first; 0 where there are none

    @property
    def slots(self) -> int:
        return self.covariance.shape[1]

    def arrays(self, n_classes: int) -> dict[str, np.ndarray]:
        """What was learned of so many classes, by the names that files have for it."""
        return {
            "stacker means": self.mean,
            "stacker covariances": self.covariance,
            "stacker offsets": self.offsets[:, :, :n_classes],
            "stack shares": self.shares,
        }


def new_stack(n_outputs: int, max_classes: int, has_offsets: bool, n_stackers: int = 2) -> Stack:
    """Of so many outputs of each learner, before anything was learned."""
    slots = n_outputs + 2
    prior = np.zeros(padded(slots + BASE + 1))
    prior[0], prior[1:slots] = PRIOR_A, PRIOR_C / (n_outputs + 1)
    return Stack(
        prior=prior,
        mean=np.zeros((n_stackers, prior.size)),
        covariance=np.tile(np.diag(prior)[:slots], (n_stackers, 1, 1)),
        offsets=np.zeros((n_stackers, 2, max_classes)),
        shares=np.full(1 + n_stackers, 1.0 / (1 + n_stackers)),
        offset_prior=PRIOR_B if has_offsets else 0.0,
    )


def new_lines(into: Stack, rows: int, n_classes: int) -> np.ndarray:
    """Lines for so many rows and classes."""
    return aligned_zeros(rows * n_classes, into.prior.size, "float64").reshape(rows, n_classes, into.prior.size)


@kernel
def hear(said, lane_of, output_spread, log_odds, lines, of_class):
    """Fill the lines of one class with what its learner said of each row, its log-odds, and its lanes (`said`)."""
    width, room, n_outputs = said.shape[2], lines.shape[2], lane_of.size
    scratch = zeros((4, room), np.float64)
    m, s, spread, raw = scratch[0], scratch[1], scratch[2], scratch[3]
    for o in range(n_outputs):
        spread[1 + o] = output_spread[o]
    raw[1 + n_outputs] = 1.0
    told, heard, stride = said.reshape(-1), lines.reshape(-1), lines.shape[1] * room
    for row in range(log_odds.size):
        for o in range(n_outputs):
            place = row * 2 * width + lane_of[o]
            m[1 + o], s[1 + o] = told[place], told[place + width]
        m[0] = m[1 + n_outputs] = log_odds[row]
        there = row * stride + of_class * room
        for at in range(0, room, LANES):
            z = load(m, at) / sqrt(load(s, at) * load(spread, at) + 1.0)
            z = max(min(z, SUREST), -SUREST)
            log_sigmoid = min(z, 0.0) - log1p_unit(exp2_within(magnitude(z) * -LOG2E))
            store(heard, there + at, log_sigmoid + (z - log_sigmoid) * load(raw, at))


@kernel
def look(lines, n_slots, n_classes, first, last):
    """Make of what was heard of rows `first` to `last` what stackers see, in place."""
    room, view = lines.shape[2], lines.reshape(-1)
    logs, centre = zeros(room, np.float64), zeros(room, np.float64)
    zero = fill(load(logs, 0), 0.0)
    for row in range(first, last):
        begin = row * lines.shape[1] * room
        end = begin + n_classes * room
        for at in range(0, room, LANES):
            whole = zero
            for line in range(begin, end, room):
                whole = whole + exp2_within(load(view, line + at) * LOG2E)
            store(logs, at, whole)
            store(centre, at, zero)
        for k in range(n_slots):
            logs[k] = math.log(logs[k])
        for line in range(begin, end, room):
            log_base = view[line] - logs[0]
            base, offset = math.exp(log_base), max(log_base, -CUT)
            for at in range(0, room, LANES):
                seen = max(load(view, line + at) - load(logs, at), -CUT) - offset
                store(view, line + at, seen)
                store(centre, at, load(centre, at) + seen * base)
            centre[0] += base * (offset - view[line])
            view[line] = offset
            view[line + room - LOG_BASE], view[line + room - BASE] = offset, base
        for line in range(begin, end, room):
            log_base, base = view[line + room - LOG_BASE], view[line + room - BASE]
            for at in range(0, room, LANES):
                store(view, line + at, load(view, line + at) - load(centre, at))
            view[line + room - LOG_BASE], view[line + room - BASE] = log_base, base


@kernel(forceinline=True)
def _solve(C, B, slots, room):
    """C <- B^-1 C by elimination with pivots; then symmetric again."""
    for i in range(slots):
        pivot = i
        for r in range(i + 1, slots):
            if abs(B[r * room + i]) > abs(B[pivot * room + i]):
                pivot = r
        if pivot != i:
            for at in range(0, room, LANES):
                for table in (B, C):
                    mine, other = load(table, i * room + at), load(table, pivot * room + at)
                    store(table, i * room + at, other)
                    store(table, pivot * room + at, mine)
        for r in range(i + 1, slots):
            factor = B[r * room + i] / B[i * room + i]
            for at in range(0, room, LANES):
                store(B, r * room + at, load(B, r * room + at) - load(B, i * room + at) * factor)
                store(C, r * room + at, load(C, r * room + at) - load(C, i * room + at) * factor)
    for i in range(slots - 1, -1, -1):
        for at in range(0, room, LANES):
            left = load(C, i * room + at)
            for q in range(i + 1, slots):
                left = left - load(C, q * room + at) * B[i * room + q]
            store(C, i * room + at, left / B[i * room + i])
    for i in range(slots):
        for j in range(i):
            C[i * room + j] = C[j * room + i] = 0.5 * (C[i * room + j] + C[j * room + i])


@kernel(forceinline=True)
def _scores(view, begin, mean, C, offsets, offset_prior, slots, room, n_classes, m, s):
    """Mean and variance of each class's score."""
    zero = fill(load(mean, 0), 0.0)
    for k in range(n_classes):
        line = begin + k * room
        score, spread = zero, zero
        for at in range(0, room, LANES):
            product = zero
            for i in range(slots):
                product = product + load(C, i * room + at) * view[line + i]
            seen = load(view, line + at)
            score, spread = score + load(mean, at) * seen, spread + product * seen
        m[k] = view[line + room - LOG_BASE] + offsets[0, k] + total(score)
        s[k] = max(total(spread), 0.0) + offset_prior / (1.0 + offset_prior * offsets[1, k])


@kernel(forceinline=True)
def _softmax(m, s, root, q, n_classes):
    """root = sqrt(g), q = softmax(m root)."""
    best = -np.inf
    for k in range(n_classes):
        root[k] = 1.0 / math.sqrt(1.0 + C8 * s[k])
        q[k] = m[k] * root[k]
        best = max(best, q[k])
    for at in range(0, q.size, LANES):
        store(q, at, exp2((load(q, at) - best) * LOG2E))
    whole = 0.0
    for k in range(n_classes):
        whole += q[k]
    for k in range(n_classes):
        q[k] = max(q[k] / whole, LEAST)


@kernel(forceinline=True)
def _learn(
    view,
    begin,
    mean,
    C,
    offsets,
    offset_prior,
    prior,
    slots,
    room,
    n_classes,
    label,
    c,
    memory,
    root,
    q,
    A,
    B,
    u,
    slope,
):
    """What a label tells the coefficients and the offsets."""
    zero = fill(load(mean, 0), 0.0)
    for at in range(0, room, LANES):
        store(u, at, zero)
        store(slope, at, zero)
    for k in range(n_classes):
        d = c * root[k] * ((1.0 if k == label else 0.0) - q[k])
        for at in range(0, room, LANES):
            seen = load(view, begin + k * room + at)
            store(u, at, load(u, at) + seen * (root[k] * q[k]))
            store(slope, at, load(slope, at) + seen * d)
    for i in range(slots):
        for at in range(0, room, LANES):
            row = load(u, at) * -u[i]
            for k in range(n_classes):
                line = begin + k * room
                row = row + load(view, line + at) * (root[k] * root[k] * q[k] * view[line + i])
            store(A, i * room + at, row * c)
    for i in range(slots):
        for at in range(0, room, LANES):
            row = zero
            for j in range(slots):
                row = row + load(A, j * room + at) * C[i * room + j]
            store(B, i * room + at, row)
        B[i * room + i] += 1.0
    _solve(C, B, slots, room)
    for i in range(slots):
        step = zero
        for at in range(0, room, LANES):
            step = step + load(C, i * room + at) * load(slope, at)
        mean[i] += total(step)
    for i in range(slots):
        for at in range(0, room, LANES):
            store(C, i * room + at, load(C, i * room + at) * (1.0 - memory))
        C[i * room + i] += memory * prior[i]
    if offset_prior == 0.0:
        return
    for k in range(n_classes):
        v = offset_prior / (1.0 + offset_prior * offsets[1, k])
        h = c * root[k] * root[k] * q[k] * (1.0 - q[k])
        offsets[0, k] += v * c * root[k] * ((1.0 if k == label else 0.0) - q[k])
        v = 1.0 / (1.0 / v + h / max(1.0 - h * v, 0.5))
        offsets[1, k] = max(1.0 / (v + memory * (offset_prior - v)) - 1.0 / offset_prior, 0.0)


@kernel
def stack(lines, labels, weights, into, which, n_classes, first, last, answers, variances):
    """One stacker over rows `first` to `last`: its answers, and the variances of its scores; it learns on its way.

    Rows of weight 0 and of a label that is not among the classes teach nothing. `into` is a `Stack`.
    """
    mean, C, offsets = into.mean[which], into.covariance[which].reshape(-1), into.offsets[which]
    prior, slots, room = into.prior, into.covariance.shape[1], lines.shape[2]
    view = lines.reshape(-1)
    memory = MEMORY * which  # the second one forgets
    classes, tables = zeros((3, n_classes), np.float64), zeros((2, slots * room), np.float64)
    m, s, root, vectors = classes[0], classes[1], classes[2], zeros((2, room), np.float64)
    q = zeros((n_classes + LANES - 1) // LANES * LANES, np.float64)
    for row in range(first, last):
        begin = row * lines.shape[1] * room
        c = min(weights[row], float(MOST_REPEATS)) if 0 <= labels[row] < n_classes else 0.0
        steps = math.ceil(c)
        for step in range(max(steps, 1)):
            _scores(view, begin, mean, C, offsets, into.offset_prior, slots, room, n_classes, m, s)
            _softmax(m, s, root, q, n_classes)
            if step == 0:
                for k in range(n_classes):
                    answers[row, k], variances[row, k] = q[k], s[k]
            if steps > 0:
                _learn(
                    *(view, begin, mean, C, offsets, into.offset_prior, prior, slots, room, n_classes, labels[row]),
                    *(c / steps, memory, root, q, tables[0], tables[1], vectors[0], vectors[1]),
                )


class Said(NamedTuple):
    """What stackers and learners say of rows and classes, and what is made of it; `own` and `spread` are variances."""

    answers: np.ndarray  # of each stacker
    spread: np.ndarray  # of each stacker's scores
    own: np.ndarray  # of the learners' scores
    probability: np.ndarray
    mean: np.ndarray  # of the classes' log-odds
    variance: np.ndarray


def new_said(n_stackers: int, rows: int, n_classes: int) -> Said:
    """Nothing said yet."""
    shape = rows, n_classes
    return Said(
        *(np.zeros((n_stackers, *shape)), np.zeros((n_stackers, *shape)), np.zeros(shape)),
        *(np.zeros(shape), np.zeros(shape), np.zeros(shape)),
    )


@kernel(forceinline=True)
def _tell(said, shares, row, n_classes, certain):
    """Mean and variance of each class's log-odds, such that they give its probability back."""
    probability, mean, variance = said.probability, said.mean, said.variance
    for k in range(n_classes):
        p = probability[row, k]
        rest = 1.0 - p
        if p > 0.5:  # never from 1: the others, added up
            rest = 0.0
            for i in range(n_classes):
                if i != k:
                    rest += probability[row, i]
        unsure = 0.0 if certain else said.own[row, k]
        for j in range(1, shares.size):
            unsure += 0.0 if certain else shares[j] * said.spread[j - 1, row, k]
        variance[row, k] = unsure
        mean[row, k] = math.log(p / max(rest, LEAST)) * math.sqrt(1.0 + C8 * unsure)


@kernel
def share(lines, labels, weights, into, said, n_classes, examples, floor, certain, first, last):
    """The answer of all: base and stackers by their shares, which follow. `said` is a `Said`.

    `floor` is 1 for fixed share, 0 for Bayes' rule; `certain` is whether learners know nothing of their variances. How
    many examples there were.
    """
    shares, room, n = into.shares, lines.shape[2], into.shares.size
    answers, probability = said.answers, said.probability
    chances = zeros(n, np.float64)
    for row in range(first, last):
        whole = 0.0
        for k in range(n_classes):
            p = shares[0] * max(lines[row, k, room - BASE], LEAST)
            for j in range(1, n):
                p += shares[j] * answers[j - 1, row, k]
            probability[row, k] = p
            whole += p
        for k in range(n_classes):
            probability[row, k] /= whole
        _tell(said, shares, row, n_classes, certain)
        c = np.float64(weights[row])
        if c == 0.0:
            continue
        alpha = max(1.0 / (examples + 2.0), LEAST_SHARE) * floor
        examples += 1
        label = labels[row]
        if not 0 <= label < n_classes:
            continue
        best = -np.inf
        for j in range(n):
            chance = max(lines[row, label, room - BASE], LEAST) if j == 0 else answers[j - 1, row, label]
            chances[j] = math.log(shares[j]) + c * math.log(chance) if shares[j] > 0.0 else -np.inf
            best = max(best, chances[j])
        whole = 0.0
        for j in range(n):
            chances[j] = math.exp(chances[j] - best)
            whole += chances[j]
        for j in range(n):
            shares[j] = (1.0 - alpha) * chances[j] / whole + alpha / n
    return examples
