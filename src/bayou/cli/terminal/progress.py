"""Progress display of `bayou reproduce`."""

from __future__ import annotations

import sys
from typing import Any

from bayou.cli.terminal import output


class ProgressLine:
    """Messages and a progress bar on standard error; the bar only on a terminal."""

    def __enter__(self) -> ProgressLine:
        self._bar: Any = None
        return self

    def __exit__(self, *unused: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, sentence: str) -> None:
        output.print_note(sentence)

    def watch(self, done: float, total: float) -> None:
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            from rich import progress as parts

            how_far = parts.BarColumn(), parts.TaskProgressColumn(), parts.TimeElapsedColumn()
            self._bar = output.progress_line(*how_far, "so far,", parts.TimeRemainingColumn(), "to go")
            self._task = self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
