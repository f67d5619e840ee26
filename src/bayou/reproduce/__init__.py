"""Reproduction of the papers' tables and figures: `bayou reproduce`.

A folder is a paper, and each of its tables and figures is a module whose `run` fills a `Report`. To add one, write the
module and add its name to the CONTENTS of its paper, in the order in which they are listed. All papers share
`experiment`; `marginal_gaussian.study` has the steps of experiments on simulated streams, and `jobs` runs their draws
in processes.
"""

from __future__ import annotations

from bayou.core.checks import suggest
from bayou.core.errors import BadInput
from bayou.reproduce import marginal_gaussian, olss, oslog, quadratic_l1
from bayou.reproduce.experiment import Experiment, ExperimentOptions, TextTable

__all__ = ["NAMES", "Experiment", "ExperimentOptions", "TextTable", "experiments", "find"]

_EXPERIMENTS = {
    f"{paper.PREFIX}{name}": Experiment(
        f"{paper.PREFIX}{name}", f"{paper.__name__}.{name}", paper.PAPER, (quick, full), what, name in paper.TAKE_DATA
    )
    for paper in (marginal_gaussian, quadratic_l1, olss, oslog)
    for name, (quick, full, what) in paper.CONTENTS.items()
}
NAMES = tuple(_EXPERIMENTS)


def experiments() -> list[Experiment]:
    """Return all tables and figures, in the order in which they are listed."""
    return list(_EXPERIMENTS.values())


def find(name: str) -> Experiment:
    """Return the table or figure called `name`; raise BadInput, which lists the names, if there is none."""
    if name not in _EXPERIMENTS:
        near = suggest(name, NAMES)
        raise BadInput(f"there is no table or figure called {name!r}; there are: {', '.join(NAMES)}.{near}")
    return _EXPERIMENTS[name]
