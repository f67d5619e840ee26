"""Kernels that turn cells into features, column by column, for fitted columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.edges import at_most, is_nan
from bayou.kernels.parse_text import address_of, load_uint8, load_uint32, load_uint64
from bayou.sources.table import cells
from bayou.sources.table.dates import DATE_VALUES, part_of

# Standardized numbers are clipped here, so that one outlier alone does not move a weight.
CLIP = 5.0
# Scale of slopes: a level of 1/2 maps to 0, and the variance over the rows it was fitted to is 1.
SLOPE = float(np.sqrt(3.0))
# Rows per tile, all columns of which are processed together: their text and features then stay in the L1 cache.
TILE = 64


class FeatureSlots(NamedTuple):
    """Features of a block's rows, stored column by column.

    In slot s, row i has the feature keys[s, i] with the value values[value_rows[s], i]. If t = word_rows[s] is not -1,
    it has several features instead: words[word_ends[t, i] : word_ends[t, i + 1]]; word_places holds the offset in the
    text at which each word ends.
    """

    keys: np.ndarray
    values: np.ndarray
    word_rows: np.ndarray
    word_ends: np.ndarray
    words: np.ndarray
    word_places: np.ndarray

    @classmethod
    def empty(cls, keys: np.ndarray, values: np.ndarray, word_rows: np.ndarray) -> FeatureSlots:
        """Return slots around the given arrays, with no words so far."""
        ends, places = np.empty((0, 0), np.int64), np.empty(0, np.uint32)
        return cls(keys, values, word_rows, ends, np.empty(0, keys.dtype), places)


@kernel
def fill(columns, plan, numbers, rows, slots):
    """Fill slots.keys[slot, i] with the hash of the feature (or of the missing cell) of row rows[i].

    slots.values[value_rows[slot], i] is the feature's value, 0 if there is none; where value_rows is -1 all values are
    1. Slots with word_rows[slot] >= 0 are left unchanged.
    """
    exact, roles, seeds, missing = plan.exact, plan.roles, plan.seeds, plan.missing
    centres, scales, slot_of = plan.centres, plan.scales, plan.slot_of
    number_rows, value_rows, word_rows = plan.number_rows, plan.value_rows, slots.word_rows
    edge_from, edges, bin_from, bin_hashes = plan.edge_from, plan.edges, plan.bin_from, plan.bin_hashes
    knot_from, knots, levels, slopes = plan.knot_from, plan.knots, plan.levels, plan.slopes
    date_parts, part_hashes = plan.date_parts, plan.part_hashes
    keys, values, manner = slots.keys, slots.values, address_of(plan.manner)
    for first in range(0, rows.size, TILE):
        some = rows[first : first + TILE]
        for c in range(roles.size):
            role, s, seed = roles[c], slot_of[c], seeds[c]
            if s < 0 or word_rows[s] >= 0:
                continue
            slot = keys[s, first : first + TILE]
            if columns[c, cells.CODES]:
                _look_up(columns[c], some, exact, missing[c], slot)
            elif role == cells.CATEGORY:
                _hash_cells(columns[c], some, exact, seed, slot)
            elif role in (cells.FLAG, cells.CODE):
                _hash_values(columns[c], some, exact, role, seed, manner, slot)
            elif role == cells.NUMERIC:
                value = values[value_rows[s], first : first + TILE]
                _scale(numbers[number_rows[c]], some, centres[c], scales[c], seed, missing[c], slot, value)
            elif role == cells.VALUES:
                _hash_numbers(numbers[number_rows[c]], some, exact, seed, missing[c], slot)
            elif role == cells.DATE:
                for k in range(date_parts.shape[1]):
                    if date_parts[c, k] >= 0:
                        slot = keys[s, first : first + TILE]
                        _find_parts(numbers[number_rows[c]], some, k, part_hashes[date_parts[c, k] :], slot)
                        s += 1
            else:
                hashes = bin_hashes[bin_from[c] : bin_from[c + 1]]
                _find_bins(numbers[number_rows[c]], some, edges[edge_from[c] : edge_from[c + 1]], hashes, slot)
                if role == cells.WHOLE:
                    slot, value = keys[s + 1, first : first + TILE], values[value_rows[s + 1], first : first + TILE]
                    _hash_whole(columns[c], some, numbers[number_rows[c]], exact, seed, slot, value)
            begin, end = knot_from[c], knot_from[c + 1]
            if begin < end:
                slot, value = keys[s + 1, first : first + TILE], values[value_rows[s + 1], first : first + TILE]
                level, steep = levels[begin:end], slopes[begin:end]
                _slope(numbers[number_rows[c]], some, knots[begin:end], level, steep, seed, slot, value)


@kernel
def _look_up(column, rows, exact, missing, slot):
    codes, lookup, valid = column[cells.CODES], column[cells.DICTIONARY_HASHES], column[cells.VALID]
    for i in range(rows.size):
        place = np.int64(load_uint32(codes + 4 * rows[i]))
        bit = column[cells.VALID_OFFSET] + rows[i]
        if valid and not (load_uint8(valid + (bit >> 3)) >> (bit & 7)) & 1:
            slot[i] = missing
        elif exact:
            slot[i] = load_uint64(lookup + 8 * place)
        else:
            slot[i] = load_uint32(lookup + 4 * place)


@kernel
def _hash_cells(column, rows, exact, seed, slot):
    text = cells.column_text(column)
    for i in range(rows.size):
        at, end = cells.cell_at(text, rows[i])
        if end - at == 8 and not exact:
            slot[i] = cells.hash_eight(at, seed)
        else:
            slot[i] = cells.hash_text(exact, at, end - at, seed)


@kernel
def _hash_values(column, rows, exact, role, seed, manner, slot):
    text = cells.column_text(column)
    spare = empty(cells.CELL_PADDING_BYTES, np.uint8)
    for i in range(rows.size):
        at, end = cells.cell_at(text, rows[i])
        start, stop = cells.value_text(role, at, end, address_of(spare), manner)
        slot[i] = cells.hash_text(exact, start, stop - start, seed)


@kernel
def _hash_whole(column, rows, numbers, exact, seed, slot, value):
    text = cells.column_text(column)
    spare = empty(cells.CELL_PADDING_BYTES, np.uint8)
    for i in range(rows.size):
        at, end = cells.cell_at(text, rows[i])
        start, stop = at, at
        if not np.isnan(numbers[rows[i]]):
            start, stop = cells.whole_text(at, end, address_of(spare))
            if start == stop and cells.is_whole(numbers[rows[i]]):  # not a plain number: 1,400
                start, stop = cells.number_text(numbers[rows[i]], address_of(spare))
        slot[i] = cells.hash_text(exact, start, stop - start, seed)
        value[i] = 1.0 if start < stop else 0.0


@kernel
def _scale(numbers, rows, centre, scale, seed, missing, slot, value):
    for i in range(rows.size):
        x = numbers[rows[i]]
        slot[i] = missing if np.isnan(x) else seed
        value[i] = 1.0 if np.isnan(x) else min(max((x - centre) / scale, -CLIP), CLIP)


@kernel
def _hash_numbers(numbers, rows, exact, seed, missing, slot):
    spare = empty(cells.CELL_PADDING_BYTES, np.uint8)
    for i in range(rows.size):
        x = numbers[rows[i]]
        if np.isnan(x):
            slot[i] = missing
        else:
            start, stop = cells.number_text(x, address_of(spare))
            slot[i] = cells.hash_text(exact, start, stop - start, seed)


@kernel
def _find_parts(numbers, rows, part, hashes, slot):
    """Look up the hash of each date's part in `hashes`, where that of a missing date comes last."""
    for i in range(rows.size):
        x = numbers[rows[i]]
        slot[i] = hashes[DATE_VALUES[part] if np.isnan(x) else part_of(part, x)]


@kernel
def _slope(numbers, rows, knots, levels, slopes, seed, slot, value):
    """Write the slope feature of each number: its interpolated level, centered and scaled; 0 if it is missing.

    Knots are padded with infinity to a multiple of 8, levels and slopes in parallel; the last slope is 0.
    """
    start = address_of(knots)
    for i in range(rows.size):
        x = numbers[rows[i]]
        below = 0
        for k in range(0, knots.size, 8):
            below += at_most(start + 8 * k, x)
        level = levels[0]
        if below:
            level = levels[below - 1] + (x - knots[below - 1]) * slopes[below - 1]
        slot[i] = seed
        value[i] = 0.0 if np.isnan(x) else SLOPE * (2.0 * level - 1.0)


@kernel
def _find_bins(numbers, rows, edges, hashes, slot):
    """Look up the hash of each number's bin. Edges are padded with infinity to a multiple of 8.

    The hash of a missing number comes after those of the bins.
    """
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
            below += at_most(start + 8 * k, x)
        slot[i] = hashes[below + (hashes.size - 1) * is_nan(x)]
