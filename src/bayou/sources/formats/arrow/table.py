"""Conversion of record batches with one schema to examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.arrow import is_a, pa
from bayou.sources.formats.arrow.cells import (
    as_numbers,
    as_seconds,
    flat_columns,
    is_point,
    is_text,
    iso,
    string_cells,
    values_of,
    whole_cells,
)
from bayou.sources.reading.parsed_block import ParsedBlock
from bayou.sources.table import cells
from bayou.sources.table.cell_columns import CellColumns
from bayou.sources.table.encoding_plan import EncodingPlan
from bayou.sources.table.ngrams import text_of_words
from bayou.sources.table.typed_values import column_as_cells, places_of

_NUMBERS = ("bins", "whole", "numeric", "values")


class ArrowTable:
    """Converter of record batches with one schema to examples; several threads may use it at once."""

    def __init__(self, plan: EncodingPlan, names: Sequence[str], file: str = "the table") -> None:
        self._plan = plan
        self._where = plan.places(names, file)
        # by column, the last dictionary and its cells
        self._dictionaries: dict[int, tuple[Any, _DictionaryCells]] = {}

    def convert(self, batch: pa.RecordBatch) -> ParsedBlock:
        """Return the examples of a record batch."""
        return self.parse(self.prepare(batch), 0, batch.num_rows)

    def prepare(self, batch: pa.RecordBatch) -> BatchCells:
        """Return the columns of a record batch as cells."""
        arrays = [array for _, array in flat_columns(batch)]
        columns = BatchCells(self._plan)
        for c, position in enumerate(self._where):
            if position >= 0:
                self._add(columns, c, arrays[position])
        return columns

    def parse(self, columns: BatchCells, start: int, stop: int) -> ParsedBlock:
        """Return the examples of rows [start, stop)."""
        return self._plan.parse(columns.rows(start, stop))

    def _add(self, columns: BatchCells, c: int, array: pa.Array) -> None:
        role = self._plan.columns[c].role
        if is_a.is_dictionary(array.type):
            if self._plan.is_hash_cached(c) and is_text(array.type.value_type):
                columns.add_codes(c, array.indices.cast(pa.int32()), self._values(c, array.dictionary))
                return
            array = array.dictionary_decode()
        kind = array.type
        if is_a.is_decimal(kind) or is_a.is_float16(kind):
            array = array.cast(pa.float64())
            kind = array.type
        if is_a.is_integer(kind) or is_a.is_floating(kind):
            if role in _NUMBERS:
                columns.numbers[c] = as_numbers(array)
            if role not in ("bins", "numeric", "values"):
                columns.add_cells(c, *whole_cells(array, role == "whole"))
        elif role == "date" and is_point(kind):
            columns.numbers[c] = as_seconds(array)
        elif is_a.is_temporal(kind):
            columns.add_cells(c, *string_cells(iso(array), False))
        elif is_a.is_boolean(kind):
            columns.add_cells(c, *string_cells(array.cast(pa.string()), False))
        elif is_text(kind):
            # Cells that are read as numbers must be separated.
            columns.add_cells(c, *string_cells(array, separated=role not in ("category", "flag", "text")))
        else:
            values = values_of(array, self._plan.columns[c].name)
            cell_texts, several = column_as_cells(values, role, self._plan.positive)
            columns.lists[c] = several
            columns.add_cells(c, *places_of(cell_texts))

    def _values(self, c: int, dictionary: pa.Array) -> _DictionaryCells:
        """Return the cells and hashes of a dictionary, cached because most batches share an equal one."""
        last = self._dictionaries.get(c)
        if last is not None and len(last[0]) == len(dictionary) and last[0].equals(dictionary):
            return last[1]
        data, starts, stops = string_cells(dictionary, separated=self._plan.columns[c].role == "code")
        table = np.zeros((len(self._plan.columns), 8), np.int64)
        table[c, :4] = data.ctypes.data, starts.ctypes.data, stops.ctypes.data, 1
        values = _DictionaryCells(data, starts, stops, self._plan.hashes(c, table, len(dictionary)))
        self._dictionaries[c] = (dictionary, values)
        return values


@dataclass(frozen=True)
class _DictionaryCells:
    """The values of a dictionary: their text and their hashes."""

    data: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    hashes: np.ndarray


class BatchCells:
    """The cells of a record batch, which gives the columns of any range of its rows."""

    def __init__(self, plan: EncodingPlan) -> None:
        width = len(plan.columns)
        self._recipe, self._texts = plan.recipe, [column.role == "text" for column in plan.columns]
        self._table = np.zeros((width, 8), np.int64)
        self._alive: list[object] = []
        self.numbers: dict[int, np.ndarray] = {}
        self.lists = np.zeros(width, np.uint8)

    def add_cells(self, c: int, data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> None:
        if self._texts[c]:
            data = text_of_words(data, starts, stops, 0, 1, len(starts), self._recipe)
        self._table[c, :4] = data.ctypes.data, starts.ctypes.data, stops.ctypes.data, 1
        self._alive += [data, starts, stops]

    def add_codes(self, c: int, codes: pa.Array, values: _DictionaryCells) -> None:
        valid, indices = codes.buffers()
        self._table[c] = (
            values.data.ctypes.data,
            values.starts.ctypes.data,
            values.stops.ctypes.data,
            1,
            indices.address + 4 * codes.offset,
            valid.address if valid is not None and codes.null_count else 0,
            codes.offset,
            values.hashes.ctypes.data,
        )
        self._alive += [codes, values]

    def rows(self, start: int, stop: int) -> CellColumns:
        """Return the columns of rows [start, stop)."""
        table = self._table.copy()
        coded = table[:, cells.CODES] != 0
        table[coded, cells.CODES] += 4 * start
        table[coded, cells.VALID_OFFSET] += start
        plain = ~coded & (table[:, cells.STARTS] != 0)
        table[plain, cells.STARTS] += 4 * start
        table[plain, cells.STOPS] += 4 * start
        return CellColumns(
            rows=stop - start,
            table=table,
            alive=self._alive,
            lines=np.arange(stop - start),
            n_lines=stop - start,
            numbers={c: values[start:stop] for c, values in self.numbers.items()},
            lists=self.lists if self.lists.any() else None,
        )
