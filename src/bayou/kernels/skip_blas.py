"""Faster start of the command, without loading modules that it does not need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_blas() -> Iterator[None]:
    """Keep Numba from importing scipy.linalg to look for BLAS, which takes a fifth of a second and no kernel needs.

    BLAS then stays unavailable to Numba in this process, so this is for our own command, not for the library.
    """
    from bayou.kernels import numba_private

    with numba_private.without_blas():
        yield
