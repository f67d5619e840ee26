"""What workers run, without Spark: gains as bytes, and rows that a learner refuses."""

import copy

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou import BadInput, rounds
from bayou.core.extras import Extras
from bayou.sources.rejected_rows import RejectedRows
from bayou.spark import tasks
from bayou.spark.layout import row_groups


class Held:
    """What a broadcast looks like to a task."""

    def __init__(self, value):
        self.value = value


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """A base, and 60 rows of which two are too heavy for it."""
    name = str(tmp_path_factory.mktemp("shard") / "a.parquet")
    weight = np.where(np.arange(60) % 40 == 7, 1e39, 1.0)
    rows = pa.table({"a": [f"v{k % 9000}" for k in range(60)], "w": weight, "y": [k % 2 for k in range(60)]})
    pq.write_table(rows, name)
    first = rows.slice(10, 30)
    base = bayou.train(first, label="y", weight="w", learner="marginal", bits=14, category=["a"]).learner
    return base, row_groups([name])[0]


def test_rows_that_a_learner_refuses_are_left_out_or_said(shard):
    base, parts = shard
    held = tasks.held_out(base, parts, "skip")
    assert sum(map(len, held)) == 58
    learner = copy.copy(base)
    tasks.learn_parts(learner, parts, 2.0, "skip")
    assert learner.examples == base.examples + 58
    for refused in (
        lambda: tasks.held_out(base, parts, "raise"),
        lambda: tasks.learn_parts(learner, parts, 1.0, "raise"),
    ):
        with pytest.raises(BadInput, match="8"):
            refused()


def test_gains_come_back_from_bytes_and_the_base_stays(shard):
    base, parts = shard
    told = tasks.ShardTask("key", rounds.to_bytes(base), [parts, parts], 2.0, "skip")
    batches = list(tasks.learn(Held(told), [pa.record_batch({"id": [1]}), pa.record_batch({"id": [0]})]))
    assert tasks._base["key"].examples == base.examples  # it is there for the next task
    found = tasks.unpacked(pa.Table.from_batches(batches), rounds.GAIN)
    gains = []
    for task in (1, 0):
        part = copy.copy(base)
        tasks.learn_parts(part, parts, 2.0, "skip")
        gains.append(rounds.gain(part, base, task))
    assert found.equals(pa.concat_tables(gains))
    blocks = found["block"].to_pylist()
    whole = pa.Table.from_batches(batches)
    summed = [tasks.add(whole.filter(pa.array([b == block for b in blocks]))) for block in sorted(set(blocks))]
    assert tasks.unpacked(pa.concat_tables(summed), rounds.SUM).equals(rounds.add(gains))


def test_a_task_learns_what_a_shard_of_a_bank_with_a_head_does(shard):
    _, parts = shard
    first = pq.read_table(parts[0].file).slice(10, 30)
    base = bayou.train(first, label="y", weight="w", bits=10, category=["a"], settings={"head": 4}).learner
    told = tasks.ShardTask("head", rounds.to_bytes(base), [parts], 2.0, "skip")
    found = tasks.unpacked(pa.Table.from_batches(tasks.learn(Held(told), [pa.record_batch({"id": [0]})])), rounds.GAIN)
    part = rounds.Shard(copy.copy(base))
    source = tasks.read(part.part, parts, Extras.of(part.part), "skip")
    for batch in source:
        for _ in RejectedRows(source).accepted(batch, lambda rows: part.learn(rows, 2.0)):
            pass
    assert found.equals(part.gain(0))


def test_a_task_predicts_each_row_once(shard, monkeypatch):
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'bayou[spark]'")
    from bayou.runs.predict import Predictions
    from bayou.spark import scoring

    base, _ = shard
    rows = pa.table({"a": [f"v{k}" for k in range(90)], "id": range(90)})
    expected = bayou.predict(rows, model=base, keep=["id"], tags=False).to_arrow()
    sizes, whole = [], Predictions._predict
    monkeypatch.setattr(Predictions, "_predict", lambda self, batch: (sizes.append(len(batch)), whole(self, batch))[1])
    held, task = (
        Held(("a key", rounds.to_bytes(base))),
        {"keep": ["id"], "level": 0.95, "on_error": "raise", "horizon": "later"},
    )
    found = pa.Table.from_batches(scoring.score(held, task, rows.to_batches(max_chunksize=30)))
    assert found.equals(expected)
    assert sum(sizes) == 90


def test_points_in_time_are_those_of_files():
    rows = pa.table({"t": pa.array([0, 3600], pa.timestamp("us", "America/New_York")), "n": [1, 2]})
    assert tasks.in_utc(rows).schema.field("t").type == pa.timestamp("us", "UTC")
    assert tasks.in_utc(rows)["t"].cast(pa.int64()).to_pylist() == [0, 3600]
    assert tasks.in_utc(rows.select(["n"])).equals(rows.select(["n"]))
