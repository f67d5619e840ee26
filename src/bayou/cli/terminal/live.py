"""Base class of the displays of a run on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from bayou.cli.terminal.output import print_note
from bayou.sources import Source

# Number of examples at the first line; each further line has twice as many.
FIRST_LINE = 1024


class LiveDisplay:
    """Display that is redrawn in place on a terminal, and prints a line whenever the number of examples has doubled."""

    REDRAW_SECONDS: ClassVar[float]

    def __init__(self, source: Source, quiet: bool = False) -> None:
        self._source, self._quiet = source, quiet
        self._next, self._drawn = FIRST_LINE, 0.0
        self._has_header = False
        self._live: Any = None

    def __enter__(self) -> Self:
        self._started = time.perf_counter()
        if sys.stderr.isatty() and not self._quiet:
            self._live = self._new_live()
            self._live.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _new_live(self) -> Any:
        """Return Rich's display."""
        raise NotImplementedError

    @property
    def _seconds(self) -> float:
        return max(time.perf_counter() - self._started, 1e-9)

    def _should_redraw(self) -> bool:
        """Return whether there is a display that was not redrawn recently; the caller then redraws it."""
        now = time.perf_counter()
        if self._live is None or now - self._drawn <= self.REDRAW_SECONDS:
            return False
        self._drawn = now
        return True

    def _print_row(self, names: Iterable[str], cells: Iterable[str], widths: Sequence[int], examples: int) -> None:
        """Print a row of a growing table, after the header the first time; the next is due at twice the examples."""
        for row in [cells] if self._has_header else [names, cells]:
            self._print("".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)))
        self._has_header = True
        while self._next <= examples:
            self._next *= 2

    def _print(self, line: str) -> None:
        print_note(line)
