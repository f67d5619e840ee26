"""The estimators as scikit-learn sees them: its own checks, and life in pipelines, searches and pickles."""

import inspect
import pickle
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayou
import bayou.estimators
from bayou import (
    AdaGradClassifier,
    BankClassifier,
    FTRLClassifier,
    JointClassifier,
    LassoClassifier,
    MarginalClassifier,
    MomentClassifier,
    SpikeSlabClassifier,
    VariationalClassifier,
)
from bayou.core import registry
from bayou.estimators import OnlineClassifier, expected_failed_checks

ALL = pytest.mark.parametrize("make", [BankClassifier, MarginalClassifier, AdaGradClassifier])


EVERY_KIND = [
    BankClassifier(),
    MarginalClassifier(),
    JointClassifier(),
    JointClassifier(covariance="full"),
    MomentClassifier(),
    VariationalClassifier(),
    AdaGradClassifier(),
    FTRLClassifier(),
    SpikeSlabClassifier(),
    LassoClassifier(),
]


@parametrize_with_checks(EVERY_KIND, expected_failed_checks=expected_failed_checks)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", bayou.estimators.__all__)
def test_every_parameter_is_described_in_the_docstring(name):
    kind = getattr(bayou, name)
    described = set(re.findall(r"\w+", " ".join(re.findall(r"^    (\w+(?:, \w+)*): ", kind.__doc__, re.MULTILINE))))
    assert set(inspect.signature(kind).parameters) <= described


@ALL
def test_only_the_two_weight_checks_are_expected_to_fail(make):
    assert set(expected_failed_checks(make())) == {
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    }


@pytest.mark.parametrize("record", registry.records().values(), ids=lambda record: record.name)
def test_estimator_has_its_learners_parameters_and_defaults(record):
    if record.estimator is None:
        pytest.skip("no estimator is claimed")
    ours = inspect.signature(getattr(bayou, record.estimator)).parameters
    theirs = inspect.signature(record.load()).parameters
    renamed = {"intercept": "fit_intercept", "seed": "random_state"}
    learners = {renamed.get(name, name): p.default for name, p in theirs.items() if name != "n_features"}
    learners |= {"random_state": None} if "random_state" in learners else {}  # as scikit-learn has it
    # Predicting exactly costs a learner's stream time, but estimators are asked for probabilities to be believed.
    learners |= {"predictive": "quadrature"} if learners.get("predictive") == "closed" else {}
    # Which algorithm is best depends on whether rows come once or can be read again, as an estimator knows.
    learners |= {"algorithm": "auto"} if "algorithm" in learners else {}
    assert {name: ours[name].default for name in learners} == learners
    assert set(ours) - set(learners) <= {"passes", "class_weight", "random_state", "folds", "horizon"}


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@ALL
def test_accuracy_on_two_classes(make, cancer):
    assert cross_val_score(make(random_state=0), *cancer, cv=5).mean() > 0.95


@ALL
def test_accuracy_on_ten_classes(make):
    X, y = load_digits(return_X_y=True)
    assert cross_val_score(make(random_state=0), X / 16, y, cv=3).mean() > 0.88


@ALL
def test_sorted_data_are_learned(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X @ [2.0, -1.0, 0.5, 0.0, 1.0] + rng.logistic(size=2000) > 0).astype(int)
    by_label = np.argsort(y, kind="stable")
    shuffled = make(random_state=1).fit(X, y).score(X, y)
    assert make(random_state=1).fit(X[by_label], y[by_label]).score(X, y) > shuffled - 0.02
    # Without the shuffle the classes would come one after the other.
    assert make(random_state=1).fit(X[by_label], y[by_label]).intercept_[0] < 1.0


@ALL
@pytest.mark.parametrize("n_classes", [2, 4])
def test_clone_and_pickle_predict_the_same_bits(make, n_classes):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 6)), rng.integers(n_classes, size=300)
    model = make(random_state=3).fit(X, y)
    again = clone(model)
    assert not hasattr(again, "learners_")
    back = pickle.loads(pickle.dumps(model))
    for other in (again.fit(X, y), back):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    # What comes out of a pickle goes on learning as if it had never been one.
    np.testing.assert_array_equal(back.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)


def test_clone_keeps_a_prior_for_each_feature():
    X, y = np.eye(4)[[0, 1, 2, 3] * 5], np.array([0, 1] * 10)
    model = clone(MarginalClassifier(prior_variance=np.array([0.01, 0.01, 5.0, 5.0]))).fit(X, y)
    assert np.abs(model.coef_[0, :2]).max() < 0.1 < np.abs(model.coef_[0, 2:]).min()


@ALL
def test_hashed_text_in_a_pipeline(make):
    texts = ["good fun film", "bad dull film", "good film", "dull and bad"] * 20
    labels = ["like", "dislike"] * 40
    model = make_pipeline(HashingVectorizer(n_features=2**12), make(random_state=0)).fit(texts, labels)
    assert model.predict(["good fun", "bad dull"]).tolist() == ["like", "dislike"]


@ALL
def test_hashed_mappings_in_a_pipeline(make):
    rows = [{"site": "a", "age": 3}, {"site": "b", "age": 3}] * 40
    model = make_pipeline(FeatureHasher(n_features=2**20), make(random_state=0)).fit(rows, [1, 0] * 40)
    assert model.predict([{"site": "a"}, {"site": "b"}]).tolist() == [1, 0]


@ALL
def test_scaler_in_a_pipeline(make, cancer):
    X, y = load_breast_cancer(return_X_y=True)
    piped = make_pipeline(StandardScaler(), make(random_state=0)).fit(X, y)
    np.testing.assert_array_equal(piped.predict_proba(X), make(random_state=0).fit(*cancer).predict_proba(cancer[0]))


def test_grid_search_prefers_a_prior_that_fits():
    rng = np.random.default_rng(0)
    X = csr_array(rng.random((3000, 50)) < 0.1, dtype=float)
    y = rng.random(3000) < 1 / (1 + np.exp(-(X @ rng.normal(scale=2.0, size=50))))
    search = GridSearchCV(
        MarginalClassifier(random_state=0), {"prior_variance": [1e-4, 4.0]}, scoring="neg_log_loss", cv=3
    )
    search.fit(X, y)
    assert search.best_params_ == {"prior_variance": 4.0}
    assert search.best_estimator_.learner_.parameters["prior_variance"] == 4.0


@ALL
def test_calibration_wrapper(make, cancer):
    X, y = cancer
    calibrated = CalibratedClassifierCV(make(random_state=0), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.95


@ALL
def test_sample_weight_is_routed_through_a_pipeline(make, cancer):
    X, y = cancer
    weights = np.random.default_rng(0).random(len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = make(random_state=0).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        piped.fit(X, y, sample_weight=weights)
        score = piped.score(X, y, sample_weight=weights)
    direct = make(random_state=0).fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
    np.testing.assert_array_equal(piped[-1].coef_, direct.coef_)
    assert not np.array_equal(direct.coef_, make(random_state=0).fit(X, y).coef_)
    assert score == piped[-1].score(StandardScaler().fit_transform(X), y, sample_weight=weights)


@ALL
def test_feature_names_are_kept_and_checked(make):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(50, 3)), columns=["age", "height", "income"])
    y = pd.Series(np.where(table["age"] > 0, "old", "young"))
    model = make(random_state=0).fit(table, y)
    assert model.feature_names_in_.tolist() == ["age", "height", "income"]
    assert model.classes_.tolist() == ["old", "young"]
    np.testing.assert_array_equal(
        model.predict_proba(table), make(random_state=0).fit(table.values, y).predict_proba(table.values)
    )
    swapped = table[["height", "age", "income"]]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(swapped)
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(swapped, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(table.values)


@ALL
def test_other_number_of_features_is_refused(make):
    model = make().fit(np.eye(4), [0, 1, 0, 1])
    for call in (model.predict, lambda X: model.partial_fit(X, [0, 1, 0])):
        with pytest.raises(ValueError, match="expecting 4 features"):
            call(np.eye(3))


@ALL
@pytest.mark.parametrize("name", ["coef_", "intercept_", "learner_", "learners_", "classes_"])
def test_fitted_attributes_are_absent_before_fit(make, name):
    assert not hasattr(make(), name)


@ALL
def test_unfitted_estimator_does_not_predict(make):
    with pytest.raises(NotFittedError):
        make().predict_proba(np.eye(2))


def test_another_estimator_is_a_few_lines():
    @dataclass(kw_only=True, eq=False, repr=False)
    class Flat(OnlineClassifier):
        _learner_name = "marginal"
        prior_variance: float = 1.0

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(3, size=200)
    plain = Flat(random_state=0).fit(X, y)
    full = MarginalClassifier(random_state=0, predictive="closed").fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), full.decision_function(X))
    shared = {"fit_intercept": True, "passes": 1, "class_weight": None, "random_state": 0, "dtype": None}
    assert plain.get_params() == {"prior_variance": 1.0, **shared}
