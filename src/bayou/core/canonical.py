"""Canonical rows: within a row no feature occurs twice and no value is zero.

`measure` collects the bounds that a batch needs in one pass. If there are zeros or rows whose indices do not ascend,
`canonical` drops the zeros and sums the duplicates in the rows that have them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel

# Up to this length, duplicates in a row are found with 2^14 marks, which fit in the cache.
_MAX_MARKED_ROW_LENGTH = 512
_MARKS = 1 << 14
_TO_MARK = np.uint64(64 - 14)
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# From this many non-zeros on, both halves are scanned in parallel by two threads.
_MIN_THREADED_NONZEROS = 1 << 20

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


class CsrStats(NamedTuple):
    """Exact bounds and properties of CSR arrays."""

    longest: int = 0  # largest number of features in a row
    max_index: int = -1
    largest: float = 0.0  # largest absolute value; infinity or NaN if a value is not finite
    ones: bool = True  # every value is 1
    zeros: bool = False  # at least one value is 0
    ascending: bool = True  # the indices of every row ascend


def measure(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> CsrStats:
    """Return the statistics of CSR arrays, reading every row, index and value once.

    Without its sign bit a float compares like the integer with the same bits (NaN above infinity above all others),
    and integer comparisons vectorize.
    """
    longest, down_between = _scan_rows(indptr, indices)
    if not indices.size:
        return CsrStats(longest)
    word = np.uint32 if values.itemsize == 4 else np.uint64
    bits, mask = values.view(word), word(np.iinfo(word).max >> 1)
    if indices.size < _MIN_THREADED_NONZEROS:
        parts = [_scan_nonzeros(bits, mask, indices)]
    else:
        half = indices.size // 2
        with ThreadPoolExecutor(1) as other:
            first = other.submit(_scan_nonzeros, bits[:half], mask, indices[:half])
            # one index more, so that the step between the halves is checked too
            second = _scan_nonzeros(bits[half:], mask, indices[half - 1 :])
            parts = [first.result(), second]
    smallest, highest, either, down, features = zip(*parts, strict=True)
    low, high = np.array([min(smallest), max(highest)], word).view(values.dtype)
    # All are 1 if the smallest and the largest are and no sign bit is set.
    ones = bool(low == high == 1 and np.bitwise_or.reduce(np.array(either, word)) == max(highest))
    return CsrStats(longest, int(max(features)), float(high), ones, bool(low == 0), sum(down) == down_between)


def canonicalize(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, groups: np.ndarray | None
) -> tuple[Arrays, CsrStats]:
    """Return the canonical rows and their statistics. If `largest` is not finite, the caller must reject them."""
    rows, seen = (indptr, indices, values, groups), measure(indptr, indices, values)
    if np.isfinite(seen.largest) and (merged := canonical(*rows, seen)) is not None:
        return merged, measure(*merged[:3])
    return rows, seen


def canonical(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, groups: np.ndarray | None, seen: CsrStats
) -> Arrays | None:
    """Return the rows with duplicates summed (in their lowest group) and zeros dropped; None if there are neither."""
    flags = np.zeros(len(indptr) - 1, np.bool_)
    if seen.zeros:
        flags[np.searchsorted(indptr, np.flatnonzero(values == 0), side="right") - 1] = True
    repeated = not seen.ascending and _flag_repeated(indptr, indices, seen.longest, flags)
    if not seen.zeros and not repeated:
        return None
    kept_groups = np.zeros(len(indices), np.uint8) if groups is None else groups
    *merged, kept_groups = _merge(indptr, indices, values, kept_groups, seen.longest, flags)
    return *merged, None if groups is None else kept_groups


@kernel
def _scan_rows(indptr, indices):
    """Return the longest row, and how many rows begin with an index not above the last one before (which is fine)."""
    longest = 0
    down = 0
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        longest = max(longest, stop - start)
        if 0 < start < stop:
            down += indices[start] <= indices[start - 1]
    return longest, down


@kernel
def _scan_nonzeros(bits, mask, indices):
    """Return the bits of the smallest and the largest absolute value and the OR of all bits; then how many indices are
    not above the one before, and the largest index. The compiler only vectorizes loops from 0 over whole arrays."""
    smallest = mask
    largest = bits[0] & mask
    either = bits[0]
    for k in range(bits.size):
        size = bits[k] & mask
        smallest = min(smallest, size)
        largest = max(largest, size)
        either |= bits[k]
    down = 0
    highest = indices[0]
    for k in range(1, indices.size):
        down += indices[k] <= indices[k - 1]
        highest = max(highest, indices[k])
    return smallest, largest, either, down, np.int64(highest)


@kernel
def _probe(slots, owners, row, feature):
    """Return the slot of `feature` of `row` in a small open-addressed table, or the free slot for it."""
    mask = slots.size - 1
    slot = (np.int64(feature) * 2654435761 >> 7) & mask
    while owners[slot] == row and slots[slot] != feature:
        slot = (slot + 1) & mask
    return slot


@kernel
def _tables(longest):
    size = 16
    while size < 2 * longest:
        size *= 2
    return zeros(size, np.uint32), np.full(size, -1, np.int64)


@kernel
def _flag_repeated(indptr, indices, longest, flags):
    """Flag the rows that have a feature twice, and return how many there are.

    In a short row, features are compared only if they share a mark, which is rare.
    """
    marks = zeros(_MARKS, np.uint32)
    slots, owners = _tables(longest if longest > _MAX_MARKED_ROW_LENGTH else 0)
    n_flagged = 0
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        repeated = False
        if stop - start <= _MAX_MARKED_ROW_LENGTH:
            mark = np.uint32(row + 1)
            for k in range(start, stop):
                slot = (np.uint64(indices[k]) * _HASH_MULTIPLIER) >> _TO_MARK
                if marks[slot] == mark:
                    for earlier in range(start, k):
                        repeated |= indices[earlier] == indices[k]
                marks[slot] = mark
        else:
            for k in range(start, stop):
                slot = _probe(slots, owners, row, indices[k])
                repeated |= owners[slot] == row
                owners[slot] = row
                slots[slot] = indices[k]
        flags[row] |= repeated
        n_flagged += repeated
    return n_flagged


@kernel
def _merge(indptr, indices, values, groups, longest, flags):
    """Return rows with each feature once, at its first position, and no zero values; only flagged rows change."""
    slots, owners = _tables(longest)
    places = zeros(slots.size, np.int64)
    new_indptr = np.zeros_like(indptr)
    new_indices = np.empty_like(indices)
    new_values = np.empty_like(values)
    new_groups = np.empty_like(groups)
    size = 0
    row = 0
    while row < flags.size:
        start = size
        first, upto = indptr[row], row
        while upto < flags.size and not flags[upto]:
            upto += 1
            new_indptr[upto] = start + indptr[upto] - first
        if upto > row:  # copy a run of unflagged rows
            last, row = indptr[upto], upto
            size += last - first
            new_indices[start:size] = indices[first:last]
            new_values[start:size] = values[first:last]
            new_groups[start:size] = groups[first:last]
            continue
        last = indptr[row + 1]
        for k in range(first, last):
            slot = _probe(slots, owners, row, indices[k])
            if owners[slot] == row:
                place = places[slot]
                if values[k] != 0:
                    new_groups[place] = min(new_groups[place], groups[k]) if new_values[place] != 0 else groups[k]
                new_values[place] += values[k]
            else:
                owners[slot] = row
                slots[slot] = indices[k]
                places[slot] = size
                new_indices[size] = indices[k]
                new_values[size] = values[k]
                new_groups[size] = groups[k]
                size += 1
        kept = start
        for k in range(start, size):
            if new_values[k] != 0:
                new_indices[kept] = new_indices[k]
                new_values[kept] = new_values[k]
                new_groups[kept] = new_groups[k]
                kept += 1
        size = kept
        row += 1
        new_indptr[row] = size
    return new_indptr, new_indices[:size], new_values[:size], new_groups[:size]
