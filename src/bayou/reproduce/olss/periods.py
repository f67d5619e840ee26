"""Figures of AUC against the number of features on a set in time order, tested on three later periods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bayou.reproduce.experiment import Experiment, Report, experiment
from bayou.reproduce.olss import comparison, data
from bayou.reproduce.olss.data import Problem


def later_periods(
    module: str, title: str, problem: Callable[[Path], Problem], minutes: tuple[float, float]
) -> Experiment:
    """Make the record of a figure of later periods; `problem` reads the set from the data folder."""
    what = "AUC against number of features on three later periods: SpikeSlab, FTRL, VW on " + title.split(": ")[1]

    @experiment(module, minutes=minutes, what=what, takes_data=True)
    def run(report: Report) -> None:
        found = comparison.run_all(report, [problem(data.folder(report.options.data))])
        tests = list(found[0].test)
        with report.picture(4.4 * len(tests), 4, pad=None) as figure:
            axes = figure.subplots(1, len(tests), squeeze=False)[0]
            for one, test in zip(axes, tests, strict=True):
                comparison.panel(one, found, "AUC", test, f"{found[0].problem}, {test}")
            comparison.legend(figure, axes[0])
        comparison.write(report, found)
        comparison.add_table(report, title, found, "AUC", tests=True)
        comparison.add_seconds(report, found)

    return run
