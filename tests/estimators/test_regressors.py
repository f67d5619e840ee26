"""The regressors as scikit-learn sees them, and what is their own: intervals, draws, numbers in and out."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import scale
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayou import BadInput, BankRegressor, Batch, GaussianRegressor, ShrinkageRegressor, WrongTask
from bayou.estimators import expected_failed_checks

EVERY = [BankRegressor, GaussianRegressor, ShrinkageRegressor]
ALL = pytest.mark.parametrize("make", EVERY)


@parametrize_with_checks([make() for make in EVERY], expected_failed_checks=expected_failed_checks)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


@ALL
def test_it_predicts(make, diabetes):
    assert cross_val_score(make(random_state=0), *diabetes, cv=5).mean() > 0.43  # ridge: 0.48


@ALL
def test_fit_is_partial_fit_in_the_shuffled_order(make, diabetes):
    X, y = diabetes
    order = check_random_state(3).permutation(len(y))
    model = make(random_state=3).fit(X, y)
    other = make()
    for rows in np.split(order, [1, 50, 51]):
        other.partial_fit(X[rows], y[rows])
    if make is BankRegressor:  # what it says of later rows it has learned from the rows at hand
        model.horizon = other.horizon = "next"
    assert model.predict(X).tobytes() == other.predict(X).tobytes()
    assert model.coef_.shape == model.coef_var_.shape == (10,)
    assert model.learner_.examples == len(y)


@ALL
def test_deviations_and_intervals_hold_noise_and_doubt(make, diabetes):
    X, y = diabetes
    model = make(random_state=0).fit(X[:300], y[:300])
    said = model.learner_.predict(Batch.from_csr(X), "later")
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X))
    np.testing.assert_allclose(deviation**2, said.variance + model.noise_var_, rtol=1e-12)
    low, high = model.predict_interval(X, level=0.8)
    if make is not BankRegressor:  # its tails are not those of a normal distribution
        np.testing.assert_allclose((high - low) / 2, ndtri(0.9) * deviation)
    np.testing.assert_allclose((high + low) / 2, mean)
    assert 0.7 < np.mean((low < y) & (y < high)) < 0.9
    with pytest.raises(BadInput, match="level"):
        model.predict_interval(X, level=1.0)


@ALL
def test_draws_are_of_the_mean(make, diabetes):
    X, y = diabetes
    model = make(random_state=0).fit(X, y)
    drawn = model.sample_mean(X[:5], n_draws=4000, random_state=1)
    said = model.learner_.predict(Batch.from_csr(X[:5]), "later")
    np.testing.assert_allclose(drawn.mean(axis=0), said.mean, atol=5 * np.sqrt(said.variance.max() / 4000))
    np.testing.assert_array_equal(drawn, model.sample_mean(X[:5], n_draws=4000, random_state=1))


@ALL
def test_it_says_that_it_has_no_probabilities(make, diabetes):
    model = make().fit(*diabetes)
    for name in ("predict_proba", "sample_proba"):
        assert not hasattr(model, name)
        with pytest.raises(WrongTask, match=f"predicts numbers, so it has no {name}"):
            getattr(model, name)


@ALL
def test_copies_names_and_weights(make, diabetes):
    X, y = diabetes
    table = pd.DataFrame(X, columns=[f"c{k}" for k in range(10)])
    model = make(random_state=1).fit(table, y)
    assert model.feature_names_in_.tolist() == table.columns.tolist()
    for other in (clone(model).fit(table, y), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(table), model.predict(table))
    heavy = make(random_state=1).fit(X, y, sample_weight=np.where(y > 150, 1.0, 0.0))
    assert heavy.predict(X).mean() > model.predict(table).mean() + 20
    with pytest.raises(BadInput, match="all sample weights are zero"):
        make().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="expecting 10 features"):
        heavy.predict(X[:, :9])


@ALL
def test_an_unfitted_regressor_says_so(make):
    with pytest.raises(NotFittedError):
        make().predict([[1.0]])
    assert not hasattr(make(), "coef_")
