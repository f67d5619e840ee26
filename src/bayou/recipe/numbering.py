"""Numbering: consecutive feature indices in order of appearance, instead of hashing.

In exact mode parsers give every feature a 64-bit id (`hashing.id64`); here ids are mapped to rows of the table of
weights: 0 for the first feature of the stream, 1 for the next new one, and so on. No two ids share a row. Ids are
added in the order of the stream, so that indices do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayou.core.errors import BadInput, BadModel
from bayou.core.spelling import option
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import prefetch
from bayou.kernels.inlining import inlined
from bayou.kernels.parse_text import address_of, load_uint8, load_uint64
from bayou.recipe.feature_names import FeatureNames, NewNames

# The index of an id that was never seen.
UNKNOWN = np.uint32(2**32 - 1)

# Prefetch distance in ids: a large table does not fit into the cache.
_AHEAD = 16

_SMALLEST = 1 << 10
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


class Numbering:
    """Map from feature ids to indices, for at most `limit` ids.

    Attributes:
        limit: maximum number of features.
        table: uint64, a hash table of the ids (see `holds`), 0 in free slots. Parsers may look up ids while others are
            added: a parser that misses the latest ones only reports them as new.
        growing: whether new features get indices, as in learning; in predicting they are left out.

    >>> numbering = Numbering(limit=8)
    >>> numbering.add(np.uint64([50, 10, 50])), numbering.lookup(np.uint64([10, 99]))
    (array([0, 1, 0], dtype=uint32), array([         1, 4294967295], dtype=uint32))
    """

    def __init__(self, limit: int, growing: bool = True) -> None:
        self.limit = limit
        self.growing = growing
        self._count = 0
        self._ids = np.empty(_SMALLEST, np.uint64)  # by index
        self._numbers = np.empty(2 * _SMALLEST, np.uint32)  # indices, by slot of the table
        self.table = np.zeros(2 * _SMALLEST, np.uint64)

    def __len__(self) -> int:
        return self._count

    def replace_ids(self, block: Any) -> None:
        """Replace the ids of a parsed block by indices."""
        if self.growing:
            block.indices = self.add(block.indices)
        else:
            self._drop_unknown(block)
        if block.new_names is not None:
            block.new_names = self._numbered(block.new_names)

    def _numbered(self, new_names: NewNames) -> NewNames:
        """Return names with indices in place of ids, sorted by index, so that block boundaries do not matter.

        Features without an index are left out: their rows were dropped, or nothing is learned.
        """
        numbers = self.lookup(new_names.indices)
        order = np.argsort(numbers, kind="stable")
        order = order[numbers[order] != UNKNOWN]
        return new_names._replace(indices=numbers[order], spans=new_names.spans[order])

    def add(self, ids: np.ndarray) -> np.ndarray:
        """Return the index of each id; new ids get the next free ones. Raise BadInput if there are too many."""
        numbers = np.empty(len(ids), np.uint32)
        done = 0
        while True:
            room = min(len(self._ids), self.limit)
            done, self._count = _number(
                ids, numbers, done, self.table, self._numbers, self._ids, np.int64(self._count), np.int64(room)
            )
            if done == len(ids):
                return numbers
            if room == self.limit:
                raise BadInput(
                    f"the data have more than {self.limit} different features; "
                    f"use a larger table ({option('bits')}), or hash the names."
                )
            self._grow(2 * len(self._ids))

    def lookup(self, ids: np.ndarray) -> np.ndarray:
        """Return the index of each id, UNKNOWN if it has none."""
        numbers = np.empty(len(ids), np.uint32)
        _find(ids, numbers, self.table, self._numbers)
        return numbers

    def _drop_unknown(self, block: Any) -> None:
        """Replace the ids of a block by indices and drop features without one, for predicting."""
        block.indices = self.lookup(block.indices)
        is_numbered = block.indices != UNKNOWN
        if is_numbered.all():
            return
        block.indptr = np.concatenate(([0], np.cumsum(is_numbered)))[block.indptr]
        block.indices, block.values = block.indices[is_numbered], block.values[is_numbered]
        block.groups = None if block.groups is None else block.groups[is_numbered]

    def is_compatible(self, other: Numbering) -> bool:
        """Return whether each index that both have is of the same feature, so that weights can be merged."""
        both = min(len(self), len(other))
        return bool((self._ids[:both] == other._ids[:both]).all())

    def _grow(self, room: int) -> None:
        ids = np.empty(room, np.uint64)
        table, numbers = np.full(2 * room, 0, np.uint64), np.empty(2 * room, np.uint32)
        own_ids = self._ids[: self._count]
        _number(own_ids, np.empty(len(own_ids), np.uint32), 0, table, numbers, ids, np.int64(0), np.int64(room))
        # Threads that still read the old table find all that was in it.
        self._ids, self._numbers, self.table = ids, numbers, table

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the numbering as arrays, for a file."""
        return {"ids": self._ids[: self._count].copy()}

    @classmethod
    def from_arrays(cls, limit: int, arrays: Mapping[str, np.ndarray], growing: bool = True) -> Numbering:
        """Return the numbering from the result of `arrays`."""
        self = cls(limit, growing)
        try:
            ids = np.ascontiguousarray(arrays["ids"], np.uint64)
        except (KeyError, TypeError, ValueError):
            raise BadModel("the feature numbers are missing; the file is damaged.") from None
        if ids.ndim != 1 or len(ids) > limit or (ids == 0).any() or len(np.unique(ids)) != len(ids):
            raise BadModel("the feature numbers do not fit the model; the file is damaged.")
        room = _SMALLEST
        while room < len(ids):
            room *= 2
        self._ids, self._count = ids, len(ids)
        self._grow(room)
        return self


def known_features(names: FeatureNames | None, numbering: Numbering | None, exact: bool) -> np.ndarray:
    """Return the set of features that parsers need not report, for `is_new`.

    It is a bitmap (`FeatureNames.known`), or in exact mode a table of ids. It is empty if none need be reported,
    because names are not requested or their limits are reached.
    """
    if names is None or names.full or (exact and numbering is None):
        return np.empty(0, np.uint64 if exact else np.uint8)
    return numbering.table if exact and numbering is not None else names.known


@kernel
def is_new(address, size, exact, key):  # noqa: ANN201
    """Return whether a feature is not in the bitmap, or its id not in the table, at an address (`known_features`)."""
    if exact:
        return not holds(address, size - 1, key)
    return not (load_uint8(address + np.int64(key >> np.uint64(3))) >> np.int64(key & np.uint64(7))) & 1


@kernel
def first_place(last, key):  # noqa: ANN201
    """Return the slot at which the search for an id begins, in a table of last + 1 slots (a power of two).

    Ids may be consecutive numbers: multiplying by the golden ratio spreads them over the table, which avoids long
    probe sequences.
    """
    return np.int64((key * _GOLDEN) >> np.uint64(32)) & last


@kernel
def place_of(table, last, key):  # noqa: ANN201
    """Return the slot of an id, or the free slot for it, in a table of last + 1 slots at an address."""
    at = first_place(last, key)
    while True:
        there = load_uint64(table + 8 * at)
        if there == key or there == 0:
            return at
        at = (at + 1) & last


@kernel
def holds(table, last, key):  # noqa: ANN201
    """Return whether an id is in the table of last + 1 slots at an address."""
    return load_uint64(table + 8 * place_of(table, last, key)) == key


@inlined
def _ask_for(ids, k, table, numbers):
    """Prefetch the slot at which the search for the k-th id begins, if there are that many ids."""
    if k < ids.size:
        place = first_place(table.size - 1, ids[k])
        prefetch(table, place)
        prefetch(numbers, place)


@kernel
def _number(ids, out, done, table, numbers, ids_by_index, count, room):
    """Fill `out` with indices; return (number of ids done, number of indices). Stops early if the table is full."""
    address = address_of(table)
    for k in range(done, ids.size):
        _ask_for(ids, k + _AHEAD, table, numbers)
        at = place_of(address, table.size - 1, ids[k])
        if table[at] == 0:
            if count == room:
                return k, count
            numbers[at] = count
            ids_by_index[count] = ids[k]
            table[at] = ids[k]
            count += 1
        out[k] = numbers[at]
    return ids.size, count


@kernel
def _find(ids, out, table, numbers):
    address = address_of(table)
    for k in range(ids.size):
        _ask_for(ids, k + _AHEAD, table, numbers)
        at = place_of(address, table.size - 1, ids[k])
        out[k] = numbers[at] if table[at] != 0 else UNKNOWN
