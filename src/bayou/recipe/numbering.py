"""Numbering: consecutive numbers for features in the order in which they appear, instead of hashing.

In the exact mode parsers give every feature an id of 64 bits (`hashing.id64`); here ids become the rows of a table of
weights: 0 for the first feature of the stream, 1 for the next new one, and so on. No two ever share a row. It runs
in the order of the stream, so that numbers do not depend on threads.
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
from bayou.kernels.scan import address_of, byte_at, word_at
from bayou.recipe.feature_names import Names, NewNames

# The number of an id that was never seen.
UNKNOWN = np.uint32(2**32 - 1)

# Memory is asked for so many ids before they are looked up: a large table is in no cache.
_AHEAD = 16

_SMALLEST = 1 << 10
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


class Numbering:
    """Numbers for ids, at most `limit` of them.

    Attributes:
        limit: how many features there can be.
        table: uint64, the ids at their places (see `holds`), 0 where there is none. Parsers may look ids up in it
            while others are added: one that misses the latest only takes them for new.

        growing: whether new features get numbers, as when a model learns; when it predicts they are left out.

    >>> numbering = Numbering(limit=8)
    >>> numbering.add(np.uint64([50, 10, 50])), numbering.find(np.uint64([10, 99]))
    (array([0, 1, 0], dtype=uint32), array([         1, 4294967295], dtype=uint32))
    """

    def __init__(self, limit: int, growing: bool = True) -> None:
        self.limit = limit
        self.growing = growing
        self._count = 0
        self._ids = np.empty(_SMALLEST, np.uint64)  # by number
        self._numbers = np.empty(2 * _SMALLEST, np.uint32)  # by place in the table
        self.table = np.zeros(2 * _SMALLEST, np.uint64)

    def __len__(self) -> int:
        return self._count

    def number(self, block: Any) -> None:
        """Put numbers in the place of a parsed block's ids."""
        if self.growing:
            block.indices = self.add(block.indices)
        else:
            self._keep_known(block)
        if block.new_names is not None:
            block.new_names = self._numbered(block.new_names)

    def _numbered(self, found: NewNames) -> NewNames:
        """Names of features by number, in the order of the numbers, which no cutting into blocks changes.

        Those without a number are left out: they were in rows that were dropped, or nothing is learned.
        """
        numbers = self.find(found.indices)
        order = np.argsort(numbers, kind="stable")
        order = order[numbers[order] != UNKNOWN]
        return found._replace(indices=numbers[order], spans=found.spans[order])

    def add(self, ids: np.ndarray) -> np.ndarray:
        """The number of each id; new ids get the next ones."""
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
                    f"use a larger table ({option('bits')}), or let names be hashed."
                )
            self._grow(2 * len(self._ids))

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The number of each id, UNKNOWN if it has none."""
        numbers = np.empty(len(ids), np.uint32)
        _find(ids, numbers, self.table, self._numbers)
        return numbers

    def _keep_known(self, block: Any) -> None:
        """Numbers in the place of ids; features without one are left out, for predicting."""
        block.indices = self.find(block.indices)
        known = block.indices != UNKNOWN
        if known.all():
            return
        block.indptr = np.concatenate(([0], np.cumsum(known)))[block.indptr]
        block.indices, block.values = block.indices[known], block.values[known]
        block.groups = None if block.groups is None else block.groups[known]

    def agrees(self, other: Numbering) -> bool:
        """Whether no number means one feature here and another there, so that tables of weights can be merged."""
        both = min(len(self), len(other))
        return bool((self._ids[:both] == other._ids[:both]).all())

    def _grow(self, room: int) -> None:
        ids = np.empty(room, np.uint64)
        ids[: self._count] = self._ids[: self._count]
        table, numbers = np.full(2 * room, 0, np.uint64), np.empty(2 * room, np.uint32)
        _fill(ids, np.int64(self._count), table, numbers)
        # Whoever still reads the old table finds all that was in it.
        self._ids, self._numbers, self.table = ids, numbers, table

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays, for a file."""
        return {"ids": self._ids[: self._count].copy()}

    @classmethod
    def from_arrays(cls, limit: int, arrays: Mapping[str, np.ndarray], growing: bool = True) -> Numbering:
        """Back from `arrays`."""
        self = cls(limit, growing)
        try:
            ids = np.ascontiguousarray(arrays["ids"], np.uint64)
        except (KeyError, TypeError, ValueError):
            raise BadModel("the numbers of features are missing; the file is damaged.") from None
        if ids.ndim != 1 or len(ids) > limit or (ids == 0).any() or len(np.unique(ids)) != len(ids):
            raise BadModel("the numbers of features do not fit the model; the file is damaged.")
        room = _SMALLEST
        while room < len(ids):
            room *= 2
        self._ids, self._count = ids, len(ids)
        self._grow(room)
        return self


def known_features(names: Names | None, numbering: Numbering | None, exact: bool) -> np.ndarray:
    """Return what tells parsers which features need not be reported, for `is_new`.

    It is a bitmap (`Names.known`), or in the exact mode a table of ids; empty if none need be, as while nobody asks for
    names, or there is no room for more.
    """
    if names is None or names.full or (exact and numbering is None):
        return np.empty(0, np.uint64 if exact else np.uint8)
    return numbering.table if exact and numbering is not None else names.known


@kernel
def is_new(known, size, exact, key):  # noqa: ANN201
    """Whether a feature's bit is not set in a bitmap, or its id not in a table, at an address (`known_features`)."""
    if exact:
        return not holds(known, size - 1, key)
    return not (byte_at(known + np.int64(key >> np.uint64(3))) >> np.int64(key & np.uint64(7))) & 1


@kernel
def first_place(last, key):  # noqa: ANN201
    """Where an id is looked for first in a table of last + 1 places (a power of two).

    Ids may be numbers in a row: multiplied by the golden ratio they are spread over the table, where else those that
    come round again would have to pass all of them.
    """
    return np.int64((key * _GOLDEN) >> np.uint64(32)) & last


@kernel
def place_of(table, last, key):  # noqa: ANN201
    """Where an id stands in a table of last + 1 places at an address, or the free place for it."""
    at = first_place(last, key)
    while True:
        there = word_at(table + 8 * at)
        if there == key or there == 0:
            return at
        at = (at + 1) & last


@kernel
def holds(table, last, key):  # noqa: ANN201
    """Whether an id stands in the table at an address."""
    return word_at(table + 8 * place_of(table, last, key)) == key


@inlined
def _ask_for(ids, k, table, numbers):
    """Have memory bring the place where an id is looked for, if there are so many."""
    if k < ids.size:
        place = first_place(table.size - 1, ids[k])
        prefetch(table, place)
        prefetch(numbers, place)


@kernel
def _number(ids, out, done, table, numbers, known, count, room):
    """(ids that got a number, how many numbers there are now); it stops early when there is no room for more."""
    address = address_of(table)
    for k in range(done, ids.size):
        _ask_for(ids, k + _AHEAD, table, numbers)
        at = place_of(address, table.size - 1, ids[k])
        if table[at] == 0:
            if count == room:
                return k, count
            numbers[at] = count
            known[count] = ids[k]
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


@kernel
def _fill(ids, count, table, numbers):
    address = address_of(table)
    for k in range(count):
        _ask_for(ids, k + _AHEAD, table, numbers)
        at = place_of(address, table.size - 1, ids[k])
        table[at] = ids[k]
        numbers[at] = k
