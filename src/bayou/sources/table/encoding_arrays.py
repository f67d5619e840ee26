"""A fitted recipe as arrays for kernels, by column, by slot (a column has one slot per feature of a row) and by bin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bayou.core.checks import number_from_text
from bayou.recipe.crosses import column_crosses
from bayou.recipe.hashing import hash_bytes, id_bytes
from bayou.recipe.recipe import DATE_PARTS, Column, Recipe
from bayou.sources.table import cells
from bayou.sources.table.cell_format import manner_of
from bayou.sources.table.dates import PARTS, names_of_parts

_ROLES = {
    "category": cells.CATEGORY,
    "flag": cells.FLAG,
    "code": cells.CODE,
    "bins": cells.BINS,
    "whole": cells.WHOLE,
    "numeric": cells.NUMERIC,
    "values": cells.VALUES,
    "date": cells.DATE,
    "text": cells.TEXT,
    "weight": cells.WEIGHT,
    "label": cells.LABEL,
}


class EncodingArrays(NamedTuple):
    """The arrays of a plan that kernels read. Indices into other arrays are -1 where there is no entry."""

    # by column
    roles: np.ndarray  # constants of `cells`
    seeds: np.ndarray  # the hash of the column's name
    missing: np.ndarray  # the hash of its missing cell
    centres: np.ndarray
    scales: np.ndarray
    number_rows: np.ndarray  # its row of the numbers
    first_slots: np.ndarray  # its first slot
    prefixes: np.ndarray  # start and stop of its name in prefix_text
    # by slot
    slot_columns: np.ndarray
    slot_roles: np.ndarray  # constants of `cells`; of a column with several features, what this one is
    date_parts: np.ndarray  # of a date, its part
    value_rows: np.ndarray  # its row of the values; if -1, all its values are 1
    word_rows: np.ndarray  # its row of the words
    terms: np.ndarray  # crosses: (start, stop) slots of each of the crossed columns, padded with -1
    # bins, parts of dates and raw slopes: slot s has entries [value_from[s], value_from[s + 1]), the last for a missing
    # cell; a raw slope has a single one
    value_from: np.ndarray
    hashes: np.ndarray
    names: np.ndarray  # start of each name in prefix_text; it stops where the next one starts
    prefix_text: np.ndarray
    # bins and slopes: slot s has cuts[cut_from[s] : cut_from[s + 1]], the edges or knots; levels and slopes in parallel
    cut_from: np.ndarray
    cuts: np.ndarray  # padded with infinity to a multiple of 8
    levels: np.ndarray
    slopes: np.ndarray
    # spelling of cells
    manner: np.ndarray
    # labels and hashes
    positive: np.ndarray  # the text of a positive label
    positive_number: float  # the same as a number
    labels_needed: bool
    exact: bool  # features have ids of 64 bits
    mask: np.uint64  # the bits of hashes that are kept

    @property
    def width(self) -> int:
        """Number of slots."""
        return len(self.slot_columns)

    @property
    def parts(self) -> int:
        """Maximum number of cells that a feature is made of, at least 2."""
        return max(2, self.terms.shape[1] // 2)


class _Slot(NamedTuple):
    """One feature that a column gives each row."""

    column: int
    role: int
    part: int = -1
    keys: Sequence[bytes] = ()  # what features with names of their own are hashed from; that of a missing cell is last
    names: Sequence[str] = ()
    cuts: Sequence[float] = ()
    levels: Sequence[float] = ()


def _slots(c: int, column: Column, role: int) -> Iterator[_Slot]:
    """Yield the slots of a column, none for labels and weights."""
    if role in (cells.BINS, cells.WHOLE):
        keys = [*(b"\x00bin%d" % k for k in range(len(column.edges) + 1)), b""]
        yield _Slot(c, cells.BINS, keys=keys, names=[*names_of_bins(column), f"{column.name}="], cuts=column.edges)
    for part in column.parts if role == cells.DATE else ():
        keys = [b"\x00%b%d" % (part.encode(), k) for k in range(DATE_PARTS[part] + 1)]
        yield _Slot(c, role, PARTS.index(part), keys, names_of_parts(column.name, part))
    if role < cells.WEIGHT and role not in (cells.BINS, cells.DATE):
        yield _Slot(c, role)
    if column.knots:
        yield _Slot(c, cells.SLOPE, cuts=column.knots, levels=column.levels)
    if column.raw_knots:
        yield _Slot(c, cells.SLOPE, -1, [b"\x00raw"], [raw_name(column)], column.raw_knots, column.raw_levels)


def plan_arrays(recipe: Recipe, columns: Sequence[Column], labels_needed: bool) -> EncodingArrays:
    """Return the arrays of a fitted recipe for `columns`, those that are read."""
    hashed = id_bytes if recipe.exact else hash_bytes
    seeds = [hashed(column.name.encode()) for column in columns]
    roles = np.array([_role(column, recipe) for column in columns], np.int64)
    slots = [slot for c, column in enumerate(columns) for slot in _slots(c, column, roles[c])]
    slot_columns = np.array([slot.column for slot in slots], np.int64)
    slot_roles = np.array([slot.role for slot in slots], np.int64)
    ends = np.searchsorted(slot_columns, np.arange(len(columns) + 1))
    texts = [column.name.encode() for column in columns]
    names = [name.encode() for slot in slots for name in slot.names]
    starts = np.cumsum([0, *map(len, texts + names)])
    padded = [-(-len(slot.cuts) // 8) * 8 for slot in slots]
    return EncodingArrays(
        roles=roles,
        seeds=np.array(seeds, np.uint64),
        missing=np.array([hashed(b"", seed) for seed in seeds], np.uint64),
        centres=np.array([column.centre for column in columns]),
        scales=np.array([column.scale for column in columns]),
        number_rows=numbered((roles >= cells.BINS) & (roles <= cells.DATE)),
        first_slots=np.where(np.diff(ends) > 0, ends[:-1], -1),
        prefixes=np.column_stack([starts[: len(texts)], starts[1 : len(texts) + 1]]),
        slot_columns=slot_columns,
        slot_roles=slot_roles,
        date_parts=np.array([slot.part for slot in slots], np.int64),
        value_rows=numbered(np.isin(slot_roles, (cells.WHOLE, cells.NUMERIC, cells.SLOPE))),
        word_rows=numbered(slot_roles == cells.TEXT),
        terms=_terms(recipe, columns, ends),
        value_from=np.cumsum([0, *(len(slot.keys) for slot in slots)]),
        hashes=np.array([hashed(key, seeds[slot.column]) for slot in slots for key in slot.keys], np.uint64),
        names=starts[len(texts) :],
        prefix_text=_bytes(b"".join(texts + names)),
        cut_from=np.cumsum([0, *padded]),
        cuts=_padded([slot.cuts for slot in slots], padded, np.inf),
        levels=_padded([slot.levels for slot in slots], padded, 0.0),
        slopes=_padded([_steepness(slot.cuts, slot.levels) for slot in slots], padded, 0.0),
        manner=manner_of(recipe),
        positive=_bytes((recipe.positive or "").strip(" \t").encode()),
        positive_number=number_from_text(recipe.positive or ""),
        labels_needed=labels_needed,
        exact=recipe.exact,
        mask=np.uint64(2**64 - 1 if recipe.exact else recipe.n_features - 1),
    )


def _padded(lists: Sequence[Sequence[float]], lengths: Sequence[int], fill: float) -> np.ndarray:
    """Return the lists after one another, each padded to its length."""
    padded = [[*some, *[fill] * (length - len(some))] for some, length in zip(lists, lengths, strict=True)]
    return np.array([number for some in padded for number in some], np.float64)


def _role(column: Column, recipe: Recipe) -> int:
    if column.role != "label":
        return _ROLES[column.role]
    if recipe.task == "multiclass" or recipe.negative is not None:
        return cells.LABEL_CLASS
    if recipe.positive is not None:
        return cells.LABEL_TEXT
    if recipe.task == "regression" or recipe.label_above is not None:
        return cells.LABEL_NUMBER
    return _ROLES[column.role]


def _steepness(knots: Sequence[float], levels: Sequence[float]) -> list[float]:
    """Return the steepness of a slope after each of its knots; 0 after the last.

    >>> _steepness((10.0, 20.0, 60.0), (0.0, 0.5, 1.0))
    [0.05, 0.0125, 0.0]
    """
    if not levels:
        return []
    with np.errstate(over="ignore", divide="ignore"):  # no float lies between adjacent knots
        steep = np.diff(levels) / np.diff(knots)
    return [*np.where(np.isfinite(steep), steep, 0.0).tolist(), 0.0]


def _terms(recipe: Recipe, columns: Sequence[Column], ends: np.ndarray) -> np.ndarray:
    """Return the crosses as ranges of slots, those of two columns first."""
    # A column's position in the plan differs from that in the recipe, which includes ignored columns.
    position = {column.name: c for c, column in enumerate(columns)}
    names = [column.name for column in recipe.columns or ()]
    crosses = sorted(column_crosses(recipe), key=lambda cross: len(cross) > 2)
    terms = np.full((len(crosses), 2 * max(map(len, crosses), default=0)), -1)
    for term, cross in zip(terms, crosses, strict=True):
        chosen = [position[names[column]] for column in cross]
        term[: 2 * len(cross)] = np.column_stack([ends[chosen], ends[1:][chosen]]).ravel()
    return terms


def _bytes(text: bytes) -> np.ndarray:
    return np.frombuffer(text + b" ", np.uint8)[:-1]  # NumPy accepts no empty buffer


def numbered(which: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... where `which` is true, -1 elsewhere."""
    return np.where(which, np.cumsum(which) - 1, -1)


def _told_apart(edges: Sequence[float]) -> list[str]:
    """Return numbers as text, with the fewest digits (6 or more) that keep them distinct.

    >>> _told_apart([0.5, 1e9, 1e9 + 1]), _told_apart([1 / 3, 2 / 3])
    (['0.5', '1000000000', '1000000001'], ['0.333333', '0.666667'])
    """
    for digits in range(6, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    return texts


def raw_name(column: Column) -> str:
    """Return the name of a column's raw slope; its other slope is named like the column."""
    return f"{column.name} (raw)"


def names_of_bins(column: Column) -> list[str]:
    """Return the feature names of a column's bins.

    >>> names_of_bins(Column("age", "bins", edges=(17, 22.5)))
    ['age<17', 'age in [17,22.5)', 'age>=22.5']
    """
    edges = _told_apart(column.edges)
    if not edges:
        return [f"{column.name} is there"]
    between = [f"{column.name} in [{low},{high})" for low, high in pairwise(edges)]
    return [f"{column.name}<{edges[0]}", *between, f"{column.name}>={edges[-1]}"]
