"""Regret of Marginal on the first paper's Table 1 set: five draws of weights and stream, r = R / ln T.

    python benchmarks/regret.py [--examples 1000000] [--seeds 5] [--reference EXAMPLES]

Each stream has 200 features of which 20 or 40 are active on average, true weights of standard deviation 1, and the
learner starts from that prior. The paper prints 77.66 (20 active) and 91.5 (40 active) for one draw.

Then the same with weights of standard deviation 2, from the true prior and from a prior of variance 1: the prior must
match.

--reference also runs the plain NumPy rule of tests/reference.py over that many examples of seed 0, in float64, and
prints how far the kernel's r is from its (about 0.6 ms an example: a million take ten minutes).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from bayou import Batch, evaluate, simulate
from bayou.learners import Marginal

D = 200


def stream_of(active: int, seed: int, std: float = 1.0) -> simulate.Simulation:
    return simulate.random(n_features=D, active=active / D, weight_std=std, seed=seed)


def kernel_regret(
    active: int, seed: int, examples: int, dtype: str = "float32", std: float = 1.0, prior_variance: float = 1.0
) -> float:
    stream = stream_of(active, seed, std)
    learner = Marginal(D, prior_variance=prior_variance, intercept=False, dtype=dtype)
    result = evaluate.progressive(learner, stream.batches(examples), truth=stream.weights)
    assert result.normalized_regret is not None
    return result.normalized_regret


def reference_regret(active: int, seed: int, examples: int) -> float:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.reference import MarginalReference

    rule = MarginalReference(D, prior_variance=1.0, intercept=False)

    class Reference:
        def learn(self, batch: Batch) -> np.ndarray:
            return rule.learn(batch.to_csr(D), batch.labels)

    stream = stream_of(active, seed)
    result = evaluate.progressive(Reference(), stream.batches(examples), truth=stream.weights)
    assert result.normalized_regret is not None
    return result.normalized_regret


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--reference", type=int, default=0, metavar="EXAMPLES")
    args = parser.parse_args()

    for active in (20, 40):
        for dtype in ("float32", "float64"):
            r = [kernel_regret(active, seed, args.examples, dtype) for seed in range(args.seeds)]
            each = " ".join(f"{value:.2f}" for value in r)
            print(f"E={active} {dtype} T={args.examples:,}: mean r {np.mean(r):.2f} +- {np.std(r):.2f}  ({each})")
    for active in (20, 40):
        matched, narrow = (
            np.mean([kernel_regret(active, s, args.examples, std=2.0, prior_variance=v) for s in range(args.seeds)])
            for v in (4.0, 1.0)
        )
        print(
            f"E={active}, weights of std 2: mean r {matched:.1f} with prior variance 4, {narrow:.1f} with 1: "
            f"{narrow / matched:.1f} times as much"
        )
    if args.reference:
        for active in (20, 40):
            kernel = kernel_regret(active, 0, args.reference, "float64")
            reference = reference_regret(active, 0, args.reference)
            print(
                f"E={active} seed 0 T={args.reference:,}: kernel {kernel:.9f}, reference {reference:.9f}, "
                f"relative difference {kernel / reference - 1:.1e}"
            )


if __name__ == "__main__":
    main()
