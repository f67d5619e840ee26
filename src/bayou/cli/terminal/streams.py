"""Standard output and standard error whose reader may go away: the work goes on, what nobody can read is dropped."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import Any


class _Forgiving(io.RawIOBase):
    """A stream that drops what cannot be written; `failure` says why, once there was something."""

    def __init__(self, number: int, raw: Any, failure: OSError | None) -> None:
        self._number, self._raw, self.failure = number, raw, failure

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
                select.select([], [self._number], [])  # a pipe that is full, and does not wait by itself
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def install() -> None:
    """Make this process's standard streams forgiving. Those that were closed lead nowhere.

    A closed one's number must be taken: the next file that is opened would get it, and what is meant for people would
    be written into that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        failure = _occupy(number)
        if name == "stdin":
            continue
        old = getattr(sys, name)
        if old is None:
            failure = failure or OSError(errno.EBADF, os.strerror(errno.EBADF))
            old = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # as long as the process
        old.flush()
        unbuffered = not hasattr(old.buffer, "raw")  # python -u
        raw = _Forgiving(number, old.buffer if unbuffered else old.buffer.raw, failure)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw),
            old.encoding,
            "backslashreplace",  # not every terminal has every letter
            line_buffering=name == "stderr" or raw.isatty(),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)


def _occupy(number: int) -> OSError | None:
    """What is wrong with a stream that was closed, having put nothing in its place."""
    try:
        os.fstat(number)
    except OSError as error:
        os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, this one
        return error
    return None


def failure(stream: Any) -> OSError | None:
    """Why something could not be written to a stream that was made forgiving, if that is so."""
    return getattr(getattr(getattr(stream, "buffer", None), "raw", None), "failure", None)
