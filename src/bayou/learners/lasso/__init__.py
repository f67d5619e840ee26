"""L1-penalised regression from quadratic sketches; see `learner`."""

from bayou.core.registry import Record
from bayou.learners.lasso.learner import Lasso

RECORD = Record(
    name="lasso",
    path="bayou.learners.lasso:Lasso",
    estimator="LassoClassifier",
    summary="L1-penalised regression from quadratic sketches: online, or exact in a few passes with a certificate",
    paper="quadratic-l1",
    dtype="float64",
    posterior=False,
    merge="exact",
    passes="multi",
)

__all__ = ["Lasso"]
