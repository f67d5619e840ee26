"""What is written down of a prediction: probability, score and an interval; of a regressor mean, variance, interval."""

from __future__ import annotations

import numpy as np

from bayou.core.learner import Learner
from bayou.core.prediction import Prediction

COLUMNS = ("probability", "mean", "variance", "low", "high")
REGRESSION_COLUMNS = ("mean", "variance", "low", "high")
WITHOUT_POSTERIOR = ("probability", "mean")


def columns_of(learner: Learner) -> tuple[str, ...]:
    """What can be said of its predictions."""
    if learner.record.task == "regress":
        return REGRESSION_COLUMNS if learner.record.posterior else ("mean",)
    return COLUMNS if learner.record.posterior else WITHOUT_POSTERIOR


def prediction_table(learner: Learner, predicted: Prediction, level: float = 0.95) -> np.ndarray:
    """One row for each of `columns_of(learner)`, one column for each example.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> learner = Marginal(n_features=8)
    >>> prediction_table(learner, learner.predict(Batch.from_rows([{}]))).round(3).T
    array([[0.5  , 0.   , 3.   , 0.032, 0.968]])
    """
    table = [predicted.expected] if learner.record.task == "regress" else [predicted.probability, predicted.mean]
    if learner.record.posterior:
        table += [predicted.variance, *predicted.interval(level)]
    return np.stack(table)
