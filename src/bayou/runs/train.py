"""`bayou.train`: learn from data, evaluate and save the model, even when interrupted. `bayou train` is its command.

run = bayou.train("clicks.csv", label="clicked", model="m.bayou", report="report.html")
run.evaluation.log_loss, run.skipped, run.learner
"""

from __future__ import annotations

import copy
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from bayou import sources
from bayou.core.batch import Batch
from bayou.core.checks import check_callable, check_int
from bayou.core.errors import BadInput, BadModel
from bayou.core.extras import Counters, Extras, ResumePoint
from bayou.core.spelling import option
from bayou.core.threads import SerialExecutor
from bayou.evaluate.base_meter import BaseMeter
from bayou.evaluate.meters import meter_for
from bayou.evaluate.progressive import DelayedLabels, PredictedBatch, predict_then_learn
from bayou.learners.ensembles.delayed import block_size
from bayou.recipe.feature_counts import FeatureCounts
from bayou.runs import memory, warmup
from bayou.runs.batching import behind, block_sizes, rebatch
from bayou.runs.cross_options import crosses_in_words, leave_pairs
from bayou.runs.data_warnings import DataWarnings
from bayou.runs.holdout import HoldoutRows, HoldoutSpec
from bayou.runs.interrupts import Interrupt, interruptible
from bayou.runs.learner_choice import LearnerChoice, Model, start_from
from bayou.runs.options import Data, Note, ParsedOptions, RunOptions, checkpoint_every, documented, names_of, options_of
from bayou.runs.output_paths import STANDARD, check_outputs, check_report
from bayou.runs.resuming import already_learned, interrupted_in, marks_of, resume_note
from bayou.runs.training_run import Progress, TrainingRun
from bayou.sources.rejected_rows import RejectedRows

if TYPE_CHECKING:
    from bayou.report import Recorder

# The most tasks deferred to the scoring thread.
MAX_PENDING_SCORES = 12
# Number of learned files that a model remembers, the last ones.
MAX_FILE_MARKS = 100


class TrainingOptions(RunOptions, total=False):
    """Options of `train` in addition to those of every run."""

    learner: str | None
    settings: Mapping[str, Any] | Sequence[str]
    model: str | os.PathLike[str] | None
    resume: Model | None
    like: Model | None
    passes: int
    processes: int
    holdout: float | str | None
    delay: int
    checkpoint: int | str | None
    report: str | os.PathLike[str] | None


@documented
def train(
    data: Data, *, on_progress: Callable[[Progress], Any] | None = None, **options: Unpack[TrainingOptions]
) -> TrainingRun:
    """Learn from data, predicting each example before learning from it, as `bayou train` does.

    Args:
        data: a path or glob, or several; "-" for standard input; a DataFrame, an Arrow table or any other object with
            `__arrow_c_stream__`; or an iterable of such tables, which are treated as parts of one.
        on_progress: called after each batch.
        learner: name of the learner; by default "bank", which also serves multiclass and regression tasks.
        settings: parameters of the learner, by name.
        model: file to save the model to.
        resume: a model to continue, with its weights and recipe; like: a model whose learner, parameters and recipe
            a new one reuses. A path, or a learner, which is not changed.
        passes: number of passes over the data; 1 by default.
        processes: number of processes, this one included, that learn in parallel, in rounds (`bayou.rounds`); for text
            of at least 400,000 rows. The evaluation then covers only the last rows, which are held out.
        holdout: fraction of examples to hold out for testing the finished model: 0.1 for the last tenth of the data,
            "random:0.1" for a tenth that is spread evenly.
        delay: delay each label by this many examples; the rest are learned at the end.
        checkpoint: save every N examples (1000000), or at intervals of time ("90s", "10min", "2h").
        report: an .html file for a report with plots.
        format: file format; "auto" detects it from the name and the beginning of the data.
        on_error: "skip" and count bad lines, or "raise" BadInput at the first.
        threads: number of additional threads that read ahead; the results do not depend on it.
        on_note: called with each message.
        {recipe}

    Ctrl-C ends the run after the current batch; the model so far is saved and returned (`run.signal`).

    >>> import pyarrow as pa
    >>> clicks = pa.table({"site": ["a", "b"] * 50, "clicked": [1, 0] * 50})
    >>> run = train(clicks, label="clicked", learner="marginal", bits=10)
    >>> run.evaluation.examples, run.learner.extras.recipe.label
    (100, 'clicked')
    """
    check_callable("on_progress", on_progress)
    training = Training(data, **options)
    run = training.run(on_progress)
    training.write_report(run)
    if run.save_error is not None:
        run.save_error.run = run  # type: ignore[attr-defined]  # so that the trained model is not lost
        raise run.save_error
    return run


class Training:
    """Training in two steps: the constructor checks the options and raises BadInput or BadModel, `run` does the work.

    Attributes:
        learner, source: the learner, and the source of its examples.
        fitted: the columns of a table whose roles were decided in this run; None if they were fixed before, or there
            are no columns.
        on_note: called with each message; may be changed between the two steps.
    """

    def __init__(self, data: Data, **options: Unpack[TrainingOptions]) -> None:
        parsed = options_of(
            options, learner=None, settings=(), model=None, resume=None, like=None, passes=1, processes=1, holdout=None,
            delay=0, checkpoint=None, report=None,
        )  # fmt: skip
        args, self.on_note = parsed.own, parsed.note
        self._notes: list[str] = []
        if args.resume is not None and args.like is not None:
            raise BadInput(
                f"{option('resume')} and {option('like')} cannot be combined: one continues a model, the other starts "
                "a new one."
            )
        if args.checkpoint is not None and args.model is None:
            raise BadInput(f"{option('checkpoint')} needs {option('model')}: where to save.")
        args.passes = check_int("passes", args.passes, 1)
        self._delay = check_int("delay", args.delay, 0)
        if self._delay and args.checkpoint is not None:
            raise BadInput(
                f"{option('checkpoint')} and {option('delay')} cannot be combined: checkpoints would lack the delayed "
                "examples."
            )
        self._processes = check_int("processes", args.processes, 1, 256)
        for name in ("holdout", "delay", "checkpoint", "report") if self._processes > 1 else ():
            if getattr(args, name):
                raise BadInput(
                    f"{option(name)} follows rows one after another; {option('processes')} does not. Use one of them."
                )
        holdout = None if args.holdout is None else HoldoutSpec.of(args.holdout)
        self._every_examples, self._every_seconds = checkpoint_every(args.checkpoint)
        data = sources.parts_or_paths(data)
        check_report(args.report)
        check_outputs({option("model"): args.model, option("report"): args.report}, data)
        self._path = None if args.model is None else Path(args.model)
        self._report = args.report
        check_outputs({option("report"): args.report}, args.resume, args.like)  # the new model may overwrite them
        start = start_from(args.learner, args.settings, args.resume, args.like, parsed.recipe)
        with warmup.ahead(warmup.learner(start.assumed_record.name)):
            self._prepare(data, start, args.passes, parsed)
        self._opened = {"data": data, **{name: parsed.opening[name] for name in ("format", "on_error")}}
        self._files = names_of(data)
        self._marks = marks_of(self._files)
        self._resumable = any(mark.path != STANDARD for mark in self._marks)
        for path, times in Counter(mark.path for mark in self._marks).items():
            if times > 1:
                self._say(f"{path} is given {times} times; its rows are learned that many times")
        self._begin(args.passes, holdout, resumed=args.resume is not None)
        self._recorder: Recorder | None = None
        if args.report is not None:
            from bayou.report import Recorder

            self._recorder = Recorder(self.learner)

    def _prepare(self, data: Any, start: LearnerChoice, passes: int, parsed: ParsedOptions) -> None:
        """Open the source, make the learner, and load or compile their kernels."""
        self.source = sources.open(
            data,
            recipe=parsed.recipe if start.old is None else None,
            extras=None if start.old is None else Extras.of(start.old),
            **parsed.opening,
        )
        was_fitted = self.source.recipe.fitted
        task = self.source.fit_recipe().task
        spec = start.spec_for(task, self.source.n_classes)
        if start.old is None:
            spec = leave_pairs(spec, self.source)
        if start.old is None and self.source.decided:
            self._say(self.source.decided, detail=True)
        for sentence in crosses_in_words(self.source.recipe, spec):
            self._say(sentence, detail=True)
        if passes > 1 and spec.record.passes == "single":
            note = (
                f"counts every pass as new data and becomes overconfident; {option('holdout', 0.1)} shows by how much"
            )
            self._say(f"{spec.record.name} {note}", detail=True)
        if passes > 1 and not self.source.is_rereadable:
            raise BadInput(
                f"{option('passes')} needs data that can be read more than once; save the output of the pipe to a file."
            )
        n_features = self.source.recipe.n_features if start.old is None else start.old.n_features
        self._say(memory.check(spec.build(1) if start.old is None else start.old, n_features))
        self.learner = start.old if start.old is not None and start.resumed else spec.build(n_features)
        self.source.read_as(self.learner.parameters["dtype"], self.learner.wants_groups)
        self.source.label_for(self.learner)
        warmup.training(self.learner, self.source)
        self.fitted = None if was_fitted else self.source.recipe.columns
        if self.fitted and not any(column.gives for column in self.fitted):
            self._say(
                "no column gives a feature, so there is nothing to learn from; "
                f"{option('category', 'C')} uses an id anyway"
            )

    def _begin(self, passes: int, holdout: HoldoutSpec | None, resumed: bool) -> None:
        """Set the starting position: the beginning, or where a run over the same data was interrupted."""
        learner = self.learner
        self._passes = passes
        self._pass = self._done = 0  # finished passes; processed rows of the current one
        self._before = self.source.extras.counters if resumed else None
        self._learned = self.source.extras.finished if resumed else []
        self._skipped_before = 0  # bad lines counted by an interrupted run, which will be read again
        self._newly_skipped = 0
        unfinished = interrupted_in(self.source.extras, self._marks) if resumed and self.source.is_rereadable else None
        self._resume_point = unfinished
        if unfinished is None and resumed:
            for sentence in already_learned(self.source.extras, self._marks):
                self._say(sentence)
        if unfinished is not None:
            self._pass, self._done = unfinished.passed, unfinished.rows
            self._passes, self._skipped_before = max(passes, unfinished.passes), unfinished.skipped
            had = HoldoutSpec(unfinished.holdout, unfinished.last) if unfinished.holdout else HoldoutSpec()
            if holdout not in (None, had):
                raise BadModel(f"{option('holdout', str(holdout))} was given, but the interrupted run had {had}.")
            holdout = had
        if self._pass == self._done == 0:
            learner.new_stream()
        self._first = self._pass  # the pass whose predictions are scored: in later ones the examples are not new
        uses = self.source.extras.uses if resumed else None
        self._uses = FeatureCounts() if uses is None else copy.deepcopy(uses)
        self._refused = RejectedRows(self.source)
        self._warnings = DataWarnings(self.source)
        self._held_out = HoldoutRows(holdout or HoldoutSpec())
        self._held_out.which.check(self.source)
        self._meter = meter_for(learner.record.task)
        self._scoring = SerialExecutor("scoring", max_pending=MAX_PENDING_SCORES)
        self._saved_at, self._saved_examples = time.monotonic(), learner.examples
        self._examples_before = learner.examples

    def _say(self, text: str, detail: bool = False) -> None:
        self._notes.append(text)
        self.on_note(Note(text, detail))

    def run(self, on_progress: Callable[[Progress], Any] | None = None) -> TrainingRun:
        """Run all passes, with checkpoints, and save the model."""
        if self._resume_point is not None:
            self._say(resume_note(self._resume_point, self._marks))
        converged = False
        start = time.perf_counter()
        with interruptible(self.source) as interrupt, self._scoring:
            try:
                in_rounds = self._processes > 1 and self._in_rounds(interrupt, on_progress)
                while self._pass < self._passes and not converged and not in_rounds:
                    self._one_pass(interrupt, on_progress)
                    if interrupt:
                        break
                    self._pass, self._done = self._pass + 1, 0
                    converged = self.learner.end_pass()
                    if sentence := self.learner.progress():
                        self._say(f"pass {self._pass}: {sentence}{', converged' * converged}", detail=True)
                if not interrupt:
                    self.learner.new_stream()  # rows that it learns from now on are not repeated
                self._scored().skipped = self._skipped
                seconds = time.perf_counter() - start
                if not interrupt:
                    self.source.check_learned(self._refused.sentences, self._refused.count)
                held_out = self._held_out.evaluate(self.learner, self._refused)
            except BadInput:
                if self._scored().examples and self._path is not None:
                    self._save(unfinished=True)
                    self._say(f"what was learned before that is in {self._path}; continue it with {option('resume')}")
                raise
            unsaved = None
            learned = self.learner.examples - self._examples_before
            try:
                self._save(unfinished=bool(interrupt), write=bool(learned or not interrupt))
            except BadModel as error:
                unsaved = error  # reported after the results, which are not lost
        later_loss = None if self._delay else self.learner.later_loss()
        return TrainingRun(
            learner=self.learner,
            evaluation=self._meter.result(),
            held_out=held_out,
            passes=self._pass,
            converged=converged,
            signal=interrupt.signal,
            seconds=seconds,
            bad_lines=(self.source.bad_lines + self._refused.sentences)[:20],
            error_counts=self._refused.error_counts,
            n_wrapped=self.source.n_wrapped,
            learned=learned,
            seen_before=self._first > 0,
            save_error=unsaved,
            notes=self._notes,
            held_out_rows="" if held_out is None else self._held_out.in_words,
            warnings=self._warnings.after(self._meter),
            later_loss=later_loss,
        )

    def write_report(self, run: TrainingRun) -> None:
        """Write the report, if any. If the model could not be saved, ignore BadInput: that error matters more."""
        if self._report is None or self._recorder is None:
            return
        from bayou import report

        reported = report.ReportedRun(
            self._recorder, run.evaluation, run.held_out, run.seconds, held_out_rows=run.held_out_rows
        )
        try:
            report.write(self._report, reported, report.DataFacts.of(self.source, self._files, run))
        except BadInput:
            if run.save_error is None:
                raise
        else:
            self._say(f"the report is in {self._report}")

    # --- learning -----------------------------------------------------------------------------------------------

    @property
    def _skipped(self) -> int:
        """Number of bad lines and of rows that the learner rejected in this pass."""
        return self.source.skipped + self._refused.count

    def _one_pass(self, interrupt: Interrupt, on_progress: Callable[[Progress], Any] | None) -> None:
        """Learn one pass from row `_done` on; an interrupted run has learned the rows before it."""
        self._refused, first = RejectedRows(self.source), self._pass == self._first
        delayed = DelayedLabels(self.learner, self._delay) if self._delay else None
        learner: Any = delayed or self.learner
        if self._recorder is not None and first:  # later passes predict no new examples
            self._recorder.teaches, learner = learner, self._recorder

        def learned() -> int:
            return self.learner.examples + (0 if delayed is None else delayed.n_waiting)

        rows = self._held_out.training_batches(self.source, keep=first) if self._held_out.which else self.source
        # A delayed learner has learned fewer examples, by which it would cut a batch of several blocks differently.
        blocks = block_sizes if delayed is None else block_size
        batches = rebatch(behind(rows, self._done), learned, self.learner.parameters["dtype"], blocks)
        if (
            self._recorder is not None and first and self.learner.record.task != "multiclass"
        ):  # multiclass learners cut their own blocks
            batches = self._recorder.split_at_recordings(batches)
        try:
            for batch in batches:
                if interrupt and self._resumable:  # a resumed run reads these rows again, in whole batches
                    break
                self._learn(batch, learner)
                self._report_progress(on_progress)
                if self._is_checkpoint_due():
                    self._checkpoint()
                if interrupt:
                    break
        finally:
            self._count_skipped()
            if delayed is not None:
                delayed.finish()

    def _in_rounds(self, interrupt: Interrupt, on_progress: Callable[[Progress], Any] | None) -> bool:
        """Run all passes in several processes; return False, without learning, if that does not pay."""
        from bayou.rounds import learn_mergeable
        from bayou.rounds.processes import ProcessDriver, estimate_rows

        expected, reason = estimate_rows(self.source)
        if self._resume_point is not None:
            reason = "the rest of an interrupted run is learned in sequence"
        if reason:
            self._say(f"one process learns alone: {reason}")
            return False

        def learn(batch: Batch) -> None:
            self._warnings.look(batch)
            for _, chunk, _ in self._refused.accepted(batch, partial(learn_mergeable, self.learner)):
                self._uses.count(chunk)
                self._warnings.follow(chunk.labels)

        def score(batch: Batch, probability: Any) -> None:
            self._meter.add(probability, batch.labels, batch.weights, nonzeros=batch.nonzeros)
            self._uses.count(batch)

        self.learner.extras = self.source.extras
        rounds = ProcessDriver(self.learner, self.source, self._refused, expected, self._processes)
        rounds.on_round = partial(self._say, detail=True)
        with rounds.processes(self._opened):
            rounds.first_pass(learn, interrupt, partial(self._report_progress, on_progress))
            while not interrupt and self._pass + 1 < self._passes:
                self._pass += 1
                rounds.next_pass(interrupt, partial(self._report_progress, on_progress))
        rounds.finish(score)
        if interrupt:
            self._done = rounds.read
        self._pass += not interrupt
        self._say(f"the results below are of the last {self._meter.examples:,} rows, before the lanes learned them")
        return True

    def _count_skipped(self) -> None:
        """Update the number of bad lines that no earlier run has counted."""
        if self._pass == self._first:
            self._newly_skipped = max(self._skipped - self._skipped_before, 0)

    def _learn(self, batch: Batch, learner: Any) -> None:
        rows_before = self._done
        scored = self._pass == self._first
        if scored and self.source.extras.names is not None:  # learning changes the names, so look before
            self._warnings.look(batch)
        # Work that the lanes do not depend on is deferred to another thread; this one continues with the next rows.
        step = partial(predict_then_learn, learner, behind=self._scoring)
        for first, chunk, predicted in self._refused.accepted(batch, step):
            if scored:
                self._scoring.submit(self._score, predicted)
            self._done = rows_before + first + len(chunk)  # even if the next chunk ends the run
        self._done = rows_before + len(batch)

    def _score(self, predicted: PredictedBatch) -> None:
        if self.source.extras.names is None:
            self._warnings.look(predicted.batch)
        predicted.score(self._meter)
        self._uses.count(predicted.batch)
        self._warnings.follow(predicted.batch.labels)

    def _scored(self) -> BaseMeter:
        self._scoring.drain_and_raise()
        meter: BaseMeter = self._meter
        return meter

    def _report_progress(self, on_progress: Callable[[Progress], Any] | None) -> None:
        if on_progress is not None:
            done, total = self.source.bytes_done, self.source.bytes_total
            on_progress(Progress(self._scored, self.source.rows, self._pass, done, total))

    # --- saving -------------------------------------------------------------------------------------------------

    def _is_checkpoint_due(self) -> bool:
        if self._every_examples is not None:
            return self.learner.examples - self._saved_examples >= self._every_examples
        return self._every_seconds is not None and time.monotonic() - self._saved_at >= self._every_seconds

    def _checkpoint(self) -> None:
        """Save the model, with its position in the data (`Extras.unfinished`), where the finished one will be saved.

        A failure is only reported: the next may succeed, and the last save raises it. Curves and records of a report
        are not saved.
        """
        try:
            self._save(unfinished=True)
            self._say(f"checkpoint after {self.learner.examples:,} examples: {self._path}")
        except BadModel as error:
            self._say(f"no checkpoint: {error}")
        self._saved_at, self._saved_examples = time.monotonic(), self.learner.examples

    def _save(self, unfinished: bool, write: bool = True) -> None:
        self._scored()
        self._count_skipped()
        holdout, position = self._held_out.which, (self._pass, self._passes, self._done, self._skipped)
        resume_point = ResumePoint(self._marks, *position, holdout.share, holdout.last)
        learned = [] if unfinished else [mark for mark in self._marks if mark.size is not None]
        self.learner.extras = replace(
            self.source.extras,
            uses=self._uses,
            counters=self._counters(),
            unfinished=resume_point if unfinished else None,
            finished=list(dict.fromkeys([*self._learned, *learned]))[-MAX_FILE_MARKS:],
        )
        if self._path is not None and write:
            self.learner.save(self._path)

    def _counters(self) -> Counters:
        """Return the counters over all runs of this model; only the first pass over new examples counts."""
        meter, counters = self._meter, Counters(runs=1, loss_name=self._meter.loss_name)
        if self._first == 0:
            counters = replace(
                counters,
                examples=meter.examples,
                nonzeros=int(meter.nonzeros),
                skipped=self._newly_skipped,
                weight=meter.weight,
                loss=meter.weight * (meter.loss or 0.0),
            )
        return counters if self._before is None else counters + self._before
