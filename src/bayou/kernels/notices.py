"""Lines for people about what takes long, or will: on standard error, once a process, and never if `bayou.quiet`."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# What takes less goes without a word.
PATIENCE = 1.5
_said: set[str] = set()
_spent: dict[str, float] = {}


def notice(line: str) -> None:
    """Say it, once."""
    if line in _said or getattr(sys.modules.get("bayou"), "quiet", False):
        return
    _said.add(line)
    with suppress(OSError, ValueError, AttributeError):  # closed, or none
        print(line, file=sys.stderr, flush=True)


@contextmanager
def taking_long(line: str) -> Iterator[None]:
    """Say the line if all that is done within `taking_long(line)`, now and before, takes longer than PATIENCE."""
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
