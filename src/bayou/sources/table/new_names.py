"""Kernels that find the names of features that have none yet, in the cells they were made from."""

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import address_of, load_uint8, load_uint32
from bayou.recipe.numbering import is_new
from bayou.sources.table import cells
from bayou.sources.table.dates import part_of

# Size of the table of recent features, by which most repeats are found.
_RECENT = 1 << 12


@kernel
def unnamed(keys, reported, positions):
    """Write where `keys` has new features (`is_new`) to `positions`, with few repeats, and return their number."""
    recent = zeros(_RECENT, np.uint64)
    address, size, exact = address_of(reported), reported.size, reported.itemsize == 8
    count = 0
    for k in range(keys.size):
        key = np.uint64(keys[k])
        if not is_new(address, size, exact, key):
            continue
        place = key & np.uint64(_RECENT - 1)
        if recent[place] != key + np.uint64(1):
            recent[place] = key + np.uint64(1)
            positions[count] = k
            count += 1
    return count


@kernel
def name_places(columns, plan, numbers, lists, slots, rows, origins, spans, spare):
    """Fill `spans` with where the names of features begin and end, for features of row rows[k] and origins[k].

    Prefixes are offsets in the plan's text; names are ADDRESSES, valid only while the block is. Numbers that had to be
    written in canonical form are in `spare`, CELL_PADDING_BYTES bytes each.

        origins[k]       (slot, word) of the feature; for a cross one such pair per half, -1 where there is none
        spans[k]         for each half: start and stop of its prefix, start and stop of its name, -1 where there is none
    """
    slot_columns, slot_roles, number_rows = plan.slot_columns, plan.slot_roles, plan.number_rows
    date_parts, manner = plan.date_parts, address_of(plan.manner)
    prefixes, names, value_from, cut_from, cuts = plan.prefixes, plan.names, plan.value_from, plan.cut_from, plan.cuts
    word_rows, word_places = slots.word_rows, slots.word_places
    for k in range(rows.size):
        for half in range(origins.shape[1] // 2):
            s = origins[k, 2 * half]
            to = 4 * half
            spans[k, to : to + 4] = -1
            if s < 0:
                continue
            # Phase 1: the column, and the row of its dictionary if it has one.
            c, role, row = slot_columns[s], slot_roles[s], rows[k]
            spans[k, to], spans[k, to + 1] = prefixes[c, 0], prefixes[c, 1]
            text = cells.column_text(columns[c])
            if columns[c, cells.CODES]:
                valid, bit = columns[c, cells.VALID], columns[c, cells.VALID_OFFSET] + row
                if valid and not (load_uint8(valid + (bit >> 3)) >> (bit & 7)) & 1:
                    spans[k, to + 2] = spans[k, to + 3] = 0
                    continue
                row = np.int64(load_uint32(columns[c, cells.CODES] + 4 * row))
            # Phase 2: names that are made from a number: bins, parts of dates, values.
            written = address_of(spare) + cells.CELL_PADDING_BYTES * (origins.shape[1] // 2 * k + half)
            x = numbers[number_rows[c], row] if number_rows[c] >= 0 else 0.0
            if role in (cells.BINS, cells.DATE):
                name = value_from[s]
                if np.isnan(x):
                    name = value_from[s + 1] - 1
                elif role == cells.DATE:
                    name += part_of(date_parts[s], x)
                else:
                    for cut in range(cut_from[s], cut_from[s + 1]):
                        name += cuts[cut] <= x
                spans[k, to], spans[k, to + 1] = names[name], names[name + 1]
                continue
            if role == cells.SLOPE or role == cells.NUMERIC:
                if role == cells.NUMERIC and np.isnan(x):
                    spans[k, to + 2] = spans[k, to + 3] = 0
                if value_from[s + 1] > value_from[s]:  # others are named like the column
                    spans[k, to], spans[k, to + 1] = names[value_from[s]], names[value_from[s] + 1]
                continue
            # Phase 3: names taken from the cell: all of it, or one word.
            at, end = cells.cell_at(text, row) if role != cells.VALUES else (0, 0)
            if word_rows[s] >= 0:
                end = columns[c, cells.CELL_TEXT] + np.int64(word_places[origins[k, 2 * half + 1]])
                begin = at
                at = end
                if lists[c]:
                    while at > begin and load_uint8(at - 1) != cells.PART:
                        at -= 1
                else:
                    while at > begin and cells.is_word(load_uint8(at - 1)):
                        at -= 1
            if role != cells.TEXT:
                at, end = cells.feature_text(role, at, end, x, written, manner)
            spans[k, to + 2], spans[k, to + 3] = at, end


@kernel
def copy_names(spans, text):
    """Copy the names from their addresses into `text`, and replace the addresses by offsets in it."""
    k = 0
    for f in range(spans.shape[0]):
        for half in range(spans.shape[1] // 4):
            start, stop = spans[f, 4 * half + 2], spans[f, 4 * half + 3]
            if start <= 0:
                continue
            spans[f, 4 * half + 2] = k
            for at in range(start, stop):
                text[k] = load_uint8(at)
                k += 1
            spans[f, 4 * half + 3] = k
