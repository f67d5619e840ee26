"""Figure 4 of olss: text, AUC and F1 (a to d); rare clicks (e); inclusion probability against posterior mean (f)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.learners import SpikeSlab
from bayou.reproduce.experiment import Report
from bayou.reproduce.olss import comparison, data
from bayou.reproduce.olss.comparison import OURS, RIVAL, Model

FEW = 50  # up to this number of features, spike and slab should be ahead
RATE = 0.1


def run(report: Report) -> None:
    where = data.folder(report.options.data)
    text = comparison.run_all(report, data.text_problems(where, report.options.quick))
    rare = data.ipinyou(where)
    clicks = comparison.run_all(report, [rare, data.fewer_negatives(rare, RATE)])
    flights = data.flights(where)
    learner = SpikeSlab(flights.X.shape[1], inclusion_prior=1e-3, slab_variance=1.0)
    learner.learn(Batch.from_csr(flights.X, flights.y))
    touched = learner.touched
    mean, inclusion = learner.mean[touched], learner.inclusion[touched]
    lines = [
        (j, flights.groups[j], f"{m:.6g}", f"{p:.6g}")
        for j, m, p in zip(touched.tolist(), mean, inclusion, strict=True)
    ]
    _draw(report, text, clicks, mean, inclusion)
    comparison.write(report, [*text, *clicks])
    report.csv(("feature", "group", "mean", "inclusion"), lines, suffix="f", end="\n")
    comparison.add_table(report, "Figure 4a-d: text", text, "AUC")
    comparison.add_table(report, "Figure 4a-d: text", text, "F1")
    comparison.add_table(report, "Figure 4e: rare clicks", clicks, "AUC")
    comparison.add_seconds(report, [*text, *clicks])
    between = np.mean((inclusion > 0.1) & (inclusion < 0.9))
    report.notes += [
        ahead(text),
        f"Figure 4f: {len(touched):,} features of flights; {np.sum(inclusion > 0.5):,} are selected, and "
        f"{between:.1%} have an inclusion probability between 0.1 and 0.9.",
    ]


def ahead(found: Sequence[Model]) -> str:
    """Return a sentence on how many sets spike and slab beats FTRL in test AUC, at each size up to FEW and in the mean
    of these. AUC is the mean over orders; sizes at which either has no model in some order are left out.
    """
    names = list(dict.fromkeys(model.problem for model in found))
    sizes = [size for size in comparison.SIZES if size <= FEW]
    leads = np.empty((len(names), len(sizes)))
    for row, name in zip(leads, names, strict=True):
        some = [model for model in found if model.problem == name]
        for k, size in enumerate(sizes):
            ours, theirs = (comparison.at_size(some, method, "AUC", size) for method in (OURS, RIVAL))
            row[k] = np.mean(ours) - np.mean(theirs)
    each = [
        f"{(lead > 0).sum()} of {(~np.isnan(lead)).sum()} with {size}"
        for size, lead in zip(sizes, leads.T, strict=True)
    ]
    means = {name: np.nanmean(lead) for name, lead in zip(names, leads, strict=True) if not np.isnan(lead).all()}
    behind = [name for name, lead in means.items() if lead <= 0]
    lost = f", but not on {'; '.join(behind)}" if behind else ""
    return (
        f"In AUC {OURS} is ahead of {RIVAL} on {', '.join(each)} features; in the mean of these on "
        f"{len(means) - len(behind)} of {len(means)}{lost}."
    )


def _draw(report: Report, text: Any, clicks: Any, mean: np.ndarray, inclusion: np.ndarray) -> None:
    names = list(dict.fromkeys(model.problem for model in text))
    shown = [(text, name, measure) for name in (names if len(names) < 4 else names[::2]) for measure in ("AUC", "F1")]
    shown += [(clicks, name, "AUC") for name in dict.fromkeys(model.problem for model in clicks)]
    columns = 4
    rows = -(-(len(shown) + 1) // columns)
    with report.picture(4.2 * columns, 3.4 * rows + 0.4, dpi=100, pad=None) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for one, (found, name, measure) in zip(axes, shown, strict=False):
            comparison.panel(one, [m for m in found if m.problem == name], measure, None, name)
        last = axes[len(shown)]
        last.scatter(mean, inclusion, s=7, color=comparison.COLOURS[OURS], alpha=0.5, linewidths=0)
        last.set(xlabel="posterior mean", ylabel="inclusion probability", title="flights: inclusion against mean")
        for one in axes[len(shown) + 1 :]:
            one.axis("off")
        comparison.legend(figure, axes[0])
