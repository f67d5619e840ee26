"""Is Marginal honest about what it does not know, and where does that end?

    python benchmarks/uncertainty.py [--long]

Learns simulated streams from their true prior and prints, for each, how often the 90 % intervals of the weights
hold the true weight, and how far the predicted probabilities are from the rates (calibration error). Features that
are rarely active together keep honest intervals; where features keep meeting, or the stream is very long, a
diagonal posterior grows over-confident, while its probabilities stay calibrated. --long adds the longest stream.
"""

from __future__ import annotations

import argparse

import numpy as np

from bayou import evaluate, simulate
from bayou.learners import Marginal

# (features, active on average, standard deviation of the true weights, examples)
SETTINGS = [
    (200, 5, 1.0, 100_000),
    (2000, 20, 1.0, 300_000),
    (200, 20, 1.0, 100_000),
    (200, 40, 2.0, 300_000),
]
LONG = [(200, 20, 1.0, 1_000_000)]
NORMAL_90 = 1.6448536269514722


def coverage_and_calibration(features: int, active: int, std: float, examples: int, seed: int) -> tuple[float, float]:
    """(share of true weights inside their 90 % interval, calibration error of the second half)."""
    stream = simulate.random(n_features=features, active=active / features, weight_std=std, seed=seed)
    learner = Marginal(features, prior_variance=std**2, intercept=False)
    half = examples // 2
    evaluate.progressive(learner, stream.batches(half))
    later = evaluate.progressive(learner, stream.batches(examples - half, start=half))
    inside = np.abs(learner.mean - stream.weights) <= NORMAL_90 * np.sqrt(learner.variance)
    assert later.calibration_error is not None
    return float(inside.mean()), later.calibration_error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()

    print(f"{'features':>8} {'active':>6} {'std':>4} {'examples':>9}   coverage of 90 %   calibration error")
    for setting in SETTINGS + (LONG if args.long else []):
        runs = np.array([coverage_and_calibration(*setting, seed) for seed in range(args.seeds)])
        (coverage, error), spread = runs.mean(axis=0), runs.std(axis=0)
        features, active, std, examples = setting
        print(
            f"{features:8} {active:6} {std:4.1f} {examples:9,}   {coverage:.3f} +- {spread[0]:.3f}     "
            f"{error:.4f} +- {spread[1]:.4f}"
        )


if __name__ == "__main__":
    main()
