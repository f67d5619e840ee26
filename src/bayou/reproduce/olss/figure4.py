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
    folder = data.folder(report.options.data)
    text = comparison.run_all(report, data.text_problems(folder, report.options.quick))
    rare = data.ipinyou(folder)
    clicks = comparison.run_all(report, [rare, data.fewer_negatives(rare, RATE)])
    flights = data.flights(folder)
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


def ahead(models: Sequence[Model]) -> str:
    """Return a sentence on how many sets spike and slab beats FTRL in test AUC, at each size up to FEW and in the mean
    of these. AUC is the mean over orders; sizes at which either has no model in some order are left out.
    """
    names = list(dict.fromkeys(model.problem for model in models))
    sizes = [size for size in comparison.SIZES if size <= FEW]
    leads = np.empty((len(names), len(sizes)))
    for row, name in zip(leads, names, strict=True):
        of_problem = [model for model in models if model.problem == name]
        for k, size in enumerate(sizes):
            our_scores, rival_scores = (comparison.at_size(of_problem, method, "AUC", size) for method in (OURS, RIVAL))
            row[k] = np.mean(our_scores) - np.mean(rival_scores)
    leads_by_size = [
        f"{(lead > 0).sum()} of {(~np.isnan(lead)).sum()} with {size}"
        for size, lead in zip(sizes, leads.T, strict=True)
    ]
    means = {name: np.nanmean(lead) for name, lead in zip(names, leads, strict=True) if not np.isnan(lead).all()}
    behind_on = [name for name, lead in means.items() if lead <= 0]
    lost = f", but not on {'; '.join(behind_on)}" if behind_on else ""
    return (
        f"In AUC {OURS} is ahead of {RIVAL} on {', '.join(leads_by_size)} features; in the mean of these on "
        f"{len(means) - len(behind_on)} of {len(means)}{lost}."
    )


def _draw(report: Report, text: Any, clicks: Any, mean: np.ndarray, inclusion: np.ndarray) -> None:
    names = list(dict.fromkeys(model.problem for model in text))
    panels = [(text, name, measure) for name in (names if len(names) < 4 else names[::2]) for measure in ("AUC", "F1")]
    panels += [(clicks, name, "AUC") for name in dict.fromkeys(model.problem for model in clicks)]
    columns = 4
    rows = -(-(len(panels) + 1) // columns)
    with report.picture(4.2 * columns, 3.4 * rows + 0.4, dpi=100, pad=None) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel_axes, (models, name, measure) in zip(axes, panels, strict=False):
            comparison.panel(panel_axes, [m for m in models if m.problem == name], measure, None, name)
        last = axes[len(panels)]
        last.scatter(mean, inclusion, s=7, color=comparison.COLOURS[OURS], alpha=0.5, linewidths=0)
        last.set(xlabel="posterior mean", ylabel="inclusion probability", title="flights: inclusion against mean")
        for panel_axes in axes[len(panels) + 1 :]:
            panel_axes.axis("off")
        comparison.legend(figure, axes[0])
