"""Ctrl-C, as a command takes it: at once, but not within Numba or LLVM.

What they hold would stay locked, and an exception within what LLVM calls from C is dropped: the command would wait
forever, or go on as if nobody had asked.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from bayou.cli import edge

# Code in folders of these names is not to be left in the middle, nor are our own kernels' files.
NOT_WITHIN = tuple(f"{os.sep}{name}{os.sep}" for name in ("numba", "llvmlite", os.path.join("bayou", "kernels")))
# Seconds until it is looked at again.
AGAIN = 0.02


class CtrlC:
    """Waits with KeyboardInterrupt until Numba is left; a second Ctrl-C meanwhile ends the process.

    The signal comes again to whoever listens by then, such as a run that first keeps what it has learned.
    """

    def __init__(self) -> None:
        self._waits = False

    def install(self) -> None:
        """Nothing where Ctrl-C is ignored, or listened to already."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._pressed)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        if self._waits:
            edge.leave(edge.INTERRUPTED)
        if not hasattr(signal, "setitimer") or not _within(frame):
            raise KeyboardInterrupt
        self._waits = True
        signal.signal(signal.SIGALRM, self._again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    def _again(self, number: int, frame: Any) -> None:
        self._waits = False
        signal.raise_signal(signal.SIGINT)


def _within(frame: FrameType | None) -> bool:
    while frame is not None:
        if any(place in frame.f_code.co_filename for place in NOT_WITHIN):
            return True
        frame = frame.f_back
    return False
