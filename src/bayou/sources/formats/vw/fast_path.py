"""Kernels that read runs of plain features in VW text, named by numbers or texts, as a fast path. See `lines`."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_half, put_value, put_word
from bayou.kernels.parse_text import (
    LARGEST_VALUE,
    line_ends,
    load_uint8,
    load_uint32,
    load_uint64,
    short_decimal,
    short_number,
)
from bayou.kernels.text_indicators import read_indicators
from bayou.kernels.text_lanes import NAMES, are_names, fill_halves, fill_words
from bayou.kernels.text_stops import BLANK, COLON
from bayou.sources.formats.vw.names import OWN_NAME

# A value of 1 and the blank after it, which most features have.
_INDICATOR = np.uint64(int.from_bytes(b":1 ", "little"))
_ONE_BYTE, _THREE_BYTES = np.uint64(0xFF), np.uint64(0xFFFFFF)
_MINUS = 45


@kernel(forceinline=True)
def _read_plain(base, stops, s, homes, wide, k, scale, last, previous):
    """Read plain features, those with any name and a short value or none: `x`, `x:1`, `x:-2.5`.

    Start at stop s, a blank, and feature k, and end at the first feature that is not plain. With `last` >= 0, read only
    features named by an index up to `last`, and write their indices. Return (s, k, whether all values are 1, a bound on
    them, the last index, whether indices ascend, starting from `previous`).

        homes    addresses of indices, values and name_spans, in which feature k has 4, `size` and 8 bytes
        span     start and stop of the name, the stop in the upper half; OWN_NAME if it is its own index
    """
    indices, values, name_spans, _ = homes
    size = 8 if wide else 4
    s, k = np.int64(s), np.int64(k)
    is_all_ones, max_abs = scale == 1.0, abs(put_value(values + size * k, wide, scale))
    ascending = True
    offset = np.int64(load_uint32(stops + 4 * s)) + 1
    byte = BLANK
    while byte == BLANK:
        # Phase 1: the name.
        name, end = offset, np.int64(load_uint32(stops + 4 * s + 4))
        span = name | (end << 32)
        index = 0
        if last >= 0:
            number, is_valid = short_number(base + name, end - name)
            index = np.int64(number)
            if not is_valid or index > last:
                break
        elif end == name:
            break
        # Phase 2: the value. Branches can be predicted; branchless code would have to wait for the bytes after the
        # name.
        word = load_uint32(base + end)
        byte = np.int64(word & _ONE_BYTE)
        n_kept = 1
        if word & _THREE_BYTES == _INDICATOR:
            byte = BLANK
            put_value(values + size * k, wide, scale)
            s += 2
            offset = end + 3
        elif byte == COLON:
            text, end = end + 1, np.int64(load_uint32(stops + 4 * s + 8))
            minus = load_uint8(base + text) == _MINUS
            value, is_valid = short_decimal(base + text + minus, end - text - minus)
            value = (-value if minus else value) * scale
            byte = load_uint8(base + end)
            if not is_valid or not abs(value) <= LARGEST_VALUE or not (byte == BLANK or line_ends(base + end)):
                break
            value = put_value(values + size * k, wide, value)
            n_kept = np.int64(value != 0)
            is_all_ones &= value == 1.0
            max_abs = max(max_abs, abs(value))
            s += 2
            offset = end + 1
        elif byte == BLANK or line_ends(base + end):
            put_value(values + size * k, wide, scale)
            s += 1
            offset = end + 1
        else:
            break
        # Phase 3: keep the feature, unless its value is 0.
        if last >= 0:
            ascending &= index > previous
            previous = index
            put_half(indices + 4 * k, np.uint64(index))
            span = OWN_NAME
        put_word(name_spans + 8 * k, np.uint64(span))
        k += n_kept
    return np.uint64(s), np.uint64(k), is_all_ones, max_abs, previous, ascending


# These are separate functions so that what their loops need fits in registers. They take addresses: counting the
# references to arrays at every call would add half of the time.


@kernel(forceinline=True)
def _fill(values, wide, start, count, value):
    """Set the values of `count` features to `value`, and return its size as stored."""
    size = abs(put_value(values + (8 if wide else 4) * start, wide, value))
    for i in range(start, start + count, NAMES):
        if wide:
            fill_words(values + 8 * i, load_uint64(values + 8 * start))
        else:
            fill_halves(values + 4 * i, load_uint32(values + 4 * start))
    return size


@kernel
def read_own_numbers(base, address, homes, wide, k, last):
    """Read a line of indicators (`read_indicators`) as features named by their indices, from the k-th on."""
    indices, values, name_spans, _ = homes
    run = read_indicators(base, address, name_spans + 8 * k, indices + 4 * k, last)
    _fill(values, wide, k, run[0], 1.0)
    for i in range(k, k + run[0], NAMES):
        fill_words(name_spans + 8 * i, np.uint64(OWN_NAME))
    return run


@kernel
def read_numbers(base, stops, s, homes, wide, k, scale, last, previous):
    """Call `_read_plain` for features named by their indices."""
    return _read_plain(base, stops, s, homes, wide, k, scale, last, previous)


@kernel
def read_names(base, stops, s, end, homes, wide, k, scale, exact, seed, space):
    """Read plain features with any names, and write their seeds and namespaces; names without values in vectors."""
    indices, values, name_spans, spaces = homes
    first, start, is_all_ones, done = np.int64(s), np.int64(k), scale == 1.0, 0
    while done < end - first:
        if not are_names(base, stops + 4 * (first + done), end - first - done, name_spans + 8 * (start + done)):
            break
        done += NAMES
    done = min(done, end - first)
    s, k = np.uint64(first + done), np.uint64(start + done)
    _fill(values, wide, start, done, scale)
    if load_uint8(base + np.int64(load_uint32(stops + 4 * (first + done)))) == BLANK:
        s, k, is_all_ones, _, _, _ = _read_plain(base, stops, s, homes, wide, k, scale, -1, -1)
    for i in range(start, np.int64(k), NAMES):
        fill_halves(spaces + 4 * i, np.uint64(space))
        if exact:
            fill_words(indices + 8 * i, seed)
        else:
            fill_halves(indices + 4 * i, seed)
    return s, k, is_all_ones
