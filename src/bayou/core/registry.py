"""Registry of learners by their records: each module of `bayou.learners` defines the `RECORD` of its learner.

The laws, the estimators, the command and the docs table are driven by the records. There is no list of learners: the
module `bayou.learners.spike_slab` has the record called "spike-slab" of the class `SpikeSlab`, and is imported when one
of these names is looked up. Other packages add a learner through an entry point of the group `bayou.learners` that
points to a `Record`.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from bayou.core.errors import BadInput

DEFAULT, DEFAULT_REGRESSION = "bank", "number-bank"  # the default learner, and its counterpart for regression
# Default learners of a comparison: they run on any data.
DEFAULT_COMPARED, DEFAULT_COMPARED_REGRESSION = (DEFAULT, "marginal", "adagrad"), (DEFAULT, "gaussian")

TOY_FEATURES = 8


@dataclass(frozen=True)
class Record:
    """Properties of a learner that the rest of bayou relies on.

    >>> record = find("adagrad")
    >>> record.task, record.posterior, record.load().__name__
    ('binary', False, 'AdaGrad')
    """

    name: str  # as in the command line and in model files
    path: str  # "module:class"
    estimator: str | None  # its scikit-learn estimator in bayou.estimators
    summary: str
    paper: str
    task: Literal["binary", "multiclass", "regression"] = "binary"
    dtype: Literal["float32", "float64"] = "float32"
    posterior: bool = True  # variance, intervals, sampling
    linear: bool = True  # the score is the sum of mean * value; else the means approximate it linearly
    dense: bool = False  # needs a dense feature space, and rejects sizes that do not fit
    # exact: equal to one learner that saw both streams; approximate: a valid posterior, but a different one.
    merge: Literal["exact", "approximate", "refused"] = "approximate"
    # single: rows of later passes count as new ones; discounted: they count less; multi: the learner needs passes.
    passes: Literal["single", "discounted", "multi"] = "single"
    sharding: bool = False  # gains over a base add up: it is a `core.sharding.ShardingLearner`, for `bayou.rounds`

    def load(self) -> Any:
        """Import the learner's module and return its class."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)

    def toy(self, parameters: Mapping[str, Any] | None = None, n_features: int = TOY_FEATURES) -> Any:
        """Return a small untrained learner for trying kernels, with these parameters or the defaults.

        >>> find("marginal").toy({"link": "probit"}).parameters["link"]
        'probit'
        """
        chosen = {"dtype": self.dtype} | dict(parameters or {}) | {"n_features": n_features}
        if "classes" in chosen:  # a learner may not have seen any yet
            chosen["classes"] = [0, 1]
        return self.load()(**chosen)

    @property
    def class_name(self) -> str:
        return self.path.rpartition(":")[2]


def find(name: str) -> Record:
    """Return the record called `name`; raise BadInput that lists all names if there is none.

    >>> find("bank").estimator
    'BankClassifier'
    """
    if not isinstance(name, str):
        raise BadInput(f"a learner is given by name, such as 'bank', not as {type(name).__name__}.")
    record = _own(name)  # our own names need no search of installed packages
    if record is not None and record.name == name:
        return record
    by_name = records()
    if name not in by_name:
        from bayou.core.checks import suggest

        near = suggest(name, by_name)
        raise BadInput(f"there is no learner called {name!r}; there are: {', '.join(by_name)}.{near}")
    return by_name[name]


def by_class(name: str) -> Record | None:
    """Return the record whose learner's class is called `name`, our own first; None if there is none."""
    record = _own(name)
    if record is not None and record.class_name == name:
        return record
    return next((record for record in records().values() if record.class_name == name), None)


def by_estimator(name: str) -> Record | None:
    """Return our own record whose estimator is called `name`; None if there is none."""
    learner = name.removesuffix("Classifier").removesuffix("Regressor")
    # The counterpart of a classifier for regression has a module of its own.
    candidates = (_own(module) for module in (learner, f"number_{learner}"))
    return next((record for record in candidates if record is not None and record.estimator == name), None)


def own_records() -> list[Record]:
    """Return bayou's own records: the default first, then by name. Imports every learner's module."""
    own = [record for record in map(_own, _modules()) if record is not None]
    return sorted(own, key=lambda record: (record.name != DEFAULT, record.name))


@cache
def records() -> dict[str, Record]:
    """Return the records of all learners by name: bayou's own, then those of installed entry points.

    >>> {"bank", "marginal", "spike-slab"} <= records().keys()
    True
    """
    from importlib.metadata import entry_points

    by_name = {record.name: record for record in own_records()}
    for entry in entry_points(group="bayou.learners"):
        try:
            record = entry.load()
            if not isinstance(record, Record):
                raise TypeError("it is not a bayou.registry.Record")
        except Exception as error:  # errors of another package must not break this one
            warnings.warn(f"the learner {entry.name!r} ({entry.value}) cannot be loaded: {error}.", stacklevel=2)
        else:
            by_name.setdefault(record.name, record)
    return by_name


@cache
def _own(name: str) -> Record | None:
    """Return the record of the module in `bayou.learners` of that name, up to case, hyphens and underscores."""
    module = _modules().get(_folded(name))
    record = module and getattr(importlib.import_module(module), "RECORD", None)
    return record or None


@cache
def _modules() -> dict[str, str]:
    """Return the modules of `bayou.learners` by their names without case, hyphens and underscores."""
    package = importlib.import_module("bayou.learners")
    return {_folded(place.name): f"bayou.learners.{place.name}" for place in pkgutil.iter_modules(package.__path__)}


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def as_table() -> str:
    """Return bayou's own learners as a Markdown table, for the docs."""
    head = "| learner | class | estimator | what it is | task | posterior | merge | passes | state | paper |"
    rows = [head, "|" + "---|" * (head.count("|") - 1)]
    rows += [
        f"| {r.name} | `{r.class_name}` | {f'`{r.estimator}`' if r.estimator else 'each classifier'} | {r.summary} | "
        f"{r.task} | {'yes' if r.posterior else 'no'} | {r.merge} | {r.passes} | {r.dtype}{', dense' * r.dense} | "
        f"{r.paper} |"
        for r in own_records()
    ]
    return "\n".join(rows) + "\n"
