"""Figure 1 of olss: number of selected features against rho0."""

from __future__ import annotations

from itertools import product

import numpy as np

from bayou.core.batch import Batch
from bayou.learners import SpikeSlab
from bayou.plots import grid
from bayou.reproduce.experiment import Report
from bayou.reproduce.olss import data
from bayou.reproduce.olss.comparison import timed

PRIORS = (0.5, 0.1, 0.01, 1e-3, 1e-5, 1e-7, 1e-10, 1e-20)


def run(report: Report) -> None:
    folder = data.folder(report.options.data)
    problems = data.text_problems(folder, report.options.quick)
    problems += [data.talkingdata(folder)] if report.options.quick else data.click_problems(folder)
    orders = report.options.seeds(1, 3)
    report.say(f"{len(problems)} sets, {len(PRIORS)} priors, {len(orders)} orders")
    counts = {problem.name: np.zeros((len(orders), len(PRIORS)), int) for problem in problems}
    seconds = dict.fromkeys(counts, 0.0)
    for problem, (order_index, order) in report.each(list(product(problems, enumerate(orders)))):
        shuffled = np.random.default_rng(order).permutation(len(problem.y))
        batch = Batch.from_csr(problem.X[shuffled], problem.y[shuffled])
        for prior, rho in enumerate(PRIORS):
            learner = SpikeSlab(batch.max_index + 1, inclusion_prior=rho, slab_variance=problem.usual_slab_variance)
            seconds[problem.name] += timed(learner, batch)
            counts[problem.name][order_index, prior] = len(learner.selected)
    lines = [
        (name, order, rho, count)
        for name, selected in counts.items()
        for order, row in zip(orders, selected, strict=True)
        for rho, count in zip(PRIORS, row.tolist(), strict=True)
    ]
    report.csv(("problem", "order", "rho0", "selected"), lines, end="\n")
    _draw(report, {problem.name: problem.X.shape[1] for problem in problems}, counts)
    rows = []
    for problem in problems:
        means = (f"{mean:,.0f}" for mean in counts[problem.name].mean(axis=0))
        nanoseconds = seconds[problem.name] / (len(orders) * len(PRIORS) * problem.X.nnz) * 1e9
        head = (problem.name, f"{problem.X.shape[1]:,}", f"{problem.usual_slab_variance:g}")
        rows.append((*head, *means, f"{nanoseconds:.0f}"))
    columns = ("what", "features", "tau0", *(f"{rho:g}" for rho in PRIORS), "ns/value")
    report.table("Figure 1: features selected against rho0, mean over orders", columns, rows)
    steady = all((np.diff(selected.mean(axis=0)) <= 0).all() for selected in counts.values())
    report.notes.append(
        "Fewer are selected the smaller rho0 is, on every set." if steady else "Not steady on every set: see the table."
    )


def _draw(report: Report, features: dict[str, int], counts: dict[str, np.ndarray]) -> None:
    with report.picture(8.5, 5, pad=None) as figure:
        axes = figure.subplots()
        for k, (name, selected) in enumerate(counts.items()):
            fraction = np.maximum(selected, 0.5) / features[name]
            (line,) = axes.plot(PRIORS, fraction.mean(axis=0), "o-" if k < 10 else "o--", markersize=3.5, label=name)
            low, high, colour = fraction.min(axis=0), fraction.max(axis=0), line.get_color()
            axes.fill_between(PRIORS, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set(xscale="log", yscale="log", xlabel="rho0, the inclusion prior", ylabel="share of features selected")
        axes.set_title("features selected against the inclusion prior")
        grid(axes)
        figure.legend(loc="outside right upper", frameon=False)
