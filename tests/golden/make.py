"""Makes the golden model files of format version 1: python tests/golden/make.py

Each model was trained on a small random stream and saved; beside it, NAME-v1.npz holds what loading it must
give: the state bit for bit, and predictions (to 1e-6: other machines may round the last bits otherwise).

Golden files stand for the files people have. Once a version is released they are never made again: when the format
changes, add new ones. Until then, delete what has another format than today's, and make it anew; others are left alone.
"""

from pathlib import Path

import numpy as np

from bayou import Batch
from bayou.core.extras import Extras
from bayou.learners import (
    FTRL,
    AdaGrad,
    Bank,
    Classes,
    Gaussian,
    Joint,
    Lasso,
    Marginal,
    Moment,
    NumberBank,
    Shrinkage,
    SpikeSlab,
    Variational,
)
from bayou.learners.bank import Lane

HERE = Path(__file__).parent
N_FEATURES = 4096  # wide enough to be stored sparsely
N_DENSE = 40  # for a learner that keeps the square of it


def stream(seed: int, rows: int = 60, n_features: int = N_FEATURES) -> Batch:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 9, rows)
    return Batch.from_arrays(
        np.concatenate([[0], np.cumsum(lengths)]),
        # a few features come often; 4095 is the last
        np.minimum(rng.zipf(1.3, lengths.sum()), n_features) - 1,
        rng.normal(size=lengths.sum()),
        labels=rng.choice([0.0, 1.0], rows),
        weights=rng.choice([0.0, 0.5, 1.0, 3.0], rows),
    )


def main() -> None:
    learners = [
        Marginal(N_FEATURES, prior_mean=0.25, prior_variance=2.0, temper=(0.7, 0.3), memory=0.001, dtype="float32"),
        AdaGrad(N_FEATURES, learning_rate=0.3, l2=0.01, dtype="float64"),
        FTRL(N_FEATURES, alpha=0.3, l1=0.4, l2=0.1, dtype="float32"),
        SpikeSlab(N_FEATURES, inclusion_prior=0.3, slab_variance=2.0, refresh_every=5, dtype="float64"),
        Joint(N_FEATURES, prior_variance=5.0, dtype="float32"),
        Moment(N_FEATURES, prior_mean=-0.5, prior_variance=2.0, dtype="float64"),
        Variational(N_FEATURES, expectation="monte-carlo", n_points=20, seed=5, dtype="float32"),
        Gaussian(N_FEATURES, prior_mean=0.5, prior_variance=2.0, dtype="float32"),
        Shrinkage(N_DENSE, penalty=0.5, ramp=30, dtype="float64"),
        Bank(
            N_FEATURES,
            lanes=[Lane(10.0, (0.3, 0.1), second=0.3), Lane(scale=True), Lane(rate=0.8)],
            dtype="float32",
        ),
        Lasso(N_FEATURES, penalty=0.5, penalize_intercept=True, dtype="float64"),
        NumberBank(N_FEATURES),
    ]
    make_classes(HERE / "classes-v1")
    for learner in learners:
        questions = stream(seed=2, rows=20, n_features=learner.n_features)
        if (HERE / f"{learner.name}-v1.bayou").exists():
            continue
        learner.learn(stream(seed=1, n_features=learner.n_features))
        learner.save(HERE / f"{learner.name}-v1.bayou")
        predicted = learner.predict(questions)
        rows = np.flatnonzero(learner._arrays()["state"].any(axis=1))
        np.savez_compressed(
            HERE / f"{learner.name}-v1.npz",
            rows=rows,
            state=learner._arrays()["state"][rows],
            intercept=learner._arrays()["intercept"],
            examples=learner.examples,
            indptr=questions.indptr,
            indices=questions.indices,
            values=questions.values,
            probability=predicted.expected,
            mean=predicted.mean,
        )


def make_classes(path: Path) -> None:
    """Several classes, the last of which joins late; enough features for a table that numbers them."""
    if path.with_suffix(".bayou").exists():
        return
    rows, questions = stream(seed=1), stream(seed=2, rows=20)
    learner = Classes(1 << 17, classes=[0, 1])
    learner.extras = Extras(classes=["ham", "spam", "eggs"])
    learner.learn(rows.with_labels(np.where(np.arange(60) < 30, rows.labels, np.arange(60) % 3), rows.weights))
    learner.save(path.with_suffix(".bayou"))
    arrays = learner._arrays()
    np.savez_compressed(
        path.with_suffix(".npz"),
        names=sorted(arrays),
        labels=learner.labels,
        counts=learner.counts,
        touched=learner.touched,
        covariances=arrays["stacker covariances"],
        state=arrays["2:state"][: len(learner.touched) + 1],
        indptr=questions.indptr,
        indices=questions.indices,
        values=questions.values,
        next=learner.predict(questions).probability,
        later=learner.predict(questions, "later").probability,
        mean=learner.predict(questions).mean,
    )


if __name__ == "__main__":
    main()
