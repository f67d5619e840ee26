"""Output of a training run: a growing table, a progress line, notes and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayou.cli.terminal import output
from bayou.cli.terminal.columns import short_table
from bayou.cli.terminal.live import LiveDisplay
from bayou.core.printable import printable
from bayou.evaluate.base_meter import BaseMeter
from bayou.evaluate.later import describe
from bayou.recipe.recipe import Column
from bayou.runs.look import warnings_on
from bayou.runs.options import Note
from bayou.runs.training_run import Progress, TrainingRun
from bayou.sources import Source

COLUMNS = ("examples", "{}", "since last", "features", "examples/s")
WIDTHS = (14, 14, 12, 10, 14)


def without_details(note: Note) -> None:
    """Print a note unless it is a detail, as for `--quiet`."""
    if not note.detail:
        output.say_note(note)


def show_columns(columns: Sequence[Column], task: str) -> None:
    """Print the roles of a table's columns, and warnings about them, before training.

    For two classes the order of the labels is left to the end, when all of them are known (`runs.data_warnings`).
    """
    from bayou.sources.table.column_warnings import LABEL_IN_RUNS  # loads kernels

    for line in [*short_table(columns), *warnings_on(columns)]:
        if task != "binary" or LABEL_IN_RUNS not in line:
            output.print_note(line)


class ProgressTable(LiveDisplay):
    """Display of a training run on standard error."""

    REDRAW_SECONDS = 0.1

    def __init__(self, source: Source, quiet: bool = False) -> None:
        super().__init__(source, quiet)
        self._last_weight, self._last_loss = 0.0, 0.0

    def _new_live(self) -> Any:
        bar = _bar(self._source.bytes_total)
        self._task = bar.add_task("", total=self._source.bytes_total, rate="", loss="")
        return bar

    def say(self, note: Note) -> None:
        """Print a note, above the progress line if there is one."""
        if self._live is not None:
            self._live.console.print(printable(note.text), highlight=False, markup=False)
        elif not (self._quiet and note.detail):
            output.say_note(note)

    def _print(self, line: str) -> None:
        self.say(Note(line))

    def update(self, progress: Progress) -> None:
        """Update the display; call this after each batch."""
        if self._quiet:
            return
        passed = progress.passed
        if passed == 0 and progress.rows >= self._next and progress.meter.examples >= self._next:
            self._row(progress.meter)
        if self._should_redraw():
            meter = progress.meter
            loss = "" if meter.loss is None else f"{_in_words(meter)} {meter.loss:.4f}"
            done, label = progress.bytes_done, "" if passed == 0 else f"pass {passed + 1}"
            rate = f"{meter.examples / self._seconds:,.0f}/s"
            self._live.update(self._task, completed=done, rate=rate, loss=loss, description=label)

    def _row(self, meter: BaseMeter) -> None:
        examples, loss = meter.examples, meter.loss or 0.0
        since = (loss * meter.weight - self._last_loss * self._last_weight) / (meter.weight - self._last_weight)
        cells = (
            f"{examples:,}",
            f"{loss:.5f}",
            f"{since:.5f}",
            f"{meter.nonzeros / examples:.1f}",
            f"{examples / self._seconds:,.0f}",
        )
        self._print_row((name.format(_in_words(meter)) for name in COLUMNS), cells, WIDTHS, examples)
        self._last_weight, self._last_loss = meter.weight, loss


def _in_words(meter: BaseMeter) -> str:
    return meter.loss_name.replace("_", " ")


def _bar(total: int | None) -> Any:
    from rich import progress as parts

    kinds = [parts.BarColumn, parts.TaskProgressColumn, parts.TimeRemainingColumn]
    kinds = kinds if total else [parts.SpinnerColumn, parts.TimeElapsedColumn]
    how_far = [kind() for kind in kinds]
    return output.progress_line("{task.description}", *how_far, "{task.fields[rate]}", "{task.fields[loss]}")


def summarise(run: TrainingRun, path: Path | None) -> None:
    """Print the results to standard output; what was skipped, and where the model is, to standard error."""
    result = run.evaluation
    output.say_skipped(run)
    per_example = f"{result.nonzeros / result.examples:.1f}" if result.examples else "-"
    lines = [("examples", f"{result.examples:,}"), ("features per example", per_example)]
    later_loss = run.later_loss if run.later_loss is not None and run.later_loss.differs else None
    held_out = f"held out ({run.held_out_rows}), predicted by the finished model"
    scores = [("", result)] + ([("held-out ", run.held_out)] if run.held_out else [])
    for prefix, of in scores:
        if prefix:
            lines += [(held_out, ""), ("held-out examples", f"{of.examples:,}")]
        for k, (name, value) in enumerate(of.headline().items()):
            seen = ", seen before" * run.seen_before * (not prefix and k == 0)
            lines.append((prefix + name + seen, "-" if value is None else f"{value:.5f}"))
        if not prefix and later_loss is not None:
            lines.append((f"{later_loss.measure}, last half", f"{later_loss.learned:.5f}"))
            lines.append(("expected on later rows", f"{later_loss.expected:.5f} (± {later_loss.error:.5f})"))
    rate = run.learned / run.seconds if run.seconds else 0.0
    lines.append(("seconds", f"{run.seconds:.2f} ({rate:,.0f} examples/s)"))
    width = max(28, *(len(name) + 2 for name, value_text in lines if value_text))
    for name, value_text in lines:
        output.print_result(f"{name:<{width}}{value_text}".rstrip())
    if later_loss is not None:
        output.print_note(describe(later_loss))
    if run.signal and not run.learned:
        output.print_note("interrupted before anything was learned; nothing was saved")
        return
    if run.signal:
        outcome = "was kept" if path is not None else "is lost"
        output.print_note(f"interrupted: what was learned so far {outcome}")
    if result.examples and getattr(result, "auc", 0.0) is None:
        output.warn_single_class()
    if run.save_error is not None:
        return
    if path is not None:
        output.print_note(f"the model is in {path}")
    else:
        output.print_note("nothing was saved; --model FILE keeps what was learned")
