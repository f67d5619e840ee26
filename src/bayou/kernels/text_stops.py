"""Search for bytes at which names and numbers can stop, 64 bytes of text at a time, before parsing."""

from __future__ import annotations

import numpy as np
from numba import types

from bayou.kernels.compiling import kernel
from bayou.kernels.instructions import instruction
from bayou.kernels.parse_text import address_of, count_ones, trailing_zeros
from bayou.kernels.text_lanes import BYTE, bits_of, every, load, spread

BLANK, COLON, BAR, NEWLINE = 32, 58, 124, 10
ONE = np.uint64(1)
# Bytes scanned together.
WIDE = 64


@instruction(lambda address: types.uint64(types.int64))
def stops_at(context, builder, sig, args):
    """Return which of the 64 bytes at an address cannot be in a name, as bits: control characters, blanks, ':', '|'."""
    text = load(builder, args[0], WIDE, BYTE)
    low = builder.icmp_unsigned("<=", text, every(BLANK, WIDE, BYTE))
    marks = (builder.icmp_unsigned("==", text, every(byte, WIDE, BYTE)) for byte in (COLON, BAR))
    return bits_of(builder, builder.or_(low, builder.or_(*marks)))


@instruction(lambda address: types.uint64(types.int64))
def others_at(context, builder, sig, args):
    """Return which of the 32 bytes at an address are not digits, as bits."""
    shifted = builder.sub(load(builder, args[0], 32, BYTE), every(48, 32, BYTE))
    return bits_of(builder, builder.icmp_unsigned(">", shifted, every(9, 32, BYTE)))


@instruction(lambda address, byte: types.uint64(types.int64, types.int64))
def where_in_64(context, builder, sig, args):
    """Return which of the 64 bytes at an address equal `byte`, as bits."""
    address, byte = args
    pattern = spread(builder, builder.trunc(byte, BYTE), WIDE)
    return bits_of(builder, builder.icmp_unsigned("==", load(builder, address, WIDE, BYTE), pattern))


@kernel
def find_stops(data, size, stops, ends):
    """Write the offsets of all bytes that cannot be in a name, and of at least one newline after the text, to `stops`.

    ends[line] becomes the index of the stop at which that line ends. Neither array is checked for room; up to eight
    more values may be written after the last stop.
    """
    base = address_of(data)
    n = lines = np.uint64(0)
    for start in range(0, size + 1, WIDE):
        word = stops_at(base + start)
        count = count_ones(word)
        # Eight at a time, needed or not: faster than stopping after the last, which branch prediction gets wrong.
        done = np.uint64(0)
        while True:
            for k in range(8):
                stops[n + done + np.uint64(k)] = start + trailing_zeros(word)
                word &= word - ONE
            done += np.uint64(8)
            if done >= count:
                break
        newlines = where_in_64(base + start, NEWLINE)
        while newlines:
            ends[lines] = n + count_ones(stops_at(base + start) & ((newlines & (~newlines + ONE)) - ONE))
            newlines &= newlines - ONE
            lines += ONE
        n += count
