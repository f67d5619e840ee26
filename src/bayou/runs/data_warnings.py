"""Warnings about the data and the results of a run, one line each."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.printable import shorten
from bayou.core.spelling import option
from bayou.evaluate.later import LabelOrder
from bayou.sources import Source

# Number of first rows to check, and how many of them must not belong to the most frequent class.
ROWS, EACH = 4096, 20
# Number of columns that are named.
NAMED = 3
# An AUC from this on, over at least this many examples, is suspicious.
PERFECT, EXAMPLES = 0.999, 100
# What may follow a column's name in the name of one of its features.
_AFTER = re.compile(r"(?==|<|>=| in \[| is there| hour=| weekday=| month=| workday hour=| weekend hour=)")


class DataWarnings:
    """Collector of warnings: `look` at the batches of a run, then get the warnings from `after`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows: list[Batch] = []
        two = source.fit_recipe().task == "binary"
        self._missing = ROWS if two else 0
        self._telling: list[str] = []
        self._any = False
        self._order = LabelOrder() if two else None

    def look(self, batch: Batch) -> None:
        """Observe a batch of the first pass before it is learned; its rows are kept until there are ROWS."""
        self._any = True
        if self._missing > 0:
            self._rows.append(batch[: self._missing])
            self._missing -= len(self._rows[-1])
            if not self._missing:
                self._end()

    def follow(self, labels: Any) -> None:
        """Observe the labels of the next rows of the first pass, in order."""
        if self._order is not None:
            self._order.add(labels)

    def _end(self) -> None:
        if self._rows:
            self._telling = _telling(Batch.concatenate(self._rows), self._source)
        self._rows, self._missing = [], 0

    def after(self, meter: Any) -> list[str]:
        """Return the warnings about the data and the quality of the predictions."""
        notes = list(self._source.warnings)
        if self._any and not meter.examples:
            return [*notes, f"all examples have the weight 0: nothing was learned; check what {option('weight')} names"]
        self._end()
        telling, auc = self._telling, getattr(meter.result(), "auc", None)
        if telling:
            names = ", ".join(map(shorten, telling[:NAMED])) + " and more" * (len(telling) > NAMED)
            verb = "alone tells the label" if len(telling) == 1 else "each tell the label alone"
            notes.append(f"{names} {verb}; exclude what is not known before the label (in a table: {option('ignore')})")
        elif auc is not None and auc >= PERFECT and meter.examples >= EXAMPLES:
            notes.append(f"an AUC of {auc:.5f} is suspicious: a feature may hold what is only known with the label")
        if self._order is not None and (pattern := self._order.warning()):
            notes.append(pattern)
        return notes


def _telling(batch: Batch, source: Source) -> list[str]:
    """Return the columns (or features, without columns) that each determine the labels of these rows alone.

    A column does if all rows with the same value have the same label, and so do the rows without a value.
    """
    _, label = np.unique(np.asarray(batch.labels), return_inverse=True)
    n, of_each = len(label), np.bincount(label)
    if of_each.max(initial=0) > n - EACH:
        return []
    features, index_of = np.unique(batch.indices, return_inverse=True)
    rows, kinds = np.repeat(np.arange(n), np.diff(batch.indptr)), len(of_each)
    column_names, column_of = _columns(features, source)
    size = len(features) if column_names is None else len(column_names)
    label_counts = _by_label(index_of, label[rows], len(features), kinds)
    mixed = np.bincount(column_of, np.count_nonzero(label_counts, axis=1) > 1, size) > 0
    values = np.bincount(column_of, minlength=size)
    if column_names is not None:  # each (column, row) once; features are unique per row already
        index_of, rows = np.divmod(np.unique(column_of[index_of] * n + rows), n)
    complete = (_by_label(index_of, label[rows], size, kinds) == of_each).sum(axis=1)  # labels whose rows all have it
    telling = np.flatnonzero(~mixed & (complete >= kinds - 1) & (values <= n / 10))
    if column_names is None:
        return [_feature(*pair) for pair in _named(features[telling], source)]
    return [column_names[k] for k in telling]


def _by_label(indices: np.ndarray, label: np.ndarray, size: int, kinds: int) -> np.ndarray:
    """Return the counts (size, kinds) of each index in `indices` with each label."""
    return np.bincount(indices * kinds + label, minlength=size * kinds).reshape(size, kinds)


def _named(features: np.ndarray, source: Source) -> list[tuple[int, str | None]]:
    """Return (feature, name) pairs; the name is None if unknown."""
    vocabulary = source.extras.names
    called = [None] * len(features) if vocabulary is None else vocabulary.name_of(features)
    return list(zip(features.tolist(), called, strict=True))


def _feature(index: int, name: str | None) -> str:
    return f"feature {index if name is None else name!r}"


def _columns(features: np.ndarray, source: Source) -> tuple[list[str] | None, np.ndarray]:
    """Return the display names of columns, and each feature's position in them; other features are their own column.

    Without columns the names are None, because there may be too many features to name.
    """
    columns = {column.name for column in source.recipe.columns or ()}
    if not columns:
        return None, np.arange(len(features))
    positions: dict[str | int, int] = {}  # positions of columns, and of features without a column
    names, position_of, heads = list[str](), list[int](), dict[str, str | None]()
    for feature, name in _named(features, source):
        head, mark, _ = (name or "").partition("=")
        if head not in heads:  # cached: there are many features, but few columns
            heads[head] = _column(head + mark, columns)
        prefix = name if name in columns else heads[head] or _column(name or "", columns)
        position = positions.setdefault(feature if prefix is None else prefix, len(names))
        if position == len(names):
            names.append(_feature(feature, name) if prefix is None else f"column {prefix!r}")
        position_of.append(position)
    return names, np.array(position_of, np.int64)


def _column(name: str, columns: set[str]) -> str | None:
    """Return the column of a feature: its whole name, or the shortest column name that a mark follows."""
    if name in columns:
        return name
    return next((prefix for mark in _AFTER.finditer(name) if (prefix := name[: mark.start()]) in columns), None)
