"""Kernels that hash one row, or a table of rows, and make it canonical."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import address_of, load_uint8
from bayou.recipe.groups import group_of
from bayou.recipe.hashing import murmur3

_MARKS = 1024
# Terminator of the last name: as many bytes as murmur3 may read beyond its end.
BEHIND = b"\0\0\0\0\0"


@kernel
def hash_words(text, hashes):
    """Hash the words of a text, in which zeros separate words and BEHIND follows, and return the number of words.

    Each entry of `hashes` is the seed of its word and is replaced by the hash.
    """
    n_words = 0
    start = address = address_of(text)
    end = address + len(text) - len(BEHIND)
    while address <= end:
        if address == end or load_uint8(address) == 0:
            if n_words < hashes.size:
                hashes[n_words] = murmur3(start, address - start, hashes[n_words])
            n_words += 1
            start = address + 1
        address += 1
    return n_words


@kernel
def hash_cells(data, starts, stops, seed, hashes):
    base = address_of(data)
    for row in range(hashes.size):
        hashes[row] = murmur3(base + starts[row], np.int64(stops[row]) - np.int64(starts[row]), seed)


@kernel
def by_row(ids, values, of_columns, indptr, indices, present, groups):
    """Write columns as CSR rows without zero and missing values; return the number of values left.

    Fill in groups unless that array is empty.
    """
    size = 0
    for row in range(ids.shape[1]):
        for c in range(ids.shape[0]):
            value = values[c, row]
            if value != 0 and not np.isnan(value):
                indices[size] = ids[c, row]
                present[size] = value
                if groups.size:
                    groups[size] = of_columns[c]
                size += 1
        indptr[row + 1] = size
    return size


@kernel
def tidy(ids, values, unordered, mask, indices, tidied, groups):
    """Make one row canonical, as `Batch` does, and return (features left, largest |value|, whether all values are 1).

    The first `unordered` features are sorted; `groups`, unless it is None, is rearranged with them. The largest value
    is infinite if any value is not finite.
    """
    for k in range(ids.size):
        slot = k
        group = np.uint8(0)
        if groups is not None:  # such tests are compiled away where groups is None
            group = groups[k]
        if k < unordered:
            while slot > 0 and indices[slot - 1] > ids[k]:
                indices[slot] = indices[slot - 1]
                tidied[slot] = tidied[slot - 1]
                if groups is not None:
                    groups[slot] = groups[slot - 1]
                slot -= 1
        indices[slot] = ids[k]
        tidied[slot] = 0.0 if np.isnan(values[k]) else values[k]  # NaN is missing
        if groups is not None:
            groups[slot] = group
    # Two features rarely share a mark; only then all previous ones are compared.
    marks = zeros(_MARKS // 64, np.uint64)
    size = 0
    for k in range(ids.size):
        index = indices[k] & mask
        value = tidied[k]
        word, bit = (index >> np.uint32(6)) % marks.size, np.uint64(1) << np.uint64(index & np.uint32(63))
        slot = 0 if marks[word] & bit else size
        marks[word] |= bit
        while slot < size and indices[slot] != index:
            slot += 1
        if slot < size:
            if groups is not None and value != 0:  # the lowest group with a nonzero value
                groups[slot] = min(groups[slot], groups[k]) if tidied[slot] != 0 else groups[k]
            tidied[slot] += value
        else:
            indices[size] = index
            tidied[size] = value
            if groups is not None:
                groups[size] = groups[k]
            size += 1
    n_kept = 0
    max_abs = 0.0
    is_all_ones = finite = True
    for k in range(size):
        if tidied[k] != 0:
            indices[n_kept] = indices[k]
            tidied[n_kept] = tidied[k]
            if groups is not None:
                groups[n_kept] = groups[k]
            max_abs = max(max_abs, abs(np.float64(tidied[k])))
            is_all_ones &= tidied[k] == 1
            finite &= np.isfinite(tidied[k])
            n_kept += 1
    return n_kept, max_abs if finite else np.inf, is_all_ones


@kernel
def read(names, is_text, packed, mask, indices, values, named, groups):
    """Hash the names of an ordinary row and return the result of `tidy`; (-1, ...) if a name contains a zero byte.

    With `named`, fill in the groups of names (`recipe.groups`).
    """
    ids = zeros(indices.size, np.uint32)
    if is_text:
        if hash_words(names, ids) != max(ids.size, 1):
            return -1, 0.0, False
    else:
        ids64 = np.frombuffer(names, np.uint64)
        for k in range(ids.size):
            ids[k] = ids64[k] ^ (ids64[k] >> np.uint64(32))
    if named is not None:
        for k in range(groups.size):
            groups[k] = group_of(ids[k], named)
    return tidy(ids, np.frombuffer(packed, np.float64), ids.size, mask, indices, values, groups)
