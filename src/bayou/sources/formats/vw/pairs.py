"""Crosses of namespaces: pairs of features that rows of VW text get besides their own. See `reader` for the rules."""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty
from bayou.kernels.scan import LARGEST_VALUE
from bayou.sources.hashing import cross, cross64

# A line may not grow beyond all bounds, nor a block of them: no more namespaces of a line take part, and no more pairs
# come of them.
MOST_SPACES = 1 << 10
MOST_PAIRS = 1 << 16
# What can be wrong with a row.
TOO_MANY, TOO_LARGE = 1, 2
WHAT = {
    TOO_MANY: f"expected at most {MOST_PAIRS} pairs, of at most {MOST_SPACES} namespaces, from crosses",
    TOO_LARGE: f"expected pairs of features whose product is at most {LARGEST_VALUE:g} in size",
}


def add_pairs(
    indptr: np.ndarray, hashes: np.ndarray, values: np.ndarray, keys: np.ndarray, rules: np.ndarray, mask: np.uint64
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with their pairs.

    Args:
        indptr, hashes, values: the rows, of features by their hashes (uint32) or ids (uint64).
        keys: uint64, the hash of each feature's namespace.
        rules: uint64, one row each: the first namespace's hash, whether it is any, and the same for the second.
        mask: what is kept of hashes.

    Returns:
        indptr, indices, values of the rows that are fine: each one's features, then its pairs, in the order of their
        earlier feature, then of the later; origins: int32, the features that each is made of, -1 for no second;
        wrong: of each given row 0, TOO_MANY or TOO_LARGE.
    """
    rows = len(indptr) - 1
    pairs, wrong = np.empty(rows, np.int64), np.empty(rows, np.int64)
    _count(indptr, keys, rules, pairs)
    room = len(hashes) + int(pairs[pairs > 0].sum())
    new_indptr, origins = np.empty(rows + 1, np.int64), np.empty((room, 2), np.int32)
    indices, new_values = np.empty(room, hashes.dtype), np.empty(room, values.dtype)
    fine, nonzeros = _fill(
        indptr, hashes, values, keys, rules, mask, pairs, new_indptr, indices, new_values, origins, wrong
    )
    return new_indptr[: fine + 1], indices[:nonzeros], new_values[:nonzeros], origins[:nonzeros], wrong


@kernel
def _rule(rules, x, y):
    """Whether features of two namespaces are crossed: 0 no, 1 yes, 2 yes but the other way round."""
    for r in range(rules.shape[0]):
        a, any_a, b, any_b = rules[r, 0], rules[r, 1], rules[r, 2], rules[r, 3]
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
def _takes_part(rules, x):
    parts = 0
    for r in range(rules.shape[0]):
        parts += rules[r, 1] or rules[r, 3] or rules[r, 0] == x or rules[r, 2] == x
    return parts > 0


@kernel
def _find_runs(keys, rules, start, stop, runs):
    """Neighbours of one namespace that takes part in crosses, from runs[r, 0] to before runs[r, 1]; how many such.

    One more than there is room for if there are more.
    """
    count = 0
    k = start
    while k < stop:
        first = k
        while k < stop and keys[k] == keys[first]:
            k += 1
        if _takes_part(rules, keys[first]):
            if count == runs.shape[0]:
                return count + 1
            runs[count, 0], runs[count, 1] = first, k
            count += 1
    return count


@kernel
def _count(indptr, keys, rules, pairs):
    """How many pairs each row may have; -1 if that is too many."""
    runs = empty((MOST_SPACES, 2), np.int64)
    for row in range(pairs.size):
        count = _find_runs(keys, rules, indptr[row], indptr[row + 1], runs)
        total = 0
        for s in range(count if count <= MOST_SPACES else 0):
            length = runs[s, 1] - runs[s, 0]
            if _rule(rules, keys[runs[s, 0]], keys[runs[s, 0]]):
                total += length * (length - 1) // 2
            for t in range(s + 1, count):
                if _rule(rules, keys[runs[s, 0]], keys[runs[t, 0]]):
                    total += length * (runs[t, 1] - runs[t, 0])
        pairs[row] = total if count <= MOST_SPACES and total <= MOST_PAIRS else -1


@kernel
def _fill(indptr, hashes, values, keys, rules, mask, pairs, new_indptr, indices, new_values, origins, wrong):
    """(rows, non-zeros) of the new rows."""
    runs, ways = empty((MOST_SPACES, 2), np.int64), empty(MOST_SPACES, np.int64)
    new_indptr[0] = 0
    n = fine = 0
    for row in range(pairs.size):
        wrong[row] = TOO_MANY if pairs[row] < 0 else 0
        if pairs[row] < 0:
            continue
        for k in range(indptr[row], indptr[row + 1]):
            indices[n] = np.uint64(hashes[k]) & mask
            new_values[n] = values[k]
            origins[n, 0], origins[n, 1] = k, -1
            n += 1
        count = _find_runs(keys, rules, indptr[row], indptr[row + 1], runs) if pairs[row] else 0
        for s in range(count):
            for t in range(s, count):
                ways[t] = _rule(rules, keys[runs[s, 0]], keys[runs[t, 0]])
            for i in range(runs[s, 0], runs[s, 1]):
                for t in range(s, count):
                    if ways[t] == 0:
                        continue
                    same = keys[i] == keys[runs[t, 0]]
                    for j in range(max(i + 1, runs[t, 0]), runs[t, 1]):
                        if same and hashes[i] == hashes[j]:
                            continue
                        a, b = i, j
                        if hashes[j] < hashes[i] if same else ways[t] == 2:
                            a, b = j, i
                        if hashes.itemsize == 8:
                            pair = cross64(np.uint64(hashes[a]), np.uint64(hashes[b]))
                        else:
                            pair = np.uint64(cross(np.uint32(hashes[a]), np.uint32(hashes[b])))
                        value = np.float64(values[i]) * np.float64(values[j])
                        if not abs(value) <= LARGEST_VALUE:
                            wrong[row] = TOO_LARGE
                        indices[n] = pair & mask
                        new_values[n] = value
                        origins[n, 0], origins[n, 1] = a, b
                        n += new_values[n] != 0
        if wrong[row]:
            n = new_indptr[fine]
        else:
            fine += 1
            new_indptr[fine] = n
    return fine, n
