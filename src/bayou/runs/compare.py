"""Comparison of several learners in one pass over the data (`bayou compare`).

comparison = compare("clicks.csv", ["bank", "ftrl:alpha=.1"], label="clicked")
[(entrant.spec, entrant.meter.log_loss) for entrant in comparison.ranked]
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from bayou import sources
from bayou.core import registry
from bayou.core.batch import Batch
from bayou.core.checks import check_int
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.evaluate.later import LaterEvaluator
from bayou.evaluate.meters import meter_for
from bayou.evaluate.progressive import DelayedLabels, predict_then_learn
from bayou.learners.ensembles.delayed import block_size
from bayou.runs import memory
from bayou.runs.batching import first_rows, rebatch
from bayou.runs.data_warnings import DataWarnings
from bayou.runs.interrupts import interruptible
from bayou.runs.learner_specs import COMPARED, LearnerSpec, choose, task_of
from bayou.runs.options import Data, Note, RunOptions, names_of, options_of
from bayou.runs.output_paths import check_outputs, check_report
from bayou.sources.rejected_rows import RejectedRows, bisect_rejected

if TYPE_CHECKING:
    from bayou.report import Recorder


@dataclass
class Entrant:
    """A learner that takes part in a comparison, with its scores."""

    spec: str  # as the caller wrote it, "marginal:prior_variance=.1"
    chosen: LearnerSpec  # the learner for the task, and its explicit parameters
    learner: Learner
    meter: Any = None
    seconds: float = 0.0  # time spent learning and predicting, without the other entrants
    recorder: Recorder | None = None  # for a report
    ahead: LaterEvaluator = field(default_factory=LaterEvaluator)  # its expected loss on later rows
    late: DelayedLabels | None = None  # if labels are delayed

    @property
    def dtype(self) -> str:
        return str(self.learner.parameters["dtype"])

    @property
    def size(self) -> int:
        """Size in bytes of the weights that the learner has touched."""
        return self.learner.nbytes_for(len(self.learner.touched))

    def learn(self, batch: Batch) -> None:
        for block, sampled in self.ahead.blocks(batch):
            later_prediction = self.learner.predict(block.take(sampled), "later")
            # CPU time of this thread only: the other entrants share the cores.
            start = time.thread_time()
            predicted = predict_then_learn(self.recorder or self.late or self.learner, block)
            self.seconds += time.thread_time() - start
            predicted.score(self.meter)
            self.ahead.add(block, sampled, later_prediction, predicted.prediction)

    @property
    def learned(self) -> int:
        """Number of rows submitted for learning so far, delayed ones included."""
        return self.learner.examples + (0 if self.late is None else self.late.n_waiting)

    def begin(self, delay: int) -> None:
        """Reset the scores and start the run; with `delay`, labels arrive that many examples late."""
        task = self.learner.record.task
        self.meter, self.ahead, self.seconds = meter_for(task), LaterEvaluator(task), 0.0
        self.late = DelayedLabels(self.learner, delay) if delay else None

    def finish(self) -> None:
        """Learn the examples that still wait for their labels."""
        if self.late is not None:
            self.late.finish()


@dataclass
class Comparison:
    """Result of a comparison.

    Attributes:
        entrants: the learners in the order given, each with its meter; `ranked`: the best first.
        skipped: number of bad lines and of rows that any learner rejected; bad_lines: messages for the first few.
        n_wrapped: number of feature indices that were too large for the table and wrapped.
        seconds: duration of the whole run, including reading.
        signal: the signal that interrupted the run, if any.
        warnings: warnings about the data (`bayou.runs.data_warnings`).
    """

    entrants: list[Entrant]
    skipped: int
    bad_lines: list[str]
    n_wrapped: int
    seconds: float
    signal: int | None
    warnings: list[str] = field(default_factory=list)
    error_counts: list[tuple[int, str]] = field(default_factory=list)  # (count, first message) of each kind of bad line

    @property
    def ranked(self) -> list[Entrant]:
        """Entrants by loss, lowest first."""
        return sorted(self.entrants, key=lambda entrant: entrant.meter.loss or 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Return the output of `bayou compare --json`."""
        first = self.entrants[0].meter
        learners = []
        for entrant in self.entrants:
            scores, later_loss = entrant.meter.result().as_dict(), entrant.ahead.loss()
            for shared in ("examples", "nonzeros", "skipped"):
                del scores[shared]
            learners.append(
                {
                    "learner": entrant.spec,
                    "name": entrant.learner.name,
                    "parameters": entrant.chosen.parameters,
                    **scores,
                    "later_loss": None if later_loss is None else later_loss.as_dict(),
                    "seconds": entrant.seconds,
                    "bytes": entrant.size,
                }
            )
        return {
            "examples": first.examples,
            "nonzeros": int(first.nonzeros),
            "skipped": self.skipped,
            "folded": self.n_wrapped,
            "bad": self.bad_lines,
            "remarks": self.warnings,
            "seconds": self.seconds,
            "interrupted": self.signal is not None,
            "learners": learners,
        }


class ComparisonOptions(RunOptions, total=False):
    """Options of `compare` in addition to those of every run."""

    delay: int
    report: str | os.PathLike[str] | None


def compare(
    data: Data,
    learners: Sequence[str] | None = None,
    *,
    on_progress: Callable[[], Any] | None = None,
    **options: Unpack[ComparisonOptions],
) -> Comparison:
    """Train several learners on the data side by side; each predicts every example before it learns from it.

    Args:
        data: as for `bayou.train`.
        learners: names, with parameters as in "marginal:prior_variance=.1,memory=1e-4"; by default a selection that
            suits the labels.
        on_progress: called after each batch.
        options: delay, report, format, on_error, threads, on_note and the recipe options, as for `bayou.train`.
    """
    comparing = ComparisonRun(data, learners, **options)
    comparison = comparing.run(on_progress)
    comparing.write_report(comparison)
    return comparison


class ComparisonRun:
    """Comparison in two steps: the constructor checks the options and raises BadInput, `run` does the work."""

    def __init__(self, data: Data, learners: Sequence[str] | None = None, **options: Unpack[ComparisonOptions]) -> None:
        parsed = options_of(options, delay=0, report=None)
        self._delay = check_int("delay", parsed.own.delay, 0)
        self._say, report = parsed.note, parsed.own.report
        data = sources.parts_or_paths(data)
        check_report(report)
        check_outputs({option("report"): report}, data)
        specs = [] if learners is None else [EntrantSpec.of(spec) for spec in learners]
        self.source = sources.open(data, recipe={"task": _task_of(specs)} | parsed.recipe, **parsed.opening)
        task = self.source.fit_recipe().task
        specs = specs or [EntrantSpec.of(name) for name in COMPARED[task]]
        self.entrants = [spec.entrant(task, self.source.n_classes) for spec in specs]
        made = [entrant.learner for entrant in self.entrants]
        self.source.read_as(widest(made), any(learner.wants_groups for learner in made))
        self._files, self._report = names_of(data), report
        self._grow()
        if report is not None:
            from bayou.report import Recorder

            for entrant in self.entrants:
                entrant.recorder = Recorder(entrant.learner)
                entrant.recorder.teaches = entrant.late or entrant.learner

    def _grow(self) -> None:
        """Give every learner as many weights as the data need, if they fit into memory, and load the kernels."""
        n = self.source.recipe.n_features
        note = memory.check_all({entrant.spec: entrant.learner for entrant in self.entrants}, n)
        if self.source.decided:
            self._say(Note(self.source.decided, detail=True))
        self._say(Note(note))
        rows = first_rows(self.source)
        nothing = np.zeros(len(rows))
        for entrant in self.entrants:
            entrant.learner = entrant.chosen.build(n)
            entrant.begin(0)
            with suppress(BadInput):  # reported when these rows are learned
                entrant.learn(rows.with_labels(rows.labels, nothing).astype(entrant.dtype))
            entrant.begin(self._delay)

    def run(self, on_progress: Callable[[], Any] | None = None) -> Comparison:
        """Train all learners in parallel, batch by batch, so that only one batch is in memory at a time."""
        source, entrants, refused = self.source, self.entrants, RejectedRows(self.source)
        warnings = DataWarnings(source)
        start = time.perf_counter()
        n_threads = min(len(entrants), sources.spare_cores() + 1)
        with interruptible(source) as interrupt, ThreadPoolExecutor(n_threads) as pool:
            dtype = widest([entrant.learner for entrant in entrants])
            for batch in rebatch(source, lambda: entrants[0].learned, dtype, block_size):
                warnings.look(batch)
                for chunk in _accepted(batch, entrants, refused):
                    warnings.follow(chunk.labels)
                    cast = {dtype: chunk.astype(dtype) for dtype in {entrant.dtype for entrant in entrants}}
                    for done in [pool.submit(entrant.learn, cast[entrant.dtype]) for entrant in entrants]:
                        done.result()
                if on_progress is not None:
                    on_progress()
                if interrupt:
                    break
        for entrant in entrants:
            entrant.finish()
        if not interrupt:
            source.check_learned(refused.sentences, refused.count)
        return Comparison(
            entrants,
            skipped=source.skipped + refused.count,
            bad_lines=(source.bad_lines + refused.sentences)[:20],
            error_counts=refused.error_counts,
            n_wrapped=source.n_wrapped,
            seconds=time.perf_counter() - start,
            signal=interrupt.signal,
            warnings=warnings.after(min(entrants, key=lambda entrant: entrant.meter.loss or 0.0).meter),
        )

    def write_report(self, comparison: Comparison) -> None:
        if self._report is None:
            return
        from bayou import report

        runs = [
            report.ReportedRun(entrant.recorder, entrant.meter.result(), seconds=entrant.seconds, spec=entrant.spec)
            for entrant in comparison.entrants
            if entrant.recorder is not None
        ]
        report.write(self._report, runs, report.DataFacts.of(self.source, self._files, comparison))
        self._say(Note(f"the report is in {self._report}"))


class EntrantSpec(NamedTuple):
    """A learner as the caller specified it: its record and settings."""

    text: str
    record: registry.Record
    settings: list[str]

    @classmethod
    def of(cls, text: str) -> EntrantSpec:
        name, _, text_of_settings = text.strip().partition(":")
        # A value may contain commas, as in temper=.3,.1; a new parameter starts where a name and = follow.
        settings = [setting for setting in re.split(r",(?=\s*[\w-]+\s*=)", text_of_settings) if setting.strip()]
        return cls(text.strip(), registry.find(name), settings)

    def entrant(self, task: str, classes: int) -> Entrant:
        """Return an entrant whose learner has a single weight for now. Raise BadInput if the spec is invalid."""
        try:
            spec = choose(self.record.name, self.settings, task, classes)
            return Entrant(self.text, spec, spec.build(1))
        except ValueError as error:
            raise BadInput(f"{option('learners', self.text)}: {error}") from None


def _task_of(specs: Sequence[EntrantSpec]) -> str:
    """Return the common task of the specs, "auto" if the labels decide it. Raise BadInput for an invalid spec."""
    names = [spec.text for spec in specs]
    for text in sorted(names):
        if names.count(text) > 1:
            raise BadInput(f"{option('learners', text)} is given twice; give each different parameters.")
    task = next((task_of_spec for spec in specs if (task_of_spec := task_of(spec.record)) != "auto"), "auto")
    for spec in specs:
        if task != "auto" or spec.record.name != registry.DEFAULT:
            spec.entrant(task, 0)
    return task


def widest(learners: Sequence[Learner]) -> str:
    """Return the dtype that holds the values of every learner without loss."""
    return max(str(learner.parameters["dtype"]) for learner in learners)  # as strings, "float64" > "float32"


def _accepted(batch: Batch, entrants: Sequence[Entrant], refused: RejectedRows) -> Iterator[Batch]:
    """Yield the batch in chunks without the rows that any learner rejects."""
    errors: dict[int, str] = {}
    for entrant in entrants:
        for row, _, answer in bisect_rejected(batch, entrant.learner.check):
            if isinstance(answer, BadInput):
                errors.setdefault(row, f"{entrant.spec}: {answer}")
    start = 0
    for row in sorted(errors):
        refused.refuse(batch[row : row + 1], errors[row])
        if row > start:
            yield batch[start:row]
        start = row + 1
    if start < len(batch):
        yield batch[start:] if start else batch
