"""Figure 1 of the online Bayesian lasso: |w|_1 and the weighted square |D^-1/2 w|^2 that stands for it.

D has the absolute values of the weights before this step. Where they were nearly the same the two agree; where w
crosses 0, and d has not followed, they do not: the paper's "visible difference near the kink".
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bayou.plots import BLUE, GREEN, ORANGE, PALE
from bayou.reproduce.experiment import Experiment, Findings, Options, TextTable
from bayou.reproduce.files import drawn, write_csv
from bayou.reproduce.oslog import PAPER

COLUMNS = ("point", "w", "l1", "square", "square_with_floor")
# One weight goes from -1 to 1 in 200 steps: the kink is at the hundredth, as in the paper's picture.
STEPS = 200
FLOOR = 1e-2


def columns() -> np.ndarray:
    """The walk, |w|, w^2/d with d = |w of the step before|, and the same with a floor under d."""
    w = np.linspace(-1.0, 1.0, STEPS + 1)
    before = np.abs(np.append(w[0], w[:-1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        square = w**2 / before
    return np.array([np.arange(STEPS + 1), w, np.abs(w), square, w**2 / np.maximum(before, FLOOR)])


def run(options: Options) -> Findings:
    found = columns()
    files = (write_csv(options.out, "oslog-figure1", COLUMNS, found.T), draw(options.out, found))
    _, w, l1, square, floored = found
    off, off_floored = np.abs(square - l1), np.abs(floored - l1)
    far = np.abs(w) > 0.1
    rows = (
        ("largest difference where |w| > 0.1", f"{off[far].max():.4f}"),
        ("largest difference near the kink, as printed", f"{np.nanmax(off[np.isfinite(off)]):.4f}"),
        ("steps at which it is no number, as printed", f"{int((~np.isfinite(square)).sum())}"),
        (f"largest difference with a floor of {FLOOR:g}", f"{off_floored.max():.4f}"),
    )
    table = TextTable("Figure 1: the square that stands for |w|", ("what", "ours"), rows)
    return Findings((table,), (), files)


def draw(folder: Path, found: np.ndarray) -> Path:
    point, _, l1, square, floored = found
    with drawn(folder, "oslog-figure1", 8.6, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        for axes in (left, right):
            axes.plot(point, l1, color=BLUE, linewidth=2.4, label="|w|")
            axes.plot(point, square, color=ORANGE, linewidth=1.6, linestyle=(0, (5, 2)), label="w² / |w before|")
            axes.plot(point, floored, color=GREEN, linewidth=1.4, label=f"with a floor of {FLOOR:g}")
            axes.set_xlabel("step; w goes from -1 to 1")
            axes.grid(axis="y", color=PALE)
        left.set_title("All of it")
        left.legend(frameon=False, fontsize=9)
        right.set_xlim(94, 106)
        right.set_ylim(0, 0.08)
        right.set_title("The kink")
    return folder / "oslog-figure1.png"


RECORD = Experiment(
    "oslog-figure1", PAPER, run=run, minutes=(0.05, 0.05),
    what="the weighted square beside |w|, whose place it takes; nothing is learned",
)  # fmt: skip
