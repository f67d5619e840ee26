"""Output of a training run: a growing table, a progress line, notes and a summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bayou.cli.terminal import output
from bayou.cli.terminal.columns import short_table
from bayou.core.printable import printable
from bayou.evaluate.base_meter import BaseMeter
from bayou.evaluate.later import describe
from bayou.recipe.recipe import Column
from bayou.runs.look import remarks_on
from bayou.runs.options import Note
from bayou.runs.training_run import Progress, TrainingRun
from bayou.sources import Source

# Examples at the first row of the table, and minimum seconds between two updates of the progress line.
FIRST_ROW = 1024
REDRAW_SECONDS = 0.1

COLUMNS = ("examples", "{}", "since last", "features", "examples/s")
WIDTHS = (14, 14, 12, 10, 14)


def without_details(note: Note) -> None:
    """Print a note unless it is a detail, as for `--quiet`."""
    if not note.detail:
        output.say_note(note)


def show_columns(columns: Sequence[Column]) -> None:
    """Print the roles of a table's columns, and warnings about them, before training."""
    for line in [*short_table(columns), *remarks_on(columns)]:
        output.print_note(line)


class ProgressTable:
    """Display of a training run on standard error."""

    def __init__(self, source: Source, quiet: bool = False) -> None:
        self._source, self._quiet = source, quiet
        self._next = FIRST_ROW
        self._last_weight, self._last_loss = 0.0, 0.0
        self._started = self._drawn = time.perf_counter()
        self._bar: Any = None
        self._header = False

    def __enter__(self) -> ProgressTable:
        self._started = time.perf_counter()
        if sys.stderr.isatty() and not self._quiet:
            self._bar = _bar(self._source.bytes_total)
            self._bar.start()
            self._task = self._bar.add_task("", total=self._source.bytes_total, rate="", loss="")
        return self

    def __exit__(self, *unused: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, note: Note) -> None:
        """Print a note, above the progress line if there is one."""
        if self._bar is not None:
            self._bar.console.print(printable(note.text), highlight=False, markup=False)
        elif not (self._quiet and note.detail):
            output.say_note(note)

    def _print(self, cells: Iterable[str]) -> None:
        self.say(Note("".join(cells)))

    def update(self, progress: Progress) -> None:
        """Update the display; call this after each batch."""
        if self._quiet:
            return
        passed = progress.passed
        if passed == 0 and progress.rows >= self._next and progress.meter.examples >= self._next:
            self._row(progress.meter)
        now = time.perf_counter()
        if self._bar is not None and now - self._drawn > REDRAW_SECONDS:
            self._drawn, meter = now, progress.meter
            seconds = max(now - self._started, 1e-9)
            loss = "" if meter.loss is None else f"{_in_words(meter)} {meter.loss:.4f}"
            done, label = progress.bytes_done, "" if passed == 0 else f"pass {passed + 1}"
            self._bar.update(
                self._task, completed=done, rate=f"{meter.examples / seconds:,.0f}/s", loss=loss, description=label
            )

    def _row(self, meter: BaseMeter) -> None:
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
            self._print(f"{name:>{width}}" for name, width in zip(names, WIDTHS, strict=True))
            self._header = True
        self._print(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
        self._last_weight, self._last_loss = meter.weight, loss
        while self._next <= examples:
            self._next *= 2


def _in_words(meter: BaseMeter) -> str:
    return meter.loss_name.replace("_", " ")


def _bar(total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    known = [BarColumn(), TaskProgressColumn(), TimeRemainingColumn()]
    how_far = known if total else [SpinnerColumn(), TimeElapsedColumn()]
    return Progress(
        "{task.description}",
        *how_far,
        "{task.fields[rate]}",
        "{task.fields[loss]}",
        console=Console(stderr=True, highlight=False),
        transient=True,
    )


def summarise(run: TrainingRun, path: Path | None) -> None:
    """Print the results to standard output; what was skipped, and where the model is, to standard error."""
    result = run.evaluation
    output.say_skipped(run)
    lines = [("examples", f"{result.examples:,}"), ("features per example", _ratio(result.nonzeros, result.examples))]
    later = run.later_loss if run.later_loss is not None and run.later_loss.differs else None
    held_out = f"held out ({run.held_out_rows}), predicted by the finished model"
    scores = [("", result)] + ([("held-out ", run.held_out)] if run.held_out else [])
    for prefix, of in scores:
        if prefix:
            lines += [(held_out, ""), ("held-out examples", f"{of.examples:,}")]
        for k, (name, value) in enumerate(of.headline().items()):
            seen = ", seen before" * run.seen_before * (not prefix and k == 0)
            lines.append((prefix + name + seen, "-" if value is None else f"{value:.5f}"))
        if not prefix and later is not None:
            lines.append((f"{later.measure}, last half", f"{later.learned:.5f}"))
            lines.append(("expected on later rows", f"{later.expected:.5f} (± {later.error:.5f})"))
    rate = run.learned / run.seconds if run.seconds else 0.0
    lines.append(("seconds", f"{run.seconds:.2f} ({rate:,.0f} examples/s)"))
    width = max(28, *(len(name) + 2 for name, shown in lines if shown))
    for name, shown in lines:
        output.print_result(f"{name:<{width}}{shown}".rstrip())
    if later is not None:
        output.print_note(describe(later))
    if run.signal and not run.learned:
        output.print_note("interrupted before anything was learned; nothing was saved")
        return
    if run.signal:
        kept = "was kept" if path is not None else "is lost"
        output.print_note(f"interrupted: what was learned so far {kept}")
    if result.examples and getattr(result, "auc", 0.0) is None:
        output.warn_single_class()
    if run.save_error is not None:
        return
    if path is not None:
        output.print_note(f"the model is in {path}")
    else:
        output.print_note("nothing was saved; --model FILE keeps what was learned")


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.1f}" if whole else "-"
