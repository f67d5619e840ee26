"""bayou: Bayesian online learning of sparse linear models, where every weight is a distribution.

Names are loaded when they are first used, so `import bayou` costs nothing and only those who use
scikit-learn's face pay for scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import bayou.estimators as estimators
    import bayou.evaluate as evaluate
    import bayou.learners as learners
    import bayou.river as river  # noqa: F401
    import bayou.simulate as simulate
    import bayou.sources as sources
    from bayou.core.batch import Batch
    from bayou.core.errors import BadInput, BadModel, NoPosterior, WrongTask
    from bayou.core.learner import load
    from bayou.estimators import (
        AdaGradClassifier,
        BankClassifier,
        FTRLClassifier,
        GaussianRegressor,
        JointClassifier,
        LassoClassifier,
        MarginalClassifier,
        MomentClassifier,
        SelectByInclusion,
        ShrinkageRegressor,
        SpikeSlabClassifier,
        VariationalClassifier,
    )
    from bayou.runs.predict import predict
    from bayou.runs.train import train

__version__ = "0.1.0"

__all__ = [
    "AdaGradClassifier",
    "BadInput",
    "BadModel",
    "BankClassifier",
    "Batch",
    "FTRLClassifier",
    "GaussianRegressor",
    "JointClassifier",
    "LassoClassifier",
    "MarginalClassifier",
    "MomentClassifier",
    "NoPosterior",
    "SelectByInclusion",
    "ShrinkageRegressor",
    "SpikeSlabClassifier",
    "VariationalClassifier",
    "WrongTask",
    "__version__",
    "estimators",
    "evaluate",
    "learners",
    "load",
    "predict",
    "simulate",
    "sources",
    "train",
]

_HOME = {
    "AdaGradClassifier": "bayou.estimators",
    "BadInput": "bayou.core.errors",
    "BadModel": "bayou.core.errors",
    "BankClassifier": "bayou.estimators",
    "Batch": "bayou.core.batch",
    "FTRLClassifier": "bayou.estimators",
    "GaussianRegressor": "bayou.estimators",
    "JointClassifier": "bayou.estimators",
    "LassoClassifier": "bayou.estimators",
    "MarginalClassifier": "bayou.estimators",
    "MomentClassifier": "bayou.estimators",
    "SelectByInclusion": "bayou.estimators",
    "SpikeSlabClassifier": "bayou.estimators",
    "ShrinkageRegressor": "bayou.estimators",
    "VariationalClassifier": "bayou.estimators",
    "NoPosterior": "bayou.core.errors",
    "WrongTask": "bayou.core.errors",
    "load": "bayou.core.learner",
    "predict": "bayou.runs.predict",
    "train": "bayou.runs.train",
}
# river is not in __all__: it needs river.
_MODULES = {"estimators", "evaluate", "learners", "registry", "river", "simulate", "sources"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"bayou.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bayou' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
