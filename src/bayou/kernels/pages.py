"""Tables of weights in memory: aligned to cache lines, and in pages of the size that suits what is known of them.

A processor remembers where some two thousand pages are. Of small ones (4 KB) that is REACH bytes: in a larger table
nearly every weight has its page looked up besides, which takes a third of the bank's time. Huge pages (2 MB) do away
with that, but whoever touches one byte of a huge page takes all of it: a hundred rows would take the gigabyte of a
bank of 2^24 weights. So tables have small pages, and get huge ones once rows are about to touch one in DENSE of the
small ones; what is then in memory is at most so many times what small pages would take. Whether a stream is dense is
looked at while it has less than PATIENCE non-zeros for each page.

The first touch of a page has the system find and clear it, which takes a tenth of a second to half a second for the
tables of 2^22 weights. Once it is known that huge pages will be touched, another thread does that, and rows do not wait
for it.

Linux alone has a say in this; elsewhere, and where the system has no huge pages, nothing comes of it.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

SMALL, HUGE, REACH, DENSE, PATIENCE = 4096, 2 << 20, 8 << 20, 8, 8
_POPULATE_WRITE = 23  # since Linux 5.14; Python's mmap has no name for it


def aligned_zeros(rows: int, columns: int, dtype: str) -> np.ndarray:
    """Zeros that cost nothing until touched, each row at the beginning of a cache line (64 bytes) if it fills lines."""
    item = np.dtype(dtype).itemsize
    room = np.zeros(rows * columns + 64 // item, dtype)
    skip = -room.ctypes.data % 64 // item
    if room.nbytes > REACH:
        _advise(room, "MADV_NOHUGEPAGE")  # NumPy asks for huge ones
    return room[skip : skip + rows * columns].reshape(rows, columns)


class Pages:
    """The pages of a learner's tables, all of which have a row for each feature, until it is known which they need."""

    def __init__(self, tables: Iterable[np.ndarray]) -> None:
        self._tables = [table for table in tables if table.nbytes > REACH]
        self._stride = max((table.strides[0] for table in self._tables), default=SMALL)
        size = max((len(table) for table in self._tables), default=0) * self._stride // SMALL
        self._touched, self._left = np.zeros(size + 1, bool), PATIENCE * size
        self._most = 0  # no more are touched

    @property
    def undecided(self) -> bool:
        """Whether it still wants to be told."""
        return self._left > 0

    def touch(self, rows: np.ndarray | None) -> None:
        """These rows of the tables are about to be touched; None: all."""
        places: Any = slice(None) if rows is None else rows.astype(np.int64) * self._stride // SMALL
        self._touched[places] = True
        more = len(self._touched) if rows is None else len(rows)
        self._left, self._most = self._left - more, self._most + more
        if self._most * DENSE > len(self._touched):
            self._most = int(np.count_nonzero(self._touched))
        if self._most * DENSE > len(self._touched):
            for table in self._tables:
                _advise(table, "MADV_HUGEPAGE")
            widest = max(self._tables, key=lambda table: table.strides[0])
            threading.Thread(target=_fill, args=(widest, np.flatnonzero(self._touched)), daemon=True).start()
            self._left = 0
        if not self.undecided:
            self._tables, self._touched = [], self._touched[:0].copy()


def _fill(table: np.ndarray, touched: np.ndarray) -> None:
    """Have the huge pages around these small ones, counted from the beginning of a table, in memory."""
    start, end = table.ctypes.data, table.ctypes.data + table.nbytes
    for page in np.unique((start + touched * SMALL) // HUGE).tolist():
        _madvise(max(start, page * HUGE), min(end, (page + 1) * HUGE), _POPULATE_WRITE)


def _advise(array: np.ndarray, advice: str) -> None:
    """Tell the system what to expect of an array's memory."""
    if sys.platform == "linux":
        _madvise(array.ctypes.data, array.ctypes.data + array.nbytes, getattr(mmap, advice))


def _madvise(start: int, end: int, advice: int) -> None:
    """Of the pages that lie between two addresses."""
    first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
    if sys.platform == "linux" and first < last:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), advice)
