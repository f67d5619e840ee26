"""Kernel that finds the cells of a table's columns in plain JSON lines, without copying them."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import address_of, load_uint8
from bayou.recipe.hashing import murmur3
from bayou.sources.rows.json_scan import ABSENT, NUMBER, WIDTH, scan_line

# How a number becomes a cell:
#     AS_WRITTEN      as it is written, if that is the canonical form
#     WITHOUT_ZEROS   without trailing zeros
#     AS_NUMBER       as it is written, since it will be read as a number
AS_WRITTEN, WITHOUT_ZEROS, AS_NUMBER = range(3)
# A decimal of up to this many digits is the shortest text of its float64, except for trailing zeros.
_DIGITS = 15
_NEWLINE, _MINUS, _POINT, _ZERO, _I, _D = b"\n-.0id"


@kernel(forceinline=True)
def _shown(start, stop, value, way):
    """Return the address where the text of a number ends as a cell; 0 if the cell's text is not that of the data."""
    if way == AS_NUMBER:
        return stop
    digits = 0  # significant ones
    point = False
    for address in range(start, stop):
        byte = load_uint8(address)
        point |= byte == _POINT
        digits += (byte >= 48) & (byte <= 57) & ((digits > 0) | (byte != _ZERO))
        if byte > 57:  # an exponent
            return 0
    if load_uint8(start) == _MINUS and value == 0.0:
        return 0
    if not point:
        return stop
    size = abs(value)
    if digits > _DIGITS or not (size == 0.0 or 1e-4 <= size < 1e15):
        return 0
    end = stop
    while load_uint8(end - 1) == _ZERO:
        end -= 1
    end -= load_uint8(end - 1) == _POINT
    return end if end == stop or way == WITHOUT_ZEROS else 0


@kernel(forceinline=True)
def _same(address, other_address, length):
    k = 0
    while k < length and load_uint8(address + k) == load_uint8(other_address + k):
        k += 1
    return k == length


@kernel
def _column_of(key, key_end, names, hashes):
    """Return the column of a name, or -1."""
    _, offsets, order = names
    name = murmur3(key, key_end - key, np.uint32(0))
    slot, high = 0, hashes.size
    while slot < high:
        middle = (slot + high) // 2
        slot, high = (middle + 1, high) if hashes[middle] < name else (slot, middle)
    while slot < hashes.size and hashes[slot] == name:
        column = order[slot]
        start, stop = offsets[column], offsets[column + 1]
        if stop - start == key_end - key and _same(key, address_of(names[0]) + start, stop - start):
            return column
        slot += 1
    return -1


@kernel
def read_cells(data, size, plain, names, hashes, ways, starts, stops, lines, slow):
    """Find the cells of the lines data[:size], and return (rows, rows left to Python, number of names that are "id").

    starts, stops: offsets of each column's cells, initially 0 (an empty cell). lines: line of each row. names: (text,
    offsets of the columns' names in it, the order of their hashes). hashes: hashes of the names, ascending. ways: how
    numbers become cells, by column. A line left to Python has a row, too: slow[k] = (row, start, stop).
    """
    text, offsets, _ = names
    base, called = address_of(data), address_of(text)
    max_names = max(2 * ways.size, 128)
    cells, numbers = empty(WIDTH * (max_names + 1), np.int64), empty(2 * max_names, np.float64)
    guesses = empty(max_names + 1, np.int64)  # the column at this position in the previous line
    guesses[:] = -1
    address, last = base, base + size
    row = line = left = ids = 0
    while address < last:
        start = address
        n, next_line = scan_line(address, plain, max_names, cells, numbers)
        if n == 0 and next_line < 0:  # a blank line
            address, line = -next_line, line + 1
            continue
        is_valid = n >= 0
        for k in range(max(n, 0)):
            key, key_end, kind = cells[WIDTH * k], cells[WIDTH * k + 1], cells[WIDTH * k + 2]
            ids += key_end - key == 2 and load_uint8(key) == _I and load_uint8(key + 1) == _D
            column = guesses[k]
            is_guess = column >= 0 and offsets[column + 1] - offsets[column] == key_end - key
            if not (is_guess and _same(key, called + offsets[column], key_end - key)):
                column = _column_of(key, key_end, names, hashes)
                guesses[k] = column
            if column < 0:
                continue
            first, end = cells[WIDTH * k + 3], cells[WIDTH * k + 4]
            if kind == NUMBER:
                end = _shown(first, end, numbers[max_names + k], ways[column])
                is_valid &= end > 0
            starts[column, row] = first - base if kind != ABSENT else 0
            stops[column, row] = end - base if kind != ABSENT else 0
        if not is_valid:
            next_line = start
            while load_uint8(next_line) != _NEWLINE:
                next_line += 1
            next_line += 1
            slow[left, 0], slow[left, 1], slow[left, 2] = row, start - base, next_line - 1 - base
            left += 1
        lines[row] = line
        address, line, row = next_line, line + 1, row + 1
    return row, left, ids
