"""The river face: river's own checks, and that it says what the learners inside say."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from bayou import BadInput, Batch
from bayou.core import registry

pytest.importorskip("river", reason="river is not installed: pip install 'bayou[river]'")

from river import checks, compose, datasets, evaluate, feature_extraction, metrics, multiclass, preprocessing, stream

import bayou
from bayou.river import Classifier, Regressor
from bayou.sources.rows.hashes import hashes_of
from tests.laws.cases import bits

CLASSIFIERS = [record.name for record in registry.records().values() if record.task == "binary"]
# Several parameter sets for the checks; small tables, since some learners keep a matrix.
MODELS = {
    **{name: {"learner": name, "bits": 8} for name in CLASSIFIERS},
    "dictionary": {"learner": "marginal", "hashing": False},
    "bank in a dictionary": {"learner": "bank", "bits": 8, "hashing": False},
    "parameters": {"learner": "marginal", "prior_variance": 0.3, "dtype": "float64"},
}


# They are about the face; two of them are enough, and the others are for the long run.
FEW = ("marginal", "bank")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FEW else pytest.mark.long) for name in MODELS])
def test_river_s_own_checks_pass(name):
    model = Classifier(**MODELS[name])
    assert model._unit_test_skips() == set()
    checks.check_estimator(model)


@pytest.mark.parametrize(
    "name", ["gaussian", *(pytest.param(name, marks=pytest.mark.long) for name in ("bank", "shrinkage"))]
)
def test_river_s_own_checks_pass_for_numbers(name):
    model = Regressor(name, bits=6)
    assert model._unit_test_skips() == set()
    checks.check_estimator(model)


def test_numbers_one_by_one_are_many_and_have_intervals():
    xs, _ = rows()
    ys = [3 * x["age"] + (x["site"] == "s1") for x in xs]
    one, many = Regressor("gaussian", bits=8), Regressor("gaussian", bits=8)
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    many.learn_many(xs, ys)
    assert bits(one.model) == bits(many.model)
    assert many.predict_many(xs).tolist() == [one.predict_one(x) for x in xs]
    low, high = one.predict_interval_one(xs[0], 0.8)
    assert low < one.predict_one(xs[0]) < high
    assert one.predict_interval_one(xs[0]) == one.predict_interval_one(xs[0], level=0.95)
    with pytest.raises(BadInput, match="the label is 'a'"):
        one.learn_one({"age": 1.0}, "a")
    with pytest.raises(BadInput, match="marginal is a binary learner and cannot be used as Regressor"):
        Regressor("marginal")
    assert Regressor().model.name == "number-bank"


def test_river_s_checks_pass_for_several_classes():
    checks.check_estimator(multiclass.OneVsRestClassifier(Classifier("marginal", bits=10, classes=(False, True))))


def rows(n: int = 200, seed: int = 0) -> tuple[list[dict], list[bool]]:
    rng = np.random.default_rng(seed)
    xs = [{"age": float(rng.normal()), "site": f"s{rng.integers(5)}", f"w{rng.integers(30)}": True} for _ in range(n)]
    return xs, [bool(rng.random() < 1 / (1 + math.exp(-2 * x["age"]))) for x in xs]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_many_rows_are_a_loop_of_one_to_the_last_bit(name):
    xs, ys = rows()
    one, many, table = (Classifier(name, bits=8) for _ in range(3))
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    many.learn_many(xs[:70], ys[:70])
    many.learn_many(xs[70:], ys[70:])
    frame = pd.DataFrame(xs)
    table.learn_many(frame.astype({c: float for c in frame if c != "site"}), pd.Series(ys))
    assert bits(one.model, by_row=True) == bits(many.model, by_row=True) == bits(table.model, by_row=True)
    ps = [one.predict_proba_one(x) for x in xs]
    found = many.predict_proba_many(xs)
    assert found[True].tolist() == [p[True] for p in ps]
    assert found[False].tolist() == [p[False] for p in ps]
    assert many.predict_many(xs).tolist() == [one.predict_one(x) for x in xs]


def test_it_is_the_learner_inside():
    xs, ys = rows()
    model = Classifier("marginal", bits=12, prior_variance=0.5)
    learner = registry.find("marginal").load()(n_features=2**12, prior_variance=0.5)
    for x, y in zip(xs, ys, strict=True):
        ids = {int(hashes_of([k])[0]) % 2**12: v for k, v in x.items() if k != "site"}
        ids[int(hashes_of([x["site"]], hashes_of(["site"]))[0]) % 2**12] = 1.0
        learner.learn(Batch.from_rows([ids], [int(y)]))
        model.learn_one(x, y)
    assert model.model.examples == len(xs)
    np.testing.assert_allclose(model.model.mean, learner.mean, atol=1e-5)
    np.testing.assert_allclose(model.model.variance, learner.variance, rtol=1e-5)


def test_weights():
    (x, *_), _ = rows()
    model, twice = Classifier("marginal", bits=8), Classifier("marginal", bits=8)
    before = pickle.dumps(model)
    model.learn_one(x, True, w=0)
    assert pickle.dumps(model) == before
    model.learn_one(x, True, w=2.5)
    twice.learn_many([x, x], [True, False], w=[2.5, 0.0])
    assert pickle.dumps(model) == pickle.dumps(twice)
    model.learn_many([x], [False], w=0.5)
    for w in (-1.0, math.nan, math.inf):
        before = pickle.dumps(model)
        with pytest.raises(BadInput, match="weight"):
            model.learn_one(x, True, w=w)
        with pytest.raises(BadInput, match="weight"):
            model.learn_many([x], [True], w=w)
        assert pickle.dumps(model) == before


def test_labels():
    x = {"a": 1.0}
    for labels in ((False, True), (0, 1), (0.0, 1.0), (np.bool_(False), np.bool_(True))):
        model = Classifier("marginal", bits=8)
        model.learn_one(x, labels[1])
        model.learn_many([x, x], pd.Series(labels))
        assert model.predict_proba_one(x).keys() == {False, True}
        assert model.predict_one(x) is True
    spam = Classifier("marginal", bits=8, classes=("ham", "spam"))
    spam.learn_one(x, "spam")
    spam.learn_many([x], ["spam"])
    assert spam.predict_one(x) == "spam"
    assert spam.predict_proba_many([x]).columns.tolist() == ["ham", "spam"]
    for y in ("eggs", None, True, [], np.timedelta64(1)):  # the last two have no hash
        with pytest.raises(BadInput, match=r"must be one of \('ham', 'spam'\)"):
            spam.learn_one(x, y)
        with pytest.raises(BadInput, match=r"must be one of \('ham', 'spam'\)"):
            spam.learn_many([x, x], ["ham", y])
    for classes in (("ham",), 5, ("a", "a"), ([], 1), (np.timedelta64(1), 1)):
        with pytest.raises(BadInput, match="classes is"):
            Classifier(classes=classes)


@pytest.mark.parametrize("name", ["marginal", "bank"])
@pytest.mark.parametrize("labels", [list("abcab"), [0, 1, 2, 0, 1], [5, "x", None, (1, 2), 5]])
def test_any_classes_as_they_come(name, labels):
    xs = [{"a": 1.0, f"is {k % 3}": 1.0} for k in range(5)]
    one, many = Classifier(name, bits=8), Classifier(name, bits=8)
    for k, (x, y) in enumerate(zip(xs, labels, strict=True)):
        one.learn_one(x, y)
        p = one.predict_proba_one(x)
        assert sum(p.values()) == pytest.approx(1.0)
        assert set(labels[: k + 1]) <= p.keys()
        one.learn_one(x, "never", w=0.0)
    many.learn_many(xs, list(labels))
    assert set(one.predict_proba_one(xs[0])) == set(many.predict_proba_one(xs[0])) == set(labels)
    assert many.predict_proba_many(xs).shape == (5, len(set(labels)))
    if 0 not in labels:  # which is as good as False, and begins with a learner of two
        assert one.predict_proba_one(xs[0]) == many.predict_proba_one(xs[0])
        again = pickle.loads(pickle.dumps(one))
        assert again.predict_proba_one(xs[1]) == one.predict_proba_one(xs[1])


def test_classes_that_are_named_are_all_there_are():
    model = Classifier("marginal", bits=8, classes=("a", "b", "c"))
    assert model.predict_proba_one({"x": 1.0}) == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    model.learn_one({"x": 1.0}, "b")
    assert model.predict_one({"x": 1.0}) == "b"
    assert not Classifier("marginal", classes=("a", "b"))._multiclass
    with pytest.raises(BadInput, match="must be one of"):
        model.learn_one({"x": 1.0}, "d")


def test_a_learner_that_cannot_be_extended_says_so():
    model = Classifier("lasso", bits=8)
    model.learn_one({"x": 1.0}, True)
    with pytest.raises(BadInput, match=r"as classes=\(\.\.\.\)"):
        model.learn_one({"x": 1.0}, "d")
    assert model.predict_proba_one({"x": 1.0}).keys() == {False, True}


def test_weights_of_several_classes_are_those_of_each():
    model = Classifier("marginal", hashing=False)
    for _ in range(5):
        for label in "abc":
            model.learn_one({f"is {label}": 1.0}, label)
    weights = model.weights
    assert weights.keys() == {"a", "b", "c"}
    assert weights["a"]["is a"] > 0 > weights["a"]["is b"]


@pytest.mark.parametrize("hashing", [True, False])
def test_a_bad_row_changes_nothing(hashing):
    model = Classifier("marginal", bits=8, hashing=hashing)
    model.learn_one({"a": 1.0}, True)
    before = pickle.dumps(model)
    for x, y in (({"new": math.inf}, True), ({"new": [1]}, True), ({"new": 1.0}, []), ({"new": 1e30}, True)):
        with pytest.raises(BadInput):
            model.learn_one(x, y)
        with pytest.raises(BadInput):
            model.learn_many([{"b": 1.0}, x], [True, y])
    assert pickle.dumps(model) == before
    with pytest.raises(BadInput, match="1 rows"):
        model.learn_many([{"a": 1.0}], [True, False])


def test_clones_forget_and_copies_do_not():
    xs, ys = rows()
    model = Classifier("marginal", bits=8, hashing=False, prior_variance=2.0)
    model.learn_many(xs, ys)
    clone = model.clone()
    assert clone.model.examples == 0
    assert clone.model.parameters == model.model.parameters
    assert model.clone({"prior_variance": 3.0}).model.parameters["prior_variance"] == 3.0
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)):
        assert twin.predict_proba_one(xs[0]) == model.predict_proba_one(xs[0])
        twin.learn_one(xs[0], ys[0])
        assert twin.model.examples == model.model.examples + 1


def test_weights_have_names_in_a_dictionary():
    model = Classifier("marginal", hashing=False)
    for _ in range(20):
        model.learn_one({"up": 1.0, "site": "a"}, True)
        model.learn_one({"down": 1.0, "site": "b"}, False)
    weights = model.weights
    assert weights.keys() == {"up", "down", "site=a", "site=b"}
    assert weights["up"] > 0.1 > -0.1 > weights["down"]
    with pytest.raises(BadInput, match="hashing=False"):
        Classifier("marginal").weights  # noqa: B018


def test_wrong_parameters_get_a_sentence(monkeypatch):
    for kwargs, said in (
        ({"learner": "margnal"}, "no learner called 'margnal'"),
        ({"learner": "marginal", "prior": 1.0}, "unexpected keyword argument 'prior'"),
        ({"learner": "marginal", "prior_variance": -1.0}, "prior_variance is -1"),
        ({"n_features": 5}, "set the number of weights by bits"),
        ({"bits": 99}, "bits is 99"),
        ({"hashing": "no"}, "hashing is 'no'"),
    ):
        with pytest.raises(BadInput, match=said):
            Classifier(**kwargs)
    regressor = registry.Record("line", "bayou.learners.marginal:Marginal", None, "a line", "none", task="regression")
    monkeypatch.setattr(registry, "records", lambda: {"line": regressor})
    with pytest.raises(BadInput, match="line is a regression learner"):
        Classifier("line")


def test_it_shows_its_parameters():
    model = Classifier("marginal", bits=8, prior_variance=2.0)
    expected = "Classifier(learner='marginal', bits=8, hashing=True, classes=None, cross=None, prior_variance=2.0)"
    assert repr(model) == expected


def test_it_works_in_pipelines():
    words = feature_extraction.BagOfWords(lowercase=True) | Classifier("marginal", bits=14, classes=(False, True))
    spam = [({"body": "win money now"}, True), ({"body": "see you at lunch"}, False)] * 30
    text = compose.Select("body") | compose.FuncTransformer(lambda x: x["body"]) | words
    accuracy = metrics.Accuracy()
    for x, y in spam:
        accuracy.update(y, text.predict_one(x))
        text.learn_one(x, y)
    assert accuracy.get() > 0.9
    scaled = preprocessing.StandardScaler() | Classifier("marginal", bits=10)
    assert evaluate.progressive_val_score(datasets.Phishing(), scaled, metrics.ROCAUC()).get() > 0.93
    segments = Classifier("marginal", bits=10)
    found = evaluate.progressive_val_score(
        datasets.ImageSegments().take(1000), preprocessing.StandardScaler() | segments, metrics.Accuracy()
    )
    assert found.get() > 0.7


def test_matrices_have_numbers_for_names():
    matrix = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    many, one = Classifier("marginal", bits=8), Classifier("marginal", bits=8)
    many.learn_many(matrix, [True, False])
    for x, y in stream.iter_array(matrix.toarray(), [True, False]):
        one.learn_one({name: value for name, value in x.items() if value}, y)
    assert pickle.dumps(many.model) == pickle.dumps(one.model)
    assert many.predict_proba_many(matrix).shape == (2, 2)


def test_indices_of_frames_are_kept():
    model = Classifier("marginal", bits=8)
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=["x", "y"])
    assert model.predict_proba_many(frame).index.tolist() == ["x", "y"]
    assert model.predict_many(frame).index.tolist() == ["x", "y"]


def test_the_package_finds_it():
    assert bayou.river.Classifier is Classifier


def test_what_matters_only_together_is_learned_with_crosses():
    plain, crossed = (Classifier("marginal", bits=10, cross=cross) for cross in (None, [("a", "b")]))
    for k in range(400):
        x = {"a": f"a{k % 2}", "b": f"b{k // 2 % 2}"}
        for model in (plain, crossed):
            model.learn_one(x, k % 2 == k // 2 % 2)
    assert crossed.predict_proba_one({"a": "a1", "b": "b1"})[True] > 0.9
    assert abs(plain.predict_proba_one({"a": "a1", "b": "b1"})[True] - 0.5) < 0.1
    assert crossed.clone().cross == [("a", "b")]
    number = Regressor("gaussian", bits=8, cross=[("x", "z")])
    for k in range(200):
        number.learn_one({"x": k % 3, "z": k % 5}, 2.0 * (k % 3) * (k % 5))
    assert abs(number.predict_one({"x": 2, "z": 4}) - 16) < 1
