"""Tables in chunks: DataFrame chunks, Parquet record batches, or anything else that Arrow can read.

    for batch in bayou.sources.open(pd.read_csv("big.csv", chunksize=100_000), recipe={"label": "clicked"}): ...

Every chunk must have the columns of the first; a column may be integer in one chunk and floating-point in another.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bayou.core.arrow import pa
from bayou.core.errors import BadInput
from bayou.sources.formats.arrow.reader import stream_of


def is_table(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


class TableChunks:
    """The parts of a table, and columns of them that are kept for the caller.

    Attributes:
        is_rereadable: whether the parts can be iterated over more than once.
        keep: names of the columns to keep.
    """

    def __init__(self, tables: Iterable[Any]) -> None:
        self._parts = tables
        self.keep: list[str] = []
        streams = isinstance(tables, Sequence) and any(hasattr(table, "read_next_batch") for table in tables)
        self.is_rereadable = iter(tables) is not tables and not streams
        self._kept: deque[tuple[int, pa.Table]] = deque()

    @property
    def rows(self) -> int | None:
        """Number of rows, if the parts are a list of tables with a length; else None."""
        tables = self._parts if isinstance(self._parts, Sequence) else ()
        return sum(map(len, tables)) if tables and all(hasattr(table, "__len__") for table in tables) else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._kept.clear()
        names, rows = None, 0
        for table in self._parts:
            for batch in pa.table(table).to_batches() if hasattr(table, "__arrow_c_array__") else stream_of(table):
                if not batch.num_rows:
                    continue
                # The index that pandas adds is not a column.
                names = names or [name for name in batch.schema.names if not name.startswith("__index_level_")]
                if batch.schema.names != names:
                    batch = _in_order(batch, names)
                if self.keep:
                    self._kept.append((rows, _columns(batch, self.keep)))
                rows += batch.num_rows
                yield batch

    def kept(self, rows: np.ndarray) -> pa.Table:
        """Return the kept columns for these rows, which count from 0 and ascend; earlier batches are forgotten."""
        while self._kept and len(rows) and self._kept[0][0] + self._kept[0][1].num_rows <= rows[0]:
            self._kept.popleft()
        tables = []
        for start, table in list(self._kept):
            low, high = np.searchsorted(rows, [start, start + table.num_rows])
            if high > low:
                tables.append(table.take(rows[low:high] - start))
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def parts_or_paths(data: Any) -> Any:
    """Return an iterable of tables as `TableChunks`; anything else, which must name files, as it is."""
    if hasattr(data, "tocsr"):
        raise BadInput("the data are a sparse matrix, which has no labels; learn from it with Batch.from_csr(X, y).")
    if isinstance(data, TableChunks) or not isinstance(data, Iterable):
        return data
    if isinstance(data, Sequence):
        return TableChunks(data) if len(data) and is_table(data[0]) else data
    try:
        items = iter(data)
    except TypeError:  # an array without dimensions claims to be iterable
        return data
    first = next(items, None)
    if first is None:
        raise BadInput("no data: the iterable yields no tables.")
    if is_table(first):
        return TableChunks(itertools.chain([first], items) if items is data else data)
    if isinstance(first, str | os.PathLike):
        return [first, *items]
    raise BadInput(f"the data give a {type(first).__name__}; give paths, a table, or an iterable of tables.")


def _in_order(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    missing = [name for name in names if name not in batch.schema.names]
    if missing:
        raise BadInput(
            f"a part of the table has no column {missing[0]!r}, unlike the first part; give all parts the same columns."
        )
    return batch.select(names)


def _columns(batch: pa.RecordBatch, keep: list[str]) -> pa.Table:
    for name in keep:
        if name not in batch.schema.names:
            from bayou.core.checks import suggest

            existing = ", ".join(batch.schema.names)
            raise BadInput(
                f"keep names the column {name!r}, which does not exist; the columns are {existing}."
                f"{suggest(name, batch.schema.names)}"
            )
    return pa.Table.from_batches([batch.select(keep)])
