"""L1-penalised regression from quadratic sketches; see `learner`."""

from bayou.learners.lasso.learner import Lasso

__all__ = ["Lasso"]
