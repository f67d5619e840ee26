"""What is written of a prediction: intervals as the estimators give them, and probabilities of the full stream."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit, ndtr

from bayou import Batch, MarginalClassifier
from bayou.core.prediction import Prediction, ScoreRule, Scores
from bayou.learners import AdaGrad, Marginal
from bayou.outputs.prediction_table import columns_of, prediction_table


def stream(seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    return Batch.from_csr(rng.normal(size=(300, 5)), rng.choice([-1, 1], 300))


def answered(learner, rate: float = 1.0) -> dict[str, np.ndarray]:
    learner.learn(stream())
    predicted = learner.predict(stream(1))
    table = prediction_table(learner, predicted.with_sampling_correction(rate))
    return dict(zip(columns_of(learner), table.numbers, strict=True))


@pytest.mark.parametrize(("link", "cdf"), [("logistic", expit), ("probit", ndtr)])
def test_intervals_are_the_link_of_the_score_and_its_sd(link, cdf):
    learner = Marginal(n_features=5, link=link)
    told = answered(learner)
    predicted = learner.predict(stream(1))
    assert told["probability"].tobytes() == predicted.probability.tobytes()
    assert told["mean"].tobytes() == predicted.mean.tobytes()
    assert told["variance"].tobytes() == predicted.variance.tobytes()
    room = 1.959963984540054 * np.sqrt(predicted.variance)
    np.testing.assert_allclose(told["low"], cdf(predicted.mean - room), rtol=1e-12)
    np.testing.assert_allclose(told["high"], cdf(predicted.mean + room), rtol=1e-12)


@pytest.mark.parametrize("temper", [(1.0, 1.0), (1.0, 0.25)])
def test_intervals_are_those_of_the_estimator(temper):
    X = np.random.default_rng(2).normal(size=(200, 5))
    y = (X[:, 0] > 0).astype(int)
    estimator = MarginalClassifier(temper=temper).partial_fit(X, y, classes=[0, 1])
    (learner,) = estimator.learners_
    table = prediction_table(learner, learner.predict(Batch.from_csr(X))).numbers
    low, high = estimator.predict_interval(X)
    np.testing.assert_array_equal(table[3], low)
    np.testing.assert_array_equal(table[4], high)


def test_a_learner_without_a_posterior_says_what_it_can():
    told = answered(AdaGrad(n_features=5), rate=0.5)
    assert list(told) == ["probability", "mean"]
    np.testing.assert_allclose(told["mean"], logit(told["probability"]), atol=1e-9)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(1e-6, 1.0))
def test_odds_are_multiplied_by_the_rate(probability, rate):
    scores = Scores(np.array([probability]), np.array([logit(probability)]), None)
    predicted = Prediction(scores, "adagrad", ScoreRule(predictive="plain")).with_sampling_correction(rate)
    corrected = predicted.probability[0]
    assert predicted.log_odds[0] == pytest.approx(logit(corrected), rel=1e-6, abs=1e-9)
    assert corrected / (1 - corrected) == pytest.approx(rate * probability / (1 - probability), rel=1e-6)


def test_with_the_logistic_link_that_is_a_shift_of_the_score():
    plain, full = (answered(Marginal(n_features=5), rate) for rate in (1.0, 0.1))
    np.testing.assert_allclose(full["mean"], plain["mean"] + np.log(0.1))
    assert full["variance"].tobytes() == plain["variance"].tobytes()
    for name in ("probability", "low", "high"):
        np.testing.assert_allclose(logit(full[name]), logit(plain[name]) + np.log(0.1), rtol=1e-9)


def test_with_the_probit_link_the_score_stays_and_the_probabilities_are_corrected():
    plain, full = (answered(Marginal(n_features=5, link="probit"), rate) for rate in (1.0, 0.1))
    assert full["mean"].tobytes() == plain["mean"].tobytes()
    for name in ("probability", "low", "high"):
        np.testing.assert_allclose(logit(full[name]), logit(plain[name]) + np.log(0.1), rtol=1e-9)


def test_thinned_data_predict_the_full_stream():
    """A learner that saw a tenth of the negatives, corrected, is near one that saw all."""
    rng = np.random.default_rng(5)
    X = (rng.random((60_000, 8)) < 0.3).astype(float)
    y = rng.random(60_000) < expit(X @ rng.normal(size=8) - 2.0)
    kept = y | (rng.random(60_000) < 0.1)
    every, thinned = Marginal(n_features=8), Marginal(n_features=8)
    every.learn(Batch.from_csr(X, np.where(y, 1, -1)))
    thinned.learn(Batch.from_csr(X[kept], np.where(y[kept], 1, -1)))
    test = Batch.from_csr(X[:2000])
    full = every.predict(test).probability
    corrected = thinned.predict(test).with_sampling_correction(0.1).probability
    as_learned = thinned.predict(test).probability
    assert np.abs(corrected - full).mean() < 0.02
    assert np.abs(as_learned - full).mean() > 0.1


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_logarithms_of_intervals_are_those_of_the_intervals(link, rate):
    learner = Marginal(n_features=5, link=link)
    learner.learn(stream())
    predicted = learner.predict(stream(1)).with_sampling_correction(rate)
    np.testing.assert_allclose(np.exp(predicted.log_interval(0.9)), predicted.interval(0.9), rtol=1e-9)
