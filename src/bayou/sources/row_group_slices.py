"""Parts of Parquet files as data: ranges of rows of row groups, for training on a shard."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class RowGroupSlice(NamedTuple):
    """Rows [first, last) of a row group of a file."""

    file: str
    group: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first


class RowGroupSlices:
    """Parts of Parquet files, in the order in which they are read; `sources.open` accepts them.

    >>> parts = RowGroupSlices([RowGroupSlice("a.parquet", 0, 0, 100), RowGroupSlice("a.parquet", 1, 0, 50)])
    >>> parts.rows, parts.files
    (150, ['a.parquet'])
    """

    def __init__(self, parts: Sequence[RowGroupSlice]) -> None:
        self.parts = list(parts)
        self._starts = list(itertools.accumulate((part.rows for part in self.parts), initial=0))

    @property
    def rows(self) -> int:
        return self._starts[-1]

    def cut(self, first: int, last: int) -> list[RowGroupSlice]:
        """Return the parts that hold rows [first, last), counted over all parts.

        >>> RowGroupSlices([RowGroupSlice("a", 0, 10, 20), RowGroupSlice("b", 0, 0, 5)]).cut(7, 12)
        [RowGroupSlice(file='a', group=0, first=17, last=20), RowGroupSlice(file='b', group=0, first=0, last=2)]
        """
        slices = []
        for k in range(max(bisect.bisect_right(self._starts, first) - 1, 0), len(self.parts)):
            part, start = self.parts[k], self._starts[k]
            low, high = max(first - start, 0), min(last - start, part.rows)
            if start >= last:
                break
            if low < high:
                slices.append(part._replace(first=part.first + low, last=part.first + high))
        return slices

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(part.file for part in self.parts))

    def scans(self) -> Iterator[tuple[str, int, list[RowGroupSlice]]]:
        """Yield (file, row group, its parts in ascending order) for each scan of a row group that is needed."""
        waiting: list[RowGroupSlice] = []
        for part in self.parts:
            if waiting and (part[:2] != waiting[0][:2] or part.first < waiting[-1].last):
                yield *waiting[0][:2], waiting
                waiting = []
            waiting.append(part)
        if waiting:
            yield *waiting[0][:2], waiting
