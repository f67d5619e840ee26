"""What every table and figure has in common: its record, the options of a run, and the findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Options:
    """How an experiment is to be run.

    Attributes:
        out: the folder its files go to.
        quick: a smaller run, of a minute or two.
        draws: the number of draws of true weights and stream; None is the experiment's own number.
        first_seed: the seed of the first draw; the others follow it.
        examples: the number of examples of a stream; None is the experiment's own number.
        jobs: the number of processes that share the draws.
        data: the user's files, for an experiment that can run on them.
        watch: called with (work done, work in all) as the work goes on.
        say: called with a sentence before the work.
    """

    out: Path
    quick: bool = False
    draws: int | None = None
    first_seed: int = 0
    examples: int | None = None
    jobs: int = 1
    data: tuple[str, ...] = ()
    watch: Callable[[float, float], Any] = lambda done, total: None
    say: Callable[[str], Any] = lambda sentence: None

    def seeds(self, quick: int, full: int) -> range:
        """One for each draw; `quick` and `full` are the experiment's own numbers of draws."""
        draws = self.draws or (quick if self.quick else full)
        return range(self.first_seed, self.first_seed + draws)


@dataclass(frozen=True)
class TextTable:
    """Results for people to read: every cell is text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Findings:
    """What an experiment has to show, and the files it wrote."""

    tables: tuple[TextTable, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=())


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Attributes:
        name: its name in the command and in the names of its files.
        paper: which paper it is from.
        what: what is run.
        minutes: about how long the quick and the full run take on two cores.
        run: runs it.
        takes_data: whether it can run on the user's files.
    """

    name: str
    paper: str
    what: str
    minutes: tuple[float, float]
    run: Callable[[Options], Findings]
    takes_data: bool = False


def in_words(minutes: float) -> str:
    """
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
