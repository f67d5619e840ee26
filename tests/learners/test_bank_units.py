"""Normalised lanes when the sizes of values change: what was learned stays, and no weight grows out of bounds."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from bayou import Batch
from bayou.learners.bank import Bank, Lane
from bayou.learners.bank.linearization import weights_of
from tests.learners.test_bank import WIDTH, examples, near, rivals, same
from tests.reference.bank import BankReference

NORMALISED = [
    Lane(normalise=True),
    Lane(10.0, normalise=True, scale=True),
    Lane(0.1, normalise=True, temper=(0.3, 0.1)),
    Lane(normalise=True, memory=0.01),
    Lane(2.0),
]


def wild(kind: str, seed: int = 0) -> sparse.csr_array:
    """Values whose sizes change as they come."""
    X, _, _ = examples(seed, 90, sizes=(-1, 1), indicators=0.1, lengths=(1, 7, 9))
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(90), np.diff(X.indptr))
    first = np.zeros(len(X.data), dtype=bool)
    first[np.unique(X.indices, return_index=True)[1]] = True
    if kind == "tiny first":
        X.data[first] = rng.choice([1e-17, 1e-9], first.sum())
    elif kind == "huge first":
        X.data[first] = rng.choice([1e6, 1e9], first.sum())
    elif kind == "any size":
        X.data *= 10.0 ** rng.integers(-17, 7, len(X.data))
    elif kind == "indicators first":
        X.data[rows < 30] = 1.0
        X.data[rows >= 30] *= 10.0 ** rng.integers(-12, 4, (rows >= 30).sum())
    return X


@pytest.mark.parametrize("kind", ["tiny first", "huge first", "any size", "indicators first"])
@pytest.mark.parametrize("weighted", [False, True])
def test_lanes_equal_the_reference_when_sizes_change(kind, weighted):
    X, rng = wild(kind), np.random.default_rng(1)
    y = rng.choice([-1.0, 1.0], 90)
    same(*rivals(lanes=NORMALISED), X, y, rng.choice([0.0, 0.3, 1.0, 7.0], 90) if weighted else None)


@pytest.mark.parametrize("kind", ["tiny first", "huge first", "indicators first"])
def test_float32_is_near_the_reference_when_sizes_change(kind):
    X, y = wild(kind).astype(np.float32).astype(float), np.random.default_rng(1).choice([-1.0, 1.0], 90)
    fast, slow = (
        Bank(WIDTH, lanes=NORMALISED, combine="share", head=0),
        BankReference(WIDTH, NORMALISED, combine="share"),
    )
    near(fast.learn(Batch.from_csr(X, y)), slow.learn(X, y), size=0.01, tolerance=1e-3)
    mean, variance = slow.weights()
    found = weights_of(fast._lanes, fast._combination, np.arange(WIDTH))
    near(found[0], mean[:-1], size=np.sqrt(variance[:-1]), tolerance=1e-3)
    near(found[1], variance[:-1], tolerance=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_weight_grows_out_of_bounds(dtype):
    """Sure and wrong as an indicator, so that next to nothing is known of it, then tiny, then huge."""
    learner = Bank(3, lanes=[Lane(1e6, normalise=True, temper=(0.01, 1.0))], dtype=dtype, head=0)
    learner.learn(Batch.from_rows([{0: 1.0}] * 50, np.ones(50)))
    learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}, {1: 1e-17}, {1: 1e-17, 2: 1e-17}, {1: 1e6, 2: 1e6}], [0, 0, 1, 0]))
    said = learner.predict(Batch.from_rows([{0: 1.0, 1: 1.0, 2: -1.0}, {1: 1e-17}]))
    for numbers in (learner.mean, learner.variance, said.mean, said.variance, learner._lanes.state):
        assert np.isfinite(numbers).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tiny_first_value_leaves_weights_near_the_truth(dtype):
    rng, truth = np.random.default_rng(0), np.array([1.0, -1.0, 0.5, 0.0, 0.3])
    dense = rng.normal(size=(20_000, 5))
    dense[0, [0, 3]] = 1e-17, 1e-9
    learner = Bank(5, dtype=dtype, head=0)
    learner.learn(Batch.from_csr(sparse.csr_array(dense), rng.random(20_000) < expit(dense @ truth)))
    np.testing.assert_allclose(learner.mean, truth, atol=0.05)
    rows = Batch.from_csr(sparse.csr_array(rng.normal(size=(50, 5))))
    drawn = learner.sample(rows, 4000).mean(axis=0)
    np.testing.assert_allclose(drawn, learner.predict(rows).probability, atol=0.01)
