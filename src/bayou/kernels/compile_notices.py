"""Notices on standard error about slow work: each line at most once per process, and none if `bayou.quiet` is set."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Seconds of work below which no notice is printed.
PATIENCE = 1.5
_said: set[str] = set()
_spent: dict[str, float] = {}


def notice(line: str) -> None:
    """Print a line to standard error, once per process, unless `bayou.quiet` is set."""
    if line in _said or getattr(sys.modules.get("bayou"), "quiet", False):
        return
    _said.add(line)
    with suppress(OSError, ValueError, AttributeError):  # closed, or none
        print(line, file=sys.stderr, flush=True)


@contextmanager
def notice_if_slow(line: str) -> Iterator[None]:
    """Print the line once the total time spent within `notice_if_slow(line)` in this process exceeds PATIENCE."""
    start = time.monotonic()
    timer = threading.Timer(max(0.0, PATIENCE - _spent.get(line, 0.0)), notice, [line])
    timer.daemon = True
    if line not in _said:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _spent[line] = _spent.get(line, 0.0) + time.monotonic() - start
