"""Table 1: online against batch as examples arrive (quadratic-l1, section 4).

Logistic, 10 features and an intercept, gamma = 10, t = 20,000, 60,000 and 100,000.
"""

from __future__ import annotations

import numpy as np

from bayou.reproduce.experiment import Report
from bayou.reproduce.quadratic_l1 import data, picture
from bayou.reproduce.quadratic_l1.solutions import Problem

SIZES = (20_000, 60_000, 100_000)
PENALTY = 10.0
PAPER_GAPS = (0.066, 0.025, 0.016)


def run(report: Report) -> None:
    seeds = report.options.seeds(quick=2, full=10)
    report.say(f"{len(seeds)} draws of {SIZES[-1]:,} examples")
    estimates = [one_draw(seed) for seed in report.each(seeds)]
    exact, online = estimates[0]
    columns = ("what", *(f"{name} {size:,}" for size in SIZES for name in ("batch", "online")))
    rows = [
        (f"beta_{j} = {truth:.3f}", *(f"{pair[j]:.3f}" for k in range(len(SIZES)) for pair in (exact[k], online[k])))
        for j, truth in enumerate(data.TRUTH)
    ]
    gaps = np.array([[np.abs(a - b).sum() for a, b in zip(*pair, strict=True)] for pair in estimates])
    cells = [cell for gap in gaps[0] for cell in ("", f"{gap:.3f}")]
    rows.append(("L1 norm, this draw", *cells))
    means = [f"{mean:.3f} ± {std:.3f}" for mean, std in zip(gaps.mean(axis=0), gaps.std(axis=0), strict=True)]
    rows.append((f"L1 norm, {len(gaps)} draws", *[cell for mean in means for cell in ("", mean)]))
    rows.append(("L1 norm, paper", *[cell for gap in PAPER_GAPS for cell in ("", f"{gap:.3f}")]))
    report.table("l1-table1: batch and online estimates, gamma = 10", columns, rows)
    lines = [
        (seed, size, float(gap))
        for seed, row in zip(seeds, gaps, strict=True)
        for size, gap in zip(SIZES, row, strict=True)
    ]
    report.csv(("draw", "examples", "l1_gap"), lines)
    title = "Online against batch"
    marks = {title: list(zip(SIZES, PAPER_GAPS, strict=True))}
    panels = {title: {"mean of our draws": (SIZES, gaps.mean(axis=0))}}
    picture.draw(report, panels, ("examples", "L1 distance"), marks=marks)


def one_draw(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the batch and the online estimates at each size."""
    X, y = data.simulated(seed, SIZES[-1])
    problems = [Problem(X[:size], y[:size], PENALTY) for size in SIZES]
    return [problem.exact for problem in problems], [problem.online for problem in problems]
