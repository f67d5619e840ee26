"""Predictions: consistent with each other, exact in the tails, and honest about what is not known."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logit
from scipy.stats import logistic, norm
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import bayou
from bayou import AdaGradClassifier, BankClassifier, Batch, FTRLClassifier, MarginalClassifier, SpikeSlabClassifier
from bayou.core import links
from bayou.core.prediction import Prediction, ScoreRule, Scores

LINKS = {"logistic": logistic, "probit": norm}
VARIANTS = [
    MarginalClassifier(random_state=0),
    MarginalClassifier(random_state=0, predictive="quadrature"),
    MarginalClassifier(random_state=0, link="probit", dtype="float64"),
    MarginalClassifier(random_state=0, link="probit", predictive="quadrature", temper=(1.0, 0.5)),
    MarginalClassifier(random_state=0, temper=(0.5, 2.0)),
    AdaGradClassifier(random_state=0),
    FTRLClassifier(random_state=0, l1=0.1),
    SpikeSlabClassifier(random_state=0),
    SpikeSlabClassifier(random_state=0, predictive="full", passes=3),
    BankClassifier(random_state=0),
    BankClassifier(random_state=0, preset="wide", dtype="float64"),
]


def problem(n_classes, rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 8))
    scores = X @ rng.normal(size=(8, n_classes)) + rng.gumbel(size=(rows, n_classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("model", VARIANTS)
def test_two_class_predictions_agree(model):
    X, y = problem(2)
    model = model.fit(X, y)
    p, log_p, log_odds = model.predict_proba(X), model.predict_log_proba(X), model.decision_function(X)
    np.testing.assert_allclose(p[:, 1], model.learner_.predict(Batch.from_csr(X), "later").probability, rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(log_p), p, rtol=1e-14)
    known = np.finfo(float).eps / p.min(axis=1)  # how far the last place of a probability moves its log-odds
    assert (np.abs(log_odds - logit(p[:, 1])) <= 1e-9 * np.abs(log_odds) + 1e-12 + known).all()
    np.testing.assert_array_equal(model.predict(X), log_odds > 0)
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    assert model.score(X, y) == np.mean(model.predict(X) == y) > 0.8


@pytest.mark.parametrize("model", VARIANTS)
def test_many_class_predictions_agree(model):
    X, y = problem(4)
    model = model.fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(p, model.learner_.predict(Batch.from_csr(X), "later").probability)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p, rtol=1e-9)
    np.testing.assert_allclose(model.decision_function(X), logit(p), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("model", VARIANTS)
def test_log_probabilities_are_finite_where_probabilities_vanish(model):
    X, y = problem(2)
    model = model.fit(X, y)
    direction = np.sign(model.coef_[0])
    far = np.array([[1e4], [-1e4]]) * direction
    log_p = model.predict_log_proba(far)
    assert np.isfinite(log_p).all()
    assert model.predict(far).tolist() == [1, 0]
    assert (log_p[[0, 1], [1, 0]] > log_p[[0, 1], [0, 1]]).all()


def test_log_probabilities_are_exact_in_the_tails():
    # One sure weight of 1, so that the score is x and hardly uncertain.
    model = MarginalClassifier(prior_mean=1.0, prior_variance=1e-30, fit_intercept=False, dtype="float64")
    model.partial_fit([[0.0], [0.0]], [0, 1], classes=[0, 1])
    x = np.array([-1000.0, -40.0, 0.5, 40.0, 1000.0])
    expected = np.column_stack([logistic.logsf(x), logistic.logcdf(x)])
    np.testing.assert_allclose(model.predict_log_proba(x[:, None]), expected, rtol=1e-13)
    model.set_params(link="probit")
    del model.learners_
    model.partial_fit([[0.0], [0.0]], [0, 1], classes=[0, 1])
    expected = np.column_stack([norm.logsf(x), norm.logcdf(x)])
    # Phi(1000) is closer to 1 than any double; its logarithm is as good as 0.
    np.testing.assert_allclose(model.predict_log_proba(x[:, None]), expected, rtol=1e-12, atol=1e-300)


def test_many_classes_all_ruled_out_still_share_the_probability():
    model = AdaGradClassifier().partial_fit(np.eye(3), [0, 1, 2], classes=[0, 1, 2])
    far = 1e5 * np.ones((1, 3))
    each = [learner.predict(Batch.from_csr(far)).log_odds for learner in model.learners_]
    assert (np.array(each) < -1000).all()
    np.testing.assert_allclose(model.predict_proba(far), 1 / 3, atol=0.01)
    np.testing.assert_allclose(model.predict_proba(far).sum(), 1.0)
    sure = MarginalClassifier(prior_mean=-1.0, prior_variance=1e-6)
    sure.partial_fit(np.eye(3), [0, 1, 2], classes=[0, 1, 2])
    np.testing.assert_allclose(sure.sample_proba(far, n_draws=3, random_state=0), 1 / 3, atol=0.01)
    low, high = sure.predict_interval(far)
    assert ((0 <= low) & (low <= high) & (high <= 1)).all()


@pytest.mark.parametrize("link", LINKS)
def test_interval_matches_its_formula(link):
    X, y = problem(2)
    model = MarginalClassifier(random_state=0, link=link).fit(X, y)
    belief = model.learner_.predict(Batch.from_csr(X))
    for level in (0.5, 0.95):
        low, high = model.predict_interval(X, level=level)
        sd = np.sqrt(belief.variance)
        beyond = norm.cdf(-np.abs(LINKS[link].ppf(belief.probability) - belief.mean) / sd)
        left_out = np.minimum((1 - level) / 2, beyond * (1 - level / 2))  # on the side where the probability is
        ends = norm.ppf(left_out), norm.ppf(left_out + level)
        ends = np.where(belief.mean > 0, ends, [-ends[1], -ends[0]]) * sd + belief.mean
        np.testing.assert_allclose(low, LINKS[link].cdf(ends[0]), rtol=1e-9)
        np.testing.assert_allclose(high, LINKS[link].cdf(ends[1]), rtol=1e-9)
        assert low.shape == high.shape == (len(X),)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("link", LINKS)
def test_interval_covers_the_prediction_and_grows_with_its_level(n_classes, link):
    X, y = problem(n_classes)
    model = MarginalClassifier(random_state=0, link=link).fit(X, y)
    p = model.predict_proba(X)
    p = p[:, 1] if n_classes == 2 else p
    low, high = model.predict_interval(X)
    assert low.shape == high.shape == p.shape
    assert ((0 <= low) & (low <= p) & (p <= high) & (high <= 1)).all()
    assert (low < high).all()
    assert ((low < p) & (p < high)).all()
    wide_low, wide_high = model.predict_interval(X, level=0.999)
    assert ((wide_low <= low) & (high <= wide_high)).all()
    assert (wide_high - wide_low > high - low).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_interval_shrinks_with_data(n_classes):
    X, y = problem(n_classes, rows=4000)
    model = MarginalClassifier(dtype="float64")
    widths = []
    for start, stop in [(0, 20), (20, 400), (400, 4000)]:
        model.partial_fit(X[start:stop], y[start:stop], classes=np.arange(n_classes))
        low, high = model.predict_interval(np.zeros((1, 8)) + 0.2)
        widths.append((high - low).max())
    assert widths[0] > 2 * widths[1] > 4 * widths[2] > 0


def test_interval_of_many_classes_holds_the_probability_of_each():
    X, y = problem(3)
    model = MarginalClassifier(random_state=0).fit(X, y)
    p, (low, high), (lower, higher) = model.predict_proba(X), model.predict_interval(X, 0.5), model.predict_interval(X)
    assert ((lower <= low) & (low <= p) & (p <= high) & (high <= higher)).all()
    assert (lower < higher).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, np.nan])
def test_level_must_be_between_0_and_1(level):
    model = MarginalClassifier().fit(np.eye(2), [0, 1])
    with pytest.raises(bayou.BadInput, match="level is"):
        model.predict_interval(np.eye(2), level=level)


@pytest.mark.parametrize("link", LINKS)
def test_mean_of_draws_tends_to_the_prediction(link):
    X, y = problem(2, rows=60)
    model = MarginalClassifier(random_state=0, link=link, predictive="quadrature").fit(X, y)
    draws = model.sample_proba(X[:10], n_draws=20_000, random_state=0)
    assert draws.shape == (20_000, 10, 2)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - model.predict_proba(X[:10])) < 5 * error).all()
    np.testing.assert_allclose(draws.sum(axis=2), 1.0)


def test_interval_bounds_its_share_of_draws():
    X, y = problem(2, rows=60)
    model = MarginalClassifier(random_state=0).fit(X, y)
    low, high = model.predict_interval(X[:10], level=0.9)
    draws = model.sample_proba(X[:10], n_draws=20_000, random_state=0)[:, :, 1]
    np.testing.assert_allclose(np.mean((low < draws) & (draws < high), axis=0), 0.9, atol=0.012)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_share_draws_and_a_seed_repeats_them(n_classes):
    X, y = problem(n_classes)
    model = MarginalClassifier(random_state=0).fit(X, y)
    draws = model.sample_proba(X[[0, 1, 0]], n_draws=50, random_state=7)
    assert draws.shape == (50, 3, n_classes)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 2])
    assert len(np.unique(draws[:, 0, 0])) == 50
    # The weights belong to the seed, not to the rows asked about.
    np.testing.assert_array_equal(model.sample_proba(X[[1]], n_draws=50, random_state=7)[:, 0], draws[:, 1])
    assert not np.array_equal(model.sample_proba(X[[0, 1, 0]], n_draws=50, random_state=8), draws)
    # Thompson sampling needs new weights each time, unless it is told otherwise.
    assert not np.array_equal(model.sample_proba(X), model.sample_proba(X))


def test_draws_are_of_one_weight_vector():
    """Scores add: the score of a sum of rows is the sum of the scores, in each draw."""
    X, y = problem(2)
    model = MarginalClassifier(random_state=0, fit_intercept=False).fit(X, y)
    rows = np.stack([0.1 * X[0], 0.1 * X[1], 0.1 * (X[0] + X[1])])
    scores = logit(model.sample_proba(rows, n_draws=100, random_state=0)[:, :, 1])
    np.testing.assert_allclose(scores[:, 0] + scores[:, 1], scores[:, 2], rtol=1e-6, atol=1e-9)


def test_draws_of_different_classes_are_independent():
    model = MarginalClassifier().partial_fit(np.eye(3), [0, 1, 2], classes=[0, 1, 2])
    drawn = np.log(model.sample_proba(np.ones((1, 3)), n_draws=5000, random_state=0)[:, 0])
    # With one set of weights for all classes the three would move together and their ratios stand still.
    assert (drawn[:, 0] - drawn[:, 1]).std() > 0.3


@pytest.mark.parametrize("name", ["predict_interval", "sample_proba", "coef_var_", "intercept_var_"])
def test_what_needs_a_posterior_is_refused_without_one(name):
    X, y = problem(2)
    for model in (AdaGradClassifier(), AdaGradClassifier().fit(X, y)):
        assert not hasattr(model, name)
        with pytest.raises(bayou.NoPosterior, match="AdaGradClassifier has no posterior"):
            getattr(model, name)
    assert hasattr(MarginalClassifier().fit(X, y), name)


def test_variances_have_the_shapes_of_the_means():
    for n_classes, n_learners in [(2, 1), (3, 3)]:
        model = MarginalClassifier(prior_variance=0.5).fit(*problem(n_classes))
        assert model.coef_var_.shape == model.coef_.shape == (n_learners, 8)
        assert model.intercept_var_.shape == model.intercept_.shape == (n_learners,)
        assert ((0 < model.coef_var_) & (model.coef_var_ < 0.5)).all()
        assert ((0 < model.intercept_var_) & (model.intercept_var_ < 3.0)).all()


def log_integral(log_f, mean, sd):
    """log E[f(score)] for score ~ N(mean, sd^2), by adaptive quadrature around the integrand's peak."""

    def log_integrand(s):
        return log_f(s) + norm.logpdf(s, mean, sd)

    grid = np.linspace(min(mean, 0.0) - 9 * sd, max(mean, 0.0) + 9 * sd, 100_001)
    peak = grid[log_integrand(grid).argmax()]
    height = log_integrand(peak)
    around = [peak + k * sd for k in (-9, -3, -1, 0, 1, 3, 9)]
    pieces = [
        quad(lambda s: np.exp(log_integrand(s) - height), low, high, epsabs=0, epsrel=1e-10)[0]
        for low, high in pairwise(around)
    ]
    return height + np.log(sum(pieces))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("sd", [0.2, 1.0, 1.6, 5.0])
@pytest.mark.parametrize("mean", [-600.0, -100.0, -20.0, -3.0, 0.0, 0.7, 5.0, 40.0, 300.0])
def test_log_odds_by_quadrature_equal_the_integral(link, sd, mean):
    scores = Scores(np.array([np.nan]), np.array([mean]), np.array([sd**2]))
    belief = Prediction(scores, "marginal", ScoreRule(links.link_code(link), "quadrature"))
    expected = log_integral(LINKS[link].logcdf, mean, sd) - log_integral(LINKS[link].logsf, mean, sd)
    (got,) = belief.log_odds
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


def test_by_default_the_probability_is_the_mean_of_draws_also_where_scores_are_large_and_unsure():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    model = MarginalClassifier(random_state=0).fit(X[:400], y[:400])
    predicted = model.predict_proba(X[400:])[:, 1]
    drawn = model.sample_proba(X[400:], n_draws=4000, random_state=0)[:, :, 1].mean(axis=0)
    np.testing.assert_allclose(predicted, drawn, atol=0.03)
    closed = MarginalClassifier(random_state=0, predictive="closed").fit(X[:400], y[:400]).predict_proba(X[400:])[:, 1]
    assert np.abs(predicted - drawn).mean() < 0.5 * np.abs(closed - drawn).mean()  # which leans to 1/2
