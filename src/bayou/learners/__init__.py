"""The learners, one algorithm per file or folder; names resolve on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers alone: nothing else needs this list
    from bayou.learners.adagrad import AdaGrad as AdaGrad
    from bayou.learners.bank import Bank as Bank
    from bayou.learners.classes import Classes as Classes
    from bayou.learners.forest import Forest as Forest
    from bayou.learners.ftrl import FTRL as FTRL
    from bayou.learners.gaussian import Gaussian as Gaussian
    from bayou.learners.joint import Joint as Joint
    from bayou.learners.lasso import Lasso as Lasso
    from bayou.learners.marginal import Marginal as Marginal
    from bayou.learners.moment import Moment as Moment
    from bayou.learners.number_bank import NumberBank as NumberBank
    from bayou.learners.shrinkage import Shrinkage as Shrinkage
    from bayou.learners.spike_slab import SpikeSlab as SpikeSlab
    from bayou.learners.variational import Variational as Variational


def __getattr__(name: str) -> Any:
    from bayou.core import registry

    if name == "__all__":
        return sorted(record.class_name for record in registry.own_records())
    # Other dunder names are asked for by tools that only look around.
    if not name.startswith("_") and (record := registry.by_class(name)):
        return record.load()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __getattr__("__all__")
