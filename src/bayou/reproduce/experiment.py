"""Framework of experiments: the record, the options of a run, and the report that a run fills.

The module of an experiment has a function `run`, which fills a `Report`:

    def run(report: Report) -> None:
        for seed in report.each(report.options.seeds(quick=2, full=10)):
            ...
        report.csv(("draw", "gap"), lines)
        report.table("Table 1", ("what", "ours"), rows)
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bayou.outputs.text import write_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")


@dataclass(frozen=True)
class ExperimentOptions:
    """Options of a run of an experiment.

    Attributes:
        out: the folder for its files.
        quick: a smaller run, of a minute or two.
        draws: the number of draws of true weights and stream; None is the experiment's own number.
        first_seed: the seed of the first draw; the others follow it.
        examples: the number of examples of a stream; None is the experiment's own number.
        jobs: the number of processes that share the draws.
        data: the user's files, for experiments that can run on them.
        watch: called with the share of the work that is done, during the run.
        say: called with messages before the work.
    """

    out: Path
    quick: bool = False
    draws: int | None = None
    first_seed: int = 0
    examples: int | None = None
    jobs: int = 1
    data: tuple[str, ...] = ()
    watch: Callable[[float], Any] = lambda done: None
    say: Callable[[str], Any] = lambda sentence: None

    def seeds(self, quick: int, full: int) -> range:
        """Return one seed for each draw; `quick` and `full` are the experiment's own numbers of draws."""
        draws = self.draws or (quick if self.quick else full)
        return range(self.first_seed, self.first_seed + draws)


@dataclass(frozen=True)
class TextTable:
    """Table of results as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass
class Report:
    """Results collected during a run of an experiment: tables, notes, CSV files and pictures.

    Attributes:
        name: the experiment's name, with which its file names begin.
        minutes: approximate minutes of the quick and of the full run.
    """

    name: str
    minutes: tuple[float, float]
    options: ExperimentOptions
    tables: list[TextTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def say(self, sentence: str) -> None:
        """Announce the next step to the user."""
        self.options.say(f"{self.name}: {sentence}")

    def say_minutes(self) -> None:
        """Announce to the user how long the run usually takes."""
        self.say(in_words(self.minutes[0 if self.options.quick else 1]))

    def each(self, items: Sequence[T]) -> Iterator[T]:
        """Yield the items, and report progress after each."""
        for done, item in enumerate(items):
            yield item
            self.options.watch((done + 1) / len(items))

    def table(self, title: str, columns: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table to be shown."""
        self.tables.append(TextTable(title, tuple(columns), tuple(tuple(row) for row in rows)))

    def csv(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, suffix: str = "", end: str = "\r\n"
    ) -> None:
        """Write a CSV file, named after the experiment and `suffix`."""
        self.files.append(self.options.out / f"{self.name}{suffix}.csv")
        write_csv(self.files[-1], columns, rows, end)

    @contextmanager
    def picture(self, width: float, height: float, *, dpi: int = 110, pad: float | None = 0.08) -> Iterator[Figure]:
        """Yield a figure of the given size in inches; it is written as the experiment's picture when the block ends."""
        from bayou import plots

        file = self.options.out / f"{self.name}.png"
        with plots.picture(file, width, height, dpi=dpi, pad=pad) as figure:
            yield figure
        self.files.append(file)


@dataclass(frozen=True)
class Experiment:
    """Record of a table or figure of a paper.

    Attributes:
        name: its name in the command and in the names of its files.
        module: the module whose function `run` fills a `Report`.
        paper: the paper it is from.
        minutes: approximate minutes of the quick and of the full run on two cores.
        what: a description of what is run.
        takes_data: whether it can run on the user's files.
    """

    name: str
    module: str
    paper: str
    minutes: tuple[float, float]
    what: str
    takes_data: bool

    def run(self, options: ExperimentOptions) -> Report:
        """Run the experiment and return its results."""
        report = Report(self.name, self.minutes, options)
        importlib.import_module(self.module).run(report)
        return report


def data_folder() -> Path:
    """Return the folder of the data sets: the one that BAYOU_DATA names, or ../shared/data."""
    return Path(os.environ.get("BAYOU_DATA") or "../shared/data")


def in_words(minutes: float) -> str:
    """Describe how long a number of minutes is.

    >>> in_words(0.2), in_words(1.2), in_words(9.4), in_words(200)
    ('a few seconds', 'about a minute', 'about 9 minutes', 'about 3.3 hours')
    """
    if minutes < 0.25:
        return "a few seconds"
    if minutes < 0.75:
        return "about half a minute"
    if minutes < 1.5:
        return "about a minute"
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:.1f} hours"
