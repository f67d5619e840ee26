"""Gaussian weights updated together; see `learner`."""

from bayou.core.registry import Record
from bayou.learners.joint.learner import Joint

RECORD = Record(
    "joint", "bayou.learners.joint:Joint", "JointClassifier",
    summary="Gaussian weights updated together by Laplace's approximation; diagonal or full covariance",
    paper="marginal-gaussian, appendix D.1 (DimGauss)",
)  # fmt: skip

__all__ = ["Joint"]
