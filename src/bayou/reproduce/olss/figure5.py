"""Figure 5 of olss: posterior variances of the selected weights, by group of features."""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.learners import SpikeSlab
from bayou.reproduce.experiment import Report
from bayou.reproduce.olss import data
from bayou.reproduce.olss.comparison import COLOURS, OURS


def run(report: Report) -> None:
    folder, quick = data.folder(report.options.data), report.options.quick
    problems = [data.talkingdata(folder)] if quick else [data.flights(folder), data.talkingdata(folder)]
    rows, groups = [], {}
    for problem in problems:
        report.say(f"{problem.name}, {problem.X.shape[0]:,} rows")
        learner = SpikeSlab(problem.X.shape[1], inclusion_prior=0.1, slab_variance=1.0)
        learner.learn(Batch.from_csr(problem.X, problem.y))
        kinds = np.array(problem.groups)
        n_rows = problem.X.sum(axis=0)
        selected, variance = learner.selected, learner.variance
        for kind in dict.fromkeys(problem.groups):
            members = selected[kinds[selected] == kind]
            groups[problem.name, kind] = (int((kinds == kind).sum()), variance[members])
            spread = f"{np.median(variance[members]):.2g}" if len(members) else "-"
            median = f"{np.median(n_rows[members]):,.0f}" if len(members) else "-"
            rows.append((f"{problem.name}: {kind}", f"{(kinds == kind).sum():,}", f"{len(members):,}", median, spread))
    rows.sort(key=lambda row: (row[0].split(":")[0], int(row[1].replace(",", ""))))
    with report.picture(6.2 * len(problems), 4.4, pad=None) as figure:
        for axes, problem in zip(figure.subplots(1, len(problems), squeeze=False)[0], problems, strict=True):
            boxes = {kind: group for (name, kind), group in groups.items() if name == problem.name and len(group[1])}
            order = sorted(boxes, key=lambda kind: boxes[kind][0])
            axes.boxplot([boxes[kind][1] for kind in order], orientation="horizontal", widths=0.6, showfliers=False,
                         medianprops={"color": COLOURS[OURS], "linewidth": 2})  # fmt: skip
            axes.set_yticks(range(1, len(order) + 1), [f"{kind} ({boxes[kind][0]:,})" for kind in order])
            title = f"{problem.name}: variance by group (cardinality)"
            axes.set(xscale="log", xlabel="posterior variance", title=title)
    lines = [(name, kind, size, f"{value:.6g}") for (name, kind), (size, values) in groups.items() for value in values]
    report.csv(("problem", "group", "cardinality", "variance"), lines, end="\n")
    columns = ("what", "features", "selected", "median rows", "median variance")
    report.table("Figure 5: posterior variance of selected weights, by group", columns, rows)
