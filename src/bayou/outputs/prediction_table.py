"""What is written down of a prediction, by columns.

Of two classes the probability, the score and an interval; of several the most probable class, its probability with an
interval, and the probabilities of all; of a number its mean, variance, interval and quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayou.core.errors import BadInput

COLUMNS = ("probability", "mean", "variance", "low", "high")
REGRESSION_COLUMNS = ("mean", "variance", "low", "high")
CLASS = "class"


class PredictionRows(NamedTuple):
    """Predictions of some examples: a row of numbers for each column, and of several classes the names of the best."""

    numbers: np.ndarray
    classes: Sequence[str] | None = None


def columns_of(learner: Any, quantiles: Sequence[float] = ()) -> tuple[str, ...]:
    """What can be said of its predictions. The first column is text where there are several classes."""
    task, sure = learner.record.task, not learner.posterior
    if quantiles and (task != "regression" or sure):
        raise BadInput(f"--quantiles are of numbers with an interval, which {learner.name} does not predict.")
    if task == "multiclass":
        names = learner.class_names
        head = ("probability",) if sure else ("probability", "low", "high")
        return (CLASS, *head, *(f"P({name})" for name in names))
    if task == "regression":
        own = ("mean",) if sure else REGRESSION_COLUMNS
        return (*own, *(f"q{share:g}" for share in quantiles))
    return COLUMNS[:2] if sure else COLUMNS


def prediction_table(
    learner: Any, predicted: Any, level: float = 0.95, quantiles: Sequence[float] = ()
) -> PredictionRows:
    """The columns of `columns_of(learner)`, with a number for each example.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=8)
    >>> prediction_table(learner, learner.predict(Batch.from_rows([{}]))).numbers.round(3).T
    array([[0.5  , 0.   , 3.   , 0.032, 0.968]])
    """
    if learner.record.task == "multiclass":
        return _of_classes(learner, predicted, level)
    table = [predicted.expected] if learner.record.task == "regression" else [predicted.probability, predicted.mean]
    if learner.posterior:
        table += [predicted.variance, *predicted.interval(level)]
    return PredictionRows(np.stack([*table, *(predicted.quantile(share) for share in quantiles)]))


def _of_classes(learner: Any, predicted: Any, level: float) -> PredictionRows:
    names, probability = learner.class_names, predicted.probability
    best = probability.argmax(axis=1) if probability.shape[1] else None
    if best is None:
        raise BadInput("the model has met no class yet, so it can predict none; train it first.")
    table = [probability]
    if learner.posterior:
        table += predicted.interval(level)
    own = [np.take_along_axis(part, best[:, None], axis=1)[:, 0] for part in table]
    return PredictionRows(np.vstack([*own, probability.T]), [names[k] for k in best.tolist()])
