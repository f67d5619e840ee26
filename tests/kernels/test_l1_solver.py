"""The L1 solver: equal to the paper's rule, to scikit-learn's Lasso, and optimal by the conditions themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

from bayou.kernels import l1_solver
from tests.reference.l1_solver import shooting as paper


def problem(seed, rows=40, features=12, alike=0.0):
    """(X, y): features of very different scale, some nearly the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, features)) * 10 ** rng.uniform(-1, 1, features)
    X[:, 1::2] += alike * (X[:, ::2][:, : X[:, 1::2].shape[1]] - X[:, 1::2])
    return X, X @ (rng.normal(size=features) * (rng.random(features) < 0.5)) + rng.normal(size=rows)


def objective(X, y, penalty, b):
    return 0.5 * ((y - X @ b) ** 2).sum() + (penalty * np.abs(b)).sum()


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), penalty=st.sampled_from([0.1, 1.0, 30.0]), alike=st.sampled_from([0.0, 0.5]))
def test_it_is_the_papers_algorithm(seed, penalty, alike):
    X, y = problem(seed, alike=alike)
    found = l1_solver.maximise(X.T @ X, X.T @ y, penalty, tolerance=1e-11)
    expected = paper(-0.5 * X.T @ X, X.T @ y, penalty)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("rows", "features"), [(200, 30), (60, 400)])
@pytest.mark.parametrize("share", [0.5, 0.05])
def test_it_is_scikit_learns_lasso(rows, features, share):
    X, y = problem(1, rows, features)
    X /= X.std(axis=0)
    penalty = share * np.abs(X.T @ y).max()
    theirs = Lasso(alpha=penalty / rows, fit_intercept=False, tol=1e-14, max_iter=1_000_000).fit(X, y)
    found = l1_solver.maximise(X.T @ X, X.T @ y, penalty, tolerance=1e-10)
    np.testing.assert_allclose(found, theirs.coef_, atol=1e-8)
    assert (found != 0).sum() == (theirs.coef_ != 0).sum()


def test_penalties_may_differ_and_some_weights_may_be_free():
    X, y = problem(2)
    penalty = np.random.default_rng(0).choice([0.0, 5.0, 50.0], size=12)
    found = l1_solver.maximise(X.T @ X, X.T @ y, penalty, tolerance=1e-10)

    def split(halves):  # the positive and the negative part of each weight: a smooth problem with bounds
        rest = y - X @ (halves[:12] - halves[12:])
        slope = -X.T @ rest
        return 0.5 * rest @ rest + penalty @ (halves[:12] + halves[12:]), np.r_[penalty + slope, penalty - slope]

    bounds = [(0, None)] * 24
    theirs = minimize(split, np.zeros(24), jac=True, bounds=bounds, options={"maxiter": 50_000, "ftol": 1e-15})
    assert objective(X, y, penalty, found) <= theirs.fun + 1e-9
    assert objective(X, y, penalty, found) == pytest.approx(theirs.fun, rel=1e-6)
    assert (found[penalty == 0.0] != 0.0).all()


@pytest.mark.parametrize("start", [0.0, 100.0])
def test_sparse_curvature_is_as_good_as_dense(start):
    rng = np.random.default_rng(3)
    X = csr_array(np.where(rng.random((300, 2000)) < 0.02, rng.normal(size=(300, 2000)), 0.0))
    y = rng.normal(size=300)
    H, theta = (X.T @ X).tocsr(), X.T @ y
    weights = start * rng.normal(size=2000) * (rng.random(2000) < 0.01)
    dense = l1_solver.maximise(H.toarray(), theta, 1.0, weights, tolerance=1e-10)
    sparse = l1_solver.maximise(H, theta, 1.0, weights, tolerance=1e-10)
    np.testing.assert_allclose(sparse, dense, atol=1e-8)
    assert l1_solver.violations(theta - H @ sparse, sparse, 1.0).max() < 1e-9
    assert 0 < (sparse != 0).sum() < 300


def test_weights_come_back_with_their_gradient_and_their_certificate():
    X, y = problem(4, 100, 50, alike=0.99)
    H, theta = X.T @ X, X.T @ y
    for sweeps, good in ((2, False), (10_000, True)):
        weights, gradient = np.zeros(50), theta.copy()
        left = l1_solver.coordinate_descent(H, gradient, weights, np.full(50, 3.0), 1e-9, sweeps)
        np.testing.assert_allclose(gradient, theta - H @ weights, rtol=1e-9, atol=1e-8)
        assert left == pytest.approx(l1_solver.violations(gradient, weights, 3.0).max(), rel=1e-9, abs=1e-12)
        assert (left <= 1e-9) == good


def test_nearly_equal_features_do_not_take_for_ever():
    """Sweeps alone would need about the condition number's 10^7 of them."""
    rng = np.random.default_rng(5)
    common = rng.normal(size=(500, 1))
    X = common + 1e-3 * rng.normal(size=(500, 20))
    y = X @ rng.uniform(0.5, 2.0, 20) + 0.01 * rng.normal(size=500)
    weights, gradient = np.zeros(20), X.T @ y
    assert l1_solver.coordinate_descent(X.T @ X, gradient, weights, np.full(20, 1e-4), 1e-8, 2000) <= 1e-8


def test_what_was_never_met_is_left_alone():
    H, theta = np.diag([4.0, 0.0, 1.0]), np.array([9.0, 50.0, 0.2])
    np.testing.assert_array_equal(l1_solver.maximise(H, theta, 1.0), [2.0, 0.0, 0.0])


def test_a_start_that_was_never_met_becomes_0():
    H, theta = np.diag([4.0, 0.0, 0.0]), np.array([9.0, 0.0, 50.0])
    np.testing.assert_array_equal(l1_solver.maximise(H, theta, 1.0, np.array([0.0, 7.0, 7.0])), [2.0, 0.0, 7.0])


def test_two_equal_features_share_or_not_but_the_objective_is_least():
    X, y = problem(6)
    twice = np.column_stack([X, X[:, 0]])
    found = l1_solver.maximise(twice.T @ twice, twice.T @ y, 1.0, tolerance=1e-10)
    single = l1_solver.maximise(X.T @ X, X.T @ y, 1.0, tolerance=1e-10)
    assert objective(twice, y, 1.0, found) == pytest.approx(objective(X, y, 1.0, single), rel=1e-12)


def test_nothing_runs_away_where_curvature_has_all_but_vanished():
    H = np.array([[1e-300, 0.0], [0.0, 1e150]])
    found = l1_solver.maximise(H, np.array([1e100, 1e170]), 1.0)
    assert np.isfinite(found).all()
    assert found[0] == l1_solver.MAX_ABS_WEIGHT
