"""Allocation within kernels: `zeros(shape, dtype)` and `empty(shape, dtype)`, like NumPy's.

Numba compiles a chain of functions for NumPy's own, a tenth of a second for each combination of shape and type; these
are a few instructions. A shape is an integer or a pair of integers.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from bayou.kernels.compiling import is_plain, kernel
from bayou.kernels.numba_private import cgutils, empty_array, impl_ret_new_ref

LINE = 64


@intrinsic
def empty(typingctx, shape, dtype):
    return _array(shape, dtype), _maker(shape, zero=False)


@intrinsic
def zeros(typingctx, shape, dtype):
    return _array(shape, dtype), _maker(shape, zero=True)


@intrinsic
def aligned_zeros_1d(typingctx, size, dtype):
    """Return zeros aligned to a cache line: a vector of eight float64 is then one line, not parts of two."""

    def codegen(context, builder, sig, args):
        kind, size = sig.return_type, context.cast(builder, args[0], sig.args[0], types.intp)
        spare = LINE // (kind.dtype.bitwidth // 8)
        made = empty_array(context, builder, kind, [builder.add(size, size.type(spare))])
        start = builder.ptrtoint(made.data, size.type)
        start = builder.and_(builder.add(start, size.type(LINE - 1)), size.type(-LINE))
        made.data = builder.inttoptr(start, made.data.type)
        made.nitems = size
        made.shape = cgutils.pack_array(builder, [size])
        cgutils.memset(builder, made.data, builder.mul(made.itemsize, made.nitems), 0)
        return impl_ret_new_ref(context, builder, kind, made._getvalue())

    return _array(size, dtype), codegen


def _array(shape, dtype):
    return types.Array(dtype.dtype, len(_sizes(shape)), "C")(shape, dtype)


def _sizes(shape):
    return tuple(shape) if isinstance(shape, types.BaseTuple) else (shape,)


def _maker(shape, zero):
    def codegen(context, builder, sig, args):
        given = cgutils.unpack_tuple(builder, args[0]) if isinstance(shape, types.BaseTuple) else [args[0]]
        pairs = zip(given, _sizes(shape), strict=True)
        sizes = [context.cast(builder, size, kind, types.intp) for size, kind in pairs]
        made = empty_array(context, builder, sig.return_type, sizes)
        if zero:
            cgutils.memset(builder, made.data, builder.mul(made.itemsize, made.nitems), 0)
        return impl_ret_new_ref(context, builder, sig.return_type, made._getvalue())

    return codegen


if is_plain():  # NumPy's own; alignment only affects speed

    @kernel
    def empty(shape, dtype):
        return np.empty(shape, dtype)

    @kernel
    def zeros(shape, dtype):
        return np.zeros(shape, dtype)

    aligned_zeros_1d = zeros
