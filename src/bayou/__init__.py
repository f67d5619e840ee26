"""bayou: Bayesian online learning of sparse linear models, where every weight is a distribution.

Names are loaded when they are first used, so `import bayou` is fast, and scikit-learn is imported only for the
scikit-learn estimators.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; at run time, __getattr__ loads these names
    from bayou import estimators as estimators
    from bayou import evaluate as evaluate
    from bayou import learners as learners
    from bayou import registry as registry
    from bayou import river as river
    from bayou import rounds as rounds
    from bayou import simulate as simulate
    from bayou import sources as sources
    from bayou.core.batch import Batch as Batch
    from bayou.core.errors import BadInput as BadInput
    from bayou.core.errors import BadModel as BadModel
    from bayou.core.errors import NoPosterior as NoPosterior
    from bayou.core.errors import WrongTask as WrongTask
    from bayou.core.storage import load as load
    from bayou.estimators import *  # noqa: F403
    from bayou.runs.contrast import contrast as contrast
    from bayou.runs.features import features as features
    from bayou.runs.look import look as look
    from bayou.runs.posterior import posterior as posterior
    from bayou.runs.predict import predict as predict
    from bayou.runs.train import train as train

__version__ = "0.1.0"

# Set bayou.quiet = True to suppress messages on standard error, such as those about compiling kernels.
quiet = False

_HOME = {
    "BadInput": "bayou.core.errors",
    "BadModel": "bayou.core.errors",
    "Batch": "bayou.core.batch",
    "NoPosterior": "bayou.core.errors",
    "SelectByInclusion": "bayou.estimators",
    "WrongTask": "bayou.core.errors",
    "load": "bayou.core.storage",
    "contrast": "bayou.runs.contrast",
    "features": "bayou.runs.features",
    "look": "bayou.runs.look",
    "posterior": "bayou.runs.posterior",
    "predict": "bayou.runs.predict",
    "train": "bayou.runs.train",
}
_MODULES = {"estimators", "evaluate", "learners", "registry", "river", "rounds", "simulate", "sources"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"bayou.{name}")
    if name == "__all__":
        return _names()
    home = _HOME.get(name)
    if home is None and not name.startswith("_"):
        from bayou.core import registry

        # Records hold the names of the estimators.
        home = "bayou.estimators" if registry.by_estimator(name) else None
    if home is None:
        raise AttributeError(f"module 'bayou' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def _names() -> list[str]:
    from bayou.core import registry

    estimators = {record.estimator for record in registry.own_records() if record.estimator}
    # bayou.river needs the package river, and bayou.registry is for other packages.
    return sorted({"__version__", *_HOME, *estimators, *_MODULES} - {"registry", "river"})


def __dir__() -> list[str]:
    return _names()
