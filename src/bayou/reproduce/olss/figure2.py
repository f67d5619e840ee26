"""Figure 2 of olss, on flights: AUC against the number of features, on three later periods."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

from bayou.reproduce.experiment import Experiment, Options, Outcome, written
from bayou.reproduce.marginal_gaussian import picture
from bayou.reproduce.olss import comparison, data
from bayou.reproduce.olss.comparison import PAPER, Model
from bayou.reproduce.olss.data import Problem


def later(name: str, title: str, problem: Problem, options: Options) -> Outcome:
    """The paths of one set that has time, a panel for each later period."""
    found = comparison.run_all([problem], options, (1, 3))
    draw_periods(options, name, found)
    tables = (comparison.table(title, found, "AUC", tests=True), comparison.seconds_table(found))
    return Outcome(tables, (), (options.out / f"{name}.png", comparison.write(options.out, name, found)))


def draw_periods(options: Options, name: str, found: Sequence[Model]) -> None:
    with rc_context(picture.STYLE), written(options.out, f"{name}.png") as path:
        tests = list(found[0].test)
        figure = Figure(figsize=(4.4 * len(tests), 4), dpi=110, layout="constrained")
        axes = figure.subplots(1, len(tests), squeeze=False)[0]
        for one, test in zip(axes, tests, strict=True):
            comparison.panel(one, found, "AUC", test, f"{found[0].problem}, {test}")
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, format="png")


def run(options: Options) -> Outcome:
    problem = data.flights(data.folder(options.data))
    return later("olss-figure2", "Figure 2: flights", problem, options)


RECORD = Experiment(
    name="olss-figure2",
    paper=PAPER,
    what="AUC against number of features on three later periods: SpikeSlab, FTRL, VW on flights",
    minutes=(1.0, 12.0),
    run=run,
    takes_data=True,
)
