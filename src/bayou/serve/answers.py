"""What is said of predictions, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from bayou.core.learner import Learner

encode = msgspec.json.Encoder().encode


class Row(msgspec.Struct, omit_defaults=True):
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


class Answer(msgspec.Struct, omit_defaults=True):
    """What is predicted of several rows."""

    predictions: list[Row]
    version: int
    duplicate: bool = False


def rows_of(learner: Learner, told: Any, level: float) -> list[Row]:
    """One for each row of a prediction."""
    if learner.record.task == "classes":
        return _of_classes(learner, told, level)
    posterior = learner.record.posterior
    columns = [np.sqrt(told.variance), *told.interval(level)] if posterior else []
    if learner.record.task == "regress":
        columns = [np.full(len(told.expected), None), told.expected, *columns]
    else:
        columns = [told.probability, told.mean, *columns]
    return list(map(Row, *(column.tolist() for column in columns)))


def _of_classes(learner: Learner, told: Any, level: float) -> list[Row]:
    names = class_names(learner, told.labels)
    if not names:
        return [Row(classes={}) for _ in told.probability]
    chances, best = told.probability, told.probability.argmax(axis=1)
    rows = np.arange(len(best))
    low = high = [None] * len(best)
    if told._scores.variance is not None:
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


def several(rows: Sequence[Row], version: int) -> bytes:
    """The answer to a request of several rows."""
    return encode(Answer(list(rows), version))


def error(sentence: str, rows: dict[int, str] | None = None) -> bytes:
    """A refusal, as every part of the server words it."""
    said: dict[str, Any] = {"error": sentence}
    if rows:
        said["rows"] = [{"index": index, "error": why} for index, why in sorted(rows.items())]
    return encode(said)
