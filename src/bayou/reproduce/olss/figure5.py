"""Figure 5 of olss: posterior variances of the selected weights, by group of features."""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.learners import SpikeSlab
from bayou.reproduce.experiment import Report
from bayou.reproduce.olss import data
from bayou.reproduce.olss.comparison import COLOURS, OURS


def run(report: Report) -> None:
    where, quick = data.folder(report.options.data), report.options.quick
    problems = [data.talkingdata(where)] if quick else [data.flights(where), data.talkingdata(where)]
    rows, groups = [], {}
    for problem in problems:
        report.say(f"{problem.name}, {problem.X.shape[0]:,} rows")
        learner = SpikeSlab(problem.X.shape[1], inclusion_prior=0.1, slab_variance=1.0)
        learner.learn(Batch.from_csr(problem.X, problem.y))
        kinds = np.array(problem.groups)
        met = problem.X.sum(axis=0)
        selected, variance = learner.selected, learner.variance
        for kind in dict.fromkeys(problem.groups):
            chosen = selected[kinds[selected] == kind]
            groups[problem.name, kind] = (int((kinds == kind).sum()), variance[chosen])
            spread = f"{np.median(variance[chosen]):.2g}" if len(chosen) else "-"
            often = f"{np.median(met[chosen]):,.0f}" if len(chosen) else "-"
            rows.append((f"{problem.name}: {kind}", f"{(kinds == kind).sum():,}", f"{len(chosen):,}", often, spread))
    rows.sort(key=lambda row: (row[0].split(":")[0], int(row[1].replace(",", ""))))
    with report.picture(6.2 * len(problems), 4.4, pad=None) as figure:
        for axes, problem in zip(figure.subplots(1, len(problems), squeeze=False)[0], problems, strict=True):
            mine = {kind: group for (name, kind), group in groups.items() if name == problem.name and len(group[1])}
            order = sorted(mine, key=lambda kind: mine[kind][0])
            axes.boxplot([mine[kind][1] for kind in order], orientation="horizontal", widths=0.6, showfliers=False,
                         medianprops={"color": COLOURS[OURS], "linewidth": 2})  # fmt: skip
            axes.set_yticks(range(1, len(order) + 1), [f"{kind} ({mine[kind][0]:,})" for kind in order])
            title = f"{problem.name}: variance by group (cardinality)"
            axes.set(xscale="log", xlabel="posterior variance", title=title)
    lines = [(name, kind, size, f"{value:.6g}") for (name, kind), (size, some) in groups.items() for value in some]
    report.csv(("problem", "group", "cardinality", "variance"), lines, end="\n")
    columns = ("what", "features", "selected", "median rows", "median variance")
    report.table("Figure 5: posterior variance of selected weights, by group", columns, rows)
