"""What is missing, or went wrong in a worker, gets a sentence."""

import importlib.util
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import bayou
from bayou import BadInput, BadModel


def test_without_pyspark_it_says_what_to_install(monkeypatch):
    for name in ("pyspark", "pyspark.errors", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    path = Path(bayou.__file__).parent / "spark" / "engine.py"
    spec = importlib.util.spec_from_file_location("engine_without_pyspark", path)
    with pytest.raises(ImportError, match=r"pip install '.\[spark\]'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.fixture
def engine():
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'bayou[spark]'")
    from bayou.spark import engine

    return engine


def test_without_java_it_says_so(engine, monkeypatch):
    from pyspark.errors import PySparkRuntimeError

    class Builder:
        def getOrCreate(self):
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(engine.SparkSession, "builder", Builder())
    monkeypatch.setattr(engine.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(BadInput, match="finds no Java; install Java 17"):
        engine.session()
    with pytest.raises(BadInput, match="Spark Connect"):
        engine.usable(object())


def test_errors_of_workers_are_sentences(engine):
    from pyspark.errors import PythonException

    for said, kind, words in (
        ("Traceback ...\nbayou.core.errors.BadInput: a.parquet: no.\n\nat org.apache", BadInput, r"^a\.parquet: no\.$"),
        ("Traceback ...\nbayou.core.errors.BadModel: of another kind.", BadModel, r"^of another kind\.$"),
        ("ModuleNotFoundError: No module named 'bayou'", BadInput, "workers have no bayou"),
        ("ZeroDivisionError: division by zero", PythonException, "division"),
    ):
        with pytest.raises(kind, match=words), engine.sentences():
            raise PythonException(said)


@pytest.mark.long
def test_workers_import_nothing_from_the_current_folder(engine, spark):
    def told(batches):
        yield pa.RecordBatch.from_pydict({"safe": [sys.flags.safe_path]})

    before = dict(spark.sparkContext.environment)
    with engine.safe_workers(spark.sparkContext):
        ours = spark.range(1).mapInArrow(told, "safe boolean")
    assert spark.sparkContext.environment == before
    assert {row.safe for row in ours.collect()} == {True}


@pytest.mark.long
def test_all_that_runs_in_workers_runs_in_safe_ones(engine, spark, monkeypatch):
    from bayou.spark import transform

    handed = []

    def spy(kind, name):
        usual = getattr(kind, name)

        def method(self, *arguments, **options):
            handed.append((name, spark.sparkContext.environment.get("PYTHONSAFEPATH")))
            return usual(self, *arguments, **options)

        monkeypatch.setattr(kind, name, method)

    spy(type(spark.range(1)), "mapInArrow")
    spy(type(spark.range(1).groupBy("id")), "applyInArrow")
    learner = bayou.train(pa.table({"x": [1.0, 2.0] * 10, "y": [0, 1] * 10}), label="y", learner="marginal").learner
    engine.summed_gains(spark, learner, [[], []], 1.0, "raise")
    transform(spark.createDataFrame([(1.0,)], "x double"), learner)
    assert handed == [("mapInArrow", "1"), ("applyInArrow", "1"), ("mapInArrow", "1")]
