"""`bayou.spark.transform`: a model's predictions of a DataFrame, beside its columns."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from bayou import rounds
from bayou.core.checks import did_you_mean, one_of, texts
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.prediction import HORIZONS, reach
from bayou.core.storage import load
from bayou.outputs.prediction_table import CLASS, columns_of
from bayou.runs.predict import predict as predictions_of
from bayou.sources.source import ON_ERROR
from bayou.spark import columns, engine, tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Scoring(NamedTuple):
    """What the tasks are told."""

    key: str
    model: bytes
    keep: list[str]
    level: float
    on_error: str
    horizon: str


def transform(
    df: DataFrame,
    model: str | os.PathLike[str] | Learner,
    level: float = 0.9,
    keep: Sequence[str] | None = None,
    on_error: str = "raise",
    horizon: str = "later",
) -> DataFrame:
    """The rows of a DataFrame with what a model predicts of each: the columns, and the bits, of `bayou predict`.

    Of two classes these are probability, mean, variance, low and high; of several class, probability, low, high and
    the probability of each, P(a) and so on; of numbers mean, variance, low and high.

    Args:
        df: the rows; labels are not needed. It may be a stream.
        model: a file, or a learner, as it is now: what it learns later changes nothing.
        level: how certain it is that what is predicted lies between `low` and `high`.
        keep: columns to have beside the predictions; all if not given.
        on_error: "raise" a sentence at the first row that cannot be read, or "skip" such rows.
        horizon: "later" for rows that come after learning has stopped; "next" for those that come right after what was
            learned, where learning goes on, as with `foreach_batch` every minute.

    >>> transform(frame, "m.bayou", keep=["id"]).columns  # doctest: +SKIP
    ['id', 'probability', 'mean', 'variance', 'low', 'high']
    """
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    if not engine.is_frame(df):
        raise BadInput("df must be a DataFrame of Spark; bayou.predict takes files and other tables.")
    spark = engine.usable(df.sparkSession)
    learner = model if isinstance(model, Learner) else load(model)
    reach(level)  # refuses what is no level
    one_of("on_error", on_error, ON_ERROR)
    one_of("horizon", horizon, HORIZONS)
    kept = df.columns if keep is None else list(texts("keep", keep, "the names of some columns"))
    for name in kept:
        if name not in df.columns:
            near = did_you_mean(name, df.columns)
            raise BadInput(f"keep names {name!r}; the columns are {', '.join(df.columns)}.{near}")
    predicted = columns_of(learner)
    for name in predicted:
        if name in kept:
            raise BadInput(f"the column {name!r} would be there twice; leave it out of keep, or give it another name.")
    columns.check(df, learner, labels=False)
    fields = [df.schema[name] for name in kept]
    fields += [StructField(name, StringType() if name == CLASS else DoubleType()) for name in predicted]
    told = Scoring(secrets.token_hex(8), rounds.to_bytes(learner), kept, level, on_error, horizon)
    with engine.safe_workers(spark.sparkContext):
        return df.mapInArrow(partial(score, spark.sparkContext.broadcast(told)), StructType(fields))


def score(held: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The predictions of some rows; `held` is a broadcast of `Scoring`. It runs in Spark's Python workers."""
    told: Scoring = held.value
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return
    learner = tasks.known_base(told.key, told.model)
    # Nobody hears notes here.
    found = predictions_of(
        map(tasks.in_utc, itertools.chain([first], rows)),
        model=learner,
        keep=told.keep,
        level=told.level,
        horizon=told.horizon,
        tags=False,
        on_error=told.on_error,
        threads=0,
        on_note=lambda note: None,
    )
    for table in found:
        fields = [first.schema.field(one.name) if one.name in told.keep else one for one in table.schema]
        yield from table.cast(pa.schema(fields)).combine_chunks().to_batches()
