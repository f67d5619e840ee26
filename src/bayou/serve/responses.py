"""Responses: predictions as JSON, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np

from bayou.core.class_prediction import ClassPrediction, class_names
from bayou.core.learner import Learner
from bayou.outputs.prediction_table import column_values

encode = msgspec.json.Encoder().encode
Head = Sequence[tuple[bytes, bytes]]
JSON_HEAD: Head = ((b"content-type", b"application/json"),)
# Headers of every response with a given status.
_HEADS: dict[int, Head] = {
    401: ((b"www-authenticate", b"Bearer"),),
    413: ((b"connection", b"close"),),  # the rest of the body is not read
    429: ((b"retry-after", b"1"),),
    503: ((b"retry-after", b"1"),),
}


class RequestError(Exception):
    """Refusal of a request, with the response to send.

    Attributes:
        rows: the errors of individual rows, by index.
        head: the headers of the response.
    """

    def __init__(self, status: int, sentence: str, rows: Mapping[int, str] | None = None, head: Head = ()) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.rows = status, sentence, rows
        self.head: Head = (*JSON_HEAD, *head, *_HEADS.get(status, ()))

    def body(self) -> bytes:
        """Return the body of the response."""
        content: dict[str, Any] = {"error": self.sentence}
        if self.rows:
            content["rows"] = [{"index": index, "error": reason} for index, reason in sorted(self.rows.items())]
        return encode(content)


# Prediction of one row: numbers (`outputs.prediction_table.COLUMNS`); for multiclass also `label` and `classes`; and
# `remembered`.
RowResponse = dict[str, Any]


class PredictionResponse:
    """Predictions of several rows, as columns of numbers, row by row, or as JSON.

    Args:
        learner: the learner that made them.
        prediction: the predictions, in consecutive parts.
        level: the level of intervals.
    """

    def __init__(self, learner: Learner, prediction: Sequence[Any], level: float) -> None:
        self._columns: dict[str, np.ndarray] = {}
        if learner.record.task == "multiclass":
            self.rows = [row for chunk in prediction for row in _of_classes(learner, chunk, level)]
            return
        intervals = [chunk.interval(level) if learner.has_posterior else None for chunk in prediction]
        named = [column_values(learner, *chunk, in_tables=False) for chunk in zip(prediction, intervals, strict=True)]
        self._columns = named[0] if len(named) == 1 else {k: np.concatenate([p[k] for p in named]) for k in named[0]}

    @cached_property
    def rows(self) -> list[RowResponse]:
        return _as_rows(self._columns)

    @property
    def sd(self) -> float:
        """Return the sum of all standard deviations."""
        return float(self._columns["sd"].sum()) if "sd" in self._columns else 0.0

    def answer(self, first: int, last: int, version: int, is_single: bool = False) -> bytes:
        """Return the response to a request for the rows in [first, last); with `is_single`, in the form for one row."""
        return single(self.rows[first], version) if is_single else several([self.json(first, last)], version)

    def json(self, first: int = 0, last: int | None = None) -> bytes:
        """Return the rows in [first, last) as JSON objects with commas between them."""
        if not self._columns:
            return encode(self.rows[first:last])[1:-1]
        cells = (column[first:last].tolist() for column in self._columns.values())
        return encode([*map(_row_type(tuple(self._columns)), *cells)])[1:-1]


@lru_cache(16)
def _row_type(names: tuple[str, ...]) -> type[msgspec.Struct]:
    """Return the type of rows with these numbers, which are encoded three times as fast as dictionaries."""
    return msgspec.defstruct("Row", names, gc=False)


def _as_rows(columns: Mapping[str, np.ndarray]) -> list[RowResponse]:
    return [
        dict(zip(columns, cells, strict=True)) for cells in zip(*(c.tolist() for c in columns.values()), strict=True)
    ]


def _of_classes(learner: Learner, prediction: ClassPrediction, level: float) -> list[RowResponse]:
    names = class_names(prediction.labels, learner.extras.classes)
    if not names:
        return [{"classes": {}} for _ in prediction.probability]
    best = prediction.best_with_interval(level)
    best_rows = _as_rows(column_values(learner, best, (best.low, best.high), in_tables=False))
    return [
        {**row, "label": names[k], "classes": dict(zip(names, p, strict=True))}
        for row, k, p in zip(best_rows, best.column.tolist(), prediction.probability.tolist(), strict=True)
    ]


def single(row: RowResponse, version: int) -> bytes:
    """Return the response to a request of one row."""
    return encode({**row, "version": version})


def of_rows(rows: Sequence[RowResponse], version: int, is_single: bool) -> bytes:
    """Return the response to a request of these rows."""
    return single(rows[0], version) if is_single else several([encode(rows)[1:-1]], version)


def several(rows: Sequence[bytes], version: int) -> bytes:
    """Return the response to a request of several rows, given as JSON in parts."""
    return b'{"predictions":[%s],"version":%d}' % (b",".join(filter(None, rows)), version)


def duplicate(version: int) -> bytes:
    """Return the response to a request that was learned before."""
    return b'{"predictions":[],"version":%d,"duplicate":true}' % version
