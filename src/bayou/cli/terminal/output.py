"""Text on standard output and standard error: results, notes, a progress line.

Names that come from users pass through here and are made printable, on a terminal as in a pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from bayou.cli.terminal import streams
from bayou.core.printable import printable

if TYPE_CHECKING:
    from bayou.runs.options import Note

# Number of kinds of bad lines shown.
MAX_SHOWN_ERRORS = 5


def print_result(line: str) -> None:
    """Print a result line to standard output. Pipes are buffered, so that `head` receives all the lines it requests."""
    print(printable(line))


def print_note(line: str, error: bool = False) -> None:
    """Print a line about the run to standard error."""
    typer.secho(printable(line), fg=typer.colors.RED if error else None, err=True)


def had_enough() -> bool:
    """Return whether writing to standard output has failed, as when its reader (`head`, say) has closed the pipe."""
    return streams.failure(sys.stdout) is not None


@contextmanager
def progress(total: float | None, unit: str = "", is_shown: bool = True) -> Iterator[Callable[[float], Any]]:
    """Show a progress line on standard error if that is a terminal; yield the function to call with the work done.

    Without a `unit` the line has no amount of work, only the share of it that is done.
    """
    if not is_shown or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress as parts

    how_far = [parts.BarColumn(), parts.TaskProgressColumn(), parts.TimeRemainingColumn()] if total else []
    with progress_line(*how_far, *(["{task.completed:,.0f} " + unit] if unit else [])) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


def progress_line(*columns: Any) -> Any:
    """Return Rich's display of progress in these columns, as a line of standard error that vanishes at the end."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)


@contextmanager
def preparing() -> Iterator[None]:
    """Context of everything before the first example: BadInput becomes BadUsage, and Numba does not look for BLAS."""
    from bayou.cli.usage import usage
    from bayou.kernels.numba_private import without_blas

    with usage(), without_blas():
        yield


def say_note(note: Note) -> None:
    """Print a note of a run."""
    print_note(note.text)


def say_skipped(run: Any, addition: str = "") -> None:
    """Print what was skipped in a run, how many indices wrapped around, and its warnings."""
    skipped, n_wrapped = run.skipped, run.n_wrapped
    for sentence in [*skipped_in_words(run.error_counts), *run.warnings]:
        print_note(sentence)
    if skipped:
        print_note(f"{skipped:,} bad line{'s were' if skipped > 1 else ' was'} skipped{addition}")
    if n_wrapped:
        print_note(
            f"{n_wrapped:,} feature numbers were too large for the table and wrapped around; "
            "with more --bits they would have weights of their own"
        )


def skipped_in_words(error_counts: list[tuple[int, str]]) -> list[str]:
    """Return the first bad line of each kind with their number, the commonest kinds first."""
    sentences = [
        first if count < 2 else f"{first} ({count:,} lines are like this one)"
        for count, first in error_counts[:MAX_SHOWN_ERRORS]
    ]
    return sentences + [f"and {len(error_counts) - MAX_SHOWN_ERRORS} more kinds of bad lines"] * (
        len(error_counts) > MAX_SHOWN_ERRORS
    )


def warn_single_class() -> None:
    print_note("all labels were the same: there is nothing to learn; check --label and --positive")
