"""What each learner claims: its `RECORD`, which stands in the learner's own file in `bayou.learners`.

The laws, the estimators, the command and the docs table are driven by the records. There is no list of learners: the
module `bayou.learners.spike_slab` has the record called "spike-slab" of the class `SpikeSlab`, and is imported when one
of these names is asked for. A third party adds a learner through an entry point of the group `bayou.learners` that
names a `Record`.
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

DEFAULT, OF_NUMBERS = "bank", "number-bank"  # the learner of those who name none, and what it is to numbers
# Those of a comparison that names none: they run on any data.
COMPARED, COMPARED_OF_NUMBERS = (DEFAULT, "marginal", "adagrad"), (DEFAULT, "gaussian")

TOY_FEATURES = 8


@dataclass(frozen=True)
class Record:
    """What the rest of bayou may rely on about a learner.

    >>> record = find("adagrad")
    >>> record.task, record.posterior, record.load().__name__
    ('binary', False, 'AdaGrad')
    """

    name: str  # as the command line and model files say it
    path: str  # "module:class"
    estimator: str | None  # its scikit-learn face in bayou.estimators
    summary: str
    paper: str
    task: Literal["binary", "multiclass", "regression"] = "binary"
    dtype: Literal["float32", "float64"] = "float32"
    posterior: bool = True  # variance, intervals, sampling
    linear: bool = True  # the score is sum of mean * value; else the means are a linear picture of it
    dense: bool = False  # needs a dense feature space, so refuses sizes that do not fit
    # exact: equal to one learner that saw both streams. approximate: a sound posterior, but not that one.
    merge: Literal["exact", "approximate", "refused"] = "approximate"
    passes: Literal["single", "multi"] = "single"
    sharding: bool = False  # gains over a base add up: it is a `core.sharding.ShardingLearner`, for `bayou.rounds`

    def load(self) -> Any:
        """The learner's class; imports its module."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)

    def toy(self, parameters: Mapping[str, Any] | None = None, n_features: int = TOY_FEATURES) -> Any:
        """Return a small learner that has learned nothing, to try kernels on: with these parameters, or the usual ones.

        >>> find("marginal").toy({"link": "probit"}).parameters["link"]
        'probit'
        """
        chosen = {"dtype": self.dtype} | dict(parameters or {}) | {"n_features": n_features}
        if "classes" in chosen:  # of a learner that has met none yet
            chosen["classes"] = [0, 1]
        return self.load()(**chosen)

    @property
    def class_name(self) -> str:
        return self.path.rpartition(":")[2]


def find(name: str) -> Record:
    """The record called `name`, or a sentence that lists the names there are.

    >>> find("bank").estimator
    'BankClassifier'
    """
    if not isinstance(name, str):
        raise BadInput(f"a learner is called by its name, such as 'bank', not by {type(name).__name__}.")
    record = _own(name)  # our own names need no look at what else is installed
    if record is not None and record.name == name:
        return record
    known = records()
    if name not in known:
        from bayou.core.checks import did_you_mean

        near = did_you_mean(name, known)
        raise BadInput(f"there is no learner called {name!r}; there are: {', '.join(known)}.{near}")
    return known[name]


def by_class(name: str) -> Record | None:
    """The record whose learner's class is called `name`, our own first."""
    record = _own(name)
    if record is not None and record.class_name == name:
        return record
    return next((record for record in records().values() if record.class_name == name), None)


def by_estimator(name: str) -> Record | None:
    """Our own record whose estimator is called `name`."""
    learner = name.removesuffix("Classifier").removesuffix("Regressor")
    # What a learner of classes is to numbers has a module of its own.
    found = (_own(module) for module in (learner, f"number_{learner}"))
    return next((record for record in found if record is not None and record.estimator == name), None)


def own_records() -> list[Record]:
    """bayou's own: the default first, then by name. Imports every learner's module."""
    found = [record for record in map(_own, _modules()) if record is not None]
    return sorted(found, key=lambda record: (record.name != DEFAULT, record.name))


@cache
def records() -> dict[str, Record]:
    """Every learner there is, by name: bayou's own, then those of installed entry points.

    >>> {"bank", "marginal", "spike-slab"} <= records().keys()
    True
    """
    from importlib.metadata import entry_points

    found = {record.name: record for record in own_records()}
    for entry in entry_points(group="bayou.learners"):
        try:
            record = entry.load()
            if not isinstance(record, Record):
                raise TypeError("it is not a bayou.registry.Record")
        except Exception as error:  # whatever another package does wrong, ours must go on
            warnings.warn(f"the learner {entry.name!r} ({entry.value}) cannot be loaded: {error}.", stacklevel=2)
        else:
            found.setdefault(record.name, record)
    return found


@cache
def _own(name: str) -> Record | None:
    """The record of the module in `bayou.learners` that is called so, but for case, hyphens and underscores."""
    module = _modules().get(_folded(name))
    record = module and getattr(importlib.import_module(module), "RECORD", None)
    return record or None


@cache
def _modules() -> dict[str, str]:
    """The modules of `bayou.learners` by their folded names."""
    package = importlib.import_module("bayou.learners")
    return {_folded(place.name): f"bayou.learners.{place.name}" for place in pkgutil.iter_modules(package.__path__)}


def _folded(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def as_table() -> str:
    """bayou's own learners as a Markdown table, for the docs."""
    head = "| learner | class | estimator | what it is | task | posterior | merge | passes | state | paper |"
    rows = [head, "|" + "---|" * (head.count("|") - 1)]
    rows += [
        f"| {r.name} | `{r.class_name}` | {f'`{r.estimator}`' if r.estimator else 'each classifier'} | {r.summary} | "
        f"{r.task} | {'yes' if r.posterior else 'no'} | {r.merge} | {r.passes} | {r.dtype}{', dense' * r.dense} | "
        f"{r.paper} |"
        for r in own_records()
    ]
    return "\n".join(rows) + "\n"
