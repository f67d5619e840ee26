"""Figure 4: four weights of figure 3, with the distance of online from batch (quadratic-l1, section 4)."""

from __future__ import annotations

import numpy as np

from bayou.plots import COLOURS
from bayou.reproduce.experiment import Report
from bayou.reproduce.quadratic_l1 import data, figure3

# Large and small weights, positive and negative.
WEIGHTS = (0, 3, 5, 6)


def run(report: Report) -> None:
    sizes, online, batch = figure3.traces(report)
    figure3.write(report, sizes, online, batch)
    with report.picture(10.4, 6.4) as figure:
        for axes, j in zip(figure.subplots(2, 2).flat, WEIGHTS, strict=True):
            axes.plot(sizes, online[:, j], color=COLOURS[0], linewidth=2, label="online")
            axes.plot(sizes, batch[:, j], color=COLOURS[0], linewidth=1.4, linestyle=(0, (4, 2)), label="batch")
            axes.set(title=f"beta_{j}, true {data.TRUTH[j]:.3f}", xlabel="examples, t")
            right = axes.twinx()
            right.plot(sizes, np.abs(online - batch)[:, j], color=COLOURS[2], linewidth=1.6, label="distance")
            right.set_ylim(bottom=0)
            right.tick_params(axis="y", colors=COLOURS[2])
            handles = axes.get_legend_handles_labels()[0] + right.get_legend_handles_labels()[0]
            axes.legend(handles=handles, frameon=False, fontsize=8.5)
    sample_points = [0, len(sizes) // 2, len(sizes) - 1]
    rows = (
        (f"beta_{j}, true {data.TRUTH[j]:.3f}", *(f"{abs(online[k, j] - batch[k, j]):.4f}" for k in sample_points))
        for j in WEIGHTS
    )
    columns = ("what", *(f"t = {sizes[k]:,}" for k in sample_points))
    report.table("l1-figure4: distance of online from batch", columns, rows)
