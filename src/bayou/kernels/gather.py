"""Gathers and scatters between rows of a table and vectors, and prefetches.

A table is C-contiguous and has a row for each feature: pairs (gather_pairs), or eight columns in two halves
(gather_sums). See `vector`; there are no bounds checks.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from bayou.kernels.instructions import instruction
from bayou.kernels.numba_private import cgutils
from bayou.kernels.rounding import hash_phases, ulp_lanes
from bayou.kernels.vector import LANES, Vec, address, shuffle, splat


def _row_address(context, builder, sig, args, lane):
    """Return a pointer to row `indices[start + lane]` of a table of pairs; args are (table, indices, start, ...)."""
    offset = builder.add(args[2], ir.Constant(args[2].type, lane))
    row = builder.load(address(context, builder, sig.args[1], args[1], offset))
    two = ir.Constant(ir.IntType(64), 2)
    return address(context, builder, sig.args[0], args[0], builder.mul(builder.zext(row, ir.IntType(64)), two))


@instruction(lambda table, indices, start: types.UniTuple(Vec(table.dtype), 2)(table, indices, types.intp))
def gather_pairs(context, builder, sig, args):
    """Return (first, second) of the pairs table[indices[start : start + LANES]]; table is C-contiguous (n, 2).

    Uses plain loads of one pair each: unlike hardware gathers these can read what was just stored without delay, and
    consecutive rows often share features.
    """
    pair = ir.VectorType(context.get_data_type(sig.args[0].dtype), 2)
    pairs = []
    for lane in range(LANES):
        pointer = _row_address(context, builder, sig, args, lane)
        value = builder.load(builder.bitcast(pointer, pair.as_pointer()))
        value.align = context.get_abi_sizeof(pair.element)
        pairs.append(value)
    # A register's halves hold pairs 0 1 | 4 5 and 2 3 | 6 7: one shuffle within halves makes each result.
    quads = [shuffle(builder, a, b, range(4)) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    outer, inner = (shuffle(builder, quads[k], quads[k + 2], range(8)) for k in (0, 1))
    first = shuffle(builder, outer, inner, (0, 2, 8, 10, 4, 6, 12, 14))
    second = shuffle(builder, outer, inner, (1, 3, 9, 11, 5, 7, 13, 15))
    return context.make_tuple(builder, sig.return_type, (first, second))


@instruction(lambda table, indices, start, first, second: types.void(table, indices, types.intp, first, second))
def scatter_pairs(context, builder, sig, args):
    """Set table[indices[start : start + LANES]] to the pairs of first and second, lane by lane."""
    pair = ir.VectorType(args[3].type.element, 2)
    low = shuffle(builder, args[3], args[4], (0, 8, 1, 9, 4, 12, 5, 13))
    high = shuffle(builder, args[3], args[4], (2, 10, 3, 11, 6, 14, 7, 15))
    for lane in range(LANES):
        half = low if lane % 4 < 2 else high
        first_lane = 4 * (lane // 4) + 2 * (lane % 2)
        value = shuffle(builder, half, half, (first_lane, first_lane + 1))
        pointer = builder.bitcast(_row_address(context, builder, sig, args, lane), pair.as_pointer())
        builder.store(value, pointer).align = context.get_abi_sizeof(pair.element)


def _half_address(context, builder, sig, args, lane, half):
    """Return pointer and alignment of a half (0 or 1, an i64) of row `indices[start + lane]` of an (n, 8) table."""
    offset = builder.add(args[2], ir.Constant(args[2].type, lane))
    row = builder.zext(builder.load(address(context, builder, sig.args[1], args[1], offset)), ir.IntType(64))
    cell = builder.add(builder.shl(row, ir.Constant(row.type, 3)), builder.shl(half, ir.Constant(row.type, 2)))
    pointer = address(context, builder, sig.args[0], args[0], cell)
    quad = ir.VectorType(context.get_data_type(sig.args[0].dtype), 4)
    return builder.bitcast(pointer, quad.as_pointer()), context.get_abi_sizeof(quad.element)


def _load_halves(context, builder, sig, args, lanes, half):
    """Load halves of two rows into one vector; return it and the pointers."""
    pointers = [_half_address(context, builder, sig, args, lane, half) for lane in lanes]
    values = []
    for pointer, align in pointers:
        values.append(builder.load(pointer))
        values[-1].align = align
    return shuffle(builder, *values, range(8)), pointers


# Lanes whose rows share a vector: with these no number has to cross the middle of a register of eight float32.
_BESIDE = ((0, 4), (1, 5), (2, 6), (3, 7))


@instruction(lambda table, indices, start: types.UniTuple(Vec(table.dtype), 2)(table, indices, types.intp))
def gather_sums(context, builder, sig, args):
    """Return table[i, 0] + table[i, 4] and table[i, 1] + table[i, 5], i = indices[start : start + LANES]."""
    sums = []
    for lanes in _BESIDE:
        halves = [
            _load_halves(context, builder, sig, args, lanes, ir.Constant(ir.IntType(64), half))[0] for half in (0, 1)
        ]
        sums.append(builder.fadd(*halves))
    if sig.args[0].dtype == types.float32:
        low, high = (shuffle(builder, sums[k], sums[k + 1], (0, 1, 8, 9, 4, 5, 12, 13)) for k in (0, 2))
        first = shuffle(builder, low, high, (0, 2, 8, 10, 4, 6, 12, 14))
        second = shuffle(builder, low, high, (1, 3, 9, 11, 5, 7, 13, 15))
    else:  # a register holds four: rows 0 2, 1 3, and 4 6, 5 7
        even_rows, odd_rows = (shuffle(builder, sums[k], sums[k + 2], (0, 1, 8, 9, 4, 5, 12, 13)) for k in (0, 1))
        first = shuffle(builder, even_rows, odd_rows, (0, 8, 2, 10, 4, 12, 6, 14))
        second = shuffle(builder, even_rows, odd_rows, (1, 9, 3, 11, 5, 13, 7, 15))
    return context.make_tuple(builder, sig.return_type, (first, second))


@instruction(
    lambda table, indices, start, half, first, second, third, bound, count: types.void(
        table, indices, types.intp, types.intp, first, second, third, bound, types.uint64
    )
)
def scatter_add_half(context, builder, sig, args):
    """Add (first, second, third) to table[i, 4 half : 4 half + 3] for i = indices[start : start + LANES].

    The table is (n, 8); `third` and `bound` are numbers, and results are clipped to [-bound, bound]. float32 is rounded
    up or down so that it is right on average; see `rounding_noise`.
    """
    first, second = args[4:6]
    third, top = (splat(context, builder, args[k], sig.args[k], sig.args[4]) for k in (6, 7))
    zero = ir.Constant(first.type, [0.0] * LANES)
    bottom = builder.fsub(zero, top)
    tail = shuffle(builder, third, zero, (0, 8) * 4)
    narrow = sig.args[0].dtype == types.float32
    if narrow:
        phases = hash_phases(context, builder, [sig.args[1]], [args[1], args[2], args[8]], first.type)
        low = shuffle(builder, first, second, (0, 8, 1, 9, 4, 12, 5, 13))
        high = shuffle(builder, first, second, (2, 10, 3, 11, 6, 14, 7, 15))
        steps = [
            shuffle(builder, vector, tail, mask)
            for vector in (low, high)
            for mask in ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 8, 9, 6, 7, 12, 13))
        ]
    else:
        even_rows = shuffle(builder, first, second, (0, 8, 2, 10, 4, 12, 6, 14))
        odd_rows = shuffle(builder, first, second, (1, 9, 3, 11, 5, 13, 7, 15))
        steps = [
            shuffle(builder, vector, tail, mask)
            for mask in ((0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 8, 9, 6, 7, 12, 13))
            for vector in (even_rows, odd_rows)
        ]
    for lanes, step in zip(_BESIDE, steps, strict=True):
        value, pointers = _load_halves(context, builder, sig, args, lanes, args[3])
        if narrow:
            phase = shuffle(builder, phases, zero, [*[lanes[0]] * 3, 8, *[lanes[1]] * 3, 8])
            step = builder.fadd(step, builder.fmul(phase, ulp_lanes(builder, value, 2.0**-32)))
        value = builder.fadd(value, step)
        value = builder.select(builder.fcmp_ordered("<", value, top), value, top)
        value = builder.select(builder.fcmp_ordered(">", value, bottom), value, bottom)
        for (pointer, align), vector in zip(pointers, (range(4), range(4, 8)), strict=True):
            builder.store(shuffle(builder, value, value, vector), pointer).align = align


def _ask_for(builder, pointer):
    byte, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
    ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    # for reading (later writes cost no more, and the request is measurably cheaper), data; into the second-level cache,
    # which can have more requests pending than the first
    builder.call(ask, [builder.bitcast(pointer, byte), *(ir.Constant(int32, n) for n in (0, 2, 1))])


@instruction(lambda array, index: types.void(array, types.intp))
def prefetch(context, builder, sig, args):
    """Prefetch array[index] into the cache."""
    _ask_for(builder, address(context, builder, sig.args[0], args[0], args[1]))


@instruction(lambda table, indices, start: types.void(table, indices, types.intp))
def prefetch_pairs(context, builder, sig, args):
    """Prefetch table[indices[start : start + LANES]] into the cache."""
    for lane in range(LANES):
        _ask_for(builder, _row_address(context, builder, sig, args, lane))
