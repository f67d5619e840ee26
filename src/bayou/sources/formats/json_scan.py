"""Plain JSON lines read by kernels where they stand: objects without escapes, and without objects or lists inside.

Any other line is for Python, which says what is wrong with it, if anything is.
"""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty
from bayou.kernels.scan import address_of, byte_at, number
from bayou.recipe.hashing import murmur3
from bayou.sources.reading.blocks import Block

# What a value is.
ABSENT, NUMBER, TRUTH, TEXT, OTHER = range(5)
# Numbers that are kept of a name and its value, while a line is read.
WIDTH = 5
# How a number becomes a cell: as it stands, if it would be written so; without zeros at its end; however it is written.
AS_WRITTEN, WITHOUT_ZEROS, AS_NUMBER = range(3)
# Longer numbers are read by Python.
_LONGEST_NUMBER = 19
# Of as many digits each decimal is the shortest that reads as its float64.
_DIGITS = 15
_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN, _CLOSE, _NEWLINE, _MINUS, _POINT, _ZERO, _I, _D = b'"\\:,{}\n-.0id'
_TRUE, _FALSE, _NULL = (int.from_bytes(word, "little") for word in (b"true", b"fals", b"null"))


def is_utf8(block: Block) -> bool:
    """Whether all of a block is text."""
    text = block.data[: block.size]
    if text.max(initial=0) < 128:
        return True
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


@kernel(forceinline=True)
def _blanks(at):
    """The first byte from here on that is no blank."""
    while byte_at(at) == 32 or byte_at(at) == 9 or byte_at(at) == 13:
        at += 1
    return at


@kernel(forceinline=True)
def _string_end(at, plain):
    """The quote mark that ends the string that begins here; 0 if there is anything in it that must be read closely."""
    byte = byte_at(at)
    while byte != _QUOTE:
        if byte == _BACKSLASH or byte < 32 or (byte > 127 and not plain):
            return 0
        at += 1
        byte = byte_at(at)
    return at


@kernel(forceinline=True)
def _number_at(at):
    """(value, the byte behind it) of a number as JSON writes them; 0 for the byte if it must be read closely."""
    first = at + (byte_at(at) == _MINUS)
    byte = byte_at(first)
    if byte < 48 or byte > 57 or (byte == 48 and 48 <= byte_at(first + 1) <= 57):
        return 0.0, 0
    value, end = number(at)
    point = first
    while 48 <= byte_at(point) <= 57:
        point += 1
    if byte_at(point) == _POINT and not 48 <= byte_at(point + 1) <= 57:
        return 0.0, 0
    if end - first > _LONGEST_NUMBER or not abs(value) < np.inf:
        return 0.0, 0
    return value, end


@kernel
def scan_line(at, plain, most, cells, numbers):
    """(names, the address behind the line) of one object; -1 if it is for Python, and (0, -address) of blanks alone.

    Of each name, `most` of which there may be, `cells` gets the addresses where it starts and stops, what its value is,
    and where the text of that starts and stops; `numbers`, in their second half, its number.
    """
    at = _blanks(at)
    if byte_at(at) == _NEWLINE:
        return 0, -(at + 1)
    fine = byte_at(at) == _OPEN
    at = _blanks(at + 1)
    n = 0
    again = byte_at(at) != _CLOSE
    while fine and again:
        key = at + 1
        key_end = _string_end(key, plain) if byte_at(at) == _QUOTE else 0
        at = _blanks(key_end + 1) if key_end else at
        fine = key_end > 0 and n < most and byte_at(at) == _COLON
        if not fine:
            break
        at = _blanks(at + 1)
        byte = byte_at(at)
        kind, value, text, text_end = ABSENT, 0.0, 0, 0
        if byte == _QUOTE:
            text = at + 1
            text_end = _string_end(text, plain)
            fine = text_end > 0
            kind, at = TEXT, text_end + 1 if fine else at
        elif byte == _MINUS or 48 <= byte <= 57:
            value, end = _number_at(at)
            fine = end > 0
            kind, text, text_end, at = NUMBER, at, end, end if fine else at
        else:
            word = byte | byte_at(at + 1) << 8 | byte_at(at + 2) << 16 | byte_at(at + 3) << 24
            if word == _TRUE:
                kind, value, text, text_end, at = TRUTH, 1.0, at, at + 4, at + 4
            elif word == _FALSE and byte_at(at + 4) == 101:
                kind, text, text_end, at = TRUTH, at, at + 5, at + 5
            elif word == _NULL:
                at += 4
            else:
                fine = False
        cells[WIDTH * n], cells[WIDTH * n + 1], cells[WIDTH * n + 2] = key, key_end, kind
        cells[WIDTH * n + 3], cells[WIDTH * n + 4], numbers[most + n] = text, text_end, value
        n += 1
        at = _blanks(at)
        again = byte_at(at) == _COMMA
        at = _blanks(at + 1) if again else at
    fine = fine and byte_at(at) == _CLOSE
    at = _blanks(at + 1) if fine else at
    if not fine or byte_at(at) != _NEWLINE:
        return -1, at
    return n, at + 1


@kernel(forceinline=True)
def _shown(start, stop, value, way):
    """Where the text of a number ends as a cell; 0 if that would have to be written anew."""
    if way == AS_NUMBER:
        return stop
    digits = 0  # that matter
    point = False
    for at in range(start, stop):
        byte = byte_at(at)
        point |= byte == _POINT
        digits += (byte >= 48) & (byte <= 57) & ((digits > 0) | (byte != _ZERO))
        if byte > 57:  # an exponent
            return 0
    if byte_at(start) == _MINUS and value == 0.0:
        return 0
    if not point:
        return stop
    size = abs(value)
    if digits > _DIGITS or not (size == 0.0 or 1e-4 <= size < 1e15):
        return 0
    end = stop
    while byte_at(end - 1) == _ZERO:
        end -= 1
    end -= byte_at(end - 1) == _POINT
    return end if end == stop or way == WITHOUT_ZEROS else 0


@kernel(forceinline=True)
def _same(at, other, length):
    k = 0
    while k < length and byte_at(at + k) == byte_at(other + k):
        k += 1
    return k == length


@kernel
def _column_of(key, key_end, names, hashes):
    """The column of a name, or -1."""
    _, places, order = names
    name = murmur3(key, key_end - key, np.uint32(0))
    at, above = 0, hashes.size
    while at < above:
        middle = (at + above) // 2
        at, above = (middle + 1, above) if hashes[middle] < name else (at, middle)
    while at < hashes.size and hashes[at] == name:
        column = order[at]
        start, stop = places[column], places[column + 1]
        if stop - start == key_end - key and _same(key, address_of(names[0]) + start, stop - start):
            return column
        at += 1
    return -1


@kernel
def read_cells(data, size, plain, names, hashes, ways, starts, stops, lines, slow):
    """(rows, slow rows, how many names are "id") of the lines data[:size].

    starts and stops, zeros before (an empty cell): where each column's cells are. lines: on which line each row stands.
    names: (text, where each column's name starts in it and the last one stops, the order of their hashes). ways: how
    numbers become cells of each column. A line for Python has a row, too: slow[k] = (row, start, stop).
    """
    text, places, _ = names
    base, called = address_of(data), address_of(text)
    most = max(2 * ways.size, 128)
    cells, numbers = empty(WIDTH * (most + 1), np.int64), empty(2 * most, np.float64)
    guesses = empty(most + 1, np.int64)  # the column that came in this place in the line before
    guesses[:] = -1
    at, last = base, base + size
    row = line = left = ids = 0
    while at < last:
        start = at
        n, behind = scan_line(at, plain, most, cells, numbers)
        if n == 0 and behind < 0:  # a line of blanks
            at, line = -behind, line + 1
            continue
        fine = n >= 0
        for k in range(max(n, 0)):
            key, key_end, kind = cells[WIDTH * k], cells[WIDTH * k + 1], cells[WIDTH * k + 2]
            ids += key_end - key == 2 and byte_at(key) == _I and byte_at(key + 1) == _D
            column = guesses[k]
            there = column >= 0 and places[column + 1] - places[column] == key_end - key
            if not (there and _same(key, called + places[column], key_end - key)):
                column = _column_of(key, key_end, names, hashes)
                guesses[k] = column
            if column < 0:
                continue
            first, end = cells[WIDTH * k + 3], cells[WIDTH * k + 4]
            if kind == NUMBER:
                end = _shown(first, end, numbers[most + k], ways[column])
                fine &= end > 0
            starts[column, row] = first - base if kind != ABSENT else 0
            stops[column, row] = end - base if kind != ABSENT else 0
        if not fine:
            behind = start
            while byte_at(behind) != _NEWLINE:
                behind += 1
            behind += 1
            slow[left, 0], slow[left, 1], slow[left, 2] = row, start - base, behind - 1 - base
            left += 1
        lines[row] = line
        at, line, row = behind, line + 1, row + 1
    return row, left, ids
