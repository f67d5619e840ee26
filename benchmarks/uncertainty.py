"""Do the intervals of Marginal and the bank hold the truth as often as they say, and where do they not?

    python benchmarks/uncertainty.py [--long] [--seeds 5]

Both learn simulated streams, Marginal with the true prior, the bank at its defaults. For each, how often the 90 %
intervals (mean +- 1.645 standard deviations) hold the true weights, and the true scores of 20,000 later examples; and
how far the predicted probabilities are from the rates (calibration error of the stream's second half).

Features that are rarely active together have correct intervals. Where features keep occurring together, or the stream
is very long, a diagonal posterior becomes overconfident, while its probabilities stay calibrated. --long adds the
longest stream.

Then a long tail, where most features are rare: the coverage of the scores by how often the example's rarest feature was
seen before.
"""

from __future__ import annotations

import argparse

import numpy as np

from bayou import Batch, evaluate, simulate
from bayou.learners import Bank, Marginal

# (features, active on average, standard deviation of the true weights, examples)
SETTINGS = [
    (200, 5, 1.0, 100_000),
    (2000, 20, 1.0, 300_000),
    (200, 20, 1.0, 100_000),
    (200, 40, 2.0, 300_000),
]
LONG = [(200, 20, 1.0, 1_000_000)]
LATER = 20_000
NORMAL_90 = 1.6448536269514722
TAIL_EXAMPLES = (3000, 30_000, 300_000)
TIMES_MET = (0, 1, 10, 100, 1000)


def learners(stream: simulate.Simulation) -> dict[str, Marginal | Bank]:
    return {
        "Marginal": Marginal(stream.n_features, prior_variance=stream.prior_variance, intercept=False),
        "bank": Bank(stream.n_features, intercept=False),
    }


def scores_inside(learner: Marginal | Bank, stream: simulate.Simulation, batch: Batch) -> np.ndarray:
    """Whether each true score is inside its 90 % interval."""
    told = learner.predict(Batch.from_arrays(batch.indptr, batch.indices, batch.values))
    true = batch.to_csr(stream.n_features) @ stream.weights
    return np.abs(told.mean - true) <= NORMAL_90 * np.sqrt(told.variance)


def honesty(features: int, active: int, std: float, examples: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """By learner: shares of true weights and of true scores inside their intervals, calibration error."""
    stream = simulate.random(n_features=features, active=active / features, weight_std=std, seed=seed)
    later = next(stream.batches(LATER, batch_size=LATER, start=examples))
    half = examples // 2
    found = {}
    for name, learner in learners(stream).items():
        evaluate.progressive(learner, stream.batches(half))
        second = evaluate.progressive(learner, stream.batches(examples - half, start=half))
        inside = np.abs(learner.mean - stream.weights) <= NORMAL_90 * np.sqrt(learner.variance)
        assert second.calibration_error is not None
        found[name] = (inside.mean(), scores_inside(learner, stream, later).mean(), second.calibration_error)
    return found


def tail(examples: int, seeds: int) -> None:
    """Coverage of scores where features are rare, by how often the example's rarest feature was seen."""
    inside: dict[str, list[np.ndarray]] = {"Marginal": [], "bank": []}
    rarest = []
    for seed in range(seeds):
        stream = simulate.longtail(n_categories=14, weight_std=1.0, seed=seed)
        met = np.zeros(stream.n_features, np.int64)
        both = learners(stream)
        for batch in stream.batches(examples):
            met += np.bincount(batch.indices, minlength=stream.n_features)
            for learner in both.values():
                learner.learn(batch)
        later = next(stream.batches(LATER, batch_size=LATER, start=examples))
        rarest.append(np.minimum.reduceat(met[later.indices], later.indptr[:-1]))
        for name, learner in both.items():
            inside[name].append(scores_inside(learner, stream, later))
    group = np.searchsorted(TIMES_MET, np.concatenate(rarest), side="right") - 1
    for name, each in inside.items():
        right = np.concatenate(each)
        cells = [
            f"{right[group == g].mean():8.3f}" if np.count_nonzero(group == g) > 100 else f"{'':8}"
            for g in range(len(TIMES_MET))
        ]
        print(f"{examples:9,}  {name:10}" + "".join(cells) + f"{right.mean():8.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()

    print(f"{'':41}90 % intervals hold the true")
    print(f"features active  std  examples  {'learner':10} {'weights':17}{'scores':17}calibration error")
    for setting in SETTINGS + (LONG if args.long else []):
        runs = [honesty(*setting, seed) for seed in range(args.seeds)]
        features, active, std, examples = setting
        for name in runs[0]:
            each = np.array([run[name] for run in runs])
            cells = [f"{m:.3f} +- {s:.3f}" for m, s in zip(each.mean(axis=0), each.std(axis=0), strict=True)][:2]
            error = f"{each[:, 2].mean():.4f} +- {each[:, 2].std():.4f}"
            print(
                f"{features:8} {active:6} {std:4.1f} {examples:9,}  {name:10} {cells[0]}   {cells[1]}   {error}",
                flush=True,
            )
    print("\nlong tail, 32,766 features, 14 active, std 1: scores, by how often the rarest feature was seen before")
    headings = [f"{low:,}+" if low else "never" for low in TIMES_MET]
    print(f"{'examples':>9}  {'learner':10}" + "".join(f"{heading:>8}" for heading in headings) + f"{'all':>8}")
    for examples in TAIL_EXAMPLES:
        tail(examples, args.seeds)


if __name__ == "__main__":
    main()
