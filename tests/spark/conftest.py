"""One session for all tests of `bayou.spark`, and small data for it; skipped where there is no Spark."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayou


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two cores, and four attempts of every task."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'bayou[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java here for Spark")
    from pyspark.sql import SparkSession

    where = [str(Path(bayou.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, where))
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",  # points in time are the same everywhere
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def clicks(n: int, seed: int = 0) -> pa.Table:
    """Rows of two classes, with a label of three and a number besides."""
    rng = np.random.default_rng(seed)
    site, user = rng.integers(0, 40, n), np.minimum(rng.geometric(0.01, n), 300)
    age = rng.normal(40, 12, n)
    score = 0.2 * (site % 9) - 0.03 * (user % 50) + 0.02 * (age - 40)
    clicked = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    kinds = np.array(["ham", "spam", "other"])[(site + clicked) % 3]
    return pa.table(
        {
            "id": np.arange(n),
            "site": [f"s{k}.com" for k in site],
            "user": [f"u{k}" for k in user],
            "age": age,
            "seen": pa.array(1_700_000_000 + 3_600 * rng.integers(0, 2_000, n), pa.timestamp("s", "UTC")),
            "clicked": clicked,
            "kind": kinds,
            "spent": np.round(np.exp(score), 3),
        }
    )


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """A folder of four files of three row groups each, 12,000 rows, and what Spark puts beside them."""
    folder = tmp_path_factory.mktemp("clicks")
    rows = clicks(12_000)
    for k in range(4):
        pq.write_table(rows.slice(3_000 * k, 3_000), folder / f"part-{k}.parquet", row_group_size=1_100)
    (folder / "_SUCCESS").touch()
    return folder
