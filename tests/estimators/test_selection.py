"""SelectByInclusion is a scikit-learn selector, and a sparse model can leave as plain text."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import ndtr
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayou import BadInput, FTRLClassifier, MarginalClassifier, SelectByInclusion, SpikeSlabClassifier
from bayou.core.extras import Extras
from bayou.estimators import expected_failed_checks
from bayou.outputs.plain_model import write_plain
from bayou.recipe.recipe import Recipe


def problem(rows: int = 2000, seed: int = 0):
    """Ten of a hundred features matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 100))
    return X, ndtr(X[:, :10] @ rng.choice([-1.0, 1.0], 10)) > rng.random(rows)


@parametrize_with_checks([SelectByInclusion()], expected_failed_checks=expected_failed_checks)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_selects_what_matters_in_a_pipeline():
    X, y = problem()
    piped = make_pipeline(SelectByInclusion(random_state=0), LogisticRegression()).fit(X[:1500], y[:1500])
    assert piped[0].get_support(indices=True).tolist() == list(range(10))
    assert piped.score(X[1500:], y[1500:]) > 0.85
    same = SelectFromModel(SpikeSlabClassifier(random_state=0), threshold=0.1).fit(X, y)
    assert same.get_support()[:10].all()  # the classifier has coef_, so that scikit-learn's own selector takes it


def test_max_features_keeps_the_most_probable_ones():
    X, y = problem()
    X[:, 0] = np.random.default_rng(1).normal(size=len(X)) * 0.05 + X[:, 0] * 0.02  # hardly there
    selector = SelectByInclusion(max_features=4, random_state=0).fit(X, y)
    assert selector.get_support().sum() == 4
    log_odds = selector.classifier_.learner_.log_odds
    assert log_odds[selector.get_support()].min() >= np.sort(log_odds)[-4]
    assert SelectByInclusion(threshold=1.0, random_state=0).fit(X, y).get_support().sum() == 0


def test_a_stream_in_pieces_selects_what_the_whole_does():
    X, y = problem()
    pieces = SelectByInclusion()
    for rows in (slice(0, 700), slice(700, 2000)):
        pieces.partial_fit(sparse.csr_array(X[rows]), y[rows], classes=[False, True])
    whole = SelectByInclusion().partial_fit(X, y, classes=[False, True])
    np.testing.assert_array_equal(pieces.inclusion_, whole.inclusion_)


def test_of_many_classes_a_feature_counts_that_one_needs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 30))
    y = X[:, :3].argmax(axis=1)
    selector = SelectByInclusion(random_state=0).fit(X, y)
    assert selector.get_support(indices=True)[:3].tolist() == [0, 1, 2]
    assert selector.get_support().sum() < 8
    assert selector.classifier_.inclusion_.shape == selector.classifier_.selected_.shape == (3, 30)


def test_names_go_through():
    X, y = problem()
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(100)])
    selector = SelectByInclusion(random_state=0).fit(table, y)
    assert selector.get_feature_names_out().tolist() == [f"x{k}" for k in range(10)]


@pytest.mark.parametrize("parameters", [{"threshold": 2}, {"max_features": 0}, {"inclusion_prior": 0}])
def test_bad_parameters_are_refused_by_name(parameters):
    (name,) = parameters
    with pytest.raises(BadInput, match=name):
        SelectByInclusion(**parameters).fit(*problem(50))


def test_rows_learned_again_by_fit_count_once_and_new_ones_count():
    X, y = problem(300)
    model = SpikeSlabClassifier(passes=4, random_state=0).fit(X, y)
    precision = model.learner_._intercept_state[[0, 4]].sum()
    model.partial_fit(X, y)  # says that these are new
    assert model.learner_._intercept_state[[0, 4]].sum() > 1.5 * precision


# --- plain models ---------------------------------------------------------------------------------------------------


def test_the_exported_model_predicts_the_same(tmp_path):
    X, y = problem()
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(100)])
    model = SpikeSlabClassifier(random_state=0).fit(table, y)
    model.export(tmp_path / "m.json")
    plain = json.loads((tmp_path / "m.json").read_text())
    assert plain["link"] == "probit"
    score = plain["intercept"] + sum(table[row["feature"]] * row["weight"] for row in plain["features"])
    np.testing.assert_allclose(ndtr(score), model.predict_proba(table)[:, 1], rtol=0, atol=1e-9)
    assert all(row["inclusion"] > 0.5 for row in plain["features"])

    model.export(tmp_path / "m.csv")
    with open(tmp_path / "m.csv") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["feature"] == "(intercept)"
    assert {row["feature"]: float(row["weight"]) for row in rows[1:]} == {
        row["feature"]: row["weight"] for row in plain["features"]
    }


def test_ftrl_leaves_as_a_logistic_model_and_dense_models_do_not(tmp_path):
    X, y = problem()
    model = FTRLClassifier(l1=20.0, random_state=0).fit(X, y)
    model.learner_.extras = Extras(Recipe(kind="svmlight", negative_rate=0.1))
    write_plain(tmp_path / "m.json", model.learner_)
    plain = json.loads((tmp_path / "m.json").read_text())
    assert plain["link"] == "logistic"
    assert plain["intercept"] == pytest.approx(model.intercept_[0] + np.log(0.1))
    assert [int(row["feature"]) for row in plain["features"]] == np.flatnonzero(model.coef_).tolist()
    with pytest.raises(BadInput, match="select no features"):
        write_plain(tmp_path / "m.json", MarginalClassifier().fit(X, y).learner_)
    with pytest.raises(BadInput, match="must end in"):
        write_plain(tmp_path / "m.txt", model.learner_)
