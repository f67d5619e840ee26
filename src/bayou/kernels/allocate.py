"""Allocation within kernels: `zeros(shape, dtype)` and `empty(shape, dtype)`, like NumPy's.

Numba compiles a chain of functions for NumPy's own, a tenth of a second for each combination of shape and type; these
are a few instructions. A shape is an integer or a pair of integers.
"""

from __future__ import annotations

import numpy as np
from numba import types

from bayou.kernels.compiling import is_plain, kernel
from bayou.kernels.instructions import instruction
from bayou.kernels.numba_private import cgutils, empty_array, impl_ret_new_ref

LINE = 64


def _array(shape, dtype):
    return types.Array(dtype.dtype, len(_sizes(shape)), "C")(shape, dtype)


def _sizes(shape):
    return tuple(shape) if isinstance(shape, types.BaseTuple) else (shape,)


def _empty(context, builder, sig, args):
    shape = sig.args[0]
    values = cgutils.unpack_tuple(builder, args[0]) if isinstance(shape, types.BaseTuple) else [args[0]]
    pairs = zip(values, _sizes(shape), strict=True)
    sizes = [context.cast(builder, value, kind, types.intp) for value, kind in pairs]
    return empty_array(context, builder, sig.return_type, sizes)


def _clear(builder, array):
    cgutils.memset(builder, array.data, builder.mul(array.itemsize, array.nitems), 0)


@instruction(_array)
def empty(context, builder, sig, args):
    array = _empty(context, builder, sig, args)
    return impl_ret_new_ref(context, builder, sig.return_type, array._getvalue())


@instruction(_array)
def zeros(context, builder, sig, args):
    array = _empty(context, builder, sig, args)
    _clear(builder, array)
    return impl_ret_new_ref(context, builder, sig.return_type, array._getvalue())


@instruction(_array)
def aligned_zeros_1d(context, builder, sig, args):
    """Return zeros aligned to a cache line: a vector of eight float64 is then one line, not parts of two."""
    kind, size = sig.return_type, context.cast(builder, args[0], sig.args[0], types.intp)
    padding = LINE // (kind.dtype.bitwidth // 8)
    array = empty_array(context, builder, kind, [builder.add(size, size.type(padding))])
    start = builder.ptrtoint(array.data, size.type)
    start = builder.and_(builder.add(start, size.type(LINE - 1)), size.type(-LINE))
    array.data = builder.inttoptr(start, array.data.type)
    array.nitems = size
    array.shape = cgutils.pack_array(builder, [size])
    _clear(builder, array)
    return impl_ret_new_ref(context, builder, kind, array._getvalue())


if is_plain():  # NumPy's own; alignment only affects speed

    @kernel
    def empty(shape, dtype):
        return np.empty(shape, dtype)

    @kernel
    def zeros(shape, dtype):
        return np.zeros(shape, dtype)

    aligned_zeros_1d = zeros
