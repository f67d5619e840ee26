"""Reader of tables in memory through `__arrow_c_stream__`, for a `Source`, and fitting of recipes to Arrow tables."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayou.core.arrow import is_a, pa
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.recipe.recipe import FIT_ROWS, Recipe
from bayou.sources.formats.arrow.cells import (
    as_numbers,
    as_seconds,
    flat_columns,
    is_point,
    is_text,
    iso,
    names_of,
    string_cells,
    values_of,
)
from bayou.sources.formats.arrow.table import ArrowTable, BatchCells
from bayou.sources.reading.parsed_block import ParsedBlock
from bayou.sources.table.cell_columns import check_width
from bayou.sources.table.column_summary import ColumnScanner, ColumnSummary
from bayou.sources.table.fit import fit
from bayou.sources.table.fitting_reader import FittingReader
from bayou.sources.table.numbers import POINT
from bayou.sources.table.typed_values import one_column, summary_of

# Rows per block: with a few dozen columns their features fit in the L2 cache.
BLOCK_ROWS = 1 << 12
# Maximum number of rows decoded at once; each time a column's whole dictionary is copied, so that it must be large.
MOST_ROWS = 1 << 18


@dataclass
class RowRange:
    """A range of rows of a record batch, whose cells are made by the first thread that needs them, and shared."""

    file: str
    first: bool
    shared: _SharedCells
    start: int
    stop: int


@dataclass
class _SharedCells:
    batch: pa.RecordBatch
    columns: BatchCells | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepared(self, table: ArrowTable) -> BatchCells:
        with self.lock:
            if self.columns is None:
                self.columns = table.prepare(self.batch)
            return self.columns


def row_ranges(batches: Iterator[pa.RecordBatch], file: str) -> Iterator[RowRange]:
    first = True
    for batch in batches:
        shared = _SharedCells(batch)
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            yield RowRange(file, first, shared, start, min(start + BLOCK_ROWS, batch.num_rows))
            first = False


def stream_of(table: Any) -> Iterable[pa.RecordBatch]:
    """Return the record batches of a table; raise BadInput if its library cannot export it."""
    try:
        return pa.RecordBatchReader.from_stream(table)
    except (TypeError, ValueError) as error:  # pandas with duplicate names, for example
        raise BadInput(f"the table cannot be read: {str(error).splitlines()[0].rstrip('.')}.") from None


def fit_arrow(recipe: Recipe, batches: Sequence[pa.RecordBatch], **options: Any) -> Recipe:
    """Return the recipe fitted to the first FIT_ROWS rows of the record batches."""
    check_width(len(names_of(batches[0].schema)))
    (batch,) = _joined(batches).slice(0, FIT_ROWS).combine_chunks().to_batches()
    summaries = {name: _summary(name, array, recipe) for name, array in flat_columns(batch)}
    return fit(recipe, summaries, **options)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return record batches as one table, with columns of differing types cast to a common type.

    If there is none, as for numbers and texts, only batches with the types of the first one are included.
    """
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return pa.Table.from_batches(batches)
    tables = [_decoded(pa.Table.from_batches([batch])) for batch in batches]
    try:
        return pa.concat_tables(tables, promote_options="permissive").select(batches[0].schema.names)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.Table.from_batches([batch for batch in batches if batch.schema.equals(batches[0].schema)])


def _decoded(table: pa.Table) -> pa.Table:
    """Return a table with dictionaries replaced by their values, as types with dictionaries differ from plain ones."""
    for k, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(k, column.name, table.column(k).cast(column.type.value_type))
    return table


def _summary(name: str, array: pa.Array, recipe: Recipe) -> ColumnSummary:
    if is_a.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind, scanner = array.type, ColumnScanner(recipe)
    if is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind):
        scanner.add_numbers(as_numbers(array.cast("float64") if is_a.is_decimal(kind) else array))
    elif is_point(kind):
        scanner.add_numbers(as_seconds(array), POINT)
    elif is_text(kind):
        data, starts, stops = string_cells(array, separated=True)
        scanner.add(one_column(data, starts, stops), len(array), np.ones(len(array), np.bool_))
    else:
        return summary_of(values_of(iso(array) if is_a.is_temporal(kind) else array, name), recipe)
    display = iso(array) if is_point(kind) else array.cast("large_binary") if is_text(kind) else array
    return scanner.summary(lambda row: _as_text(display[row].as_py()))


def _as_text(value: Any) -> str:
    """Return a value as text, with bytes decoded, as not all text is valid UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class ArrowReader(FittingReader):
    """Reader of the rows of an object with `__arrow_c_stream__`, or of `TableChunks`, for a `Source`."""

    _fit = staticmethod(fit_arrow)

    def __init__(self, data: Any, extras: Extras, *, labels: bool = True, dtype: str = "float32") -> None:
        super().__init__(extras, labels, dtype)
        self._data = data
        self._table: ArrowTable | None = None
        self._given = 0  # rows
        self._in_chunks = not hasattr(data, "__arrow_c_stream__")
        # A stream can be read only once.
        self.is_rereadable = data.is_rereadable if self._in_chunks else not hasattr(data, "read_next_batch")

    @cached_property
    def _length(self) -> int | None:
        """Number of rows of the data, None if unknown."""
        if self._in_chunks:
            return self._data.rows
        return len(self._data) if hasattr(self._data, "__len__") else None

    @property
    def fraction_done(self) -> float | None:
        return None if self._length is None else self._given / max(self._length, 1)

    def _pass(self) -> Iterator[RowRange]:
        self._given = 0
        for row_range in row_ranges(self._batches(), "the table"):
            self._given += row_range.stop - row_range.start
            yield row_range

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._data.batches() if self._in_chunks else stream_of(self._data):
                batch.validate(full=True)  # the memory belongs to another library
                for start in range(0, batch.num_rows, MOST_ROWS):
                    yield batch.slice(start, MOST_ROWS)
        except pa.ArrowException as error:
            raise BadInput(f"the table cannot be read: {str(error).splitlines()[0]}") from None

    def _sample(self, task: RowRange) -> tuple[pa.RecordBatch, int]:
        rows = task.shared.batch.slice(task.start, task.stop - task.start)
        return rows, rows.num_rows

    def _parse(self, task: RowRange) -> ParsedBlock:
        table = self._table
        if table is None:
            table = self._table = ArrowTable(self.plan, names_of(task.shared.batch.schema), task.file)
        return table.parse(task.shared.prepared(table), task.start, task.stop)
