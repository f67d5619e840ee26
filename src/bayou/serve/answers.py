"""What is said of predictions, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from bayou.core.learner import Learner
from bayou.outputs.text import json_objects

encode = msgspec.json.Encoder().encode


class Row(msgspec.Struct, omit_defaults=True, gc=False):
    """What is predicted of one row; `version` stands here if there was no other."""

    probability: float | None = None
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    label: str | None = None
    classes: dict[str, float] | None = None
    remembered: str | None = None
    version: int | None = None


NUMBERS = Row.__struct_fields__[:5]


class Said:
    """What is said of some rows: columns of numbers, and what they are row by row, or as JSON.

    Args:
        told: predictions, those of some rows after those of others.
        level: of intervals.
    """

    def __init__(self, learner: Learner, told: Sequence[Any], level: float) -> None:
        self._columns: dict[str, np.ndarray] = {}
        if learner.record.task == "multiclass":
            self.rows = [row for part in told for row in _of_classes(learner, part, level)]
            return
        parts = [_columns_of(learner, part, level) for part in told]
        self._columns = parts[0] if len(parts) == 1 else {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}

    @cached_property
    def rows(self) -> list[Row]:
        columns = self._columns
        return list(map(Row, *(columns[k].tolist() if k in columns else repeat(None) for k in NUMBERS)))

    @property
    def sd(self) -> float:
        """The sum of all standard deviations."""
        return float(self._columns["sd"].sum()) if "sd" in self._columns else 0.0

    def answer(self, first: int, last: int, version: int, one: bool = False) -> bytes:
        """The answer to a request of some of the rows; of `one` by itself it is another."""
        return single(self.rows[first], version) if one else several([self.json(first, last)], version)

    def json(self, first: int = 0, last: int | None = None) -> bytes:
        """Some of the rows, with commas between them."""
        if not self._columns:
            return encode(self.rows[first:last])[1:-1]
        return json_objects({name: column[first:last] for name, column in self._columns.items()})


def _columns_of(learner: Learner, told: Any, level: float) -> dict[str, np.ndarray]:
    number = learner.record.task == "regression"
    own = {"mean": told.expected} if number else {"probability": told.probability, "mean": told.mean}
    if learner.record.posterior:
        low, high = told.interval(level)
        own |= {"sd": np.sqrt(told.variance), "low": low, "high": high}
    return own


def _of_classes(learner: Learner, told: Any, level: float) -> list[Row]:
    names = class_names(learner, told.labels)
    if not names:
        return [Row(classes={}) for _ in told.probability]
    chances, best = told.probability, told.probability.argmax(axis=1)
    rows = np.arange(len(best))
    low = high = [None] * len(best)
    if told.has_variance:
        low, high = (bound[rows, best].tolist() for bound in told.interval(level))
    return [
        Row(probability=p[k], low=a, high=b, label=names[k], classes=dict(zip(names, p, strict=True)))
        for p, k, a, b in zip(chances.tolist(), best.tolist(), low, high, strict=True)
    ]


def class_names(learner: Learner, labels: np.ndarray) -> list[str]:
    """What classes are called: by the names that travel with the model, or by their numbers."""
    known = learner.extras.classes
    return [known[int(label)] if 0 <= label < len(known) else f"{label:g}" for label in labels.tolist()]


def single(row: Row, version: int) -> bytes:
    """The answer to a request of one row."""
    row.version = version
    return encode(row)


def of_rows(rows: Sequence[Row], version: int, one: bool) -> bytes:
    """The answer to a request of these rows."""
    return single(rows[0], version) if one else several([encode(rows)[1:-1]], version)


def several(rows: Sequence[bytes], version: int) -> bytes:
    """The answer to a request of several rows, some of which after others are JSON already."""
    return b'{"predictions":[%s],"version":%d}' % (b",".join(filter(None, rows)), version)


def duplicate(version: int) -> bytes:
    """The answer to a request that was learned before."""
    return b'{"predictions":[],"version":%d,"duplicate":true}' % version


def error(sentence: str, rows: dict[int, str] | None = None) -> bytes:
    """A refusal, as every part of the server words it."""
    said: dict[str, Any] = {"error": sentence}
    if rows:
        said["rows"] = [{"index": index, "error": why} for index, why in sorted(rows.items())]
    return encode(said)
