"""Picture of the demo: how fast three learners learn, and the bank's weights afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bayou.cli.demo.study import NINETY, DemoRun, LearnedWeights, Study
from bayou.plots import BLUE, GREY, ORANGE, PALE, STYLE, TITLES, grid, picture

# Regret over the first few examples is noise.
FIRST = 100


def draw(study: Study, path: Path) -> None:
    with picture(path, 12, 5.2, dpi=120, pad=0.1, style=STYLE | TITLES, wspace=0.05) as figure:
        left, right = figure.subplots(1, 2)
        side = np.sign((study.marginal.result.regret or 0.0) - (study.bank.result.regret or 0.0)) or 1.0
        _regret(left, study.adagrad, "AdaGrad,\ntuned", ORANGE)
        _regret(left, study.marginal, "Marginal,\ntold the spread", GREY, raised=16 * side)
        _regret(left, study.bank, "Bank,\ntold nothing", BLUE, raised=-16 * side)
        left.set(xscale="log", title="What not knowing the truth has cost")
        left.set(xlabel="examples seen", ylabel="regret / ln(examples)")
        left.set_ylim(bottom=0)
        grid(left)
        _knowledge(right, study.knowledge)


def _regret(axes: Any, run: DemoRun, name: str, colour: str, raised: float = 0.0) -> None:
    seen, regret = (run.result.curve[name] for name in ("example", "regret"))
    is_drawn = seen >= FIRST
    seen, height = seen[is_drawn], regret[is_drawn] / np.log(seen[is_drawn])
    axes.plot(seen, height, color=colour, linewidth=2.4)
    # Labeled at its end, instead of a legend.
    axes.annotate(
        name,
        (seen[-1], height[-1]),
        xytext=(6, raised),
        textcoords="offset points",
        va="center",
        color=colour,
        weight="bold",
        annotation_clip=False,
    )


def _knowledge(axes: Any, weights: LearnedWeights) -> None:
    groups = {"surest": weights.surest(), "least sure": weights.least_sure()}
    top, ticks, names = 0.0, [], []
    for title, features in groups.items():
        axes.text(0.0, top, title, transform=axes.get_yaxis_transform(), weight="bold", va="center", ha="left")
        rows = top + 1 + np.arange(len(features))
        _intervals(axes, weights, features, rows, labelled=top == 0.0)
        ticks += list(rows)
        names += [f"seen {weights.seen[i]:,}×" for i in features]
        top = rows[-1] + 1.6
    axes.axvline(0, color=PALE, zorder=0)
    axes.set_ylim(top - 0.6, -0.8)
    axes.set_yticks(ticks, names, fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(title="What the model knows of single weights", xlabel="weight, less the average of its category")
    # On the line of the first group's name, where no interval is drawn.
    axes.legend(loc="upper right", ncols=2, frameon=False, borderaxespad=0, reverse=True)


def _intervals(axes: Any, weights: LearnedWeights, features: np.ndarray, rows: np.ndarray, labelled: bool) -> None:
    def label(text: str) -> str | None:
        return text if labelled else None

    axes.errorbar(
        weights.mean[features],
        rows,
        xerr=NINETY * weights.sd[features],
        fmt="o",
        color=BLUE,
        markersize=5,
        linewidth=2.4,
        label=label("learned, with 90% interval"),
    )
    axes.plot(
        weights.truth[features],
        rows,
        "D",
        color=ORANGE,
        markerfacecolor="none",
        markersize=7,
        markeredgewidth=1.6,
        zorder=5,
        label=label("true"),
    )
