"""Ctrl-C, SIGTERM and SIGHUP during a run: it ends after the present batch, with what there is by then."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bayou.sources import Source

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupt:
    """Whether a run was told to stop, and by which signal."""

    signal: int | None = None

    def __bool__(self) -> bool:
        return self.signal is not None


@contextmanager
def interruptible(source: Source) -> Iterator[Interrupt]:
    """Within, the first Ctrl-C, SIGTERM or SIGHUP only stops the source; a second one ends everything at once.

    A signal that the process was told to ignore, as `nohup` does, stays ignored. Outside the main thread no signal is
    caught, for Python gives them to the main thread alone.
    """
    interrupt = Interrupt()

    def stop(number: int, _frame: Any) -> None:
        interrupt.signal = number
        source.stop()
        restore()

    def restore() -> None:
        for kind, old in before.items():
            signal.signal(kind, old)

    try:
        before = {kind: signal.signal(kind, stop) for kind in SIGNALS if signal.getsignal(kind) != signal.SIG_IGN}
    except ValueError:  # not in the main thread
        before = {}
    try:  # not within `except`, where every error of the run would carry that one along
        yield interrupt
    finally:
        restore()
