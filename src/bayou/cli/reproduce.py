"""`bayou reproduce`: the papers' tables and figures, run again. bayou.reproduce has them, one module each."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayou.cli.terminal import output
from bayou.cli.usage import BadUsage, usage
from bayou.core.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

    from bayou.reproduce import Experiment, TextTable


def reproduce(
    names: list[str] | None = None,
    *,
    quick: Annotated[bool, typer.Option("--quick")] = False,
    seeds: Annotated[int | None, typer.Option(min=1)] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    examples: Annotated[int | None, typer.Option(min=100)] = None,
    out: Path = Path("reproduce"),
    data: list[str] | None = None,
    jobs: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Reproduce the papers' tables and figures.

    Their numbers are printed beside ours. `bayou reproduce list` shows what can be run and how long it takes. Each run
    writes a picture, the curves it was drawn from and a summary to the folder --out.

    Example:

        bayou reproduce table1 --quick

    Args:
        names: Tables and figures to run, as `list`, the default, shows them.
        quick: A smaller run, of a minute or two.
        seeds: Number of draws of weights and stream.
        seed: The seed of the first draw.
        examples: Number of examples of each stream.
        out: The folder for pictures and curves (CSV).
        data: figure2: a Criteo file; l1-table3 to 6: their texts; olss-*: the folder of the data sets.
        jobs: Number of processes that share the draws; by default one per core.
    """
    names = names or ["list"]
    if "list" in names and len(names) > 1:
        raise BadUsage("list cannot be combined with names: it only shows what can be run.")

    from rich.console import Console

    from bayou import reproduce as papers
    from bayou.core.threads import available_cores

    # Tables that do not go to a terminal are as wide as they need to be.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if names == ["list"]:
        _list(papers.experiments(), console)
        return
    with usage():
        selected = [papers.find(name) for name in names]
    if data and not any(experiment.takes_data for experiment in selected):
        raise BadUsage("--data is for figure2, l1-table3 to 6 and the olss figures; the others need none.")
    _make_folder(out)
    if any(out.resolve() in (path.resolve(), path.resolve().parent) for path in map(Path, data or ())):
        raise BadUsage(f"--out is {out}, which holds the --data, and these could be lost; choose another folder.")
    for experiment in selected:
        with output.progress(1.0) as show:
            chosen_options = papers.ExperimentOptions(
                out=out,
                quick=quick,
                draws=seeds,
                first_seed=seed,
                examples=examples,
                jobs=jobs or available_cores(),
                data=tuple(data or ()),
                watch=show,
                say=output.print_note,
            )
            try:
                findings = experiment.run(chosen_options)
            except OSError as error:
                raise BadInput(f"{experiment.name} could not be done in {out} ({error.strerror or error}).") from None
        for table in findings.tables:
            _print(table, console)
        for note in findings.notes:
            output.print_result(note)
        files = ", ".join(str(path) for path in findings.files)
        output.print_note(f"written: {files}")


def _make_folder(out: Path) -> None:
    """Make the folder for the files; raise BadUsage if it cannot be made or written to."""
    if os.path.exists(out) and not os.path.isdir(out):
        raise BadUsage(f"--out is {out}, which is a file; it must be a folder.")
    try:
        out.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise BadUsage(f"--out is {out}, but there is no folder {out.parent}; make it first.") from None
    except OSError as error:
        raise BadUsage(f"--out is {out}, which cannot be made: {error.strerror}.") from None
    if not os.access(out, os.W_OK):
        raise BadUsage(f"--out is {out}, in which nothing can be written.")


def _list(experiments: list[Experiment], console: Console) -> None:
    from bayou.reproduce import TextTable
    from bayou.reproduce.experiment import in_words

    rows = tuple(
        (
            experiment.name,
            experiment.paper,
            experiment.what,
            in_words(experiment.minutes[0]),
            in_words(experiment.minutes[1]),
        )
        for experiment in experiments
    )
    _print(TextTable("", ("name", "paper", "what is run", "--quick", "full, two cores"), rows), console, numbers=False)


def _print(table: TextTable, console: Console, numbers: bool = True) -> None:
    from rich import box
    from rich.table import Table as Shown

    grid = Shown(title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    # Text columns come first; all columns from the paper's number on are numbers.
    first_number = len(table.columns)
    if numbers:
        text_columns = {"stream", "method", "setting", "what"}
        first_number = sum(column in text_columns for column in table.columns)
    for k, column in enumerate(table.columns):
        grid.add_column(column, justify="right" if k >= first_number else "left", no_wrap=numbers)
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid, markup=False)
