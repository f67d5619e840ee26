"""The papers' tables and figures, run again: `bayou reproduce`.

One module is one table or figure, with a RECORD that lists it. To add one: write the module, and put its name in
NAMES (l1-table1 is the module quadratic_l1/table1). `marginal_gaussian.study.run` is the whole course of an
experiment on simulated streams; one of another kind writes its files and returns an `Outcome` itself, as figure3 does.
"""

from __future__ import annotations

import importlib

from bayou.core.checks import did_you_mean
from bayou.core.errors import BadInput
from bayou.reproduce.experiment import Experiment, Options, Outcome, Table

__all__ = ["Experiment", "Options", "Outcome", "Table", "experiments", "find"]

NAMES = (
    "table1", "montecarlo", "figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "uniform", "groups",
    "l1-table1", "l1-table2", "l1-table3", "l1-table4", "l1-table5", "l1-table6", "l1-figure3", "l1-figure4",
    "olss-figure1", "olss-figure2", "olss-figure3", "olss-figure4", "olss-figure5",
    "oslog-regression", "oslog-bound", "oslog-figure1",
)  # fmt: skip
# What a name begins with, and the folder of its paper; a name without it is of the first paper.
_PAPERS = {"l1": "quadratic_l1", "olss": "olss", "oslog": "oslog"}


def experiments() -> list[Experiment]:
    """Every table and figure there is, in the order they are listed."""
    return [_record(name) for name in NAMES]


def find(name: str) -> Experiment:
    """The table or figure called `name`, or a sentence that lists the names there are."""
    if name not in NAMES:
        near = did_you_mean(name, NAMES)
        raise BadInput(f"there is no table or figure called {name!r}; there are: {', '.join(NAMES)}.{near}")
    return _record(name)


def _record(name: str) -> Experiment:
    paper, dash, module = name.partition("-")
    folder = f"{_PAPERS[paper]}.{module}" if dash else f"marginal_gaussian.{name}"
    return importlib.import_module(f"bayou.reproduce.{folder}").RECORD
