"""Opening of files: expansion of paths and globs, and decompression.

gzip and zstd are recognized by their first bytes, not by names. Reads from standard input and other pipes return what
is available.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import select
import stat
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bayou.core.arrow import pa
from bayou.core.checks import check_iterable, check_path, suggest
from bayou.core.errors import BadInput

STANDARD_INPUT = "-"
NEWLINE = 10
_HEAD_BYTES = 1 << 16
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def expand(data: Any) -> list[str]:
    """Return the files that paths and globs match, in the given order, those of a glob by name.

    "-" is standard input. Raise BadInput if nothing matches, or for a folder or a dangling link.
    """
    expected = "a path, several of them, or a table"
    names = [data] if isinstance(data, str | os.PathLike) else check_iterable("data", data, expected)
    files: list[str] = []
    for name in (check_path("data", name) for name in names):
        if name == STANDARD_INPUT or os.path.exists(name):
            files.append(name)
        elif matches := sorted(glob.glob(name, recursive=True)):
            files += matches
        elif glob.has_magic(name):
            raise BadInput(f"no file matches {name!r}; check the pattern and the folder.")
        else:
            raise BadInput(f"{name}: there is no such file; check its name and folder.{_near(name)}")
    if not files:
        raise BadInput("no data: name at least one file, or - for standard input.")
    for name in files:
        if os.path.isdir(name):
            raise BadInput(f"{name} is a folder; name the files in it, such as '{os.path.join(name, '*')}'.")
        if name != STANDARD_INPUT and not os.path.exists(name):
            raise BadInput(f"{name} is a link to a missing file; remove the link, or omit it.")
    return files


def _near(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        return suggest(base, os.listdir(folder or "."))
    except OSError:
        return ""


class OpenFile:
    """An open file that reads as decompressed bytes."""

    def __init__(self, name: str) -> None:
        self.name = "standard input" if name == STANDARD_INPUT else name
        self._ahead = b""  # peeked at, but not read yet
        self.position = 0  # number of bytes read from the file itself; 0 where that has no meaning
        self.trouble: str | None = None  # why reading ended, if not at the file's end
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
            self._read_into = buffered.detach().readinto  # a buffer would wait for more bytes
        else:
            self._read_into = buffered.readinto
        self._packed = first.startswith((_GZIP, _ZSTD))
        self._tell = self._raw.tell if self._waits else buffered.tell

    @property
    def plain(self) -> bool:
        """True for a regular, uncompressed file, so that offsets in the bytes are offsets in the file."""
        return not (self._packed or self._waits)

    def head(self) -> bytes:
        """Return the next bytes without consuming them: up to about 64 KiB, with a complete line if it fits."""
        buffer = np.empty(_HEAD_BYTES, np.uint8)
        read = b""
        while len(read) < _HEAD_BYTES and b"\n" not in read:
            got = self.fill(buffer[len(read) :].data)
            if not got:
                break
            read += buffer[len(read) : len(read) + got].tobytes()
        self._ahead = read + self._ahead
        return self._ahead

    def fill(self, view: memoryview) -> int:
        """Read until the view is full or the file ends, and return the number of bytes.

        From a pipe, read what is available, waiting for at least one byte.
        """
        got = min(len(self._ahead), len(view))
        view[:got] = self._ahead[:got]
        self._ahead = self._ahead[got:]
        while got < len(view) and not (got and self._waits and not _ready(self._raw)):
            try:
                count = 0 if self.trouble else self._read_into(view[got:])
            except (OSError, EOFError, ValueError, zlib.error) as error:
                self.trouble, count = _sentence(error), 0
            if not count:
                break
            got += count
        if not self._waits:
            self.position = self._tell() - (0 if self._packed else len(self._ahead))
        return got

    def rest_after_line(self, capacity: int) -> np.ndarray:
        """Read to the end of the current line, and return the bytes that were read beyond it."""
        data = np.empty(capacity, np.uint8)
        while got := self.fill(data.data):
            newlines = np.flatnonzero(data[:got] == NEWLINE)
            if len(newlines):
                return data[newlines[0] + 1 : got].copy()
        return data[:0]

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *unused: object) -> None:
        self._raw.close()


def _zstd_reader(file: Any) -> Callable[[memoryview], int]:
    """Return a function that reads zstd data in small pieces, as a failed call loses all that it has read."""
    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    return lambda view: stream.readinto(view[: 1 << 16])


def _ready(raw: io.FileIO) -> bool:
    """Return whether a pipe has bytes to read without waiting, or has ended."""
    try:
        return bool(select.select([raw], [], [], 0)[0])
    except (OSError, ValueError):  # select does not support it
        return True


def size_of(name: str) -> int | None:
    """Return a file's size in bytes, or None if it is unknown, as for pipes."""
    if name == STANDARD_INPUT:
        return None
    status = os.stat(name)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _sentence(error: Exception) -> str:
    if isinstance(error, EOFError) or "runcated" in str(error):
        return "the compressed data end too early; the file is incomplete"
    if isinstance(error, OSError) and error.strerror:
        return f"the file cannot be read further ({error.strerror})"
    return f"the compressed data are damaged ({str(error).rstrip('.')})"
