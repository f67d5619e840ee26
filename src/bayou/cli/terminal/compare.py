"""Output of a comparison: a live table while it runs, the final table, and the curves as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayou.cli.terminal.live import LiveDisplay
from bayou.cli.terminal.output import print_note, print_result, say_skipped, warn_single_class
from bayou.core.memory import bytes_in_words
from bayou.core.printable import printable
from bayou.outputs.text import write_csv
from bayou.runs.compare import Comparison, Entrant
from bayou.sources import Source


class ComparisonTable(LiveDisplay):
    """Live table on standard error: redrawn in place on a terminal, else a line now and then."""

    REDRAW_SECONDS = 0.25

    def __init__(self, entrants: Sequence[Entrant], source: Source, quiet: bool = False) -> None:
        super().__init__(source, quiet)
        self._entrants = entrants
        self._widths = [14, *(max(12, len(entrant.spec) + 2) for entrant in entrants)]

    def _new_live(self) -> Any:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, highlight=False)
        return Live(self._table(), console=console, auto_refresh=False, transient=True)

    def update(self) -> None:
        """Update the table; call this after each batch."""
        if self._should_redraw():
            self._live.update(self._table(), refresh=True)
        examples = self._entrants[0].meter.examples
        if self._live is None and not self._quiet and examples >= self._next:
            names = [f"{_loss_name(self._entrants)} after", *(entrant.spec for entrant in self._entrants)]
            losses = [f"{examples:,}", *(_number(entrant.meter.loss) for entrant in self._entrants)]
            self._print_row(names, losses, self._widths, examples)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        examples = self._entrants[0].meter.examples
        far = ""
        if self._source.bytes_total:
            far = f", {100 * self._source.bytes_done / self._source.bytes_total:.0f}%"
        title = f"{examples:,} examples{far}, {examples / self._seconds:,.0f} a second"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        table.add_column("learner")
        for name in (_loss_name(self._entrants), "lately", "seconds"):
            table.add_column(name, justify="right")
        for entrant in sorted(self._entrants, key=lambda entrant: entrant.meter.loss or 0.0):
            lately = entrant.meter.curve()["window_loss"][-1:]
            table.add_row(
                Text(printable(entrant.spec)),
                _number(entrant.meter.loss),
                _number(lately[0] if len(lately) else None),
                f"{entrant.seconds:.2f}",
            )
        return table


def summarise(comparison: Comparison) -> None:
    """Print the results to standard output, the best first, and what was skipped to standard error."""
    say_skipped(comparison, ", for all alike")
    rows: list[tuple[str, ...]] = []
    for entrant in comparison.ranked:
        (name, loss), *other_scores = entrant.meter.result().headline().items()
        later_loss = entrant.ahead.loss()
        two = (None, None) if later_loss is None else (later_loss.learned, later_loss.expected)
        scores = {name: loss, "last half": two[0], "later rows": two[1], **dict(other_scores)}
        rows = rows or [("learner", *scores, "seconds", "model size")]
        values = map(_number, scores.values())
        rows.append((entrant.spec, *values, f"{entrant.seconds:.3f}", bytes_in_words(entrant.size)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        other_scores = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        print_result("  ".join([f"{row[0]:<{widths[0]}}", *other_scores]))
    meter = comparison.entrants[0].meter
    if comparison.signal:
        print_note("interrupted: this is of the examples until then")
    per_example = f", {meter.nonzeros / meter.examples:.1f} features each" if meter.examples else ""
    print_note(f"{meter.examples:,} examples{per_example}; {comparison.seconds:.2f} seconds in all, reading and all")
    if meter.examples and getattr(meter.result(), "auc", 0.0) is None:
        warn_single_class()


def write_curves(path: Path, comparison: Comparison) -> None:
    """Write a CSV file with one line for each learner and point of its curve."""
    names = ("example", comparison.entrants[0].meter.loss_name, "window_loss")
    curves = [(entrant.spec, entrant.meter.curve()) for entrant in comparison.entrants]
    points = ((spec, *zip(*(curve[name].tolist() for name in names), strict=True)) for spec, curve in curves)
    write_csv(path, ("learner", *names), ((spec, *point) for spec, *values in points for point in values))


def _loss_name(entrants: Sequence[Entrant]) -> str:
    return str(entrants[0].meter.loss_name.replace("_", " "))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5f}"
