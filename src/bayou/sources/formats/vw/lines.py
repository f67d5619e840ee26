"""Lines of VW text: labels, weights, tags, and where the names are that are still to be hashed. See `reader`."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bayou.kernels.compiling import kernel
from bayou.kernels.digits import put_half, put_word
from bayou.kernels.scan import (
    LARGEST_VALUE,
    LARGEST_WEIGHT,
    address_of,
    byte_at,
    half_at,
    number,
    short_decimal,
    short_number,
    trailing_zeros,
)
from bayou.sources.formats.vw.names import BAR, BLANK, COLON, EXACT, ONE, OWN_NAME, WIDE, hash_name, stops_at

# What was wrong, by the kernel's code.
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
# A value of 1 and the blank behind it, as most features have.
_INDICATOR = np.uint64(int.from_bytes(b":1 ", "little"))
_ONE_BYTE, _THREE_BYTES = np.uint64(0xFF), np.uint64(0xFFFFFF)
# The loops for plain features are tried again within a namespace only if this many came one after another.
_SEVERAL = 4
_TAB, _NEWLINE, _RETURN, _QUOTE, _PLUS, _MINUS, _POINT = 9, 10, 13, 39, 43, 45, 46


@intrinsic
def _count_ones(typingctx, word):
    """How many bits are 1."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i64"), args)

    return types.uint64(types.uint64), codegen


@kernel
def find_stops(data, size, stops):
    """The places of all bytes that cannot be in a name, and of at least one newline behind the text."""
    base = address_of(data)
    n = np.uint64(0)
    for start in range(0, size + 1, WIDE):
        word = stops_at(base + start)
        count = _count_ones(word)
        # Eight at a time, needed or not: that is faster than to stop after the last, which is hard to foresee.
        done = np.uint64(0)
        while True:
            for k in range(8):
                stops[n + done + np.uint64(k)] = start + trailing_zeros(word)
                word &= word - ONE
            done += np.uint64(8)
            if done >= count:
                break
        n += count


@kernel
def _line_ends(at):
    byte = byte_at(at)
    return byte == _NEWLINE or (byte == _RETURN and byte_at(at + 1) == _NEWLINE)


@kernel
def _like_number(at):
    """Whether VW reads a number from a text (that is none): nan, inf, or one that lacks only its digits."""
    mark = at + ((byte_at(at) == _PLUS) | (byte_at(at) == _MINUS))
    a, b, c = byte_at(mark) | 32, byte_at(mark + 1) | 32, byte_at(mark + 2) | 32
    if (a == 110 and b == 97 and c == 110) or (a == 105 and b == 110 and c == 102):
        return True
    at += byte_at(at) == _MINUS
    at += byte_at(at) == _POINT
    if (byte_at(at) | 32) == 101:
        at += 1
        at += byte_at(at) == _MINUS
        while 48 <= byte_at(at) <= 57:
            at += 1
    return byte_at(at) <= BLANK


@kernel
def _read_number(at):
    """`number`, once for all who are not in a hurry."""
    return number(at)


@kernel
def _read_head(at):
    """What stands before the first '|' of a line: (label, weight, tag start, stop, what is wrong, address).

    The address is that of the '|', or that of what is wrong.
    """
    label, weight, words = np.nan, 1.0, 0
    while byte_at(at) != BAR:
        stop = at
        while byte_at(stop) > BLANK and byte_at(stop) != BAR:
            stop += 1
        behind = stop
        while byte_at(behind) == BLANK:
            behind += 1
        quoted = byte_at(at) == _QUOTE
        if behind == stop and byte_at(stop) != BAR:
            wrong = _NO_BAR if _line_ends(stop) else _TABS if byte_at(stop) == _TAB else _CONTROL
            return label, weight, at, at, wrong, stop
        if behind == stop or (quoted and byte_at(behind) == BAR):
            return label, weight, at + quoted, stop, 0, behind
        value, end = _read_number(at)
        if words == 2:
            return label, weight, at, at, _BASE, at
        if end != stop:
            return label, weight, at, at, _WEIGHT if words else _LABEL, at
        if words == 0:
            label = value
            if not abs(value) <= LARGEST_VALUE:
                return label, weight, at, at, _LARGE, at
        else:
            weight = value
            if not 0 <= value <= LARGEST_WEIGHT:
                return label, weight, at, at, _HEAVY, at
        words += 1
        at = behind
    return label, weight, at, at, 0, at


@intrinsic
def _put_value(typingctx, address, wide, value):
    """Write a float64 if wide, otherwise a float32; gives what it has become there."""

    def codegen(context, builder, signature, args):
        home, is_wide, number = args
        narrow = builder.fptrunc(number, ir.FloatType())
        with builder.if_else(is_wide) as (then, otherwise):
            for branch, found in ((then, number), (otherwise, narrow)):
                with branch:
                    builder.store(found, builder.inttoptr(home, found.type.as_pointer()))
        return builder.select(is_wide, number, builder.fpext(narrow, number.type))

    return types.float64(types.int64, types.boolean, types.float64), codegen


@kernel(forceinline=True)
def _read_plain(base, stops, s, homes, wide, k, scale, last, previous):
    """Features as most are: any name, and a short value or none: `x`, `x:1`, `x:-2.5`.

    From stop s, a blank, and feature k on, up to the first feature that is not so. With `last` >= 0 only those called
    by their numbers up to that, whose indices are then known. Gives (s, k, whether all values are 1, a bound of them,
    the last number, whether numbers ascend, from the previous one on).
    """
    indices, values, places, _ = homes
    size = 8 if wide else 4
    s, k = np.int64(s), np.int64(k)
    ones, largest = scale == 1.0, abs(_put_value(values + size * k, wide, scale))
    ascending = True
    at = np.int64(half_at(stops + 4 * s)) + 1
    byte = BLANK
    while byte == BLANK:
        name, end = at, np.int64(half_at(stops + 4 * s + 4))
        place = name | (end << 32)
        whole = 0
        if last >= 0:
            found, fine = short_number(base + name, end - name)
            whole = np.int64(found)
            if not fine or whole > last:
                break
        elif end == name:
            break
        # Branches, which can be foreseen: a choice without one would have to wait for what stands behind the name.
        behind = half_at(base + end)
        byte = np.int64(behind & _ONE_BYTE)
        kept = 1
        if behind & _THREE_BYTES == _INDICATOR:
            byte = BLANK
            _put_value(values + size * k, wide, scale)
            s += 2
            at = end + 3
        elif byte == COLON:
            text, end = end + 1, np.int64(half_at(stops + 4 * s + 8))
            minus = byte_at(base + text) == _MINUS
            value, fine = short_decimal(base + text + minus, end - text - minus)
            value = (-value if minus else value) * scale
            byte = byte_at(base + end)
            if not fine or not abs(value) <= LARGEST_VALUE or not (byte == BLANK or _line_ends(base + end)):
                break
            value = _put_value(values + size * k, wide, value)
            kept = np.int64(value != 0)
            ones &= value == 1.0
            largest = max(largest, abs(value))
            s += 2
            at = end + 1
        elif byte == BLANK or _line_ends(base + end):
            _put_value(values + size * k, wide, scale)
            s += 1
            at = end + 1
        else:
            break
        if last >= 0:
            ascending &= whole > previous
            previous = whole
            put_half(indices + 4 * k, np.uint64(whole))
            place = OWN_NAME
        put_word(places + 8 * k, np.uint64(place))
        k += kept
    return np.uint64(s), np.uint64(k), ones, largest, previous, ascending


# Both are functions of their own so that what their loops need fits in registers. They take addresses: to count the
# references to arrays at every call would take half as long again.


@kernel
def _read_numbers(base, stops, s, homes, wide, k, scale, last, previous):
    """`_read_plain` of features called by their numbers."""
    return _read_plain(base, stops, s, homes, wide, k, scale, last, previous)


@kernel
def _read_names(base, stops, s, homes, wide, k, scale, exact, seed, space):
    """`_read_plain` of features of any names, with their seeds and namespaces."""
    indices, _, _, spaces = homes
    s, end, ones, _, _, _ = _read_plain(base, stops, s, homes, wide, k, scale, -1, -1)
    for i in range(np.int64(k), np.int64(end)):
        put_half(spaces + 4 * i, np.uint64(space))
        if exact:
            put_word(indices + 8 * i, seed)
        else:
            put_half(indices + 4 * i, seed)
    return s, end, ones


# The next three are inlined into `read_lines`, so that what they give stays in registers. They walk from stop to stop:
# s is the number of the stop that was reached, at its place, byte what stands there.


@kernel(forceinline=True)
def _read_start(base, at):
    """`_read_head`, by places. Most lines begin with `1 |` or `-1 |`."""
    first = byte_at(base + at)
    mark = base + at + (first == _MINUS)
    digit = byte_at(mark) - 48
    if 0 <= digit <= 9 and byte_at(mark + 1) == BLANK and byte_at(mark + 2) == BAR:
        return -np.float64(digit) if first == _MINUS else np.float64(digit), 1.0, at, at, 0, mark + 2 - base
    label, weight, tag, tag_end, wrong, there = _read_head(base + at)
    return label, weight, tag - base, tag_end - base, wrong, there - base


@kernel(forceinline=True)
def _next_stop(base, stops, s):
    s += ONE
    at = np.int64(half_at(stops + 4 * np.int64(s)))
    return s, at, byte_at(base + at)


@kernel(forceinline=True)
def _read_value(base, stops, s, at, scale):
    """What stands behind a feature's ':' at `at`: (value, where it is if it is a text or else 0, s, at, byte, wrong).

    If something is wrong `at` is where.
    """
    text = at + 1
    value, end = number(base + text)
    s, at, byte = _next_stop(base, stops, s)
    if end == base + at and byte != COLON and at > text:
        wrong = 0 if max(abs(value), abs(value * scale)) <= LARGEST_VALUE else _LARGE
        return value * scale, 0, s, text if wrong else at, byte, wrong
    if end > base + text:
        return value, 0, s, end - base, byte, _AFTER
    if at == text and byte != COLON:
        return value, 0, s, text, byte, _NO_VALUE
    if _like_number(base + text):
        return value, 0, s, text, byte, _LIKE_NUMBER
    while byte == COLON:
        s, at, byte = _next_stop(base, stops, s)
    return 1.0, text, s, at, byte, _BAR_IN_TEXT if byte == BAR else 0


@kernel(forceinline=True)
def _read_space(base, stops, s, at, way):
    """The namespace whose '|' is at `at`: (where its name is, its hash, its scale, s, at, byte, wrong)."""
    space = at + 1
    s, at, byte = _next_stop(base, stops, s)
    if at == space:
        return space, np.uint64(0), 1.0, s, at, byte, _NO_SPACE if byte == COLON else 0
    seed = hash_name(base + space, at - space, np.uint64(0), way)
    if byte != COLON:
        return space, seed, 1.0, s, at, byte, 0
    text = at + 1
    scale, end = _read_number(base + text)
    s, at, byte = _next_stop(base, stops, s)
    if end == base + text:
        return space, seed, scale, s, text, byte, _NO_SCALE
    if end != base + at or byte == COLON:
        return space, seed, scale, s, end - base, byte, _AFTER
    if not abs(scale) <= LARGEST_VALUE:
        return space, seed, scale, s, text, byte, _LARGE
    return space, seed, scale, s, at, byte, 0


@kernel
def read_lines(data, size, stops, way, last, rows, features, bad):
    """(rows, non-zeros, names, lines, bad lines, rows with a weight, bounds) of data[:size], which ends in a newline.

    Of a feature, indices[k] becomes the seed for the hash of its name, places[k] the place of the name (start, and
    stop in the upper half), spaces[k] that of the namespace's name. But places[k] becomes OWN_NAME, and indices[k]
    the index, if the name is a plain number up to `last` (-1: none is); the number of names is that of all others.

    The bounds are those of `Bounds`, and hold if the last of them is true: if all features are called by plain numbers,
    which ascend. They may take lines into account that turned out bad; then they are too wide, which does no harm.
    """
    indptr, labels, weights, tags, positions = rows
    indices, values, places, spaces = features
    base, first_stop = address_of(data), address_of(stops)
    homes = address_of(indices), address_of(values), address_of(places), address_of(spaces)
    wide = values.itemsize == 8
    row = k = s = own = np.uint64(0)  # unsigned: an index that may be negative costs a test
    at = line = skipped = weighted = longest = 0
    largest, highest = 1.0, -1
    ones = ascending = True
    indptr[0] = 0
    while at < size:
        start = at
        tab = -1
        while byte_at(base + at) == BLANK or byte_at(base + at) == _TAB:
            if tab < 0 and byte_at(base + at) == _TAB:
                tab = at
            at += 1
        if _line_ends(base + at):
            at += 1 + (byte_at(base + at) == _RETURN)
            line += 1
            continue
        label, weight, tag, tag_end, wrong, at = _read_start(base, at)
        if tab >= 0:
            wrong, at = _TABS, tab
        while stops[s] < at:
            s += ONE
        space = at
        seed = np.uint64(0)
        scale = 1.0
        scaled = True  # not to zero
        numbers = plain = False  # whether runs of those are likely
        owned = np.uint64(0)
        previous = -1
        byte = byte_at(base + at)
        # From here on `byte` is that at `at`, where stop s is: a name or a number ended there.
        while wrong == 0:
            if byte == BLANK and numbers:
                before = k
                s, k, same, bound, previous, up = _read_numbers(
                    base, first_stop, s, homes, wide, k, scale, last, previous
                )
                ones, ascending, largest = ones & same, ascending & up, max(largest, bound)
                owned += k - before
                numbers = k - before >= _SEVERAL
                at = np.int64(stops[s])
                byte = byte_at(base + at)
            if byte == BLANK and plain:
                before = k
                s, k, same = _read_names(base, first_stop, s, homes, wide, k, scale, way == EXACT, seed, space)
                ones &= same
                plain = k - before >= _SEVERAL
                at = np.int64(stops[s])
                byte = byte_at(base + at)
            if byte == BLANK or byte == _TAB:  # noqa: SIM109 (a test of two constants is the faster one)
                name = at + 1
                s, at, byte = _next_stop(base, first_stop, s)
                if at == name:
                    if byte == COLON:
                        wrong = _NO_NAME
                    continue
                places[k] = name | (at << 32)
                indices[k] = seed
                spaces[k] = space
                values[k] = scale
                kept = scaled
                if byte == COLON:
                    value, text, s, at, byte, wrong = _read_value(base, first_stop, s, at, scale)
                    if wrong:
                        break
                    if text:
                        indices[k] = hash_name(base + name, text - 1 - name, seed, way)
                        places[k] = text | (at << 32)
                    values[k] = value
                    kept = values[k] != 0
                    ones &= value == 1.0
                k += np.uint64(kept)
            elif byte == BAR:
                space, seed, scale, s, at, byte, wrong = _read_space(base, first_stop, s, at, way)
                values[k] = scale  # as narrow as values are
                scaled = values[k] != 0
                ones &= scale == 1.0
                plain = scaled
                numbers = scaled and seed == 0 and last >= 0
            elif byte == _NEWLINE or _line_ends(base + at):
                break
            else:
                wrong = _CONTROL
        if wrong:
            if skipped < bad.shape[0]:
                bad[skipped, 0], bad[skipped, 1], bad[skipped, 2] = line, at - start + 1, wrong
            skipped += 1
            k = np.uint64(indptr[row])
            while byte_at(base + stops[s]) != _NEWLINE:
                s += ONE
            at = np.int64(stops[s])
        else:
            labels[row] = label
            weights[row] = weight
            weighted += weight != 1.0
            tags[row, 0], tags[row, 1] = tag, tag_end
            positions[row] = line
            longest = max(longest, np.int64(k) - indptr[row])
            highest = max(highest, previous)
            own += owned
            row += ONE
            indptr[row] = k
        at += 1 + (byte_at(base + at) == _RETURN)
        line += 1
    bounds = longest, largest, highest, ones, ascending and own == k
    return row, k, k - own, line, skipped, weighted, bounds
