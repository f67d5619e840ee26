"""Counting the edges of bins below a number, without a branch.

Which bin a number is in, or whether it is missing, is unpredictable, so that branches would be slow. Both functions
count bits, because LLVM would turn simpler code into branches.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from bayou.kernels.instructions import instruction
from bayou.kernels.vector import LANES, Vec, splat

_NUMBERS = Vec(types.float64)


@instruction(lambda address, x: types.int64(types.int64, types.float64))
def at_most(context, builder, sig, args):
    """Return how many of the eight numbers at an address are at most x."""
    x = splat(context, builder, args[1], sig.args[1], _NUMBERS)
    vector = builder.load(builder.inttoptr(args[0], x.type.as_pointer()))
    vector.align = 8
    return _count(builder, builder.fcmp_ordered("<=", vector, x))


@instruction(lambda x: types.int64(types.float64))
def is_nan(context, builder, sig, args):
    """Return 1 if x is NaN, else 0."""
    x = splat(context, builder, args[0], sig.args[0], _NUMBERS)
    return builder.lshr(_count(builder, builder.fcmp_unordered("uno", x, x)), ir.Constant(ir.IntType(64), 3))


def _count(builder, lanes):
    """Return in how many lanes a comparison holds."""
    return builder.zext(builder.ctpop(builder.bitcast(lanes, ir.IntType(LANES))), ir.IntType(64))
