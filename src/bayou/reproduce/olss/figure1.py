"""Figure 1 of olss: how many features are selected, against rho0."""

from __future__ import annotations

import time

import numpy as np

from bayou.core.batch import Batch
from bayou.learners import SpikeSlab
from bayou.plots import PALE
from bayou.reproduce.experiment import Experiment, Findings, Options, TextTable
from bayou.reproduce.files import drawn, write_csv
from bayou.reproduce.olss import PAPER, data

PRIORS = (0.5, 0.1, 0.01, 1e-3, 1e-5, 1e-7, 1e-10, 1e-20)


def run(options: Options) -> Findings:
    where = data.folder(options.data)
    problems = data.text_problems(where, options.quick)
    problems += [data.talkingdata(where)] if options.quick else data.click_problems(where)
    orders = options.seeds(1, 3)
    options.say(f"olss-figure1: {len(problems)} sets, {len(PRIORS)} priors, {len(orders)} orders")
    counts, nanoseconds = {}, {}
    for k, problem in enumerate(problems):
        counts[problem.name], seconds = np.zeros((len(orders), len(PRIORS)), int), 0.0
        for at, order in enumerate(orders):
            shuffled = np.random.default_rng(order).permutation(len(problem.y))
            batch = Batch.from_csr(problem.X[shuffled], problem.y[shuffled])
            for prior, rho in enumerate(PRIORS):
                learner = SpikeSlab(batch.max_index + 1, inclusion_prior=rho, slab_variance=problem.usual_slab_variance)
                start = time.process_time()
                learner.learn(batch)
                seconds += time.process_time() - start
                counts[problem.name][at, prior] = len(learner.selected)
            options.watch(k * len(orders) + at + 1, len(problems) * len(orders))
        nanoseconds[problem.name] = seconds / (len(orders) * len(PRIORS) * problem.X.nnz) * 1e9
    lines = [
        (name, order, rho, count)
        for name, found in counts.items()
        for order, row in zip(orders, found, strict=True)
        for rho, count in zip(PRIORS, row.tolist(), strict=True)
    ]
    table = write_csv(options.out, "olss-figure1", ("problem", "order", "rho0", "selected"), lines, end="\n")
    _draw(options, {problem.name: problem.X.shape[1] for problem in problems}, counts)
    rows = tuple(
        (
            problem.name, f"{problem.X.shape[1]:,}", f"{problem.usual_slab_variance:g}",
            *(f"{mean:,.0f}" for mean in counts[problem.name].mean(axis=0)), f"{nanoseconds[problem.name]:.0f}",
        )
        for problem in problems
    )  # fmt: skip
    columns = ("what", "features", "tau0", *(f"{rho:g}" for rho in PRIORS), "ns/value")
    steady = all((np.diff(found.mean(axis=0)) <= 0).all() for found in counts.values())
    note = (
        "Fewer are selected the smaller rho0 is, on every set." if steady else "Not steady on every set: see the table."
    )
    files = (options.out / "olss-figure1.png", table)
    return Findings(
        (TextTable("Figure 1: features selected against rho0, mean over orders", columns, rows),), (note,), files
    )


def _draw(options: Options, features: dict[str, int], counts: dict[str, np.ndarray]) -> None:
    with drawn(options.out, "olss-figure1", 8.5, 5, pad=None) as figure:
        axes = figure.subplots()
        for k, (name, found) in enumerate(counts.items()):
            share = np.maximum(found, 0.5) / features[name]
            mean = share.mean(axis=0)
            (line,) = axes.plot(PRIORS, mean, "o-" if k < 10 else "o--", markersize=3.5, label=name)
            axes.fill_between(
                PRIORS, share.min(axis=0), share.max(axis=0), color=line.get_color(), alpha=0.15, linewidth=0
            )
        axes.set(xscale="log", yscale="log", xlabel="rho0, the inclusion prior", ylabel="share of features selected")
        axes.set_title("features selected against the inclusion prior")
        axes.grid(axis="y", color=PALE)
        figure.legend(loc="outside right upper", frameon=False)


RECORD = Experiment(
    "olss-figure1", PAPER, run=run, minutes=(0.5, 2.0), takes_data=True,
    what="features selected against rho0: Reuters, 20 Newsgroups, flights, TalkingData, Criteo, Frappe",
)  # fmt: skip
