"""A fitted recipe as kernels take it: arrays by column, by slot (a column's place for one feature) and by bin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bayou.recipe.crosses import column_crosses
from bayou.recipe.hashing import hash_bytes, id_bytes
from bayou.recipe.recipe import DATE_PARTS, Column, Recipe
from bayou.sources.table import cells
from bayou.sources.table.dates import PARTS, names_of_parts
from bayou.sources.table.manner import manner_of

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


class PlanArrays(NamedTuple):
    """What kernels know of a plan. Whatever is looked up by a number is -1 where there is none."""

    # by column
    roles: np.ndarray  # as `cells` numbers them
    seeds: np.ndarray  # the hash of the column's name
    missing: np.ndarray  # the hash of its missing cell
    centres: np.ndarray
    scales: np.ndarray
    number_rows: np.ndarray  # which row of the numbers is its own
    slot_of: np.ndarray  # its first slot
    prefixes: np.ndarray  # where its name starts and stops in prefix_text
    # by slot
    slot_columns: np.ndarray
    value_rows: np.ndarray  # which row of the values is its own; without, all its values are 1
    word_rows: np.ndarray  # which row of the words is its own
    pairs: np.ndarray  # (first slot, behind the last) of the one and the other column that are crossed
    terms: np.ndarray  # the same of three columns and more, filled up with -1
    # bins: column c has edges[edge_from[c] : edge_from[c + 1]]
    edge_from: np.ndarray
    edges: np.ndarray  # in eights, filled up with infinity
    bin_from: np.ndarray
    bin_hashes: np.ndarray  # behind a column's bins comes its missing cell
    bin_names: np.ndarray  # where names start in prefix_text; each stops where the next starts
    prefix_text: np.ndarray
    # slopes: column c has knots[knot_from[c] : knot_from[c + 1]], and levels and slopes beside them
    knot_from: np.ndarray
    knots: np.ndarray  # in eights, filled up with infinity
    levels: np.ndarray
    slopes: np.ndarray
    # dates: part k of column c has hashes from date_parts[c, k] on, and names from as many behind part_names
    date_parts: np.ndarray
    part_hashes: np.ndarray  # behind a part's values comes its missing one
    part_names: int  # which of bin_names is the first of a part
    # how cells are written
    manner: np.ndarray
    # labels and hashes
    positive: np.ndarray  # the text of a positive label
    positive_number: float  # the same as a number
    labels_needed: bool
    exact: bool  # features have ids of 64 bits
    mask: np.uint64  # what is kept of hashes

    @property
    def width(self) -> int:
        """How many slots there are."""
        return len(self.slot_columns)

    @property
    def parts(self) -> int:
        """How many cells a feature is made of at most."""
        return max(2, self.terms.shape[1] // 2)


def plan_arrays(recipe: Recipe, columns: Sequence[Column], labels_needed: bool) -> PlanArrays:
    """The arrays of a fitted recipe's columns, those that are read."""
    roles = np.array([_role(column, recipe) for column in columns], np.int64)
    # Which slots each column fills, and which of those have values, words and numbers to look up.
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
    # And what they are called.
    bin_names = [[*names_of_bins(column), f"{column.name}="] for column in columns]
    texts = [column.name.encode() for column in columns]
    bin_texts = [text.encode() for names in bin_names for text in names]
    part_names = len(bin_texts)
    bin_texts += [text.encode() for c, part in dates for text in names_of_parts(columns[c].name, part)]
    knots = [[*column.knots, *[np.inf] * (-len(column.knots) % 8)] for column in columns]
    ends = np.cumsum([0, *map(len, texts + bin_texts)])
    return PlanArrays(
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
    """How steeply a slope rises behind each of its knots; behind the last not at all.

    >>> slopes_of(Column("age", "bins", knots=(10.0, 20.0, 60.0), levels=(0.0, 0.5, 1.0)))
    [0.05, 0.0125, 0.0]
    """
    if not column.knots:
        return []
    with np.errstate(over="ignore", divide="ignore"):  # between knots that are next to each other there is nothing
        steep = np.diff(column.levels) / np.diff(column.knots)
    return [*np.where(np.isfinite(steep), steep, 0.0).tolist(), 0.0]


def _filled_up(numbers: Sequence[float]) -> list[float]:
    """In eights."""
    return [*numbers, *[0.0] * (-len(numbers) % 8)]


def _crossed(
    recipe: Recipe, columns: Sequence[Column], firsts: np.ndarray, widths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs, and crosses of more columns, by slots."""
    # A column's number in the plan is not that in the recipe, where there are ignored ones too.
    place = {column.name: c for c, column in enumerate(columns)}
    found = [[place[(recipe.columns or ())[column].name] for column in chosen] for chosen in column_crosses(recipe)]
    slots = [[end for c in chosen for end in (int(firsts[c]), int(firsts[c] + widths[c]))] for chosen in found]
    pairs, more = ([some for some in slots if (len(some) > 4) == many] for many in (False, True))
    terms = np.full((len(more), max(map(len, more), default=0)), -1)
    for row, some in zip(terms, more, strict=True):
        row[: len(some)] = some
    return np.array(pairs, np.int64).reshape(-1, 4), terms


def _bytes(text: bytes) -> np.ndarray:
    return np.frombuffer(text + b" ", np.uint8)[:-1]  # NumPy takes no empty buffer


def numbered(which: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... where it is so, -1 elsewhere."""
    return np.where(which, np.cumsum(which) - 1, -1)


def _as_number(text: str | None) -> float:
    """A text as a number, NaN (which equals nothing) if it is none."""
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def _told_apart(edges: Sequence[float]) -> list[str]:
    """Numbers as text, with no more digits than tell them apart.

    >>> _told_apart([0.5, 1e9, 1e9 + 1]), _told_apart([1 / 3, 2 / 3])
    (['0.5', '1000000000', '1000000001'], ['0.333333', '0.666667'])
    """
    for digits in range(6, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            break
    return texts


def names_of_bins(column: Column) -> list[str]:
    """
    >>> names_of_bins(Column("age", "bins", edges=(17, 22.5)))
    ['age<17', 'age in [17,22.5)', 'age>=22.5']
    """
    edges = _told_apart(column.edges)
    if not edges:
        return [f"{column.name} is there"]
    between = [f"{column.name} in [{low},{high})" for low, high in pairwise(edges)]
    return [f"{column.name}<{edges[0]}", *between, f"{column.name}>={edges[-1]}"]
