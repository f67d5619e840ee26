"""Reproduction of the papers' tables and figures: `bayou reproduce`.

A folder is a paper, and each of its tables and figures is a module whose `run` is the record, an `Experiment`. To add
one, write the module and put its name into the CONTENTS of its paper, in the order in which they are listed.
`marginal_gaussian.study.simulated` makes the record of an experiment on simulated streams; one of another kind is a
function that fills a `Report`, as in figure3. `experiment` and `jobs` are what all papers share.
"""

from __future__ import annotations

import importlib

from bayou.core.checks import suggest
from bayou.core.errors import BadInput
from bayou.reproduce import marginal_gaussian, olss, oslog, quadratic_l1
from bayou.reproduce.experiment import Experiment, ExperimentOptions, Findings, TextTable

__all__ = ["NAMES", "Experiment", "ExperimentOptions", "Findings", "TextTable", "experiments", "find"]

# Module of every table and figure, by its name in the command.
_MODULES = {
    f"{paper.PREFIX}{module}": f"{paper.__name__}.{module}"
    for paper in (marginal_gaussian, quadratic_l1, olss, oslog)
    for module in paper.CONTENTS
}
NAMES = tuple(_MODULES)


def experiments() -> list[Experiment]:
    """Return all tables and figures, in the order in which they are listed."""
    return [find(name) for name in NAMES]


def find(name: str) -> Experiment:
    """Return the table or figure called `name`; raise BadInput, which lists the names, if there is none."""
    if name not in _MODULES:
        near = suggest(name, NAMES)
        raise BadInput(f"there is no table or figure called {name!r}; there are: {', '.join(NAMES)}.{near}")
    return importlib.import_module(_MODULES[name]).run
