"""The reference of the head against the exact update of a dense Gaussian, elimination, and a batch posterior."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.reference import head as rules
from tests.reference.bank import score_step
from tests.reference.head import Head


def stream(rows, features, seed, active=0.4, std=1.0, truth=None):
    random = np.random.default_rng(seed)
    w = random.normal(0, std, features) if truth is None else truth
    X = (random.random((rows, features)) < active) * 1.0
    y = np.where(random.random(rows) < 1 / (1 + np.exp(-(X @ w))), 1.0, -1.0)
    return X, y, w


def without_scale(head):
    head._learn_scale = lambda *args: None
    return head


def test_examples_that_condition_at_once_are_learned_as_a_dense_gaussian_learns_them(monkeypatch):
    """With every example worked in, and no common scale, S and mu are those of moment matching on the whole vector."""
    monkeypatch.setattr(rules, "MAX_INFORMATION", -1.0)
    monkeypatch.setattr(rules, "SCALE_PRECISION", 1e30)
    monkeypatch.setattr(rules, "FIRST_MARK", 10**9)
    X, y, _ = stream(60, 5, seed=1)
    head = Head(5, 5, answers=1)
    mean, covariance = np.zeros(6), None
    for x, label in zip(X, y, strict=True):
        before = np.diag(head.S[0]).copy()
        (m, s), _ = head.predict(x)
        head.learn(x, label)
        if covariance is None:
            covariance = np.zeros((6, 6))
            covariance[0, 0] = 10.0
        z = np.r_[1.0, [x[j] for j in head.features[1:]], np.zeros(6 - len(head.features))]
        for slot in range(1, len(head.features)):  # a new feature has its prior
            if before[slot] == 0:
                covariance[slot, slot] = 1.0 / head.P[slot]
        assert (m, s) == pytest.approx((z @ mean, z @ covariance @ z), rel=1e-10)
        dm, dv = score_step(m, s, label)
        along = covariance @ z
        mean, covariance = mean + along * dm, covariance - dv * np.outer(along, along)
        np.testing.assert_allclose(head.mu[0], mean, atol=1e-10)
        np.testing.assert_allclose(head.S[0], covariance, atol=1e-10)
    # and what has been collected for the next refresh says the same
    n = len(head.features)
    precision = head.H[:n, :n] + np.diag(head.P[:n])
    np.testing.assert_allclose(np.linalg.inv(precision), covariance[:n, :n], atol=1e-9)
    np.testing.assert_allclose(np.linalg.solve(precision, head.b[:n]), mean[:n], atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_waiting_changes_little_and_a_refresh_brings_it_together(intercept, monkeypatch):
    X, y, _ = stream(300, 8, seed=2)
    lazy = Head(8, 8, intercept=intercept)
    for x, label in zip(X, y, strict=True):
        lazy.learn(x, label)
    monkeypatch.setattr(rules, "MAX_INFORMATION", -1.0)
    monkeypatch.setattr(rules, "REFRESH", 0.0)
    eager = Head(8, 8, intercept=intercept)
    for x, label in zip(X, y, strict=True):
        eager.learn(x, label)
    (mean, variance), (expected_mean, expected_variance) = lazy.settled().weights(), eager.settled().weights()
    own = slice(None) if intercept else slice(1, None)
    assert np.abs(mean - expected_mean)[own].max() < 0.1
    np.testing.assert_allclose(variance[own], expected_variance[own], rtol=0.05)
    if not intercept:
        assert mean[0] == variance[0] == 0.0


def test_the_prediction_says_nothing_else_before_and_while_an_example_is_learned():
    X, y, _ = stream(600, 12, seed=3, active=0.2)
    head = Head(12, 5)
    for x, label in zip(X, y, strict=True):
        told = head.predict(x)
        seen = []
        look = head._look
        head._look = lambda *args, look=look, seen=seen: seen.append(look(*args)) or seen[-1]
        head.learn(x, label)
        del head._look
        assert [(each[-2], each[-1]) for each in seen] == told[: len(seen)]
    assert head.fading
    assert head.mu[0, 0] != head.mu[1, 0]


def test_taking_a_feature_out_is_elimination():
    """What remains is the marginal: its inverse is a block of the whole inverse."""
    X, y, _ = stream(400, 6, seed=4)
    head = Head(6, 6, answers=1)
    for x, label in zip(X, y, strict=True):
        head.learn(x, label)
    head = head.settled()
    whole_S, whole_mu = head.S[0].copy(), head.mu[0].copy()
    j = head.features[3]
    head._take_out(3)
    rest = [0, 1, 2, 4, 5, 6]
    precision = (head.H + np.diag(head.P))[np.ix_(rest, rest)]
    np.testing.assert_allclose(np.linalg.inv(precision), whole_S[np.ix_(rest, rest)], atol=1e-9)
    np.testing.assert_allclose(np.linalg.solve(precision, head.b[rest]), whole_mu[rest], atol=1e-9)
    assert head.tail_mean[j] == whole_mu[3]
    assert 1.0 / (head.P[3] + head.tail_gain[j]) == pytest.approx(whole_S[3, 3])


def test_a_feature_that_comes_back_has_what_the_tail_knew():
    X, y, _ = stream(300, 6, seed=5)
    head = Head(6, 6, answers=1)
    for x, label in zip(X, y, strict=True):
        head.learn(x, label)
    head = head.settled()
    j, mean, gain = head.features[2], head.mu[0, 2], 1.0 / head.S[0, 2, 2] - head.P[2]
    head._take_out(2)
    head._fill(2, j)
    assert head.mu[0, 2] == mean
    assert head.S[0, 2, 2] == pytest.approx(1.0 / (head.prior_precision()[j] + gain))
    assert head.b[2] / (head.H[2, 2] + head.P[2]) == pytest.approx(mean)


def test_folding_the_scale_leaves_predictions_as_they_are_where_nothing_is_learned_of_it(monkeypatch):
    monkeypatch.setattr(rules, "SCALE_PRECISION", 1e30)
    X, y, _ = stream(200, 7, seed=6)
    head = without_scale(Head(7, 3, answers=1))
    for x, label in zip(X, y, strict=True):
        head.learn(x, label)
    head.scale = 0.3
    weights = head.weights()
    n = len(head.features)
    precision = head.H + np.diag(head.P)
    curvature = head.H.copy()
    head._fold()
    np.testing.assert_allclose(head.H[:n, :n] * np.exp(0.6), curvature[:n, :n])
    np.testing.assert_allclose(head.tail_mean[head.slot < 0], weights[0][1:][head.slot < 0])
    assert precision.shape == head.H.shape
    assert (head.scale, head.scale_total) == (0.0, 0.3)


def test_labels_do_not_tell_the_level_of_a_column_that_gives_every_row_a_value():
    """Adding to the weights of such a column, and taking it from the intercept, changes no score: P alone decides."""
    random = np.random.default_rng(12)
    X = np.eye(4)[random.integers(4, size=1500)]
    X = np.c_[X, np.eye(3)[random.integers(3, size=1500)]]
    y = np.where(random.random(1500) < 1 / (1 + np.exp(2.0 - X @ random.normal(0, 2, 7))), 1.0, -1.0)
    head = Head(7, 7, group=np.repeat([0, 1], [4, 3]))
    for x, label in zip(X, y, strict=True):
        head.learn(x, label)
    head = head.settled()
    assert abs(head.scale_total) > 0.05
    for column in (range(4), range(4, 7)):
        slots = [head.features.index(j) for j in column]
        assert head.P[slots] @ head.mu[0, slots] == pytest.approx(head.P[0] * head.mu[0, 0], abs=1e-6)


def test_prior_variances_come_from_the_label():
    """Group 0 has weights of standard deviation 2, group 1 none."""
    random = np.random.default_rng(7)
    truth = np.r_[random.normal(0, 2, 10), np.zeros(10)]
    X, y, _ = stream(1500, 20, seed=8, truth=truth)
    head = Head(20, 20, group=np.repeat([0, 1], 10))
    for x, label in zip(X, y, strict=True):
        head.learn(x, label)
    large, small = head.settled().group_variance
    assert large > 4 * small


def test_weights_agree_with_a_batch_posterior():
    """Mean beside that of draws, deviation beside Laplace's, with the same prior, on correlated columns."""
    random = np.random.default_rng(9)
    truth = random.normal(0, 1, 12)
    base = random.random((2000, 12)) < 0.35
    base[:, 1] |= base[:, 0]  # occur together
    X = base * 1.0
    y = np.where(random.random(len(X)) < 1 / (1 + np.exp(-(X @ truth - 1.0))), 1.0, -1.0)
    head = Head(12, 12)
    for x, label in zip(X, y, strict=True):
        head.learn(x, label)
    head = head.settled()
    order = [j + 1 for j in head.features[1:]]
    prior = np.zeros(13)
    prior[0], prior[order] = rules.INTERCEPT_PRECISION, head.P[1:13]
    Z = np.c_[np.ones(len(X)), X]

    def loss(w):
        return np.logaddexp(0, -y * (Z @ w)).sum() + 0.5 * prior @ w**2

    peak = minimize(loss, np.zeros(13), method="BFGS").x
    p = 1 / (1 + np.exp(-(Z @ peak)))
    covariance = np.linalg.inv((Z.T * (p * (1 - p))) @ Z + np.diag(prior))
    sd = np.sqrt(np.diag(covariance))
    normals = random.normal(size=(10_000, 13))
    draws = peak + 1.1 * normals @ np.linalg.cholesky(covariance).T
    losses = np.logaddexp(0, -y * (draws @ Z.T)).sum(axis=1) + 0.5 * draws**2 @ prior
    log_weights = 0.5 * (normals**2).sum(axis=1) - losses
    expected = np.average(draws, axis=0, weights=np.exp(log_weights - log_weights.max()))
    mean, _ = head.weights()
    assert np.abs((mean - expected) / sd).max() < 0.5
    np.testing.assert_allclose(np.sqrt(np.diag(head.S[0]))[np.argsort([0, *order])], sd, rtol=0.1)


def test_weight_zero_changes_nothing_and_half_counts_half():
    X, y, _ = stream(50, 4, seed=10)
    head, other = Head(4, 4), Head(4, 4)
    for x, label in zip(X, y, strict=True):
        head.learn(x, label, weight=0.5)
        other.learn(x, label, weight=0.5)
        other.learn(x, -label, weight=0.0)
    assert head.weights()[0] == pytest.approx(other.weights()[0])
    assert head.rows == other.rows
