"""Per-thread scratch arrays that are reused for the next block: allocating new memory would cost more than using it."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np


class ThreadBuffers(threading.local):
    """Scratch arrays by name. Taking one of the same name again, in the same thread, overwrites the last."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an uninitialized array."""
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        array = self._arrays.get(name)
        if array is None or array.dtype != dtype or len(array) < size or len(array) > 4 * size + (1 << 16):
            array = self._arrays[name] = np.empty(size + size // 8, dtype)
        return array[:size].reshape(shape)
