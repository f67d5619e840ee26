"""The largest of many, in their order, as they come."""

from __future__ import annotations

from bayou.kernels.compiling import kernel


@kernel
def insert(by, which, row, amount, item):
    """Put an item of this amount among the largest of a row: columns by[:, row] and which[:, row].

    They stand in their order, whatever the sign; of equal ones the first stays.
    """
    j = by.shape[0]
    while j > 0 and abs(amount) > abs(by[j - 1, row]):
        j -= 1
        if j + 1 < by.shape[0]:
            by[j + 1, row], which[j + 1, row] = by[j, row], which[j, row]
    if j < by.shape[0]:
        by[j, row], which[j, row] = amount, item
