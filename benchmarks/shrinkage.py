"""Milliseconds per step of `Shrinkage`, by Cholesky and by screening, and how far screening is from exact weights.

    python benchmarks/shrinkage.py            # n = 200, 1,000, 5,000
    python benchmarks/shrinkage.py --sizes 200

Dense rows of standard normal features, 20 of which matter, noise of variance 1, penalty 50, no intercept. A step
predicts one example, with its variance, and learns from it. Both learners see the same examples, alternating every WARM
of them, so that a busy machine is as busy for both. Shown is the median over the steps after the first WARM.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bayou import Batch
from bayou.learners import Shrinkage

WARM = 20
PENALTY = 50.0


def rows(n: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(steps, n)), np.zeros(n)
    w[rng.choice(n, 20, replace=False)] = 2.0 * rng.normal(size=20)
    return X, X @ w + rng.normal(size=steps)


def measure(n: int, steps: int) -> dict[str, float]:
    """Median milliseconds per step of each, and the largest difference of a weight over the whole run."""
    X, y = rows(n, steps)
    learners = {"cholesky": Shrinkage(n, penalty=PENALTY, intercept=False, screening=0.0)}
    learners["screening"] = Shrinkage(n, penalty=PENALTY, intercept=False)
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    off = 0.0
    for first in range(0, steps, WARM):
        weights: dict[str, list[np.ndarray]] = {name: [] for name in learners}
        for name, learner in learners.items():
            for row in range(first, min(first + WARM, steps)):
                batch = Batch.from_csr(X[row : row + 1], y[row : row + 1])
                start = time.perf_counter()
                learner.learn(batch)
                seconds[name].append(time.perf_counter() - start)
                weights[name].append(learner.mean)
        off = max(off, float(np.abs(np.subtract(weights["cholesky"], weights["screening"])).max()))
    found = {name: 1e3 * float(np.median(some[WARM:])) for name, some in seconds.items()}
    return {**found, "largest difference": off}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 5000])
    parser.add_argument("--steps", type=int, help="examples; 400, or 60 from n = 2,000 on, if not given")
    args = parser.parse_args()
    print(f"{'n':>6}{'steps':>8}{'Cholesky, ms':>15}{'screening, ms':>15}{'ratio':>8}{'largest difference':>20}")
    for n in args.sizes:
        steps = args.steps or (400 if n < 2000 else 60)
        found = measure(n, steps)
        ratio = found["cholesky"] / found["screening"]
        print(
            f"{n:6,}{steps:8}{found['cholesky']:15.2f}{found['screening']:15.2f}{ratio:8.1f}"
            f"{found['largest difference']:20.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
