"""Reading examples: each is predicted at the current weights, expanded there, and added to the quadratic.

All algorithms of the lasso read their data with the kernel `gather`; the equations are in the docstring of `learner`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.core import links
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.learners.lasso.sketch import CURVATURE, LINEAR, SIGN, WEIGHT

# The expansion of a surprising example of margin z < 0 has its peak at |z| + SURPRISE at most. Taylor's polynomial has
# hardly any curvature there, and its peak would be at margins of thousands.
SURPRISE = 10.0
# Entries of the tally that the kernel uses.
LOSS, EXAMPLES, BLOCK_START = 0, 1, 12
# Why the kernel stopped:
#     ENDED         there are no more rows
#     MAXIMISE      it is time to maximize
#     FULL          the log has no room for the next row
#     BLOCK_ENDED   a block of examples has ended
ENDED, MAXIMISE, FULL, BLOCK_ENDED = range(4)


class ExpansionConfig(NamedTuple):
    """Settings of `gather` that stay constant while examples are read."""

    link: int
    has_intercept: bool
    online: bool
    has_inactive: bool  # whether features without a slot wait for one (online, without a dense H)
    keeps_log: bool  # whether examples are kept in the log of a sketch
    maximize_every: int  # examples between two maximizations; 0: never
    block_size: int  # of the block heuristic; 0: never


class Quadratic(NamedTuple):
    """The quadratic approximation of the log-likelihood at some weights; the intercept is the last feature."""

    weights: np.ndarray
    gradient: np.ndarray
    slots: np.ndarray  # slots of features in the block, counted from 1
    block: np.ndarray  # H of the features that have a slot


class InactiveFeatures(NamedTuple):
    """Features that were seen but have no slot, with G at the weights `reference`, and H_jj in `curvature_diagonal`."""

    indices: np.ndarray
    n_met: np.ndarray  # one number: how many of `indices` are filled
    reference: np.ndarray
    curvature_diagonal: np.ndarray

    @property
    def seen(self) -> np.ndarray:
        """The features that were seen and had no slot at first."""
        return self.indices[: self.n_met[0]]


class LookaheadState(NamedTuple):
    """Weights for each penalty of "lookahead", and the log-likelihood of each so far."""

    weights: np.ndarray
    scores: np.ndarray


@kernel
def expansion(link, z, reach):
    """Return slope and curvature of log F at a margin z; for z < 0 the expansion's peak is at |z| + reach at most."""
    slope, curvature = links.slope_and_curvature(link, z)
    if z < 0.0:
        curvature = max(curvature, slope / (reach - 2.0 * z))
    return slope, curvature


@kernel
def predict(indptr, indices, values, link, has_intercept, beta, score, probability):
    """Predict rows as `gather` does, bit for bit, with fewer arguments to pass: 4 us faster for a few rows."""
    for row in range(indptr.size - 1):
        m = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            m += values[k] * beta[indices[k]]
        if has_intercept:
            m += beta[beta.size - 1]
        score[row] = m
        probability[row] = links.cdf(link, m)


@kernel
def gather(examples, start, learned, rules, reach, sums, score, probability):
    """Predict rows from `start` on and add those whose weight is not 0 to the quadratic, until it is time to stop.

    Returns (row to continue with, number of examples learned, reason for stopping). `reach` bounds the peak of
    surprising examples, see `expansion`.

        features     0, 1, ... bias - 1, and bias for the intercept: the axis of beta, gradient, slots and bend
        block        H[slot, slot] of the features that have a slot; slots[feature] is the slot + 1, 0 for a feature
                     that was never seen, -1 for one that waits for a slot
        row_slots, x of one row: the slots of its features that have one, and their values
        log          the rows themselves: log.ends[n] to log.ends[n + 1] are row n's entries of log.indices and
                     log.values, log.rows[n] the numbers of its expansion
    """
    quadratic, log, waiting, ahead, tally = sums
    indptr, indices, values = examples.indptr, examples.indices, examples.values
    beta, gradient = quadratic.weights, quadratic.gradient
    bias = beta.size - 1
    row_slots, x = empty(examples.max_row_length + 1, np.int64), empty(examples.max_row_length + 1, np.float64)
    for row in range(start, indptr.size - 1):
        # Phase 1: predict.
        first, last = indptr[row], indptr[row + 1]
        m = 0.0
        for k in range(first, last):
            m += values[k] * beta[indices[k]]
        if rules.has_intercept:
            m += beta[bias]
        score[row] = m
        probability[row] = links.cdf(rules.link, m)
        c = examples.weights[row]
        if c == 0.0:
            continue
        n = log.length[0]
        if rules.keeps_log and (n == log.rows.shape[0] or log.ends[n] + last - first + 1 > log.values.size):
            return row, learned, FULL
        # Phase 2: the log-likelihood at the weights of each penalty of "lookahead".
        y = examples.labels[row]
        for lane in range(ahead.weights.shape[0]):
            lane_score = ahead.weights[lane, bias] if rules.has_intercept else 0.0
            for k in range(first, last):
                lane_score += values[k] * ahead.weights[lane, indices[k]]
            ahead.scores[lane] += c * links.log_cdf(rules.link, y * lane_score)
        # Phase 3: expand at the margin, and add the gradient.
        slope, curvature = expansion(rules.link, y * m, reach)
        g, h = c * y * slope, c * curvature
        tally[LOSS] -= c * links.log_cdf(rules.link, y * m)
        tally[EXAMPLES] += 1.0
        for k in range(first, last):
            gradient[indices[k]] += g * values[k]
        if rules.has_intercept:
            gradient[bias] += g
        # Phase 4: add the curvature, and log the row.
        _add_curvature(indices, values, first, last, h, rules, quadratic, waiting, row_slots, x)
        if rules.keeps_log:
            log.rows[n, CURVATURE] = h
            log.rows[n, LINEAR] = g + h * m
            log.rows[n, SIGN] = y
            log.rows[n, WEIGHT] = c
            _append_to_log(indices, values, first, last, rules.has_intercept, np.uint32(bias), log)
        # Phase 5: check whether it is time to stop.
        learned += 1
        if rules.block_size > 0 and learned - tally[BLOCK_START] >= rules.block_size:
            return row + 1, learned, BLOCK_ENDED
        if rules.maximize_every > 0 and learned % rules.maximize_every == 0:
            return row + 1, learned, MAXIMISE
    return indptr.size - 1, learned, ENDED


@inlined
def _add_curvature(indices, values, first, last, h, rules, quadratic, waiting, row_slots, x):
    """Add h x x' of a row, entries `first` to `last` of its batch, to H; `row_slots` and `x` are as in `gather`."""
    beta, gradient, slots, block = quadratic
    bias = beta.size - 1
    # Find the features that have a slot in the block; the intercept comes last.
    size = 0
    shift = 0.0  # change of the score since the reference weights, at which the other features' gradients are
    in_order = True
    for k in range(first, last + rules.has_intercept if block.size > 0 else first):
        j = np.int64(indices[k]) if k < last else bias
        slot = slots[j]
        if slot > 0:
            row_slots[size] = slot - 1
            x[size] = values[k] if k < last else 1.0
            in_order &= size == 0 or row_slots[size] == row_slots[size - 1] + 1
            if rules.has_inactive:
                shift += x[size] * (beta[j] - waiting.reference[j])
            size += 1
    # Add to gradient and curvature of the features that wait for a slot.
    if rules.has_inactive:
        for k in range(first, last):
            j = np.int64(indices[k])
            if slots[j] <= 0:
                value = values[k]
                gradient[j] += h * shift * value
                waiting.curvature_diagonal[j] += h * value * value
                if slots[j] == 0:
                    slots[j] = -1
                    waiting.indices[waiting.n_met[0]] = j
                    waiting.n_met[0] += 1
    # Add the row's products to the block. Online all of it is needed at any time; else each pair is added once.
    for a in range(size):
        bent = h * x[a]
        place = row_slots[a]
        end = size if rules.online else a + 1
        if in_order:
            for b in range(end):
                block[place, row_slots[0] + b] += bent * x[b]
        else:
            for b in range(end):
                block[place, row_slots[b]] += bent * x[b]


@inlined
def _append_to_log(indices, values, first, last, has_intercept, bias, log):
    """Append the features of a row, entries `first` to `last` of its batch, to the log."""
    n = log.length[0]
    to = log.ends[n]
    for k in range(last - first):
        log.indices[to + k] = indices[first + k]
    for k in range(last - first):
        log.values[to + k] = values[first + k]
    to += last - first
    if has_intercept:
        log.indices[to] = bias
        log.values[to] = 1.0
        to += 1
    log.ends[n + 1] = to
    log.length[0] = n + 1
