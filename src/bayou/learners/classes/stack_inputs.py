"""The stack on top of K learners of one class against the rest: two stackers whose coefficients all classes share.

The equations are in the docstring of `learner`. For each row and class there is a line of numbers. At first it has the
learner's outputs: ln p_k, then ln S(z_jk) of each output, then logit p_k. They are replaced by the stackers' inputs:
F_k less its mean under the base, and at the end, in slots LOG_BASE and BASE, l_k and the base. `stacker` reads these.

Lines are padded to a multiple of LANES. The state is small, dense and in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.allocate import aligned_zeros_1d, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, exp2_within, log, log_sigmoid
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, broadcast, broadcast_load, load, pad_to_lanes, sqrt, store
from bayou.learners.ensembles.shares import leak_after, set_shares
from bayou.learners.ensembles.stackers import MAX_LOGIT, MAX_STACKED_LOGIT, STACKER_PRIOR

# No class has a probability below this.
MIN_PROBABILITY = 1e-13
# Prior variance of all stacking coefficients together.
COEFFICIENTS_PRIOR = 3.0
# Slots counted from the end of a line: l_k, and the base.
LOG_BASE, BASE = 2, 1


class StackState(NamedTuple):
    """Learned state of the stack, as kernels take it. Coefficients: a, one for each output, that of the logits."""

    prior: np.ndarray  # variances of the coefficients
    mean: np.ndarray  # a row for each stacker
    covariance: np.ndarray
    offsets: np.ndarray  # of each stacker: b of every class, then its gained precision
    shares: np.ndarray  # of the base and the stackers
    offset_prior: float  # the variance of each b at first; 0 where there are none

    @property
    def slots(self) -> int:
        return self.covariance.shape[1]

    def arrays(self, n_classes: int) -> dict[str, np.ndarray]:
        """Return the learned arrays of `n_classes` classes, keyed by their names in the model file."""
        return {
            "stacker means": self.mean,
            "stacker covariances": self.covariance,
            "stacker offsets": self.offsets[:, :, :n_classes],
            "stack shares": self.shares,
        }


def new_stack(n_outputs: int, max_classes: int, has_offsets: bool, n_stackers: int = 2) -> StackState:
    """Return an untrained stack for `n_outputs` outputs of each learner."""
    slots = n_outputs + 2
    prior = np.zeros(pad_to_lanes(slots + BASE + 1))
    prior[0], prior[1:slots] = STACKER_PRIOR, COEFFICIENTS_PRIOR / (n_outputs + 1)
    return StackState(
        prior=prior,
        mean=np.zeros((n_stackers, prior.size)),
        covariance=np.tile(np.diag(prior)[:slots], (n_stackers, 1, 1)),
        offsets=np.zeros((n_stackers, 2, max_classes)),
        shares=np.full(1 + n_stackers, 1.0 / (1 + n_stackers)),
        offset_prior=STACKER_PRIOR if has_offsets else 0.0,
    )


class StackInputs(NamedTuple):
    """Outputs of the learners of all classes for some rows, and the lines computed from them."""

    lane_outputs: np.ndarray  # lane outputs: for each class and row, mean and variance of the score in every lane
    log_odds: np.ndarray  # of each class and row
    lane_of: np.ndarray  # the lane of each output that is stacked
    output_damping: np.ndarray  # C8 kp
    inputs: np.ndarray


def new_stack_inputs(
    stack: StackState, rows: int, n_classes: int, width: int, lane_of: np.ndarray, score_variances: np.ndarray
) -> StackInputs:
    """Allocate empty inputs for the given rows, classes and lanes."""
    return StackInputs(
        np.empty((n_classes, rows, 2, width), score_variances.dtype),
        np.empty((n_classes, rows)),
        lane_of,
        score_variances,
        aligned_zeros(rows * n_classes, stack.prior.size, "float64").reshape(rows, n_classes, stack.prior.size),
    )


@inlined
def _lay_out(inputs, m, s, n_classes, row):
    """Gather a row's outputs by slots of all classes, in advance: vectors cannot be loaded from values just stored."""
    lane_of, lane_outputs, log_odds = inputs.lane_of, inputs.lane_outputs.reshape(-1), inputs.log_odds.reshape(-1)
    rows = np.uint64(inputs.lane_outputs.shape[1])
    width = np.uint64(inputs.lane_outputs.shape[3])
    room = np.uint64(inputs.inputs.shape[2])
    last = np.uint64(lane_of.size + 1)
    for k in range(np.uint64(n_classes)):
        place, slot = k * rows + np.uint64(row), k * room
        m[slot] = m[slot + last] = log_odds[place]
        place *= np.uint64(2) * width
        for o in range(np.uint64(lane_of.size)):
            lane = place + np.uint64(lane_of[o])
            slot += np.uint64(1)
            m[slot], s[slot] = lane_outputs[lane], lane_outputs[lane + width]


@kernel
def fill_stacker_inputs(inputs, n_classes, first, last):
    """Compute the stackers' inputs of rows in [first, last) from the learners' outputs. `inputs` is a `StackInputs`."""
    room, view, n_outputs = inputs.inputs.shape[2], inputs.inputs.reshape(-1), inputs.lane_of.size
    m, s = aligned_zeros_1d(n_classes * room, np.float64), aligned_zeros_1d(n_classes * room, np.float64)
    score_variances, raw, further, logs = (
        zeros(room, np.float64), zeros(room, np.float64), zeros(room, np.float64), zeros(room, np.float64)
    )  # fmt: skip
    log_bases, bases = zeros(n_classes + LANES, np.float64), zeros(n_classes + LANES, np.float64)
    for o in range(n_outputs):
        score_variances[1 + o] = inputs.output_damping[o]
    for slot in range(1, room):
        further[slot] = 1.0
    raw[1 + n_outputs] = 1.0
    zero = broadcast(load(score_variances, 0), 0.0)
    for row in range(first, last):
        begin = row * inputs.inputs.shape[1] * room
        _lay_out(inputs, m, s, n_classes, row)
        for at in range(0, room, LANES):
            total = zero
            for place in range(at, n_classes * room, room):
                z = load(m, place) / sqrt(load(s, place) * load(score_variances, at) + 1.0)
                z = max(min(z, MAX_LOGIT), -MAX_LOGIT)
                likely = log_sigmoid(z)
                logit = likely + (z - likely) * load(raw, at)
                total = total + exp2_within(logit * LOG2E)
                store(view, begin + place, logit)
            store(logs, at, log(total))
        for k in range(n_classes):
            log_bases[k] = view[begin + k * room] - logs[0]
        for k in range(0, n_classes, LANES):
            store(bases, k, exp2(load(log_bases, k) * LOG2E))
        for at in range(0, room, LANES):
            centre = zero
            for k in range(n_classes):
                line, offset = begin + k * room + at, max(broadcast_load(log_bases, k), -MAX_STACKED_LOGIT)
                seen = max(load(view, line) - load(logs, at), -MAX_STACKED_LOGIT) - offset * load(further, at)
                store(view, line, seen)
                centre = centre + seen * broadcast_load(bases, k)
            for line in range(begin + at, begin + n_classes * room, room):
                store(view, line, load(view, line) - centre)
        for k in range(n_classes):
            end = begin + (k + 1) * room
            view[end - LOG_BASE], view[end - BASE] = max(log_bases[k], -MAX_STACKED_LOGIT), bases[k]


class StackOutputs(NamedTuple):
    """Results of stackers and learners by row and class, and of the stack."""

    probabilities: np.ndarray  # of each stacker
    score_variances: np.ndarray  # of each stacker's scores
    learner_variances: np.ndarray  # of the learners' scores
    probability: np.ndarray
    mean: np.ndarray  # of the classes' log-odds
    variance: np.ndarray


def new_stack_outputs(n_stackers: int, rows: int, n_classes: int) -> StackOutputs:
    """Allocate outputs, all zero, for the given stackers, rows and classes."""
    shape = rows, n_classes
    return StackOutputs(
        *(np.zeros((n_stackers, *shape)), np.zeros((n_stackers, *shape)), np.zeros(shape)),
        *(np.zeros(shape), np.zeros(shape), np.zeros(shape)),
    )


@kernel(forceinline=True)
def _tell(outputs, shares, row, n_classes, certain):
    """Write mean and variance of each class's log-odds, such that they give its probability back."""
    probability, mean, variance = outputs.probability, outputs.mean, outputs.variance
    for k in range(n_classes):
        p = probability[row, k]
        rest = 1.0 - p
        if p > 0.5:  # sum the others: 1 - p would lose digits
            rest = 0.0
            for i in range(n_classes):
                if i != k:
                    rest += probability[row, i]
        unsure = 0.0 if certain else outputs.learner_variances[row, k]
        for j in range(1, shares.size):
            unsure += 0.0 if certain else shares[j] * outputs.score_variances[j - 1, row, k]
        variance[row, k] = unsure
        mean[row, k] = math.log(p / max(rest, MIN_PROBABILITY)) * math.sqrt(1.0 + C8 * unsure)


@kernel
def share(inputs, labels, weights, stack, outputs, n_classes, examples, floor, certain, first, last):
    """Mix base and stackers by their shares, update the shares, and return the number of examples so far.

    `outputs` is a `StackOutputs`. `floor` is 1 for fixed share, 0 for Bayes' rule; `certain`: there are no variances.
    """
    shares, room, n = stack.shares, inputs.shape[2], stack.shares.size
    answers, probability = outputs.probabilities, outputs.probability
    chances, even = zeros(n, np.float64), np.ones(n)
    for row in range(first, last):
        total = 0.0
        for k in range(n_classes):
            p = shares[0] * max(inputs[row, k, room - BASE], MIN_PROBABILITY)
            for j in range(1, n):
                p += shares[j] * answers[j - 1, row, k]
            probability[row, k] = p
            total += p
        for k in range(n_classes):
            probability[row, k] /= total
        _tell(outputs, shares, row, n_classes, certain)
        c = np.float64(weights[row])
        if c == 0.0:
            continue
        alpha = leak_after(examples) * floor
        examples += 1
        label = labels[row]
        if not 0 <= label < n_classes:
            continue
        best = -np.inf
        for j in range(n):
            chance = max(inputs[row, label, room - BASE], MIN_PROBABILITY) if j == 0 else answers[j - 1, row, label]
            chances[j] = math.log(shares[j]) + c * math.log(chance) if shares[j] > 0.0 else -np.inf
            best = max(best, chances[j])
        for j in range(n):
            chances[j] = math.exp(chances[j] - best)
        set_shares(shares, chances, 1.0 - alpha, alpha / n, even)
    return examples
