"""`bayou.spark.train`: learn from Parquet files or a DataFrame in rounds."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayou import rounds, sources
from bayou.core.batch import Batch
from bayou.core.checks import check_callable, check_choice, check_int, check_path, check_positive
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Counters, RoundProgress
from bayou.core.file_fingerprints import FileFingerprint
from bayou.core.learner import Learner
from bayou.core.registry import Record
from bayou.core.spelling import option
from bayou.evaluate.meters import meter_for
from bayou.recipe.recipe import TASKS
from bayou.runs.learner_choice import start_from
from bayou.runs.options import ParsedOptions, options_of
from bayou.runs.output_paths import check_outputs
from bayou.runs.train import MAX_FILE_MARKS, Training
from bayou.sources.row_group_slices import RowGroupSlices
from bayou.spark import columns, engine, tasks
from bayou.spark.frames import as_files
from bayou.spark.layout import ORDERS, RowLayout, files_of, plan_layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("bayou.spark")

# Options whose values are stored in a plan under another name.
_OPTIONS = {"base": "base_rows"}


@dataclass(frozen=True)
class RoundSummary:
    """A finished round.

    Attributes:
        number: index of the round; the first, 0, is the base. passed: number of passes finished before it.
        rows: number of rows learned; shards: number of shards; seconds: duration.
        loss: mean log loss of the held-out rows after the round.

    >>> RoundSummary(1, 0, 10_000, 2, 3.5, 0.25)
    RoundSummary(number=1, passed=0, rows=10000, shards=2, seconds=3.5, loss=0.25)
    """

    number: int
    passed: int
    rows: int
    shards: int
    seconds: float
    loss: float

    def __str__(self) -> str:
        over = "in sequence" if self.shards == 1 else f"over {self.shards} shards"
        return f"round {self.number}: {self.rows:,} rows {over}, held-out loss {self.loss:.5f}, {self.seconds:.1f} s"


@dataclass
class SparkRun:
    """The result of a run on Spark.

    Attributes:
        learner: the trained learner; the recipe and the names are in its `extras`.
        rounds: the rounds done by this run; after a resume, without the earlier ones.
        losses: the held-out loss after each round, including those of the run that was resumed.
        held_out: number of rows held out; skipped: number of bad rows and of rows of weight 0.
        notes: messages of the run; warnings: those that need attention.

    >>> from bayou.learners import Bank
    >>> SparkRun(Bank(n_features=8)).rounds
    []
    """

    learner: Learner
    rounds: list[RoundSummary] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    held_out: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def train(
    data: Any,
    *,
    label: str,
    model: str | os.PathLike[str] | None = None,
    learner: str = "bank",
    shards: int | None = None,
    passes: int = 1,
    held_out: float | None = None,
    base_rows: int | None = None,
    order: str = "mixed",
    seed: int = 0,
    least: int = rounds.MIN_SHARD_ROWS,
    folder: str | os.PathLike[str] | None = None,
    on_progress: Callable[[RoundSummary], Any] | None = None,
    **options: Any,
) -> SparkRun:
    """Train a binary model on more rows than suit one process, in rounds over Spark's tasks.

    The driver learns the first rows in sequence. Then each round is as large as all rows before it, over as many shards
    as there are cores. After each round the combination is learned on the held-out rows, and the model is saved.

    Args:
        data: Parquet files, which the tasks read: a path, a glob, a folder, an address such as s3://bucket/name,
            or a list of them; or a DataFrame, which is written once as Parquet.
        label: the column to predict.
        model: the file to write. If an earlier run with the same data left one, that run is resumed after its last
            round, with the same result as an uninterrupted one.
        learner: bank, marginal, moment, variational or adagrad.
        shards: the maximal number of shards; by default the number of Spark's cores.
        passes: number of passes over the data.
        held_out: fraction of rows to hold out, from which only the combination learns; by default 2%, but at least
            20,000 and at most 100,000 rows.
        base_rows: number of rows to learn in sequence first; by default 1%, but from 5,000 to 100,000.
        order: "mixed" takes row groups in random order; "given" in the order of the files, for data that drift.
        seed: seed of the random order.
        least: the minimal number of rows per shard. Rounds need 40 times as many rows in all.
        folder: folder where a DataFrame is written and kept: new or empty, and visible to all workers. Required on a
            cluster, and for runs that may be resumed.
        on_progress: called after each round, when the model has been saved.
        options: the options of `bayou.train` for reading rows (`bits`, `weight`, `category` and so on), `settings` and
            `on_error`.

    >>> run = train("clicks/*.parquet", label="clicked", model="m.bayou")  # doctest: +SKIP
    >>> run.losses, run.learner.predict(rows)  # doctest: +SKIP
    """
    check_callable("on_progress", on_progress)
    parsed = options_of(dict(options) | {"label": label, "learner": learner}, learner=None, settings=())
    if parsed.recipe.get("exact"):
        raise BadInput(
            f"shards would number their features differently; let names be hashed, without {option('exact')}."
        )
    least = check_int("least", least, 1)
    held_out = None if held_out is None else check_positive("held_out", held_out, high=0.5)
    base_rows = None if base_rows is None else check_int("base_rows", base_rows, 1)
    shards = None if shards is None else check_int("shards", shards, 1, 1 << 20)
    passes, seed = check_int("passes", passes, 1), check_int("seed", seed, 0)
    check_choice("order", order, ORDERS)
    path = None if model is None else Path(check_path("model", model))
    files = None if engine.is_frame(data) else files_of(data)
    if path is not None:
        check_outputs({"model": path}, files or [])
    _check_task(parsed.recipe.get("task"))  # errors that do not depend on the data
    _check_learner(start_from(learner, parsed.own.settings, None, None, dict(parsed.recipe)).assumed_record)
    old_learner = None if path is None or not path.exists() else _load_partial(path, parsed)
    if old_learner is not None and files is None and folder is None:
        raise BadModel(
            f"{path} already exists, and only a run whose DataFrame was written to {option('folder')} can be "
            f"resumed; {_rename()}."
        )
    if old_learner is not None and files is None:
        columns.check(data, old_learner)
    with as_files(data if files is None else files, folder, old_learner) as files:
        layout = plan_layout(files, held_out, order, seed, least)
        spark = engine.usable(data.sparkSession) if engine.is_frame(data) else engine.session()
        n_shards = spark.sparkContext.defaultParallelism if shards is None else shards
        planned = rounds.plan_passes(layout.learned.rows, n_shards, base_rows, least, passes)
        plan = {
            "data": layout.mark, "rows": layout.learned.rows, "held_out": layout.held.rows, "shards": n_shards,
            "base": planned[0].last, "order": order, "seed": seed, "least": least,
        }  # fmt: skip
        empty = SparkRun(learner=None, held_out=layout.held.rows)  # type: ignore[arg-type]  # set by the base round
        run = _SparkDriver(spark, layout, planned, parsed, path, plan, [] if engine.is_frame(data) else files, empty)
        if old_learner is not None:
            run.resume(old_learner)
        run.learn(on_progress)
        return run.run


def _rename() -> str:
    return f"give {option('model')} another name"


def _check_task(task: str | None) -> None:
    if task in ("multiclass", "regression"):
        raise BadInput(
            f"the label is {TASKS[task]}, and rounds are for two classes; reduce to two with {option('positive')} or "
            f"{option('label_above')}, or have one process learn it: bayou train, or bayou.train."
        )


def _check_learner(record: Record) -> None:
    if not record.sharding:
        raise BadInput(
            f"{record.name} cannot learn in rounds; {rounds.shardable_learners()} can. Train {record.name} in one "
            "process: bayou train, or bayou.train."
        )


def _load_partial(path: Path, parsed: ParsedOptions) -> Learner:
    """Load the model of an earlier run. Raise BadModel if it was not made in rounds or has other options."""
    old = start_from(parsed.own.learner, parsed.own.settings, path, None, dict(parsed.recipe)).old
    if old is None or old.extras.rounds is None or not old.extras.rounds.plan:
        raise BadModel(f"{path} is a model that was not made in rounds, and would be overwritten; {_rename()}.")
    return old


@dataclass
class _SparkDriver:
    """A run: its plan, the learner, and the finished rounds."""

    _spark: SparkSession
    _layout: RowLayout
    _planned: list[rounds.PlannedRound]
    _given: ParsedOptions
    _place: Path | None
    _plan: dict[str, Any]
    _learned: list[str]
    run: SparkRun
    _held: list[Batch] = field(default_factory=list)

    def resume(self, learner: Learner) -> None:
        """Resume an earlier run after its last round. Raise BadModel if its data or its plan differ."""
        done = learner.extras.rounds or RoundProgress()
        for name, value in self._plan.items():
            if done.plan.get(name) != value:
                old = option(_OPTIONS.get(name, name), done.plan.get(name))
                difference = "other data" if name == "data" else f"{old}, and now it is {value}"
                raise BadModel(f"{self._place} was begun with {difference}; {_rename()}, or the same again.")
        if learner.examples != done.examples:
            raise BadModel(f"{self._place} has learned other rows since its last round; {_rename()}.")
        self.run.learner, self.run.losses = learner, list(done.losses)
        self.run.skipped = 0 if learner.extras.counters is None else learner.extras.counters.skipped
        left = len(self._planned) - len(done.losses)
        self._say(f"resuming after round {len(done.losses) - 1}" if left > 0 else f"{self._place} is already finished")

    def learn(self, on_progress: Callable[[RoundSummary], Any] | None) -> None:
        """Learn the remaining rounds."""
        for index in range(len(self.run.losses), len(self._planned)):
            step, start = self._planned[index], time.perf_counter()
            n_before = 0 if index == 0 else self.run.learner.examples
            if index == 0:
                self._base(step)
            else:
                driver = engine.SparkDriver(self._spark, self.run.learner, self._given.opening["on_error"])
                driver.learn_round(self._layout.shards(step), step.shards, is_repeated=step.passed > 0)
            if not step.passed:
                self.run.skipped += step.last - step.first - (self.run.learner.examples - n_before)
            self.run.losses.append(self._loss())
            self._save(last=index == len(self._planned) - 1)
            seconds, rows = time.perf_counter() - start, step.last - step.first
            done = RoundSummary(index, step.passed, rows, step.shards, seconds, self.run.losses[-1])
            self.run.rounds.append(done)
            log.info(str(done))
            self._look(done)
            if on_progress is not None:
                on_progress(done)
        if self.run.skipped:
            self._say(
                f"{self.run.skipped:,} rows were not learned: they are bad, or of weight 0; bayou look shows more"
            )

    def _base(self, step: rounds.PlannedRound) -> None:
        """Learn the first rows as `bayou.train` does; they decide the roles of columns."""
        recipe, own = self._given.recipe, self._given.own
        rows = RowGroupSlices(self._layout.learned.cut(step.first, step.last))
        # Before a learner is chosen, whose error would suggest learners that cannot be used in rounds.
        _check_task(sources.open(rows, recipe=recipe, threads=0).fit_recipe().task)
        on_error = self._given.opening["on_error"]
        run = Training(rows, learner=own.learner, settings=own.settings, on_error=on_error, **recipe).run()
        if run.signal is not None:
            raise KeyboardInterrupt
        self.run.learner = run.learner
        for sentence in [*run.notes, *run.warnings]:
            self._say(sentence)

    def _loss(self) -> float:
        """Relearn the combination from the held-out rows, and return their mean log loss."""
        learner = self.run.learner
        if not self._held:
            self._held = tasks.held_out(learner, self._layout.held.parts, self._given.opening["on_error"])
            if not self._held:
                raise BadInput("none of the rows that are held out can be read; look at the data with bayou look.")
            labels = np.concatenate([np.asarray(batch.labels) for batch in self._held])
            if (labels == labels[0]).all():
                self._warn(
                    f"all {len(labels):,} held-out rows have the same label; check {option('label')} and "
                    f"{option('positive')}"
                )
        if hasattr(learner, "recombine"):
            return float(learner.recombine(self._held))
        meter = meter_for(learner.record.task)
        for batch in self._held:
            meter.add_prediction(learner.predict(batch, horizon="next"), batch.labels, batch.weights)
        return float(meter.loss or 0.0)

    def _save(self, last: bool) -> None:
        learner, losses = self.run.learner, self.run.losses
        weight = float(sum(batch.weights_or_ones().sum() for batch in self._held))
        scored = Counters(
            examples=sum(map(len, self._held)),
            nonzeros=sum(batch.nonzeros for batch in self._held),
            skipped=self.run.skipped,
            weight=weight,
            loss=weight * losses[-1],
            runs=1,
        )
        progress = RoundProgress(self._plan, tuple(losses), learner.examples)
        files = sorted(name for name in self._learned if "://" not in name)[-MAX_FILE_MARKS:]
        marks = [FileFingerprint.of(name) for name in files] if last else []
        learner.extras = replace(learner.extras, counters=scored, rounds=progress, finished=marks)
        if self._place is not None:
            learner.save(self._place)

    def _look(self, done: RoundSummary) -> None:
        """Warn if the loss rose, or shards were small."""
        losses, n_rows = self.run.losses, done.rows // done.shards
        if len(losses) > 1 and losses[-1] > losses[-2]:
            self._warn(
                f"the held-out loss rose from {losses[-2]:.5f} to {losses[-1]:.5f} in round {done.number}; where rows "
                f"drift use {option('order', 'given')}, and larger shards (fewer of them)"
            )
        if done.shards > 1 and n_rows < rounds.MIN_SHARD_ROWS:
            recipe = self.run.learner.extras.required_recipe
            names = [column.name for column in recipe.columns or () if column.role == "text"]
            cause = f"text ({names[0]}) loses several per cent from that" if names else "too little of them is learned"
            self._warn(
                f"round {done.number} had {n_rows:,} rows a shard, and {rounds.MIN_SHARD_ROWS:,} are needed: {cause}; "
                "use fewer shards"
            )

    def _warn(self, sentence: str) -> None:
        self.run.warnings.append(sentence)
        log.warning(sentence)

    def _say(self, sentence: str) -> None:
        self.run.notes.append(sentence)
        log.info(sentence)
