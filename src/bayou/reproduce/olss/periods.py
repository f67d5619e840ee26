"""AUC against the number of features on a set in the order of time, tested on three later periods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bayou.reproduce.experiment import Experiment, Findings, Options
from bayou.reproduce.files import drawn
from bayou.reproduce.olss import PAPER, comparison, data
from bayou.reproduce.olss.comparison import Model
from bayou.reproduce.olss.data import Problem


def later_periods(
    name: str, title: str, problem: Callable[[Path], Problem], minutes: tuple[float, float]
) -> Experiment:
    """The record of such a figure; `problem` reads the set from the folder of data."""

    def run(options: Options) -> Findings:
        found = comparison.run_all([problem(data.folder(options.data))], options, (1, 3))
        draw(options.out, name, found)
        tables = (comparison.table(title, found, "AUC", tests=True), comparison.seconds_table(found))
        return Findings(tables, (), (options.out / f"{name}.png", comparison.write(options.out, name, found)))

    what = "AUC against number of features on three later periods: SpikeSlab, FTRL, VW on " + title.split(": ")[1]
    return Experiment(name, PAPER, what, minutes, run, takes_data=True)


def draw(folder: Path, name: str, found: Sequence[Model]) -> None:
    """A panel for each period."""
    tests = list(found[0].test)
    with drawn(folder, name, 4.4 * len(tests), 4, pad=None) as figure:
        axes = figure.subplots(1, len(tests), squeeze=False)[0]
        for one, test in zip(axes, tests, strict=True):
            comparison.panel(one, found, "AUC", test, f"{found[0].problem}, {test}")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
