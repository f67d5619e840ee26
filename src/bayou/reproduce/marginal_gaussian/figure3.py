"""Figure 3: the logistic distribution and its normal approximation (marginal-gaussian, appendix A).

The sigmoid is replaced by the normal distribution function of variance 8/pi, whose slope at 0 is the same, 1/4. The
paper says that the two differ by less than 0.02 everywhere.
"""

from __future__ import annotations

import math

import numpy as np

from bayou.plots import BLUE, GREEN, GREY, INK, ORANGE, grid
from bayou.reproduce.experiment import Report

COLUMNS = ("x", "logistic_pdf", "normal_pdf", "pdf_difference", "sigmoid", "normal_cdf", "cdf_difference")
VARIANCE = 8.0 / math.pi
PAPER_BOUND = 0.02


def columns() -> np.ndarray:
    """Return x and the six curves, as rows."""
    from scipy.special import expit
    from scipy.stats import norm

    x = np.linspace(-10.0, 10.0, 2001)
    sigmoid, normal = expit(x), norm(scale=math.sqrt(VARIANCE))
    density = sigmoid * expit(-x)
    return np.array([
        x, density, normal.pdf(x), density - normal.pdf(x), sigmoid, normal.cdf(x), sigmoid - normal.cdf(x),
    ])  # fmt: skip


def run(report: Report) -> None:
    curves = columns()
    report.csv(COLUMNS, curves.T)
    draw(report, curves)
    x, pdf, cdf = curves[0], np.abs(curves[3]), np.abs(curves[6])
    near = np.abs(x) <= math.sqrt(VARIANCE) / 3
    rows = (
        ("largest difference of the distribution functions", f"< {PAPER_BOUND}", f"{cdf.max():.4f}"),
        ("where", "", f"|x| = {abs(x[cdf.argmax()]):.2f}"),
        ("the same within 1/3 standard deviation of 0", "substantially small", f"{cdf[near].max():.4f}"),
        ("largest difference of the densities", "", f"{pdf.max():.4f}"),
    )
    report.table("Figure 3: logistic and N(0, 8/pi)", ("what", "paper", "ours"), rows)


def draw(report: Report, curves: np.ndarray) -> None:
    x, density, normal, pdf, sigmoid, cdf, difference = curves
    with report.picture(10.4, 3.7) as figure:
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
            grid(axes)
