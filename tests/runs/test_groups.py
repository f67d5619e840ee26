"""A learner that wants groups gets them, whichever way its rows come; others do not."""

import copy
import pickle

import numpy as np
import pytest

import bayou
from bayou import Batch, rounds
from bayou.core.extras import Extras
from bayou.evaluate.progressive import progressive
from bayou.learners import Classes, Marginal
from bayou.learners.classes.compact_index import FEW, CompactIndex
from bayou.recipe.recipe import Recipe
from bayou.rounds.processes import _WorkerLoop
from bayou.runs.compare import compare
from bayou.serve.log import ARROW, JSON, SVMLIGHT, VW
from bayou.serve.row_reader import RowReader

CSV = "site,size,y\n" + "".join(f"s{k % 3},{k % 7},{k % 2}\n" for k in range(40))


@pytest.fixture
def met(monkeypatch):
    """What the marginal learner, which wants groups here, gets of them."""
    seen = []

    def watched(run):
        def both(self, rows, *rest):
            seen.append(rows.groups)
            return run(self, rows, *rest)

        return both

    wants = property(lambda self: True, lambda self, value: None)  # whatever the constructor sets
    monkeypatch.setattr(Marginal, "wants_groups", wants, raising=False)
    for name in ("_run", "_run_example"):
        monkeypatch.setattr(Marginal, name, watched(getattr(Marginal, name)))
    return seen


@pytest.fixture
def data(tmp_path):
    (tmp_path / "d.csv").write_text(CSV)
    return tmp_path / "d.csv"


def all_of(met) -> set[int]:
    """The groups there were in the batches so far; each must have had some."""
    assert met
    assert all(groups is not None for groups in met)
    found = {int(group) for groups in met for group in groups}
    met.clear()
    return found


def test_runs_ask_for_them(data, met, tmp_path):
    model = tmp_path / "m"
    bayou.train(data, learner="marginal", bits=10, label="y", holdout=0.2, model=model)
    assert all_of(met) == {1, 2}
    bayou.train(data, resume=model, delay=3, model=model)
    assert all_of(met) == {1, 2}
    bayou.predict(data, model=model).to_arrow()
    assert all_of(met) == {1, 2}
    compare(data, ["marginal", "adagrad"], bits=10, label="y")
    assert all_of(met) == {1, 2}


def test_whoever_reads_by_a_models_extras_reads_as_it_has_learned(data, met, tmp_path):
    bayou.train(data, learner="marginal", bits=10, label="y", model=tmp_path / "with")
    bayou.train(data, learner="adagrad", bits=10, label="y", model=tmp_path / "without")
    for name, has in (("with", True), ("without", False)):
        learner = bayou.load(tmp_path / name)
        for labels in (True, False):
            (batch,) = bayou.sources.open(data, extras=learner.extras, labels=labels)
            assert (batch.groups is not None) == has
    assert (tmp_path / "without").read_bytes().count(b'"groups"') == 0
    one = bayou.load(tmp_path / "with")
    assert one.merge(one).extras.groups
    assert Extras.of(one).copy().groups


def test_others_do_not_get_any(data, monkeypatch):
    met, run = [], Marginal._run
    monkeypatch.setattr(Marginal, "_run", lambda self, rows, *rest: met.append(rows.groups) or run(self, rows, *rest))
    bayou.train(data, learner="marginal", bits=10, label="y")
    assert met
    assert all(groups is None for groups in met)


def test_several_classes_want_what_their_learners_want(tmp_path, met):
    (tmp_path / "c.csv").write_text("site,size,y\n" + "".join(f"s{k % 3},{k % 7},c{k % 3}\n" for k in range(40)))
    learner = bayou.train(tmp_path / "c.csv", learner="marginal", bits=10, label="y").learner
    assert isinstance(learner, Classes)
    assert learner.wants_groups
    assert all_of(met) == {1, 2}
    assert not Classes(n_features=3, learner="adagrad").wants_groups


def test_workers_read_them(data, met):
    base = bayou.train(data, learner="marginal", bits=10, label="y").learner
    met.clear()
    worker = _WorkerLoop({"data": str(data)}, "float32")
    worker._base(rounds.to_bytes(base))
    worker._round(0, 1.0)
    for cut in worker._source.blocks():
        worker._shard.learn(worker._source.read(cut), 1.0)
    assert all_of(met) == {1, 2}


def test_tasks_of_spark_read_them(tmp_path, met):
    tasks = pytest.importorskip("bayou.spark.tasks")
    import pyarrow as pa
    import pyarrow.parquet as pq

    from bayou.sources.row_group_slices import RowGroupSlice

    table = pa.table({"site": ["a", "b"] * 9, "size": [1.0, 2.0, 3.0] * 6, "y": [0, 1] * 9})
    pq.write_table(table, tmp_path / "t.parquet")
    learner = bayou.train(table, learner="marginal", bits=10, label="y").learner
    met.clear()
    tasks.learn_parts(learner, [RowGroupSlice(str(tmp_path / "t.parquet"), 0, 0, 18)], 1.0, "raise")
    assert all_of(met) == {1, 2}


@pytest.mark.parametrize(
    ("form", "recipe", "row", "n"),
    [
        (JSON, Recipe("rows", bits=20), b'{"a": 1.5, "b": "c", "label": 1}', 2),
        (VW, Recipe("vw", bits=20), b"1 |a x y |b z", 2),
        (SVMLIGHT, Recipe("svmlight", bits=20, ranges=[("a", 1, 9)]), b"1 3:1 12:4", 2),
    ],
)
@pytest.mark.parametrize("learns", [True, False])
def test_servers_read_them(met, form, recipe, row, n, learns):
    learner = Marginal(n_features=1 << 20)
    learner.extras = Extras.new(recipe)
    batch = RowReader(learner).read(form, [row, b"{", row] if form == JSON else [row, row], learns).batch
    assert len(batch) == 2
    assert len(set(batch.groups.tolist())) == n
    assert batch[:1].groups.tolist() == batch[1:].groups.tolist()


def test_servers_of_tables_read_them(data, met):
    import pyarrow as pa

    reading = RowReader(bayou.train(data, learner="marginal", bits=20, label="y").learner)
    assert reading.read(JSON, [b'{"site": "s1", "size": 3}'], learns=False).batch.groups.tolist() == [1, 2, 2]
    stream = pa.BufferOutputStream()
    table = pa.table({"site": ["s1"], "size": [3.0]})
    with pa.ipc.new_stream(stream, table.schema) as out:
        out.write_table(table)
    body = stream.getvalue().to_pybytes()
    assert reading.read(ARROW, [body], learns=False).batch.groups.tolist() == [1, 2, 2]


def test_rows_of_river_have_them(met):
    river = pytest.importorskip("bayou.river")
    for hashing in (True, False):
        model = river.Classifier("marginal", bits=16, hashing=hashing)
        rows = [{"a": 1.0, "b": "x"}, {"a": 2.0, "b": "y"}]
        model.learn_one(rows[0], True)
        model.learn_many(rows, [True, False])
        model.predict_proba_one(rows[1])
        model.predict_proba_many(rows)
        assert len(all_of(met)) == 2
    assert river.Classifier("adagrad", bits=8)._rows.encode_row({"a": 1.0})[0].groups is None


# --- what rows go through ---------------------------------------------------------------------------------------------


def grouped(n: int = 12) -> Batch:
    """Groups that the features tell: of feature 5 it is 6."""
    batch = Batch.from_rows([{k % 5: 1.0, 5 + k: 2.0} for k in range(n)], labels=[k % 2 for k in range(n)])
    return batch.with_groups(batch.indices + 1)


def test_examples_that_wait_for_their_labels_keep_them(met):
    batch = grouped()
    fed = []

    class Watching(Marginal):
        def _run(self, rows, *rest):
            fed.append((rows.indices + 1, rows.groups))
            return super()._run(rows, *rest)

    progressive(Watching(n_features=20), [batch[:5], batch[5:]], delay=3)
    assert sum(len(groups) for _, groups in fed) == 2 * batch.nonzeros  # predicted, and learned
    assert all((features == groups).all() for features, groups in fed)


def test_features_that_are_placed_anew_keep_them():
    batch = grouped()
    table = CompactIndex(4 * FEW, numbered=True)
    placed = table.reindex(batch, np.ones(len(batch)))
    assert placed.indices.tolist() != batch.indices.tolist()
    assert placed.groups.tolist() == batch.groups.tolist()


def test_copies_keep_them():
    batch = grouped()
    for other in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
        assert other.groups.tolist() == batch.groups.tolist()


def test_rounds_keep_them(met):
    base = Marginal(n_features=20)
    rounds.learn_shard(base, [grouped()], weight=2.0)
    rounds.learn_mergeable(base, grouped(), weight=0.5)
    assert all_of(met) == set(range(1, 18))
