"""The reference of variational Bayes against scipy's minimisers, finite differences and integrals."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scipy.special import expit

from tests.reference import variational as ours

NODES = ours.hermite_nodes(8)
FINE = ours.hermite_nodes(100)
cases = pytest.mark.parametrize(
    ("z0", "k", "weight"),
    [(0.0, 1.0, 1.0), (-3.0, 0.5, 1.0), (2.0, 0.1, 1.0), (1.0, 1.5, 0.3), (-1.0, 0.7, 4.0), (-6.0, 1.0, 2.0)],
)


@cases
def test_the_divergence_is_that_of_49(z0, k, weight):
    """KL(Q || posterior) by integration, in which the normaliser is a constant."""

    def log_posterior(w):  # in units of the old sd, from the old mean
        return -w * w / 2 - math.log(math.sqrt(2 * math.pi)) - weight * np.logaddexp(0, -(z0 + k * w))

    def kl(a, r):
        def integrand(u):
            w = a + r * u
            log_q = -u * u / 2 - math.log(math.sqrt(2 * math.pi) * r)
            return math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * (log_q - log_posterior(w))

        return integrate.quad(integrand, -12, 12, epsabs=1e-12)[0]

    places = [(0.0, 1.0), (0.5, 0.8), (-0.3, 0.4)]
    found = [ours.divergence(a, r, z0, k, weight, *FINE) - kl(a, r) for a, r in places]
    np.testing.assert_allclose(found, found[0], atol=1e-8)


@cases
@pytest.mark.parametrize(("a", "r"), [(0.0, 1.0), (0.7, 0.6)])
def test_52_and_53_are_its_derivatives(z0, k, weight, a, r):
    told = (z0, k, weight, *NODES)
    gradient, hessian = ours.gradient_and_hessian(a, r, *told)
    h = 1e-5
    for n, step in enumerate(np.eye(2) * h):
        up, down = np.array([a, r]) + step, np.array([a, r]) - step
        assert gradient[n] == pytest.approx(
            (ours.divergence(*up, *told) - ours.divergence(*down, *told)) / (2 * h), abs=1e-8
        )
        slopes = [ours.gradient_and_hessian(*place, *told)[0] for place in (up, down)]
        np.testing.assert_allclose(hessian[n], (slopes[0] - slopes[1]) / (2 * h), atol=1e-7)


def scipy_minimum(z0, k, weight, nodes, node_weights):
    """By a simplex in (a, log r), which knows no derivative."""
    found = optimize.minimize(
        lambda p: ours.divergence(p[0], math.exp(p[1]), z0, k, weight, nodes, node_weights),
        [0.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 10_000},
    )
    return found.x[0], math.exp(found.x[1])


@cases
def test_newton_finds_the_minimum(z0, k, weight):
    assert ours.newton_minimum(z0, k, weight, *NODES) == pytest.approx(
        scipy_minimum(z0, k, weight, *NODES), rel=1e-6, abs=1e-6
    )


@cases
def test_eight_nodes_are_as_good_as_exact(z0, k, weight):
    few, many = (ours.newton_minimum(z0, k, weight, *nodes) for nodes in (NODES, FINE))
    assert few == pytest.approx(many, abs=1e-4)


@pytest.mark.parametrize("k", [3.0, 30.0, 1e3])
@pytest.mark.parametrize("z0", [-500.0, -5.0, 0.0, 5.0])
def test_wide_beliefs_and_surprises_end_at_a_stationary_point(z0, k):
    """Where (54) undamped leaves r < 0."""
    a, r = ours.newton_minimum(z0, k, 1.0, *NODES)
    gradient, hessian = ours.gradient_and_hessian(a, r, z0, k, 1.0, *NODES)
    assert r > 0
    assert np.abs(np.linalg.solve(hessian, gradient)).max() < 1e-9 * (1 + abs(a))


def test_54_undamped_drives_r_below_zero():
    place = np.array([0.0, 1.0])
    lowest = 1.0
    for _ in range(20):
        gradient, hessian = ours.gradient_and_hessian(*place, -5.0, 30.0, 1.0, *NODES)
        place = place - np.linalg.solve(hessian, gradient)
        lowest = min(lowest, place[1])
    assert lowest < 0


@cases
def test_taylor_solves_52_with_tangents(z0, k, weight):
    nodes, node_weights = NODES
    z = z0 + k * nodes
    q, p = expit(-z), expit(z) * expit(-z)

    def gradient(place):
        a, r = place
        tangent = node_weights * (q - p * k * (a + (r - 1) * nodes))
        return [a - weight * k * np.sum(tangent), r - 1 / r - weight * k * np.sum(nodes * tangent)]

    found = ours.taylor_minimum(z0, k, weight, *NODES)
    np.testing.assert_allclose(gradient(found), 0, atol=1e-12)
    assert found[1] > 0


def test_taylor_is_newton_for_narrow_beliefs():
    for z0 in (-2.0, 0.0, 3.0):
        k = 1e-3
        newton, taylor = (rule(z0, k, 1.0, *NODES) for rule in (ours.newton_minimum, ours.taylor_minimum))
        assert taylor[0] == pytest.approx(newton[0], rel=1e-5)
        assert 1 - taylor[1] == pytest.approx(1 - newton[1], rel=1e-5)


def test_draws_are_normal_and_fresh():
    draws = np.array([ours.normal_draws(3, example, feature, 50) for example in range(40) for feature in range(10)])
    assert stats.kstest(draws.ravel(), "norm").pvalue > 0.01
    assert np.mean(draws**2) == pytest.approx(1.0, abs=4 * math.sqrt(2 / draws.size))
    assert len({row.tobytes() for row in draws}) == len(draws)
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 4 / math.sqrt(draws.size)
    np.testing.assert_array_equal(ours.normal_draws(3, 7, 5, 13), ours.normal_draws(3, 7, 5, 50)[:13])
    assert not np.array_equal(ours.normal_draws(4, 7, 5, 13), ours.normal_draws(3, 7, 5, 13))


def test_a_step_shares_the_old_totals_and_leaves_the_prior_as_the_widest():
    mean, variance, x = [0.3, -0.2], [1.0, 0.5], [1.0, -2.0]
    new_mean, new_variance = ours.variational_step(mean, variance, x, 1.0, nodes_of=lambda j: NODES)
    s = math.sqrt(1 + math.pi / 8 * 4 * 0.5)
    a, r = ours.newton_minimum(0.7 / s, 1 / s, 1.0, *NODES)
    assert new_mean[0] == pytest.approx(0.3 + a)
    assert new_variance[0] == pytest.approx(r**2)
    assert new_mean[1] < -0.2
    # draws that all lie on the label's side: the further from them the better, so the belief widens towards the label
    draws = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    for cap in (np.inf, 1.0):
        _, variance = ours.variational_step(
            [-3.0], [1.0], [1.0], 1.0, nodes_of=lambda j: draws, cap=cap, may_widen=True
        )
        assert (variance[0] > 1.0) == (cap > 1.0)
    _, kept = ours.variational_step([-3.0], [1.0], [1.0], 1.0, nodes_of=lambda j: draws)
    assert kept[0] == 1.0
