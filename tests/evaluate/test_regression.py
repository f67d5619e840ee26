"""The meter for predicted numbers, the best fixed weights, and progressive validation of regressors."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from bayou import BadInput, Batch, evaluate
from bayou.evaluate import RegressionMeter, least_squares, progressive
from bayou.learners import Gaussian, Marginal


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = X @ [1.0, -2.0, 0.0, 0.5] + 3.0 + rng.normal(size=500)
    return X, y, rng.choice([0.0, 0.5, 1.0, 3.0], 500)


def test_scores_are_scikit_learns(data):
    X, y, weights = data
    predicted = X @ [0.9, -1.9, 0.2, 0.5] + 2.5
    meter = RegressionMeter()
    for rows in (slice(0, 1), slice(1, 200), slice(200, 500)):
        meter.add(predicted[rows], y[rows], weights[rows], nonzeros=4)
    result = meter.result()
    assert result.examples == np.count_nonzero(weights)
    assert result.nonzeros == 12
    assert result.squared_loss == pytest.approx(mean_squared_error(y, predicted, sample_weight=weights))
    assert result.mean_absolute_error == pytest.approx(mean_absolute_error(y, predicted, sample_weight=weights))
    assert result.r2_final == pytest.approx(r2_score(y, predicted, sample_weight=weights))
    running = np.concatenate([[0.0], (np.cumsum(weights * y) / np.maximum(np.cumsum(weights), 1e-300))[:-1]])
    explained = 1 - (weights @ (y - predicted) ** 2) / (weights @ (y - running) ** 2)
    assert result.r2 == pytest.approx(explained)
    assert result.coverage is None


def test_coverage_counts_labels_within_the_middle_ninety_percent():
    meter = RegressionMeter()
    meter.add([0.0] * 4, [1.6, 1.7, -1.0, 9.0], [1.0, 1.0, 2.0, 1.0], nearer=[0.9, 0.901, 0.7, np.nan])
    assert meter.result().coverage == 0.75


def test_curves_do_not_depend_on_cuts(data):
    X, y, weights = data
    whole, cut = RegressionMeter(), RegressionMeter()
    whole.add(X[:, 0], y, weights)
    for row in range(500):
        cut.add(X[row : row + 1, 0], y[row : row + 1], weights[row : row + 1])
    for name, column in whole.result().curve.items():
        assert column.tobytes() == cut.result().curve[name].tobytes()
    assert whole.result().curve["squared_loss"][-1] == pytest.approx(whole.result().squared_loss)


@pytest.mark.parametrize(
    ("means", "labels", "more", "sentence"),
    [
        ([np.nan], [1.0], {}, "mean 0 is nan"),
        ([1.0], [np.inf], {}, "label 0 is inf"),
        ([1.0], [1.0], {"weights": [-1.0]}, "weight 0 is -1.0; it must be a finite number >= 0"),
        ([1.0, 2.0], [1.0], {}, "labels have shape"),
        ([1.0], [1.0], {"nearer": [1.0, 2.0]}, "nearer have shape"),
        ([1.0], [1.0], {"comparator_losses": [1.0]}, "regret=True"),
    ],
)
def test_what_cannot_be_scored_is_refused(means, labels, more, sentence):
    meter = RegressionMeter()
    with pytest.raises(BadInput, match=sentence):
        meter.add(means, labels, **more)
    assert meter.examples == 0


@pytest.mark.parametrize("intercept", [False, True])
def test_the_best_fixed_weights_are_scikit_learns(data, intercept):
    X, y, weights = data
    batches = [Batch.from_csr(X[:100], y[:100], weights[:100]), Batch.from_csr(X[100:], y[100:], weights[100:])]
    best = least_squares(batches, 4, intercept=intercept)
    theirs = LinearRegression(fit_intercept=intercept).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(best.weights, theirs.coef_, rtol=1e-6, atol=1e-8)
    assert best.intercept == pytest.approx(float(theirs.intercept_))
    assert best.loss == pytest.approx(weights @ (y - theirs.predict(X)) ** 2)
    ridge = least_squares(lambda: iter(batches), 4, l2=50.0, intercept=intercept)
    theirs = Ridge(alpha=50.0, fit_intercept=intercept).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ridge.weights, theirs.coef_, rtol=1e-8)


def test_progressive_measures_a_regressor(data):
    X, y, weights = data
    batch = Batch.from_csr(X, y, weights)
    with pytest.raises(BadInput, match="so large that their squares overflow"):
        least_squares([Batch.from_rows([{0: 1e200}], labels=[1.0])], 1)
    best = least_squares([batch], 4, intercept=True)
    result = progressive(Gaussian(4, dtype="float64"), [batch[:50], batch[50:]], truth=best)
    told = Gaussian(4, dtype="float64").observe(batch)
    losses = weights * (y - told.expected) ** 2
    assert result.squared_loss == pytest.approx(losses.sum() / weights.sum())
    assert result.regret == pytest.approx(losses.sum() - best.loss)
    inside = np.abs(y - told.expected) <= 1.6448536269514722 * np.sqrt(told.variance + told.noise)
    assert result.coverage == pytest.approx(weights @ inside / weights.sum())
    assert progressive(Marginal(4), batch.with_labels(y > 3)).auc > 0.5  # and a classifier as before


def test_late_labels_are_learned_late(data):
    X, y, _ = data
    result = progressive(Gaussian(4, dtype="float64"), Batch.from_csr(X, y), delay=3)
    learner, expected = Gaussian(4, dtype="float64"), []
    for row in range(500):
        expected.append(learner.predict(Batch.from_csr(X[row : row + 1])).expected[0])
        if row >= 3:
            learner.learn(Batch.from_csr(X[row - 3 : row - 2], y[row - 3 : row - 2]))
    assert result.squared_loss == pytest.approx(np.mean((y - expected) ** 2), rel=1e-12)
    assert result.coverage is not None


def test_another_learner_says_what_it_does(data):
    class Zero:
        def learn(self, batch):
            return np.zeros(len(batch))

    X, y, _ = data
    result = progressive(Zero(), Batch.from_csr(X, y), task="regression")
    assert result.squared_loss == pytest.approx(np.mean(y**2))
    assert result.coverage is None
    with pytest.raises(BadInput, match="task is 'guess'"):
        evaluate.progressive(Zero(), Batch.from_csr(X, y), task="guess")
