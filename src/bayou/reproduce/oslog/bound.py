"""The paper's bound on the loss (Theorem 2, Corollary 1) beside measured losses, and a case where it fails.

    L_T <= inf_w (L_T^w + a |D^-1/2 w|^2) + Y^2 (2n ln(16 Y^2 / (a sqrt(pi))) + ln det(A_T / (8 Y^2)))

with D of the weights before the last example, A_T = M + a D^-1 and Y the largest |label|. On real sets it is too
large to be informative. It is also false: with x = y = 1 and a = 100, the loss over 300 examples exceeds it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.evaluate.hindsight import least_squares
from bayou.learners import Shrinkage
from bayou.reproduce.experiment import Report
from bayou.reproduce.oslog import datasets

# The paper has no floor; this one is never reached.
NO_FLOOR = 1e-290


class Measured(NamedTuple):
    """Summed squared loss, that of the best fixed weights, their difference, and the paper's bounds on the loss."""

    what: str
    examples: int
    features: int
    penalty: float
    loss: float
    hindsight_loss: float
    regret: float
    theorem_2: float
    corollary_1: float


def measure(name: str, X: np.ndarray, y: np.ndarray, penalty: float, floor: float = 1e-6) -> Measured:
    """Learn without an intercept, as the paper does, and return the losses and the bound."""
    n = X.shape[1]
    learner = Shrinkage(n, penalty=penalty, floor=floor, intercept=False, bounded=False)
    means = learner.learn(Batch.from_csr(X[:-1], y[:-1]))
    previous_abs = np.maximum(np.abs(learner.mean), floor)
    means = np.append(means, learner.learn(Batch.from_csr(X[-1:], y[-1:])))
    M, b, max_label = X.T @ X, X.T @ y, float(np.abs(y).max())
    root = np.sqrt(previous_abs)
    K = penalty * np.eye(n) + root[:, None] * M * root  # S A S
    min_loss = float(y @ y - (root * b) @ np.linalg.solve(K, root * b))
    log_det = float(np.linalg.slogdet(K)[1] - np.log(previous_abs).sum())
    theorem = 2 * n * math.log(16 * max_label**2 / (penalty * math.sqrt(math.pi)))
    theorem += log_det - n * math.log(8 * max_label**2)
    low, reach = float(np.abs(learner.mean).sum()), float(np.abs(X).max())
    corollary = math.inf
    if low > 0:
        corollary = n * math.log(32 * max_label**2 * (penalty + low * len(y) * reach**2) / (penalty**2 * low * math.pi))
    loss = float(np.sum((y - means) ** 2))
    best = least_squares([Batch.from_csr(X, y)], n)
    bounds = (min_loss + max_label**2 * term for term in (theorem, corollary))
    return Measured(name, len(y), n, penalty, loss, best.loss, loss - best.loss, *bounds)


def run(report: Report) -> None:
    options = report.options
    report.say_minutes()
    bounds = []
    for dataset, X, y in report.each(datasets.load(options.say)):
        X, y = datasets.draw_of(dataset, X, y, options.first_seed, options.quick, options.examples)
        bounds.append(measure(dataset.name, X, y, 1.0))
    unit_rows = np.ones((300, 1))
    bounds.append(measure("x = y = 1, as printed", unit_rows, unit_rows[:, 0], 100.0, NO_FLOOR))
    bounds.append(measure("x = y = 1, with a floor", unit_rows, unit_rows[:, 0], 100.0))
    report.csv(Measured._fields, bounds)
    rows = (
        (
            of.what, f"{of.examples:,} x {of.features:,}", f"{of.penalty:g}", f"{of.loss:,.1f}",
            f"{of.regret:,.1f}", f"{of.theorem_2:,.1f}", f"{of.corollary_1:,.1f}",
            "holds" if of.loss <= of.theorem_2 else "FAILS",
        )
        for of in bounds
    )  # fmt: skip
    head = ("stream", "examples x features", "a", "summed loss", "regret", "Theorem 2", "Corollary 1", "Theorem 2")
    report.table("The paper's bound beside what was measured (no intercept)", head, rows)
    report.notes.append(
        "The bound is the paper's, and its proof was never printed: bayou promises nothing of the kind."
    )
