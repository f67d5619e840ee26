"""Conversion of input to the array types of a batch; input that does not fit raises BadInput."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayou.core.errors import BadInput

# Codes of a table: cells of a column besides the missing one, and columns, whose numbers are bytes.
MAX_CELLS, MAX_CODE_COLUMNS = 64, 256


def check_not_masked(values: Any, what: str) -> None:
    """Raise BadInput if `values` has masked entries: NumPy drops the mask and would treat them as data."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise BadInput(
            f"{what} must not be masked: {np.ma.count_masked(values):,} of {values.size:,} are. Drop those rows, or "
            "fill the masked values: array.filled(0)."
        )


def as_array(values: Any, what: str) -> np.ndarray:
    """Return `values` as an array; raise BadInput if they do not form one."""
    check_not_masked(values, what)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        raise BadInput(f"{what} must form an array: {error}.") from None


def as_float(values: Any, what: str) -> np.ndarray:
    """Return a contiguous float32 or float64 array, whichever is wide enough for the type of `values`."""
    check_not_masked(values, what)
    try:
        values = np.asarray(values)
        if values.dtype.kind not in "biufO":
            raise TypeError(f"these have type {values.dtype}")
        if values.dtype not in (np.float32, np.float64):
            narrow = (values.dtype.kind in "bui" and values.dtype.itemsize <= 2) or values.dtype == np.float16
            values = values.astype(np.float32 if narrow else np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{what} must be numbers: {error}.") from None
    return np.ascontiguousarray(values)


def as_indices(indices: Any) -> tuple[np.ndarray, int]:
    """Return feature indices as uint32, and how many were wider than that and had their high half folded in."""
    indices = np.ascontiguousarray(as_array(indices, "indices"))
    if indices.size == 0:
        return indices.astype(np.uint32), 0
    if indices.dtype == np.uint32:
        return indices, 0
    if indices.dtype.kind not in "iu":
        raise BadInput(f"features must be whole numbers; these have type {indices.dtype}.")
    if indices.dtype == np.int32:
        return indices.view(np.uint32), 0  # no copy; the caller detects negative ones by the largest index
    if indices.dtype.kind == "i" and (low := int(indices.min())) < 0:
        raise BadInput(f"feature {low} is negative; features are numbered from 0.")
    indices = indices.astype(np.uint64)
    high = indices >> np.uint64(32)
    return (indices ^ high).astype(np.uint32), int(np.count_nonzero(high))


def as_row_values(column: Any, n: int, what: str) -> np.ndarray | None:
    """Return one float64 for each of n rows, or None if `column` is None."""
    if column is None:
        return None
    column = as_float(column, f"{what}s").astype(np.float64, copy=False)
    if column.shape != (n,):
        raise BadInput(f"{what}s have shape {column.shape}, but there are {n} rows; give one {what} per row.")
    return column


def as_weights(weights: Any, n: int) -> np.ndarray | None:
    """Return one finite weight >= 0 for each of n rows, or None if `weights` is None."""
    weights = as_row_values(weights, n, "weight")
    if weights is not None and not (fine := np.isfinite(weights) & (weights >= 0)).all():
        row = int(fine.argmin())
        raise BadInput(f"row {row}: the weight is {weights[row]:g}; a weight must be a finite number >= 0.")
    return weights


def as_positions(positions: Any, n: int) -> np.ndarray | None:
    """Return one int64 for each of n rows, or None if `positions` is None."""
    if positions is None:
        return None
    positions = as_array(positions, "positions")
    if positions.shape != (n,) or (n and positions.dtype.kind not in "iu"):
        raise BadInput(f"positions must be {n} whole numbers, one per row.")
    return positions.astype(np.int64, copy=False)


def as_groups(groups: Any, n: int) -> np.ndarray | None:
    """Return one uint8 for each of n non-zeros, or None if `groups` is None."""
    if groups is None:
        return None
    groups = as_array(groups, "groups")
    fits = groups.shape == (n,) and (not n or (groups.dtype.kind in "iu" and 0 <= groups.min() <= groups.max() < 256))
    if not fits:
        raise BadInput(f"groups must be {n} integers from 0 to 255, one per nonzero value.")
    return np.ascontiguousarray(groups.astype(np.uint8, copy=False))


def as_codes(codes: Any, n: int) -> np.ndarray | None:
    """Return the codes of n rows as uint8, shape (n, columns), or None if `codes` is None."""
    if codes is None:
        return None
    codes = as_array(codes, "codes")
    fits = codes.ndim == 2 and len(codes) == n and 1 <= codes.shape[1] <= MAX_CODE_COLUMNS
    if not fits or (n and not (codes.dtype.kind in "iu" and 0 <= codes.min() <= codes.max() <= MAX_CELLS)):
        raise BadInput(
            f"codes must be integers from 0 to {MAX_CELLS}, a row for each of the {n} rows and 1 to {MAX_CODE_COLUMNS} "
            "columns."
        )
    return np.ascontiguousarray(codes, np.uint8)


def as_row_indices(rows: Any, n: int) -> np.ndarray:
    """Return the row indices, from 0 to n - 1, that integers (negative: from the end) or a boolean mask select."""
    rows = as_array(rows, "rows")
    if rows.dtype == np.bool_ and rows.shape == (n,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise BadInput(f"rows must be integer indices, or a boolean mask of {n} values, one per row.")
    numbers = rows.astype(np.int64)
    if numbers.size and (numbers.min() < -n or numbers.max() >= n):
        wrong = numbers[(numbers < -n) | (numbers >= n)][0]
        raise BadInput(f"row {wrong} is out of range; the batch has {n} rows, numbered from 0.")
    return np.where(numbers < 0, numbers + n, numbers)


def read_only(array: np.ndarray) -> np.ndarray:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array
