"""Online Bayesian lasso; what it does is in `learner`, how it is solved in `equations`."""

from bayou.core.registry import Record
from bayou.learners.shrinkage.learner import Shrinkage

RECORD = Record(
    name="shrinkage",
    path="bayou.learners.shrinkage:Shrinkage",
    estimator="ShrinkageRegressor",
    summary="online Bayesian lasso: Gaussian regression whose prior sharpens around the last weights",
    paper="oslog",
    task="regression",
    dtype="float64",
    dense=True,
)

__all__ = ["Shrinkage"]
