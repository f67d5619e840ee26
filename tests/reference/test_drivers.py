"""The references that run over the rows of a matrix: what they learn, and what they leave alone."""

import numpy as np
import pytest
from scipy import sparse, special

from tests.reference.adagrad import AdaGradReference
from tests.reference.marginal import MarginalReference


def csr(rows, n_features: int) -> sparse.csr_matrix:
    """A CSR matrix of rows of (index, value) pairs that keeps duplicates and explicit zeros as given."""
    pairs = [pair for row in rows for pair in row]
    indices, values = np.array(pairs, dtype=float).reshape(-1, 2).T
    indptr = np.cumsum([0] + [len(row) for row in rows])
    return sparse.csr_matrix((values, indices.astype(np.int64), indptr), shape=(len(rows), n_features))


def random_stream(seed: int, n_rows: int = 60, n_features: int = 12):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.3)
    y = np.where(rng.random(n_rows) < special.expit(2 * dense @ rng.normal(size=n_features)), 1, -1)
    return sparse.csr_matrix(dense), y


def marginal(**options) -> MarginalReference:
    return MarginalReference(12, **options)


def adagrad(**options) -> AdaGradReference:
    return AdaGradReference(12, learning_rate=0.3, **options)


def state(learner) -> np.ndarray:
    """Everything that a learner of either kind believes, as one array."""
    return np.concatenate([learner.mean, getattr(learner, "variance", []), np.atleast_1d(learner.intercept)])


both = pytest.mark.parametrize("make", [marginal, adagrad])


@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda link=link, v=v, m=m: marginal(link=link, mean_update=m, variance_update=v)
            for link in ("logistic", "probit")
            for v in ("laplace", "peak")
            for m in ("auto", "taylor", "newton")
        ),
        lambda: marginal(temper=(0.3, 0.1), memory=0.05, predictive="quadrature"),
        lambda: marginal(intercept=False),
        adagrad,
        lambda: adagrad(l2=0.01, intercept=False),
    ],
)
def test_learn_returns_what_predict_would_have_said_just_before(make):
    X, y = random_stream(0)
    at_once, row_by_row = make(), make()
    probabilities = at_once.learn(X, y)
    for row in range(len(y)):
        assert row_by_row.predict(X[row])[0][0] == probabilities[row]
        row_by_row.learn(X[row], y[row : row + 1])
    np.testing.assert_array_equal(state(at_once), state(row_by_row))
    assert len(set(probabilities)) > 50


@both
def test_learning_helps(make):
    X, y = random_stream(1, n_rows=400)
    p = make().learn(X, y)
    loss = -np.log(np.where(y == 1, p, 1 - p))
    assert loss[200:].mean() < 0.9 * np.log(2)


@both
def test_duplicates_are_summed_first_and_zeros_are_nothing(make):
    untidy = csr([[(3, 1.0), (5, 0.0), (3, 0.5), (1, 2.0)], [(7, 1.0), (7, -1.0), (1, 1.0)]], 12)
    tidy = csr([[(1, 2.0), (3, 1.5)], [(1, 1.0)]], 12)
    one, other = make(), make()
    np.testing.assert_array_equal(one.learn(untidy, [1, -1]), other.learn(tidy, [1, -1]))
    np.testing.assert_array_equal(state(one), state(other))


@both
def test_features_absent_from_a_row_keep_their_bits(make):
    X, y = random_stream(2)
    learner = make()
    learner.learn(X, y)
    before = learner.mean
    learner.learn(csr([[(4, 1.0)]], 12), [1])
    moved = learner.mean != before
    np.testing.assert_array_equal(np.flatnonzero(moved), [4])


@both
def test_an_empty_row_without_an_intercept_predicts_one_half_and_changes_nothing(make):
    X, y = random_stream(3)
    learner = make(intercept=False)
    learner.learn(X, y)
    before = state(learner)
    np.testing.assert_array_equal(learner.learn(csr([[], [(2, 0.0)]], 12), [1, -1]), [0.5, 0.5])
    np.testing.assert_array_equal(state(learner), before)


@both
def test_zero_and_minus_one_both_mean_negative_and_anything_else_is_refused(make):
    X, y = random_stream(4)
    one, other = make(), make()
    np.testing.assert_array_equal(one.learn(X, y), other.learn(X, (y + 1) // 2))
    before = state(one)
    for bad in ([-1, 0, 1], [1, 2, 1], [0.5, 1, 0], [np.nan, 1, 0]):
        with pytest.raises(ValueError, match="labels"):
            one.learn(X[:3], bad)
    np.testing.assert_array_equal(state(one), before)


@both
def test_rows_of_weight_zero_are_predicted_and_not_learned(make):
    X, y = random_stream(5)
    weights = np.arange(len(y)) % 2
    one, other = make(), make()
    probabilities = one.learn(X, y, weights)
    np.testing.assert_array_equal(probabilities[weights == 1], other.learn(X[weights == 1], y[weights == 1]))
    np.testing.assert_array_equal(state(one), state(other))
    assert np.all((probabilities > 0) & (probabilities < 1))


@pytest.mark.parametrize("memory", [0.0, 0.1])
@pytest.mark.parametrize("variance_update", ["laplace", "peak"])
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_the_intercept_is_a_feature_that_is_always_one_with_a_prior_of_its_own(link, variance_update, memory):
    X, y = random_stream(6)
    prior = np.random.default_rng(6).uniform(0.1, 5, 12)
    options = {"link": link, "variance_update": variance_update, "memory": memory}
    inside = MarginalReference(12, prior_variance=prior, intercept_variance=7.0, **options)
    outside = MarginalReference(13, prior_variance=np.append(prior, 7.0), intercept=False, **options)
    constant = sparse.hstack([X, np.ones((len(y), 1))], format="csr")
    np.testing.assert_array_equal(inside.learn(X, y), outside.learn(constant, y))
    np.testing.assert_array_equal(inside.variance, outside.variance[:-1])
    assert inside.intercept == (outside.mean[-1], outside.variance[-1])
    assert outside.intercept == (0.0, 0.0)


def test_the_intercept_is_at_least_as_wide_as_three_and_as_the_widest_prior():
    assert marginal(prior_variance=0.5).intercept == (0.0, 3.0)
    assert marginal(prior_variance=np.linspace(1, 9, 12)).intercept == (0.0, 9.0)
    assert marginal(prior_variance=9.0, intercept_variance=0.25).intercept == (0.0, 0.25)


def test_each_feature_starts_from_its_own_prior():
    prior_mean, prior_variance = np.linspace(-1, 1, 12), np.linspace(0.1, 4, 12)
    learner = marginal(prior_mean=prior_mean, prior_variance=prior_variance, intercept=False)
    np.testing.assert_array_equal(learner.mean, prior_mean)
    X = csr([[(0, 2.0), (11, 1.0)]], 12)
    probability, mean, variance = learner.predict(X)
    assert mean[0] == pytest.approx(2 * prior_mean[0] + prior_mean[11])
    assert variance[0] == pytest.approx(4 * prior_variance[0] + prior_variance[11])
    assert probability[0] == pytest.approx(special.expit(mean[0] / np.sqrt(1 + np.pi / 8 * variance[0])))
    learner.learn(X, [1])
    shrunk = learner.variance < prior_variance
    np.testing.assert_array_equal(np.flatnonzero(shrunk), [0, 11])


def test_temper_is_first_for_updates_and_then_for_predictions():
    X, y = random_stream(10)
    plain, updates, predictions = marginal(), marginal(temper=(0.3, 1.0)), marginal(temper=(1.0, 0.1))
    p_plain, p_updates, p_predictions = (learner.learn(X, y) for learner in (plain, updates, predictions))
    np.testing.assert_array_equal(state(predictions), state(plain))
    assert np.all(updates.mean != plain.mean)
    assert p_updates[0] == p_plain[0]
    assert np.all(np.abs(p_predictions[1:] - 0.5) > np.abs(p_plain[1:] - 0.5))


def test_memory_never_forgets_past_the_prior():
    learner = marginal(prior_variance=0.5, memory=0.5)
    X, y = random_stream(7, n_rows=200)
    learner.learn(X, y)
    assert np.all(learner.variance <= 0.5)
    assert learner.intercept[1] <= 3.0
    frozen = marginal(prior_variance=0.5)
    frozen.learn(X, y)
    assert np.all(learner.variance > frozen.variance)


def test_adagrad_intercept_is_a_constant_feature_that_l2_spares():
    X, y = random_stream(8)
    constant = sparse.hstack([X, np.ones((len(y), 1))], format="csr")
    inside = adagrad()
    outside = AdaGradReference(13, learning_rate=0.3, intercept=False)
    np.testing.assert_array_equal(inside.learn(X, y), outside.learn(constant, y))
    assert inside.intercept == outside.mean[-1] != 0

    alone, decayed = adagrad(), adagrad(l2=100.0)
    empty = csr([[]] * len(y), 12)
    np.testing.assert_array_equal(alone.learn(empty, y), decayed.learn(empty, y))


def test_adagrad_predicts_the_sigmoid_of_its_score():
    X, y = random_stream(9)
    learner = adagrad()
    learner.learn(X, y)
    probability, score = learner.predict(X)
    np.testing.assert_allclose(score, X @ learner.mean + learner.intercept, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(probability, special.expit(score), rtol=1e-12)
