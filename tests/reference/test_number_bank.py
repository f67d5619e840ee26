"""The reference of the bank for numbers against exact Bayesian regression, and its parts against what they estimate."""

import numpy as np
import pytest

from tests.reference.number_bank import BlockLane, Columns, DiagonalLane, NumberBank, Shapes, is_round


def dense(seed, rows=60, width=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, width)) * (rng.random((rows, width)) < 0.7) + np.eye(width)[0] * 20.0
    return X * 10.0 ** rng.uniform(-2, 2, width), rng.normal(size=rows) * 3.0


def run(lane, X, y, weights):
    """A lane by itself, what it says left uncut."""
    columns = Columns(X.shape[1])
    for x, label, c in zip(X, y, weights, strict=True):
        columns.count(x)
        m, q = lane.predict(x, columns)
        lane.learn(x, columns, c * (label - m) / (1 + c * q), c / (1 + c * q))
        if isinstance(lane, BlockLane) and is_round(columns.rows):
            lane.renew(columns)
    return columns


@pytest.mark.parametrize("seed", range(3))
def test_a_block_lane_without_memory_is_bayesian_ridge_regression(seed):
    """Under the priors it has at the end, also where they have changed on the way."""
    X, y = dense(seed)
    weights = np.random.default_rng(seed).choice([0.3, 1.0, 4.0], len(y))
    lane = BlockLane(5, 1, 0.0, 0.0)
    columns = run(lane, X, y, weights)
    Z = np.column_stack([np.ones(len(y)), (X * columns.unit)[:, lane.head]])
    precision = np.diag([1e-6, *lane.prior]) + Z.T @ (weights[:, None] * Z)
    np.testing.assert_allclose(lane.covariance, np.linalg.inv(precision), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(lane.weights, np.linalg.solve(precision, Z.T @ (weights * y)), rtol=1e-5, atol=1e-8)


def test_a_walking_block_lane_with_nothing_but_an_intercept_is_a_local_level():
    """Kalman's filter of y = level + noise, the level walking by `drift`."""
    y, level, variance = np.random.default_rng(0).normal(size=40).cumsum(), 0.0, 1e6
    lane = BlockLane(1, 1, 0.0, 0.1)
    for k in range(40):
        columns = Columns(1)
        columns.count(np.zeros(1))
        m, q = lane.predict(np.zeros(1), columns)
        assert (m, q) == pytest.approx((level, variance))
        lane.learn(np.zeros(1), columns, (y[k] - m) / (1 + q), 1 / (1 + q))
        level, variance = level + variance / (1 + variance) * (y[k] - level), variance / (1 + variance) + 0.1


def test_columns_that_change_places_keep_what_is_known_of_them():
    """A head of two among five columns: what the lane says of a row is the same before and after."""
    X, y = dense(1)
    lane = BlockLane(5, 1, 0.0, 0.0, head=2)
    columns = run(lane, X, y, np.ones(len(y)))
    x = X[-1]
    before = lane.predict(x, columns)
    there = lane.head[0]
    away = next(j for j in range(5) if j not in lane.head)
    lane._swap(0, away, columns)
    assert lane.head[0] == away
    assert lane.predict(x, columns)[0] == pytest.approx(before[0], rel=1e-9)
    assert lane.tail.mean[there] != 0.0


def test_a_diagonal_lane_of_one_column_is_exact():
    x = np.array([[1.0], [0.5], [-2.0], [1.5]])
    y = np.array([2.0, 1.0, -3.0, 2.0])
    lane = DiagonalLane(1, 1, 0.0, 0.0, raw=True, intercept=False)
    run(lane, x, y, np.ones(4))
    precision = lane.prior[0] + float(x[:, 0] @ x[:, 0])
    assert lane.prior[0] + lane.gained[0] == pytest.approx(precision)


def test_shapes_find_the_scale_and_hold_ninety_percent():
    rng = np.random.default_rng(0)
    shapes, inside = Shapes(), []
    for rows, error in enumerate(3.0 * rng.standard_t(4, 1500)):
        if rows > 200:
            inside.append(shapes.coverage(error, 0.0) <= 0.9)
        shapes.learn(error, 0.0, rows, 1.0)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.01)


def test_a_stream_is_learned():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(5000.0, 3000.0, 150), rng.random(150) < 0.3, rng.normal(size=150) * 1e-4])
    y = 1e6 + X @ [3.0, 200.0, 1e6] + rng.normal(size=150) * 10.0
    bank = NumberBank(3)
    errors = y - [bank.learn(*row)[0] for row in zip(X, y, strict=True)]
    assert np.mean(errors[75:] ** 2) < 0.01 * y.var()
