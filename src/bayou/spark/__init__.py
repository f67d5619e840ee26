"""Learning in rounds on a Spark cluster, predictions of DataFrames, and learning from streams.

    from bayou import spark

    run = spark.train("s3://clicks/*.parquet", label="clicked", model="m.bayou")
    scored = spark.transform(frame, "m.bayou")
    stream.writeStream.foreachBatch(spark.foreach_batch("m.bayou", label="clicked")).start()

    training    `train`; streaming: `foreach_batch`; scoring: `transform`
    layout      which rows are held out, the order of the others, and the rows of each round
    engine      the session, a round as one Spark job, errors of workers
    tasks       functions for Spark's Python workers: learn a shard, add up a block
    broadcasts  one broadcast per model, and when it is deleted
    frames      DataFrames as Parquet files; columns: checks of a DataFrame before any row is read

`bayou.rounds` describes gains of shards and how they add up. A task is a function of the base, its rows, their weight
and its number, so a task that Spark retries or runs twice does not change the result.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayou.spark.scoring import transform as transform
    from bayou.spark.streaming import foreach_batch as foreach_batch
    from bayou.spark.training import RoundSummary as RoundSummary
    from bayou.spark.training import SparkRun as SparkRun
    from bayou.spark.training import train as train

_HOME = {
    "RoundSummary": "training",
    "SparkRun": "training",
    "foreach_batch": "streaming",
    "train": "training",
    "transform": "scoring",
}
__all__ = ["RoundSummary", "SparkRun", "foreach_batch", "train", "transform"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"bayou.spark.{_HOME[name]}"), name)
    raise AttributeError(f"module 'bayou.spark' has no attribute {name!r}")
