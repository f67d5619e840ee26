"""The reference of moment matching against integrals that know nothing of its formulas."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import log_expit, log_ndtr

from tests.reference import moment as ours
from tests.reference.marginal import expected_sigmoid

NOISE = {("logistic", "probit"): 8 / math.pi, ("probit", "exact"): 1.0, ("probit", "probit"): 1.0}


def tilted(m: float, s2: float, log_likelihood) -> tuple[float, float]:
    """Mean and variance of the score's posterior, by scipy: N(m, s2) times a likelihood."""
    sd = math.sqrt(s2)

    def density(u):
        return math.exp(log_likelihood(m + sd * u) - top - u * u / 2)

    top = max(log_likelihood(m + sd * u) - u * u / 2 for u in np.linspace(-12, 12, 2001))
    mass, first = (
        integrate.quad(lambda u, n=n: u**n * density(u), -14, 14, points=[-m / sd], limit=2000, epsrel=1e-12)[0]
        for n in (0, 1)
    )
    e1 = first / mass
    spread = integrate.quad(lambda u: (u - e1) ** 2 * density(u), -14, 14, points=[-m / sd], limit=2000, epsrel=1e-12)[
        0
    ]
    return m + sd * e1, s2 * spread / mass


@pytest.mark.parametrize("sd", [0.3, 1.0, 1.5, 2.0, 4.0, 6.0, 20.0, 100.0])
@pytest.mark.parametrize("z", [-3.0, -1.0, -0.2, 0.0, 0.5, 2.0, 4.0])
def test_slopes_are_the_tilted_moments(sd, z):
    """e1, e2 of the standardised score: dm = e1/sd, dv = (e2 - e1^2 - 1)/s2."""
    m, s2 = z * sd, sd**2
    mean, variance = tilted(m, s2, log_expit)
    slope, fall = ours.sigmoid_log_slopes(m, s2)
    assert m + s2 * slope == pytest.approx(mean, rel=1e-9, abs=1e-9 * sd)
    assert s2 - s2**2 * fall == pytest.approx(variance, rel=1e-8)


@pytest.mark.parametrize("sd", [1e-6, 0.01, 1.0, 3.0])
@pytest.mark.parametrize("m", [12.0, 40.0, 300.0])
def test_far_right_slopes_are_the_tails(sd, m):
    """There 1 - F is E[e^-a] = e^(s2/2 - m) to the first order, and E[e^-2a] of that to the second."""
    small = math.exp(sd**2 / 2 - m)
    second = math.exp(1.5 * sd**2 - m)  # E[e^-2a]/E[e^-a]
    slope, fall = ours.sigmoid_log_slopes(m, sd**2)
    assert slope == pytest.approx(small, rel=4 * second + 1e-10)
    assert fall == pytest.approx(small, rel=8 * second + 1e-10)
    assert ours.sigmoid_log_slopes(-m, sd**2)[0] == pytest.approx(1 - math.exp(1.5 * sd**2 - m), abs=10 * second**2)


@pytest.mark.parametrize("z", [-6.0, -2.0, 0.0, 1.0, 5.0])
def test_seen_from_a_wide_score_the_sigmoid_is_a_probit_of_its_variance(z):
    sd = 1000.0
    slope, fall = ours.sigmoid_log_slopes(z * sd, sd**2)
    expected = ours.probit_log_slopes(z * sd, sd**2, math.pi**2 / 3)
    assert (slope, fall) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("noise", [1.0, 8 / math.pi])
@pytest.mark.parametrize(("m", "s2"), [(0.0, 1.0), (-3.0, 0.5), (2.0, 9.0), (-8.0, 4.0)])
def test_probit_slopes_are_the_tilted_moments(noise, m, s2):
    mean, variance = tilted(m, s2, lambda a: log_ndtr(a / math.sqrt(noise)))
    slope, fall = ours.probit_log_slopes(m, s2, noise)
    assert m + s2 * slope == pytest.approx(mean, rel=1e-9)
    assert s2 - s2**2 * fall == pytest.approx(variance, rel=1e-8)


ROW = np.array([0.4, -1.2, 0.7]), np.array([1.0, 0.3, 4.0]), np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_a_step_matches_each_weights_exact_posterior(y):
    """Over the weight itself, all others integrated out by `expected_sigmoid`."""
    mean, variance, x = ROW
    m, s2 = np.sum(x * mean), np.sum(x**2 * variance)
    new_mean, new_variance = ours.moment_step(mean, variance, x, y)
    for i in range(3):
        sd = math.sqrt(variance[i])
        rest_mean, rest = m - x[i] * mean[i], s2 - x[i] ** 2 * variance[i]

        def density(w, i=i, sd=sd, rest_mean=rest_mean, rest=rest):
            likelihood = expected_sigmoid(y * (rest_mean + x[i] * w), rest)
            return likelihood * math.exp(-((w - mean[i]) ** 2) / (2 * sd**2))

        ends = mean[i] - 10 * sd, mean[i] + 10 * sd
        mass, first, second = (
            integrate.quad(lambda w, n=n, f=density: w**n * f(w), *ends, limit=200)[0] for n in range(3)
        )
        assert new_mean[i] == pytest.approx(first / mass, rel=1e-6)
        assert new_variance[i] == pytest.approx(second / mass - (first / mass) ** 2, rel=1e-6)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("expectation", ["exact", "probit"])
def test_weights_go_smoothly_through_one_and_nothing_turns_negative(link, expectation):
    steps = [
        ours.moment_step(*ROW, -1.0, c, link, expectation)
        for c in (1 - 1e-9, 1.0, 1 + 1e-9, 0.0, 1e-9, 0.5, 2.0, 1e3, 1e6)
    ]
    for near in (steps[0], steps[2]):
        np.testing.assert_allclose(near, steps[1], rtol=1e-7)
    np.testing.assert_array_equal(steps[3], ROW[:2])
    np.testing.assert_allclose(steps[4], ROW[:2], rtol=1e-7)
    # heavier examples move further and leave less
    moved = [np.sum(ROW[2] * (step[0] - ROW[0])) for step in steps[4:]]
    assert (np.diff([0.0, *moved]) < 0).all()
    for before, after in itertools.pairwise(steps[4:]):
        assert (after[1] < before[1]).all()
        assert (after[1] > 0).all()


@pytest.mark.parametrize(("link", "expectation"), [("logistic", "exact"), *NOISE])
@pytest.mark.parametrize("weight", [0.1, 0.5, 2.0, 5.0, 30.0])
@pytest.mark.parametrize("m", [-2.0, 0.0, 1.0])
@pytest.mark.parametrize("s2", [0.1, 1.0, 4.0])
def test_a_weight_is_near_the_likelihood_to_that_power(link, expectation, weight, m, s2):
    """Exactly it would be tilted by F^c, whose mean lies off its mode. We are within half of its standard deviation."""
    exact = (link, expectation) == ("logistic", "exact")
    noise = 1.0 if exact else NOISE[link, expectation]
    log_cdf = log_expit if exact else log_ndtr
    mean, variance = tilted(m, s2, lambda a: weight * log_cdf(a / math.sqrt(noise)))
    (found,), (spread,) = ours.moment_step([m], [s2], [1.0], 1.0, weight, link, expectation)
    off, narrow = (0.4, 0.15) if exact else (0.6, 0.3)
    assert abs(found - mean) < off * math.sqrt(variance)
    assert math.sqrt(spread / variance) == pytest.approx(1.0, abs=narrow)


def test_sharing_the_score_means_that_wider_weights_take_more_of_the_step():
    mean, variance = ours.moment_step([0.0, 0.0], [1.0, 3.0], [1.0, 1.0], 1.0)
    assert mean[1] == pytest.approx(3 * mean[0])
    total = 4.0
    a = tilted(0.0, total, log_expit)
    assert mean.sum() == pytest.approx(a[0], rel=1e-9)
    assert (1 - variance / [1.0, 3.0]) / [1.0, 3.0] == pytest.approx((1 - a[1] / total) / total, rel=1e-8)
