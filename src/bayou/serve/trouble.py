"""What is wrong for a while, said often enough to be seen and seldom enough to be read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

REPEAT_SECONDS = 60.0


class Trouble:
    """Something that is wrong for a while: said at once, then once a minute while it lasts, and when it is over.

    Trouble that comes and goes within a minute is said once.

    Args:
        say: called with a sentence and its `level`.
        over: the sentence for when it is over.

    Attributes:
        text: what is wrong now; "" while nothing is.
    """

    def __init__(self, say: Callable[..., object], over: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._say, self._over, self._monotonic = say, over, monotonic
        self.text = ""
        self._said_at, self._is_said = -math.inf, False

    def update(self, text: str) -> None:
        """Note what is wrong now, "" for nothing, and say what there is to say."""
        self.text = text
        if not text:
            if self._is_said:
                self._is_said = False
                self._say(self._over, level="info")
        elif self._monotonic() - self._said_at >= REPEAT_SECONDS:
            self._said_at, self._is_said = self._monotonic(), True
            self._say(text, level="error")
