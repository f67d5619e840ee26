"""Rounding that is right on average, for float32 state with steps that become smaller than its last place."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from bayou.kernels.compiling import kernel
from bayou.kernels.instructions import instruction
from bayou.kernels.vector import LANES, address, shuffle

# The last place of a float32 as a fraction of the power of two below it.
LAST_PLACE = 2.0**-23


@instruction(lambda value, ids, start, count: value(value, ids, types.intp, types.uint64))
def rounding_noise(context, builder, sig, args):
    """Return noise to add before rounding so that it is right on average: uniform within half a last place of value.

    In lane k it is the golden-ratio sequence frac(count * 0.618...) shifted by a hash of ids[start + k]. Along such a
    sequence a step of a tenth of the last place is rounded up almost exactly every tenth time, so that the total error
    stays bounded, while independent random numbers would let it wander. For float64, whose last place does not matter,
    the noise is 0.
    """
    if sig.args[0].scalar == types.float64:
        return ir.Constant(args[0].type, [0.0] * LANES)
    noise = hash_phases(context, builder, sig.args[1:], args[1:], args[0].type)
    return builder.fmul(noise, ulp_lanes(builder, args[0], 2.0**-32))


def hash_phases(context, builder, kinds, args, vector):
    """Return ids[start + k] * hash + count * golden ratio, as a signed 32-bit number converted to float, in lane k."""
    lanes = vector.count
    integers = ir.VectorType(ir.IntType(32), lanes)
    golden = 0x9E3779B1  # 2^32 over the golden ratio, made odd
    pointer = address(context, builder, kinds[0], args[0], args[1])
    bits = builder.load(builder.bitcast(pointer, integers.as_pointer()))
    bits.align = 4
    bits = builder.mul(bits, ir.Constant(integers, [0x7FEB352D] * lanes))
    step = builder.mul(builder.trunc(args[2], ir.IntType(32)), ir.Constant(ir.IntType(32), golden))
    first = builder.insert_element(ir.Constant(integers, ir.Undefined), step, ir.Constant(ir.IntType(32), 0))
    return builder.sitofp(builder.add(bits, shuffle(builder, first, first, [0] * lanes)), vector)


@instruction(lambda like, ids, start, count: like(like, ids, types.intp, types.uint64))
def rounding_phases(context, builder, sig, args):
    """Return the sequence of `rounding_noise` before scaling, in [-1/2, 1/2), as a vector of like's type."""
    phases = hash_phases(context, builder, sig.args[1:], args[1:], args[0].type)
    return builder.fmul(phases, ir.Constant(args[0].type, [2.0**-32] * sig.args[0].lanes))


def ulp_lanes(builder, value, times):
    """Return the last place of each float32 lane times `times`."""
    factor = ir.Constant(value.type, [LAST_PLACE * times] * value.type.count)
    return builder.fmul(_power_below(builder, value), factor)


def _power_below(builder, value):
    """Return the power of two in the exponent bits of each float32 lane."""
    integers = ir.VectorType(ir.IntType(32), value.type.count)
    bits = builder.and_(builder.bitcast(value, integers), ir.Constant(integers, [0x7F800000] * value.type.count))
    return builder.bitcast(bits, value.type)


@kernel(forceinline=True)
def add_dithered(value, step, ids, start, count):
    """Return value + step, rounded up or down so that it is right on average; see `rounding_noise`."""
    return value + (step + rounding_noise(value, ids, start, count))


@kernel(forceinline=True)
def rounding_phase(feature, count):
    """Return the term of `rounding_noise`'s sequence for a feature as a number in [-1/2, 1/2)."""
    bits = np.uint64(feature) * np.uint64(0x7FEB352D) + np.uint64(count) * np.uint64(0x9E3779B1)
    return np.float64(np.int32(np.uint32(bits))) * 2.0**-32


@instruction(lambda value: value(value))
def power_below(context, builder, sig, args):
    """Return the power of two below each float32 lane's magnitude; 0 for float64, whose last place does not matter."""
    if sig.args[0].scalar == types.float64:
        return ir.Constant(args[0].type, [0.0] * sig.args[0].lanes)
    return _power_below(builder, args[0])


@kernel(forceinline=True)
def ulp(value):
    """Return the last place of each float32 lane; 0 for float64, whose last place does not matter."""
    return power_below(value) * LAST_PLACE
