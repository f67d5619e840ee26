"""Kernels that scan plain JSON lines in place: objects without escapes, and without nested objects or lists.

Any other line is left to Python, which also describes the error if the line is bad.
"""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import load_uint8, parse_number
from bayou.sources.reading.blocks import TextBlock

# The kinds of value:
#     ABSENT   null, or missing
#     NUMBER   a number
#     TRUTH    true or false, as 1 or 0
#     TEXT     a string
#     OTHER    anything else, which Python reads
ABSENT, NUMBER, TRUTH, TEXT, OTHER = range(5)
# Number of fields per name and value in `cells`, see `scan_line`.
WIDTH = 5
# Longer numbers are read by Python.
_LONGEST_NUMBER = 19
_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN, _CLOSE, _NEWLINE, _MINUS, _POINT = b'"\\:,{}\n-.'
_TRUE, _FALSE, _NULL = (int.from_bytes(word, "little") for word in (b"true", b"fals", b"null"))


def is_utf8(block: TextBlock) -> bool:
    """Return whether a block is valid UTF-8."""
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
    """Return the address of the first byte from here on that is not a blank."""
    while load_uint8(at) == 32 or load_uint8(at) == 9 or load_uint8(at) == 13:
        at += 1
    return at


@kernel(forceinline=True)
def _string_end(at, plain):
    """Return the address of the quote that ends the string that begins here; 0 if Python must read the string."""
    byte = load_uint8(at)
    while byte != _QUOTE:
        if byte == _BACKSLASH or byte < 32 or (byte > 127 and not plain):
            return 0
        at += 1
        byte = load_uint8(at)
    return at


@kernel(forceinline=True)
def _number_at(at):
    """Return (value, address after it) of a JSON number; the address is 0 if Python must read the number."""
    first = at + (load_uint8(at) == _MINUS)
    byte = load_uint8(first)
    if byte < 48 or byte > 57 or (byte == 48 and 48 <= load_uint8(first + 1) <= 57):
        return 0.0, 0
    value, end = parse_number(at)
    point = first
    while 48 <= load_uint8(point) <= 57:
        point += 1
    if load_uint8(point) == _POINT and not 48 <= load_uint8(point + 1) <= 57:
        return 0.0, 0
    if end - first > _LONGEST_NUMBER or not abs(value) < np.inf:
        return 0.0, 0
    return value, end


@kernel
def scan_line(at, plain, most, cells, numbers):
    """Scan one object and return (number of names, address after the line).

    The number is -1 if the line is left to Python; for a blank line the result is (0, -address). For each name, of
    which there may be `most`, `cells` receives its start and stop address, the kind of its value, and the start and
    stop address of the value's text; the second half of `numbers` receives the value.
    """
    at = _blanks(at)
    if load_uint8(at) == _NEWLINE:
        return 0, -(at + 1)
    fine = load_uint8(at) == _OPEN
    at = _blanks(at + 1)
    n = 0
    again = load_uint8(at) != _CLOSE
    while fine and again:
        key = at + 1
        key_end = _string_end(key, plain) if load_uint8(at) == _QUOTE else 0
        at = _blanks(key_end + 1) if key_end else at
        fine = key_end > 0 and n < most and load_uint8(at) == _COLON
        if not fine:
            break
        at = _blanks(at + 1)
        byte = load_uint8(at)
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
            word = byte | load_uint8(at + 1) << 8 | load_uint8(at + 2) << 16 | load_uint8(at + 3) << 24
            if word == _TRUE:
                kind, value, text, text_end, at = TRUTH, 1.0, at, at + 4, at + 4
            elif word == _FALSE and load_uint8(at + 4) == 101:
                kind, text, text_end, at = TRUTH, at, at + 5, at + 5
            elif word == _NULL:
                at += 4
            else:
                fine = False
        cells[WIDTH * n], cells[WIDTH * n + 1], cells[WIDTH * n + 2] = key, key_end, kind
        cells[WIDTH * n + 3], cells[WIDTH * n + 4], numbers[most + n] = text, text_end, value
        n += 1
        at = _blanks(at)
        again = load_uint8(at) == _COMMA
        at = _blanks(at + 1) if again else at
    fine = fine and load_uint8(at) == _CLOSE
    at = _blanks(at + 1) if fine else at
    if not fine or load_uint8(at) != _NEWLINE:
        return -1, at
    return n, at + 1
