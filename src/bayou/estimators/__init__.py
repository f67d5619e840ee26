"""scikit-learn estimators for the learners: one shared base, and a small class for each learner.

`__all__` lists the estimators proper, which are importable from `bayou` as well.
"""

from bayou.estimators.base import OnlineClassifier as OnlineClassifier
from bayou.estimators.base import expected_failed_checks as expected_failed_checks
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
from bayou.estimators.lasso import LassoClassifier
from bayou.estimators.lasso import PathPoint as PathPoint
from bayou.estimators.regressors import BankRegressor, GaussianRegressor, ShrinkageRegressor
from bayou.estimators.regressors import OnlineRegressor as OnlineRegressor
from bayou.estimators.selection import SelectByInclusion

__all__ = [
    "AdaGradClassifier",
    "BankClassifier",
    "BankRegressor",
    "FTRLClassifier",
    "GaussianRegressor",
    "JointClassifier",
    "LassoClassifier",
    "MarginalClassifier",
    "MomentClassifier",
    "SelectByInclusion",
    "ShrinkageRegressor",
    "SpikeSlabClassifier",
    "VariationalClassifier",
]
