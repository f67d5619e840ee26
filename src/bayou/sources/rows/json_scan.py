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
def _blanks(address):
    """Return the address of the first byte from here on that is not a blank."""
    while load_uint8(address) == 32 or load_uint8(address) == 9 or load_uint8(address) == 13:
        address += 1
    return address


@kernel(forceinline=True)
def _string_end(address, plain):
    """Return the address of the quote that ends the string that begins here; 0 if Python must read the string."""
    byte = load_uint8(address)
    while byte != _QUOTE:
        if byte == _BACKSLASH or byte < 32 or (byte > 127 and not plain):
            return 0
        address += 1
        byte = load_uint8(address)
    return address


@kernel(forceinline=True)
def _number_at(address):
    """Return (value, address after it) of a JSON number; the address is 0 if Python must read the number."""
    first = address + (load_uint8(address) == _MINUS)
    byte = load_uint8(first)
    if byte < 48 or byte > 57 or (byte == 48 and 48 <= load_uint8(first + 1) <= 57):
        return 0.0, 0
    value, end = parse_number(address)
    point = first
    while 48 <= load_uint8(point) <= 57:
        point += 1
    if load_uint8(point) == _POINT and not 48 <= load_uint8(point + 1) <= 57:
        return 0.0, 0
    if end - first > _LONGEST_NUMBER or not abs(value) < np.inf:
        return 0.0, 0
    return value, end


@kernel
def scan_line(address, plain, max_names, cells, numbers):
    """Scan one object and return (number of names, address after the line).

    The number is -1 if the line is left to Python; for a blank line the result is (0, -address). For each name, of
    which there may be `max_names`, `cells` receives its start and stop address, the kind of its value, and the start
    and stop address of the value's text; the second half of `numbers` receives the value.
    """
    address = _blanks(address)
    if load_uint8(address) == _NEWLINE:
        return 0, -(address + 1)
    is_valid = load_uint8(address) == _OPEN
    address = _blanks(address + 1)
    n = 0
    has_more = load_uint8(address) != _CLOSE
    while is_valid and has_more:
        key = address + 1
        key_end = _string_end(key, plain) if load_uint8(address) == _QUOTE else 0
        address = _blanks(key_end + 1) if key_end else address
        is_valid = key_end > 0 and n < max_names and load_uint8(address) == _COLON
        if not is_valid:
            break
        address = _blanks(address + 1)
        byte = load_uint8(address)
        kind, value, text, text_end = ABSENT, 0.0, 0, 0
        if byte == _QUOTE:
            text = address + 1
            text_end = _string_end(text, plain)
            is_valid = text_end > 0
            kind, address = TEXT, text_end + 1 if is_valid else address
        elif byte == _MINUS or 48 <= byte <= 57:
            value, end = _number_at(address)
            is_valid = end > 0
            kind, text, text_end, address = NUMBER, address, end, end if is_valid else address
        else:
            word = byte | load_uint8(address + 1) << 8 | load_uint8(address + 2) << 16 | load_uint8(address + 3) << 24
            if word == _TRUE:
                kind, value, text, text_end, address = TRUTH, 1.0, address, address + 4, address + 4
            elif word == _FALSE and load_uint8(address + 4) == 101:
                kind, text, text_end, address = TRUTH, address, address + 5, address + 5
            elif word == _NULL:
                address += 4
            else:
                is_valid = False
        cells[WIDTH * n], cells[WIDTH * n + 1], cells[WIDTH * n + 2] = key, key_end, kind
        cells[WIDTH * n + 3], cells[WIDTH * n + 4], numbers[max_names + n] = text, text_end, value
        n += 1
        address = _blanks(address)
        has_more = load_uint8(address) == _COMMA
        address = _blanks(address + 1) if has_more else address
    is_valid = is_valid and load_uint8(address) == _CLOSE
    address = _blanks(address + 1) if is_valid else address
    if not is_valid or load_uint8(address) != _NEWLINE:
        return -1, address
    return n, address + 1
