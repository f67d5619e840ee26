"""Handling of Ctrl-C in commands: immediate, but not inside Numba or LLVM.

Interrupting those would leave their locks held, and an exception inside a callback from LLVM is dropped: the command
would wait forever, or continue as if Ctrl-C had not been pressed.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from bayou.cli import exit_codes

# Code in these folders must not be interrupted, nor our own kernels' files.
NOT_WITHIN = tuple(f"{os.sep}{name}{os.sep}" for name in ("numba", "llvmlite", os.path.join("bayou", "kernels")))
# Seconds until the next check.
AGAIN = 0.02


class InterruptHandler:
    """Handler of Ctrl-C that waits until Numba has returned; a second Ctrl-C meanwhile ends the process.

    The signal is then raised again for the handler of that time, such as that of a run that first saves its model.
    """

    def __init__(self) -> None:
        self._waits = False

    def install(self) -> None:
        """Install the handler, unless Ctrl-C is ignored or already handled."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._pressed)

    def _pressed(self, signal_number: int, frame: FrameType | None) -> None:
        if self._waits:
            exit_codes.exit_process(exit_codes.INTERRUPTED)
        if not hasattr(signal, "setitimer") or not _within(frame):
            raise KeyboardInterrupt
        self._waits = True
        signal.signal(signal.SIGALRM, self._again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)

    def _again(self, signal_number: int, frame: Any) -> None:
        self._waits = False
        signal.raise_signal(signal.SIGINT)


def _within(frame: FrameType | None) -> bool:
    while frame is not None:
        if any(folder in frame.f_code.co_filename for folder in NOT_WITHIN):
            return True
        frame = frame.f_back
    return False
