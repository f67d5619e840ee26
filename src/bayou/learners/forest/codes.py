"""Codes: what a forest reads of a row, one byte for each column of numbers.

    0             missing, or not finite
    1 to 64       1 + the number of cuts at or below the value

A column of few distinct values is cut half way between them. Another one is cut at the quantiles k/64; a heavy value
takes several of these, and the cuts that it leaves over go to quantiles of the distinct values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.arrays import MAX_CELLS, MAX_CODE_COLUMNS, as_float
from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel

N_CODES = MAX_CELLS + 1


class Cuts:
    """The cuts of a table's columns, fixed by its first rows.

    Args:
        rows: numbers, a row for each of the first rows of the table.

    >>> cuts = Cuts([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
    >>> cuts.codes([[0.0, 5.0], [3.5, float("nan")]])
    array([[1, 1],
           [3, 0]], dtype=uint8)
    """

    def __init__(self, rows: Any) -> None:
        self._cuts = [cuts_of(column) for column in as_numbers(rows).T]
        self._starts = np.cumsum([0] + [len(cuts) for cuts in self._cuts])

    def __getitem__(self, column: int) -> np.ndarray:
        return self._cuts[column]

    def codes(self, rows: Any) -> np.ndarray:
        """Return the code of every number, as `Batch.with_codes` takes them."""
        rows = as_numbers(rows)
        if rows.shape[1] != len(self._cuts):
            raise BadInput(f"the rows have {rows.shape[1]} columns; the cuts are of {len(self._cuts)}.")
        codes = np.empty(rows.shape, np.uint8)
        find_codes(rows, np.concatenate([np.zeros(0), *self._cuts]), self._starts, codes)
        return codes


def as_numbers(rows: Any) -> np.ndarray:
    """Return a table of numbers as a two-dimensional array of float64."""
    numbers = as_float(rows, "rows")
    if numbers.ndim != 2 or numbers.shape[1] > MAX_CODE_COLUMNS:
        raise BadInput(
            f"rows must be a table of numbers with at most {MAX_CODE_COLUMNS} columns, not of shape {numbers.shape}."
        )
    return np.ascontiguousarray(numbers, np.float64)


def cuts_of(values: np.ndarray, n_cells: int = MAX_CELLS) -> np.ndarray:
    """Return the cuts between at most `n_cells` cells of a column, ascending."""
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    if len(distinct) <= n_cells:
        middle = distinct[:-1] / 2 + distinct[1:] / 2
        return np.where(middle > distinct[:-1], middle, distinct[1:])  # neighboring floats have no middle
    cuts = np.unique(_quantiles(values, n_cells))
    n_free = n_cells - 1 - len(cuts)
    return np.union1d(cuts, _quantiles(distinct, n_free + 1)) if n_free else cuts


def _quantiles(values: np.ndarray, n_parts: int) -> np.ndarray:
    """Return the values that part `values` into so many parts of equal size."""
    return np.quantile(values, np.arange(1, n_parts) / n_parts, method="inverted_cdf")


@kernel
def find_codes(rows, cuts, starts, codes):
    """Fill codes[row, column]; the cuts of a column are cuts[starts[column]:starts[column + 1]]."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            value = rows[row, column]
            low, high = starts[column], starts[column + 1]
            if not np.isfinite(value):
                codes[row, column] = 0
                continue
            while low < high:  # the first cut above the value
                middle = (low + high) >> 1
                if cuts[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            codes[row, column] = 1 + low - starts[column]
