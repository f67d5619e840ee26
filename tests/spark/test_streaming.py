"""`bayou.spark.foreach_batch`: every micro-batch is learned once, also where a driver dies between save and commit."""

import logging
from dataclasses import replace
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou
from bayou import BadInput, BadModel
from bayou import spark as face

from .conftest import clicks

pytestmark = pytest.mark.long
LEARNED = {"label": "clicked", "learner": "marginal", "bits": 12, "ignore": ["id", "kind", "spent"]}


@pytest.fixture(scope="module")
def stream(spark, tmp_path_factory):
    """Three files, of which each is a micro-batch."""
    folder = tmp_path_factory.mktemp("stream")
    for k in range(3):
        pq.write_table(clicks(400, seed=k), folder / f"{k}.parquet")
    schema = spark.read.parquet(folder.as_uri()).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder.as_uri())


def run(stream, learn, checkpoint) -> None:
    query = stream.writeStream.foreachBatch(learn).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def test_a_cut_between_save_and_commit_changes_no_bit(stream, tmp_path, caplog):
    from pyspark.errors import StreamingQueryException

    whole, cut = tmp_path / "whole.bayou", tmp_path / "cut.bayou"
    run(stream, face.foreach_batch(whole, **LEARNED), tmp_path / "one")
    learn = face.foreach_batch(cut, **LEARNED)

    def saves_and_dies(df, batch_id):
        learn(df, batch_id)
        if batch_id == 1:
            raise RuntimeError("dies before Spark has noted it")

    with pytest.raises(StreamingQueryException):
        run(stream, saves_and_dies, tmp_path / "two")
    assert bayou.load(cut).extras.rounds.batch == 1
    with caplog.at_level(logging.WARNING, "bayou.spark"):
        run(stream, learn, tmp_path / "two")  # Spark gives batch 1 again
    assert "has learned batches up to 1 already" in caplog.text
    assert cut.read_bytes() == whole.read_bytes()
    found = bayou.load(cut)
    assert (found.examples, found.extras.rounds.batch, found.extras.counters.examples) == (1200, 2, 1200)


def test_a_batch_is_learned_as_bayou_train_does(spark, tmp_path):
    place = tmp_path / "m.bayou"
    learn = face.foreach_batch(place, **LEARNED | {"label": "kind", "ignore": ["id"]})  # several classes
    tables = [clicks(300, seed=k) for k in range(2)]
    for k, table in enumerate(tables):
        learn(spark.createDataFrame(table).coalesce(1), k)
    learn(spark.createDataFrame(tables[0].slice(0, 0)), 2)
    found = bayou.load(place)
    assert found.extras.rounds.batch == 1  # nothing is no batch
    again = bayou.train(tables[0], label="kind", learner="marginal", bits=12, ignore=["id"]).learner
    again = bayou.train(tables[1], resume=again).learner
    assert found.class_names == again.class_names
    for mine, theirs in zip(found._arrays().values(), again._arrays().values(), strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("learner", ["marginal", "bank"])
def test_a_large_batch_is_a_round(spark, tmp_path, learner):
    place = tmp_path / "m.bayou"
    learn = face.foreach_batch(place, large=900, **LEARNED | {"learner": learner})
    many, few = clicks(1_000, seed=1), clicks(1_000, seed=2)
    learn(spark.createDataFrame(many), 0)
    before = bayou.load(place)
    learn(spark.createDataFrame(few), 1)
    after = bayou.load(place)
    # Held-out rows are learned, too, in the end.
    assert (before.examples, after.examples, after.extras.rounds.batch) == (1_000, 2_000, 1)
    # Too many for what is known: in sequence.
    learn(spark.createDataFrame(clicks(2_100, seed=3)), 2)
    assert bayou.load(place).examples == 2_000 + 2_100


def without_labels(table, labels=None):
    """The table with other labels, or with none."""
    place = table.schema.get_field_index("clicked")
    return table.set_column(place, "clicked", pa.nulls(len(table), pa.int64()) if labels is None else labels)


@pytest.mark.parametrize("large", [900, 1_000_000], ids=["in a round", "in sequence"])
def test_a_batch_with_nothing_to_learn_counts_as_learned(spark, tmp_path, large, caplog):
    place, rows = tmp_path / "m.bayou", clicks(1_000)
    options = LEARNED | {"learner": "bank", "large": large}
    learn = face.foreach_batch(place, **options)
    learn(spark.createDataFrame(without_labels(rows)), 0)
    assert (
        "batch 0: none of its 1,000 rows could be learned from; the first: the table:1: expected a label" in caplog.text
    )
    assert not place.exists()  # and the next batch makes it
    learn(spark.createDataFrame(rows), 1)
    before = bayou.load(place)
    for batch, labels in ((2, None), (3, pa.array(["ham"] * 1_000))):
        learn(spark.createDataFrame(without_labels(rows, labels)), batch)
        assert f"batch {batch}: none of its 1,000 rows could be learned from" in caplog.text
        after = bayou.load(place)
        assert (after.extras.rounds.batch, after.extras.counters.skipped) == (batch, 1_000 * (batch - 1))
        for mine, theirs in zip(after._arrays().values(), before._arrays().values(), strict=True):
            assert mine.tobytes() == theirs.tobytes()
        assert replace(after.extras.counters, skipped=0) == before.extras.counters
    learn(spark.createDataFrame(rows), 4)
    assert bayou.load(place).examples == 2_000
    # Bad rows are still an error where they were asked to be one.
    strict = face.foreach_batch(place, on_error="raise", **options)
    with pytest.raises(BadInput, match="expected a label in column clicked") as told:
        strict(spark.createDataFrame(without_labels(rows)), 5)
    assert not isinstance(told.value.__context__, ValueError)
    assert bayou.load(place).extras.rounds.batch == 4


def test_a_round_learns_where_no_row_that_is_held_out_counts(spark, tmp_path):
    from bayou.spark.layout import plan_layout

    place, folder, rows = tmp_path / "m.bayou", tmp_path / "rows", clicks(1_000)
    learn = face.foreach_batch(place, large=900, folder=folder, **LEARNED | {"learner": "bank"})
    learn(spark.createDataFrame(rows), 0)
    learn(spark.createDataFrame(rows).coalesce(1), 1)
    (file,) = (folder / "batch-1").glob("*.parquet")
    held = {number for part in plan_layout([str(file)], None, "given", 0, 25).held.parts for number in range(*part[2:])}
    assert 10 <= len(held) <= 100
    labels = pa.array([None if k in held else label for k, label in enumerate(rows["clicked"].to_pylist())])
    learn(spark.createDataFrame(without_labels(rows, labels)).coalesce(1), 2)
    assert bayou.load(place).examples == 3_000 - len(held)


def test_a_round_that_died_is_learned_when_spark_gives_its_batch_again(spark, tmp_path, monkeypatch):
    from bayou.spark import engine

    place, rows = tmp_path / "m.bayou", spark.createDataFrame(clicks(1_000))
    learn = face.foreach_batch(place, large=900, folder=tmp_path / "rows", **LEARNED)
    learn(rows, 0)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "summed_gains", Mock(side_effect=RuntimeError("dies")))
        with pytest.raises(RuntimeError, match="dies"):
            learn(rows, 1)
    learn(rows, 1)
    assert bayou.load(place).examples == 2_000


def test_a_first_batch_of_one_label_is_warned_of(spark, tmp_path, caplog):
    rows, sentence = clicks(100), "all labels of the first batch are the same: check label= and positive="
    face.foreach_batch(tmp_path / "a.bayou", **LEARNED)(spark.createDataFrame(rows), 0)
    assert sentence not in caplog.text
    learn = face.foreach_batch(tmp_path / "b.bayou", **LEARNED)
    for batch in range(2):
        learn(spark.createDataFrame(without_labels(rows, pa.array([1] * 100))), batch)
    assert caplog.text.count(sentence) == 1  # later batches may be small


def test_a_stream_goes_on_after_files_without_labels(spark, tmp_path):
    folder, place = tmp_path / "rows", tmp_path / "m.bayou"
    folder.mkdir()
    for k in range(3):
        pq.write_table(clicks(200) if k == 2 else without_labels(clicks(200)), folder / f"{k}.parquet")
    schema = spark.read.parquet(folder.as_uri()).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder.as_uri())
    run(stream, face.foreach_batch(place, **LEARNED), tmp_path / "checkpoint")
    learned = bayou.load(place)
    assert (learned.examples, learned.extras.rounds.batch) == (200, 2)


def test_what_is_wrong_is_said_before_the_stream(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'bayou[spark]'")
    with pytest.raises(BadInput, match="no folder"):
        face.foreach_batch(tmp_path / "none" / "m.bayou", label="y")
    with pytest.raises(BadInput, match="large"):
        face.foreach_batch(tmp_path / "m.bayou", label="y", large=0)
    with pytest.raises(BadInput, match="there is no option 'labl'"):
        face.foreach_batch(tmp_path / "m.bayou", label="y", labl="z")


def test_another_recipe_is_refused(spark, tmp_path):
    place = tmp_path / "m.bayou"
    rows = spark.createDataFrame(clicks(200))
    face.foreach_batch(place, **LEARNED)(rows, 0)
    before = place.read_bytes()
    with pytest.raises(BadModel, match="bits=14 was given"):
        face.foreach_batch(place, **LEARNED | {"bits": 14})(rows, 1)
    assert place.read_bytes() == before


@pytest.mark.parametrize("large", [900, 1_000_000], ids=["in a round", "in sequence"])
def test_a_missing_column_is_told_before_any_row_is_read(spark, tmp_path, large):
    place, folder = tmp_path / "m.bayou", tmp_path / "rows"
    learn = face.foreach_batch(place, large=large, folder=folder, **LEARNED)
    rows = spark.createDataFrame(clicks(1_000))
    learn(rows, 0)
    before = place.read_bytes()
    for name in ("site", "clicked"):
        unreadable = rows.drop(name).withColumn("id", _fails("id"))
        with pytest.raises(BadInput, match=f"^the table: there is no column '{name}' .*, which the recipe needs"):
            learn(unreadable, 1)
    assert place.read_bytes() == before
    assert not folder.exists()
    learn(rows, 1)
    assert bayou.load(place).extras.rounds.batch == 1


def _fails(column):
    """The column, of which Spark can read no row."""
    from pyspark.sql import functions

    return functions.when(functions.col(column) >= 0, functions.raise_error(functions.lit("read"))).cast("long")
