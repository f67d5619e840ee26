"""The learners, one algorithm per file; names resolve on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayou.learners.adagrad import AdaGrad
    from bayou.learners.bank import Bank
    from bayou.learners.ftrl import FTRL
    from bayou.learners.gaussian import Gaussian
    from bayou.learners.joint import Joint
    from bayou.learners.lasso import Lasso
    from bayou.learners.marginal import Marginal
    from bayou.learners.moment import Moment
    from bayou.learners.shrinkage import Shrinkage
    from bayou.learners.spike_slab import SpikeSlab
    from bayou.learners.variational import Variational

__all__ = [
    "FTRL",
    "AdaGrad",
    "Bank",
    "Gaussian",
    "Joint",
    "Lasso",
    "Marginal",
    "Moment",
    "Shrinkage",
    "SpikeSlab",
    "Variational",
]


def __getattr__(name: str) -> Any:
    from bayou.core.registry import by_class

    # Dunder names are asked for by tools that only look around.
    if not name.startswith("_") and (record := by_class(name)):
        return record.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
