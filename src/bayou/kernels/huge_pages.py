"""Tables of weights in memory: aligned to cache lines, and in pages whose size depends on how densely they are used.

The TLB of a processor holds some two thousand pages. For small ones (4 KB) these are MIN_ADVISED_BYTES bytes: in a
larger table nearly every weight needs a page lookup as well, which takes a third of the bank's time. Huge pages (2 MB)
avoid that, but touching one byte of a huge page allocates all of it: a hundred rows would allocate the gigabyte of a
bank of 2^24 weights. So tables start with small pages, and get huge ones once 1/HUGE_PAGE_DENSITY of the small ones
have been touched; memory is then at most HUGE_PAGE_DENSITY times that of small pages. A stream is watched for this
while it has had fewer than PATIENCE non-zeros per page.

On the first touch of a page the system allocates and clears it, which takes a tenth of a second to half a second for
the tables of 2^22 weights. Once huge pages are chosen another thread does that, so that rows do not wait for it.

This works on Linux only; elsewhere, and where the system has no huge pages, it has no effect.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

SMALL_PAGE_BYTES, HUGE_PAGE_BYTES, MIN_ADVISED_BYTES, HUGE_PAGE_DENSITY, PATIENCE = 4096, 2 << 20, 8 << 20, 8, 8
_POPULATE_WRITE = 23  # since Linux 5.14; Python's mmap has no name for it


def aligned_zeros(rows: int, columns: int, dtype: str) -> np.ndarray:
    """Return zeros that use no memory until touched. Rows of whole cache lines (64 bytes) are aligned to them."""
    item = np.dtype(dtype).itemsize
    buffer = np.zeros(rows * columns + 64 // item, dtype)
    skip = -buffer.ctypes.data % 64 // item
    if buffer.nbytes > MIN_ADVISED_BYTES:
        _advise(buffer, "MADV_NOHUGEPAGE")  # NumPy asks for huge ones
    return buffer[skip : skip + rows * columns].reshape(rows, columns)


def release(table: np.ndarray) -> None:
    """Give the memory of a table of zeros back to the system, until it is touched again."""
    if table.nbytes > MIN_ADVISED_BYTES:
        _advise(table, "MADV_DONTNEED")


class HugePageAdvisor:
    """Page use of a learner's tables, which have a row for each feature, until the page size is decided."""

    def __init__(self, tables: Iterable[np.ndarray]) -> None:
        self._tables = [table for table in tables if table.nbytes > MIN_ADVISED_BYTES]
        self._stride = max((table.strides[0] for table in self._tables), default=SMALL_PAGE_BYTES)
        size = max((len(table) for table in self._tables), default=0) * self._stride // SMALL_PAGE_BYTES
        self._touched, self._left = np.zeros(size + 1, bool), PATIENCE * size
        self._most = 0  # upper bound of the number of pages touched

    @property
    def is_undecided(self) -> bool:
        """True while the page size is undecided, so that `note_touched` is to be called."""
        return self._left > 0

    def note_touched(self, rows: np.ndarray | None) -> None:
        """Record that these rows of the tables are about to be touched (None: all), and switch to huge pages if due."""
        pages: Any = slice(None) if rows is None else rows.astype(np.int64) * self._stride // SMALL_PAGE_BYTES
        self._touched[pages] = True
        n_rows = len(self._touched) if rows is None else len(rows)
        self._left, self._most = self._left - n_rows, self._most + n_rows
        if self._most * HUGE_PAGE_DENSITY > len(self._touched):
            self._most = int(np.count_nonzero(self._touched))
        if self._most * HUGE_PAGE_DENSITY > len(self._touched):
            for table in self._tables:
                _advise(table, "MADV_HUGEPAGE")
            widest = max(self._tables, key=lambda table: table.strides[0])
            threading.Thread(target=_fill, args=(widest, np.flatnonzero(self._touched)), daemon=True).start()
            self._left = 0
        if not self.is_undecided:
            self._tables, self._touched = [], self._touched[:0].copy()


def _fill(table: np.ndarray, touched: np.ndarray) -> None:
    """Allocate the huge pages around these small pages, which are counted from the start of a table."""
    start, end = table.ctypes.data, table.ctypes.data + table.nbytes
    for page in np.unique((start + touched * SMALL_PAGE_BYTES) // HUGE_PAGE_BYTES).tolist():
        _madvise(max(start, page * HUGE_PAGE_BYTES), min(end, (page + 1) * HUGE_PAGE_BYTES), _POPULATE_WRITE)


def _advise(array: np.ndarray, advice: str) -> None:
    """Advise the operating system about the memory of an array."""
    if sys.platform == "linux":
        _madvise(array.ctypes.data, array.ctypes.data + array.nbytes, getattr(mmap, advice))


def _madvise(start: int, end: int, advice: int) -> None:
    """Advise the operating system about the pages within [start, end)."""
    first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if sys.platform == "linux" and first < last:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), advice)
