"""Cells that must be numbers: what the fit sees of a column, and the labels, weights and numbers of a block's rows."""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.scan import LARGEST_VALUE, LARGEST_WEIGHT, byte_at, half_at
from bayou.sources.hashing import id64
from bayou.sources.table.cells import (
    BASE,
    BINS,
    BLANK,
    LABEL_CLASS,
    LABEL_NUMBER,
    LABEL_TEXT,
    NO_LABEL,
    NOT_LABEL,
    NOT_NUMBER,
    NOT_WEIGHT,
    NUMERIC,
    STARTS,
    STOPS,
    STRIDE,
    TEXT,
    TOO_LARGE,
    WEIGHT,
    as_truth,
    drop_blanks,
    read_cell,
    skip_blanks,
)

# How many counts `look` gives.
LOOKS = 4


@kernel
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
        value, fine = read_cell(start, stop)
        numbers[row] = value
        if fine:
            counts[0] += not np.isnan(value)
            continue
        first = row if first < 0 else first
        truth = as_truth(start, stop) >= 0
        counts[1] += truth
        counts[2] += not truth
        blank = True
        for place in range(start, stop):
            now = byte_at(place) <= BLANK
            counts[3] += blank and not now
            blank = now
    return first


@kernel
def read(columns, roles, plan, numbers, labels, weights, wrong):
    """Read the cells that must be numbers. Row r is bad if wrong[r] is not 0 then: 16 * column + what.

    A column with the role 0 is left as it is.
    """
    positive, positive_number = plan.positive, plan.positive_number
    labels_needed, number_rows = plan.labels_needed, plan.number_rows
    for c in range(roles.size):
        role = roles[c]
        if role < BINS or role == TEXT:
            continue
        base, starts, stops, step = columns[c, BASE], columns[c, STARTS], columns[c, STOPS], 4 * columns[c, STRIDE]
        for row in range(wrong.size):
            at = base + np.int64(half_at(starts + row * step))
            end = base + np.int64(half_at(stops + row * step))
            value, fine = read_cell(at, end)
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
                at = skip_blanks(at, end)
                end = drop_blanks(at, end)
                if at == end or (role != LABEL_TEXT and fine and np.isnan(value)):
                    what = NO_LABEL
                elif role == LABEL_TEXT:
                    same = end - at == positive.size
                    if same:
                        for k in range(positive.size):
                            same = same and byte_at(at + k) == positive[k]
                    value = 1.0 if same or (fine and value == positive_number) else -1.0
                elif role == LABEL_CLASS and not fine:  # as `labels.key_of` has it
                    value = 2.0**60 + 256.0 * np.float64(id64(at, end - at, np.uint64(0)) >> np.uint64(12))
                elif fine:
                    if not abs(value) <= LARGEST_VALUE:
                        what = TOO_LARGE
                else:
                    truth = as_truth(at, end)
                    value = float(truth)
                    if truth < 0 or role == LABEL_NUMBER:
                        what = NOT_LABEL
                if what and not labels_needed:
                    value, what = np.nan, 0
                labels[row] = value
            if what and wrong[row] == 0:
                wrong[row] = 16 * c + what
