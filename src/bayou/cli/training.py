"""One run of `bayou train`: learn from a source, keep count, save; also when interrupted."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayou.batch import Batch
from bayou.cli.watch import Watch
from bayou.errors import BadInput
from bayou.learner import Learner
from bayou.meter import Evaluation, Meter
from bayou.sources import Source


@dataclass
class Outcome:
    """How a run went."""

    result: Evaluation  # predictions made before learning, in the first pass of this run
    held_out: Evaluation | None
    passes: int  # finished ones
    converged: bool
    signal: int | None  # what interrupted it
    seconds: float
    learner: str
    bad: list[str] = field(default_factory=list)
    folded: int = 0

    def as_dict(self) -> dict[str, Any]:
        plain = self.result.as_dict() | {
            "learner": self.learner,
            "passes": self.passes,
            "interrupted": self.signal is not None,
            "seconds": self.seconds,
            "folded": self.folded,
            "bad": self.bad,
        }
        if self.held_out is not None:
            scores = self.held_out.as_dict()
            del scores["skipped"], scores["seconds"]
            plain["holdout"] = scores
        return plain


def warm_up(learner: Learner, source: Source) -> None:
    """Have every kernel loaded by trying it on the first few rows. Changes nothing."""
    batch = source.taste()[:64]
    nothing = np.zeros(len(batch))
    with suppress(BadInput):  # it will be said when these rows come
        Meter().add(learner.learn(batch.with_labels(batch.labels, nothing)), batch.labels, nothing)


class Training:
    """One run: so many passes over a source, with progress, checkpoints and a last save."""

    def __init__(
        self,
        learner: Learner,
        source: Source,
        *,
        data: list[str],
        passes: int,
        holdout: float,
        path: Path | None,
        every: tuple[int | None, float | None],
        watch: Watch,
        resumed: bool = False,
    ) -> None:
        self._learner, self._source, self._watch = learner, source, watch
        self._data, self._path = data, path
        self._every_examples, self._every_seconds = every
        self._passes, self._holdout = passes, holdout
        self._signal: int | None = None
        self._pass = self._done = 0  # passes finished; rows of the present one that are done with
        self._before = learner.attached.get("counters", {}) if resumed else {}
        unfinished = learner.attached.pop("unfinished", None)
        if resumed and unfinished and unfinished.get("data") == data and "-" not in data:
            self._pass, self._done = int(unfinished["pass"]), int(unfinished["rows"])
            watch.say(f"going on after {self._done:,} examples of pass {self._pass + 1}, where it was interrupted")
        self._refused: list[str] = []
        self._n_refused = 0
        self._saved_at, self._saved_examples = time.monotonic(), learner.examples

    def run(self) -> Outcome:
        self._meter, self._held_out = Meter(), Meter() if self._holdout else None
        first, converged = self._pass, False
        start = time.perf_counter()
        with self._interrupts(), self._watch:
            while self._pass < self._passes and not converged:
                self._one_pass(scored=self._pass == first)
                if self._signal:
                    break
                self._pass, self._done = self._pass + 1, 0
                converged = self._learner.end_pass()
            seconds = time.perf_counter() - start
            self._meter.skipped = self._source.skipped + self._n_refused
            if self._meter.skipped and not self._meter.examples and not self._signal:
                why = (self._source.bad + self._refused)[0]
                raise BadInput(f"none of the {self._source.lines:,} lines could be learned from; the first: {why}")
            self._save(last=True)
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
        )

    def _one_pass(self, scored: bool) -> None:
        """From row `_done` on; rows before it were learned by a run that was interrupted."""
        skip = self._done
        for batch in self._source:
            if skip >= len(batch):
                skip -= len(batch)
                continue
            batch, skip = batch[skip:] if skip else batch, 0
            self._learn(batch, scored)
            self._done += len(batch)
            self._watch.update(self._meter, self._pass)
            if self._due():
                self._save()
            if self._signal:
                return

    def _learn(self, batch: Batch, scored: bool) -> None:
        if batch.labels is not None and self._learner.negative_label == 0:
            batch = batch.with_labels(np.where(batch.labels < 0, 0.0, batch.labels))
        held = None
        if self._holdout:
            # every so-many-th row, counted over the whole stream: the same rows in every pass
            numbers = np.arange(self._done, self._done + len(batch))
            held = np.floor((numbers + 1) * self._holdout) > np.floor(numbers * self._holdout)
            batch = batch.with_labels(batch.labels, np.where(held, 0.0, batch.each_weight()))
        probability = self._probability(batch)
        fine = ~np.isnan(probability)
        if not fine.all():
            probability = np.where(fine, probability, 0.5)
            batch = batch.with_labels(batch.labels, np.where(fine, batch.each_weight(), 0.0))
        if scored:
            self._meter.add(probability, batch.labels, batch.weights, nonzeros=batch.counted_nonzeros)
        if held is not None and self._held_out is not None and self._pass == self._passes - 1:
            self._held_out.add(probability, batch.labels, (held & fine).astype(np.float64))

    def _probability(self, batch: Batch) -> np.ndarray:
        """Learn; where the learner refuses a row, NaN for it, and all others learned: a batch is refused whole, before
        its first row, so that its halves can be tried."""
        try:
            return self._learner.learn(batch)
        except BadInput as error:
            if len(batch) > 1:
                half = len(batch) // 2
                return np.concatenate([self._probability(batch[:half]), self._probability(batch[half:])])
            line = "" if batch.positions is None else f"line {batch.positions[0]}: "
            if not self._source.skips:
                raise BadInput(f"{line}{error}") from None
            self._n_refused += 1
            if len(self._refused) < 5:
                self._refused.append(f"{line}{error}")
            return np.full(1, np.nan)

    # --- saving -----------------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        if self._every_examples is not None:
            return self._learner.examples - self._saved_examples >= self._every_examples
        return self._every_seconds is not None and time.monotonic() - self._saved_at >= self._every_seconds

    def _save(self, last: bool = False) -> None:
        if self._path is None:
            return
        learner = self._learner
        learner.attached["counters"] = self._counters()
        learner.attached.pop("unfinished", None)
        if self._signal or not last:
            learner.attached["unfinished"] = {"data": self._data, "pass": self._pass, "rows": self._done}
        self._source.carried.attach(learner)
        learner.save(self._path)
        self._saved_at, self._saved_examples = time.monotonic(), learner.examples
        if not last:
            self._watch.say(f"checkpoint after {learner.examples:,} examples: {self._path}")

    def _counters(self) -> dict[str, Any]:
        """What this model has seen in all its runs."""
        now, before = self._meter.result(), self._before
        examples, earlier = now.examples, before.get("examples", 0)
        loss = [(n, x) for n, x in ((examples, now.log_loss), (earlier, before.get("log_loss"))) if n and x is not None]
        return {
            "examples": examples + earlier,
            "nonzeros": now.nonzeros + before.get("nonzeros", 0),
            "skipped": self._source.skipped + self._n_refused + before.get("skipped", 0),
            "log_loss": sum(n * x for n, x in loss) / sum(n for n, _ in loss) if loss else None,
            "runs": before.get("runs", 0) + 1,
        }

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
