"""Crosses of rows, appended after the rows' own features: `pairs`, then `terms`.

Rules as kernels take them: pairs are uint64, one row each: the first namespace's key, whether it is "*", and the same
for the second; triples (n, 3, 2) are the same for three; terms are int64, one row each: first letters, padded with -1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_VALUE
from bayou.recipe.crosses import ANY, MAX_ROW_CROSSES, MOST_PARTS, written_out
from bayou.recipe.recipe import Recipe
from bayou.sources.formats.vw.higher_crosses import LETTERS, MOST_TRIPLED, put_terms, put_triples
from bayou.sources.formats.vw.pairs import MAX_NAMESPACES, TOO_LARGE, TOO_MANY, append_pairs
from bayou.sources.reading.buffers import ThreadBuffers
from bayou.sources.reading.parsed_block import BadLine, ParsedBlock

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
        self._pairs = np.array(rules[2], np.uint64).reshape(-1, 2, 2)
        self._triples = np.array(rules[3], np.uint64).reshape(-1, 3, 2)
        self._interactions = recipe.interactions
        self._terms: dict[bytes, np.ndarray] = {}  # by the set of first letters
        self._mask = mask
        self._scratch = ThreadBuffers()
        self._room = 2  # features with crosses that there is room for, as a multiple of a block's own

    def add(self, parsed: ParsedBlock, keys: np.ndarray, letters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Append to each row the crosses of its features, which are given as hashes (uint32) or ids (uint64).

        Args:
            parsed: updated in place: each row's features are followed by its pairs (by earlier, then later feature),
                its crosses of three, and its interactions. Rows with too many crosses, or too large a product, are
                reported as bad and removed. Crosses belong to group 0.
            keys: uint64, the key of each feature's namespace.
            letters: uint8, the first letter of each feature's namespace.

        Returns:
            origins: int32, the features from which each feature is formed, padded with -1; and a mask of the rows kept.
        """
        indptr, hashes, values = rows = parsed.indptr, parsed.indices, parsed.values
        rules = self._pairs, self._triples, self._terms_of(letters)
        max_row_length = int(np.diff(indptr).max(initial=0))
        n_parents = max(3 if len(self._triples) else 2, rules[2].shape[1])
        new_indptr, errors = np.empty_like(indptr), np.empty(len(indptr) - 1, np.int64)
        size = -1
        while size < 0:
            capacity, take = self._room * len(hashes) + MAX_ROW_CROSSES, self._scratch.take
            indices, values = take("indices", capacity, hashes.dtype), take("values", capacity, values.dtype)
            origins = take("origins", (capacity, n_parents), np.int32)
            new = indices, values, origins
            n_rows, size = _fill(rows, keys, letters, rules, self._mask, max_row_length, new_indptr, new, errors)
            self._room *= 1 if size >= 0 else 2
        origins = origins[:size]
        parsed.indptr = new_indptr[: n_rows + 1]
        parsed.indices, parsed.values = indices[:size].copy(), values[:size].copy()
        if parsed.groups is not None:
            parsed.groups = np.where(origins[:, 1] < 0, parsed.groups[origins[:, 0]], np.uint8(0))
        is_kept = errors == 0
        if n_rows < len(errors):
            bad_lines = [BadLine(int(parsed.positions[row]), 0, WHAT[errors[row]]) for row in np.flatnonzero(errors)]
            parsed.note(bad_lines)
            parsed.keep_rows(is_kept)
        return origins, is_kept

    def _terms_of(self, letters: np.ndarray) -> np.ndarray:
        """Return the interactions of data with these first letters, padded with -1."""
        seen = np.bincount(letters, minlength=LETTERS) > 0 if self._interactions else np.zeros(0, np.bool_)
        table = self._terms.get(seen.tobytes())
        if table is None:
            terms = written_out(self._interactions, map(chr, np.flatnonzero(seen)))
            table = np.full((len(terms), max(map(len, terms), default=0)), -1)
            for row, term in zip(table, terms, strict=True):
                row[: len(term)] = [ord(letter) for letter in term]
            self._terms[seen.tobytes()] = table
        return table


@kernel
def _fill(rows, keys, letters, rules, mask, max_row_length, new_indptr, new, errors):
    """Write the rows with their crosses, and return the numbers of rows and nonzeros; the latter is -1 without room."""
    pairs, triples, terms = rules
    runs, ways = empty((MAX_NAMESPACES, 2), np.int64), empty(MAX_NAMESPACES, np.int64)
    order = empty(max_row_length, np.int64)
    scratch = empty(MOST_TRIPLED, np.uint64), empty(max_row_length, np.int64), empty(LETTERS + 1, np.int64), order
    term = empty(MOST_PARTS, np.int64)
    made = empty(MOST_PARTS, np.int64), empty(MOST_PARTS, np.uint64), empty(MOST_PARTS, np.float64)
    indptr, hashes, values = rows
    indices, new_values, origins = new
    new_indptr[0] = 0
    n = n_rows = 0
    for row in range(errors.size):
        start, stop = indptr[row], indptr[row + 1]
        if n + stop - start + MAX_ROW_CROSSES > indices.size:
            return n_rows, -1
        for k in range(start, stop):
            indices[n] = np.uint64(hashes[k]) & mask
            new_values[n] = values[k]
            origins[n] = -1
            origins[n, 0] = k
            n += 1
        tried = error = 0
        errors[row] = 0
        if pairs.shape[0]:
            n, tried, errors[row] = append_pairs(rows, keys, pairs, mask, row, runs, ways, n, new)
        if triples.shape[0] and tried <= MAX_ROW_CROSSES:
            n, tried, error = put_triples(rows, keys, triples, mask, row, scratch, term, n, tried, new, made)
            errors[row] = max(errors[row], error)
        if terms.shape[0] and tried <= MAX_ROW_CROSSES:
            n, tried, error = put_terms(rows, letters, terms, mask, row, scratch, n, tried, new, made)
            errors[row] = max(errors[row], error)
        if errors[row]:
            n = new_indptr[n_rows]
        else:
            n_rows += 1
            new_indptr[n_rows] = n
    return n_rows, n
