"""Kernels that assemble features, stored column by column, into CSR rows and add crosses."""

from __future__ import annotations

import numpy as np

from bayou.kernels.allocate import empty, zeros
from bayou.kernels.compiling import kernel
from bayou.recipe.crosses import MAX_ROW_CROSSES, MOST_PARTS
from bayou.recipe.hashing import cross_keys
from bayou.sources.table.cells import MAX_ROW_FEATURES, TOO_MANY_FEATURES


@kernel
def transpose(slots, mask, indices):
    """Write `indices` row by row from slots that have a feature in every row, in tiles that fit the cache."""
    width, n = slots.shape
    for first in range(0, n, 128):
        last = min(first + 128, n)
        for s in range(width):
            for i in range(first, last):
                indices[i * width + s] = slots[s, i] & mask


@kernel
def count(plan, slots, rows, wrong):
    """Return (number of features, longest row before crosses, number of bad rows), marking oversized rows as bad."""
    value_rows, terms = plan.value_rows, plan.terms
    values, word_rows, word_ends = slots.values, slots.word_rows, slots.word_ends
    width = value_rows.size
    ends = zeros(width + 1, np.int64)
    total = 0
    longest = 0
    left_out = 0
    for i in range(rows.size):
        k = 0
        for s in range(width):
            if word_rows[s] >= 0:
                k += word_ends[word_rows[s], i + 1] - word_ends[word_rows[s], i]
            else:
                k += value_rows[s] < 0 or values[value_rows[s], i] != 0.0
            ends[s + 1] = k
        longest = max(longest, k)
        crossed = 0
        for t in range(terms.shape[0]):
            product = 1
            for part in range(0, terms.shape[1], 2):
                if terms[t, part] >= 0:
                    product = min(product * (ends[terms[t, part + 1]] - ends[terms[t, part]]), MAX_ROW_CROSSES + 1)
            crossed += product
            if crossed > MAX_ROW_CROSSES:
                break
        if k > MAX_ROW_FEATURES or crossed > MAX_ROW_CROSSES:
            wrong[rows[i]] = TOO_MANY_FEATURES
        left_out += wrong[rows[i]] != 0
        total += k + crossed
    return total, longest, left_out


@kernel
def assemble(plan, slots, longest, indptr, indices, out, origins, slot_groups, groups):
    """Write the rows, each with its crosses after its other features, and return the number of features written.

    origins, unless empty, receives (slot, word) for each part of a feature; parts that it does not have are -1, and
    only crosses have more than one. groups, unless empty, receives the group of each feature's slot; entries of crosses
    are not changed.
    """
    value_rows, terms, mask, exact = plan.value_rows, plan.terms, plan.mask, plan.exact
    values, word_rows, word_ends, words = slots.values, slots.word_rows, slots.word_ends, slots.words
    slot_keys = slots.keys
    width, n = slot_keys.shape
    keys, sizes = empty(longest, np.uint64), empty(longest, np.float64)
    places = empty((longest, 2), np.int32)
    ends = zeros(width + 1, np.int64)
    chosen = empty(MOST_PARTS, np.int64)
    k = 0
    indptr[0] = 0
    for i in range(n):
        size = 0
        for s in range(width):
            value = 1.0 if value_rows[s] < 0 else values[value_rows[s], i]
            if word_rows[s] >= 0:
                for w in range(word_ends[word_rows[s], i], word_ends[word_rows[s], i + 1]):
                    keys[size] = words[w]
                    sizes[size] = value
                    places[size, 0] = s
                    places[size, 1] = w
                    size += 1
            elif value != 0.0:
                keys[size] = slot_keys[s, i]
                sizes[size] = value
                places[size, 0] = s
                places[size, 1] = 0
                size += 1
            ends[s + 1] = size
        for m in range(size):
            indices[k] = keys[m] & mask
            out[k] = sizes[m]
            if origins.size:
                origins[k] = -1
                origins[k, 0], origins[k, 1] = places[m, 0], places[m, 1]
            if groups.size:
                groups[k] = slot_groups[places[m, 0]]
            k += 1
        for t in range(terms.shape[0]):
            if terms.shape[1] > 4 and terms[t, 4] >= 0:
                k = _put_term(exact, mask, terms[t], ends, keys, sizes, places, k, indices, out, origins, chosen)
                continue
            for a in range(ends[terms[t, 0]], ends[terms[t, 1]]):
                for b in range(ends[terms[t, 2]], ends[terms[t, 3]]):
                    indices[k] = cross_keys(keys[a], keys[b], exact) & mask
                    out[k] = sizes[a] * sizes[b]
                    if origins.size:
                        origins[k] = -1
                        origins[k, 0], origins[k, 1] = places[a, 0], places[a, 1]
                        origins[k, 2], origins[k, 3] = places[b, 0], places[b, 1]
                    k += 1
        indptr[i + 1] = k
    return k


@kernel
def _put_term(exact, mask, term, ends, keys, sizes, places, k, indices, out, origins, chosen):
    """Write the crosses of one term, a feature for each choice of one feature per column; return the next offset.

    Crosses are written from offset k on. `chosen` is scratch: the feature that is chosen of each column.
    """
    parts = 0
    while 2 * parts < term.size and term[2 * parts] >= 0:
        chosen[parts] = ends[term[2 * parts]]
        if chosen[parts] == ends[term[2 * parts + 1]]:
            return k
        parts += 1
    while True:
        key, value = keys[chosen[0]], sizes[chosen[0]]
        for part in range(1, parts):
            key = cross_keys(key, keys[chosen[part]], exact)
            value *= sizes[chosen[part]]
        indices[k] = key & mask
        out[k] = value
        if origins.size:
            origins[k] = -1
            for part in range(parts):
                origins[k, 2 * part], origins[k, 2 * part + 1] = places[chosen[part], 0], places[chosen[part], 1]
        k += 1
        part = parts - 1
        chosen[part] += 1
        while chosen[part] == ends[term[2 * part + 1]]:
            if part == 0:
                return k
            chosen[part] = ends[term[2 * part]]
            part -= 1
            chosen[part] += 1
