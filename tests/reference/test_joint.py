"""The reference of the joint Gaussian against optimisers, finite differences and the paper's own formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit

from tests.reference import joint as rule

sizes = st.floats(-6, 6).map(lambda e: 10**e)


def problem(seed: int, rows: int = 1, size: int = 5):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(size, size))
    X, y, weights = rng.normal(size=(rows, size)), rng.choice([-1.0, 1.0], rows), 10 ** rng.uniform(-1, 1, rows)
    return rng.normal(size=size), half @ half.T + 0.1 * np.eye(size), X, y, weights


def minus_log_posterior(w, mean, covariance, X, y, weights):
    """The logarithm of (35), of several examples, each to the power of its weight."""
    apart = w - mean
    return weights @ np.logaddexp(0.0, -y * (X @ w)) + apart @ np.linalg.solve(covariance, apart) / 2.0


def highest(mean, covariance, X, y, weights):
    return optimize.minimize(
        minus_log_posterior, mean, args=(mean, covariance, X, y, weights), method="BFGS", options={"gtol": 1e-10}
    ).x


def second_differences(function, at, h=1e-3):
    steps = h * np.eye(len(at))
    return np.array([[(function(at + a + b) - function(at + a - b) - function(at - a + b) + function(at - a - b))
                      / (4 * h * h) for b in steps] for a in steps])  # fmt: skip


@given(a0=st.floats(-300, 300), tau=sizes)
def test_the_peak_solves_its_equation(a0, tau):
    a = rule.joint_peak(a0, tau)
    root = optimize.brentq(lambda z: z - a0 - tau * expit(-z), a0 - 1e-9, a0 + tau + 1e-9, xtol=1e-13, rtol=1e-14)
    assert a == pytest.approx(root, rel=1e-9, abs=1e-9)


@given(a0=st.floats(-20, 20), tau=sizes)
def test_taylors_step_is_newtons_first_from_the_old_mean(a0, tau):
    slope = optimize.approx_fprime([a0], lambda z: z - a0 - tau * expit(-z), 1e-7)[0]
    assert rule.joint_taylor(a0, tau) - a0 == pytest.approx(tau * expit(-a0) / slope, rel=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_full_newton_is_laplaces_approximation(seed):
    mean, covariance, X, y, weights = problem(seed)
    new_mean, new_covariance = rule.full_step(mean, covariance, X[0], y[0], weights[0])
    np.testing.assert_allclose(new_mean, highest(mean, covariance, X, y, weights), atol=1e-6)
    hessian = second_differences(lambda w: minus_log_posterior(w, mean, covariance, X, y, weights), new_mean)
    np.testing.assert_allclose(new_covariance, np.linalg.inv(hessian), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mean_update", ["newton", "taylor"])
def test_the_diagonal_step_is_the_full_ones_diagonal(seed, mean_update):
    mean, covariance, X, y, weights = problem(seed)
    variance = np.diag(covariance)
    full_mean, full_covariance = rule.full_step(mean, np.diag(variance), X[0], y[0], weights[0], mean_update)
    new_mean, new_variance = rule.diagonal_step(mean, variance, X[0], y[0], weights[0], mean_update)
    np.testing.assert_allclose(new_mean, full_mean, rtol=1e-11)
    np.testing.assert_allclose(new_variance, np.diag(full_covariance), rtol=1e-11)


@pytest.mark.parametrize("seed", range(6))
def test_taylor_is_what_44_to_46_say(seed):
    mean, covariance, X, y, _ = problem(seed)
    x, y = X[0], y[0]
    p = expit(y * (x @ mean))  # (42)
    v = covariance @ x  # (43)
    between = covariance - p * (1 - p) * np.outer(v, v) / (1 + p * (1 - p) * (x @ v))  # (44)
    expected_mean = mean + y * (1 - p) * between @ x  # (45)
    p = expit(y * (x @ expected_mean))  # (36)
    expected = covariance - p * (1 - p) * np.outer(v, v) / (1 + p * (1 - p) * (x @ v))  # (46)
    new_mean, new_covariance = rule.full_step(mean, covariance, x, y, mean_update="taylor")
    np.testing.assert_allclose(new_mean, expected_mean, rtol=1e-10)
    np.testing.assert_allclose(new_covariance, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mean_update", ["newton", "taylor"])
def test_a_mini_batch_of_one_is_an_example(seed, mean_update):
    mean, covariance, X, y, weights = problem(seed)
    one = rule.full_step(mean, covariance, X[0], y[0], weights[0], mean_update)
    batch = rule.batch_step(mean, covariance, X, y, weights, mean_update)
    for a, b in zip(one, batch, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_mini_batch_by_newton_is_laplaces_approximation(seed):
    mean, covariance, X, y, weights = problem(seed, rows=7)
    new_mean, new_covariance = rule.batch_step(mean, covariance, X, y, weights)
    np.testing.assert_allclose(new_mean, highest(mean, covariance, X, y, weights), atol=1e-6)
    hessian = second_differences(lambda w: minus_log_posterior(w, mean, covariance, X, y, weights), new_mean)
    np.testing.assert_allclose(new_covariance, np.linalg.inv(hessian), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_a_mini_batch_by_taylor_adds_precisions_as_47_and_48_say(seed):
    mean, covariance, X, y, _ = problem(seed, rows=7)
    p = expit(y * (X @ mean))
    between = np.linalg.inv(covariance) + sum(q * (1 - q) * np.outer(x, x) for q, x in zip(p, X, strict=True))  # (47)
    expected_mean = mean + np.linalg.inv(between) @ (X.T @ (y * (1 - p)))  # (45)
    p = expit(y * (X @ expected_mean))
    after = np.linalg.inv(covariance) + sum(q * (1 - q) * np.outer(x, x) for q, x in zip(p, X, strict=True))  # (48)
    new_mean, new_covariance = rule.batch_step(mean, covariance, X, y, np.ones(7), "taylor")
    np.testing.assert_allclose(new_mean, expected_mean, rtol=1e-9)
    np.testing.assert_allclose(new_covariance, np.linalg.inv(after), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("copies", [2, 3])
def test_a_weight_in_the_mini_batch_is_so_many_copies(copies):
    mean, covariance, X, y, _ = problem(3, rows=4)
    once = rule.batch_step(mean, covariance, X, y, np.full(4, float(copies)))
    often = rule.batch_step(mean, covariance, np.tile(X, (copies, 1)), np.tile(y, copies), np.ones(4 * copies))
    for a, b in zip(once, often, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
