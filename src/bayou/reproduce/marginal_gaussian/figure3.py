"""Figure 3: the logistic distribution and the normal one that stands for it (marginal-gaussian, appendix A).

The sigmoid is replaced by the normal distribution function of variance 8/pi, whose slope at 0 is the same, 1/4. The
paper says that the two differ by less than 0.02 everywhere.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from bayou.plots import BLUE, GREEN, GREY, INK, ORANGE, PALE
from bayou.reproduce.experiment import Experiment, Findings, Options, TextTable
from bayou.reproduce.files import drawn, write_csv
from bayou.reproduce.marginal_gaussian import PAPER

COLUMNS = ("x", "logistic_pdf", "normal_pdf", "pdf_difference", "sigmoid", "normal_cdf", "cdf_difference")
VARIANCE = 8.0 / math.pi
PAPER_BOUND = 0.02


def columns() -> np.ndarray:
    """x and the six curves, as rows."""
    from scipy.special import expit
    from scipy.stats import norm

    x = np.linspace(-10.0, 10.0, 2001)
    sigmoid, normal = expit(x), norm(scale=math.sqrt(VARIANCE))
    density = sigmoid * expit(-x)
    return np.array([
        x, density, normal.pdf(x), density - normal.pdf(x), sigmoid, normal.cdf(x), sigmoid - normal.cdf(x),
    ])  # fmt: skip


def run(options: Options) -> Findings:
    found = columns()
    files = (write_csv(options.out, "figure3", COLUMNS, found.T), options.out / "figure3.png")
    draw(options.out, found)
    x, pdf, cdf = found[0], np.abs(found[3]), np.abs(found[6])
    near = np.abs(x) <= math.sqrt(VARIANCE) / 3
    rows = (
        ("largest difference of the distribution functions", f"< {PAPER_BOUND}", f"{cdf.max():.4f}"),
        ("where", "", f"|x| = {abs(x[cdf.argmax()]):.2f}"),
        ("the same within 1/3 standard deviation of 0", "substantially small", f"{cdf[near].max():.4f}"),
        ("largest difference of the densities", "", f"{pdf.max():.4f}"),
    )
    table = TextTable("Figure 3: logistic and N(0, 8/pi)", ("what", "paper", "ours"), rows)
    return Findings((table,), (), files)


def draw(folder: Path, found: np.ndarray) -> None:
    x, density, normal, pdf, sigmoid, cdf, difference = found
    with drawn(folder, "figure3", 10.4, 3.7) as figure:
        left, middle, right = figure.subplots(1, 3)
        for axes, title, of_logistic, of_normal, between in (
            (left, "Densities", density, normal, pdf),
            (middle, "Distribution functions", sigmoid, cdf, difference),
        ):
            axes.plot(x, of_logistic, color=BLUE, linewidth=2.2, label="logistic")
            axes.plot(x, of_normal, color=ORANGE, linewidth=1.8, linestyle=(0, (5, 2)), label="N(0, 8/π)")
            axes.plot(x, between, color=GREEN, linewidth=1.8, label="difference")
            axes.set_title(title)
            axes.legend(frameon=False, fontsize=9, loc="upper left")
        left.set_ylim(top=0.33)
        right.plot(x, pdf, color=GREEN, linewidth=2, label="of densities")
        right.plot(x, difference, color=INK, linewidth=2, linestyle=(0, (5, 2)), label="of distributions")
        for bound in (-PAPER_BOUND, PAPER_BOUND):
            right.axhline(bound, color=GREY, linewidth=1, linestyle=(0, (6, 3)))
        right.set_ylim(-0.03, 0.036)
        right.annotate("the paper's bound, ±0.02", (-10, 0.0205), fontsize=8.5, color=INK, va="bottom")
        right.set_title("Differences")
        right.legend(frameon=False, fontsize=9, loc="upper right", ncols=2, borderaxespad=0)
        for axes in (left, middle, right):
            axes.set_xlabel("x")
            axes.grid(axis="y", color=PALE)
            axes.set_axisbelow(True)


RECORD = Experiment(
    "figure3", PAPER, run=run, minutes=(0.05, 0.05),
    what="the logistic distribution beside the normal one of variance 8/pi; nothing is learned",
)  # fmt: skip
