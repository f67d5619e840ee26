"""The `kernel` decorator, which compiles functions quickly, and once.

`kernel` is Numba's `njit` with four differences:

    @kernel
    def learn(indptr, indices, values, labels, state): ...

- **A kernel that another kernel calls becomes part of it.** It is only typed and lowered there: no wrapper for Python,
  no machine code of its own, no file. Numba does all of that for each of the many small functions of a run, which was a
  quarter of the time of a first run.
- **Read-only and writable arrays have the same type.** Numba compiles a kernel again for every mixture of the two: for
  a memory-mapped file and for a decompressed one, say. Kernels do not write to read-only arrays, which the laws check
  (`tests/laws/test_types`).
- **Cache files are never stale.** They are keyed by everything that the compiled code depends on (`cache`).
- **Zero divides as in NumPy**, and the GIL is released.

Options are Numba's: `@kernel(forceinline=True)`, `@kernel(inline="always")`, `@kernel(fastmath={"contract"})`.

The first three need Numba's private parts (`numba_private`). If these have changed, `kernel` falls back on `njit`, with
a notice: slower to start, cached in Numba's own files, with the same results.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numba

from bayou.kernels import cache, numba_private
from bayou.kernels.compile_notices import notice, notice_if_slow
from bayou.kernels.numba_private import InnerKernel, Kernel

__all__ = ["COMPILING", "InnerKernel", "Kernel", "kernel"]

COMPILING = "compiling the kernels; this happens once, takes up to half a minute, and is kept"


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a function a kernel: compiled once and cached on disk for Python, and made part of kernels that call it."""
    if function is None:
        return lambda function: kernel(function, **options)
    if is_plain():
        return _plain_kernel(function, options)
    return Kernel(function, options, cache.KernelCache, _watch)


def is_plain() -> bool:
    """Return whether kernels are compiled by Numba's `njit`, with a notice that gives the reason."""
    reason = numba_private.why_plain()
    if reason is not None:
        notice(f"kernels are compiled the plain way, which makes a first start slower, for {reason}")
    return reason is not None


def _watch() -> AbstractContextManager[None]:
    return notice_if_slow(COMPILING)


def _plain_kernel(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile a function by `njit`, with its cache files next to ours and valid for the same sources only."""
    folder = cache.plain_folder()
    previous_folder = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = "" if folder is None else os.fspath(folder)  # Numba reads it once, in `njit`
    try:
        return numba.njit(nogil=True, error_model="numpy", cache=folder is not None, **options)(function)
    finally:
        numba.config.CACHE_DIR = previous_folder
