"""Columns of predictions: their names, meaning and values.

Files and tables have the columns whose `in_tables` is set, the server's responses those whose `in_responses` is. To add
a column, add it to `COLUMNS`: all interfaces and the server's API description follow. For multiclass models, columns
describe the most probable class; tables have its name before them, and the probabilities of all classes after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bayou.core.errors import BadInput
from bayou.core.spelling import option

CLASS = "class"


class PredictionColumn(NamedTuple):
    """A column of numbers: its tasks, its values, whether it needs a posterior, and where it appears."""

    name: str
    tasks: Sequence[str]
    values: Callable[[Any, Any], np.ndarray]  # from a prediction, or a `BestClass`, and (low, high)
    needs_posterior: bool = False
    in_tables: bool = True
    in_responses: bool = True
    description: str = ""  # in the server's API description


_CLASSES, _ONE, _ALL = ("binary", "multiclass"), ("binary", "regression"), ("binary", "multiclass", "regression")
COLUMNS = (
    PredictionColumn(
        *("probability", _CLASSES, lambda prediction, interval: prediction.probability),
        description="of the positive class, or of the most probable one",
    ),
    PredictionColumn(
        *("mean", ("binary",), lambda prediction, interval: prediction.mean),
        description="of the score (log-odds); of a number its expectation",
    ),
    PredictionColumn("mean", ("regression",), lambda prediction, interval: prediction.expected),
    PredictionColumn("variance", _ONE, lambda prediction, interval: prediction.variance, True, in_responses=False),
    PredictionColumn(
        *("sd", _ONE, lambda prediction, interval: np.sqrt(prediction.variance), True),
        in_tables=False,
        description="standard deviation of that mean",
    ),
    PredictionColumn("low", _ALL, lambda prediction, interval: interval[0], True),
    PredictionColumn(
        *("high", _ALL, lambda prediction, interval: interval[1], True),
        description="low and high hold it with the probability `level`",
    ),
)


class PredictionRows(NamedTuple):
    """Predictions of some examples: a row of numbers for each column; if multiclass, the most probable classes."""

    numbers: np.ndarray
    classes: Sequence[str] | None = None


def number_columns(learner: Any, in_tables: bool = True) -> list[PredictionColumn]:
    """Return the numeric columns of a learner's predictions, in tables or in responses."""
    return [
        column
        for column in COLUMNS
        if learner.record.task in column.tasks
        and (learner.has_posterior or not column.needs_posterior)
        and (column.in_tables if in_tables else column.in_responses)
    ]


def columns_of(learner: Any, quantiles: Sequence[float] = ()) -> tuple[str, ...]:
    """Return the names of the columns of a table. The first is text for multiclass models."""
    task = learner.record.task
    if quantiles and (task != "regression" or not learner.has_posterior):
        raise BadInput(f"{option('quantiles')} need numbers with intervals, which {learner.name} does not predict.")
    columns = [column.name for column in number_columns(learner)]
    if task == "multiclass":
        return (CLASS, *columns, *(f"P({name})" for name in learner.class_names))
    return (*columns, *(f"q{level:g}" for level in quantiles))


def column_values(learner: Any, prediction: Any, interval: Any, in_tables: bool = True) -> dict[str, np.ndarray]:
    """Return the values of a learner's numeric columns; for multiclass models `prediction` is a `BestClass`."""
    return {column.name: column.values(prediction, interval) for column in number_columns(learner, in_tables)}


def prediction_table(
    learner: Any, predicted: Any, level: float = 0.95, quantiles: Sequence[float] = ()
) -> PredictionRows:
    """Return the columns of `columns_of(learner, quantiles)`, with a value for each example.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=8)
    >>> prediction_table(learner, learner.predict(Batch.from_rows([{}]))).numbers.round(3).T
    array([[0.5  , 0.   , 3.   , 0.032, 0.968]])
    """
    if learner.record.task == "multiclass":
        if not len(predicted.labels):
            raise BadInput("the model has seen no classes yet, so it cannot predict; train it first.")
        best = predicted.best_with_interval(level)
        columns = column_values(learner, best, (best.low, best.high)).values()
        names = learner.class_names
        return PredictionRows(np.vstack([*columns, predicted.probability.T]), [names[k] for k in best.column.tolist()])
    columns = column_values(learner, predicted, predicted.interval(level) if learner.has_posterior else None).values()
    return PredictionRows(np.stack([*columns, *(predicted.quantile(probability) for probability in quantiles)]))
