"""Crosses of rows, appended after the rows' own features: `pairs`, then `terms`.

Rules as kernels take them: pairs are uint64, one row each: the first namespace's key, whether it is "*", and the same
for the second; triples (n, 3, 2) are the same for three; terms are int64, one row each: first letters, padded with -1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_VALUE
from bayou.recipe.crosses import ANY, MAX_ROW_CROSSES, MOST_PARTS, written_out
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.vw.higher_crosses import (
    LETTERS,
    MOST_TRIPLED,
    count_terms,
    count_triples,
    put_terms,
    put_triples,
)
from bayou.sources.formats.vw.pairs import MAX_NAMESPACES, TOO_LARGE, TOO_MANY, append_pairs, count_pairs
from bayou.sources.reading.parsed_block import BadLine, ParsedBlock, kind_of

WHAT = {
    TOO_MANY: f"expected at most {MAX_ROW_CROSSES} pairs, of at most {MAX_NAMESPACES} namespaces ({MOST_TRIPLED} for "
    "crosses of three), from crosses",
    TOO_LARGE: f"expected crosses of features whose product is at most {LARGEST_VALUE:g} in size",
}


class VWCrosser:
    """The crosses of a recipe. `key_of` returns the key of a namespace by name; `mask` selects the bits of hashes."""

    def __init__(self, recipe: Recipe, key_of: Callable[[str], int], mask: np.uint64) -> None:
        rules: dict[int, list[list[tuple[int, bool]]]] = {2: [], 3: []}
        for names in recipe.cross:
            rules[len(names)].append([(0, True) if name == ANY else (key_of(name), False) for name in names])
        self._pairs = np.array(rules[2], np.uint64).reshape(-1, 4)
        self._triples = np.array(rules[3], np.uint64).reshape(-1, 3, 2)
        self._interactions = recipe.interactions
        self._terms: dict[bytes, np.ndarray] = {}  # by the set of first letters
        self._mask = mask

    def add(self, parsed: ParsedBlock, keys: np.ndarray, letters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Append its crosses to each row of features, which are given by their hashes (uint32) or ids (uint64).

        Args:
            parsed: updated to each row's features, then its pairs, ordered by their earlier and then their later
                feature, then crosses of three, then those of terms. Rows with too many of them become bad. Crosses
                have group 0.
            keys: uint64, the key of each feature's namespace.
            letters: uint8, the first letter of each feature's namespace.

        Returns:
            origins: int32, the features that each feature is made of, padded with -1; and a mask of the rows left.
        """
        indptr, hashes, values = rows = parsed.indptr, parsed.indices, parsed.values
        terms = self._terms_of(letters)
        rules = self._pairs, self._triples, terms
        n = len(indptr) - 1
        counts, wrong = np.empty(n, np.int64), np.empty(n, np.int64)
        longest = int(np.diff(indptr).max(initial=0))
        _count(indptr, keys, letters, *rules, longest, counts)
        room = len(hashes) + int(counts[counts > 0].sum())
        parts = max(3 if len(self._triples) else 2, terms.shape[1])
        new = np.empty(room, hashes.dtype), np.empty(room, values.dtype), np.empty((room, parts), np.int32)
        new_indptr = np.empty(n + 1, np.int64)
        fine, size = _fill(rows, keys, letters, *rules, self._mask, longest, counts, new_indptr, new, wrong)
        parsed.indptr, parsed.indices, parsed.values = new_indptr[: fine + 1], new[0][:size], new[1][:size]
        origins = new[2][:size]
        if parsed.groups is not None:
            parsed.groups = np.where(origins[:, 1] < 0, parsed.groups[origins[:, 0]], np.uint8(0))
        kept = wrong == 0
        if fine < n:
            more = [BadLine(int(parsed.positions[row]), 0, WHAT[wrong[row]]) for row in np.flatnonzero(wrong)]
            parsed.note(more, Counter(kind_of(line.reason) for line in more))
            parsed.keep_rows(kept)
        return origins, kept

    def _terms_of(self, letters: np.ndarray) -> np.ndarray:
        """Return the interactions of data with these first letters, padded with -1."""
        seen = np.bincount(letters, minlength=LETTERS) > 0 if self._interactions else np.zeros(0, np.bool_)
        found = self._terms.get(seen.tobytes())
        if found is None:
            terms = written_out(self._interactions, map(chr, np.flatnonzero(seen)))
            found = np.full((len(terms), max(map(len, terms), default=0)), -1)
            for row, term in zip(found, terms, strict=True):
                row[: len(term)] = [ord(letter) for letter in term]
            self._terms[seen.tobytes()] = found
        return found


@kernel
def _count(indptr, keys, letters, pairs, triples, terms, longest, counts):
    """Write an upper bound on the number of crosses of each row to `counts`; -1 if that is too many."""
    runs = empty((MAX_NAMESPACES, 2), np.int64)
    order = empty(longest, np.int64)
    room = empty(MOST_TRIPLED, np.uint64), empty(longest, np.int64), empty(LETTERS + 1, np.int64), order
    term = empty(MOST_PARTS, np.int64)
    for row in range(counts.size):
        total = count_pairs(indptr, keys, pairs, row, runs) if pairs.shape[0] else 0
        if triples.shape[0]:
            total += count_triples(indptr, keys, triples, row, room, term)
        if terms.shape[0]:
            total += count_terms(indptr, letters, terms, row, room)
        counts[row] = total if total <= MAX_ROW_CROSSES else -1


@kernel
def _fill(rows, keys, letters, pairs, triples, terms, mask, longest, counts, new_indptr, new, wrong):
    """Write the rows with their crosses, and return the numbers of rows and nonzeros."""
    runs, ways = empty((MAX_NAMESPACES, 2), np.int64), empty(MAX_NAMESPACES, np.int64)
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
            n, bad = append_pairs(rows, keys, pairs, mask, row, runs, ways, n, new)
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
