"""Spelling of cells: the marks of missing values, and the number formats accepted besides plain numbers.

A recipe's manner is a byte string that kernels read by its address, so that they pass on a single integer: the code of
the decimal format, then each mark in lower case after its length, then 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayou.core.checks import number_from_text
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_byte
from bayou.kernels.parse_text import PADDING, address_of, load_uint8, parse_number
from bayou.recipe.recipe import DECIMALS, Recipe

# The decimal formats:
#     PLAIN   1400.5
#     POINT   1,400.5
#     COMMA   1.400,5
PLAIN, POINT, COMMA = range(3)
# Maximum number of bytes of a number with separators.
_LONGEST = 64


def manner_of(recipe: Recipe) -> np.ndarray:
    """Return the spelling of a recipe's cells as kernels read it (see the module's docstring)."""
    decimal = PLAIN if recipe.decimal is None else POINT + DECIMALS.index(recipe.decimal)
    texts = [mark.strip(" \t").encode() for mark in recipe.marks]
    marks = b"".join(bytes([len(text)]) + text.lower() for text in texts if text)
    return np.frombuffer(bytes([decimal]) + marks + b"\0", np.uint8)


def missing_numbers(marks: Iterable[str]) -> list[float]:
    """Return the finite numbers among the marks: if -999 marks a missing value, so does any other spelling of it."""
    return [number for number in map(number_from_text, marks) if not np.isnan(number)]


@kernel
def is_missing_marker(at, end, manner):
    """Return whether a cell without surrounding blanks is one of the marks of missing values, ignoring case."""
    place = manner + 1
    size = load_uint8(place)
    while size:
        same = size == end - at
        k = 0
        while same and k < size:
            byte = load_uint8(at + k)
            byte += 32 * (65 <= byte <= 90)
            k += 1
            same = byte == load_uint8(place + k)
        if same:
            return True
        place += 1 + size
        size = load_uint8(place)
    return False


@kernel
def read_signed(at, end, comma):
    """Return (number, whether it is valid) for a cell with separators, currency or percent signs: -$1,400.50, 12 %.

    Groups of three digits may be separated by point or comma (the one that is not the decimal sign), by blanks or by
    apostrophes. Non-ASCII bytes at either end count as currency signs or blanks. Percentages are not divided: 12 % is
    12.
    """
    spare = empty(_LONGEST + PADDING, np.uint8)
    to = address_of(spare)
    put_byte(to, 45)
    sign, size = False, 0
    while at < end and (_is_sign(load_uint8(at)) or (not sign and (load_uint8(at) == 45 or load_uint8(at) == 43))):
        sign |= load_uint8(at) == 45 or load_uint8(at) == 43
        size += load_uint8(at) == 45
        at += 1
    while end > at and _is_sign(load_uint8(end - 1)):
        end -= 1
    decimal, between = (44, 46) if comma else (46, 44)
    group, digits, whole, last = -1, 0, True, 0
    for place in range(at, end):
        byte = load_uint8(place)
        if size == _LONGEST:
            return np.nan, False
        if 48 <= byte <= 57:
            digits += whole
        elif whole and (byte == between or byte == 32 or byte == 39):
            if not (digits == 3 or (group < 0 and 0 < digits < 3)) or not 48 <= last <= 57:
                return np.nan, False
            group, digits, last = 0, 0, byte
            continue
        elif whole and byte == decimal:
            whole = False
            byte = 46
        elif (byte | 32) == 101:
            whole = False
        elif not ((byte == 43 or byte == 45) and (last | 32) == 101):
            return np.nan, False
        if group == 0 and not whole and digits != 3:
            return np.nan, False
        put_byte(to + size, byte)
        size += 1
        last = byte
    if group == 0 and digits != 3:
        return np.nan, False
    for k in range(PADDING):
        spare[size + k] = 10
    value, behind = parse_number(to)
    return value, behind == to + size and size > 0 and abs(value) < np.inf


@kernel(forceinline=True)
def _is_sign(byte):
    """Return whether a byte is a currency sign, a percent sign or a blank."""
    return byte == 36 or byte == 37 or byte == 32 or byte == 9 or byte >= 128
