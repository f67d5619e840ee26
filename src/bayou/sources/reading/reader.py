"""Readers, from which a `Source` reads. A reader yields tasks in order, and any thread can parse a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayou.kernels.parse_text import PADDING
from bayou.recipe.labels import name_of
from bayou.recipe.recipe import FIT_ROWS
from bayou.sources.reading.blocks import BlockReader, TextBlock
from bayou.sources.reading.open_files import NEWLINE
from bayou.sources.reading.parsed_block import ParsedBlock


class ReadTask(NamedTuple):
    """A task, and the fraction of the data before its end; None where the amount of data is unknown."""

    task: Any
    done: float | None = None


class Reader:
    """Base class of readers of some kind of data.

    Attributes:
        what: name of the data in messages, such as its file.
        is_rereadable: whether the data can be read more than once.
        waits: whether reading may block, as from a pipe.
        bytes_total: size of the data, if known.
        decided: how the labels were interpreted, as a sentence, and the number of classes.
    """

    what = "the data"
    decided = "", 0
    is_rereadable = True
    waits = False
    bytes_total: int | None = None
    _files: Sequence[BlockReader] = ()
    _begun: Iterator[ReadTask] | None = None  # a pass of which some tasks were taken already

    def _read_from(self, files: BlockReader) -> None:
        """Set the files to read, and the attributes that depend on them."""
        self._files = [files]
        self.is_rereadable, self.waits, self.bytes_total = not files.may_block, files.may_block, files.bytes_total

    @property
    def bytes_done(self) -> int:
        """Number of bytes read so far, 0 if unknown."""
        return sum(files.bytes_done for files in self._files)

    @property
    def fraction_done(self) -> float | None:
        """Fraction of the data that tasks were made from so far; None where the amount of data is unknown."""
        return None if self.bytes_total is None else self.bytes_done / max(self.bytes_total, 1)

    def _pass(self) -> Iterator[Any]:
        """Yield the tasks of one pass, each with its `file` and whether it is the `first` of it."""
        raise NotImplementedError

    def _placed(self, tasks: Iterable[Any]) -> Iterator[ReadTask]:
        return (ReadTask(task, self.fraction_done) for task in tasks)

    def _look_at_first(self, is_enough: Callable[[Any], bool]) -> None:
        """Begin a pass and examine tasks until `is_enough` returns True; `tasks` will yield them again."""
        tasks, examined = self._placed(self._pass()), []
        for placed in tasks:
            examined.append(placed)
            if is_enough(placed.task):
                break
        self._begun = chain(examined, tasks)

    def start(self) -> None:
        """Prepare for the first task; by default, do nothing."""

    def set_labels(self, sentence: str, classes: int) -> None:
        """Record how the labels were interpreted."""
        self.decided = sentence, classes

    def labels(self) -> dict[str, int]:
        """Return how often each label occurs in the first rows, for data that are not a table."""
        raise NotImplementedError

    def read_as(self, dtype: str, groups: bool) -> None:
        """Set the type of values and whether rows have groups of features; uses the current recipe."""
        raise NotImplementedError

    def peek(self) -> ReadTask:
        """Return the first task; `tasks` will yield it again."""
        tasks = self._begun or self._placed(self._pass())
        first = next(tasks, ReadTask(self._nothing()))
        self._begun = chain([first], tasks)
        return first

    def _nothing(self) -> Any:
        """Return the task that stands for empty data."""
        raise NotImplementedError

    def tasks(self) -> Iterable[ReadTask]:
        """Return the tasks of one pass."""
        first_pass, self._begun = self._begun, None
        return self._placed(self._pass()) if first_pass is None else first_pass

    def unread_tasks(self) -> Iterable[ReadTask]:
        """Return the tasks of one pass; of text, without bytes where another process can read them."""
        return self.tasks()

    def parse(self, task: Any) -> ParsedBlock:
        """Return the examples of a task; any thread may call this."""
        if isinstance(task, TextBlock) and task.trouble is not None:
            return ParsedBlock.unreadable(task)
        return self._parse(task)

    def _parse(self, task: Any) -> ParsedBlock:
        raise NotImplementedError


class TextParser(Protocol):
    """Protocol of parsers of text blocks."""

    def parse(self, block: TextBlock) -> ParsedBlock: ...


class TextReader(Reader):
    """Reader of blocks of text, which a parser turns into examples."""

    def __init__(self, files: BlockReader, make: Callable[..., TextParser]) -> None:
        self._text, self._make, self._parser = files, make, make()
        self._read_from(files)

    def _pass(self) -> Iterator[TextBlock]:
        return iter(self._text)

    def labels(self) -> dict[str, int]:
        """Return how often each label occurs in the first FIT_ROWS rows that have one."""
        counts = Counter[str]()

        def is_enough(block: TextBlock) -> bool:
            labels = self.parse(block).labels
            labels = labels[~np.isnan(labels)][: FIT_ROWS - counts.total()]
            values, times = np.unique(labels, return_counts=True)
            counts.update(dict(zip(map(name_of, values.tolist()), times.tolist(), strict=True)))
            return counts.total() >= FIT_ROWS

        self._look_at_first(is_enough)
        return dict(counts)

    def read_as(self, dtype: str, groups: bool) -> None:
        self._parser = self._make(dtype=dtype, groups=groups)

    def peek(self) -> ReadTask:
        return ReadTask(self._text.first_lines()) if self._begun is None else super().peek()

    def _nothing(self) -> TextBlock:
        return TextBlock(np.full(PADDING, NEWLINE, np.uint8), 0, self._text.names[0])

    def unread_tasks(self) -> Iterable[ReadTask]:
        self._begun = None
        return self._placed(self._text.unread())

    def _parse(self, block: TextBlock) -> ParsedBlock:
        return self._parser.parse(block)
