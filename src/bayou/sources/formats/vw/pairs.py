"""Kernels that append pairs of features of two namespaces to rows of VW text. See `reader` for the rules."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_VALUE
from bayou.recipe.crosses import MAX_ROW_CROSSES
from bayou.recipe.hashing import cross_keys

# Maximum number of namespaces of a line that take part in pairs.
MAX_NAMESPACES = 1 << 10
# The reasons why a row is bad.
TOO_LARGE, TOO_MANY = 1, 2


@kernel
def _rule(rules, x, y):
    """Return whether features of two namespaces are crossed: 0 for no, 1 for yes, 2 for yes, in reverse order."""
    for r in range(rules.shape[0]):
        a, any_a, b, any_b = rules[r, 0, 0], rules[r, 0, 1], rules[r, 1, 0], rules[r, 1, 1]
        if x == y:
            if a == x and b == x and not any_a and not any_b:
                return 1
        elif any_a and any_b:
            return 1 if x < y else 2
        elif (any_a or a == x) and (any_b or b == y):
            return 1
        elif (any_a or a == y) and (any_b or b == x):
            return 2
    return 0


@kernel
def takes_part(rules, key):
    """Return whether any rule crosses features of a namespace."""
    for r in range(rules.shape[0]):
        for position in range(rules.shape[1]):
            if rules[r, position, 1] or rules[r, position, 0] == key:
                return True
    return False


@kernel
def _find_runs(keys, rules, start, stop, runs):
    """Find runs of adjacent features of one namespace that takes part in crosses, and return the number of runs.

    Run r is [runs[r, 0], runs[r, 1]). If `runs` cannot hold all of them, return its capacity plus 1.
    """
    count = 0
    k = start
    while k < stop:
        first = k
        while k < stop and keys[k] == keys[first]:
            k += 1
        if takes_part(rules, keys[first]):
            if count == runs.shape[0]:
                return count + 1
            runs[count, 0], runs[count, 1] = first, k
            count += 1
    return count


@kernel
def append_pairs(rows, keys, rules, mask, row, runs, ways, n, new):
    """Write a row's pairs from position n on, and return (next position, number of pairs tried, error code).

    It ends after more than MAX_ROW_CROSSES.
    """
    indptr, hashes, values = rows
    indices, new_values, origins = new
    error = tried = 0
    count = _find_runs(keys, rules, indptr[row], indptr[row + 1], runs)
    if count > MAX_NAMESPACES:
        return n, MAX_ROW_CROSSES + 1, TOO_MANY
    for s in range(count):
        for t in range(s, count):
            ways[t] = _rule(rules, keys[runs[s, 0]], keys[runs[t, 0]])
        for i in range(runs[s, 0], runs[s, 1]):
            for t in range(s, count):
                if ways[t] == 0:
                    continue
                is_same_space = keys[i] == keys[runs[t, 0]]
                first = max(i + 1, runs[t, 0])
                tried += runs[t, 1] - first
                if tried > MAX_ROW_CROSSES:
                    return n, tried, TOO_MANY
                for j in range(first, runs[t, 1]):
                    if is_same_space and hashes[i] == hashes[j]:
                        continue
                    a, b = i, j
                    if hashes[j] < hashes[i] if is_same_space else ways[t] == 2:
                        a, b = j, i
                    value = np.float64(values[i]) * np.float64(values[j])
                    if not abs(value) <= LARGEST_VALUE:
                        error = TOO_LARGE
                    indices[n] = cross_keys(np.uint64(hashes[a]), np.uint64(hashes[b]), hashes.itemsize == 8) & mask
                    new_values[n] = value
                    origins[n] = -1
                    origins[n, 0], origins[n, 1] = a, b
                    n += new_values[n] != 0
    return n, tried, error
