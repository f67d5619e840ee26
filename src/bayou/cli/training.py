"""One run of `bayou train`: learn from a source, keep count, save; also when interrupted."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayou.cli.watch import Watch
from bayou.core.batch import Batch
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner
from bayou.evaluate.classification import Evaluation
from bayou.evaluate.regression import RegressionEvaluation, meter_for
from bayou.sources import Source

if TYPE_CHECKING:
    from bayou.report import Recorder


@dataclass
class Outcome:
    """How a run went."""

    result: Evaluation | RegressionEvaluation  # predictions made before learning, in the first pass of this run
    held_out: Evaluation | RegressionEvaluation | None
    passes: int  # finished ones
    converged: bool
    signal: int | None  # what interrupted it
    seconds: float
    learner: str
    bad: list[str] = field(default_factory=list)
    folded: int = 0
    seen_before: bool = False  # the examples scored were learned from in an earlier pass
    unsaved: BadModel | None = None  # why the model was not written

    def as_dict(self) -> dict[str, Any]:
        plain = self.result.as_dict() | {
            "learner": self.learner,
            "passes": self.passes,
            "converged": self.converged,
            "interrupted": self.signal is not None,
            "seconds": self.seconds,
            "folded": self.folded,
            "seen_before": self.seen_before,
            "bad": self.bad,
        }
        if self.held_out is not None:
            scores = self.held_out.as_dict()
            del scores["skipped"], scores["seconds"]
            plain["holdout"] = scores
        return plain


def warm_up(learner: Learner, source: Source) -> None:
    """Have every kernel loaded by trying it on the first few rows. Changes nothing."""
    batch = source.peek()[:64]
    nothing = np.zeros(len(batch))
    with suppress(BadInput):  # it will be said when these rows come
        answered = learner.learn(batch.with_labels(batch.labels, nothing))
        meter_for(learner.record.task).add(answered, batch.labels, nothing)


def write_report(path: Path, recorder: Recorder, outcome: Outcome, source: Source, files: list[str]) -> None:
    """What the run showed, for people; a model that could not be saved is still the first thing to say."""
    from bayou.report import Data, Run, write

    run = Run(recorder, outcome.result, outcome.held_out, outcome.seconds)
    try:
        write(path, run, Data.of(source, files, outcome.result.skipped, outcome.bad))
    except BadInput:
        if outcome.unsaved is None:
            raise
    else:
        print(f"the report is in {path}", file=sys.stderr)


class Training:
    """One run: so many passes over a source, with progress, checkpoints and a last save."""

    def __init__(
        self,
        learner: Learner,
        source: Source,
        *,
        data: list[str],
        passes: int,
        holdout: float | None,
        path: Path | None,
        every: tuple[int | None, float | None],
        watch: Watch,
        resumed: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._learner, self._source, self._watch = learner, source, watch
        self._data, self._path = data, path
        self._every_examples, self._every_seconds = every
        self._passes = passes
        self._signal: int | None = None
        self._pass = self._done = 0  # passes finished; rows of the present one that are done with
        self._before = learner.attached.get("counters", {}) if resumed else {}
        self._skipped_before = 0  # bad lines that a run counted which was interrupted, and that will be met again
        self._newly_skipped = 0
        unfinished = learner.attached.pop("unfinished", None)
        if resumed and unfinished and unfinished.get("data") == data and source.again:
            self._pass, self._done = unfinished["pass"], unfinished["rows"]
            self._passes, self._skipped_before = max(passes, unfinished["passes"]), unfinished["skipped"]
            if holdout not in (None, unfinished["holdout"]):
                raise BadInput(f"--holdout is {holdout}, but the run to go on with had {unfinished['holdout']}.")
            holdout = unfinished["holdout"]
            watch.say(f"going on after {self._done:,} examples of pass {self._pass + 1}, where it was interrupted")
        if self._pass == self._done == 0:
            learner.new_stream()
        self._first = self._pass  # in which predictions are scored: later ones have seen their examples
        self._refused: list[str] = []
        self._n_refused = 0
        self._holdout = holdout or 0.0
        self._meter = meter_for(learner.record.task)
        self._held_out = meter_for(learner.record.task) if self._holdout else None
        self._saved_at, self._saved_examples = time.monotonic(), learner.examples

    def run(self) -> Outcome:
        converged = False
        start = time.perf_counter()
        with self._interrupts(), self._watch:
            try:
                while self._pass < self._passes and not converged:
                    self._one_pass()
                    if self._signal:
                        break
                    self._pass, self._done = self._pass + 1, 0
                    converged = self._learner.end_pass()
                    self._watch.passed(self._pass, converged)
                seconds = time.perf_counter() - start
                self._meter.skipped = self._skipped
                if not self._signal:
                    self._source.check_learned(self._refused, self._n_refused)
            except BadInput:
                if self._meter.examples and self._path is not None:
                    self._save(unfinished=True)
                    self._watch.say(f"what was learned before that is in {self._path}")
                raise
            unsaved = None
            try:
                self._save(unfinished=self._signal is not None)
            except BadModel as error:
                unsaved = error  # for after the results, which are not lost
        return Outcome(
            result=self._meter.result(),
            held_out=None if self._held_out is None else self._held_out.result(),
            passes=self._pass,
            converged=converged,
            signal=self._signal,
            seconds=seconds,
            learner=self._learner.name,
            bad=(self._source.bad + self._refused)[:20],
            folded=self._source.folded,
            seen_before=self._first > 0,
            unsaved=unsaved,
        )

    @property
    def _skipped(self) -> int:
        """Bad lines, and rows that the learner refused, of this pass."""
        return self._source.skipped + self._n_refused

    def _one_pass(self) -> None:
        """From row `_done` on; rows before it were learned by a run that was interrupted."""
        self._refused, self._n_refused = [], 0
        if self._held_out is not None:
            self._held_out = meter_for(self._learner.record.task)
        skip = self._done
        # What later passes say of their examples is no prediction.
        recorded = self._recorder if self._pass == self._first else None
        self._observe = (recorded or self._learner).observe
        for batch in recorded.cut(self._source) if recorded else self._source:
            if skip >= len(batch):
                skip -= len(batch)
                continue
            batch, skip = batch[skip:] if skip else batch, 0
            self._learn(batch)
            self._done += len(batch)
            if self._pass == self._first:
                self._newly_skipped = max(self._skipped - self._skipped_before, 0)
            self._watch.update(self._meter, self._pass)
            if self._due():
                self._checkpoint()
            if self._signal:
                return

    def _learn(self, batch: Batch) -> None:
        if batch.labels is not None and self._learner.negative_label == 0:
            batch = batch.with_labels(np.where(batch.labels < 0, 0.0, batch.labels))
        held, weights = None, batch.each_weight()
        if self._holdout:
            # every so-many-th row, counted over the whole stream: the same rows in every pass
            numbers = np.arange(self._done, self._done + len(batch))
            held = np.floor((numbers + 1) * self._holdout) > np.floor(numbers * self._holdout)
            batch = batch.with_labels(batch.labels, np.where(held, 0.0, weights))
        expected, scatter = self._believed(batch)
        fine = ~np.isnan(expected)
        if not fine.all():
            expected = np.where(fine, expected, 0.5)
            batch = batch.with_labels(batch.labels, np.where(fine, batch.each_weight(), 0.0))
        if self._pass == self._first:
            self._meter.add(
                expected, batch.labels, batch.weights, nonzeros=batch.counted_nonzeros, deviations=scatter
            )  # fmt: skip
        if held is not None and self._held_out is not None:
            self._held_out.add(expected, batch.labels, np.where(held & fine, weights, 0.0), deviations=scatter)

    def _believed(self, batch: Batch) -> np.ndarray:
        """Learn; what was expected of each row before, and how far off that may be (NaN where nothing is said of it).

        Where the learner refuses a row, NaN for it, and all others learned: a batch is refused whole, before its first
        row, so that its halves can be tried.
        """
        try:
            prediction = self._observe(batch)
            scatter = prediction.deviation
            return np.stack([prediction.expected, np.full(len(batch), np.nan) if scatter is None else scatter])
        except BadInput as error:
            if len(batch) > 1:
                half = len(batch) // 2
                return np.concatenate([self._believed(batch[:half]), self._believed(batch[half:])], axis=1)
            line = "" if batch.positions is None else f"line {batch.positions[0]}: "
            if not self._source.skips:
                raise BadInput(f"{line}{error}") from None
            self._n_refused += 1
            if len(self._refused) < 5:
                self._refused.append(f"{line}{error}")
            return np.full((2, 1), np.nan)

    # --- saving -----------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        if self._every_examples is not None:
            return self._learner.examples - self._saved_examples >= self._every_examples
        return self._every_seconds is not None and time.monotonic() - self._saved_at >= self._every_seconds

    def _checkpoint(self) -> None:
        """A failed one must not end the run: the next may succeed, and the last one says it."""
        try:
            self._save(unfinished=True)
            self._watch.say(f"checkpoint after {self._learner.examples:,} examples: {self._path}")
        except BadModel as error:
            self._watch.say(f"no checkpoint: {error}")
        self._saved_at, self._saved_examples = time.monotonic(), self._learner.examples

    def _save(self, unfinished: bool) -> None:
        if self._path is None:
            return
        learner = self._learner
        learner.attached["counters"] = self._counters()
        learner.attached.pop("unfinished", None)
        if unfinished:
            learner.attached["unfinished"] = {
                "data": self._data,
                "pass": self._pass,
                "passes": self._passes,
                "rows": self._done,
                "skipped": self._skipped,
                "holdout": self._holdout,
            }
        self._source.carried.attach(learner)
        learner.save(self._path)

    def _counters(self) -> dict[str, Any]:
        """What this model has seen in all its runs; only predictions of examples it had not seen before count."""
        counted = self._first == 0
        now = {
            "examples": self._meter.examples if counted else 0,
            "nonzeros": int(self._meter.nonzeros) if counted else 0,
            "skipped": self._newly_skipped if counted else 0,
            "weight": self._meter.weight if counted else 0.0,
            "loss": self._meter.weight * (self._meter.loss or 0.0) if counted else 0.0,
            "runs": 1,
        }
        total = {name: value + self._before.get(name, 0) for name, value in now.items()}
        return {**total, self._meter.loss_name: total["loss"] / total["weight"] if total["weight"] else None}

    # --- interrupts -------------------------------------------------------------------------------------------------

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the run after the present block; a second one ends it at once."""

        def stop(number: int, _frame: Any) -> None:
            self._signal = number
            self._source.stop()
            for kind, old in before.items():
                signal.signal(kind, old)

        kinds = [signal.SIGINT, signal.SIGTERM]
        try:
            before = {kind: signal.signal(kind, stop) for kind in kinds}
        except ValueError:  # not in the main thread: somebody else's business
            yield
            return
        try:
            yield
        finally:
            for kind, old in before.items():
                signal.signal(kind, old)
