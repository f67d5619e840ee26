"""Parsing of lines with only indicators named by numbers, `12:1 345:1`, as in most svmlight and much VW text.

A scan of 64 bytes at a time finds where such features end, and whether there is anything else in the line; then eight
numbers at a time are read between one end and the next. Other lines are left to the caller.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.types import Tuple, UniTuple, boolean, int64, uint64

from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_half
from bayou.kernels.instructions import instruction
from bayou.kernels.parse_text import count_ones, load_uint8, trailing_zeros
from bayou.kernels.text_lanes import BYTE, HALF, WORD, bits_of, every, gather, load, none_of, spread, store
from bayou.kernels.text_stops import BAR, BLANK, COLON, NEWLINE, ONE, WIDE

# Numbers read together; up to this many may be written after the last one.
NUMBERS = 8
_RETURN, _DIGIT_ONE = 13, 49


@instruction(lambda address: UniTuple(uint64, 4)(int64))
def _scan_64_bytes(context, builder, sig, args):
    """Return (ends of indicators, other stops, colons, newlines) among the 64 bytes at an address, as bits.

    An indicator ends with a blank or a newline after `:1`, which may lie in the two bytes before the address.
    """

    def text(lag=0):
        return load(builder, builder.sub(args[0], ir.Constant(WORD, lag)), WIDE, BYTE)

    def equals(byte, lag=0):
        return builder.icmp_unsigned("==", text(lag), every(byte, WIDE, BYTE))

    newlines, colons = equals(NEWLINE), equals(COLON)
    valued = builder.and_(equals(_DIGIT_ONE, 1), equals(COLON, 2))
    ends = builder.and_(builder.or_(equals(BLANK), newlines), valued)
    low = builder.icmp_unsigned("<=", text(), every(BLANK, WIDE, BYTE))
    other_stops = builder.and_(builder.or_(low, equals(BAR)), builder.not_(ends))
    bitmasks = [bits_of(builder, flags) for flags in (ends, other_stops, colons, newlines)]
    return context.make_tuple(builder, sig.return_type, bitmasks)


def _numbers(builder, vector, counts):
    """Return (numbers, invalid flags) parsed from the first `counts` bytes of each word, at most eight.

    Digits are combined into pairs, fours and eights by multiplications that all processors can vectorize.
    """

    def all_(value):
        return every(value, NUMBERS, WORD)

    shift = builder.sub(all_(64), builder.shl(builder.zext(counts, vector.type), all_(3)))
    x = builder.shl(builder.xor(vector, all_(0x3030303030303030)), builder.and_(shift, all_(63)))
    invalid = builder.or_(builder.add(x, all_(0x7676767676767676)), x)
    invalid = builder.icmp_unsigned("!=", builder.and_(invalid, all_(0x8080808080808080)), all_(0))
    x = builder.add(builder.add(builder.shl(x, all_(3)), builder.shl(x, all_(1))), builder.lshr(x, all_(8)))
    halves = ir.VectorType(HALF, 2 * NUMBERS)
    pairs = builder.bitcast(builder.and_(x, all_(0x00FF00FF00FF00FF)), halves)
    fours = builder.lshr(builder.mul(pairs, every(1 + (100 << 16), 2 * NUMBERS)), every(16, 2 * NUMBERS))
    fours = builder.bitcast(fours, vector.type)
    upper = builder.mul(builder.and_(fours, all_(0xFFFFFFFF)), all_(10_000))
    return builder.add(upper, builder.lshr(fours, all_(32))), invalid


@instruction(lambda base, ends, count, indices, last, previous: Tuple((boolean, int64, boolean))(*[int64] * 6))
def _put_numbers(context, builder, sig, args):
    """Write the numbers of up to NUMBERS features; return (whether all are valid, the last one, whether they ascend).

    Valid numbers are at most `last`; they ascend if each is larger than the one before, the first one than `previous`.
    `base` is the address of the text, `ends` that of the offsets at which the features end, beginning with the feature
    before them; the first `count` features matter. The numbers are written to the address `indices`.
    """
    base, ends, count, indices, last, previous = args
    starts_before, stops = (load(builder, ends, NUMBERS, skip=skip) for skip in (0, 1))
    starts = builder.add(starts_before, every(1, NUMBERS))
    lengths = builder.sub(builder.sub(stops, starts), every(2, NUMBERS))
    lanes = ir.Constant(ir.VectorType(HALF, NUMBERS), list(range(NUMBERS)))
    is_requested = builder.icmp_signed("<", lanes, spread(builder, builder.trunc(count, HALF), NUMBERS))
    values, invalid = _numbers(builder, gather(builder, base, starts, is_requested, WORD), lengths)
    values = builder.trunc(values, lanes.type)
    store(builder, values, indices)
    short = builder.icmp_unsigned("<", builder.sub(lengths, every(1, NUMBERS)), every(8, NUMBERS))
    high = builder.icmp_signed(">", values, spread(builder, builder.trunc(last, HALF), NUMBERS))
    is_wrong = builder.or_(builder.or_(invalid, high), builder.not_(short))
    shifted = ir.Constant(lanes.type, [0, *range(NUMBERS, 2 * NUMBERS - 1)])
    earlier = builder.shuffle_vector(spread(builder, builder.trunc(previous, HALF), NUMBERS), values, shifted)
    falls = builder.icmp_signed("<=", values, earlier)
    max_count = ir.Constant(WORD, NUMBERS)
    count = builder.select(builder.icmp_signed("<", count, max_count), count, max_count)
    final = builder.extract_element(values, builder.trunc(builder.sub(count, ir.Constant(WORD, 1)), HALF))
    are_valid, ascend = (none_of(builder, builder.and_(is_requested, flags)) for flags in (is_wrong, falls))
    return context.make_tuple(builder, sig.return_type, (are_valid, builder.zext(final, WORD), ascend))


@kernel
def read_indicators(base, address, ends, indices, last):
    """Read a line's features from `address` on; return (count, newline's address, last number, whether they ascend).

    The count is 0 if there is anything else in the line, or a number above `last`. The numbers are written to the
    address `indices`. `base` is the address of the text, with at least two bytes before `address`; `ends` that of an
    array for one offset for every three bytes of the line, and NUMBERS more.
    """
    max_index = min(last, np.int64(0x7FFFFFFF))
    put_half(ends, np.uint64(address - base - 1))
    n = colons = np.int64(0)
    start, newline = address, np.int64(-1)
    while newline < 0:
        plain, other_stops, marks, newlines = _scan_64_bytes(start)
        offset = np.uint64(start - base)
        if newlines != 0:
            newline = start + trailing_zeros(newlines)
            until = newlines ^ (newlines - ONE)
            plain, other_stops, marks = plain & until, other_stops & until, marks & until
            if load_uint8(newline - 1) == _RETURN and newline - 3 >= address:
                ending = (newlines & ~(newlines - ONE)) >> ONE
                valued = load_uint8(newline - 2) == _DIGIT_ONE and load_uint8(newline - 3) == COLON
                if valued and other_stops == ending | (ending << ONE):
                    plain, other_stops = plain | ending, np.uint64(0)
        if other_stops != 0:
            return np.int64(0), address, np.int64(-1), True
        colons += np.int64(count_ones(marks))
        home, count = ends + 4 * n + 4, np.int64(count_ones(plain))
        # Eight at a time, needed or not: faster than stopping after the last, which branch prediction gets wrong.
        for first in range(0, max(count, 1), 8):
            for k in range(first, first + 8):
                put_half(home + 4 * k, offset + np.uint64(trailing_zeros(plain)))
                plain &= plain - ONE
        n += count
        start += WIDE
    if colons != n or 4 * n > newline + 1 - address:  # each takes four bytes at least
        return np.int64(0), address, np.int64(-1), True
    is_valid = ascending = True
    previous = np.int64(-1)
    for k in range(0, n, NUMBERS):
        are_valid, previous, up = _put_numbers(base, ends + 4 * k, n - k, indices + 4 * k, max_index, previous)
        is_valid, ascending = is_valid & are_valid, ascending & up
    return n if is_valid else np.int64(0), newline, previous, ascending
