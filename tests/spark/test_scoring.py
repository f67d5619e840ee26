"""`bayou.spark.transform` predicts what `bayou predict` does, to the bit."""

import os
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import bayou
from bayou import BadInput
from bayou import spark as face
from bayou.cli import app

from .conftest import clicks

pytestmark = pytest.mark.long
SMALL = {"label": "clicked", "learner": "marginal", "bits": 8, "ignore": ["id", "kind", "spent"]}
OTHERS = {"clicked": ["kind", "spent"], "kind": ["clicked", "spent"], "spent": ["clicked", "kind"]}


@pytest.fixture(scope="module")
def model():
    """One that has learned a table with a category that may be missing, and with weights."""
    rows = clicks(500)
    rows = rows.append_column("worth", pa.array(1.0 + np.arange(500) % 3))
    options = {"label": "clicked", "learner": "marginal", "bits": 10, "weight": "worth"}
    return bayou.train(rows, ignore=["id", "kind", "spent"], **options).learner


def predicted(data, model, out, *options) -> pa.Table:
    """What `bayou predict` writes."""
    said = CliRunner().invoke(app, ["predict", str(data), "--model", str(model), "--out", str(out), *options])
    assert said.exit_code == 0, said.output
    return pq.read_table(out)


def same_bits(found: pa.Table, expected: pa.Table) -> None:
    for name in expected.column_names:
        assert found[name].to_pylist() == expected[name].to_pylist(), name


@pytest.mark.parametrize("label", OTHERS)
def test_the_bits_of_bayou_predict(spark, files, tmp_path, label):
    first, last = (str(files / f"part-{k}.parquet") for k in (0, 3))
    learner = "gaussian" if label == "spent" else "marginal"
    model = tmp_path / "m.bayou"
    bayou.train(first, label=label, learner=learner, bits=12, ignore=["id", *OTHERS[label]], model=model)
    expected = predicted(last, model, tmp_path / "out.parquet", "--keep", "id")
    frame = spark.read.parquet(f"file://{last}").repartition(3)
    found = face.transform(frame, model).toArrow().sort_by("id")
    assert found.column_names == [*frame.columns, *expected.column_names[1:]]
    same_bits(found, expected)
    assert found.slice(0, 9)["seen"].to_pylist() == pq.read_table(last)["seen"].to_pylist()[:9]
    kept = face.transform(frame.limit(5), bayou.load(model), level=0.5, keep=["site"])
    assert kept.columns == ["site", *expected.column_names[1:]]


@pytest.mark.parametrize("label", OTHERS)
def test_the_bits_of_either_horizon(spark, files, tmp_path, label):
    first, last = (str(files / f"part-{k}.parquet") for k in (0, 3))
    model, frame = tmp_path / "m.bayou", spark.read.parquet(f"file://{last}").repartition(2)
    bayou.train(first, label=label, bits=12, ignore=["id", *OTHERS[label]], model=model)  # a bank: it tells them apart
    expected = {
        horizon: predicted(last, model, tmp_path / "out.parquet", "--keep", "id", *said)
        for horizon, said in {"later": [], "next": ["--horizon", "next"]}.items()
    }
    assert not expected["next"].equals(expected["later"])
    for horizon in expected:
        same_bits(face.transform(frame, model, horizon=horizon).toArrow().sort_by("id"), expected[horizon])
    same_bits(face.transform(frame, model).toArrow().sort_by("id"), expected["later"])


def test_a_missing_column_is_told_in_the_driver(spark, model, tmp_path):
    rows = clicks(30)
    frame = spark.createDataFrame(rows)
    for name in ("site", "age"):
        with pytest.raises(BadInput, match=f"^the table: there is no column '{name}' .*, which the recipe") as told:
            face.transform(frame.drop(name), model)
        with pytest.raises(BadInput) as expected:
            bayou.predict(rows.drop_columns([name]), model=model)
        assert str(told.value) == str(expected.value)
    renamed = frame.withColumnRenamed("site", "sit")
    with pytest.raises(BadInput, match="Did you mean sit"):
        face.transform(renamed, model)
    place = tmp_path / "rows"
    frame.write.parquet(place.as_uri())
    stream = spark.readStream.schema(frame.schema).parquet(place.as_uri())
    with pytest.raises(BadInput, match="there is no column 'user'"):
        face.transform(stream.drop("user"), model)
    # Neither labels nor weights are needed.
    expected = bayou.predict(rows, model=model, tags=False).to_arrow()
    found = face.transform(frame.drop("clicked", "id", "kind", "spent").coalesce(1), model).toArrow()
    same_bits(found, expected)


def test_what_a_model_cannot_read_is_told_in_the_driver(spark):
    from bayou.learners import Marginal

    frame = spark.createDataFrame(clicks(5))
    with pytest.raises(BadInput, match="a table needs a recipe for table data, but this one is for svmlight data"):
        face.transform(frame, Marginal(n_features=8))


def test_names_that_are_one_to_spark_get_a_sentence(spark, model):
    from pyspark.sql import functions

    frame = spark.createDataFrame(clicks(5))
    for name in ("site", "SITE"):
        with pytest.raises(BadInput, match=f"^the columns 'site' and '{name}' are the same name to Spark; rename one"):
            face.transform(frame.select("*", functions.lit("a").alias(name)), model)


def test_numbers_where_texts_were_learned_are_warned_of(spark, caplog):
    rows = clicks(100).append_column("zip", pa.array([f"0{k % 9}12" for k in range(100)]))
    model = bayou.train(rows, category=["age"], **SMALL).learner
    frame = spark.createDataFrame(rows)
    face.transform(frame.withColumn("zip", frame.id), model)  # of texts that are numbers, too
    face.transform(frame.withColumn("age", frame.id), model)
    assert "holds numbers" not in caplog.text
    face.transform(frame.withColumn("site", frame.id), model)
    assert "the column 'site' holds numbers, but the model has learned texts there, such as 's" in caplog.text
    assert caplog.text.count("holds numbers") == 1


def test_columns_are_called_as_workers_call_them(spark):
    from pyspark.ml.linalg import Vectors

    from bayou.sources.formats.arrow.cells import names_of
    from bayou.spark.columns import outline

    plain = spark.sql(
        "select 1 as a, named_struct('x', 1, 'y', named_struct('z', 2, 'of', array(1))) as s, map('k', 1) as m, "
        "array(named_struct('p', 1)) as l, parse_json('{}') as v, interval '1' day as d, timestamp'2024-01-01' as t, "
        "named_struct('v', parse_json('1')) as n, null as nothing"
    )
    vectors = spark.createDataFrame([(Vectors.dense([1.0]),)], ["vector"])
    for frame, some in ((plain, "s.y.z"), (vectors, "vector.values")):
        names = frame.mapInArrow(_names, "name string").toArrow()["name"].to_pylist()
        assert some in names
        assert names_of(outline(frame).schema) == names


def _names(batches):
    for batch in batches:
        from bayou.sources.formats.arrow.cells import names_of

        yield pa.RecordBatch.from_pydict({"name": names_of(batch.schema)})


def test_parts_of_structs_are_columns(spark):
    rows = pa.table({"user": [{"age": k % 9, "town": f"t{k % 5}"} for k in range(90)], "y": [0, 1, 1] * 30})
    learner = bayou.train(rows, label="y", learner="marginal", bits=8).learner
    frame = spark.createDataFrame(rows).coalesce(1)
    found = face.transform(frame, learner, keep=["y"]).toArrow()
    same_bits(found, bayou.predict(rows, model=learner).to_arrow())
    with pytest.raises(BadInput, match=r"there is no column 'user\.town' \(category\)"):
        face.transform(frame.select(frame.user.dropFields("town").alias("user")), learner)


def test_nothing_and_bad_rows(spark, tmp_path):
    rows = pa.table({"a": [1.0, 2.0, 3.0, 4.0] * 20, "y": [0, 1] * 40})
    learner = bayou.train(rows, label="y", learner="marginal", bits=8).learner
    empty = spark.createDataFrame([], "a double, y int")
    assert face.transform(empty, learner).collect() == []
    some = face.transform(spark.createDataFrame([(1.0, None), (None, 1)], "a double, y int"), learner)
    assert np.isfinite([row.probability for row in some.collect()]).all()
    with pytest.raises(BadInput, match="DataFrame of Spark"):
        face.transform(rows, learner)
    frame = spark.createDataFrame([(1.0, 0.5)], "a double, mean double")
    with pytest.raises(BadInput, match="'mean' would appear twice"):
        face.transform(frame, learner)
    with pytest.raises(BadInput, match="keep= names 'b'; the columns are a, mean"):
        face.transform(frame, learner, keep=["b"])
    with pytest.raises(BadInput, match="level"):
        face.transform(frame, learner, keep=["a"], level=2.0)
    with pytest.raises(BadInput, match="horizon is 'soon'; it must be one of 'next', 'later'"):
        face.transform(frame, learner, keep=["a"], horizon="soon")


def files_of_broadcasts(spark) -> set[str]:
    """What PySpark has in the driver's temporary folder."""
    return set(os.listdir(spark.sparkContext._temp_dir))


def new_version(place, seed: int):
    """Another version of a model file; and its learner."""
    learner = bayou.train(clicks(20, seed=seed), **SMALL).learner
    learner.save(place)
    return learner


def test_calls_with_one_model_share_its_broadcast(spark, tmp_path):
    place, rows = tmp_path / "m.bayou", clicks(20)
    learner, frame = new_version(place, seed=1), spark.createDataFrame(rows).coalesce(1)
    before, expected = files_of_broadcasts(spark), bayou.predict(rows, model=learner, tags=False).to_arrow()
    for k in range(25):
        same = [str(place), place, learner, bayou.load(place)][k % 4]
        found = face.transform(frame, same, level=[0.95, 0.5][k % 2], keep=[["id"], ["site"]][k % 2])
        if k in (0, 24):
            same_bits(found.toArrow(), expected)
    learner.save(place)  # another file of the same content
    face.transform(frame, place)
    assert len(files_of_broadcasts(spark) - before) == 1


@pytest.mark.parametrize("in_file", [True, False], ids=["in a file", "in memory"])
def test_new_versions_take_the_place_of_old_ones(spark, tmp_path, in_file):
    from bayou.spark import broadcasts

    place, frame, before = (
        tmp_path / "m.bayou",
        spark.createDataFrame(clicks(5)).coalesce(1),
        files_of_broadcasts(spark),
    )
    for k in range(40):
        learner = new_version(place, seed=k)
        found = face.transform(frame, place if in_file else learner, keep=["id"])
        if k == 3:
            assert found.count() == 5
        left = files_of_broadcasts(spark) - before
        if k > 12 and len(left) <= broadcasts.MAX_MODELS + broadcasts.MAX_RELEASED:
            break
        time.sleep(0.1)  # Java hears within a second that Python needs an object no more
    assert len(left) <= broadcasts.MAX_MODELS + broadcasts.MAX_RELEASED


def test_frames_keep_their_versions_of_a_model(spark, tmp_path, monkeypatch):
    from bayou.spark import broadcasts

    monkeypatch.setattr(broadcasts, "MAX_RELEASED", 0)  # unused ones are looked for in every call
    monkeypatch.setattr(broadcasts.broadcasts_of(spark.sparkContext), "_collect_at", 0)
    place, rows, kept, expected = tmp_path / "m.bayou", clicks(20), [], []
    frame, before = spark.createDataFrame(rows).coalesce(1), files_of_broadcasts(spark)
    for k in range(4):
        expected.append(bayou.predict(rows, model=new_version(place, seed=k), keep=["id"]).to_arrow().slice(10))
        # The frame that transform returned is gone at once, and only one that was made of it is left.
        kept.append(face.transform(frame, place, keep=["id"]).filter("id >= 10"))
    kept.pop().createOrReplaceTempView("scored")  # of which Python has nothing
    kept.append(spark.table("scored"))
    time.sleep(1.1)
    for k in range(4, 6):
        new_version(place, seed=k)
        face.transform(frame, place)
    for found, right in zip(kept, expected, strict=True):
        same_bits(found.toArrow(), right)
    versions = files_of_broadcasts(spark) - before
    assert len(versions) >= len(kept)
    spark.catalog.dropTempView("scored")
    del found
    kept.clear()
    for k in range(6, 46):
        new_version(place, seed=k)
        face.transform(frame, place)
        if not versions & files_of_broadcasts(spark):
            break
        time.sleep(0.1)
    assert not versions & files_of_broadcasts(spark)


def test_a_new_session_has_broadcasts_of_its_own(tmp_path, monkeypatch):
    from bayou.learners import Marginal
    from bayou.spark import broadcasts

    class Context:
        """As much of a SparkContext as is needed."""

        def broadcast(self, value):
            (tmp_path / value.key).touch()
            return SimpleNamespace(value=value, _path=tmp_path / value.key)

    learner = Marginal(n_features=8)
    first, second = broadcasts.ModelBroadcasts(Context()), Context()
    monkeypatch.setattr(broadcasts, "_current", first)
    held = first.get(learner, None)
    assert first.get(learner, "m.bayou") is held
    assert len(os.listdir(tmp_path)) == 1
    assert broadcasts.broadcasts_of(first.context) is first
    other = broadcasts.broadcasts_of(second)
    assert os.listdir(tmp_path) == []
    assert other.get(learner, None) is not held
    assert other.get(learner, None).value == held.value
    for bits in range(1, 9):  # what cannot be watched is left to Spark
        other.get(Marginal(n_features=2**bits), None)
    assert len(os.listdir(tmp_path)) == 8


def test_the_level_is_that_of_bayou_predict(spark, model):
    rows = clicks(20)
    found = face.transform(spark.createDataFrame(rows).coalesce(1), model).toArrow()
    expected = bayou.predict(rows, model=model).to_arrow()
    same_bits(found.select(["low", "high"]), expected.select(["low", "high"]))
