"""What the first rows show of a column: the grounds on which it is decided what the column is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayou.recipe.recipe import Recipe
from bayou.sources.table.manner import manner_of, missing_numbers
from bayou.sources.table.numbers import NOTHING, NUMBER, OTHER, POINT, TRUTH, look

# How many different values of a column are shown, and how much of a long one.
SHOWN, EXCERPT = 6, 40
# What so many of its cells are that are not missing, a column is.
MOST = 0.95
# Nearly as many values as rows: an id. Click logs have real columns with .6; exact times and counters lie above .93.
ID_SHARE, ID_VALUES = 0.95, 50
# A column of at most so many values is compared with others, row by row.
FEW_VALUES = 200


@dataclass
class ColumnSummary:
    """What the first rows showed of a column.

    Attributes:
        kind: "number", "date", "flag", "text", or "nothing" if all cells are missing.
        numbers: those that are there, of a column of numbers; of dates the points in time.
        words: the mean number of words in a cell that is not missing, if it is text.
        values: a few different values, as text.
        odd: the first value that is not a number, if there is one.
        as_written: numbers stand there as text, so that 007 can be told from 7.
        rows, missing: how many rows there were, and how many of them without a value.
        counts: how often each of its different values came.
        others: a few values that are not of the column's kind, and n_others: how many there are.
        number_share: the share of numbers among the values; numerals: all that can be read as numbers.
        dates: how many values are dates; lists: whether there are lists among them.
        by_row: the number or point in time of each row, NaN where there is none.
        which: which value each row has, of at most FEW_VALUES: 0 for none.
        by_text: gives how often each value comes, as text, in the order of their first rows; gaps: and how often each
            text that says that there is none.
    """

    kind: str = "nothing"
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0))
    words: float = 0.0
    values: Sequence[str] = ()
    odd: str | None = None
    as_written: bool = False
    rows: int = 0
    missing: int = 0
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    others: Sequence[str] = ()
    n_others: int = 0
    number_share: float = 0.0
    numerals: np.ndarray = field(default_factory=lambda: np.empty(0))
    dates: int = 0
    lists: bool = False
    by_row: np.ndarray | None = None
    which: np.ndarray | None = None
    by_text: Callable[[], dict[str, int]] = dict
    gaps: Callable[[], dict[str, int]] = dict

    @property
    def whole(self) -> bool:
        return self.kind == "number" and bool((self.numbers == np.floor(self.numbers)).all())

    @property
    def distinct(self) -> int:
        """How many different values there are."""
        return len(self.counts)

    @property
    def there(self) -> int:
        """How many rows have a value."""
        return self.rows - self.missing


def is_id(summary: ColumnSummary) -> bool:
    """Whether there are nearly as many values as rows."""
    return summary.distinct > ID_VALUES and summary.distinct > ID_SHARE * summary.there


def only_moves_one_way(summary: ColumnSummary) -> bool:
    """Whether its numbers only rise, or only fall."""
    steps = np.diff(summary.numbers)
    return bool((steps >= 0).all() or (steps <= 0).all())


class Looked:
    """What was seen of a column's cells so far, part by part."""

    def __init__(self, recipe: Recipe) -> None:
        self._manner, self._missing = manner_of(recipe), missing_numbers(recipe.missing)
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._numerals: list[np.ndarray] = []
        self.words = 0

    def add(self, table: np.ndarray, n: int, typed: np.ndarray | None = None) -> None:
        """Some cells; `typed` are those that are texts, in data where texts are told from numbers."""
        numbers, keys, looks = np.empty(n), np.empty(n, np.uint64), np.empty(n, np.int8)
        self.words += look(table, 0, n, self._manner, numbers, keys, looks)
        self._numerals.append(numbers[looks == NUMBER])
        if typed is not None:
            looks[typed & ((looks == NUMBER) | (looks == TRUTH))] = OTHER
        self._parts.append((numbers, keys, looks))

    def add_numbers(self, numbers: np.ndarray, look: int = NUMBER) -> None:
        """Some numbers, or points in time; NaN where there is none."""
        looks = np.where(np.isnan(numbers), NOTHING, np.where(np.isinf(numbers), OTHER, look)).astype(np.int8)
        self._numerals.append(numbers[looks == NUMBER])
        self._parts.append((numbers, numbers.view(np.uint64), looks))

    def summary(self, text: Callable[[int], str], as_written: bool = False) -> ColumnSummary:
        """All of it; text(row) is what a cell says."""
        numbers, keys, looks = (np.concatenate(arrays) for arrays in zip(*self._parts, strict=True))
        if len(self._missing):
            looks[np.isin(numbers, self._missing) & (looks == NUMBER)] = NOTHING
        counts = np.bincount(looks, minlength=OTHER + 1)
        n, texts = len(looks) - counts[NOTHING], counts[TRUTH] + counts[POINT] + counts[OTHER]
        kind = _kind(counts, int(n))
        own = {"number": NUMBER, "date": POINT}.get(kind)
        others = np.flatnonzero((looks != NOTHING) & (looks != own)) if own is not None else np.empty(0, np.int64)
        by_row = np.where(looks == own, numbers, np.nan) if own is not None else None
        every, first, which = _values(looks, by_row, keys)
        odd = np.flatnonzero((looks != NOTHING) & (looks != NUMBER))
        return ColumnSummary(
            kind=kind,
            numbers=np.empty(0) if by_row is None else by_row[~np.isnan(by_row)],
            words=self.words / max(int(texts), 1),
            values=_shown([text(row) for row in first[: SHOWN + 1]]),
            odd=text(int(odd[0])) if len(odd) else None,
            as_written=as_written,
            rows=len(looks),
            missing=int(counts[NOTHING]),
            counts=every,
            others=[text(row) for row in others[:3].tolist()],
            n_others=len(others),
            number_share=counts[NUMBER] / max(int(n), 1),
            numerals=np.concatenate(self._numerals),
            dates=int(counts[POINT]),
            by_row=by_row,
            which=which,
            by_text=lambda: _counted(looks != NOTHING, keys, text),
            gaps=lambda: _counted(looks == NOTHING, keys, text),
        )


def _counted(rows: np.ndarray, keys: np.ndarray, text: Callable[[int], str]) -> dict[str, int]:
    """How often each text comes in some rows."""
    there = np.flatnonzero(rows)
    _, first, often = np.unique(keys[there], return_index=True, return_counts=True)
    found: Counter[str] = Counter()
    for k in np.argsort(first).tolist():
        found[text(int(there[first[k]])).strip(" \t")] += int(often[k])
    return dict(found)


def _kind(counts: np.ndarray, n: int) -> str:
    if not n:
        return "nothing"
    if counts[NUMBER] >= MOST * n:
        return "number"
    if counts[POINT] >= MOST * n:
        return "date"
    return "flag" if counts[TRUTH] == n else "text"


def _values(
    looks: np.ndarray, by_row: np.ndarray | None, keys: np.ndarray
) -> tuple[np.ndarray, list[int], np.ndarray | None]:
    """(how often each value comes, the first rows of values in order, which of them each row has, if there are few)."""
    there = np.flatnonzero(looks != NOTHING if by_row is None else ~np.isnan(by_row))
    found = keys[there] if by_row is None else by_row[there]
    values, first, counts = np.unique(found, return_index=True, return_counts=True)
    which = None
    if len(values) <= FEW_VALUES:
        which = np.zeros(len(looks), np.int16)
        which[there] = np.searchsorted(values, found) + 1
    return counts, there[np.sort(first)[: SHOWN + 1]].tolist(), which


def _shown(texts: list[str]) -> list[str]:
    short = [text if len(text) <= EXCERPT else text[:EXCERPT] + "…" for text in texts]
    return short[:SHOWN] + ["..."] * (len(short) > SHOWN)
