"""A fitted recipe as arrays for kernels, by column, by slot (a column has one slot per feature of a row) and by bin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

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
    slot_of: np.ndarray  # its first slot
    prefixes: np.ndarray  # start and stop of its name in prefix_text
    # by slot
    slot_columns: np.ndarray
    value_rows: np.ndarray  # its row of the values; if -1, all its values are 1
    word_rows: np.ndarray  # its row of the words
    pairs: np.ndarray  # (start, stop) slots of each of two crossed columns
    terms: np.ndarray  # the same for crosses of three columns and more, padded with -1
    # bins: column c has edges[edge_from[c] : edge_from[c + 1]]
    edge_from: np.ndarray
    edges: np.ndarray  # padded with infinity to a multiple of 8
    bin_from: np.ndarray
    bin_hashes: np.ndarray  # a column's bins, then its missing cell
    bin_names: np.ndarray  # start of each name in prefix_text; it stops where the next one starts
    prefix_text: np.ndarray
    # slopes: column c has knots[knot_from[c] : knot_from[c + 1]], with levels and slopes in parallel
    knot_from: np.ndarray
    knots: np.ndarray  # padded with infinity to a multiple of 8
    levels: np.ndarray
    slopes: np.ndarray
    # dates: part k of column c has hashes from date_parts[c, k] on, and names from part_names + date_parts[c, k] on
    date_parts: np.ndarray
    part_hashes: np.ndarray  # a part's values, then the missing one
    part_names: int  # index of the first name of a part in bin_names
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


def plan_arrays(recipe: Recipe, columns: Sequence[Column], labels_needed: bool) -> EncodingArrays:
    """Return the arrays of a fitted recipe for `columns`, those that are read."""
    roles = np.array([_role(column, recipe) for column in columns], np.int64)
    # The slots of each column, and which of them have values, words and numbers to look up.
    widths = np.where(roles >= cells.WEIGHT, 0, np.where(roles == cells.WHOLE, 2, 1))
    widths += [len(column.knots) > 0 for column in columns]
    dates = [(c, part) for c, column in enumerate(columns) if column.role == "date" for part in column.parts]
    widths[roles == cells.DATE] = [len(column.parts) for column in columns if column.role == "date"]
    firsts = np.cumsum(widths) - widths
    slot_columns = np.repeat(np.arange(len(roles)), widths)
    slot_roles = roles[slot_columns]
    second = (np.arange(len(slot_columns)) != firsts[slot_columns]) & (slot_roles != cells.DATE)
    # The hashes that do not depend on cells.
    hashed = id_bytes if recipe.exact else hash_bytes
    seeds = [hashed(column.name.encode()) for column in columns]
    padded = [[*column.edges, *[np.inf] * (-len(column.edges) % 8)] for column in columns]
    bin_hashes = [
        [*(hashed(b"\x00bin%d" % k, seed) for k in range(len(column.edges) + 1)), hashed(b"", seed)]
        for column, seed in zip(columns, seeds, strict=True)
    ]
    part_hashes = [
        [*(hashed(b"\x00%b%d" % (part.encode(), k), seeds[c]) for k in range(DATE_PARTS[part] + 1))]
        for c, part in dates
    ]  # fmt: skip
    date_parts = np.full((len(columns), len(PARTS)), -1)
    for (c, part), start in zip(dates, np.cumsum([0, *map(len, part_hashes)]), strict=False):
        date_parts[c, PARTS.index(part)] = start
    pairs, terms = _crossed(recipe, columns, firsts, widths)
    # The names of features.
    bin_names = [[*names_of_bins(column), f"{column.name}="] for column in columns]
    texts = [column.name.encode() for column in columns]
    bin_texts = [text.encode() for names in bin_names for text in names]
    part_names = len(bin_texts)
    bin_texts += [text.encode() for c, part in dates for text in names_of_parts(columns[c].name, part)]
    knots = [[*column.knots, *[np.inf] * (-len(column.knots) % 8)] for column in columns]
    ends = np.cumsum([0, *map(len, texts + bin_texts)])
    return EncodingArrays(
        roles=roles,
        seeds=np.array(seeds, np.uint64),
        missing=np.array([hashed(b"", seed) for seed in seeds], np.uint64),
        centres=np.array([column.centre for column in columns]),
        scales=np.array([column.scale for column in columns]),
        number_rows=numbered((roles >= cells.BINS) & (roles <= cells.DATE)),
        slot_of=np.where(widths > 0, firsts, -1),
        prefixes=np.column_stack([ends[: len(texts)], ends[1 : len(texts) + 1]]),
        slot_columns=slot_columns,
        value_rows=numbered(second | (slot_roles == cells.NUMERIC)),
        word_rows=numbered(slot_roles == cells.TEXT),
        pairs=pairs,
        terms=terms,
        edge_from=np.cumsum([0, *map(len, padded)]),
        edges=np.array([edge for edges in padded for edge in edges], np.float64),
        bin_from=np.cumsum([0, *map(len, bin_names)]),
        bin_hashes=np.array([key for keys in bin_hashes for key in keys], np.uint64),
        bin_names=ends[len(texts) :],
        prefix_text=_bytes(b"".join(texts + bin_texts)),
        knot_from=np.cumsum([0, *map(len, knots)]),
        knots=np.array([knot for some in knots for knot in some], np.float64),
        levels=np.array([level for column in columns for level in _filled_up(column.levels)], np.float64),
        slopes=np.array([slope for column in columns for slope in _filled_up(slopes_of(column))], np.float64),
        date_parts=date_parts,
        part_hashes=np.array([key for keys in part_hashes for key in keys], np.uint64),
        part_names=part_names,
        manner=manner_of(recipe),
        positive=_bytes((recipe.positive or "").strip(" \t").encode()),
        positive_number=_as_number(recipe.positive),
        labels_needed=labels_needed,
        exact=recipe.exact,
        mask=np.uint64(2**64 - 1 if recipe.exact else recipe.n_features - 1),
    )


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


def slopes_of(column: Column) -> list[float]:
    """Return the steepness of a slope after each of its knots; 0 after the last.

    >>> slopes_of(Column("age", "bins", knots=(10.0, 20.0, 60.0), levels=(0.0, 0.5, 1.0)))
    [0.05, 0.0125, 0.0]
    """
    if not column.knots:
        return []
    with np.errstate(over="ignore", divide="ignore"):  # no float lies between adjacent knots
        steep = np.diff(column.levels) / np.diff(column.knots)
    return [*np.where(np.isfinite(steep), steep, 0.0).tolist(), 0.0]


def _filled_up(numbers: Sequence[float]) -> list[float]:
    """Return the numbers, padded with zeros to a multiple of 8."""
    return [*numbers, *[0.0] * (-len(numbers) % 8)]


def _crossed(
    recipe: Recipe, columns: Sequence[Column], firsts: np.ndarray, widths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs and crosses of more columns, as ranges of slots."""
    # A column's position in the plan differs from that in the recipe, which includes ignored columns.
    place = {column.name: c for c, column in enumerate(columns)}
    found = [[place[(recipe.columns or ())[column].name] for column in chosen] for chosen in column_crosses(recipe)]
    slots = [[end for c in chosen for end in (int(firsts[c]), int(firsts[c] + widths[c]))] for chosen in found]
    pairs, more = ([some for some in slots if (len(some) > 4) == many] for many in (False, True))
    terms = np.full((len(more), max(map(len, more), default=0)), -1)
    for row, some in zip(terms, more, strict=True):
        row[: len(some)] = some
    return np.array(pairs, np.int64).reshape(-1, 4), terms


def _bytes(text: bytes) -> np.ndarray:
    return np.frombuffer(text + b" ", np.uint8)[:-1]  # NumPy accepts no empty buffer


def numbered(which: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... where `which` is true, -1 elsewhere."""
    return np.where(which, np.cumsum(which) - 1, -1)


def _as_number(text: str | None) -> float:
    """Return a text as a number, or NaN (which equals nothing) if it is not one."""
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def _told_apart(edges: Sequence[float]) -> list[str]:
    """Return numbers as text, with as few digits as keep them distinct, at least 6.

    >>> _told_apart([0.5, 1e9, 1e9 + 1]), _told_apart([1 / 3, 2 / 3])
    (['0.5', '1000000000', '1000000001'], ['0.333333', '0.666667'])
    """
    for digits in range(6, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    return texts


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
