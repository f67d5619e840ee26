"""Running selection of the largest items."""

from __future__ import annotations

from bayou.kernels.compiling import kernel


@kernel
def insert(by, indices, row, amount, item):
    """Insert an item into the largest items of a row: amounts in by[:, row], items in which[:, row].

    They are sorted by absolute amount, largest first; among equal ones earlier items come first.
    """
    j = by.shape[0]
    while j > 0 and abs(amount) > abs(by[j - 1, row]):
        j -= 1
        if j + 1 < by.shape[0]:
            by[j + 1, row], indices[j + 1, row] = by[j, row], indices[j, row]
    if j < by.shape[0]:
        by[j, row], indices[j, row] = amount, item
