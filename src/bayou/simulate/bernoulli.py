"""Independent features, for `random`, `nonbinary` and `groups`."""

from __future__ import annotations

import math

import numpy as np

from bayou.core import links
from bayou.kernels.allocate import empty, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix, unit
from bayou.simulate.seeds import example_state


class IndependentFeatures:
    """Independent features, each active with the same probability; only the active ones are visited.

    The number of inactive features between two active ones is geometric, P(k) = p (1 - p)^k. It is drawn from an alias
    table of the outcomes 0 .. n-1 and "n or more". As the distribution is memoryless, the last outcome is n plus a
    geometric number, drawn the slow way: the integer part of log(u) / log(1 - p), u uniform.
    """

    # A longer table would not fit into the first-level cache.
    LONGEST = 1024

    def __init__(self, n_features: int, active: float, binary: bool) -> None:
        self.n_features, self.active, self.binary = n_features, active, binary
        self.n_outcomes = min(n_features, self.LONGEST)
        stay = 1.0 - active
        self.log_stay = math.log1p(-active) if active < 1.0 else -math.inf
        probabilities = active * stay ** np.arange(self.n_outcomes)
        self.thresholds, self.others = alias_table(np.append(probabilities, stay**self.n_outcomes))

    def draw(self, key: np.uint64, start: int, size: int, weights: np.ndarray, link: int) -> tuple:
        indptr, labels = np.empty(size + 1, np.int64), np.empty(size)
        mean = size * self.n_features * self.active
        capacity = int(mean + 8 * math.sqrt(mean * (1 - self.active)) + 64)
        while True:
            indices = np.empty(capacity, np.uint32)
            values = np.ones(capacity, np.float32) if self.binary else np.empty(capacity, np.float32)
            used = _flip_coins(
                key, start, self.thresholds, self.others, self.n_outcomes, self.log_stay, self.binary,
                weights, link, indptr, indices, values, labels,
            )  # fmt: skip
            if used >= 0:
                return indptr, indices[:used], values[:used], labels
            capacity *= 2  # more than eight standard deviations: this hardly ever happens


@kernel
def _flip_coins(
    key,
    start,
    thresholds,
    alternatives,
    n_outcomes,
    log_stay,
    binary,
    weights,
    link,
    indptr,
    indices,
    values,
    labels,
):
    """Write the examples from `start` on; return their number of nonzeros, or -1 if `indices` is too small."""
    mask = np.uint64(thresholds.size - 1)
    shift = np.uint64(log2(thresholds.size))
    indptr[0] = 0
    k = 0
    for row in range(labels.size):
        state = example_state(key, start + row)
        score = 0.0
        feature = 0
        while True:
            state += GOLDEN
            bits = mix(state)
            cell = bits & mask
            alternative = np.int64(alternatives[cell])
            skip = np.int64(cell) if bits >> shift < thresholds[cell] else alternative
            if skip == n_outcomes:
                state += GOLDEN
                extra = math.log(1.0 - unit(mix(state))) / log_stay
                skip += np.int64(min(extra, np.float64(weights.size)))
            feature += skip
            if feature >= weights.size:
                break
            if k == indices.size:
                return -1
            indices[k] = feature
            if binary:
                score += weights[feature]
            else:
                state += GOLDEN
                # One of 2^24 evenly spaced values, none of them 0: an active feature has a value.
                values[k] = (np.float32(mix(state) >> np.uint64(40)) + np.float32(0.5)) * np.float32(2**-24)
                score += np.float64(values[k]) * weights[feature]
            k += 1
            feature += 1
        indptr[row + 1] = k
        labels[row] = 1.0 if unit(mix(state + GOLDEN)) < links.cdf(link, score) else -1.0
    return k


@kernel
def log2(size):
    bits = 0
    while 1 << bits < size:
        bits += 1
    return bits


@kernel
def alias_table(probabilities):
    """Return Walker's alias table (thresholds, others) of a power of two of equally likely cells.

    The low bits of a 64-bit draw select a cell. The other bits, as a number, are below the cell's threshold with the
    probability that the outcome is the cell's own index and not `others[cell]`.
    """
    bits = log2(probabilities.size)
    n = 1 << bits
    height = zeros(n, np.float64)
    height[: probabilities.size] = probabilities * (n / probabilities.sum())
    thresholds = zeros(n, np.uint64)
    alternatives = np.arange(n).astype(np.uint32)
    low, high = empty(n, np.int64), empty(n, np.int64)
    n_low, n_high = 0, 0
    for cell in range(n):
        if height[cell] < 1.0:
            low[n_low] = cell
            n_low += 1
        else:
            high[n_high] = cell
            n_high += 1
    top = 2.0 ** (64 - bits)
    while n_low > 0 and n_high > 0:
        n_low -= 1
        poor, rich = low[n_low], high[n_high - 1]
        thresholds[poor] = np.uint64(height[poor] * top)
        alternatives[poor] = rich
        height[rich] -= 1.0 - height[poor]
        if height[rich] < 1.0:
            n_high -= 1
            low[n_low] = rich
            n_low += 1
    # The remaining cells are full up to rounding: both outcomes are their own index.
    return thresholds, alternatives
