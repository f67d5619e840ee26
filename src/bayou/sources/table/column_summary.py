"""Summary of a column's first rows, from which its role is inferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bayou.recipe.recipe import Recipe
from bayou.sources.table.cell_format import manner_of, missing_numbers
from bayou.sources.table.numbers import NOTHING, NUMBER, OTHER, POINT, TRUTH, look

# Number of distinct values shown per column, and maximum length of one.
SHOWN, EXCERPT = 6, 40
# A column has the kind that at least this fraction of its nonmissing cells have.
MIN_KIND_FRACTION = 0.95
# Columns with nearly as many values as rows are ids. Click logs have true features at 0.6; exact times and counters lie
# above 0.93.
ID_SHARE, ID_VALUES = 0.95, 50
# A column with at most this many distinct values is compared with others, row by row.
FEW_VALUES = 200
# Classes of fewer rows say nothing about columns.
CLASS_ROWS = 100


@dataclass
class ColumnSummary:
    """Summary of the first rows of a column.

    Attributes:
        kind: "number", "date", "flag", "text", or "nothing" if all cells are missing.
        numbers: the nonmissing values of a column of numbers, or the times of a column of dates.
        words: mean number of words per nonmissing cell that is text.
        values: a few distinct values, as text.
        odd: the first value that is not a number, if there is one.
        as_written: whether numbers are stored as text, so that 007 differs from 7.
        rows, missing: number of rows, and of those without a value.
        counts: number of occurrences of each distinct value.
        others, n_others: a few values that are not of the column's kind, and the number of all such values.
        number_share: fraction of numbers among the values; numerals: all values that can be read as numbers.
        dates: number of values that are dates; lists: whether some values are lists.
        by_row: the number or time of each row, NaN where there is none.
        which: the index of each row's value, from 1, if there are at most FEW_VALUES; 0 for none.
        by_text: returns the number of occurrences of each value, as text, in the order of their first rows; gaps:
            the same for the texts of missing values.
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
        """Number of distinct values."""
        return len(self.counts)

    @property
    def n_present(self) -> int:
        """Number of rows that have a value."""
        return self.rows - self.missing


def is_id(summary: ColumnSummary) -> bool:
    """Return whether a column has nearly as many distinct values as rows."""
    return summary.distinct > ID_VALUES and summary.distinct > ID_SHARE * summary.n_present


def only_moves_one_way(summary: ColumnSummary) -> bool:
    """Return whether a column's numbers never fall, or never rise."""
    steps = np.diff(summary.numbers)
    return bool((steps >= 0).all() or (steps <= 0).all())


def labels_by_row(recipe: Recipe, summaries: Mapping[str, ColumnSummary]) -> np.ndarray:
    """Return labels by row: one line for regression or two classes, else one for each class that is not rare.

    Classes are 0 and 1; rows without a label or of weight 0 are NaN. There is no line while the label is unknown.
    """
    label, weight = (summaries.get(name or "", ColumnSummary()) for name in (recipe.label, recipe.weight))
    if label.by_row is not None and (recipe.task == "regression" or recipe.label_above is not None):
        labels = label.by_row if recipe.label_above is None else label.by_row > recipe.label_above
        labels = np.where(np.isnan(label.by_row), np.nan, labels)[None]
    elif label.which is not None and recipe.task != "regression":
        classes = np.array([2]) if label.distinct == 2 else 1 + np.flatnonzero(label.counts >= CLASS_ROWS)
        labels = np.where(label.which > 0, label.which == classes[:, None], np.nan)
    else:
        return np.empty((0, label.rows))
    if weight.by_row is not None:
        labels[:, weight.by_row == 0] = np.nan
    return labels


class ColumnScanner:
    """The cells of a column seen so far, added chunk by chunk."""

    def __init__(self, recipe: Recipe) -> None:
        self._manner, self._missing = manner_of(recipe), missing_numbers(recipe.missing)
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._numerals: list[np.ndarray] = []
        self.words = 0

    def add(self, table: np.ndarray, n: int, typed: np.ndarray | None = None) -> None:
        """Add n cells; in data with types, `typed` marks those that are texts, which then never count as numbers."""
        numbers, keys, looks = np.empty(n), np.empty(n, np.uint64), np.empty(n, np.int8)
        self.words += look(table, 0, n, self._manner, numbers, keys, looks)
        self._numerals.append(numbers[looks == NUMBER])
        if typed is not None:
            looks[typed & ((looks == NUMBER) | (looks == TRUTH))] = OTHER
        self._parts.append((numbers, keys, looks))

    def add_numbers(self, numbers: np.ndarray, look: int = NUMBER) -> None:
        """Add numbers, or times; NaN where there is no value."""
        looks = np.where(np.isnan(numbers), NOTHING, np.where(np.isinf(numbers), OTHER, look)).astype(np.int8)
        self._numerals.append(numbers[looks == NUMBER])
        self._parts.append((numbers, numbers.view(np.uint64), looks))

    def summary(self, text: Callable[[int], str], as_written: bool = False) -> ColumnSummary:
        """Return the summary of all cells; text(row) must return the text of a cell."""
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
    """Return how often each text occurs in the rows where `rows` is true, in the order of first occurrence."""
    n_present = np.flatnonzero(rows)
    _, first, often = np.unique(keys[n_present], return_index=True, return_counts=True)
    counts: Counter[str] = Counter()
    for k in np.argsort(first).tolist():
        counts[text(int(n_present[first[k]])).strip(" \t")] += int(often[k])
    return dict(counts)


def _kind(counts: np.ndarray, n: int) -> str:
    if not n:
        return "nothing"
    if counts[NUMBER] >= MIN_KIND_FRACTION * n:
        return "number"
    if counts[POINT] >= MIN_KIND_FRACTION * n:
        return "date"
    return "flag" if counts[TRUTH] == n else "text"


def _values(
    looks: np.ndarray, by_row: np.ndarray | None, keys: np.ndarray
) -> tuple[np.ndarray, list[int], np.ndarray | None]:
    """Return (count of each value, first rows of a few values in order, each row's value from 1 if there are few)."""
    n_present = np.flatnonzero(looks != NOTHING if by_row is None else ~np.isnan(by_row))
    present = keys[n_present] if by_row is None else by_row[n_present]
    values, first, counts = np.unique(present, return_index=True, return_counts=True)
    which = None
    if len(values) <= FEW_VALUES:
        which = np.zeros(len(looks), np.int16)
        which[n_present] = np.searchsorted(values, present) + 1
    return counts, n_present[np.sort(first)[: SHOWN + 1]].tolist(), which


def _shown(texts: list[str]) -> list[str]:
    short = [text if len(text) <= EXCERPT else text[:EXCERPT] + "…" for text in texts]
    return short[:SHOWN] + ["..."] * (len(short) > SHOWN)
