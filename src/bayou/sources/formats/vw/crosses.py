"""Rows with what their crosses give them, behind their own features: `pairs`, then `terms`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayou.core.crosses import MOST_PARTS
from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty
from bayou.kernels.scan import LARGEST_VALUE
from bayou.sources.formats.vw.pairs import MOST_PAIRS, MOST_SPACES, TOO_LARGE, TOO_MANY, count_pairs, put_pairs
from bayou.sources.formats.vw.terms import (
    LETTERS,
    MOST_TRIPLED,
    count_terms,
    count_triples,
    put_terms,
    put_triples,
)

WHAT = {
    TOO_MANY: f"expected at most {MOST_PAIRS} pairs, of at most {MOST_SPACES} namespaces ({MOST_TRIPLED} for crosses "
    "of three), from crosses",
    TOO_LARGE: f"expected crosses of features whose product is at most {LARGEST_VALUE:g} in size",
}


class Rules(NamedTuple):
    """What is crossed.

    pairs: uint64, one row each: the first namespace's hash, whether it is any, and the same for the second.
    triples: uint64, (n, 3, 2), the same of three.
    terms: int64, one row each: first letters, behind them -1.
    """

    pairs: np.ndarray
    triples: np.ndarray
    terms: np.ndarray

    @property
    def parts(self) -> int:
        """How many features one is made of at most."""
        return max(3 if len(self.triples) else 2, self.terms.shape[1])


def add_crosses(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    keys: np.ndarray,
    letters: np.ndarray,
    rules: Rules,
    mask: np.uint64,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows with their crosses.

    Args:
        rows: indptr, hashes, values, of features by their hashes (uint32) or ids (uint64).
        keys: uint64, the hash of each feature's namespace.
        letters: uint8, the first letter of each feature's namespace.
        rules: what is crossed.
        mask: what is kept of hashes.

    Returns:
        indptr, indices, values of the rows that are fine: each one's features, then its pairs, in the order of their
        earlier feature, then of the later, then crosses of three, then those of terms; origins: int32, the features
        that each is made of, -1 behind them; wrong: of each given row 0, TOO_MANY or TOO_LARGE.
    """
    indptr, hashes, values = rows
    n = len(indptr) - 1
    counts, wrong = np.empty(n, np.int64), np.empty(n, np.int64)
    longest = int(np.diff(indptr).max(initial=0))
    _count(indptr, keys, letters, rules.pairs, rules.triples, rules.terms, longest, counts)
    room = len(hashes) + int(counts[counts > 0].sum())
    new_indptr, origins = np.empty(n + 1, np.int64), np.empty((room, rules.parts), np.int32)
    new = np.empty(room, hashes.dtype), np.empty(room, values.dtype), origins
    fine, nonzeros = _fill(
        rows, keys, letters, rules.pairs, rules.triples, rules.terms, mask, longest, counts, new_indptr, new, wrong
    )
    return new_indptr[: fine + 1], new[0][:nonzeros], new[1][:nonzeros], origins[:nonzeros], wrong


@kernel
def _count(indptr, keys, letters, pairs, triples, terms, longest, counts):
    """How many features crosses may give each row; -1 if that is too many."""
    runs = empty((MOST_SPACES, 2), np.int64)
    order = empty(longest, np.int64)
    room = empty(MOST_TRIPLED, np.uint64), empty(longest, np.int64), empty(LETTERS + 1, np.int64), order
    term = empty(MOST_PARTS, np.int64)
    for row in range(counts.size):
        total = count_pairs(indptr, keys, pairs, row, runs) if pairs.shape[0] else 0
        if triples.shape[0]:
            total += count_triples(indptr, keys, triples, row, room, term)
        if terms.shape[0]:
            total += count_terms(indptr, letters, terms, row, room)
        counts[row] = total if total <= MOST_PAIRS else -1


@kernel
def _fill(rows, keys, letters, pairs, triples, terms, mask, longest, counts, new_indptr, new, wrong):
    """(rows, non-zeros) of the new rows."""
    runs, ways = empty((MOST_SPACES, 2), np.int64), empty(MOST_SPACES, np.int64)
    order = empty(longest, np.int64)
    room = empty(MOST_TRIPLED, np.uint64), empty(longest, np.int64), empty(LETTERS + 1, np.int64), order
    term = empty(MOST_PARTS, np.int64)
    made = empty(MOST_PARTS, np.int64), empty(MOST_PARTS, np.uint64), empty(MOST_PARTS, np.float64)
    indptr, hashes, values = rows
    indices, new_values, origins = new
    new_indptr[0] = 0
    n = fine = 0
    for row in range(counts.size):
        wrong[row] = TOO_MANY if counts[row] < 0 else 0
        if counts[row] < 0:
            continue
        for k in range(indptr[row], indptr[row + 1]):
            indices[n] = np.uint64(hashes[k]) & mask
            new_values[n] = values[k]
            origins[n] = -1
            origins[n, 0] = k
            n += 1
        if counts[row] and pairs.shape[0]:
            n, bad = put_pairs(rows, keys, pairs, mask, row, runs, ways, n, new)
            wrong[row] = max(wrong[row], bad)
        if counts[row] and triples.shape[0]:
            n, bad = put_triples(rows, keys, triples, mask, row, room, term, n, new, made)
            wrong[row] = max(wrong[row], bad)
        if counts[row] and terms.shape[0]:
            n, bad = put_terms(rows, letters, terms, mask, row, room, n, new, made)
            wrong[row] = max(wrong[row], bad)
        if wrong[row]:
            n = new_indptr[fine]
        else:
            fine += 1
            new_indptr[fine] = n
    return fine, n
