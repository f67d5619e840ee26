"""AdaGrad answers to the reference, and to the promises of its docstring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bayou import BadInput, Batch
from bayou.learners import AdaGrad
from tests.reference.adagrad import AdaGradReference

WIDTH = 15


def examples(seed: int, rows: int = 40, density: float = 0.3, spread: float = 1.0):
    """A CSR matrix with values of many sizes, labels and weights."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((rows, WIDTH), density=density, rng=rng, format="csr")
    X.data = rng.choice([-1.0, 1.0], X.nnz) * 10 ** rng.uniform(-spread, spread, X.nnz)
    return X, rng.choice([-1.0, 1.0], rows), 10 ** rng.uniform(-2, 2, rows)


@given(
    seed=st.integers(0, 2**32 - 1),
    learning_rate=st.floats(1e-3, 10),
    l2=st.sampled_from([0.0, 1e-3, 0.5]),
    intercept=st.booleans(),
    weighted=st.booleans(),
)
def test_equals_the_reference(seed, learning_rate, l2, intercept, weighted):
    X, y, weights = examples(seed)
    weights = weights if weighted else None
    learner = AdaGrad(WIDTH, learning_rate=learning_rate, l2=l2, intercept=intercept, dtype="float64")
    slow = AdaGradReference(WIDTH, learning_rate, l2, intercept)
    p = learner.learn(Batch.from_csr(X, y, weights))
    np.testing.assert_allclose(p, slow.learn(X, y, weights), rtol=1e-12, atol=1e-12)
    size = max(1.0, np.abs(slow.mean).max())
    np.testing.assert_allclose(learner.mean, slow.mean, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(learner.intercept[0], slow.intercept, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(learner._state[:-1, 1], slow._accumulator[:-1], rtol=1e-12)
    predicted = learner.predict(Batch.from_csr(X))
    probability, score = slow.predict(X)
    np.testing.assert_allclose(predicted.probability, probability, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(predicted.mean, score, rtol=0, atol=1e-12 * size * 100)


@given(seed=st.integers(0, 2**32 - 1))
def test_float32_stays_near_the_reference(seed):
    X, y, _ = examples(seed, spread=0.5)
    learner, slow = AdaGrad(WIDTH, dtype="float32"), AdaGradReference(WIDTH, 0.5)
    p = learner.learn(Batch.from_csr(X, y))
    np.testing.assert_allclose(p, slow.learn(X, y), atol=1e-4)
    np.testing.assert_allclose(learner.mean, slow.mean, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [1e-6, 1.0, -1e6])
@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e6])
def test_the_first_step_has_the_length_of_the_learning_rate(dtype, value, weight):
    learner = AdaGrad(3, learning_rate=0.25, intercept=False, dtype=dtype)
    learner.learn(Batch.from_rows([{1: value}], labels=[1], weights=[weight]))
    np.testing.assert_allclose(learner.mean, [0, np.sign(value) * 0.25, 0], rtol=1e-6)


def test_a_vanishing_gradient_moves_nothing_and_stays_finite():
    learner = AdaGrad(1, learning_rate=1000.0, intercept=False, dtype="float64")
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    p = learner.learn(Batch.from_rows([{0: 1e3}] * 3, labels=[1, 1, 1]))
    assert (p == 1).all()
    assert learner.mean[0] == pytest.approx(1000.0)
    assert np.isfinite(learner._state).all()


def test_the_gradient_of_a_sure_and_right_prediction_keeps_its_digits():
    """1 - p would be 0 at a score of 60; S(-60) is not."""
    learner = AdaGrad(1, learning_rate=60.0, intercept=False, dtype="float64")
    learner.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    before = learner._state[0, 1]
    sure = AdaGrad(1, learning_rate=60.0, intercept=False, dtype="float64")
    sure._state[0] = 60.0, 0.0
    sure.learn(Batch.from_rows([{0: 1.0}], labels=[1]))
    assert before == 0.25
    np.testing.assert_allclose(sure._state[0, 1], np.exp(-60.0) ** 2, rtol=1e-12)


def test_l2_pulls_active_features_alone_and_never_the_intercept():
    plain, pulled = (AdaGrad(2, l2=l2, dtype="float64") for l2 in (0.0, 5.0))
    for learner in (plain, pulled):
        learner.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}] * 5, labels=[1, -1] * 5))
    assert abs(pulled.mean[0]) < abs(plain.mean[0])
    rows = Batch.from_rows([{}] * 20, labels=[1, -1, 1, 1] * 5)
    a, b = AdaGrad(2, l2=0.0, dtype="float64"), AdaGrad(2, l2=5.0, dtype="float64")
    a.learn(rows)
    b.learn(rows)
    assert a.intercept == b.intercept


@pytest.mark.parametrize(
    "parameters",
    [{"learning_rate": 0.0}, {"learning_rate": -1}, {"learning_rate": np.nan}, {"l2": -1.0}, {"l2": "much"}],
)
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        AdaGrad(3, **parameters)
