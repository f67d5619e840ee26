"""Gaussian: its kernel against the reference, the reference against exact conditioning, and what it is good for."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bayou import BadInput, Batch
from bayou.learners import Gaussian
from tests.reference import gaussian as reference_gaussian


def dense(seed, rows=200, width=6, sparse=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, width)) * (rng.random((rows, width)) < sparse) * 10 ** rng.uniform(-2, 1, width)
    y = X @ rng.normal(size=width) + 40.0 + rng.normal(size=rows) * 3.0
    return X, y, rng.choice([0.0, 0.4, 1.0, 5.0], rows)


@pytest.mark.parametrize("seed", range(3))
def test_the_reference_keeps_the_diagonal_of_the_exact_posterior(seed):
    rng = np.random.default_rng(seed)
    mean, variance, x = rng.normal(size=5), np.exp(rng.normal(size=5)), rng.normal(size=5)
    y, c, s = 1.7, 2.5, 0.6
    found_mean, found_variance, _ = reference_gaussian.condition(mean, variance, x, y, c)
    covariance = np.linalg.inv(np.diag(1 / (s * variance)) + c * np.outer(x, x) / s)
    exact = covariance @ (mean / (s * variance) + c * x * y / s)
    np.testing.assert_allclose(found_mean, exact, rtol=1e-12)
    np.testing.assert_allclose(s * found_variance, np.diag(covariance), rtol=1e-12)


ARGUMENTS = {
    "default": {},
    "known noise": {"noise_variance": 9.0, "prior_variance": 4.0, "intercept_variance": 100.0},
    "prior": {"prior_mean": np.linspace(-1, 1, 6), "prior_variance": np.geomspace(0.01, 10, 6)},
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
def test_the_kernel_equals_the_reference(arguments, seed):
    X, y, weights = dense(seed)
    learner, slow = Gaussian(6, dtype="float64", **arguments), reference_gaussian.Gaussian(6, **arguments)
    told = learner.observe(Batch.from_csr(X, y, weights))
    expected = np.array([slow.learn(*row) for row in zip(X, y, weights, strict=True)]).T
    for found, there in zip((told.mean, told.variance, told.noise), expected, strict=True):
        np.testing.assert_allclose(found, there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learner.mean, slow.mean[:-1], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(learner.variance, slow.noise * slow.relative[:-1], rtol=1e-9)
    np.testing.assert_allclose(learner.intercept, (slow.mean[-1], slow.noise * slow.relative[-1]), rtol=1e-9)
    assert learner.noise == pytest.approx(slow.noise, rel=1e-9)


def test_one_feature_is_exact_bayesian_regression():
    """With one weight and no intercept nothing is left out: ridge regression with penalty noise / prior variance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 1))
    y = 3.0 * X[:, 0] + rng.normal(size=50)
    learner = Gaussian(1, prior_variance=0.5, noise_variance=2.0, intercept=False, dtype="float64")
    learner.learn(Batch.from_csr(X, y))
    assert learner.mean[0] == pytest.approx(Ridge(alpha=4.0, fit_intercept=False).fit(X, y).coef_[0], rel=1e-10)
    assert learner.variance[0] == pytest.approx(1.0 / (2.0 + (X**2).sum() / 2.0), rel=1e-10)


def test_labels_of_any_scale_are_learned_alike():
    X, y, _ = dense(4)
    one, other = Gaussian(6, dtype="float64"), Gaussian(6, dtype="float64")
    small, large = (learner.observe(Batch.from_csr(X, labels)) for learner, labels in ((one, y), (other, 1024.0 * y)))
    np.testing.assert_allclose(1024.0 * small.mean, large.mean, rtol=1e-12)
    np.testing.assert_allclose(1024.0**2 * small.noise[50:], large.noise[50:], rtol=1e-6)  # but for the start of 1


@pytest.mark.parametrize("bounded", [True, False])
def test_what_is_expected_is_no_more_than_was_ever_seen(bounded):
    """Features in the thousands make of each row all that is known, and of the next one anything."""
    rng = np.random.default_rng(3)
    X, y = 1000.0 * (rng.normal(size=(200, 40)) + 1.0), rng.normal(size=200)
    learner = Gaussian(40, bounded=bounded, dtype="float64")
    told = learner.observe(Batch.from_csr(X, y))
    low, high = np.minimum.accumulate(y)[:-1], np.maximum.accumulate(y)[:-1]
    inside = (low <= told.expected[1:]) & (told.expected[1:] <= high)
    assert inside.all() == bounded
    np.testing.assert_array_equal(told.expected[1:][inside], np.clip(told.mean[1:], low, high)[inside])
    other = Gaussian(40, bounded=not bounded, dtype="float64")
    other.learn(Batch.from_csr(X, y))
    np.testing.assert_array_equal(other.mean, learner.mean)  # nothing of it is learned


def test_the_range_of_labels_is_that_of_both_models():
    a, b = Gaussian(2), Gaussian(2)
    a.learn(Batch.from_rows([{0: 1.0}, {0: 1.0}], labels=[1.0, 2.0]))
    b.learn(Batch.from_rows([{1: 1.0}, {1: 1.0}], labels=[-3.0, 7.0]))
    far = Batch.from_rows([{0: -1e6}, {0: 1e6}])
    assert a.merge(b).predict(far).expected.tolist() == [-3.0, 7.0]
    assert a.merge(Gaussian(2)).predict(far).expected.tolist() == [1.0, 2.0]


def test_noise_is_learned_and_intervals_cover():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 10))
    y = X @ rng.normal(size=10) - 2001.0 + 0.5 * rng.normal(size=20_000)
    learner = Gaussian(10)
    told = learner.observe(Batch.from_csr(X, y))
    assert learner.noise == pytest.approx(0.25, rel=0.03)
    inside = np.abs(y - told.mean) <= 1.6449 * np.sqrt(told.variance + told.noise)
    assert inside[100:].mean() == pytest.approx(0.9, abs=0.01)


def test_float32_state_is_as_good_as_float64():
    """Labels far from 0, and many more examples than float32 has digits for the sum of."""
    rng = np.random.default_rng(2)
    X = (rng.random((100_000, 8)) < 0.5).astype(float)
    y = X @ np.arange(8.0) + 50_000.0 + rng.normal(size=100_000)
    narrow, wide = Gaussian(8, dtype="float32"), Gaussian(8, dtype="float64")
    losses = [np.mean((y - learner.learn(Batch.from_csr(X, y)))[1000:] ** 2) for learner in (narrow, wide)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    np.testing.assert_allclose(narrow.mean, wide.mean, atol=0.01)


@pytest.mark.parametrize("name", ["noise_variance", "prior_variance", "intercept_variance"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, "much", 1e200])
def test_bad_parameters_are_refused_by_name(name, value):
    with pytest.raises(BadInput, match=name if value != 1e200 else "variance|prior"):
        Gaussian(3, **{name: value})
