"""The regression bank: several regressions side by side, combined by evidence; the equations are in `learner`.

lanes           the lanes: settings, state, predictions and updates
head            columns whose covariances some lanes keep
combination     the combination of the lanes
weights         the weights that a bank shows
sampling        draws of weights
"""

from bayou.core.registry import Record
from bayou.learners.number_bank.lanes import NumberLane
from bayou.learners.number_bank.learner import NumberBank

RECORD = Record(
    name="number-bank",
    path="bayou.learners.number_bank:NumberBank",
    estimator="BankRegressor",
    summary="several regressions side by side, combined by evidence: nothing to tune",
    paper="none: ours",
    task="regression",
    dtype="float64",
    linear=False,
    merge="refused",
)

__all__ = ["RECORD", "NumberBank", "NumberLane"]
