"""Lines of VW text: labels, weights, tags, and where the names are that are still to be hashed. See `vw`."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from bayou.sources.scan import LARGEST_VALUE, LARGEST_WEIGHT, address_of, byte_at, number, trailing_zeros
from bayou.sources.vw_names import BAR, BLANK, COLON, ONE, WIDE, hash_name, stops_at

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
_TAB, _NEWLINE, _RETURN, _QUOTE, _PLUS, _MINUS, _POINT = 9, 10, 13, 39, 43, 45, 46


@intrinsic
def _count_ones(typingctx, word):
    """How many bits are 1."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i64"), args)

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def _line_ends(at):
    byte = byte_at(at)
    return byte == _NEWLINE or (byte == _RETURN and byte_at(at + 1) == _NEWLINE)


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def _read_number(at):
    """`number`, once for all who are not in a hurry."""
    return number(at)


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def read_lines(data, size, stops, way, rows, features, bad):
    """(rows, non-zeros, lines, bad lines, rows with a weight) of data[:size], which ends in a newline.

    Of a feature, indices[k] becomes the seed for the hash of its name, places[k] the place of the name (start, and
    stop in the upper half), spaces[k] that of the namespace's name.
    """
    indptr, labels, weights, tags, positions = rows
    indices, values, places, spaces = features
    base = address_of(data)
    row = k = s = np.uint64(0)  # unsigned: an index that may be negative costs a test
    line = skipped = weighted = 0
    indptr[0] = 0
    at = 0
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
        # Most lines begin with `1 |` or `-1 |`.
        wrong = 0
        first = byte_at(base + at)
        mark = base + at + (first == _MINUS)
        digit = byte_at(mark) - 48
        if 0 <= digit <= 9 and byte_at(mark + 1) == BLANK and byte_at(mark + 2) == BAR:
            label = -np.float64(digit) if first == _MINUS else np.float64(digit)
            weight = 1.0
            tag = tag_end = at
            at = mark + 2 - base
        else:
            label, weight, tag, tag_end, wrong, at = _read_head(base + at)
            at -= base
            tag -= base
            tag_end -= base
        if tab >= 0:
            wrong, at = _TABS, tab
        while stops[s] < at:
            s += ONE
        space = at
        seed = np.uint64(0)
        scale = 1.0
        scaled = True  # not to zero
        byte = byte_at(base + at)
        # From here on `byte` is that at `at`, where stop s is: a name or a number ended there.
        while wrong == 0:
            if byte == BLANK or byte == _TAB:  # noqa: SIM109 (a test of two constants is the faster one)
                name = at + 1
                s += ONE
                at = np.int64(stops[s])
                byte = byte_at(base + at)
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
                    text = at + 1
                    value, end = number(base + text)
                    s += ONE
                    at = np.int64(stops[s])
                    byte = byte_at(base + at)
                    if end == base + at and byte != COLON and at > text:
                        if not max(abs(value), abs(value * scale)) <= LARGEST_VALUE:
                            wrong = _LARGE
                        value *= scale
                    elif end > base + text:
                        wrong = _AFTER
                        text = end - base
                    elif at == text and byte != COLON:
                        wrong = _NO_VALUE
                    elif _like_number(base + text):
                        wrong = _LIKE_NUMBER
                    else:
                        while byte == COLON:
                            s += ONE
                            at = np.int64(stops[s])
                            byte = byte_at(base + at)
                        if byte == BAR:
                            wrong = _BAR_IN_TEXT
                            text = at
                        value = 1.0
                        indices[k] = hash_name(base + name, text - 1 - name, seed, way)
                        places[k] = text | (at << 32)
                    if wrong:
                        at = text
                        break
                    values[k] = value
                    kept = values[k] != 0
                k += np.uint64(kept)
            elif byte == BAR:
                space = at + 1
                s += ONE
                at = np.int64(stops[s])
                byte = byte_at(base + at)
                seed = np.uint64(0)
                scale = 1.0
                scaled = True
                if at > space:
                    seed = hash_name(base + space, at - space, seed, way)
                    if byte == COLON:
                        text = at + 1
                        scale, end = _read_number(base + text)
                        s += ONE
                        at = np.int64(stops[s])
                        byte = byte_at(base + at)
                        if end == base + text:
                            wrong = _NO_SCALE
                        elif end != base + at or byte == COLON:
                            wrong = _AFTER
                            text = end - base
                        elif not abs(scale) <= LARGEST_VALUE:
                            wrong = _LARGE
                        if wrong:
                            at = text
                        values[k] = scale  # as narrow as values are
                        scaled = values[k] != 0
                elif byte == COLON:
                    wrong = _NO_SPACE
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
            row += ONE
            indptr[row] = k
        at += 1 + (byte_at(base + at) == _RETURN)
        line += 1
    return row, k, line, skipped, weighted
