"""One record per learner. The laws, the estimators and the docs table are driven by this list.

A third party adds a learner through an entry point of the group `bayou.learners` that names a `Record`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from bayou.core.errors import BadInput


@dataclass(frozen=True)
class Record:
    """What the rest of bayou may rely on about a learner."""

    name: str  # as the command line and model files say it
    path: str  # "module:class"
    estimator: str | None  # its scikit-learn face in bayou.estimators
    summary: str
    paper: str
    task: Literal["classify", "regress"] = "classify"
    dtype: Literal["float32", "float64"] = "float32"
    posterior: bool = True  # variance, intervals, sampling
    linear: bool = True  # the score is sum of mean * value; else the means are a linear picture of it
    dense: bool = False  # needs a dense feature space, so refuses sizes that do not fit
    # exact: equal to one learner that saw both streams. approximate: a sound posterior, but not that one.
    merge: Literal["exact", "approximate", "refused"] = "approximate"
    passes: Literal["single", "multi"] = "single"

    def load(self) -> Any:
        """The learner's class; imports its module."""
        module, _, name = self.path.partition(":")
        return getattr(importlib.import_module(module), name)


_OWN = (
    Record(
        name="bank",
        path="bayou.learners.bank:Bank",
        estimator="BankClassifier",
        summary="several priors side by side, combined by evidence: nothing to tune",
        paper="none: ours",
        linear=False,
    ),
    Record(
        name="marginal",
        path="bayou.learners.marginal:Marginal",
        estimator="MarginalClassifier",
        summary="Gaussian weights, each updated against all others marginalised; closed form",
        paper="marginal-gaussian, section 3, appendices B, C",
    ),
    Record(
        name="joint",
        path="bayou.learners.joint:Joint",
        estimator="JointClassifier",
        summary="Gaussian weights updated together by Laplace's approximation; diagonal or full covariance",
        paper="marginal-gaussian, appendix D.1 (DimGauss)",
    ),
    Record(
        name="moment",
        path="bayou.learners.moment:Moment",
        estimator="MomentClassifier",
        summary="Gaussian weights by moment matching: one integral of the score for all of them",
        paper="marginal-gaussian, appendix D.2",
    ),
    Record(
        name="variational",
        path="bayou.learners.variational:Variational",
        estimator="VariationalClassifier",
        summary="Gaussian weights, each the nearest to its marginal posterior; by nodes or draws",
        paper="marginal-gaussian, appendix D.3",
    ),
    Record(
        name="adagrad",
        path="bayou.learners.adagrad:AdaGrad",
        estimator="AdaGradClassifier",
        summary="stochastic gradient with a step per feature; the baseline people trust",
        paper="marginal-gaussian, section 4 (baseline)",
        posterior=False,
    ),
    Record(
        name="ftrl",
        path="bayou.learners.ftrl:FTRL",
        estimator="FTRLClassifier",
        summary="follow the regularised leader, with exact zeros; the sparse baseline people trust",
        paper="olss, section V (baseline)",
        posterior=False,
    ),
    Record(
        name="gaussian",
        path="bayou.learners.gaussian:Gaussian",
        estimator="GaussianRegressor",
        summary="linear regression with Gaussian weights, exact for each of them; noise known or learned",
        paper="none: Kalman 1960, diagonal",
        task="regress",
    ),
    Record(
        name="spike-slab",
        path="bayou.learners.spike_slab:SpikeSlab",
        estimator="SpikeSlabClassifier",
        summary="selects features: each has a probability to matter; expectation propagation on a stream",
        paper="olss, sections II, III; olss-slides",
        dtype="float64",
        linear=False,
        passes="multi",
    ),
    Record(
        name="lasso",
        path="bayou.learners.lasso:Lasso",
        estimator="LassoClassifier",
        summary="L1-penalised regression from quadratic sketches: on line, or exact in a few passes with a certificate",
        paper="quadratic-l1",
        dtype="float64",
        posterior=False,
        merge="exact",
        passes="multi",
    ),
    Record(
        name="shrinkage",
        path="bayou.learners.shrinkage:Shrinkage",
        estimator="ShrinkageRegressor",
        summary="online Bayesian lasso: Gaussian regression whose prior sharpens around the last weights",
        paper="oslog",
        task="regress",
        dtype="float64",
        dense=True,
    ),
)


@cache
def records() -> dict[str, Record]:
    """Every learner there is, by name: bayou's own, then those of installed entry points."""
    from importlib.metadata import entry_points

    found = {record.name: record for record in _OWN}
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


def find(name: str) -> Record:
    """The record called `name`, or a sentence that lists the names there are."""
    for record in _OWN:  # our own names need no look at what else is installed
        if record.name == name:
            return record
    known = records()
    if name not in known:
        from bayou.core.checks import did_you_mean

        near = did_you_mean(name, known)
        raise BadInput(f"there is no learner called {name!r}; there are: {', '.join(known)}.{near}")
    return known[name]


def by_class(name: str) -> Record | None:
    """The record whose learner's class is called `name`, our own first."""

    def among(some: Iterable[Record]) -> Record | None:
        return next((record for record in some if record.path.rpartition(":")[2] == name), None)

    return among(_OWN) or among(records().values())


def as_table() -> str:
    """bayou's own learners as a Markdown table, for the docs."""
    head = "| learner | class | estimator | what it is | task | posterior | merge | passes | state | paper |"
    rows = [head, "|" + "---|" * (head.count("|") - 1)]
    rows += [
        f"| {r.name} | `{r.path.rpartition(':')[2]}` | `{r.estimator}` | {r.summary} | {r.task} | "
        f"{'yes' if r.posterior else 'no'} | {r.merge} | {r.passes} | {r.dtype}{', dense' * r.dense} | {r.paper} |"
        for r in _OWN
    ]
    return "\n".join(rows) + "\n"
