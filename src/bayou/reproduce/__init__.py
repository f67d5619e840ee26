"""The papers' tables and figures, run again: `bayou reproduce`.

One module is one table or figure, with a RECORD that lists it. To add one: write the module, and put its name in
MODULES (l1-table1 is the module l1_table1). `study.run` is the whole course of an experiment on simulated streams; one
of another kind writes its files and returns an `Outcome` itself, as figure3 does.
"""

from __future__ import annotations

import importlib

from bayou.checks import did_you_mean
from bayou.errors import BadInput
from bayou.reproduce.experiment import Experiment, Options, Outcome, Table

__all__ = ["Experiment", "Options", "Outcome", "Table", "experiments", "find"]

MODULES = (
    "table1", "montecarlo", "figure1", "figure2", "figure3", "figure4", "figure5", "figure6", "uniform", "groups",
    "l1-table1", "l1-table2", "l1-table3", "l1-table4", "l1-table5", "l1-table6", "l1-figure3", "l1-figure4",
    "olss-figure1", "olss-figure2", "olss-figure3", "olss-figure4", "olss-figure5",
    "oslog-regression", "oslog-bound", "oslog-figure1",
)  # fmt: skip


def experiments() -> list[Experiment]:
    """Every table and figure there is, in the order they are listed."""
    return [_record(name) for name in MODULES]


def find(name: str) -> Experiment:
    """The table or figure called `name`, or a sentence that lists the names there are."""
    if name not in MODULES:
        near = did_you_mean(name, MODULES)
        raise BadInput(f"there is no table or figure called {name!r}; there are: {', '.join(MODULES)}.{near}")
    return _record(name)


def _record(name: str) -> Experiment:
    return importlib.import_module(f"bayou.reproduce.{name.replace('-', '_')}").RECORD
