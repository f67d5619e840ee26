"""Standard streams whose reader may go away: the work goes on, and output that cannot be written is dropped."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any


class _TolerantStream(io.RawIOBase):
    """Stream that drops what cannot be written; `failure` is the first error, if any."""

    def __init__(self, descriptor: int, raw: Any, failure: OSError | None) -> None:
        self._number, self._raw, self.failure = descriptor, raw, failure

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return self.failure is None and bool(self._raw.isatty())

    def write(self, data: Any) -> int:
        while self.failure is None:
            try:
                done = self._raw.write(data)
                if done is not None:
                    return int(done)
                select.select([], [self._number], [])  # a full pipe in non-blocking mode
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def install() -> None:
    """Make the standard streams of this process forgiving; closed ones are redirected to nowhere.

    The file descriptor of a closed stream must be occupied: otherwise the next file to be opened would get it, and
    messages would be written into that file.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        failure = _occupy(descriptor)
        if name == "stdin":
            continue
        old = getattr(sys, name)
        if old is None:
            failure = failure or OSError(errno.EBADF, os.strerror(errno.EBADF))
            old = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open as long as the process runs
        old.flush()
        unbuffered = not hasattr(old.buffer, "raw")  # python -u
        raw = _TolerantStream(descriptor, old.buffer if unbuffered else old.buffer.raw, failure)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw),
            old.encoding,
            "backslashreplace",  # not every terminal has every character
            line_buffering=name == "stderr" or raw.isatty(),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)


def _occupy(descriptor: int) -> OSError | None:
    """Return the error of a closed file descriptor after opening the null device in its place; None if it is open."""
    try:
        os.fstat(descriptor)
    except OSError as error:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        return error
    return None


def failure(stream: Any) -> OSError | None:
    """Return the error of a stream made forgiving if something could not be written to it, else None."""
    return getattr(getattr(getattr(stream, "buffer", None), "raw", None), "failure", None)
