"""Kernels that turn cells into features, column by column, for fitted columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.edges import at_most, is_nan
from bayou.kernels.parse_text import address_of, load_uint8, load_uint32, load_uint64
from bayou.recipe.hashing import hash_text
from bayou.sources.table import cells
from bayou.sources.table.binning import SLOPE
from bayou.sources.table.dates import part_of

# Standardized numbers are clipped here, so that one outlier alone does not move a weight.
CLIP = 5.0
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
    exact, seeds, missing, centres, scales = plan.exact, plan.seeds, plan.missing, plan.centres, plan.scales
    slot_columns, slot_roles, date_parts = plan.slot_columns, plan.slot_roles, plan.date_parts
    number_rows, value_rows, word_rows = plan.number_rows, plan.value_rows, slots.word_rows
    value_from, hashes, cut_from, cuts = plan.value_from, plan.hashes, plan.cut_from, plan.cuts
    keys, values, manner, none = slots.keys, slots.values, address_of(plan.manner), empty(0, np.float64)
    for first in range(0, rows.size, TILE):
        some = rows[first : first + TILE]
        for s in range(slot_columns.size):
            if word_rows[s] >= 0:
                continue
            c, role = slot_columns[s], slot_roles[s]
            seed, slot = seeds[c], keys[s, first : first + TILE]
            number = numbers[number_rows[c]] if number_rows[c] >= 0 else none
            value = values[value_rows[s], first : first + TILE] if value_rows[s] >= 0 else none
            entries, cut = hashes[value_from[s] : value_from[s + 1]], cuts[cut_from[s] : cut_from[s + 1]]
            if columns[c, cells.CODES]:
                _look_up(columns[c], some, exact, missing[c], slot)
            elif role == cells.CATEGORY:
                _hash_cells(columns[c], some, exact, seed, slot)
            elif role == cells.NUMERIC:
                _scale(number, some, centres[c], scales[c], seed, missing[c], slot, value)
            elif role == cells.BINS:
                _find_bins(number, some, cut, entries, slot)
            elif role == cells.DATE:
                _find_parts(number, some, date_parts[s], entries, slot)
            elif role == cells.SLOPE:
                levels, slopes = plan.levels[cut_from[s] :], plan.slopes[cut_from[s] :]
                own = entries[0] if entries.size else seed
                _slope(number, some, cut, levels, slopes, own, slot, value)
            else:
                _hash_texts(columns[c], some, number, exact, role, seed, manner, slot, value)


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
            slot[i] = hash_text(exact, at, end - at, seed)


@kernel
def _hash_texts(column, rows, numbers, exact, role, seed, manner, slot, value):
    """Hash the text of each cell's feature; `value`, unless empty, is 0 where there is no text."""
    text = cells.column_text(column)
    spare = empty(cells.CELL_PADDING_BYTES, np.uint8)
    for i in range(rows.size):
        at, end = cells.cell_at(text, rows[i]) if role != cells.VALUES else (0, 0)
        x = numbers[rows[i]] if numbers.size else 0.0
        start, stop = cells.feature_text(role, at, end, x, address_of(spare), manner)
        slot[i] = hash_text(exact, start, stop - start, seed)
        if value.size:
            value[i] = start < stop


@kernel
def _scale(numbers, rows, centre, scale, seed, missing, slot, value):
    for i in range(rows.size):
        x = numbers[rows[i]]
        slot[i] = missing if np.isnan(x) else seed
        value[i] = 1.0 if np.isnan(x) else min(max((x - centre) / scale, -CLIP), CLIP)


@kernel
def _find_parts(numbers, rows, part, hashes, slot):
    """Look up the hash of each date's part in `hashes`, where that of a missing date comes last."""
    for i in range(rows.size):
        x = numbers[rows[i]]
        slot[i] = hashes[hashes.size - 1 if np.isnan(x) else part_of(part, x)]


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
