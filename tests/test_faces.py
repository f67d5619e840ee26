"""One question, one answer: the learner, the command, the estimators, river and the report say the same of a row."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from typer.testing import CliRunner

import bayou
from bayou import Batch, estimators, registry
from bayou.cli import app
from bayou.core.extras import Extras
from bayou.core.prediction import Scores
from bayou.recipe.recipe import Recipe
from bayou.report import Recorder, ReportedRun
from bayou.report.facts import RunFacts

LEVEL = 0.95
# Wide priors and few rows, so that some probabilities lie beyond the middle of what they may be.
VARIANTS = [
    ("bank", {}),
    ("marginal", {"prior_variance": 50.0}),
    ("marginal", {"prior_variance": 50.0, "temper": (1.0, 0.3)}),
    ("marginal", {"link": "probit", "predictive": "quadrature"}),
    ("joint", {"prior_variance": 20.0}),
    ("moment", {}),
    ("variational", {}),
    ("spike-slab", {}),
    ("spike-slab", {"predictive": "full"}),
    ("number-bank", {}),
    ("gaussian", {}),
    ("shrinkage", {}),
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(scale=3.0, size=(60, 4)).round(3)  # as text can say them
    y = rng.random(60) < expit(X @ [2.0, -1.0, 0.0, 0.5])
    return X, y


@pytest.mark.parametrize(
    ("name", "parameters", "horizon"),
    [("bank", {}, "next"), *((*variant, "later") for variant in VARIANTS)],
    ids=lambda value: str(value),
)
def test_every_face_gives_the_learners_interval(name, parameters, horizon, rows, tmp_path):
    X, y = rows
    learner = registry.find(name).load()(n_features=4, **parameters)
    learner.learn(Batch.from_csr(X[:40], y[:40]))
    asked = Batch.from_csr(X[40:])
    prediction = learner.predict(asked, horizon)
    low, high = prediction.interval(LEVEL)
    assert ((low <= prediction.expected) & (prediction.expected <= high) & (low < high)).all()

    command = _command(learner, asked, tmp_path, horizon)
    np.testing.assert_allclose(command["low"], low, rtol=1e-8)
    np.testing.assert_allclose(command["high"], high, rtol=1e-8)

    estimator = _estimator(name, learner, X.shape[1], horizon)
    ours = estimator.predict_interval(X[40:], level=LEVEL)
    np.testing.assert_array_equal(ours, (low, high))

    if horizon == "next" or name != "bank":  # a report has no intervals of later rows
        np.testing.assert_array_equal(_report(learner, prediction), (low, high))
    if learner.record.task == "regression":
        np.testing.assert_array_equal(estimator.predict(X[40:]), prediction.expected)
        return
    np.testing.assert_allclose(command["probability"], prediction.probability, rtol=1e-8)
    np.testing.assert_array_equal(estimator.decision_function(X[40:]), prediction.log_odds)
    np.testing.assert_allclose(estimator.predict_proba(X[40:])[:, 1], prediction.probability, rtol=1e-9)
    np.testing.assert_allclose(expit(prediction.log_odds), prediction.probability, rtol=1e-9)
    np.testing.assert_array_equal(_river(learner, X[40:]), learner.predict(asked).probability)


@pytest.mark.parametrize(
    ("name", "parameters"), [("bank", {}), ("marginal", {}), ("marginal", {"link": "probit"}), ("ftrl", {})], ids=str
)
def test_every_face_answers_for_the_full_stream(name, parameters, rows, tmp_path):
    """Of a model that learned from a tenth of the negatives, odds are a tenth, whoever is asked."""
    X, y = rows
    learner = registry.find(name).load()(n_features=4, **parameters)
    learner.learn(Batch.from_csr(X[:40], y[:40]))
    asked = Batch.from_csr(X[40:])
    as_given = {horizon: learner.predict(asked, horizon) for horizon in ("next", "later")}
    learner.extras = Extras(Recipe(kind="svmlight", exact=True, bits=2, negative_rate=0.1))
    learner.save(tmp_path / "m.bayou")
    learner = bayou.load(tmp_path / "m.bayou")

    for horizon, given in as_given.items():
        prediction, p = learner.predict(asked, horizon), given.probability
        np.testing.assert_allclose(prediction.probability, 0.1 * p / (0.1 * p + 1 - p), rtol=1e-12)
        np.testing.assert_allclose(prediction.log_odds, given.log_odds + np.log(0.1), rtol=1e-12)
        told = _command(learner, asked, tmp_path, horizon)["probability"]
        np.testing.assert_allclose(told, prediction.probability, rtol=1e-8)
    table = bayou.predict(str(tmp_path / "asked.svm"), model=learner).to_arrow()
    np.testing.assert_array_equal(table["probability"].to_numpy(), prediction.probability)
    estimator = _estimator(name, learner, X.shape[1], "later")
    np.testing.assert_array_equal(estimator.decision_function(X[40:]), prediction.log_odds)
    np.testing.assert_allclose(estimator.predict_proba(X[40:])[:, 1], prediction.probability, rtol=1e-9)
    if learner.record.posterior:
        np.testing.assert_array_equal(estimator.predict_interval(X[40:]), prediction.interval())
        draws = learner.sample(asked, 20)
        learner.extras = Extras()
        p = learner.sample(asked, 20)
        np.testing.assert_allclose(draws, 0.1 * p / (0.1 * p + 1 - p), rtol=1e-12)
        learner.extras = Extras(Recipe(kind="svmlight", exact=True, bits=2, negative_rate=0.1))
    np.testing.assert_array_equal(_river(learner, X[40:]), learner.predict(asked).probability)
    # What is said while learning is of the data as they are given.
    told = learner.learn(asked.with_labels(np.ones(len(asked)), np.zeros(len(asked))))
    np.testing.assert_array_equal(told, as_given["next"].probability)


def _command(learner, asked, folder, horizon):
    """What `bayou predict` writes of some rows; it predicts later rows if it is told nothing else."""
    from bayou.outputs.text import svmlight

    learner.save(folder / "m.bayou")
    (folder / "asked.svm").write_bytes(svmlight(asked.with_labels(np.ones(len(asked)))).tobytes())
    out = folder / "p.csv"
    words = ["predict", folder / "asked.svm", "--model", folder / "m.bayou", "--out", out]
    words += [] if horizon == "later" else ["--horizon", horizon]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    with open(out, newline="") as file:
        table = list(csv.DictReader(file))
    return {column: np.array([float(row[column]) for row in table]) for column in table[0]}


def _estimator(name, learner, width, horizon):
    """An estimator that has learned what the learner has; it predicts later rows if it is told nothing else."""
    model = getattr(estimators, registry.find(name).estimator)(**({} if horizon == "later" else {"horizon": horizon}))
    model.learners_, model.n_features_in_ = [learner], width
    if learner.record.task == "binary":
        model.classes_ = np.array([0, 1])
    return model


def _report(learner, prediction):
    """The interval that a report of this learner shows of these predictions."""
    noise = prediction.noise if learner.record.task == "regression" else None
    sample = SimpleNamespace(
        expected=prediction.expected,
        mean=prediction.mean,
        variance=prediction.variance,
        noise=noise,
        tails=prediction.student_t_mixture,
    )
    return RunFacts(ReportedRun(Recorder(learner), None)).interval(sample)


def _river(learner, X):
    """The probabilities of river's estimator with this learner in it, for columns whose names are numbers."""
    river = pytest.importorskip("bayou.river", reason="river is not installed: pip install 'bayou[river]'")
    model = river.Classifier(learner.name, bits=2)
    model._model = learner
    import scipy.sparse

    many = model.predict_proba_many(scipy.sparse.csr_array(X))[True].to_numpy()
    names = model._rows  # whatever a row's features are called, its probability is that of a batch
    one = [
        model._model.learn_example(names.encode_row({str(k): x for k, x in enumerate(row)})[0], True, 0.0)
        for row in X[:3]
    ]
    batch = model._model.predict(names.encode_rows([{str(k): x for k, x in enumerate(row)} for row in X[:3]])[0])
    np.testing.assert_array_equal(one, batch.probability)
    return many


def test_a_report_asks_the_learner(rows):
    X, y = rows
    learner = bayou.learners.Marginal(4, temper=(1.0, 0.3))
    recorder = Recorder(learner)
    recorder.learn(Batch.from_csr(X, y))
    facts = RunFacts(ReportedRun(recorder, None))
    sample = facts.sample
    scores = Scores(sample.expected, sample.mean, sample.variance)
    np.testing.assert_array_equal(facts.interval(sample), learner.wrap_scores(scores).interval(LEVEL))


def test_the_two_horizons_differ(rows):
    """Or the test above would show nothing."""
    X, y = rows
    learner = bayou.learners.Bank(4)
    learner.learn(Batch.from_csr(X[:40], y[:40]))
    asked = Batch.from_csr(X[40:])
    assert (learner.predict(asked).probability != learner.predict(asked, "later").probability).all()


@pytest.fixture
def not_combined(rows, tmp_path):
    """A bank whose lanes alone have learned: it knows how to predict the next row, and no later ones."""
    X, y = rows
    learner = bayou.learners.Bank(4)
    learner.learn(Batch.from_csr(X, y), combine=False)
    learner.save(tmp_path / "lanes.bayou")
    return tmp_path / "lanes.bayou"


def test_a_model_that_knows_the_next_row_alone_says_so_once(not_combined, tmp_path):
    learner = bayou.load(not_combined)
    asked = Batch.from_rows([{0: 1.0}])
    words = ["predict", tmp_path / "a.svm", "--model", not_combined]
    (tmp_path / "a.svm").write_text("1 0:1\n" * 3)
    done = CliRunner().invoke(app, list(map(str, words)))
    assert (done.exit_code, done.stderr.count("as if it were the next")) == (0, 1)
    assert "as if it were" not in CliRunner().invoke(app, [*map(str, words), "--horizon", "next"]).stderr
    with pytest.warns(UserWarning, match="retrain it") as caught:
        later = bayou.predict(tmp_path / "a.svm", model=not_combined).to_arrow()["probability"].to_pylist()
    assert len(caught) == 1
    assert later[0] == learner.predict(asked).probability[0]
    with pytest.warns(UserWarning, match="retrain it"):
        assert _estimator("bank", learner, learner.n_features, "later").predict_proba(asked.to_csr(learner.n_features))[
            0, 1
        ] == pytest.approx(later[0])


def test_a_horizon_is_one_of_two(rows, not_combined, tmp_path):
    learner = bayou.learners.Marginal(4)
    (tmp_path / "a.svm").write_text("1 0:1\n")
    with pytest.raises(bayou.BadInput, match="horizon is 'soon'"):
        bayou.predict(tmp_path / "a.svm", model=learner, horizon="soon")
    with pytest.raises(bayou.BadInput, match="horizon is 'soon'"):
        estimators.BankClassifier(horizon="soon").fit(*rows).predict(rows[0])
    words = ["predict", str(tmp_path / "a.svm"), "--model", str(not_combined), "--horizon", "soon"]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, "--horizon is 'soon'" in done.stderr) == (2, True)
