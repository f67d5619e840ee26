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
    words = 0
    start = at = address_of(text)
    end = at + len(text) - len(BEHIND)
    while at <= end:
        if at == end or load_uint8(at) == 0:
            if words < hashes.size:
                hashes[words] = murmur3(start, at - start, hashes[words])
            words += 1
            start = at + 1
        at += 1
    return words


@kernel
def hash_cells(data, starts, stops, seed, hashes):
    base = address_of(data)
    for row in range(hashes.size):
        hashes[row] = murmur3(base + starts[row], np.int64(stops[row]) - np.int64(starts[row]), seed)


@kernel
def by_row(ids, values, of_columns, indptr, indices, there, groups):
    """Write columns as CSR rows without zero and missing values; return the number of values left.

    Fill in groups unless that array is empty.
    """
    size = 0
    for row in range(ids.shape[1]):
        for c in range(ids.shape[0]):
            value = values[c, row]
            if value != 0 and not np.isnan(value):
                indices[size] = ids[c, row]
                there[size] = value
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
        place = k
        group = np.uint8(0)
        if groups is not None:  # such tests are compiled away where groups is None
            group = groups[k]
        if k < unordered:
            while place > 0 and indices[place - 1] > ids[k]:
                indices[place] = indices[place - 1]
                tidied[place] = tidied[place - 1]
                if groups is not None:
                    groups[place] = groups[place - 1]
                place -= 1
        indices[place] = ids[k]
        tidied[place] = 0.0 if np.isnan(values[k]) else values[k]  # NaN is missing
        if groups is not None:
            groups[place] = group
    # Two features rarely share a mark; only then all previous ones are compared.
    marks = zeros(_MARKS // 64, np.uint64)
    size = 0
    for k in range(ids.size):
        index = indices[k] & mask
        value = tidied[k]
        word, bit = (index >> np.uint32(6)) % marks.size, np.uint64(1) << np.uint64(index & np.uint32(63))
        place = 0 if marks[word] & bit else size
        marks[word] |= bit
        while place < size and indices[place] != index:
            place += 1
        if place < size:
            if groups is not None and value != 0:  # the lowest group with a nonzero value
                groups[place] = min(groups[place], groups[k]) if tidied[place] != 0 else groups[k]
            tidied[place] += value
        else:
            indices[size] = index
            tidied[size] = value
            if groups is not None:
                groups[size] = groups[k]
            size += 1
    kept = 0
    largest = 0.0
    ones = finite = True
    for k in range(size):
        if tidied[k] != 0:
            indices[kept] = indices[k]
            tidied[kept] = tidied[k]
            if groups is not None:
                groups[kept] = groups[k]
            largest = max(largest, abs(np.float64(tidied[k])))
            ones &= tidied[k] == 1
            finite &= np.isfinite(tidied[k])
            kept += 1
    return kept, largest if finite else np.inf, ones


@kernel
def read(names, texts, packed, mask, indices, values, named, groups):
    """Hash the names of an ordinary row and return the result of `tidy`; (-1, ...) if a name contains a zero byte.

    With `named`, fill in the groups of names (`recipe.groups`).
    """
    ids = zeros(indices.size, np.uint32)
    if texts:
        if hash_words(names, ids) != max(ids.size, 1):
            return -1, 0.0, False
    else:
        numbers = np.frombuffer(names, np.uint64)
        for k in range(ids.size):
            ids[k] = numbers[k] ^ (numbers[k] >> np.uint64(32))
    if named is not None:
        for k in range(groups.size):
            groups[k] = group_of(ids[k], named)
    return tidy(ids, np.frombuffer(packed, np.float64), ids.size, mask, indices, values, groups)
