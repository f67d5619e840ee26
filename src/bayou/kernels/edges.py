"""Counting the edges of bins below a number, without a branch.

Which bin a number is in, or whether it is missing, is unpredictable, so that branches would be slow. Both functions
count bits, because LLVM would turn simpler code into branches.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def at_most(typingctx, address, x):
    """Return how many of the eight numbers at an address are at most x."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), 8)
        numbers = builder.load(builder.inttoptr(args[0], vector.as_pointer()))
        numbers.align = 8
        found = builder.fcmp_ordered("<=", numbers, _splat(builder, vector, args[1]))
        return builder.zext(builder.ctpop(builder.bitcast(found, ir.IntType(8))), ir.IntType(64))

    return types.int64(types.int64, types.float64), codegen


@intrinsic
def is_nan(typingctx, x):
    """Return 1 if x is NaN, else 0."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), 8)
        every = _splat(builder, vector, args[0])
        found = builder.ctpop(builder.bitcast(builder.fcmp_unordered("uno", every, every), ir.IntType(8)))
        return builder.zext(builder.lshr(found, ir.Constant(ir.IntType(8), 3)), ir.IntType(64))

    return types.int64(types.float64), codegen


def _splat(builder, vector, x):
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))
