"""Kernels that parse lines of VW text: labels, weights, tags, and the offsets of names to be hashed. See `reader`."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.parse_text import (
    LARGEST_VALUE,
    LARGEST_WEIGHT,
    address_of,
    line_ends,
    load_uint8,
    load_uint32,
    long_number,
    parse_number,
)
from bayou.kernels.text_stops import BAR, BLANK, COLON, NEWLINE, ONE, find_stops
from bayou.sources.formats.vw.fast_path import read_names, read_numbers, read_own_numbers
from bayou.sources.formats.vw.names import EXACT, hash_name

# Error codes of the kernel, with their messages.
_LABEL, _WEIGHT, _BASE, _NO_BAR, _CONTROL, _TABS, _NO_SPACE, _NO_NAME = range(1, 9)
_NO_VALUE, _NO_SCALE, _AFTER, _LARGE, _HEAVY, _LIKE_NUMBER, _BAR_IN_TEXT = range(9, 16)
WHAT = {
    _LABEL: "expected a label, a number (or nothing), before '|'",
    _WEIGHT: "expected a weight, a number, after the label",
    _BASE: "expected no more than a label and a weight before '|' (a tag begins with ' or touches the '|')",
    _NO_BAR: "expected '|' before the features",
    _CONTROL: "expected no control character",
    _TABS: "expected no tab before '|'",
    _NO_SPACE: "expected a namespace's name before ':'",
    _NO_NAME: "expected a feature's name before ':'",
    _NO_VALUE: "expected a number or a text after ':'",
    _NO_SCALE: "expected a number, the namespace's scale, after ':'",
    _AFTER: "expected a blank after the number",
    _LARGE: f"expected a number of at most {LARGEST_VALUE:g} in size",
    _HEAVY: f"expected a weight from 0 to {LARGEST_WEIGHT:g}",
    _LIKE_NUMBER: "expected a number, or a text that VW would not read as one",
    _BAR_IN_TEXT: "expected a blank before '|'",
}
# The loops for plain features are tried again within a namespace only after runs of at least this many.
_SEVERAL = 4
_TAB, _RETURN, _QUOTE, _PLUS, _MINUS, _POINT = 9, 13, 39, 43, 45, 46


@kernel
def _like_number(address):
    """Return whether VW would read a number from a text that is none: nan, inf, or a number without its digits."""
    mark = address + ((load_uint8(address) == _PLUS) | (load_uint8(address) == _MINUS))
    a, b, c = load_uint8(mark) | 32, load_uint8(mark + 1) | 32, load_uint8(mark + 2) | 32
    if (a == 110 and b == 97 and c == 110) or (a == 105 and b == 110 and c == 102):
        return True
    address += load_uint8(address) == _MINUS
    address += load_uint8(address) == _POINT
    if (load_uint8(address) | 32) == 101:
        address += 1
        address += load_uint8(address) == _MINUS
        while 48 <= load_uint8(address) <= 57:
            address += 1
    return load_uint8(address) <= BLANK


@kernel
def _parse_line_head(address):
    """Parse the text before the first '|' of a line: return (label, weight, tag start, tag stop, error code, address).

    The address is that of the '|', or of the error.
    """
    label, weight, n_words = np.nan, 1.0, 0
    while load_uint8(address) != BAR:
        stop = address
        while load_uint8(stop) > BLANK and load_uint8(stop) != BAR:
            stop += 1
        next_word = stop
        while load_uint8(next_word) == BLANK:
            next_word += 1
        quoted = load_uint8(address) == _QUOTE
        if next_word == stop and load_uint8(stop) != BAR:
            error = _NO_BAR if line_ends(stop) else _TABS if load_uint8(stop) == _TAB else _CONTROL
            return label, weight, address, address, error, stop
        if next_word == stop or (quoted and load_uint8(next_word) == BAR):
            return label, weight, address + quoted, stop, 0, next_word
        value, end = long_number(address)
        if n_words == 2:
            return label, weight, address, address, _BASE, address
        if end != stop:
            return label, weight, address, address, _WEIGHT if n_words else _LABEL, address
        if n_words == 0:
            label = value
            if not abs(value) <= LARGEST_VALUE:
                return label, weight, address, address, _LARGE, address
        else:
            weight = value
            if not 0 <= value <= LARGEST_WEIGHT:
                return label, weight, address, address, _HEAVY, address
        n_words += 1
        address = next_word
    return label, weight, address, address, 0, address


# The next functions are inlined into `read_lines`, so that their results stay in registers. They move from stop to
# stop: s is the index of the current stop, `offset` where it is, byte the byte there.


@kernel(forceinline=True)
def _skip_blanks(base, offset):
    """Return the offset after blanks and tabs, and that of the first tab, or -1."""
    tab = -1
    while load_uint8(base + offset) == BLANK or load_uint8(base + offset) == _TAB:
        if tab < 0 and load_uint8(base + offset) == _TAB:
            tab = offset
        offset += 1
    return offset, tab


@kernel(forceinline=True)
def _read_start(base, offset):
    """Parse a line up to its first '|' as `_parse_line_head` does, by offsets: mostly `1 |` or `-1 |`."""
    first = load_uint8(base + offset)
    mark = base + offset + (first == _MINUS)
    digit = load_uint8(mark) - 48
    if 0 <= digit <= 9 and load_uint8(mark + 1) == BLANK and load_uint8(mark + 2) == BAR:
        return -np.float64(digit) if first == _MINUS else np.float64(digit), 1.0, offset, offset, 0, mark + 2 - base
    label, weight, tag, tag_end, error, bar = _parse_line_head(base + offset)
    return label, weight, tag - base, tag_end - base, error, bar - base


@kernel(forceinline=True)
def _at_stop(base, stops, s):
    """Return the offset of a stop, and the byte there."""
    offset = np.int64(load_uint32(stops + 4 * np.int64(s)))
    return offset, load_uint8(base + offset)


@kernel(forceinline=True)
def _next_stop(base, stops, s):
    offset, byte = _at_stop(base, stops, s + ONE)
    return s + ONE, offset, byte


@kernel(forceinline=True)
def _read_value(base, stops, s, offset, scale):
    """Parse what follows a feature's ':' at `offset`: return (value, text, s, offset, byte, error code).

    `text` is the text's offset, or 0 if the value is a number. In case of an error `offset` is that of the error.
    """
    text = offset + 1
    value, end = parse_number(base + text)
    s, offset, byte = _next_stop(base, stops, s)
    if end == base + offset and byte != COLON and offset > text:
        error = 0 if max(abs(value), abs(value * scale)) <= LARGEST_VALUE else _LARGE
        return value * scale, 0, s, text if error else offset, byte, error
    if end > base + text:
        return value, 0, s, end - base, byte, _AFTER
    if offset == text and byte != COLON:
        return value, 0, s, text, byte, _NO_VALUE
    if _like_number(base + text):
        return value, 0, s, text, byte, _LIKE_NUMBER
    while byte == COLON:
        s, offset, byte = _next_stop(base, stops, s)
    return 1.0, text, s, offset, byte, _BAR_IN_TEXT if byte == BAR else 0


@kernel(forceinline=True)
def _parse_namespace(base, stops, s, offset, way):
    """Parse the namespace whose '|' is at `offset`: return (name offset, hash, scale, s, offset, byte, error)."""
    space = offset + 1
    s, offset, byte = _next_stop(base, stops, s)
    if offset == space:
        return space, np.uint64(0), 1.0, s, offset, byte, _NO_SPACE if byte == COLON else 0
    seed = hash_name(base + space, offset - space, np.uint64(0), way)
    if byte != COLON:
        return space, seed, 1.0, s, offset, byte, 0
    text = offset + 1
    scale, end = long_number(base + text)
    s, offset, byte = _next_stop(base, stops, s)
    if end == base + text:
        return space, seed, scale, s, text, byte, _NO_SCALE
    if end != base + offset or byte == COLON:
        return space, seed, scale, s, end - base, byte, _AFTER
    if not abs(scale) <= LARGEST_VALUE:
        return space, seed, scale, s, text, byte, _LARGE
    return space, seed, scale, s, offset, byte, 0


@inlined
def _read_feature(base, stops, s, offset, way, features, k, seed, space, scale, scaled):
    """Read the feature after the blank at `offset`, if there is one, and write it as the k-th unless its value is 0.

    Return (k of the next feature, whether its value is 1, unless it has none, s, offset, byte, error code).
    """
    indices, values, name_spans, spaces = features
    name = offset + 1
    s, offset, byte = _next_stop(base, stops, s)
    if offset == name:
        return k, True, s, offset, byte, _NO_NAME if byte == COLON else 0
    name_spans[k] = name | (offset << 32)
    indices[k] = seed
    spaces[k] = space
    values[k] = scale
    if byte != COLON:
        return k + np.uint64(scaled), True, s, offset, byte, 0
    value, text, s, offset, byte, error = _read_value(base, stops, s, offset, scale)
    if error:
        return k, True, s, offset, byte, error
    if text:
        indices[k] = hash_name(base + name, text - 1 - name, seed, way)
        name_spans[k] = text | (offset << 32)
    values[k] = value
    return k + np.uint64(values[k] != 0), value == 1.0, s, offset, byte, 0


@kernel
def read_lines(data, size, stops, ends, way, last, rows, features, bad):
    """Parse data[:size], which ends in a newline.

    Return (rows, nonzeros, names, lines, bad lines, rows with a weight, bounds, whether they hold).

    For a feature, indices[k] becomes the seed of its name's hash, name_spans[k] the offsets of the name (start, and
    stop in the upper half), spaces[k] the offset of the namespace's name. But if the name is a plain number up to
    `last` (-1: none is), name_spans[k] becomes OWN_NAME and indices[k] the index; the number of names is that of all
    other features.

    The bounds are the first fields of `CsrStats`, and hold if all features are named by plain numbers, which ascend.
    They may include lines that turned out bad; then they are too wide, which does no harm.

    `stops` and `ends` are scratch for the offsets where names can stop, which are computed once a line needs them.

        data              label weight tag|space:scale name:value name ... |space ...
        stops             the offsets of all bytes that end a name, in order; line ends at stop ends[line]
        s, offset, byte   the current stop: its index, its offset, and the byte there
        row, k, line      where the next row, feature and line go; a bad line resets k to where its row began
    """
    indptr, labels, weights, tags, positions = rows
    indices, values, name_spans, spaces = features
    base, first_stop = address_of(data), address_of(stops)
    homes = address_of(indices), address_of(values), address_of(name_spans), address_of(spaces)
    wide = values.itemsize == 8
    row = k = s = n_owned = np.uint64(0)  # unsigned: for signed indices, Numba tests for negative ones
    offset = line = skipped = weighted = max_row_length = 0
    max_abs, max_index = 1.0, -1
    is_all_ones = ascending = True
    stopped = False  # whether `stops` is filled in
    indptr[0] = 0
    while offset < size:
        # Phase 1: skip blanks and empty lines.
        start = offset
        offset, tab = _skip_blanks(base, offset)
        if line_ends(base + offset):
            offset += 1 + (load_uint8(base + offset) == _RETURN)
            line += 1
            continue
        # Phase 2: the text before the first bar, and a line of indicators, which are read in vectors.
        label, weight, tag, tag_end, error, offset = _read_start(base, offset)
        if tab >= 0:
            error, offset = _TABS, tab
        owned, previous, ended = np.uint64(0), -1, False
        if error == 0 and last >= 0 and load_uint8(base + offset + 1) == BLANK:
            count, newline, final, up = read_own_numbers(base, base + offset + 2, homes, wide, np.int64(k), last)
            if count > 0:
                k, owned, previous, ascending = k + np.uint64(count), np.uint64(count), final, ascending & up
                offset, ended = newline - base, True
        if not ended:
            if not stopped:
                find_stops(data, size, stops, ends)
                stopped = True
            s = np.uint64(ends[line - 1]) if line else np.uint64(0)
            while stops[s] < offset:
                s += ONE
        space = offset
        seed = np.uint64(0)
        scale = 1.0
        scaled = True  # whether the scale is not 0
        expects_numbers = expects_plain = False  # if runs of plain features named by numbers, or of any, are likely
        byte = load_uint8(base + offset)
        end = np.int64(ends[line])
        # Phase 3: namespaces and features. From here on `offset` is that of stop s, where a name or a number ended, and
        # `byte` the byte there.
        while error == 0 and not ended:
            if byte == BLANK and expects_numbers:
                run_start = k
                s, k, are_ones, bound, previous, up = read_numbers(
                    base, first_stop, s, homes, wide, k, scale, last, previous
                )
                is_all_ones, ascending, max_abs = is_all_ones & are_ones, ascending & up, max(max_abs, bound)
                owned += k - run_start
                expects_numbers = k - run_start >= _SEVERAL
                offset, byte = _at_stop(base, first_stop, s)
            if byte == BLANK and expects_plain:
                run_start = k
                s, k, are_ones = read_names(base, first_stop, s, end, homes, wide, k, scale, way == EXACT, seed, space)
                is_all_ones &= are_ones
                expects_plain = k - run_start >= _SEVERAL
                offset, byte = _at_stop(base, first_stop, s)
            if byte == BLANK or byte == _TAB:  # noqa: SIM109 (a test of two constants is the faster one)
                k, are_ones, s, offset, byte, error = _read_feature(
                    base, first_stop, s, offset, way, features, k, seed, space, scale, scaled
                )
                is_all_ones &= are_ones
            elif byte == BAR:
                space, seed, scale, s, offset, byte, error = _parse_namespace(base, first_stop, s, offset, way)
                values[k] = scale  # rounded to the type of values
                scaled = values[k] != 0
                is_all_ones &= scale == 1.0
                expects_plain = scaled
                expects_numbers = scaled and seed == 0 and last >= 0
            elif byte == NEWLINE or line_ends(base + offset):
                break
            else:
                error = _CONTROL
        # Phase 4: keep the row, or undo it; continue after the end of the line.
        if error:
            bad[skipped, 0], bad[skipped, 1], bad[skipped, 2] = line, offset - start + 1, error
            skipped += 1
            k = np.uint64(indptr[row])
            while load_uint8(base + stops[s]) != NEWLINE:
                s += ONE
            offset = np.int64(stops[s])
        else:
            labels[row] = label
            weights[row] = weight
            weighted += weight != 1.0
            tags[row, 0], tags[row, 1] = tag, tag_end
            positions[row] = line
            max_row_length = max(max_row_length, np.int64(k) - indptr[row])
            max_index = max(max_index, previous)
            n_owned += owned
            row += ONE
            indptr[row] = k
        offset += 1 + (load_uint8(base + offset) == _RETURN)
        line += 1
    bounds = max_row_length, max_index, max_abs, is_all_ones
    return row, k, k - n_owned, line, skipped, weighted, bounds, ascending and n_owned == k
