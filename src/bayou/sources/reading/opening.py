"""Opening files: which ones paths and globs mean, and their bytes, decompressed.

gzip and zstd are told by their first bytes, not by names. Standard input and other pipes give what they have.
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

from bayou.core.checks import did_you_mean, path, several
from bayou.core.errors import BadInput

STANDARD_INPUT = "-"
NEWLINE = 10
_HEAD_BYTES = 1 << 16
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def expand(data: Any) -> list[str]:
    """The files that paths and globs mean, in the order given; those of a glob by name. "-" is standard input."""
    what = "a path, several of them, or a table"
    names = [data] if isinstance(data, str | os.PathLike) else several("data", data, what)
    files: list[str] = []
    for name in (path("data", name) for name in names):
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
        if name != STANDARD_INPUT and not os.path.exists(name):
            raise BadInput(f"{name} is a link to a file that is not there; remove the link, or leave it out.")
    return files


def _near(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        return did_you_mean(base, os.listdir(folder or "."))
    except OSError:
        return ""


class OpenFile:
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
        self._packed = first.startswith((_GZIP, _ZSTD))
        self._tell = self._raw.tell if self._waits else buffered.tell

    @property
    def plain(self) -> bool:
        """Whether its bytes stand in the file as they are read."""
        return not (self._packed or self._waits)

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
            except (OSError, EOFError, ValueError, zlib.error) as error:
                self.trouble, count = _sentence(error), 0
            if not count:
                break
            got += count
        if not self._waits:
            self.position = self._tell() - (0 if self._packed else len(self._ahead))
        return got

    def rest_after_line(self, room: int) -> np.ndarray:
        """Read to the end of the present line; what was read beyond it."""
        data = np.empty(room, np.uint8)
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


def size_of(name: str) -> int | None:
    """A file's size in bytes, or None if it cannot be known beforehand."""
    if name == STANDARD_INPUT:
        return None
    found = os.stat(name)
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _sentence(error: Exception) -> str:
    if isinstance(error, EOFError) or "runcated" in str(error):
        return "the compressed data end too early; the file is not whole"
    if isinstance(error, OSError) and error.strerror:
        return f"the file cannot be read further ({error.strerror})"
    return f"the compressed data are damaged ({str(error).rstrip('.')})"
