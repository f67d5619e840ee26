"""Online Bayesian lasso. The model is described in `learner`, its solution in `equations`."""

from bayou.core.registry import Record
from bayou.learners.shrinkage.learner import Shrinkage

RECORD = Record(
    "shrinkage", "bayou.learners.shrinkage:Shrinkage", "ShrinkageRegressor",
    task="regression", dtype="float64", dense=True,
    summary="online Bayesian lasso: Gaussian regression whose prior sharpens around the last weights",
    paper="oslog",
)  # fmt: skip

__all__ = ["Shrinkage"]
