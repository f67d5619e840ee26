"""Words for people on standard output and standard error: results, notes, a line of progress.

Whatever users have named goes through here, and is shown as text (`printable`), on a terminal as in a pipe.
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

# How many bad lines are shown.
SHOWN = 5


def tell(line: str) -> None:
    """A line of the results, on standard output; into a pipe they go together, for `head` to find all it wants."""
    print(printable(line))


def say(line: str, error: bool = False) -> None:
    """A line about the run, on standard error."""
    typer.secho(printable(line), fg=typer.colors.RED if error else None, err=True)


def had_enough() -> bool:
    """Whether nothing more can be written to standard output: whoever reads it may have seen enough, as `head` has."""
    return streams.failure(sys.stdout) is not None


@contextmanager
def progress(total: int | None, unit: str, shown: bool = True) -> Iterator[Callable[[int], Any]]:
    """A line of progress on standard error, if somebody is there to see it. Call what it gives with what is done."""
    if not shown or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress as parts
    from rich.console import Console

    how_far = [parts.BarColumn(), parts.TaskProgressColumn(), parts.TimeRemainingColumn()] if total else []
    count = parts.TextColumn("{task.completed:,.0f} " + unit)
    with parts.Progress(*how_far, count, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def preparing() -> Iterator[None]:
    """Everything before the first example: what is refused here is wrong usage, and kernels are loaded or compiled."""
    from bayou.cli.usage import usage
    from bayou.kernels.startup import without_blas

    with usage(), without_blas():
        yield


def say_note(note: Note) -> None:
    """A note of a run."""
    say(note.text)


def say_skipped(run: Any, more: str = "") -> None:
    """What was left out of the data, or put where it may be in the way, and what there is to remark."""
    skipped, folded = run.skipped, run.folded
    for sentence in [*skipped_in_words(run.kinds), *run.remarks]:
        say(sentence)
    if skipped:
        say(f"{skipped:,} bad line{'s were' if skipped > 1 else ' was'} skipped{more}")
    if folded:
        say(
            f"{folded:,} feature numbers were too large for the table and were folded into it; "
            "with more --bits they would have weights of their own"
        )


def skipped_in_words(kinds: list[tuple[int, str]]) -> list[str]:
    """The first bad line of each kind and how many there are of it, the commonest first."""
    said = [first if count < 2 else f"{first} ({count:,} lines are like this one)" for count, first in kinds[:SHOWN]]
    return said + [f"and {len(kinds) - SHOWN} more kinds of bad lines"] * (len(kinds) > SHOWN)


def say_all_alike() -> None:
    say("all labels were the same: nothing to tell apart; check --label and --positive")
