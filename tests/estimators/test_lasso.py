"""The lasso's face: exact fits, paths, cross-validation, more classes; what fit and partial_fit each are for."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import scale

from bayou import BadInput, LassoClassifier
from bayou.estimators import lasso


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def test_fit_is_scikit_learns_l1_regression(cancer):
    X, y = cancer
    for free, solver in ((False, "liblinear"), (True, "saga")):
        ours = LassoClassifier(penalty=4.0, penalize_intercept=not free).fit(X, y)
        theirs = LogisticRegression(l1_ratio=1.0, C=0.25, solver=solver, tol=1e-12, max_iter=100_000, random_state=0)
        theirs.fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
        np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
        assert ours.active_size_ == np.count_nonzero(theirs.coef_)
        assert ours.kkt_violation_ < 4e-6
        assert ours.n_passes_ < 20


def test_two_threads_find_the_same(cancer, monkeypatch):
    X, y = cancer
    one = LassoClassifier(penalty=2.0).fit(X, y)
    monkeypatch.setattr(lasso, "LARGE", 0)
    np.testing.assert_allclose(LassoClassifier(penalty=2.0).fit(X, y).coef_, one.coef_, atol=1e-10)


def test_a_path_is_its_points_each_certified(cancer):
    X, y = cancer
    points = LassoClassifier().path(X, y, penalties=[1.0, 30.0, 100.0, 5.0])
    assert [point.penalty for point in points] == [100.0, 30.0, 5.0, 1.0]
    for point in points:
        alone = LassoClassifier(penalty=point.penalty).fit(X, y)
        np.testing.assert_allclose(point.coef, alone.coef_, atol=1e-6)
        np.testing.assert_allclose(point.objective, alone.objective_, rtol=1e-10)
        assert point.converged
        assert point.kkt_violation.max() < 1e-6 * point.penalty
    assert points[0].active_size < points[-1].active_size
    assert sum(point.passes for point in points) < sum(
        LassoClassifier(penalty=point.penalty).fit(X, y).n_passes_ for point in points
    )


def test_a_path_of_its_own_starts_where_all_weights_are_0(cancer):
    X, y = cancer
    points = LassoClassifier(tolerance=1e-5).path(X, y)
    assert len(points) == lasso.PATH_LENGTH
    assert points[0].active_size == 0 < points[1].active_size
    assert points[-1].penalty == pytest.approx(lasso.PATH_END * points[0].penalty)


def test_the_cross_validated_penalty_does_better_than_far_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 60))
    y = X[:, :3] @ [1.5, -1.0, 1.0] + rng.logistic(size=600) > 0
    model = LassoClassifier(penalty="cv", folds=4, random_state=0, tolerance=1e-5).fit(X[:300], y[:300])
    assert model.penalty_ == model.cv_penalties_[model.cv_losses_.argmin()]
    assert 0 < model.cv_losses_.argmin() < lasso.PATH_LENGTH - 1
    held = [
        log_loss(y[300:], LassoClassifier(penalty=float(penalty)).fit(X[:300], y[:300]).predict_proba(X[300:]))
        for penalty in (model.penalty_, model.cv_penalties_[0], model.cv_penalties_[-1])
    ]
    assert held[0] < min(held[1:])


def test_more_than_two_classes():
    X, y = load_digits(return_X_y=True)
    model = LassoClassifier(penalty=1.0, tolerance=1e-4).fit(X / 16, y)
    assert model.coef_.shape == (10, 64)
    assert model.kkt_violation_.shape == model.n_passes_.shape == (10,)
    assert model.kkt_violation_.max() <= 1e-4
    assert model.score(X / 16, y) > 0.95
    np.testing.assert_allclose(model.predict_proba(X / 16).sum(axis=1), 1.0)
    assert len(LassoClassifier().path(X[:200] / 16, y[:200] == 3, penalties=[3.0])) == 1


def test_partial_fit_learns_on_line_and_fit_does_not_go_on(cancer):
    X, y = cancer
    model = LassoClassifier(penalty=2.0).partial_fit(X[:300], y[:300], classes=[0, 1]).partial_fit(X[300:], y[300:])
    assert model.learner_.parameters["algorithm"] == "online"
    assert model.score(X, y) > 0.95
    exact = LassoClassifier(penalty=2.0).fit(X, y)
    with pytest.raises(AttributeError):
        exact.partial_fit(X, y)
    assert not hasattr(exact, "partial_fit")
    with pytest.raises(BadInput, match="several passes"):
        LassoClassifier(algorithm="reduced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(BadInput, match="lookahead"):
        LassoClassifier(penalty="cv").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(BadInput, match="needs several passes"):
        LassoClassifier(algorithm="online").path(X, y, penalties=[1.0])
    ahead = LassoClassifier(penalty="lookahead", random_state=0).fit(X, y)
    assert ahead.score(X, y) > 0.95
    assert ahead.penalty_ > 0


def test_probit_is_shown_as_log_odds(cancer):
    X, y = cancer
    model = LassoClassifier(link="probit", penalty=3.0).fit(X, y)
    odds = model.decision_function(X)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), model.predict_proba(X)[:, 1], atol=1e-12)
