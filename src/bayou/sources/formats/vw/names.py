"""Kernels for names in VW text: where they stop, their hashes, and which of them are new."""

# ruff: noqa: ANN201 (kernels: Numba infers their types)

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.hash_lanes import LANES, hash_lanes
from bayou.kernels.parse_text import address_of, digits, load_uint8, trailing_zeros
from bayou.kernels.text_stops import BLANK, COLON, ONE, WIDE, others_at, stops_at
from bayou.recipe.groups import group_of
from bayou.recipe.hashing import id64, murmur3
from bayou.recipe.numbering import is_new

# How names become features: digits are indices and other names are hashed; all are hashed; all have 64-bit ids.
NUMBERS, ALL_HASHED, EXACT = 0, 1, 2
ALL_32, ALL_64 = np.uint64(2**32 - 1), np.uint64(2**64 - 1)
# Stored instead of a name's offsets if the name is the index of its feature, and need not be reported.
OWN_NAME = -1


@kernel
def _name_end(address):
    """Return the address after the name that starts here; the same address if there is none."""
    while stops_at(address) == 0:
        address += WIDE
    return address + trailing_zeros(stops_at(address))


# --- hashes of names ------------------------------------------------------------------------------------------------


@kernel
def _all_digits(address, length):
    while length > 32 and others_at(address) == 0:
        address += 32
        length -= 32
    return trailing_zeros(others_at(address) | np.uint64(1 << 32)) >= length


@kernel
def _whole_number(address, length):
    """Return the integer that `length` digits make, modulo 2^64."""
    value, count = digits(address)
    for k in range(count, length):
        value = value * np.uint64(10) + np.uint64(load_uint8(address + k) - 48)
    return value


@kernel
def hash_name(address, length, seed, way):
    """Return the hash of a name, or its id in exact mode, with its namespace's hash or id as the seed."""
    if way == EXACT:
        return id64(address, length, seed)
    if way == NUMBERS and _all_digits(address, length):
        return (_whole_number(address, length) + seed) & ALL_32
    return np.uint64(murmur3(address, length, np.uint32(seed)))


@kernel
def hash_names(data, indices, name_spans, way, mask, alone):
    """Replace the seed in each feature's index by the hash of its name.

    With `alone`, if no pair needs names, the place of a name that is its feature's own index becomes OWN_NAME.
    """
    base = address_of(data)
    if way == EXACT:
        for k in range(indices.size):
            start, stop = name_spans[k] & 0xFFFFFFFF, name_spans[k] >> 32
            indices[k] = id64(base + start, stop - start, np.uint64(indices[k]))
        return
    for first in range(0, indices.size, LANES):
        if first + LANES <= indices.size:
            left = hash_lanes(
                base, address_of(name_spans) + 8 * first, address_of(indices) + 4 * first, mask, way == NUMBERS
            )
        else:
            left = (ONE << np.uint64(indices.size - first)) - ONE
        while left:
            k = first + trailing_zeros(left)
            left &= left - ONE
            if name_spans[k] == OWN_NAME:
                continue
            start, stop = name_spans[k] & 0xFFFFFFFF, name_spans[k] >> 32
            if way == NUMBERS and _all_digits(base + start, stop - start):
                value = _whole_number(base + start, stop - start)
                if alone and indices[k] == 0 and value <= mask:
                    name_spans[k] = OWN_NAME
                indices[k] = (value + np.uint64(indices[k])) & mask
            else:
                indices[k] = np.uint64(murmur3(base + start, stop - start, np.uint32(indices[k]))) & mask


@kernel
def hash_spaces(data, spaces, way, keys):
    """Write the hash of each feature's namespace to `keys`."""
    base = address_of(data)
    for k in range(keys.size):
        if k and spaces[k] == spaces[k - 1]:
            keys[k] = keys[k - 1]
        else:
            length = _name_end(base + spaces[k]) - base - spaces[k]
            keys[k] = hash_name(base + spaces[k], length, np.uint64(0), way) if length else np.uint64(0)


@kernel
def groups_of_spaces(data, seeds, name_spans, spaces, way, named, groups):
    """Write the group of each feature's namespace, before names are hashed: a name's seed is then the namespace's hash.

    Exceptions: the seed of name:text is the name's hash, and features named by their index are in the namespace without
    a name.
    """
    base = address_of(data)
    nameless = group_of(np.uint64(0), named)
    last, group = np.int64(-1), nameless
    for k in range(groups.size):
        space = np.int64(spaces[k])
        if name_spans[k] == OWN_NAME:
            groups[k] = nameless
        elif space == last:
            groups[k] = group
        else:
            key = np.uint64(seeds[k])
            if load_uint8(base + (name_spans[k] & 0xFFFFFFFF) - 1) == COLON:
                length = _name_end(base + space) - base - space
                key = hash_name(base + space, length, np.uint64(0), way) if length else np.uint64(0)
            last, group = space, group_of(key, named)
            groups[k] = group


# --- names that are new ---------------------------------------------------------------------------------------------


@kernel
def count_new(indices, name_spans, bitmap):
    """Return the number of entries whose feature has no name yet. Features named by their index need none."""
    table, size, exact = address_of(bitmap), bitmap.size, bitmap.itemsize == 8
    news = 0
    for k in range(indices.size):
        if k < name_spans.size and name_spans[k] == OWN_NAME:
            continue
        news += is_new(table, size, exact, np.uint64(indices[k]))
    return news


@kernel
def describe_new(data, indices, names, origins, bitmap, recent, new_features, spans):
    """Fill in `NewNames`, with each new feature once or a few times, and return their number.

    origins[k] holds the features that feature k is made of; it is empty if there are no crosses.
    """
    name_spans, spaces = names
    base = address_of(data)
    count = 0
    for k in range(indices.size):
        if k < name_spans.size and name_spans[k] == OWN_NAME:
            continue
        index = np.uint64(indices[k])
        slot = index & np.uint64(recent.size - 1)
        if recent[slot] == index + ONE or not is_new(address_of(bitmap), bitmap.size, bitmap.itemsize == 8, index):
            continue
        recent[slot] = index + ONE
        new_features[count] = indices[k]
        spans[count] = -1
        for parent in range(origins.shape[1] if origins.size else 1):
            origin = origins[k, parent] if origins.size else k
            if origin < 0:
                continue
            space = np.int64(spaces[origin])
            end = _name_end(base + space) - base
            if end > space:
                spans[count, 4 * parent], spans[count, 4 * parent + 1] = space, end
            # For name:text, the place is that of the text.
            name = name_spans[origin] & 0xFFFFFFFF
            while load_uint8(base + name - 1) > BLANK:
                name -= 1
            spans[count, 4 * parent + 2], spans[count, 4 * parent + 3] = name, name_spans[origin] >> 32
        count += 1
    return count
