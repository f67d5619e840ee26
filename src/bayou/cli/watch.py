"""What a person sees of a training run: a running table, a line of progress, notes, a summary."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayou.cli.options import bytes_in_words
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.evaluate.classification import Running
from bayou.sources import Source

if TYPE_CHECKING:
    from bayou.cli.training import Outcome

# The running table's first row, and how seldom the line of progress is drawn anew, in seconds.
FIRST_ROW = 1024
SELDOM = 0.1
# Loading compiled kernels takes less than this; what takes longer is compiling.
COMPILING_AFTER = 2.0

COLUMNS = ("examples", "{}", "since last", "features", "examples/s")
WIDTHS = (14, 14, 12, 10, 14)


@contextmanager
def compiling() -> Iterator[None]:
    """Say what takes so long, if the kernels are being compiled: they are, the first time on a machine."""

    def say() -> None:
        print("compiling the kernels; this happens once, takes up to a minute, and is kept", file=sys.stderr)

    timer = threading.Timer(COMPILING_AFTER, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_memory(learner: Learner, n_features: int) -> None:
    """Say what so many weights of a learner like this one will take, and refuse what does not fit."""
    size, free = learner.nbytes_for(n_features), free_memory()
    if free is not None and size > free:
        dense = ", or a learner that keeps no matrix" if learner.nbytes_for(2 * n_features) > 3 * size else ""
        raise BadInput(
            f"{n_features:,} weights of a {learner.name} take {bytes_in_words(size)} of memory; "
            f"{bytes_in_words(free)} are free. Use fewer --bits{dense}."
        )
    print(f"{learner.name}: {n_features:,} weights, up to {bytes_in_words(size)} of memory", file=sys.stderr)


def free_memory() -> int | None:
    """Bytes that can still be had, where the system says so."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


class Watch:
    """Shows how a run goes, on standard error."""

    def __init__(self, source: Source, learner: Learner, quiet: bool = False) -> None:
        self._source, self._learner, self._quiet = source, learner, quiet
        self._next = FIRST_ROW
        self._last_weight, self._last_loss = 0.0, 0.0
        self._started = self._drawn = time.perf_counter()
        self._bar: Any = None
        self._header = False

    def __enter__(self) -> Watch:
        self._started = time.perf_counter()
        if sys.stderr.isatty() and not self._quiet:
            self._bar = _bar(self._source.bytes_total)
            self._bar.start()
            self._task = self._bar.add_task("", total=self._source.bytes_total, rate="", loss="")
        return self

    def __exit__(self, *unused: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line for the person at the screen."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def passed(self, number: int, converged: bool) -> None:
        """After each pass: what the learner has to say of it."""
        words = self._learner.progress()
        if words and not self._quiet:
            self.say(f"pass {number}: {words}{', converged' * converged}")

    def update(self, meter: Running, passed: int) -> None:
        """After each batch."""
        if self._quiet:
            return
        if meter.examples >= self._next and passed == 0:
            self._row(meter)
        now = time.perf_counter()
        if self._bar is not None and now - self._drawn > SELDOM:
            self._drawn = now
            seconds = max(now - self._started, 1e-9)
            loss = "" if meter.loss is None else f"{_in_words(meter)} {meter.loss:.4f}"
            done, label = self._source.bytes_done, "" if passed == 0 else f"pass {passed + 1}"
            self._bar.update(
                self._task, completed=done, rate=f"{meter.examples / seconds:,.0f}/s", loss=loss, description=label
            )

    def _row(self, meter: Running) -> None:
        examples, loss = meter.examples, meter.loss or 0.0
        since = (loss * meter.weight - self._last_loss * self._last_weight) / (meter.weight - self._last_weight)
        seconds = max(time.perf_counter() - self._started, 1e-9)
        cells = (
            f"{examples:,}",
            f"{loss:.5f}",
            f"{since:.5f}",
            f"{meter.nonzeros / examples:.1f}",
            f"{examples / seconds:,.0f}",
        )
        if not self._header:
            names = (name.format(_in_words(meter)) for name in COLUMNS)
            self.say("".join(f"{name:>{width}}" for name, width in zip(names, WIDTHS, strict=True)))
            self._header = True
        self.say("".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True)))
        self._last_weight, self._last_loss = meter.weight, loss
        while self._next <= examples:
            self._next *= 2


def _in_words(meter: Running) -> str:
    return meter.loss_name.replace("_", " ")


def _bar(total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn, TimeRemainingColumn

    how_far = [BarColumn(), TaskProgressColumn(), TimeRemainingColumn()] if total else [TimeElapsedColumn()]
    return Progress(
        "{task.description}",
        *how_far,
        "{task.fields[rate]}",
        "{task.fields[loss]}",
        console=Console(stderr=True, highlight=False),
        transient=True,
    )


def summarise(outcome: Outcome, path: Path | None) -> None:
    """The results on standard output; what was skipped, and where the model is, on standard error."""
    result = outcome.result
    for sentence in outcome.bad[:5]:
        print(sentence, file=sys.stderr)
    if result.skipped:
        print(f"{result.skipped:,} bad line{'s were' if result.skipped > 1 else ' was'} skipped", file=sys.stderr)
    if outcome.folded:
        print(
            f"{outcome.folded:,} feature numbers were too large for the table and were folded into it; "
            "with more --bits they would have weights of their own",
            file=sys.stderr,
        )
    lines = [("examples", f"{result.examples:,}"), ("features per example", _ratio(result.nonzeros, result.examples))]
    scores = [("", result)] + ([("held-out ", outcome.held_out)] if outcome.held_out else [])
    for prefix, of in scores:
        if prefix:
            lines.append(("held-out examples", f"{of.examples:,}"))
        for k, (name, value) in enumerate(of.headline().items()):
            seen = ", seen before" * outcome.seen_before * (not prefix and k == 0)
            lines.append((prefix + name + seen, "-" if value is None else f"{value:.5f}"))
    rate = result.examples / outcome.seconds if outcome.seconds else 0.0
    lines.append(("seconds", f"{outcome.seconds:.2f} ({rate:,.0f} examples/s)"))
    for name, shown in lines:
        print(f"{name:<28}{shown}")
    if outcome.signal:
        kept = "was kept" if path is not None else "is lost"
        print(f"interrupted: what was learned so far {kept}", file=sys.stderr)
    if result.examples and getattr(result, "auc", 0.0) is None:
        print("all labels were the same: nothing to tell apart; check --label and --positive", file=sys.stderr)
    if outcome.unsaved is not None:
        return
    if path is not None:
        print(f"the model is in {path}", file=sys.stderr)
    else:
        print("nothing was saved; --model FILE keeps what was learned", file=sys.stderr)


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.1f}" if whole else "-"
