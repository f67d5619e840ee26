"""How kernels are compiled: quickly, and once.

`kernel` is Numba's `njit` with four differences:

    @kernel
    def learn(indptr, indices, values, labels, state): ...

- **What a kernel calls becomes part of it.** A kernel that another one calls is only typed and lowered for it: no
  wrapper for Python, no machine code of its own, no file. Numba's own way does all of that for each of the many small
  functions of a run, which was a quarter of the time that a first run took.
- **An array is an array**, whether or not it may be written to. Numba compiles a kernel anew for every mixture of such
  arrays and others: for a file that is read where it lies and for one that was decompressed, say. What is not to be
  written to, no kernel writes to; the laws look (`tests/laws/test_types`).
- **Files hold what they say.** Compiled code is found by everything it depends on (`cache`).
- **Zero divides as in NumPy**, and the GIL is released.

Options are Numba's: `@kernel(forceinline=True)`, `@kernel(inline="always")`, `@kernel(fastmath={"contract"})`.

The first three need Numba's private parts (`numba_private`). Where these are not as they were, a kernel is what `njit`
makes of it: slower to start, kept in Numba's own files, with the same results. A sentence says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numba

from bayou.kernels import cache, numba_private
from bayou.kernels.notices import notice, taking_long
from bayou.kernels.numba_private import Kernel, Part

__all__ = ["COMPILING", "Kernel", "Part", "kernel"]

COMPILING = "compiling the kernels; this happens once, takes up to half a minute, and is kept"


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function as a kernel: for Python compiled once and kept in a file, for other kernels a part of them."""
    if function is None:
        return lambda function: kernel(function, **options)
    if is_plain():
        return _plain_kernel(function, options)
    return Kernel(function, options, cache.KernelCache, _watch)


def is_plain() -> bool:
    """Return whether kernels are what Numba's `njit` makes of them; a notice says why."""
    why = numba_private.why_plain()
    if why is not None:
        notice(f"kernels are compiled the plain way, which makes a first start slower, for {why}")
    return why is not None


def _watch() -> AbstractContextManager[None]:
    return taking_long(COMPILING)


def _plain_kernel(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What `njit` makes of a function; its files are kept where ours are, and for the same sources alone."""
    place = cache.plain_folder()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = "" if place is None else os.fspath(place)  # where Numba looks once, here
    try:
        return numba.njit(nogil=True, error_model="numpy", cache=place is not None, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
