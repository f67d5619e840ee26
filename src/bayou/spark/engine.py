"""The Spark session, a round as one Spark job, and translation of Spark's errors."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from bayou import rounds
from bayou.core.arrow import pa
from bayou.core.children import safe_environment
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.sources.row_group_slices import RowGroupSlice
from bayou.spark import tasks

try:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
except ImportError:
    raise ImportError(
        "bayou.spark needs pyspark, which is not installed: run pip install '.[spark]' in a checkout of bayou."
    ) from None


_OURS = re.compile(r"bayou\.core\.errors\.(BadInput|BadModel): (.+)")


def session() -> SparkSession:
    """Return the active session, or start one."""
    active = SparkSession.getActiveSession()
    if active is None:
        try:
            with safe_environment():  # for Spark's processes and their Python workers
                active = SparkSession.builder.getOrCreate()
        except PySparkException as error:
            if "JAVA" not in str(error):
                raise
            raise BadInput(
                "Spark cannot start: it finds no Java; install Java 17 or newer, and set JAVA_HOME to its folder."
            ) from None
    return usable(active)


def usable(spark: Any) -> SparkSession:
    """Return the session. Raise BadInput for Spark Connect, which has no broadcasts."""
    if not isinstance(spark, SparkSession):
        raise BadInput("bayou.spark needs a session in this process; one of Spark Connect cannot hand models to tasks.")
    context = spark.sparkContext
    if str(context.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # the Python in which bayou is installed
    return spark


@contextlib.contextmanager
def safe_workers(context: Any) -> Iterator[None]:
    """Keep workers of functions passed to Spark in the block from importing modules from the current folder."""
    environment = dict(context.environment)
    context.environment["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        context.environment.clear()
        context.environment.update(environment)


def is_frame(data: Any) -> bool:
    """Return whether `data` is a Spark DataFrame."""
    return hasattr(data, "mapInArrow") and hasattr(data, "sparkSession")


def summed_gains(
    spark: SparkSession, base: Learner, shards: list[list[RowGroupSlice]], weight: float, on_error: str
) -> pa.Table:
    """Learn each shard from the base and return the sum of their gains, in one Spark job."""
    context = spark.sparkContext
    task = tasks.ShardTask(secrets.token_hex(8), rounds.to_bytes(base), shards, weight, on_error)
    handle = context.broadcast(task)
    try:
        with sentences(), safe_workers(context):
            gains = spark.range(0, len(shards), 1, len(shards)).mapInArrow(partial(tasks.learn, handle), tasks.PACKED)
            # As many sums at a time as there are cores, instead of Spark's two hundred.
            blocks = gains.repartition(max(min(context.defaultParallelism, len(shards)), 1), "block").groupBy("block")
            summed = blocks.applyInArrow(tasks.add, tasks.PACKED).toArrow()
    finally:
        handle.destroy()
    return tasks.unpacked(summed, rounds.SUM)


class SparkDriver(rounds.Driver):
    """Driver that learns each round as one Spark job. The rows of a round are a list of row groups per shard."""

    def __init__(self, spark: SparkSession, learner: Learner, on_error: str) -> None:
        super().__init__(learner)
        self._spark, self._on_error = spark, on_error

    def _learn_alone(self, rows: list[list[RowGroupSlice]], weight: float) -> None:
        tasks.learn_parts(self.learner, rows[0], weight, self._on_error)

    def _sum_gains(self, rows: list[list[RowGroupSlice]], shards: int, weight: float) -> pa.Table:
        return summed_gains(self._spark, self.learner, rows, weight, self._on_error)


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Raise a worker's BadInput or BadModel, with its message, instead of Spark's exception."""
    try:
        yield
    except PySparkException as error:
        message = str(error)
        if own_error := _OURS.search(message):
            raise (BadInput if own_error[1] == "BadInput" else BadModel)(own_error[2].strip()) from None
        if "No module named 'bayou" in message:
            raise BadInput(
                "Spark's workers have no bayou, or another version; install this one where they run, and set "
                "PYSPARK_PYTHON to that Python."
            ) from None
        raise
