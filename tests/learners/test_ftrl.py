"""FTRL answers to the reference, the reference to what it minimises, and both to the promises of the docstring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize_scalar

from bayou import BadInput, Batch
from bayou.learners import FTRL
from tests.reference import ftrl as reference_ftrl
from tests.reference.adagrad import AdaGradReference
from tests.reference.common import sigmoid

WIDTH = 15


def examples(seed: int, rows: int = 40, density: float = 0.3, spread: float = 1.0):
    """A CSR matrix with values of many sizes, labels and weights."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((rows, WIDTH), density=density, rng=rng, format="csr")
    X.data = rng.choice([-1.0, 1.0], X.nnz) * 10 ** rng.uniform(-spread, spread, X.nnz)
    return X, rng.choice([-1.0, 1.0], rows), 10 ** rng.uniform(-2, 2, rows)


# --- the reference --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.7), (0.5, 0.2), (5.0, 0.0)])
def test_the_weight_minimises_what_the_leader_follows(l1, l2):
    """sum g w + sum s (w - w_then)^2 / 2 + l1 |w| + (beta/alpha + l2) w^2 / 2, by a minimiser we did not write."""
    alpha, beta = 0.3, 0.8
    rng = np.random.default_rng(0)
    z, n = np.zeros(1), np.zeros(1)
    gradients, pulls, then = [], [], []
    for x, y in zip(rng.normal(size=30), rng.choice([-1.0, 1.0], 30), strict=True):
        w = reference_ftrl.weight(z, n, alpha, beta, l1, l2)[0]
        g = -y * sigmoid(-y * x * w) * x
        new_z, new_n = reference_ftrl.step(z, n, np.array([x]), y, 1.0, alpha, beta, l1, l2)
        gradients.append(g)
        pulls.append((np.sqrt(new_n[0]) - np.sqrt(n[0])) / alpha)
        then.append(w)
        z, n = new_z, new_n

    def objective(w):
        proximal = np.sum(np.array(pulls) * (w - np.array(then)) ** 2) / 2
        return np.sum(gradients) * w + proximal + l1 * abs(w) + (beta / alpha + l2) * w**2 / 2

    best = minimize_scalar(objective, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10}).x
    assert reference_ftrl.weight(z, n, alpha, beta, l1, l2)[0] == pytest.approx(best, abs=1e-6)


def test_without_penalties_it_is_gradient_descent_with_a_step_per_feature():
    """alpha / sqrt(n), which is AdaGrad: McMahan, 2011, section 3."""
    X, y, weights = examples(3)
    ours, theirs = reference_ftrl.FTRLReference(WIDTH, 0.4, 0.0), AdaGradReference(WIDTH, 0.4)
    np.testing.assert_allclose(ours.learn(X, y, weights), theirs.learn(X, y, weights), rtol=1e-9)
    np.testing.assert_allclose(ours.weights[:-1], theirs.mean, rtol=1e-9, atol=1e-12)


# --- the kernel -----------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    alpha=st.floats(1e-3, 10),
    beta=st.sampled_from([0.0, 0.1, 1.0]),
    l1=st.sampled_from([0.0, 1e-3, 0.5, 3.0]),
    l2=st.sampled_from([0.0, 0.1]),
    intercept=st.booleans(),
    weighted=st.booleans(),
)
def test_equals_the_reference(seed, alpha, beta, l1, l2, intercept, weighted):
    X, y, weights = examples(seed)
    weights = weights if weighted else None
    settings = {"alpha": alpha, "beta": beta, "l1": l1, "l2": l2, "intercept": intercept}
    learner, slow = FTRL(WIDTH, **settings, dtype="float64"), reference_ftrl.FTRLReference(WIDTH, **settings)
    p = learner.learn(Batch.from_csr(X, y, weights))
    np.testing.assert_allclose(p, slow.learn(X, y, weights), rtol=1e-9, atol=1e-9)
    size = max(1.0, np.abs(slow.weights).max())
    np.testing.assert_allclose(learner.mean, slow.weights[:-1], rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(learner.intercept[0], slow.weights[-1], rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(learner._state[:-1, 1], slow.n[:-1], rtol=1e-9)
    np.testing.assert_array_equal(learner.mean == 0, slow.weights[:-1] == 0)


@given(seed=st.integers(0, 2**32 - 1))
def test_float32_stays_near_the_reference(seed):
    X, y, _ = examples(seed, spread=0.5)
    learner, slow = FTRL(WIDTH, l1=0.1, dtype="float32"), reference_ftrl.FTRLReference(WIDTH, l1=0.1)
    np.testing.assert_allclose(learner.learn(Batch.from_csr(X, y)), slow.learn(X, y), atol=1e-4)
    np.testing.assert_allclose(learner.mean, slow.weights[:-1], atol=1e-4)


def test_float32_does_not_drift_where_steps_are_smaller_than_its_last_place():
    """n is about 2e5 after a while, and a gradient's square of .002 less than its last place."""
    learners = [FTRL(1, alpha=1.0, intercept=False, dtype=dtype) for dtype in ("float32", "float64")]
    labels = np.where(np.random.default_rng(0).random(200_000) < 0.002, 1.0, -1.0)
    for learner in learners:
        learner._state[0] = 5.7 * np.sqrt(2e5), 2e5  # a weight of about -5.7
        learner.learn(
            Batch.from_arrays(np.arange(len(labels) + 1), np.zeros(len(labels), int), np.ones(len(labels)), labels)
        )
    narrow, wide = (learner._state[0].astype(float) for learner in learners)
    np.testing.assert_allclose(narrow, wide, rtol=1e-5)
    assert wide[1] - 2e5 > 50  # it has learned something


def test_zeros_are_exact_and_fewer_weights_survive_a_larger_l1():
    X, y, _ = examples(5, rows=400)
    counts = []
    for l1 in (0.0, 1.0, 5.0, 20.0, 1e6):
        learner = FTRL(WIDTH, alpha=0.5, l1=l1)
        learner.learn(Batch.from_csr(X, y))
        counts.append(np.count_nonzero(learner.mean))
    assert counts[0] == WIDTH
    assert counts == sorted(counts, reverse=True)
    assert 0 < counts[2] < WIDTH
    assert counts[-1] == 0
    assert learner.intercept[0] != 0  # l1 spares it


def test_predictions_use_the_weights_that_are_shown():
    X, y, _ = examples(6)
    for dtype in ("float32", "float64"):
        learner = FTRL(WIDTH, alpha=0.7, l1=0.2, l2=0.1, dtype=dtype)
        learner.learn(Batch.from_csr(X, y))
        score = X @ learner.mean.astype(float) + learner.intercept[0]
        np.testing.assert_allclose(learner.predict(Batch.from_csr(X)).mean, score, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parameters", [{"alpha": 0.0}, {"alpha": np.nan}, {"beta": -1}, {"l1": -1.0}, {"l2": "much"}])
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        FTRL(3, **parameters)
