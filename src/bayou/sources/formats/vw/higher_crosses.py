"""Kernels for crosses of three or more namespaces, and for interactions like VW's -q. See `reader` for the rules.

A term is a list of groups: namespaces by their hashes, or first letters. It gives a row every choice of one feature per
group, in the order of the line; if a term has a group twice, the second choice does not precede the first.
"""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import LARGEST_VALUE, address_of, load_uint8
from bayou.recipe.crosses import MAX_ROW_CROSSES
from bayou.recipe.hashing import cross_keys
from bayou.sources.formats.vw.pairs import TOO_LARGE, TOO_MANY, takes_part

# Maximum number of namespaces of a line that take part in crosses of three.
MOST_TRIPLED = 1 << 7
LETTERS = 256
_BLANK = 32
# The possible orders of three namespaces.
_ORDERS = np.array([[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])


@kernel
def drop_letters(data, spaces, dropped, indptr, features):
    """Drop the features of namespaces with these first letters, and return the number of features left."""
    indices, values, name_spans = features
    base = address_of(data)
    n = k = 0
    for row in range(indptr.size - 1):
        while k < indptr[row + 1]:
            if not dropped[max(load_uint8(base + spaces[k]), _BLANK)]:
                indices[n], values[n], name_spans[n], spaces[n] = indices[k], values[k], name_spans[k], spaces[k]
                n += 1
            k += 1
        indptr[row + 1] = n
    return n


@kernel
def _order_of(rules, keys):
    """Return the index in _ORDERS of how the first matching rule crosses three namespaces; -1 if none matches."""
    for r in range(rules.shape[0]):
        for order in range(6):
            fits = True
            for position in range(3):
                fits &= rules[r, position, 1] or rules[r, position, 0] == keys[_ORDERS[order, position]]
            if fits:
                return order
    return -1


@kernel
def _find_spaces(keys, rules, start, stop, namespaces):
    """Find the namespaces of a row that take part in crosses, ordered by hash, and return their number.

    If `namespaces` cannot hold all of them, return its capacity plus 1.
    """
    count = 0
    for k in range(start, stop):
        key = keys[k]
        if k > start and key == keys[k - 1]:
            continue
        slot = 0
        while slot < count and namespaces[slot] < key:
            slot += 1
        if (slot < count and namespaces[slot] == key) or not takes_part(rules, key):
            continue
        if count == namespaces.size:
            return count + 1
        for k2 in range(count, slot, -1):
            namespaces[k2] = namespaces[k2 - 1]
        namespaces[slot] = key
        count += 1
    return count


@kernel
def _sort_by_group(groups, start, n_groups, starts, order):
    """Sort a row's features by group: order[starts[g] : starts[g + 1]] are those of group g."""
    starts[: n_groups + 1] = 0
    for k in range(groups.size):
        if groups[k] >= 0:
            starts[groups[k] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    for k in range(groups.size):
        if groups[k] >= 0:
            order[starts[groups[k]]] = start + k
            starts[groups[k]] += 1
    for g in range(n_groups, 0, -1):
        starts[g] = starts[g - 1]
    starts[0] = 0


@kernel
def arrange_spaces(indptr, keys, rules, row, scratch):
    """Sort a row's features by namespace, and return the number of namespaces; more than MOST_TRIPLED if too many."""
    namespaces, groups, starts, order = scratch
    start, stop = indptr[row], indptr[row + 1]
    count = _find_spaces(keys, rules, start, stop, namespaces)
    if count > MOST_TRIPLED:
        return count
    for k in range(start, stop):
        groups[k - start] = -1
        for g in range(count):
            if namespaces[g] == keys[k]:
                groups[k - start] = g
    _sort_by_group(groups[: stop - start], start, count, starts, order)
    return count


@kernel
def arrange_letters(indptr, letters, row, scratch):
    """Sort a row's features by the first letters of their namespaces."""
    _, groups, starts, order = scratch
    start, stop = indptr[row], indptr[row + 1]
    for k in range(start, stop):
        groups[k - start] = letters[k]
    _sort_by_group(groups[: stop - start], start, LETTERS, starts, order)


@kernel
def _put_term(rows, mask, term, starts, order, n, tried, new, made):
    """Write the crosses of a term from position n on, and return (next position, number of crosses tried, error code).

    It writes none if there would be more than MAX_ROW_CROSSES, including those `tried` before.
    """
    _, hashes, values = rows
    indices, new_values, origins = new
    cursors, keys, sizes = made
    # Phase 1: the number of choices; of a group that occurs again, those that do not precede the earlier choice.
    n_parts = again = 0
    choices = 1
    while n_parts < term.size and term[n_parts] >= 0 and 0 < choices <= MAX_ROW_CROSSES:
        again = again + 1 if n_parts > 0 and term[n_parts] == term[n_parts - 1] else 0
        choices = choices * (starts[term[n_parts] + 1] - starts[term[n_parts]] + again) // (again + 1)
        n_parts += 1
    tried += choices
    if choices == 0 or tried > MAX_ROW_CROSSES:
        return n, tried, TOO_MANY if choices else 0
    # Phase 2: the choices, depth first.
    error = depth = 0
    cursors[0] = starts[term[0]]
    while depth >= 0:
        if cursors[depth] == starts[term[depth] + 1]:
            depth -= 1
            cursors[max(depth, 0)] += 1
            continue
        feature = order[cursors[depth]]
        key, value = np.uint64(hashes[feature]), np.float64(values[feature])
        if depth > 0:
            key, value = cross_keys(keys[depth - 1], key, hashes.itemsize == 8), value * sizes[depth - 1]
            if not abs(value) <= LARGEST_VALUE:
                error = TOO_LARGE
        if depth < n_parts - 1:
            keys[depth], sizes[depth] = key, value
            depth += 1
            cursors[depth] = cursors[depth - 1] if term[depth] == term[depth - 1] else starts[term[depth]]
            continue
        indices[n] = key & mask
        new_values[n] = value
        origins[n] = -1
        for position in range(n_parts):
            origins[n, position] = order[cursors[position]]
        n += new_values[n] != 0
        cursors[depth] += 1
    return n, tried, error


@kernel
def put_triples(rows, keys, rules, mask, row, scratch, term, n, tried, new, made):
    """Write a row's crosses of three namespaces from position n on, and return what `_put_term` returns."""
    count = arrange_spaces(rows[0], keys, rules, row, scratch)
    if count > MOST_TRIPLED:
        return n, MAX_ROW_CROSSES + 1, TOO_MANY
    namespaces, _, starts, order = scratch
    error = 0
    for x in range(count):
        for y in range(x + 1, count):
            for z in range(y + 1, count):
                order_index = _order_of(rules, (namespaces[x], namespaces[y], namespaces[z]))
                if order_index < 0:
                    continue
                for position in range(3):
                    term[position] = (x, y, z)[_ORDERS[order_index, position]]
                n, tried, term_error = _put_term(rows, mask, term[:3], starts, order, n, tried, new, made)
                error = max(error, term_error)
        if tried > MAX_ROW_CROSSES:
            break
    return n, tried, error


@kernel
def put_terms(rows, letters, terms, mask, row, scratch, n, tried, new, made):
    """Write a row's crosses of terms of first letters from position n on, and return what `_put_term` returns."""
    arrange_letters(rows[0], letters, row, scratch)
    error = 0
    for t in range(terms.shape[0]):
        n, tried, term_error = _put_term(rows, mask, terms[t], scratch[2], scratch[3], n, tried, new, made)
        error = max(error, term_error)
    return n, tried, error
