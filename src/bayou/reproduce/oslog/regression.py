"""Evaluation that the online Bayesian lasso's paper leaves as future work: eleven sets, against the usual rivals.

Every example is predicted before it is learned. Regret is measured against the best fixed weights in hindsight (least
squares with an intercept), and 90% intervals are counted. Every method runs at its default and at the best of a few
settings, chosen in hindsight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.evaluate.hindsight import least_squares
from bayou.plots import BLUE, GOLD, GREEN, ORANGE, PINK, PURPLE, grid
from bayou.reproduce.experiment import Report
from bayou.reproduce.oslog import baselines
from bayou.reproduce.oslog import datasets as sets
from bayou.reproduce.oslog.baselines import BaselineRun, chosen, mean_loss

COLUMNS = (
    "set", "features", "method", "setting", "default", "draw", "examples", "squared_loss", "r2", "regret",
    "hindsight_loss", "coverage", "seconds",
)  # fmt: skip
OURS = "Shrinkage"
COLOURS = {
    "Shrinkage": BLUE, "Gaussian": PINK, "online ridge": GREEN, "SGDRegressor": ORANGE,
    "river linear": PURPLE, "river Bayesian": GOLD,
}  # fmt: skip
COVERED = (0.85, 0.95)


def run(report: Report) -> None:
    options = report.options
    methods, missing = baselines.methods()
    report.say_minutes()
    loaded = sets.load(options.say)
    results = Results([data.name for data, _, _ in loaded], [method.name for method in methods])
    for (data, X, y), seed in report.each(list(product(loaded, options.seeds(1, 1)))):
        X, y = sets.draw_of(data, X, y, seed, options.quick, options.examples)
        best = least_squares([Batch.from_csr(X, y)], X.shape[1], intercept=True)
        results.hindsight[data.name, seed], results.shapes[data.name] = best.loss / len(y), X.shape
        for method in methods:
            if method.most_features is None or X.shape[1] <= method.most_features:
                results.runs += [baselines.run_one(data, method, value, X, y, seed, best) for value in method.settings]
    report.csv(COLUMNS, results.lines())
    draw(report, results)
    head = ("stream", "size", *results.methods, "hindsight")
    for title, best_setting in (("at their defaults", False), ("at the best of a few settings", True)):
        rows = results.losses(best_setting)
        report.table(f"Progressive squared loss, labels of variance 1; {title}", head, rows)
    head = ("stream", "Shrinkage", "best penalty", "Gaussian", "best prior")
    report.table("Labels within 90% intervals predicted for them", head, results.coverage())
    report.notes += [*results.notes(), *([missing] if missing else [])]


@dataclass
class Results:
    """Runs on all sets, and the mean loss of the best fixed weights in hindsight by (set, draw)."""

    sets: list[str]
    methods: list[str]
    runs: list[BaselineRun] = field(default_factory=list)
    hindsight: dict[tuple[str, int], float] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def losses(self, best: bool) -> Iterator[tuple[str, ...]]:
        """Yield the mean progressive squared loss of every method on every set, and of hindsight."""
        for name in self.sets:
            cells = []
            for method in self.methods:
                method_runs = chosen(self.runs, name, method, best)
                loss = mean_loss(method_runs) if method_runs else np.nan
                text = "-" if not method_runs else f"{loss:.4f}" if loss < 100 else "explodes"
                setting = method_runs and best and method != "river Bayesian"
                cells.append(text + (f" ({method_runs[0].setting:g})" if setting else ""))
            fixed = np.mean([loss for (of, _), loss in self.hindsight.items() if of == name])
            rows, features = self.shapes[name]
            yield (name, f"{rows:,} x {features:,}", *cells, f"{fixed:.4f}")

    def covered(self, name: str, method: str, best: bool) -> Any:
        """Return the fraction of a set's labels inside their 90% predictive intervals."""
        return np.mean([run.result.coverage for run in chosen(self.runs, name, method, best)])

    def coverage(self) -> Iterator[tuple[str, ...]]:
        """Yield the fraction of labels covered on every set, at the default and at the best setting."""
        for name in self.sets:
            cells = product((OURS, "Gaussian"), (False, True))
            yield (name, *(f"{self.covered(name, method, best):.3f}" for method, best in cells))

    def notes(self) -> Iterator[str]:
        """Yield sentences on which method has the lower loss, and on coverage."""
        for best, qualifier in ((False, "at the defaults"), (True, "at the best settings")):
            counts = []
            for rival in self.methods[1:]:
                pairs = [[chosen(self.runs, name, of, best) for of in (OURS, rival)] for name in self.sets]
                pairs = [pair for pair in pairs if all(pair)]
                wins = sum(mean_loss(our_runs) < mean_loss(rival_runs) for our_runs, rival_runs in pairs)
                counts.append(f"{rival} {wins} of {len(pairs)}")
            yield f"Shrinkage has the lower loss {qualifier}, against " + ", ".join(counts) + "."
        n_covered = sum(COVERED[0] <= self.covered(name, OURS, False) <= COVERED[1] for name in self.sets)
        yield f"Its 90% intervals cover 85 to 95% on {n_covered} of {len(self.sets)} sets at the default penalty."

    def lines(self) -> Iterator[tuple[Any, ...]]:
        """Yield every run with its numbers."""
        for run in self.runs:
            of = run.result
            yield (
                run.set, self.shapes[run.set][1], run.method, run.setting, int(run.default), run.draw, of.examples,
                of.squared_loss, of.r2, of.regret, self.hindsight[run.set, run.draw], of.coverage, run.seconds,
            )  # fmt: skip


def draw(report: Report, results: Results) -> None:
    """Draw the regret per example over time of each method at its best setting, one panel per set."""
    columns = min(4, len(results.sets))
    rows = -(-len(results.sets) // columns)
    with report.picture(3.6 * columns + 1, 2.8 * rows + 0.8) as figure:
        axes = figure.subplots(rows, columns, squeeze=False)
        for panel_axes in axes.flat[len(results.sets) :]:
            panel_axes.set_axis_off()
        for panel_axes, name in zip(axes.flat, results.sets, strict=False):
            ends = []
            for method in results.methods:
                method_runs = chosen(results.runs, name, method, best=True)
                if not method_runs:
                    continue
                curve = method_runs[0].result.curve
                height = curve["regret"] / curve["example"]
                panel_axes.plot(curve["example"], height, color=COLOURS[method], linewidth=1.8, label=method)
                ends.append(height[-1])
            panel_axes.set(xscale="log", ylim=(0, max(4 * min(ends), 0.1)), title=name)
            grid(panel_axes)
        for panel_axes in axes[:, 0]:
            panel_axes.set_ylabel("regret / t")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
