"""scikit-learn's face of the learners: one shared base, and a small class for each learner."""

from bayou.estimators.base import OnlineClassifier, expected_failed_checks
from bayou.estimators.classifiers import (
    AdaGradClassifier,
    BankClassifier,
    FTRLClassifier,
    JointClassifier,
    MarginalClassifier,
    MomentClassifier,
    SpikeSlabClassifier,
    VariationalClassifier,
)
from bayou.estimators.lasso import LassoClassifier, PathPoint
from bayou.estimators.regressors import GaussianRegressor, OnlineRegressor, ShrinkageRegressor
from bayou.estimators.selection import SelectByInclusion

__all__ = [
    "AdaGradClassifier",
    "BankClassifier",
    "FTRLClassifier",
    "GaussianRegressor",
    "JointClassifier",
    "LassoClassifier",
    "MarginalClassifier",
    "MomentClassifier",
    "OnlineClassifier",
    "OnlineRegressor",
    "PathPoint",
    "SelectByInclusion",
    "ShrinkageRegressor",
    "SpikeSlabClassifier",
    "VariationalClassifier",
    "expected_failed_checks",
]
