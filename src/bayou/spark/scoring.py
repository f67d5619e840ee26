"""`bayou.spark.transform`: add predictions to a DataFrame."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bayou.core.checks import check_choice, check_path, check_str_list, suggest
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.prediction import HORIZONS, z_score
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.outputs.prediction_table import CLASS, columns_of
from bayou.runs.predict import Predictions
from bayou.sources.source import ON_ERROR
from bayou.spark import columns, engine, tasks
from bayou.spark.broadcasts import broadcasts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def transform(
    df: DataFrame,
    model: str | os.PathLike[str] | Learner,
    level: float = 0.95,
    keep: Sequence[str] | None = None,
    on_error: str = "raise",
    horizon: str = "later",
) -> DataFrame:
    """Add a model's predictions to the rows of a DataFrame, with the columns and the exact values of `bayou predict`.

    The columns are, binary: probability, mean, variance, low and high; multiclass: class, probability, low, high and
    the probability of each class, P(a) and so on; regression: mean, variance, low and high.

    Args:
        df: the rows, which need no labels; it may be a stream.
        model: a file, or a learner, in its state at this call. Calls with the same model share one broadcast, which is
            deleted when a newer version is used and no DataFrame needs this one anymore.
        level: probability content of the interval [low, high].
        keep: columns to keep next to the predictions; all by default.
        on_error: "raise" an error at the first row that cannot be read, or "skip" such rows.
        horizon: "later" for rows that arrive after learning has stopped; "next" for rows that arrive while the model
            keeps learning, as with `foreach_batch` every minute.

    Returns:
        A DataFrame that predicts when it is evaluated, with the model as it was at this call.

    >>> transform(frame, "m.bayou", keep=["id"]).columns  # doctest: +SKIP
    ['id', 'probability', 'mean', 'variance', 'low', 'high']
    """
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

    if not engine.is_frame(df):
        raise BadInput("df must be a DataFrame of Spark; bayou.predict takes files and other tables.")
    spark = engine.usable(df.sparkSession)
    learner = model if isinstance(model, Learner) else load(model)
    z_score(level)  # raises BadInput if invalid
    check_choice("on_error", on_error, ON_ERROR)
    check_choice("horizon", horizon, HORIZONS)
    columns.check_names(df)
    kept_columns = df.columns if keep is None else list(check_str_list("keep", keep, "the names of some columns"))
    for name in kept_columns:
        if name not in df.columns:
            near = suggest(name, df.columns)
            raise BadInput(f"{option('keep')} names {name!r}; the columns are {', '.join(df.columns)}.{near}")
    predicted = columns_of(learner)
    for name in predicted:
        if name in kept_columns:
            raise BadInput(
                f"the column {name!r} would appear twice; remove it from {option('keep')}, or give it another name."
            )
    columns.check(df, learner, labels=False)
    fields = [df.schema[name] for name in kept_columns]
    fields += [StructField(name, StringType() if name == CLASS else DoubleType()) for name in predicted]
    with engine.safe_workers(spark.sparkContext):
        broadcast = broadcasts_of(spark.sparkContext).get(
            learner, None if isinstance(model, Learner) else check_path("model", model)
        )
        task = {"keep": kept_columns, "level": level, "horizon": horizon if learner.supports_later else "next"}
        return df.mapInArrow(partial(score, broadcast, task | {"on_error": on_error}), StructType(fields))


def score(broadcast: Any, options: dict[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield predictions of some rows, in a Spark worker; `broadcast` holds a `BroadcastModel`.

    Args:
        options: `keep`, `level`, `horizon` and `on_error` of `Predictions`.
    """
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return
    learner = tasks.cached_base(*broadcast.value)
    fixed: dict[str, Any] = {"quantiles": (), "explain": 0, "tags": False, "format": "auto", "threads": 0}
    data = map(tasks.in_utc, itertools.chain([first], rows))
    for table in Predictions(learner, data, **options, **fixed):
        fields = [first.schema.field(field.name) if field.name in options["keep"] else field for field in table.schema]
        yield from table.cast(pa.schema(fields)).combine_chunks().to_batches()
