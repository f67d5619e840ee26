"""Readers: what a `Source` reads by. A reader gives tasks in order, and any thread can parse a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from bayou.sources.reading.blocks import Block, Files
from bayou.sources.reading.parsed import ParsedBlock


class Placed(NamedTuple):
    """A task, and the share of the data that lies before its end; None where nobody knows how much there is."""

    task: Any
    done: float | None = None


class Reader:
    """A way to read some kind of data.

    Attributes:
        what: is read, for messages: its file.
        again: whether the data can be read more than once.
        waits: whether reading may have to wait for somebody, as at a pipe.
        bytes_total: how much there is, if that can be known.
    """

    what = "the data"
    again = True
    waits = False
    bytes_total: int | None = None
    _files: Sequence[Files] = ()

    def _read_from(self, files: Files) -> None:
        """These files are what is read."""
        self._files = [files]
        self.again, self.waits, self.bytes_total = not files.waits, files.waits, files.bytes_total

    @property
    def bytes_done(self) -> int:
        """How far the data were read, if that can be known."""
        return sum(files.bytes_done for files in self._files)

    @property
    def share_done(self) -> float | None:
        """The share of the data that tasks were made of; None where nobody knows how much there is."""
        return None if self.bytes_total is None else self.bytes_done / max(self.bytes_total, 1)

    def _placed(self, tasks: Iterable[Any]) -> Iterator[Placed]:
        return (Placed(task, self.share_done) for task in tasks)

    def start(self) -> None:
        """Find out what has to be known before the first task: nothing, as a rule."""

    def peek(self) -> Placed:
        """The first task, which will come again."""
        raise NotImplementedError

    def tasks(self) -> Iterable[Placed]:
        """The tasks of one pass, each with its `file` and whether it is the `first` of it."""
        raise NotImplementedError

    def parse(self, task: Any) -> ParsedBlock:
        """The examples of a task; any thread may call this."""
        raise NotImplementedError


class TextParser(Protocol):
    """What turns blocks of text into examples."""

    def parse(self, block: Block) -> ParsedBlock: ...


class TextReader(Reader):
    """Blocks of text and the parser they go through."""

    def __init__(self, files: Files, parser: TextParser) -> None:
        self._text, self._parser = files, parser
        self._read_from(files)

    def peek(self) -> Placed:
        return Placed(self._text.first_lines())

    def tasks(self) -> Iterable[Placed]:
        return self._placed(self._text)

    def parse(self, block: Block) -> ParsedBlock:
        return ParsedBlock.unreadable(block) if block.trouble is not None else self._parser.parse(block)
