"""What is given to bayou from outside is what it must be, or is refused with a sentence, whatever it is."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import bayou
from bayou import BadInput, Batch, evaluate, simulate, sources
from bayou.core import checks
from bayou.learners import Joint, Lasso, Marginal, Shrinkage
from bayou.recipe.recipe import Column, Recipe

HUGE = 10**400  # larger than any float
BATCH = Batch.from_rows([{0: 1.0}, {1: 2.0}], labels=[1, 0])


def taught(kind=Marginal, **parameters):
    learner = kind(n_features=3, **parameters)
    learner.learn(BATCH)
    return learner


@pytest.mark.parametrize(
    "call",
    [
        lambda: Batch(),
        lambda: Batch.from_rows([{0: 1.0}], labels=[HUGE]),
        lambda: Batch.from_csr(BATCH),
        lambda: Batch.from_arrays([[1, 2], [3]], [0], [1.0]),
        lambda: Batch.from_arrays([0, 1], [0], [1.0], tags=sp.eye_array(1)),
        lambda: Batch.from_arrays([0, 1], [0], [1.0], positions=BATCH),
        lambda: Batch.concatenate([BATCH, ("a",)]),
        lambda: Batch.concatenate(None),
        lambda: BATCH.astype(""),
        lambda: BATCH.astype({"a": 1}),
        lambda: BATCH.to_csr("3"),
        lambda: BATCH.to_csr(1),
        lambda: BATCH.row_of_nonzero(range(3)),
        lambda: BATCH.row_of_nonzero(2),
        lambda: taught().save(3),
        lambda: taught().save("a\0b"),
        lambda: taught().save("\ud800"),
        lambda: bayou.load(None),
        lambda: taught().nbytes_for("3"),
        lambda: taught(Lasso).nbytes_for([3]),
        lambda: taught(Shrinkage).nbytes_for({}),
        lambda: taught(Shrinkage).sample(None, 2),
        lambda: taught(Joint, covariance="full").sample(None, 2),
        lambda: taught().sample(BATCH, 2, seed=np.timedelta64(1)),
        lambda: taught().weights_at(BATCH),
        lambda: taught().predict(BATCH).with_sampling_correction("half"),
        lambda: taught().predict(BATCH).with_sampling_correction(-0.5),
        lambda: Marginal(n_features=3, dtype={"a": {}}),
        lambda: Marginal(n_features=np.ones(2), prior_variance=[1.0]),
        lambda: Marginal(n_features=3, prior_variance=HUGE),
        lambda: Shrinkage(n_features=3, noise_variance=np.ones(2)),
        lambda: Lasso(n_features=3, penalty=[BATCH]),
        lambda: bayou.registry.find(3),
        lambda: bayou.registry.find(["bank"]),
        lambda: Recipe(kind=np.ones(2)),
        lambda: Recipe(kind="table", ignore=3),
        lambda: Recipe(kind="table", positive=[1]),
        lambda: Recipe(kind="table", cross=[None]),
        lambda: Recipe(kind="table", cross=0),
        lambda: Recipe(kind="table", columns=3),
        lambda: Recipe(kind="table", columns=["y"]),
        lambda: Column("x", []),
        lambda: Column("x", "bins", edges=3),
        lambda: Column("x", "bins", edges="nan"),
        lambda: Column("x", "numeric", centre=[1]),
        lambda: sources.Extras.new("svmlight"),
        lambda: sources.Extras.of("m.bayou"),
        lambda: sources.open(3),
        lambda: sources.open([1, 2]),
        lambda: sources.open(np.array(1.0)),
        lambda: list(sources.open(pd.DataFrame([[1, 2]], columns=["a", "a"]), recipe={"label": "a"})),
        lambda: list(sources.open([pd.DataFrame([[1, 2]], columns=["a", "a"])], recipe={"label": "a"})),
        lambda: sources.open("d.svm", recipe=3),
        lambda: sources.open("d.svm", recipe={"colour": "red"}),
        lambda: sources.open("d.svm", extras=taught()),
        lambda: sources.open("d.svm", format=3),
        lambda: sources.open("d.svm", dtype="*"),
        lambda: sources.open("d.svm", labels=np.ones(2)),
        lambda: evaluate.progressive(object(), [BATCH]),
        lambda: evaluate.progressive(taught(), ["a"]),
        lambda: evaluate.progressive(taught(), 0.5),
        lambda: evaluate.progressive(taught(), np.array(1.0)),
        lambda: evaluate.progressive(taught(), [BATCH], on_progress=[]),
        lambda: evaluate.progressive(taught(), [BATCH], task=np.ones(2)),
        lambda: evaluate.best_fixed_weights("ab", 3),
        lambda: evaluate.best_fixed_weights(sp.dia_array(np.eye(3)), 3),
        lambda: evaluate.best_fixed_weights([BATCH], 3, intercept="no"),
        lambda: evaluate.least_squares({"a": 1}, 3),
        lambda: evaluate.comparator_losses("b", np.zeros(3), 0.0, 0),
        lambda: evaluate.comparator_losses(BATCH, True, 0.0, 0),
        lambda: evaluate.comparator_losses(BATCH, np.zeros(3), 0.0, "logistic"),
        lambda: evaluate.meter_for(np.ones(2)),
        lambda: evaluate.Meter().add(BATCH, [1]),
        lambda: evaluate.meter_for("cluster"),
        lambda: evaluate.Meter(curve_points=2**31),
        lambda: simulate.random(weights=np.ones(2)),
        lambda: simulate.random(weight_std=HUGE),
        lambda: bayou.train("d.svm", learner=3),
        lambda: bayou.train("d.svm", settings=[[None]]),
        lambda: bayou.train("d.svm", settings={None: 1}),
        lambda: bayou.train("d.svm", holdout="x"),
        lambda: bayou.train("d.svm", model={}),
        lambda: bayou.train(sp.eye_array(3)),
        lambda: bayou.train("d.svm", report=3),
        lambda: bayou.train("d.svm", on_note=3),
        lambda: bayou.train("d.svm", on_progress="x"),
        lambda: bayou.predict("d.svm", model=taught(), keep=3),
        lambda: bayou.predict("d.svm", model=taught(), tags=np.ones(2)),
        lambda: bayou.predict("d.svm", model=3),
    ],
)
def test_a_wrong_thing_is_answered_by_a_sentence(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("d.svm").write_text("1 0:1\n0 1:2\n")
    with pytest.raises(BadInput, match=r"[.?]$"):
        call()


@pytest.mark.parametrize(
    "spoiled",
    [
        {"nonzeros": "many"}, {"nonzeros": -1}, {"nearer": [HUGE, 1]}, {"nearer": np}, {"labels": [HUGE, 1]},
        {"weights": "ab"},
    ],
)  # fmt: skip
def test_a_meter_scores_all_or_nothing(spoiled):
    meter = evaluate.RegressionMeter()
    arguments = {"labels": [1.0, 2.0], "weights": [1.0, 1.0]} | spoiled
    with pytest.raises(BadInput):
        meter.add([1.0, 1.0], **arguments)
    assert (meter.examples, meter.nonzeros) == (0, 0)


def test_draws_that_do_not_fit_into_memory_are_refused(monkeypatch):
    learner = taught()

    def no_room(shape):
        raise MemoryError

    monkeypatch.setattr(np, "empty", no_room)
    with pytest.raises(BadInput, match="take 32 GiB, more than is available"):
        learner.sample(BATCH, 2**31)


@pytest.mark.parametrize("weight", ["x", np.ones(2), -1, float("nan"), HUGE])
def test_river_refuses_a_weight_that_is_none(weight):
    river = pytest.importorskip("bayou.river")
    model = river.Classifier("marginal", bits=6)
    with pytest.raises(BadInput):
        model.learn_one({"a": 1.0}, True, w=weight)
    with pytest.raises(BadInput):
        model.learn_many([{"a": 1.0}, {}, {}], [True, False, True], w=weight)
    assert model.model.examples == 0


@pytest.mark.parametrize("labels", [sp.eye_array(3), [[1], [0], [1]], 3])
def test_river_refuses_labels_that_are_none(labels):
    river = pytest.importorskip("bayou.river")
    with pytest.raises(BadInput):
        river.Classifier("marginal", bits=6).learn_many([{"a": 1.0}, {}, {}], labels)


def broken() -> sp.csr_array:
    matrix = sp.csr_array(np.eye(3))
    matrix.indptr = np.array([0, 2, 1, 3], np.int32)
    return matrix


@pytest.mark.parametrize("rows", [np.array(1.0), 3, {"a": 1.0}, broken()])
def test_river_refuses_rows_that_are_none(rows):
    river = pytest.importorskip("bayou.river")
    with pytest.raises(BadInput):
        river.Classifier("marginal", bits=6).predict_proba_many(rows)


def test_a_model_with_too_long_a_name_is_not_there():
    with pytest.raises(bayou.BadModel, match="no such model file"):
        bayou.load("x" * 5000)


def test_a_recipe_with_strange_parts_is_refused():
    with pytest.raises(bayou.BadModel, match="None"):
        Recipe.from_json({None: 1})


def test_what_is_refused_is_shown_even_if_it_cannot_be():
    class Shy:
        def __repr__(self):
            raise RuntimeError

    assert checks.shortened_repr(Shy()) == "some Shy"
    assert len(checks.shortened_repr("x" * 10_000)) < 250
    with pytest.raises(BadInput, match="some Shy"):
        checks.check_int("n", Shy(), 1)


def test_batches_can_still_be_pickled():
    again = pickle.loads(pickle.dumps(BATCH))
    assert again.indices.tolist() == BATCH.indices.tolist()
