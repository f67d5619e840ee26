"""Figure 3: online and batch estimates as examples arrive (quadratic-l1, section 4); gamma = 100."""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.learners.lasso import Lasso
from bayou.plots import COLOURS, grid
from bayou.reproduce.experiment import Report
from bayou.reproduce.quadratic_l1 import data
from bayou.reproduce.quadratic_l1.solutions import EXACT, MOST_PASSES, weights_of

ROWS = 100_000
POINTS = 50
PENALTY = 100.0


def traces(report: Report) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (examples, online estimates, batch estimates); estimates have shape (points, weights)."""
    rows = report.options.examples or ROWS
    X, y = data.simulated(report.options.first_seed, rows)
    sizes = np.unique(np.linspace(rows / POINTS, rows, POINTS).astype(int) // 10 * 10)
    learner = Lasso(X.shape[1], penalty=PENALTY, penalize_intercept=True)
    exact = Lasso(X.shape[1], algorithm="multipass", penalty=PENALTY, penalize_intercept=True, tolerance=EXACT)
    online, batches, n_learned = [], [], 0
    for size in report.each(sizes.tolist()):
        learner.learn(Batch.from_csr(X[n_learned:size], y[n_learned:size]))
        online.append(weights_of(learner))
        batch_so_far, exact, n_learned = Batch.from_csr(X[:size], y[:size]), exact.at_penalty(PENALTY), size
        for _ in range(MOST_PASSES):
            exact.learn(batch_so_far)
            if exact.end_pass():
                break
        batches.append(weights_of(exact))
    return sizes, np.array(online), np.array(batches)


def write(report: Report, sizes: np.ndarray, online: np.ndarray, batch: np.ndarray) -> None:
    lines = [
        (int(size), weight, float(online[k, weight]), float(batch[k, weight]))
        for k, size in enumerate(sizes)
        for weight in range(online.shape[1])
    ]
    report.csv(("examples", "weight", "online", "batch"), lines)


def run(report: Report) -> None:
    sizes, online, batch = traces(report)
    write(report, sizes, online, batch)
    with report.picture(8.4, 5.0) as figure:
        axes = figure.subplots()
        for j in range(online.shape[1]):
            colour = COLOURS[j % len(COLOURS)]
            axes.plot(sizes, online[:, j], color=colour, linewidth=2, label="online" if j == 0 else None)
            label = "batch" if j == 0 else None
            axes.plot(sizes, batch[:, j], color=colour, linewidth=1.4, linestyle=(0, (4, 2)), label=label)
        title = "Eleven weights, gamma = 100: online (solid) and batch (dashed)"
        axes.set(title=title, xlabel="examples, t", ylabel="estimate")
        grid(axes)
        axes.legend(frameon=False)
    gap = np.abs(online - batch).sum(axis=1)
    sample_points = [0, len(sizes) // 4, len(sizes) // 2, len(sizes) - 1]
    columns = ("what", *(f"t = {sizes[k]:,}" for k in sample_points))
    rows = [("ours", *(f"{gap[k]:.3f}" for k in sample_points))]
    report.table("l1-figure3: L1 distance of online from batch", columns, rows)
