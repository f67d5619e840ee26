"""`bayou.spark.foreach_batch`: a model file that learns each micro-batch of a stream exactly once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayou import rounds
from bayou.core.checks import check_int, check_path
from bayou.core.errors import NothingToLearn
from bayou.core.extras import Counters, RoundProgress
from bayou.core.learner import Learner
from bayou.core.sharding import ShardingLearner
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.runs.learner_choice import start_from
from bayou.runs.options import ParsedOptions, options_of
from bayou.runs.output_paths import check_output_path
from bayou.runs.train import Training
from bayou.spark import columns, engine, tasks
from bayou.spark.frames import as_files
from bayou.spark.layout import MIN_SHARDS, plan_layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("bayou.spark")


def foreach_batch(
    model: str | os.PathLike[str],
    *,
    label: str,
    learner: str = "bank",
    large: int = MIN_SHARDS * rounds.MIN_SHARD_ROWS,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.foreachBatch` that lets a model file learn each micro-batch exactly once.

    A batch is learned in the driver, as by `bayou.train`: with any learner and task, and its rows in the order of
    Spark's partitions. The number of the batch is stored in the file, which is written atomically; a batch whose number
    is not larger is skipped. So a driver that dies at any point loses nothing and learns nothing twice.

    A batch with nothing to learn (no rows, no labels, or only bad rows under `on_error="skip"`, the default) counts as
    learned, with a warning in the log, so that the stream continues. With `on_error="raise"` the first bad row ends it.

    Args:
        model: the model file. If it does not exist, the first batch creates it, and its first rows decide the roles of
            columns.
        label: the column to predict.
        learner: the learner of a new model.
        large: a binary batch of at least this many rows, but not more than the model has learned, is learned in a round
            over Spark's tasks.
        folder: folder for such batches, each in a subfolder of its own; required except on one machine.
        options: the options of `bayou.train` for reading rows, `settings` and `on_error`.

    >>> learn = foreach_batch("m.bayou", label="clicked")
    >>> stream.writeStream.foreachBatch(learn).start()  # doctest: +SKIP
    """
    path = Path(check_path("model", model))
    check_output_path("model", path)
    large = check_int("large", large, 1)
    parsed = options_of(dict(options) | {"label": label, "learner": learner}, learner=None, settings=())
    start_from(learner, parsed.own.settings, None, None, dict(parsed.recipe))  # checks options

    def learn(df: DataFrame, batch_id: int) -> None:
        old_learner = load(path) if path.exists() else None
        last = None if old_learner is None or old_learner.extras.rounds is None else old_learner.extras.rounds.batch
        if last is not None and batch_id <= last:
            stale = "; does another stream learn into it?" if batch_id < last else ""
            log.warning("batch %d: %s has learned batches up to %d already%s", batch_id, path, last, stale)
            return
        if old_learner is not None:
            columns.check(df, old_learner)
        rows = df.persist()  # so that the same rows are counted and learned
        try:
            n = rows.count()
            if not n:
                log.info("batch %d has no rows", batch_id)
                return
            if old_learner is not None and n >= large and _in_shards(old_learner, n):
                learned = _one_round(rows, n, old_learner, batch_id, folder, parsed)
            else:
                learned = _in_sequence(rows, old_learner, parsed)
        except NothingToLearn as error:
            first = f"; the first: {error.first}" if error.first else ""
            log.warning("batch %d: none of its %s rows could be learned from%s", batch_id, f"{n:,}", first)
            if old_learner is None:
                return
            learned = load(path)  # without the changes of a failed round
            counters = learned.extras.counters or Counters()
            learned.extras = replace(learned.extras, counters=counters + Counters(skipped=n))
        finally:
            rows.unpersist()
        learned.extras = replace(learned.extras, rounds=RoundProgress(examples=learned.examples, batch=batch_id))
        learned.save(path)
        log.info("batch %d: %s rows, %s examples in all", batch_id, f"{n:,}", f"{learned.examples:,}")

    return learn


def _in_shards(model: Learner, rows: int) -> bool:
    """Return whether a model may learn this many rows in a round: at most as many as it has learned."""
    return isinstance(model, ShardingLearner) and model.extras.numbering is None and rows <= model.examples


def _in_sequence(frame: DataFrame, old_learner: Learner | None, parsed: ParsedOptions) -> Learner:
    with engine.sentences():
        table = tasks.in_utc(frame.toArrow())
    run_options = {"learner": parsed.own.learner, "settings": parsed.own.settings, **parsed.opening}
    run = Training(table, resume=old_learner, **run_options, **parsed.recipe).run()
    if run.signal is not None:
        raise KeyboardInterrupt
    if old_learner is None:
        alike = run.evaluation.examples and getattr(run.evaluation, "auc", 0.0) is None
        warning = f"all labels of the first batch are the same: check {option('label')} and {option('positive')}"
        for sentence in [*run.warnings, *([warning] if alike else [])]:
            log.warning(sentence)
    return run.learner


def _one_round(
    df: DataFrame, n: int, model: Learner, batch_id: int, folder: str | os.PathLike[str] | None, parsed: ParsedOptions
) -> Learner:
    spark, on_error = engine.usable(df.sparkSession), parsed.opening["on_error"]
    start_from(parsed.own.learner, parsed.own.settings, model, None, dict(parsed.recipe))  # raises if recipes differ
    subfolder = None if folder is None else os.path.join(os.fspath(folder), f"batch-{batch_id}")
    with as_files(df, subfolder, overwrites=True) as files:  # a failed attempt may have left some files
        min_shard_rows = min(rounds.MIN_SHARD_ROWS, n // MIN_SHARDS)  # `large` may require small shards
        layout = plan_layout(files, None, "given", 0, max(min_shard_rows, 1))
        rows = layout.learned.rows
        n_shards = max(rounds.shard_count(rows, spark.sparkContext.defaultParallelism, max(min_shard_rows, 1)), 2)
        n_before = model.examples
        step = rounds.PlannedRound(0, rows, n_shards)
        engine.SparkDriver(spark, model, on_error).learn_round(layout.shards(step), n_shards)
        held_out = [rows for rows in tasks.held_out(model, layout.held.parts, on_error) if rows.weights_or_ones().any()]
        if model.examples == n_before and not held_out:
            raise NothingToLearn(f"none of the {n:,} rows could be learned from: they are bad, or of weight 0.")
        if held_out:
            rounds.learn_held_out(model, held_out)
    return model
