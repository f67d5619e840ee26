"""What commands have in common: options and checks of them, pipes that close, a line of progress, words for sizes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bayou.cli.usage import BadUsage
from bayou.core.errors import BadInput

# As bayou.sources.FORMATS has them; that module is too heavy for showing help.
FORMATS = ("auto", "svmlight", "vw", "csv", "tsv", "criteo", "parquet", "jsonl")
ON_ERROR = ("raise", "skip")

# Options that commands share, which learn from data.
Data = Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input; .gz and .zst are undone.")]
Bits = Annotated[int | None, typer.Option(min=1, max=31, help="2^bits weights; 22 if not given.")]
Format = Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")]
Label = Annotated[str | None, typer.Option(help="The column to predict.")]
Positive = Annotated[str | None, typer.Option(help="The label that counts as positive; all others are not.")]
LabelAbove = Annotated[float | None, typer.Option(help="Labels above this number are positive.")]
Weight = Annotated[str | None, typer.Option(help="The column with the examples' weights.")]
Ignore = Annotated[list[str] | None, typer.Option(help="Columns to leave out, separated by commas.")]
Numeric = Annotated[list[str] | None, typer.Option(help="Columns to take as numbers, scaled.")]
Category = Annotated[list[str] | None, typer.Option(help="Columns to take as names, numbers too.")]
Text = Annotated[list[str] | None, typer.Option(help="Columns to take as bags of words.")]
Bins = Annotated[int | None, typer.Option(min=0, help="Quantile bins for numbers; 20 if not given.")]
Cross = Annotated[list[str] | None, typer.Option(help="A,B: cross two columns or namespaces; * is all.")]
Exact = Annotated[bool | None, typer.Option("--exact", help="Number features as they come; hash nothing.")]
HashAll = Annotated[bool | None, typer.Option("--hash-all", help="VW: hash names that are numbers, too.")]
NegativeRate = Annotated[
    float | None, typer.Option(help="The share of negatives kept in the data; probabilities are set right for it.")
]
OnError = Annotated[str, typer.Option(help="skip: count and show bad lines. raise: stop there.")]
Threads = Annotated[int | None, typer.Option(min=0, help="Threads that read ahead; all cores if not given.")]
Report = Annotated[
    Path | None, typer.Option(help="Write what was learned, with plots, into this .html file; it opens off line.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No running table.")]


def recipe(**given: Any) -> dict[str, Any]:
    """The parts of a recipe that were given, by the names of their options, as a recipe wants them."""
    for name in ("ignore", "numeric", "category", "text"):
        given[name] = _columns(given[name])
    given["cross"] = _crosses(given["cross"])
    return {name: value for name, value in given.items() if value is not None}


def _columns(options: list[str] | None) -> list[str] | None:
    """Names given one by one, or separated by commas."""
    if options is None:
        return None
    return [name.strip() for option in options for name in option.split(",") if name.strip()]


def _crosses(options: list[str] | None) -> list[tuple[str, str]] | None:
    if options is None:
        return None
    pairs = []
    for option in options:
        names = [name.strip() for name in option.split(",")]
        if names == ["*"]:
            names = ["*", "*"]
        if len(names) != 2 or not all(names):
            raise BadUsage(f"--cross is {option!r}; expected two columns or namespaces, such as user,ad.")
        pairs.append((names[0], names[1]))
    return pairs


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
        from bayou.core.checks import did_you_mean

        raise BadUsage(f"{option} is {value!r}; it must be one of {', '.join(choices)}.{did_you_mean(value, choices)}")


def check_folder(option: str, path: str | Path | None) -> None:
    """Say it before the work if a file can have no place."""
    if path is None or str(path) == "-":
        return
    here = Path(os.path.realpath(path))  # the file a link points to
    if here.is_dir():
        raise BadUsage(f"{option} is {path}, which is a folder; no file can be written there. Name a file in it.")
    if not here.parent.is_dir():
        folder = Path(path).parent
        why = (
            f"{folder} is a file; choose another" if folder.exists() else f"there is no folder {folder}; make it first"
        )
        raise BadUsage(f"{option} is {path}, but {why}.")
    if here.exists() and not here.is_file():
        return  # a pipe or a device, which is written to as it is
    import tempfile

    try:  # files are written under another name in their folder; what counts is whether that can be made
        tempfile.TemporaryFile(dir=here.parent).close()
    except OSError as error:
        raise BadUsage(
            f"{option} is {path}; no file can be written there ({error.strerror}). Choose another folder."
        ) from None


def check_report(path: Path | None) -> None:
    """A report is a page; any other name is rather that of some data."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise BadUsage(f"--report is {path}; its name must end in .html.")
    check_folder("--report", path)


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
