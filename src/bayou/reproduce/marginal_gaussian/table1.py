"""Table 1: regret and time of all methods (marginal-gaussian, section 4).

From three million examples on, the rows whose paper's counterpart is one number (the other mean and variance updates of
Marginal, which come out alike) and the variational one are left out: ten million take long enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayou import plots
from bayou.plots import GREY, INK
from bayou.reproduce.experiment import Report
from bayou.reproduce.marginal_gaussian import figure1, methods, picture, study
from bayou.reproduce.marginal_gaussian.results import Score
from bayou.reproduce.marginal_gaussian.streams import Panel

LONG = 3_000_000
# Fraction of the time of all methods that those of the long run take.
LONG_SHARE = 0.6
LONG_METHODS = (
    methods.TAYLOR, methods.JOINT, methods.MOMENT_PROBIT, methods.MOMENT_STEP, methods.MOMENT_EXACT,
    methods.ADAGRAD, methods.BANK,
)  # fmt: skip


def run(report: Report) -> None:
    options = report.options
    long = (options.examples or 0) >= LONG
    panels = figure1.panels(LONG_METHODS if long else figure1.ALL)
    time_fraction = LONG_SHARE if long and not options.quick else 1.0
    study.run(report, "Table 1: regret and time", panels, draw, draws=(2, 5), share=time_fraction)


def draw(report: Report, panels: Sequence[Panel], scores: Sequence[Score]) -> None:
    """Draw a dot for every draw and a diamond for the paper's number, side by side for each method."""
    with report.picture(10.4, 4.8) as figure:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for panel_axes, panel in zip(axes, panels, strict=True):
            panel_scores = [score for score in scores if score.panel == panel.name]
            for row, score in enumerate(panel_scores):
                last = [trace.normalized[-1] for trace in score.traces]
                colour = picture.LINES[score.method][0]
                panel_axes.plot(last, [row] * len(last), "o", color=colour, markersize=5, alpha=0.6)
                panel_axes.plot(score.r, row, "|", color=colour, markersize=16, markeredgewidth=2.4)
                if score.paper:
                    panel_axes.plot(score.paper[1], row, "D", markersize=7, color=INK, markerfacecolor="none")
            panel_axes.axvline(picture.bound_of(panel), color=GREY, linestyle=(0, (6, 3)), linewidth=1.3, zorder=1)
            panel_axes.set_yticks(range(len(panel_scores)), [score.method for score in panel_scores])
            panel_axes.set_ylim(len(panel_scores) - 0.5, -0.5)
            panel_axes.set_xlim(left=0)
            plots.grid(panel_axes, axis="x")
            panel_axes.set(title=f"{panel.title}, T = {panel_scores[0].examples:,}", xlabel="regret / ln T")
        dot = axes[0].plot([], [], "o", color=GREY, markersize=5)[0]
        mean = axes[0].plot([], [], "|", color=GREY, markersize=16, markeredgewidth=2.4)[0]
        diamond = axes[0].plot([], [], "D", markersize=7, color=INK, markerfacecolor="none")[0]
        bound = axes[0].plot([], [], color=GREY, linestyle=(0, (6, 3)), linewidth=1.3)[0]
        printed = {score.paper[0] for score in scores if score.paper}
        paper = "the paper" + (f", T = {printed.pop():,}" if len(printed) == 1 else "")
        names = ["one draw", "mean", paper, "0.5 ln T per parameter"]
        figure.legend([dot, mean, diamond, bound], names, loc="outside lower center", ncols=4, frameon=False)
