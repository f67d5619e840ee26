"""A quick start: what the command does not need is not loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_BLAS = "scipy.linalg.cython_blas"


@contextmanager
def without_blas() -> Iterator[None]:
    """Numba's first kernel looks for BLAS by importing scipy.linalg, a fifth of a second; none of our kernels needs it.
    A learner that does (shrinkage) loads it all the same.

    What is found missing stays so for this process, so this is for our own command and not for the library.
    """
    if _BLAS in sys.modules:
        yield
        return
    sys.modules[_BLAS] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if sys.modules.get(_BLAS, sys) is None:
            del sys.modules[_BLAS]
