"""The bank for numbers: several regressions side by side, combined by evidence; the equations are in `learner`.

lanes           what a lane is, which there are, what they say of a row and learn of it
head            the columns that some lanes know the covariances of
combination     what is made of all they say
weights         the weights that a bank shows
draws           and those that it draws
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
