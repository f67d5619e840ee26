"""Handling of Ctrl-C, SIGTERM and SIGHUP: a run ends after the current batch and returns its results so far."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayou.sources import Source

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupt:
    """Flag that is true once a signal has asked the run to stop; `signal` is its number."""

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def interruptible(source: Source) -> Iterator[Interrupt]:
    """Stop the source at the first Ctrl-C, SIGTERM or SIGHUP within the block; a second one has its usual effect.

    A signal that the process ignores, as under `nohup`, stays ignored. Outside the main thread no signal is caught,
    because Python delivers signals to the main thread only.
    """
    interrupt = Interrupt()

    def stop(signal_number: int, _frame: Any) -> None:
        interrupt.signal = signal_number
        source.stop()
        restore()

    def restore() -> None:
        for kind, old in handlers.items():
            signal.signal(kind, old)

    try:
        handlers = {kind: signal.signal(kind, stop) for kind in SIGNALS if signal.getsignal(kind) != signal.SIG_IGN}
    except ValueError:  # not in the main thread
        handlers = {}
    try:  # not inside `except`, or every error of the run would be chained to the ValueError
        yield interrupt
    finally:
        restore()
