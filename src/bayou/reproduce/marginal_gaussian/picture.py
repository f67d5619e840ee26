"""Pictures of curves, laid out like the paper's: R_t / ln t over t, a panel for each stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayou import plots
from bayou.plots import BLUE, GOLD, GREEN, GREY, INK, NAVY, OCHRE, ORANGE, PINK, PURPLE, SKY
from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian.results import Score
from bayou.reproduce.marginal_gaussian.streams import Panel

# Color, dashes and width of each method; later ones are drawn above earlier ones.
LINES: dict[str, tuple[str, Any, float]] = {
    "Marginal, prior 1": (SKY, (0, (4, 1.5)), 1.6),
    "Marginal, best prior": (SKY, "-", 1.6),
    "AdaGrad": (ORANGE, "-", 2.0),
    "Joint": (GREEN, "-", 2.0),
    "Moment probit": (PURPLE, "-", 2.0),
    "Moment probit step": ("#b58fc4", (0, (4, 1.5)), 1.6),
    "Variational": (GOLD, "-", 2.0),
    "VB-100": (GOLD, (0, (1, 1)), 2.0),
    "VB-1000": (OCHRE, "-", 2.0),
    "Marginal newton, peak": (NAVY, "-", 2.2),
    "Marginal taylor, peak": ("#8fd0e6", (0, (2, 2)), 2.2),
    "Marginal": (BLUE, "-", 2.6),
    "Marginal newton": (BLUE, "-", 2.6),
    "Marginal taylor": ("#bfe3f0", (0, (3, 3)), 1.6),
    "Moment exact": (PINK, (0, (5, 2)), 1.6),
    "Bank": (INK, (0, (1, 1.4)), 1.5),
}
# Regret over the first few examples is noise.
FIRST = 100
# Height of a panel relative to the end of its lowest curve, at most: a curve that diverges would flatten the others.
HIGHEST = 3.2


def curves(rows: int, columns: int) -> Any:
    """Return a function that draws the panels as a grid, row by row."""

    def draw(report: Report, panels: Sequence[Panel], scores: Sequence[Score]) -> None:
        size = (4.2 * columns + 1.2, 3.1 * rows + 1.2) if rows > 1 else (5.2 * columns, 4.8)
        with report.picture(*size) as figure:
            axes = figure.subplots(rows, columns, squeeze=False)
            for k, panel in enumerate(panels):
                regret_panel(axes.flat[k], panel, [score for score in scores if score.panel == panel.name])
            for panel_axes in axes[-1]:
                panel_axes.set_xlabel("examples seen, t")
            for panel_axes in axes[:, 0]:
                panel_axes.set_ylabel("regret / ln t")
            legend(figure, axes, len(LINES) if rows > 1 else 5)

    return draw


def regret_panel(axes: Any, panel: Panel, scores: Sequence[Score]) -> None:
    """Draw the mean over draws of every method, the standard deviation as a band, and the bound."""
    ends, min_height, max_height = [], np.inf, 0.0
    order = list(LINES)
    for score in sorted(scores, key=lambda score: order.index(score.method)):
        seen = score.traces[0].example
        is_drawn = seen >= min(FIRST, seen[-1] // 10)
        heights = np.array([trace.normalized[is_drawn] for trace in score.traces])
        seen, mean, spread = seen[is_drawn], heights.mean(axis=0), heights.std(axis=0)
        colour, dashes, width = LINES[score.method]
        axes.plot(seen, mean, color=colour, linestyle=dashes, linewidth=width, label=score.method)
        axes.fill_between(seen, mean - spread, mean + spread, color=colour, alpha=0.13, linewidth=0)
        ends.append((score, mean))
        min_height, max_height = min(min_height, mean[-1]), max(max_height, mean.max())
    bound = bound_of(panel)
    top = min(1.08 * max_height, HIGHEST * min_height)
    if bound < 1.5 * top:
        top = max(top, 1.1 * bound)
        axes.axhline(bound, color=GREY, linestyle=(0, (6, 3)), linewidth=1.3, label="0.5 ln T per parameter", zorder=1)
    else:
        axes.plot([], [], color=GREY, linestyle=(0, (6, 3)), linewidth=1.3, label="0.5 ln T per parameter")
    beyond = [f"{score.method}: {mean[-1]:,.0f}" for score, mean in ends if mean[-1] > top]
    beyond += [f"the bound: {bound:,.0f}"] if bound > top else []
    if beyond:
        _note(axes, ["above the picture:", *beyond])
    axes.set_ylim(0, top)
    axes.set(xscale="log", title=panel.title)
    plots.grid(axes)


def bound_of(panel: Panel) -> float:
    """Return the bound on r: 0.5 ln T for each of d parameters is r = d / 2."""
    return panel.n_features / 2


def _note(axes: Any, lines: Sequence[str]) -> None:
    axes.text(
        0.02, 0.98, "\n".join(lines), transform=axes.transAxes, va="top", ha="left", fontsize=8, color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )  # fmt: skip


def legend(figure: Any, axes: Any, columns: int) -> None:
    """Draw one legend for all panels below them, in the reverse order of LINES, other names last."""
    named: dict[str, Any] = {}
    for panel_axes in axes.flat:
        handles, labels = panel_axes.get_legend_handles_labels()
        named.update({label: handle for label, handle in zip(labels, handles, strict=True) if label not in named})
    order = [name for name in reversed(LINES) if name in named] + [name for name in named if name not in LINES]
    figure.legend(
        [named[name] for name in order], order, loc="outside lower center", ncols=min(columns, 5), frameon=False
    )
