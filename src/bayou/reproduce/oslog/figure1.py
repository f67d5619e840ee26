"""Figure 1 of the online Bayesian lasso: |w|_1 and its approximation, the weighted square |D^-1/2 w|^2.

D holds the absolute weights before this step. The two agree where those were nearly the same, and differ where w
crosses 0 and d lags behind: the paper's "visible difference near the kink".
"""

from __future__ import annotations

import numpy as np

from bayou.plots import BLUE, GREEN, ORANGE, grid
from bayou.reproduce.experiment import Report

COLUMNS = ("point", "w", "l1", "square", "square_with_floor")
# One weight goes from -1 to 1 in 200 steps: the kink is at the hundredth, as in the paper's picture.
STEPS = 200
FLOOR = 1e-2


def columns() -> np.ndarray:
    """Return the steps, w, |w|, w^2/d with d = |w| of the previous step, and the same with d bounded below."""
    w = np.linspace(-1.0, 1.0, STEPS + 1)
    previous_abs = np.abs(np.append(w[0], w[:-1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        square = w**2 / previous_abs
    return np.array([np.arange(STEPS + 1), w, np.abs(w), square, w**2 / np.maximum(previous_abs, FLOOR)])


def run(report: Report) -> None:
    curves = columns()
    report.csv(COLUMNS, curves.T)
    draw(report, curves)
    _, w, l1, square, floored = curves
    off, off_floored = np.abs(square - l1), np.abs(floored - l1)
    far = np.abs(w) > 0.1
    rows = (
        ("largest difference where |w| > 0.1", f"{off[far].max():.4f}"),
        ("largest difference near the kink, as printed", f"{np.nanmax(off[np.isfinite(off)]):.4f}"),
        ("steps at which it is no number, as printed", f"{int((~np.isfinite(square)).sum())}"),
        (f"largest difference with a floor of {FLOOR:g}", f"{off_floored.max():.4f}"),
    )
    report.table("Figure 1: the square that stands for |w|", ("what", "ours"), rows)


def draw(report: Report, curves: np.ndarray) -> None:
    point, _, l1, square, floored = curves
    with report.picture(8.6, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        for axes in (left, right):
            axes.plot(point, l1, color=BLUE, linewidth=2.4, label="|w|")
            axes.plot(point, square, color=ORANGE, linewidth=1.6, linestyle=(0, (5, 2)), label="w² / |w before|")
            axes.plot(point, floored, color=GREEN, linewidth=1.4, label=f"with a floor of {FLOOR:g}")
            axes.set_xlabel("step; w goes from -1 to 1")
            grid(axes)
        left.set_title("All of it")
        left.legend(frameon=False, fontsize=9)
        right.set_xlim(94, 106)
        right.set_ylim(0, 0.08)
        right.set_title("The kink")
