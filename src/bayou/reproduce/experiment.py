"""What every table and figure has in common: the record that lists it, how it is asked for, what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Options:
    """How an experiment is asked for.

    Attributes:
        out: the folder its files go to.
        quick: smaller, for a look in a minute or two.
        draws: how many draws of true weights and stream; None is the experiment's own number.
        first_seed: the seed of the first draw; the others follow it.
        examples: how many examples a stream has; None is the experiment's own number.
        jobs: how many processes share the draws.
        data: files of the user's, where an experiment runs on some.
        watch: called with (what is done, of how much) as the work goes on.
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
        draws = self.draws or (quick if self.quick else full)
        return range(self.first_seed, self.first_seed + draws)


@dataclass(frozen=True)
class Table:
    """Results for a person: every cell is text, and numbers are on the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """What an experiment has to show, and the files it wrote."""

    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=())


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Attributes:
        name: as the command says it; its files are called so, too.
        paper: which paper it is from.
        what: what is run.
        minutes: about how long the quick and the full run take on two cores.
        run: does it.
        takes_data: whether it can run on files of the user's.
    """

    name: str
    paper: str
    what: str
    minutes: tuple[float, float]
    run: Callable[[Options], Outcome]
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


@contextmanager
def written(folder: Path, name: str) -> Iterator[Path]:
    """The name to write a file to; it is there whole, or not at all."""
    from bayou.core.files import whole_file

    with whole_file(folder / name) as path:
        yield path
