"""Evaluate a learner as it learns: every example is predicted before it is learned from.

`progressive` runs a learner over any iterable of batches; `Meter` and `RegressionMeter` score predictions for those
who drive the learner themselves; `best_fixed_weights` and `least_squares` are what regret is measured against.
"""

from bayou.evaluate.classification import Evaluation, Meter
from bayou.evaluate.hindsight import Hindsight, best_fixed_weights, least_squares
from bayou.evaluate.progressive import comparator_losses, progressive
from bayou.evaluate.regression import RegressionEvaluation, RegressionMeter, meter_for

__all__ = [
    "Evaluation",
    "Hindsight",
    "Meter",
    "RegressionEvaluation",
    "RegressionMeter",
    "best_fixed_weights",
    "comparator_losses",
    "least_squares",
    "meter_for",
    "progressive",
]
