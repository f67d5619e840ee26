"""Bytes from anywhere, in blocks of whole lines; and work on the blocks beside the learning, in order.

`Files` opens paths, globs and standard input, undoes gzip and zstd (told by their first bytes, not by names), and
cuts what it reads into blocks. `InOrder` parses blocks in other threads while the caller learns; when the block the
caller needs next is not ready yet, the caller parses one itself instead of waiting. What comes out, and in which
order, does not depend on the number of threads.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import select
import stat
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from bayou.core.checks import did_you_mean
from bayou.core.errors import BadInput
from bayou.kernels.scan import PADDING

# Large enough that Python's share per block vanishes, small enough that a block and its rows stay in the cache.
BLOCK_BYTES = 1 << 20
# A line is not kept longer than this; a longer one is bad. It bounds the memory a file can ask for.
LONGEST_LINE = 1 << 26
_HEAD_BYTES = 1 << 16
# Blocks on their way at the same time, for each thread.
DEPTH = 2

_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"
_NEWLINE = 10
STANDARD_INPUT = "-"

Cut = Callable[[np.ndarray, int], int]
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file: data[:size], which ends in a newline; at least PADDING newlines follow."""

    data: np.ndarray
    size: int
    file: str
    first: bool = False  # the first block of its file
    trouble: str | None = None  # instead of lines: why there are none ("the compressed data end too early")
    lines: int = 0  # lines that the trouble took with it


def whole_lines(data: np.ndarray, size: int) -> int:
    """How many bytes of data[:size] are whole lines."""
    tail = 1 << 12  # the last newline is near, as a rule
    while True:
        start = max(size - tail, 0)
        found = data[start:size].tobytes().rfind(b"\n")
        if found >= 0 or start == 0:
            return start + found + 1 if found >= 0 else 0
        tail *= 8


def expand(data: Any) -> list[str]:
    """The files that paths and globs mean, in the order given; those of a glob by name. "-" is standard input."""
    names = [data] if isinstance(data, str | os.PathLike) else list(data)
    files: list[str] = []
    for name in (os.fspath(name) for name in names):
        if name == STANDARD_INPUT or os.path.exists(name):
            files.append(name)
        elif found := sorted(glob.glob(name, recursive=True)):
            files += found
        elif glob.has_magic(name):
            raise BadInput(f"no file matches {name!r}; check the pattern and the folder.")
        else:
            raise BadInput(f"{name}: there is no such file; check its name and folder.{_near(name)}")
    if not files:
        raise BadInput("no data: name at least one file, or - for standard input.")
    for name in files:
        if os.path.isdir(name):
            raise BadInput(f"{name} is a folder; name the files in it, such as '{os.path.join(name, '*')}'.")
    return files


def _near(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        return did_you_mean(base, os.listdir(folder or "."))
    except OSError:
        return ""


class Files:
    """The bytes of some files, one after another, as blocks."""

    def __init__(self, names: Sequence[str], cut: Cut = whole_lines, block_bytes: int | None = None) -> None:
        self.names = list(names)
        self.cut = cut
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._finished = 0  # bytes of the files that were read to their end
        self._file: _Bytes | None = None
        self._first: _Bytes | None = None  # opened already, to look at its beginning
        sizes = [_size(name) for name in self.names]
        self.bytes_total = None if None in sizes else sum(s for s in sizes if s is not None)

    @property
    def bytes_done(self) -> int:
        """How far the files were read, in bytes as they lie on disk."""
        file = self._file  # once: another thread may be reading on
        return self._finished + (0 if file is None else file.position)

    @property
    def waits(self) -> bool:
        """Whether reading may have to wait for somebody, as at a pipe; what was read is then gone."""
        return self.bytes_total is None

    def head(self) -> bytes:
        """The beginning of the first file, decompressed. It will be read again."""
        if self._first is None:
            self._first = _Bytes(self.names[0])
        return self._first.head()

    def first_lines(self) -> Block:
        """The whole lines at the beginning of the first file. They will be read again."""
        head = self.head().removeprefix(_BOM)
        size = head.rfind(b"\n") + 1
        data = np.full(size + PADDING, _NEWLINE, np.uint8)
        data[:size] = np.frombuffer(head[:size], np.uint8)
        return Block(data, size, self.names[0], first=True)

    def __iter__(self) -> Iterator[Block]:
        self._finished = 0
        for number, name in enumerate(self.names):
            opened = self._first if number == 0 and self._first else _Bytes(name)
            self._first = None
            with opened as self._file:
                yield from self._blocks(self._file)
                self._finished, self._file = self._finished + self._file.position, None

    def _blocks(self, file: _Bytes) -> Iterator[Block]:
        room, first = self._block_bytes, True
        left = np.empty(0, np.uint8)  # the beginning of a line whose end is not read yet
        while True:
            data = np.empty(room + PADDING, np.uint8)
            data[: len(left)] = left
            got = file.fill(data[len(left) : room].data)
            size = len(left) + got
            if first and data[: min(size, 3)].tobytes() == _BOM:
                data[: size - 3] = data[3:size].copy()
                size -= 3
            if not got:
                if file.trouble:
                    break  # what is left is a piece of a line
                if size and data[size - 1] != _NEWLINE:
                    data[size] = _NEWLINE  # the file's last line has none
                    size += 1
            end = self.cut(data, size) if got else size
            left = data[end:size].copy()
            room = max(self._block_bytes, min(2 * len(left), LONGEST_LINE + 1))
            if end:
                data[end : end + PADDING] = _NEWLINE
                yield Block(data, end, file.name, first)
                first = False
            elif len(left) >= LONGEST_LINE:
                yield Block(data, 0, file.name, first, f"expected a line of at most {LONGEST_LINE:,} bytes", 1)
                left, first = file.rest_after_line(self._block_bytes), False
            if not got:
                break
        if file.trouble:
            yield Block(left, 0, file.name, first, file.trouble)


class _Bytes:
    """One file's bytes, decompressed."""

    def __init__(self, name: str) -> None:
        self.name = "standard input" if name == STANDARD_INPUT else name
        self._ahead = b""  # looked at already, but not read
        self.position = 0  # how many bytes were read from the file itself; 0 where that has no meaning
        self.trouble: str | None = None  # why there is no more to read, if it is not the file's end
        try:
            self._raw = io.FileIO(0, closefd=False) if name == STANDARD_INPUT else io.FileIO(name)
        except OSError as error:
            raise BadInput(f"{name}: the file cannot be read: {error.strerror}.") from None
        self._waits = not stat.S_ISREG(os.fstat(self._raw.fileno()).st_mode)
        buffered: Any = io.BufferedReader(self._raw, 1 << 17)
        first = buffered.peek(4)[:4]
        self._read_into: Callable[[memoryview], int]
        if first.startswith(_GZIP):
            self._read_into = gzip.GzipFile(fileobj=buffered).readinto1
        elif first.startswith(_ZSTD):
            self._read_into = _zstd_reader(buffered)
        elif self._waits:
            self._ahead = buffered.read1() if first else b""
            self._read_into = buffered.detach().readinto  # a buffer would wait for more than there is
        else:
            self._read_into = buffered.readinto

    def head(self) -> bytes:
        """What comes next, up to some 64 KiB, but a whole line if that is not longer; it stays to be read."""
        room = np.empty(_HEAD_BYTES, np.uint8)
        read = b""
        while len(read) < _HEAD_BYTES and b"\n" not in read:
            got = self.fill(room[len(read) :].data)
            if not got:
                break
            read += room[len(read) : len(read) + got].tobytes()
        self._ahead = read + self._ahead
        return self._ahead

    def fill(self, view: memoryview) -> int:
        """Read until the view is full or the file ends; of a pipe, what there is, but something."""
        got = min(len(self._ahead), len(view))
        view[:got] = self._ahead[:got]
        self._ahead = self._ahead[got:]
        while got < len(view) and not (got and self._waits and not _ready(self._raw)):
            try:
                count = 0 if self.trouble else self._read_into(view[got:])
            except (OSError, EOFError, zlib.error) as error:
                self.trouble, count = _sentence(error), 0
            if not count:
                break
            got += count
        if not self._waits:
            self.position = self._raw.tell()
        return got

    def rest_after_line(self, room: int) -> np.ndarray:
        """Read to the end of the present line; what was read beyond it."""
        data = np.empty(room, np.uint8)
        while got := self.fill(data.data):
            newlines = np.flatnonzero(data[:got] == _NEWLINE)
            if len(newlines):
                return data[newlines[0] + 1 : got].copy()
        return data[:0]

    def __enter__(self) -> _Bytes:
        return self

    def __exit__(self, *unused: object) -> None:
        self._raw.close()


def _zstd_reader(file: Any) -> Callable[[memoryview], int]:
    """Reads a little at a time: what a call had read before it failed is lost."""
    import pyarrow as pa

    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    return lambda view: stream.readinto(view[: 1 << 16])


def _ready(raw: io.FileIO) -> bool:
    """Whether a pipe has something to read at once, or has ended."""
    try:
        return bool(select.select([raw], [], [], 0)[0])
    except (OSError, ValueError):  # not a thing one can ask
        return True


def _size(name: str) -> int | None:
    """A file's size in bytes, or None if it cannot be known beforehand."""
    if name == STANDARD_INPUT:
        return None
    found = os.stat(name)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _sentence(error: Exception) -> str:
    if isinstance(error, EOFError) or "runcated" in str(error):
        return "the compressed data end too early; the file is not whole"
    return f"the file cannot be read further: {getattr(error, 'strerror', None) or error}"


# --- beside the learning --------------------------------------------------------------------------------------------


class _Failed:
    """An error in place of a result, raised when its turn comes."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class InOrder(Iterator[Result], Generic[Task, Result]):
    """`work(task)` of each task, in order, done ahead by other threads.

    Tasks are taken from their iterator by one thread at a time. With `help` the caller, too, does a task when the
    result it needs is not there: then no core waits while there is anything to do. `threads` = 0 is the plain loop.
    """

    def __init__(
        self, tasks: Iterable[Task], work: Callable[[Task], Result], threads: int = 1, help: bool = True
    ) -> None:
        self._tasks, self._work = iter(tasks), work
        self._help = help or not threads
        self._taking = threading.Lock()
        self._changed = threading.Condition()
        self._results: dict[int, Any] = {}
        self._taken = self._given = 0
        self._ended = self._closed = False
        self._most = DEPTH * (threads + 1)
        self._threads = [threading.Thread(target=self._run, daemon=True, name="bayou-ahead") for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _do_one(self) -> bool:
        """Take a task and do it; False if there was none to take."""
        with self._taking:
            if self._ended or self._closed:
                return False
            number = self._taken
            try:
                task = next(self._tasks)
            except StopIteration:
                self._ended = True
                return False
            except BaseException as error:
                self._put(number, _Failed(error))
                self._taken += 1
                self._ended = True
                return False
            self._taken += 1
        try:
            result: Any = self._work(task)
        except BaseException as error:
            result = _Failed(error)
        self._put(number, result)
        return True

    def _put(self, number: int, result: Any) -> None:
        with self._changed:
            self._results[number] = result
            self._changed.notify_all()

    def _run(self) -> None:
        more = True
        while more:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._taken - self._given < self._most)
            more = self._do_one()
        with self._changed:
            self._changed.notify_all()

    def __next__(self) -> Result:
        while True:
            with self._changed:
                if self._given in self._results and not self._closed:
                    result = self._results.pop(self._given)
                    self._given += 1
                    self._changed.notify_all()
                    break
                if self._closed or (self._ended and self._given == self._taken):
                    raise StopIteration
                if not self._may_help():
                    self._changed.wait(0.5)  # not for ever: an interrupt must get through
                    continue
            self._do_one()
        if isinstance(result, _Failed):
            self.close()
            raise result.error
        return result

    def _may_help(self) -> bool:
        """Whether the caller can do something useful instead of waiting."""
        ahead = self._taken - self._given
        return self._help and not self._ended and ahead < self._most and not self._taking.locked()

    def stop(self) -> None:
        """Give nothing more out. Takes no lock, so that a signal handler may call it."""
        self._closed = True

    def close(self) -> None:
        """Stop taking tasks; what is being done is finished and dropped."""
        with self._changed:
            self._closed = True
            self._results.clear()
            self._changed.notify_all()
        if self._taking.acquire(blocking=False):  # otherwise whoever is reading finds out by itself
            try:
                getattr(self._tasks, "close", lambda: None)()
            finally:
                self._taking.release()
