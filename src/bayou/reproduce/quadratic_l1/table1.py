"""Table 1: online against batch as examples come (quadratic-l1, section 4).

Logistic, 10 features and an intercept, gamma = 10, t = 20,000, 60,000 and 100,000.
"""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.reproduce.experiment import Experiment, Findings, Options, TextTable
from bayou.reproduce.files import write_csv
from bayou.reproduce.quadratic_l1 import PAPER, data, picture, solutions
from bayou.reproduce.quadratic_l1.solutions import weights_of

SIZES = (20_000, 60_000, 100_000)
PENALTY = 10.0
PAPER_GAPS = (0.066, 0.025, 0.016)


def run(options: Options) -> Findings:
    seeds = options.seeds(quick=2, full=10)
    options.say(f"l1-table1: {len(seeds)} draws of {SIZES[-1]:,} examples")
    found = []
    for done, seed in enumerate(seeds):
        found.append(one_draw(seed))
        options.watch(done + 1, len(seeds))
    exact, online = found[0]
    columns = ("what", *(f"{name} {size:,}" for size in SIZES for name in ("batch", "online")))
    rows = [
        (f"beta_{j} = {truth:.3f}", *(f"{pair[j]:.3f}" for k in range(len(SIZES)) for pair in (exact[k], online[k])))
        for j, truth in enumerate(data.TRUTH)
    ]
    gaps = np.array([[np.abs(a - b).sum() for a, b in zip(*pair, strict=True)] for pair in found])
    cells = [cell for gap in gaps[0] for cell in ("", f"{gap:.3f}")]
    rows.append(("L1 norm, this draw", *cells))
    means = [f"{mean:.3f} ± {std:.3f}" for mean, std in zip(gaps.mean(axis=0), gaps.std(axis=0), strict=True)]
    rows.append((f"L1 norm, {len(gaps)} draws", *[cell for mean in means for cell in ("", mean)]))
    rows.append(("L1 norm, paper", *[cell for gap in PAPER_GAPS for cell in ("", f"{gap:.3f}")]))
    table = TextTable("l1-table1: batch and online estimates, gamma = 10", columns, tuple(rows))
    lines = [
        (seed, size, float(gap))
        for seed, row in zip(seeds, gaps, strict=True)
        for size, gap in zip(SIZES, row, strict=True)
    ]
    files = (
        write_csv(options.out, "l1-table1", ("draw", "examples", "l1_gap"), lines),
        picture.draw(
            options.out, "l1-table1", {"Online against batch": {"mean of our draws": (SIZES, gaps.mean(axis=0))}},
            ("examples", "L1 distance"), marks={"Online against batch": list(zip(SIZES, PAPER_GAPS, strict=True))},
        ),
    )  # fmt: skip
    return Findings((table,), (), files)


def one_draw(seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(batch, online) estimates at each size."""
    X, y = data.simulated(seed, SIZES[-1])
    exact, online = [], []
    for size in SIZES:
        batch = Batch.from_csr(X[:size], y[:size])
        exact.append(weights_of(solutions.solved(batch, X.shape[1], PENALTY)))
        online.append(weights_of(solutions.online(batch, X.shape[1], PENALTY)))
    return exact, online


RECORD = Experiment(
    "l1-table1", PAPER, run=run, minutes=(0.2, 1.0),
    what="online L1 estimates against the batch solution, 11 weights, gamma = 10, up to 100,000 examples",
)  # fmt: skip
