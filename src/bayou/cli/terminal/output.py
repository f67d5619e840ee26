"""Standard output and standard error: pipes that close, a line of progress, and what takes long."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from bayou.core.errors import BadInput

if TYPE_CHECKING:
    from bayou.runs.options import Note

# Loading compiled kernels takes less than this; what takes longer is compiling.
COMPILING_AFTER = 2.0
# How many bad lines are shown.
SHOWN = 5


@contextmanager
def standard_output() -> Iterator[None]:
    """For writing to it. Whoever reads it may have seen enough, as `head` has: then end, without a word."""
    given = sys.stdout
    if isinstance(getattr(given, "buffer", None), io.RawIOBase):  # PYTHONUNBUFFERED: a short write would be no error
        buffered = open(given.fileno(), "wb", closefd=False)  # noqa: SIM115
        sys.stdout = io.TextIOWrapper(buffered, given.encoding, given.errors)
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered can go nowhere; otherwise Python would try at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(0) from None
        raise BadInput(f"standard output could not be written ({error.strerror or error}).") from None
    finally:
        sys.stdout = given


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
def compiling() -> Iterator[None]:
    """Say what takes so long, if the kernels are being compiled: they are, the first time on a machine."""

    def tell() -> None:
        print("compiling the kernels; this happens once, takes up to a minute, and is kept", file=sys.stderr)

    timer = threading.Timer(COMPILING_AFTER, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def preparing() -> Iterator[None]:
    """Everything before the first example: what is refused here is wrong usage, and kernels are loaded or compiled."""
    from bayou.cli.startup import without_blas
    from bayou.cli.usage import usage

    with usage(), without_blas(), compiling():
        yield


def say(note: Note) -> None:
    """A note of a run on standard error."""
    print(note.text, file=sys.stderr, flush=True)


def say_skipped(run: Any, more: str = "") -> None:
    """What was left out of the data, or put where it may be in the way, and what there is to remark."""
    skipped, folded = run.skipped, run.folded
    for sentence in [*run.bad[:SHOWN], *run.remarks]:
        print(sentence, file=sys.stderr)
    if skipped:
        print(f"{skipped:,} bad line{'s were' if skipped > 1 else ' was'} skipped{more}", file=sys.stderr)
    if folded:
        print(
            f"{folded:,} feature numbers were too large for the table and were folded into it; "
            "with more --bits they would have weights of their own",
            file=sys.stderr,
        )


def say_all_alike() -> None:
    print("all labels were the same: nothing to tell apart; check --label and --positive", file=sys.stderr)
