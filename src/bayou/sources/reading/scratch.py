"""Room that is used again for the next block, by each thread for itself: new memory costs more than what it is for."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np


class Scratch(threading.local):
    """Arrays by name. Taking one of the same name again, in the same thread, ends the use of the last."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array with anything in it."""
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        array = self._arrays.get(name)
        if array is None or array.dtype != dtype or len(array) < size or len(array) > 4 * size + (1 << 16):
            array = self._arrays[name] = np.empty(size + size // 8, dtype)
        return array[:size].reshape(shape)
