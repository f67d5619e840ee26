"""Cells into features: what a fitted column makes of each cell, and rows in CSR form from all columns.

Every table comes here as a `Sheet`: columns of cells, each cell a stretch of text (what Arrow and JSON hold as numbers
is written as text first; columns with a dictionary have the text of each value once, and codes). Then, for the rows of
one block at a time,

    read      cells that must be numbers (labels, weights, numbers) are read; rows in which one is not are bad
    fill      each column makes one or two features of each cell (`slots`), or one of each word
    assemble  the slots, which stand column by column, become rows; crosses are added

All three take the whole sheet at once, as addresses, because a call from Python costs as much as some hundred cells.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from bayou.core.numbering import holds
from bayou.kernels.digits import put_byte, put_whole
from bayou.kernels.scan import LARGEST_VALUE, LARGEST_WEIGHT, address_of, byte_at, half_at, number, word_at
from bayou.sources.hashing import cross, cross64, id64, mix_end, mix_word, murmur3
from bayou.sources.table.column_types import MISSING

# What kernels call the roles.
CATEGORY, FLAG, CODE, BINS, WHOLE, NUMERIC, TEXT, WEIGHT, LABEL, LABEL_NUMBER, LABEL_TEXT = range(1, 12)
# A column of a sheet, as kernels see it: addresses of the text that places are counted from, of where cells start
# and stop (uint32), and how many places each row takes. With a dictionary: of codes (int32), of the bits that tell
# whether there is one (0: always), the first of those bits, of the hashes of the dictionary's values.
BASE, STARTS, STOPS, STRIDE, CODES, VALID, FIRST_BIT, LOOKUP = range(8)

# What makes a row bad.
NOT_NUMBER, NO_LABEL, NOT_LABEL, NOT_WEIGHT, TOO_LARGE, TOO_MANY = range(1, 7)
# A row may not grow beyond all bounds, by words or by the pairs that come of crosses.
MOST_FEATURES, MOST_PAIRS = 1 << 20, 1 << 16
# Standardised numbers are cut here, so that one outlier does not move a weight by itself.
CLIP = 5.0
# Between the parts of a cell that is a list: no byte of UTF-8.
PART = 0xFF

# Rows are worked on so many at a time, all columns of them: their text and their features then stay in the first cache.
TILE = 64
# Room to write a whole number below 2^53, and what `digits` wastes behind it.
SPARE = 40

_BLANK, _TAB, _PLUS, _MINUS, _POINT, _ZERO = 32, 9, 43, 45, 46, 48
_WHOLE_LIMIT = float(2**53)
_MISSING_WORDS = np.array([int.from_bytes(word.encode(), "little") for word in MISSING], np.uint64)
_TRUE, _FALSE = (np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"fals"))
_SMALL = np.uint64(0x20202020)
_TRUE_TEXT, _FALSE_TEXT = np.frombuffer(b"true" + bytes(12), np.uint8), np.frombuffer(b"false" + bytes(11), np.uint8)


# --- one cell -------------------------------------------------------------------------------------------------------


@njit(forceinline=True)
def _skip_blanks(at, end):
    while at < end and (byte_at(at) == _BLANK or byte_at(at) == _TAB):
        at += 1
    return at


@njit(forceinline=True)
def _drop_blanks(at, end):
    while end > at and (byte_at(end - 1) == _BLANK or byte_at(end - 1) == _TAB):
        end -= 1
    return end


@njit(cache=True, nogil=True, error_model="numpy")
def _says_missing(at, end):
    """Whether a cell that is not a number says that there is none."""
    if end - at > 4:
        return False
    word = half_at(at) & ((np.uint64(1) << np.uint64(8 * (end - at))) - np.uint64(1))
    found = False
    for missing in _MISSING_WORDS:
        found |= word == missing
    return found


@njit(forceinline=True)
def _truth(at, end):
    """1 or 0 of a cell that says true or false in any case, else -1."""
    if end - at == 4 and half_at(at) | _SMALL == _TRUE:
        return 1
    if end - at == 5 and half_at(at) | _SMALL == _FALSE and byte_at(at + 4) | 32 == 101:
        return 0
    return -1


@njit(forceinline=True)
def _read_cell(at, end):
    """(number, whether the cell is one or is empty); NaN if it is empty."""
    if at == end:
        return np.nan, True
    value, behind = number(at)
    if behind == end and behind > at and abs(value) < np.inf:
        return value, True
    return _read_other(at, end)


@njit(cache=True, nogil=True, error_model="numpy")
def _read_other(at, end):
    """`_read_cell` of a cell that is not just a number."""
    at = _skip_blanks(at, end)
    end = _drop_blanks(at, end)
    value, behind = number(at)
    if behind == end and behind > at:
        return value, bool(np.isfinite(value))
    return np.nan, at == end or _says_missing(at, end)


@njit(cache=True, nogil=True, error_model="numpy")
def _whole_text(at, end, spare):
    """(start, stop) of a whole number's digits, without what can be written differently: +7, 007 and 7.0 are 7.

    They stand in the cell itself or, written anew, at `spare`. Both are equal if the cell is not a whole number.
    """
    at = _skip_blanks(at, end)
    end = _drop_blanks(at, end)
    minus = byte_at(at) == _MINUS
    first = at + (minus or byte_at(at) == _PLUS)
    start = first
    while start < end and byte_at(start) == _ZERO:
        start += 1
    stop = start
    while stop < end and 48 <= byte_at(stop) <= 57:
        stop += 1
    if stop == end and stop > start and (not minus or start == first):
        return start - minus, stop
    value, behind = number(at)
    if behind != end or behind == at or not abs(value) < _WHOLE_LIMIT or value != np.floor(value):
        return at, at
    stop = spare
    if value < 0:
        put_byte(stop, _MINUS)
        stop += 1
    return spare, put_whole(stop, np.uint64(abs(value)))


@njit(forceinline=True)
def _value_text(role, at, end, spare):
    """(start, stop) of what is hashed of a category's cell: the cell, or how such a value is always written."""
    if role == FLAG:
        truth = _truth(at, end)
        if truth >= 0:
            at = address_of(_TRUE_TEXT) if truth else address_of(_FALSE_TEXT)
            end = at + 5 - truth
    elif role == CODE:
        start, stop = _whole_text(at, end, spare)
        if start < stop:
            return start, stop
        at = _skip_blanks(at, end)
        end = _drop_blanks(at, end)
        if _says_missing(at, end):
            end = at
    return at, end


@njit(forceinline=True)
def _hash(exact, at, length, seed):
    if exact:
        return id64(at, length, seed)
    return np.uint64(murmur3(at, length, np.uint32(seed)))


@njit(forceinline=True)
def _hash_eight(at, seed):
    """`_hash` of eight bytes, which is how long many ids are."""
    word = word_at(at)
    h = mix_word(mix_word(np.uint32(seed), np.uint32(word)), np.uint32(word >> np.uint64(32)))
    return np.uint64(mix_end(h, np.uint32(0), 8))


@njit(forceinline=True)
def _is_word(byte):
    return 97 <= byte <= 122 or 48 <= byte <= 57 or byte == 95 or byte >= 128


# --- all cells of a sheet -------------------------------------------------------------------------------------------


LOOKS = 4


@njit(cache=True, nogil=True, error_model="numpy")
def look(columns, c, n, numbers, counts):
    """For the fit: the numbers of a column, NaN where there is none; gives the first cell that is not one, or -1.

    Counts: numbers, truths, other cells that are not missing, and the blank-separated words of both.
    """
    base, starts, stops, step = columns[c, BASE], columns[c, STARTS], columns[c, STOPS], 4 * columns[c, STRIDE]
    counts[:] = 0
    first = -1
    for row in range(n):
        start = base + np.int64(half_at(starts + row * step))
        stop = base + np.int64(half_at(stops + row * step))
        value, fine = _read_cell(start, stop)
        numbers[row] = value
        if fine:
            counts[0] += not np.isnan(value)
            continue
        first = row if first < 0 else first
        truth = _truth(start, stop) >= 0
        counts[1] += truth
        counts[2] += not truth
        blank = True
        for place in range(start, stop):
            now = byte_at(place) <= _BLANK
            counts[3] += blank and not now
            blank = now
    return first


@njit(cache=True, nogil=True, error_model="numpy")
def read(columns, roles, number_rows, n, positive, positive_number, labels_needed, numbers, labels, weights, wrong):
    """Read the cells that must be numbers. Row r is bad if wrong[r] is not 0 then: 16 * column + what.

    A column with the role 0 is left as it is.
    """
    for c in range(roles.size):
        role = roles[c]
        if role < BINS or role == TEXT:
            continue
        base, starts, stops, step = columns[c, BASE], columns[c, STARTS], columns[c, STOPS], 4 * columns[c, STRIDE]
        for row in range(n):
            at = base + np.int64(half_at(starts + row * step))
            end = base + np.int64(half_at(stops + row * step))
            value, fine = _read_cell(at, end)
            what = 0
            if role <= NUMERIC:
                if fine:
                    numbers[number_rows[c], row] = value
                else:
                    what = NOT_NUMBER
            elif role == WEIGHT:
                weights[row] = value
                if not 0 <= value <= LARGEST_WEIGHT:
                    what = NOT_WEIGHT
            else:
                at = _skip_blanks(at, end)
                end = _drop_blanks(at, end)
                if at == end or (role != LABEL_TEXT and fine and np.isnan(value)):
                    what = NO_LABEL
                elif role == LABEL_TEXT:
                    same = end - at == positive.size
                    if same:
                        for k in range(positive.size):
                            same = same and byte_at(at + k) == positive[k]
                    value = 1.0 if same or (fine and value == positive_number) else -1.0
                elif fine:
                    if not abs(value) <= LARGEST_VALUE:
                        what = TOO_LARGE
                else:
                    truth = _truth(at, end)
                    value = float(truth)
                    if truth < 0 or role == LABEL_NUMBER:
                        what = NOT_LABEL
                if what and not labels_needed:
                    value, what = np.nan, 0
                labels[row] = value
            if what and wrong[row] == 0:
                wrong[row] = 16 * c + what


@njit(cache=True, nogil=True, error_model="numpy")
def fill(
    columns, roles, seeds, missing, edge_from, edges, bin_from, bin_hashes, centres, scales, number_rows, numbers,
    rows, exact, slot_of, value_rows, word_rows, slots, values,
):  # fmt: skip
    """Fill slots[slot, i] with the hash of the feature (or of the missing cell) of row rows[i].

    values[value_rows[slot], i] is the feature's value, 0 if there is none; where value_rows is -1 all are 1. Slots with
    word_rows[slot] >= 0 are left alone.
    """
    for first in range(0, rows.size, TILE):
        some = rows[first : first + TILE]
        for c in range(roles.size):
            role, s, seed = roles[c], slot_of[c], seeds[c]
            if s < 0 or word_rows[s] >= 0:
                continue
            slot = slots[s, first : first + TILE]
            if columns[c, CODES]:
                _look_up(columns[c], some, exact, missing[c], slot)
            elif role == CATEGORY:
                _hash_cells(columns[c], some, exact, seed, slot)
            elif role in (FLAG, CODE):
                _hash_values(columns[c], some, exact, role, seed, slot)
            elif role == NUMERIC:
                value = values[value_rows[s], first : first + TILE]
                _scale(numbers[number_rows[c]], some, centres[c], scales[c], seed, missing[c], slot, value)
            else:
                hashes = bin_hashes[bin_from[c] : bin_from[c + 1]]
                _find_bins(numbers[number_rows[c]], some, edges[edge_from[c] : edge_from[c + 1]], hashes, slot)
                if role == WHOLE:
                    slot, value = slots[s + 1, first : first + TILE], values[value_rows[s + 1], first : first + TILE]
                    _hash_whole(columns[c], some, numbers[number_rows[c]], exact, seed, slot, value)


@njit(cache=True, nogil=True, error_model="numpy")
def _look_up(column, rows, exact, missing, slot):
    codes, lookup, valid = column[CODES], column[LOOKUP], column[VALID]
    for i in range(rows.size):
        place = np.int64(half_at(codes + 4 * rows[i]))
        bit = column[FIRST_BIT] + rows[i]
        if valid and not (byte_at(valid + (bit >> 3)) >> (bit & 7)) & 1:
            slot[i] = missing
        elif exact:
            slot[i] = word_at(lookup + 8 * place)
        else:
            slot[i] = half_at(lookup + 4 * place)


@njit(cache=True, nogil=True, error_model="numpy")
def _hash_cells(column, rows, exact, seed, slot):
    base, starts, stops, step = column[BASE], column[STARTS], column[STOPS], 4 * column[STRIDE]
    for i in range(rows.size):
        at = base + np.int64(half_at(starts + rows[i] * step))
        end = base + np.int64(half_at(stops + rows[i] * step))
        if end - at == 8 and not exact:
            slot[i] = _hash_eight(at, seed)
        else:
            slot[i] = _hash(exact, at, end - at, seed)


@njit(cache=True, nogil=True, error_model="numpy")
def _hash_values(column, rows, exact, role, seed, slot):
    base, starts, stops, step = column[BASE], column[STARTS], column[STOPS], 4 * column[STRIDE]
    spare = np.empty(SPARE, np.uint8)
    for i in range(rows.size):
        at = base + np.int64(half_at(starts + rows[i] * step))
        end = base + np.int64(half_at(stops + rows[i] * step))
        start, stop = _value_text(role, at, end, address_of(spare))
        slot[i] = _hash(exact, start, stop - start, seed)


@njit(cache=True, nogil=True, error_model="numpy")
def _hash_whole(column, rows, numbers, exact, seed, slot, value):
    base, starts, stops, step = column[BASE], column[STARTS], column[STOPS], 4 * column[STRIDE]
    spare = np.empty(SPARE, np.uint8)
    for i in range(rows.size):
        at = base + np.int64(half_at(starts + rows[i] * step))
        end = base + np.int64(half_at(stops + rows[i] * step))
        start, stop = at, at
        if not np.isnan(numbers[rows[i]]):
            start, stop = _whole_text(at, end, address_of(spare))
        slot[i] = _hash(exact, start, stop - start, seed)
        value[i] = 1.0 if start < stop else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(numbers, rows, centre, scale, seed, missing, slot, value):
    for i in range(rows.size):
        x = numbers[rows[i]]
        slot[i] = missing if np.isnan(x) else seed
        value[i] = 1.0 if np.isnan(x) else min(max((x - centre) / scale, -CLIP), CLIP)


@njit(cache=True, nogil=True, error_model="numpy")
def _find_bins(numbers, rows, edges, hashes, slot):
    """Edges come in eights, filled up with infinity; the hash of a missing number stands behind those of the bins."""
    start = address_of(edges)
    for i in range(rows.size):
        x = numbers[rows[i]]
        first, size = 0, edges.size
        while size > 64:
            half = (size >> 4) << 3
            if edges[first + half - 1] <= x:
                first += half
                size -= half
            else:
                size = half
        below = first
        for k in range(first, first + size, 8):
            below += _at_most(start + 8 * k, x)
        slot[i] = hashes[below + (hashes.size - 1) * _is_nan(x)]


# Which bin a number is in, or whether it is missing, cannot be predicted; so neither may be found by branches, and
# these two count bits, because LLVM would make a branch of whatever it sees through.


@intrinsic
def _at_most(typingctx, address, x):
    """How many of the eight numbers at an address are at most x."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), 8)
        numbers = builder.load(builder.inttoptr(args[0], vector.as_pointer()))
        numbers.align = 8
        found = builder.fcmp_ordered("<=", numbers, _splat(builder, vector, args[1]))
        return builder.zext(builder.ctpop(builder.bitcast(found, ir.IntType(8))), ir.IntType(64))

    return types.int64(types.int64, types.float64), codegen


@intrinsic
def _is_nan(typingctx, x):
    """1 or 0."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(ir.DoubleType(), 8)
        every = _splat(builder, vector, args[0])
        found = builder.ctpop(builder.bitcast(builder.fcmp_unordered("uno", every, every), ir.IntType(8)))
        return builder.zext(builder.lshr(found, ir.Constant(ir.IntType(8), 3)), ir.IntType(64))

    return types.int64(types.float64), codegen


def _splat(builder, vector, x):
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, x, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8))


@njit(cache=True, nogil=True, error_model="numpy")
def fill_words(
    columns, roles, seeds, rows, exact, slot_of, word_rows, lists, word_ends, words, word_places, seen, stamps, wrong
):
    """For the slots with several features: those of row rows[i] are words[word_ends[t, i] : word_ends[t, i + 1]], each
    once, where t = word_rows[slot]; word_places has where each ends in the text.

    `seen` and `stamps` are room for a table of the words of one cell.
    """
    n_words = 0
    stamp = 0
    last = seen.size - 1
    spare = np.empty(SPARE, np.uint8)
    for c in range(roles.size):
        s = slot_of[c]
        if s < 0 or word_rows[s] < 0:
            continue
        t = word_rows[s]
        word_ends[t, 0] = n_words
        base, starts, stops, step = columns[c, BASE], columns[c, STARTS], columns[c, STOPS], 4 * columns[c, STRIDE]
        for i in range(rows.size):
            at = base + np.int64(half_at(starts + rows[i] * step))
            end = base + np.int64(half_at(stops + rows[i] * step))
            first = n_words
            stamp += 1
            while at < end or (lists[c] and n_words == first):
                if lists[c]:
                    start = at
                    while at < end and byte_at(at) != PART:
                        at += 1
                    start, stop = _value_text(roles[c], start, at, address_of(spare))
                else:
                    while at < end and not _is_word(byte_at(at)):
                        at += 1
                    if at == end:
                        break
                    start = at
                    while at < end and _is_word(byte_at(at)):
                        at += 1
                    stop = at
                place = at
                key = _hash(exact, start, stop - start, seeds[c])
                at += lists[c]
                k = np.int64(key & np.uint64(last))
                while stamps[k] == stamp and seen[k] != key:
                    k = (k + 1) & last
                if stamps[k] == stamp:
                    continue
                stamps[k] = stamp
                seen[k] = key
                words[n_words] = key
                word_places[n_words] = place - base
                n_words += 1
                if n_words - first > MOST_FEATURES:
                    wrong[rows[i]] = 16 * c + TOO_MANY
                    n_words = first
                    break
            word_ends[t, i + 1] = n_words


@njit(cache=True, nogil=True, error_model="numpy")
def room_for_words(columns, c, n, parts):
    """(no more words than these in a column's cells, no more in one of them); `parts`: the cells are lists."""
    starts, stops, step = columns[c, STARTS], columns[c, STOPS], 4 * columns[c, STRIDE]
    total = 0
    longest = 0
    for row in range(n):
        size = np.int64(half_at(stops + row * step)) - np.int64(half_at(starts + row * step))
        most = size + 1 if parts else (size + 1) >> 1
        total += most
        longest = max(longest, most)
    return total, longest


@njit(cache=True, nogil=True, error_model="numpy")
def lower(data, starts, stops, offset, stride, n, odd):
    """Make the text of a column's cells lower-case, in place; odd[row] tells which cells have more than ASCII."""
    base = address_of(data)
    for row in range(n):
        at = base + np.int64(starts[offset + row * stride])
        end = base + np.int64(stops[offset + row * stride])
        every = 0
        for place in range(at, end):
            byte = byte_at(place)
            every |= byte
            if 65 <= byte <= 90:
                put_byte(place, byte + 32)
        odd[row] = every >= 128


# --- rows -----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def transpose(slots, mask, indices):
    """Rows of slots that all have a feature. Some rows at a time, so that what is written stays in the cache."""
    width, n = slots.shape
    for first in range(0, n, 128):
        last = min(first + 128, n)
        for s in range(width):
            for i in range(first, last):
                indices[i * width + s] = slots[s, i] & mask


@njit(cache=True, nogil=True, error_model="numpy")
def count(n, value_rows, values, word_rows, word_ends, pairs, rows, wrong):
    """(features in all, the most a row has before crosses); rows that would have too many are marked as wrong.

    pairs: (first slot, behind the last) of the one and the other column that are crossed.
    """
    width = value_rows.size
    ends = np.zeros(width + 1, np.int64)
    total = 0
    longest = 0
    for i in range(n):
        k = 0
        for s in range(width):
            if word_rows[s] >= 0:
                k += word_ends[word_rows[s], i + 1] - word_ends[word_rows[s], i]
            else:
                k += value_rows[s] < 0 or values[value_rows[s], i] != 0.0
            ends[s + 1] = k
        longest = max(longest, k)
        crossed = 0
        for p in range(pairs.shape[0]):
            crossed += (ends[pairs[p, 1]] - ends[pairs[p, 0]]) * (ends[pairs[p, 3]] - ends[pairs[p, 2]])
            if crossed > MOST_PAIRS:
                break
        if k > MOST_FEATURES or crossed > MOST_PAIRS:
            wrong[rows[i]] = TOO_MANY
        total += k + crossed
    return total, longest


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(
    slots, value_rows, values, word_rows, word_ends, words, pairs, longest, mask, exact,
    indptr, indices, out, origins,
):  # fmt: skip
    """Write the rows, each with its crosses behind its other features.

    origins, unless it is empty: for the two halves of each feature (the second -1 unless it is a cross) the slot, and
    which word.
    """
    width, n = slots.shape
    keys, sizes = np.empty(longest, np.uint64), np.empty(longest)
    places = np.empty((longest, 2), np.int32)
    ends = np.zeros(width + 1, np.int64)
    k = 0
    indptr[0] = 0
    for i in range(n):
        size = 0
        for s in range(width):
            value = 1.0 if value_rows[s] < 0 else values[value_rows[s], i]
            if word_rows[s] >= 0:
                for w in range(word_ends[word_rows[s], i], word_ends[word_rows[s], i + 1]):
                    keys[size] = words[w]
                    sizes[size] = value
                    places[size, 0] = s
                    places[size, 1] = w
                    size += 1
            elif value != 0.0:
                keys[size] = slots[s, i]
                sizes[size] = value
                places[size, 0] = s
                places[size, 1] = 0
                size += 1
            ends[s + 1] = size
        for m in range(size):
            indices[k] = keys[m] & mask
            out[k] = sizes[m]
            if origins.size:
                origins[k, 0], origins[k, 1], origins[k, 2], origins[k, 3] = places[m, 0], places[m, 1], -1, 0
            k += 1
        for p in range(pairs.shape[0]):
            for a in range(ends[pairs[p, 0]], ends[pairs[p, 1]]):
                for b in range(ends[pairs[p, 2]], ends[pairs[p, 3]]):
                    if exact:
                        key = cross64(keys[a], keys[b])
                    else:
                        key = np.uint64(cross(np.uint32(keys[a]), np.uint32(keys[b])))
                    indices[k] = key & mask
                    out[k] = sizes[a] * sizes[b]
                    if origins.size:
                        origins[k, 0], origins[k, 1], origins[k, 2], origins[k, 3] = (
                            places[a, 0], places[a, 1], places[b, 0], places[b, 1],
                        )  # fmt: skip
                    k += 1
        indptr[i + 1] = k
    return k


# --- names ----------------------------------------------------------------------------------------------------------

_RECENT = 1 << 12


@njit(cache=True, nogil=True, error_model="numpy")
def nameless(indices, known, found):
    """The places of features that have no name yet, most of them only once; how many there are."""
    recent = np.zeros(_RECENT, np.uint64)
    count = 0
    for k in range(indices.size):
        index = np.uint64(indices[k])
        if (known[index >> np.uint64(3)] >> (index & np.uint64(7))) & 1:
            continue
        place = index & np.uint64(_RECENT - 1)
        if recent[place] != index + np.uint64(1):
            recent[place] = index + np.uint64(1)
            found[count] = k
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def numberless(ids, table, found):
    """The places of features whose id has no number yet, most of them only once; how many there are."""
    recent = np.zeros(_RECENT, np.uint64)
    address, last = address_of(table), table.size - 1
    count = 0
    for k in range(ids.size):
        place = ids[k] & np.uint64(_RECENT - 1)
        if recent[place] != ids[k] and not holds(address, last, ids[k]):
            recent[place] = ids[k]
            found[count] = k
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def name_places(
    columns, roles, slot_columns, slot_firsts, number_rows, numbers, edge_from, edges, bin_from, prefixes, bin_names,
    word_rows, word_places, lists, rows, found, origins, spans, spare,
):  # fmt: skip
    """For features found[k] = (row number i, origin) the spans of their names' parts.

    Those of prefixes are places in the plan's text; those of names are ADDRESSES, to be copied from before the sheet
    goes. Numbers that had to be written anew stand in `spare`, SPARE bytes each.
    """
    for k in range(found.size):
        i = found[k]
        for half in range(2):
            s = origins[k, 2 * half]
            to = 4 * half
            spans[k, to : to + 4] = -1
            if s < 0:
                continue
            c = slot_columns[s]
            role, row = roles[c], rows[i]
            spans[k, to], spans[k, to + 1] = prefixes[c, 0], prefixes[c, 1]
            base, starts, stops, step = columns[c, BASE], columns[c, STARTS], columns[c, STOPS], 4 * columns[c, STRIDE]
            if columns[c, CODES]:
                valid, bit = columns[c, VALID], columns[c, FIRST_BIT] + row
                if valid and not (byte_at(valid + (bit >> 3)) >> (bit & 7)) & 1:
                    spans[k, to + 2] = spans[k, to + 3] = 0
                    continue
                row = np.int64(half_at(columns[c, CODES] + 4 * row))
            if number_rows[c] >= 0 and s == slot_firsts[c]:
                x = numbers[number_rows[c], row]
                if np.isnan(x):
                    spans[k, to + 2] = spans[k, to + 3] = 0
                elif role != NUMERIC:
                    edge = edge_from[c]
                    while edge < edge_from[c + 1] and edges[edge] <= x:
                        edge += 1
                    name = bin_from[c] + edge - edge_from[c]
                    spans[k, to], spans[k, to + 1] = bin_names[name], bin_names[name + 1]
                continue
            at = base + np.int64(half_at(starts + row * step))
            end = base + np.int64(half_at(stops + row * step))
            if word_rows[s] >= 0:
                end = base + np.int64(word_places[origins[k, 2 * half + 1]])
                begin = at
                at = end
                if lists[c]:
                    while at > begin and byte_at(at - 1) != PART:
                        at -= 1
                else:
                    while at > begin and _is_word(byte_at(at - 1)):
                        at -= 1
            written = address_of(spare) + SPARE * (2 * k + half)
            if role == WHOLE:
                at, end = _value_text(CODE, at, end, written)
            elif role != TEXT:
                at, end = _value_text(role, at, end, written)
            spans[k, to + 2], spans[k, to + 3] = at, end


@njit(cache=True, nogil=True, error_model="numpy")
def copy_names(spans, text):
    """Copy the names at addresses into a text, and turn the addresses into places in it."""
    k = 0
    for f in range(spans.shape[0]):
        for half in range(2):
            start, stop = spans[f, 4 * half + 2], spans[f, 4 * half + 3]
            if start <= 0:
                continue
            spans[f, 4 * half + 2] = k
            for at in range(start, stop):
                text[k] = byte_at(at)
                k += 1
            spans[f, 4 * half + 3] = k


@njit(cache=True, nogil=True, error_model="numpy")
def cell_text(columns, c, row, most):
    """The bytes of a cell, no more than `most` of them."""
    start = np.int64(half_at(columns[c, STARTS] + 4 * columns[c, STRIDE] * row))
    stop = np.int64(half_at(columns[c, STOPS] + 4 * columns[c, STRIDE] * row))
    text = np.empty(min(stop - start, most), np.uint8)
    for k in range(text.size):
        text[k] = byte_at(columns[c, BASE] + start + k)
    return text
