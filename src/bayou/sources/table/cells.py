"""Kernels for one table cell: its value as a number, boolean or integer, and the text of it that is hashed.

Every table reaches the kernels as `CellColumns`: columns of cells, each cell a range of text (numbers of Arrow and
JSON are first written as text; columns with a dictionary hold the text of each value once, and codes). The rows of one
block then pass through

    numbers   reads cells that must be numbers (labels, weights, numbers); rows with an invalid label or weight are bad
    features  makes one or two features of each cell (`slots`)
    words     makes one feature of each word, in columns of texts and of lists
    assembly  turns the slots, which are stored column by column, into rows and adds crosses
    new_names finds the names of features that have none yet

Each of them takes the complete block, as addresses, because a call from Python costs as much as a few hundred
cells.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_byte, put_number, put_whole
from bayou.kernels.parse_text import address_of, load_uint8, load_uint32, load_uint64, parse_number
from bayou.recipe.hashing import mix_end, mix_word
from bayou.sources.table.cell_format import COMMA, PLAIN, is_missing_marker, read_signed

# The roles of columns in kernels; those from BINS to DATE are read as numbers:
#     CATEGORY      a feature per value
#     FLAG          a feature per value, for true and false in any spelling
#     CODE          a feature per value, for integers in any spelling
#     BINS          a feature per bin of a number
#     WHOLE         as BINS, plus a feature per integer
#     NUMERIC       one feature whose value is the number
#     VALUES        a feature per number
#     DATE          a feature per part of a date or time
#     TEXT          a feature per word
#     WEIGHT        the weight of the row
#     LABEL         its label, a number or a word for true or false
#     LABEL_NUMBER  its label, a number
#     LABEL_TEXT    its label: positive if it equals a given text or number
#     LABEL_CLASS   its label, a class: a number, or the hash of a text
#     SLOPE         not of a column, but of a feature: where a number stands among the others
CATEGORY, FLAG, CODE, BINS, WHOLE, NUMERIC, VALUES, DATE, TEXT, WEIGHT = range(1, 11)
LABEL, LABEL_NUMBER, LABEL_TEXT, LABEL_CLASS, SLOPE = range(11, 16)
# The fields of a column of a block, as kernels see it:
#     CELL_TEXT  address of the text that offsets refer to
#     STARTS     address of the start offsets of cells (uint32)
#     STOPS      address of their stop offsets (uint32)
#     STRIDE     distance between the offsets of consecutive rows
#     CODES      with a dictionary: address of the codes (int32), otherwise 0
#     VALID      address of the validity bitmap of the codes; 0: every row has a code
#     VALID_OFFSET  the bit of the first row
#     DICTIONARY_HASHES     address of the hashes of the dictionary's values
CELL_TEXT, STARTS, STOPS, STRIDE, CODES, VALID, VALID_OFFSET, DICTIONARY_HASHES = range(8)

# The reasons why a row is bad:
#     NO_LABEL    it has no label
#     NOT_LABEL   its label is not a valid one
#     NOT_WEIGHT  its weight is not a number from 0 to LARGEST_WEIGHT
#     TOO_LARGE   its label is larger than LARGEST_VALUE
#     TOO_MANY_FEATURES it has more features than MAX_ROW_FEATURES, or too many pairs
NO_LABEL, NOT_LABEL, NOT_WEIGHT, TOO_LARGE, TOO_MANY_FEATURES = range(1, 6)
# Bound on the features of a row, which words and crosses could make arbitrarily long.
MAX_ROW_FEATURES = 1 << 20
# Separator of the items of a list cell: a byte that never occurs in UTF-8.
PART = 0xFF

# Bytes of scratch to write an integer of up to that many digits; `digits` writes beyond the end of one below 2^53.
CELL_PADDING_BYTES = 64

BLANK, _TAB, _PLUS, _MINUS, _POINT, _ZERO = 32, 9, 43, 45, 46, 48
_WHOLE_LIMIT = float(2**53)
_TRUE, _FALSE = (np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"fals"))
_SMALL = np.uint64(0x20202020)
_TRUE_TEXT, _FALSE_TEXT = np.frombuffer(b"true" + bytes(12), np.uint8), np.frombuffer(b"false" + bytes(11), np.uint8)


@kernel(forceinline=True)
def column_text(column):
    """Return the text address, the start and stop addresses and the row step of a column, for `cell_at`."""
    return column[CELL_TEXT], column[STARTS], column[STOPS], 4 * column[STRIDE]


@kernel(forceinline=True)
def cell_at(text, row):
    """Return the (start, stop) addresses of a row's cell."""
    base, starts, stops, step = text
    return base + np.int64(load_uint32(starts + row * step)), base + np.int64(load_uint32(stops + row * step))


@kernel(forceinline=True)
def skip_blanks(at, end):
    while at < end and (load_uint8(at) == BLANK or load_uint8(at) == _TAB):
        at += 1
    return at


@kernel(forceinline=True)
def drop_blanks(at, end):
    while end > at and (load_uint8(end - 1) == BLANK or load_uint8(end - 1) == _TAB):
        end -= 1
    return end


@kernel(forceinline=True)
def parse_bool(at, end):
    """Return 1 or 0 for a cell that is true or false, in any case of letters, else -1."""
    if end - at == 4 and load_uint32(at) | _SMALL == _TRUE:
        return 1
    if end - at == 5 and load_uint32(at) | _SMALL == _FALSE and load_uint8(at + 4) | 32 == 101:
        return 0
    return -1


@kernel(forceinline=True)
def read_cell(at, end, manner):
    """Return (number, whether the cell is valid). Empty cells and marks of missing values are valid, with NaN."""
    if at == end:
        return np.nan, True
    value, behind = parse_number(at)
    if behind == end and behind > at and abs(value) < np.inf and load_uint8(manner) != COMMA:
        return value, True
    return _read_other(at, end, manner)


@kernel
def _read_other(at, end, manner):
    """Do the work of `read_cell` for a cell that is not a plain number."""
    at = skip_blanks(at, end)
    end = drop_blanks(at, end)
    decimal = load_uint8(manner)
    if decimal != COMMA:
        value, behind = parse_number(at)
        if behind == end and behind > at:
            return value, bool(np.isfinite(value))
    if at == end or is_missing_marker(at, end, manner):
        return np.nan, True
    if decimal == PLAIN:
        return np.nan, False
    value, fine = read_signed(at, end, decimal == COMMA)
    return (value if fine else np.nan), fine


@kernel(forceinline=True)
def is_whole(x):
    """Return whether x is an integer below 2^53 in size, which float64 represents exactly."""
    return x == np.floor(x) and abs(x) < _WHOLE_LIMIT


@kernel
def number_text(x, spare):
    """Write a number to `spare` in canonical form, integers by their digits, others by nine; return (start, stop)."""
    stop = spare
    if not is_whole(x):
        return spare, put_number(spare, x)
    if x < 0:
        put_byte(stop, _MINUS)
        stop += 1
    return spare, put_whole(stop, np.uint64(abs(x)))


@kernel
def whole_text(at, end, spare):
    """Return (start, stop) of an integer in canonical form, in which +7, 007 and 7.0 are all 7.

    The text is part of the cell itself or was written to `spare`. start == stop if the cell is not an integer.
    """
    at = skip_blanks(at, end)
    end = drop_blanks(at, end)
    minus = load_uint8(at) == _MINUS
    first = at + (minus or load_uint8(at) == _PLUS)
    start = first
    while start < end and load_uint8(start) == _ZERO:
        start += 1
    stop = start
    while stop < end and 48 <= load_uint8(stop) <= 57:
        stop += 1
    if stop == end and stop > start:
        if not minus or start == first:
            return start - minus, stop
        if stop - start < CELL_PADDING_BYTES:  # -007: the minus must directly precede the 7
            put_byte(spare, _MINUS)
            for k in range(stop - start):
                put_byte(spare + 1 + k, load_uint8(start + k))
            return spare, spare + 1 + stop - start
    value, behind = parse_number(at)
    if behind != end or behind == at or not is_whole(value):
        return at, at
    return number_text(value, spare)


@kernel(forceinline=True)
def value_text(role, at, end, spare, manner):
    """Return (start, stop) of the text that is hashed for a category's cell: the cell, or its canonical form."""
    if role == FLAG:
        truth = parse_bool(at, end)
        if truth >= 0:
            at = address_of(_TRUE_TEXT) if truth else address_of(_FALSE_TEXT)
            end = at + 5 - truth
    elif role == CODE:
        start, stop = whole_text(at, end, spare)
        if start < stop:
            return start, stop
        at = skip_blanks(at, end)
        end = drop_blanks(at, end)
        if is_missing_marker(at, end, manner):
            end = at
    return at, end


@kernel(forceinline=True)
def feature_text(role, at, end, x, spare, manner):
    """Return (start, stop) of the text that a feature of a cell is named and hashed by; empty if it is missing.

    x is the cell's number, if the role is read as one. Of WHOLE the text is empty also for numbers with decimals.
    """
    if role == VALUES:
        return (spare, spare) if np.isnan(x) else number_text(x, spare)
    if role == WHOLE:
        start, stop = at, at
        if not np.isnan(x):
            start, stop = whole_text(at, end, spare)
            if start == stop and is_whole(x):  # not a plain number: 1,400
                start, stop = number_text(x, spare)
        return start, stop
    return value_text(role, at, end, spare, manner)


@kernel(forceinline=True)
def hash_eight(at, seed):
    """Return `hash_text` of eight bytes, a common length of ids, for features that are not exact."""
    word = load_uint64(at)
    h = mix_word(mix_word(np.uint32(seed), np.uint32(word)), np.uint32(word >> np.uint64(32)))
    return np.uint64(mix_end(h, np.uint32(0), 8))


@kernel(forceinline=True)
def is_word(byte):
    return 97 <= byte <= 122 or 48 <= byte <= 57 or byte == 95 or byte >= 128


@kernel
def cell_text(columns, c, row, most):
    """Return the first bytes of a cell, at most `most`."""
    start, stop = cell_at(column_text(columns[c]), row)
    text = empty(min(stop - start, most), np.uint8)
    for k in range(text.size):
        text[k] = load_uint8(start + k)
    return text
