"""Kernels that read numbers: all cells of a column, for the fit, and labels, weights and numbers of a block's rows."""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_VALUE, LARGEST_WEIGHT, address_of, load_uint8
from bayou.recipe.hashing import id64
from bayou.sources.table import cells
from bayou.sources.table.dates import read_date, seconds_of

# The kinds of cells:
#     NOTHING   a missing value
#     NUMBER    a number
#     TRUTH     a word for true or false
#     POINT     a date or time
#     OTHER     anything else
NOTHING, NUMBER, TRUTH, POINT, OTHER = range(5)
# Number of odd cells that are remembered per column, the first ones.
ODD = 3


@kernel
def look(columns, c, n, manner, numbers, keys, looks):
    """Classify each cell of a column for the fit: write its kind, a hash of its text, and its number or time.

    Return the number of blank-separated words in all cells that are neither numbers nor missing.
    """
    text = cells.column_text(columns[c])
    address = address_of(manner)
    words = 0
    for row in range(n):
        start, stop = cells.cell_at(text, row)
        value, fine = cells.read_cell(start, stop, address)
        keys[row] = id64(start, stop - start, np.uint64(0))
        if fine:
            looks[row] = NOTHING if np.isnan(value) else NUMBER
        else:
            value = _read_date(start, stop)
            looks[row] = POINT if value == value else TRUTH if cells.parse_bool(start, stop) >= 0 else OTHER
            blank = True
            for place in range(start, stop):
                now = load_uint8(place) <= cells.BLANK
                words += blank and not now
                blank = now
        numbers[row] = value
    return words


@kernel
def _read_date(at, end):
    at = cells.skip_blanks(at, end)
    return read_date(at, cells.drop_blanks(at, end))


@kernel
def read(columns, roles, plan, numbers, labels, weights, wrong, odd):
    """Read the cells that must be numbers. Row r is bad if wrong[r] is then nonzero: 16 * column + reason.

    A column with the role 0 is skipped. Invalid numbers and dates count as missing: odd[c] holds their count and the
    first ODD rows.
    """
    positive, positive_number = plan.positive, plan.positive_number
    labels_needed, number_rows = plan.labels_needed, plan.number_rows
    manner = address_of(plan.manner)
    for c in range(roles.size):
        role = roles[c]
        if role < cells.BINS or role == cells.TEXT:
            continue
        text = cells.column_text(columns[c])
        for row in range(wrong.size):
            at, end = cells.cell_at(text, row)
            value, fine = cells.read_cell(at, end, manner)
            what = 0
            # A feature's number or date, the weight of the row, or its label.
            if role <= cells.DATE:
                if role == cells.DATE:
                    missing = fine and np.isnan(value)
                    value = seconds_of(value) if fine else _read_date(at, end)
                    fine = missing or not np.isnan(value)
                numbers[number_rows[c], row] = value if fine else np.nan
                if not fine:
                    if odd[c, 0] < ODD:
                        odd[c, odd[c, 0] + 1] = row
                    odd[c, 0] += 1
            elif role == cells.WEIGHT:
                weights[row] = value
                if not 0 <= value <= LARGEST_WEIGHT:
                    what = cells.NOT_WEIGHT
            else:
                at = cells.skip_blanks(at, end)
                end = cells.drop_blanks(at, end)
                if at == end or (role != cells.LABEL_TEXT and fine and np.isnan(value)):
                    what = cells.NO_LABEL
                elif role == cells.LABEL_TEXT:
                    same = end - at == positive.size
                    if same:
                        for k in range(positive.size):
                            same = same and load_uint8(at + k) == positive[k]
                    value = 1.0 if same or (fine and value == positive_number) else -1.0
                elif role == cells.LABEL_CLASS and not fine:  # as in `labels.key_of`
                    value = 2.0**60 + 256.0 * np.float64(id64(at, end - at, np.uint64(0)) >> np.uint64(12))
                elif fine:
                    if not abs(value) <= LARGEST_VALUE:
                        what = cells.TOO_LARGE
                else:
                    truth = cells.parse_bool(at, end)
                    value = float(truth)
                    if truth < 0 or role == cells.LABEL_NUMBER:
                        what = cells.NOT_LABEL
                if what and not labels_needed:
                    value, what = np.nan, 0
                labels[row] = value
            if what and wrong[row] == 0:
                wrong[row] = 16 * c + what
