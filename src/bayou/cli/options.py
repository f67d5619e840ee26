"""What commands have in common: checks of options, pipes that close, a line of progress, words for sizes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import typer

from bayou.cli.usage import BadUsage
from bayou.errors import BadInput

# As bayou.sources.FORMATS has them; that module is too heavy for showing help.
FORMATS = ("auto", "svmlight", "vw", "csv", "tsv", "criteo", "parquet", "jsonl")
ON_ERROR = ("raise", "skip")


@contextlib.contextmanager
def standard_output() -> Iterator[None]:
    """For writing to it. Whoever reads it may have seen enough, as `head` has: then end, without a word."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered can go nowhere; otherwise Python would try at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(0) from None
        raise BadInput(f"standard output could not be written ({error.strerror or error}).") from None


def check_choice(option: str, value: str, choices: Collection[str]) -> None:
    """One of some words."""
    if value not in choices:
        raise BadUsage(f"{option} is {value!r}; it must be one of {', '.join(choices)}.")


def check_folder(option: str, path: str | Path | None) -> None:
    """Say it before the work if a file can have no place."""
    if path is not None and str(path) != "-" and Path(path).is_dir():
        raise BadUsage(f"{option} is {path}, which is a folder; no file can be written there.")
    if path is not None and str(path) != "-" and not Path(path).parent.is_dir():
        raise BadUsage(f"{option} is {path}, but there is no folder {Path(path).parent}; make it first.")


@contextlib.contextmanager
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


def bytes_in_words(size: float) -> str:
    """
    >>> bytes_in_words(999), bytes_in_words(134_217_728)
    ('999 bytes', '134 MB')
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
