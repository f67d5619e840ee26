"""Mixtures of Student-t's against scipy, and what a prediction of numbers makes of them."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as scipy_t

from bayou import BadInput, Batch, WrongTask
from bayou.core import student_t
from bayou.learners import Gaussian, Marginal, NumberBank

DEGREES = np.array([3.0, 6.0, 30.0, 5.0])


@pytest.fixture
def mixture():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(4), 200), np.exp(3.0 * rng.normal(size=(200, 4)))


@pytest.mark.parametrize("degrees", [2, 3, 4, 5, 6, 30, 31])
def test_the_chance_of_a_smaller_error(degrees):
    for t in (0.0, 1e-9, 0.3, 1.0, 4.0, 1e5):
        expected = 2.0 * scipy_t.cdf(t, degrees) - 1.0
        assert student_t.within(t, degrees) == pytest.approx(expected, rel=1e-13, abs=1e-14)
        assert student_t.within(t, 1) == pytest.approx(2.0 / np.pi * np.arctan(t), rel=1e-13)


@pytest.mark.parametrize("level", [1e-3, 0.1, 0.5, 0.9, 0.999])
def test_errors_reach_as_far_as_their_level_says(mixture, level):
    shares, scales = mixture
    reach = student_t.reaches(level, shares, scales, DEGREES)
    inside = (shares * (2.0 * scipy_t.cdf(reach[:, None] / scales, DEGREES) - 1.0)).sum(1)
    np.testing.assert_allclose(inside, level, rtol=1e-9)
    np.testing.assert_allclose(student_t.nearer(-reach, shares, scales, DEGREES), level, rtol=1e-9)


def test_densities(mixture):
    shares, scales = mixture
    errors = np.random.default_rng(1).normal(size=200) * 10.0
    density = (shares * scipy_t.pdf(errors[:, None] / scales, DEGREES) / scales).sum(1)
    np.testing.assert_allclose(student_t.log_densities(errors, shares, scales, DEGREES), np.log(density), rtol=1e-10)


@pytest.mark.parametrize("learner", [Gaussian(4), NumberBank(4)], ids=lambda learner: learner.name)
def test_interval_quantile_and_density_are_of_one_distribution(learner):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 4)), rng.standard_t(4, 60)
    learner.learn(Batch.from_csr(X, y))
    said = learner.predict(Batch.from_csr(X))
    low, high = said.interval(0.8)
    np.testing.assert_array_equal(said.quantile(0.5), said.mean)
    np.testing.assert_allclose(said.quantile(0.1), low)
    np.testing.assert_allclose(said.quantile(0.9), high)
    np.testing.assert_allclose(said.central_probability(high), 0.8)
    step = 1e-5 * (high - low)  # the density is how fast the probability below a number grows
    grown = 0.5 * (said.central_probability(high + step) - said.central_probability(high - step)) / (2.0 * step)
    np.testing.assert_allclose(said.log_density(high), np.log(grown), atol=1e-6)
    with pytest.raises(BadInput, match=r"share is 1\.0; it must be between 0 and 1"):
        said.quantile(1.0)


def test_a_gaussian_learners_labels_are_normal():
    learner = Gaussian(2, noise_variance=4.0)
    learner.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[3.0, 5.0]))
    said, deviation = learner.predict(Batch.from_rows([{0: 1.0}])), 0.0
    deviation = np.sqrt(said.variance + said.noise)
    np.testing.assert_allclose(said.log_density([2.5]), norm.logpdf(2.5, said.mean, deviation))
    np.testing.assert_allclose(said.quantile(0.2), norm.ppf(0.2, said.mean, deviation))


def test_classes_have_neither_quantiles_nor_densities():
    said = Marginal(2).predict(Batch.from_rows([{}]))
    for ask in (lambda: said.quantile(0.5), lambda: said.log_density([1.0])):
        with pytest.raises(WrongTask, match="marginal predicts classes"):
            ask()
    assert said.central_probability([1.0]) is None
