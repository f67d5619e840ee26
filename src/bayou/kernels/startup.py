"""A quick start: what the command does not need is not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_blas() -> Iterator[None]:
    """Numba's first kernel looks for BLAS by importing scipy.linalg, a fifth of a second; none of our kernels needs it.

    What Numba does not find then stays missing for this process, so this is for our own command, not for the library.
    """
    from bayou.kernels import numba_private

    with numba_private.without_blas():
        yield
