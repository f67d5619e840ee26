"""Random draws that need no storage, as functions of (seed, draw number, feature), and steps of hashes."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.instructions import instruction
from bayou.kernels.numba_private import cgutils

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIT = 2.0**-53
# Keys of values that occur once per draw; no feature has these indices.
INTERCEPT, CHOICE = np.uint64(2**63), np.uint64(2**63 + 1)


@kernel
def mix(state):
    """Return splitmix64's output at a state (Steele, Lea, Flood 2014): each bit depends on all bits of the state.

    The next state of a sequence is state + GOLDEN.
    """
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@instruction(lambda word, count: types.uint32(types.uint32, types.uint32))
def rotated(context, builder, sig, args):
    """Return a uint32 rotated left by `count` bits.

    Written with shifts, LLVM would merge one of them into the preceding multiplication and multiply twice.
    """
    kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)] * 3)
    rotate = cgutils.get_or_insert_function(builder.module, kind, "llvm.fshl.i32")
    return builder.call(rotate, [args[0], args[0], args[1]])


@kernel
def unit(bits):
    """Return a uniform number in [0, 1) made of 64 random bits."""
    return np.float64(bits >> np.uint64(11)) * _UNIT


@kernel
def keyed(seed, draw, feature):
    """Return 64 random bits, a function of the three arguments."""
    key = mix(np.uint64(seed) + GOLDEN)
    key = mix(key ^ (np.uint64(draw) + GOLDEN))
    return mix(key ^ (np.uint64(feature) + GOLDEN))


@kernel
def choices(seed, probabilities, n_draws):
    """Return a random alternative for each draw, k with the probability `chances[k]`."""
    chosen_index = empty(n_draws, np.int64)
    for draw in range(n_draws):
        left = unit(keyed(seed, draw, CHOICE))
        k = 0
        while k < probabilities.size - 1 and left >= probabilities[k]:
            left -= probabilities[k]
            k += 1
        chosen_index[draw] = k
    return chosen_index


@kernel
def in_sample(example, size):
    """Return whether to keep example `example` (from 1): always up to `size`, then with probability size/number."""
    return example <= size or unit(mix(np.uint64(example) * GOLDEN)) * example < size


@kernel
def normal(seed, draw, feature):
    """Return a standard normal number, a function of the three arguments (Box-Muller)."""
    key = keyed(seed, draw, feature)
    radius = 1.0 - unit(key)  # never 0
    angle = unit(mix(key + GOLDEN))
    return math.sqrt(-2.0 * math.log(radius)) * math.cos(2.0 * math.pi * angle)


@kernel
def write_scores(indptr, indices, values, weights, intercept, scores):
    """Write x'w + intercept of each row to `scores`."""
    for row in range(indptr.size - 1):
        score = intercept
        for k in range(indptr[row], indptr[row + 1]):
            score += values[k] * weights[indices[k]]
        scores[row] = score


@kernel
def draw_scores(indptr, indices, values, mean, sd, intercept, intercept_sd, seed, draws, scores):
    """Write scores[draw, row] for these draws of the weights; mean and sd are given for each non-zero."""
    for draw in draws:
        shared = intercept + intercept_sd * normal(seed, draw, INTERCEPT)
        for row in range(indptr.size - 1):
            score = shared
            for k in range(indptr[row], indptr[row + 1]):
                score += values[k] * (mean[k] + sd[k] * normal(seed, draw, indices[k]))
            scores[draw, row] = score
