"""Progressive evaluation: every example is predicted before it is learned.

`progressive` runs a learner over any iterable of batches, `predict_then_learn` is its step; `Meter`,
`ClassMeter` and `RegressionMeter` score predictions; `best_fixed_weights` and `least_squares` return weights to measure
regret against.
"""

from bayou.evaluate.binary import Evaluation, Meter
from bayou.evaluate.hindsight import Hindsight, best_fixed_weights, least_squares
from bayou.evaluate.meters import meter_for
from bayou.evaluate.multiclass import ClassEvaluation, ClassMeter
from bayou.evaluate.progressive import PredictedBatch, comparator_losses, predict_then_learn, progressive
from bayou.evaluate.regression import RegressionEvaluation, RegressionMeter

__all__ = [
    "ClassEvaluation",
    "ClassMeter",
    "Evaluation",
    "Hindsight",
    "Meter",
    "PredictedBatch",
    "RegressionEvaluation",
    "RegressionMeter",
    "best_fixed_weights",
    "comparator_losses",
    "least_squares",
    "meter_for",
    "predict_then_learn",
    "progressive",
]
