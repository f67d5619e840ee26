"""Tables in memory and in Parquet files, by way of Arrow: pandas, polars, DuckDB, anything with `__arrow_c_stream__`.

A column becomes cells as a CSV file would have them (`sheet`): whole numbers as their digits, truths as true and false,
points in time as ISO 8601 (in UTC if they have a time zone). Numbers that are binned or scaled are taken as they are.
Columns with a dictionary have each of its values hashed once; their rows are then looked up. Null, and NaN, is missing.
Structs are columns named by dots, `user.age`; lists give an indicator for each value, as in JSON.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from bayou.core.errors import BadInput
from bayou.core.recipe import FIT_ROWS, Recipe
from bayou.kernels.digits import LONGEST_NUMBER, WASTE, put_byte, put_whole
from bayou.kernels.scan import PADDING, address_of
from bayou.sources.formats.csv import columns_at
from bayou.sources.formats.values import EXACT, TASTE, column_as_cells, places_of, sight_of, text_of
from bayou.sources.reading.parsed import Piece
from bayou.sources.reading.readahead import STANDARD_INPUT, Files
from bayou.sources.table import cells
from bayou.sources.table.column_types import LABELS, Sight, fit
from bayou.sources.table.columns import Plan, Sheet
from bayou.sources.table.fitting import FittingReader
from bayou.sources.table.words import plain_words

if TYPE_CHECKING:
    import pyarrow as pa

    from bayou.core.extras import Extras

# Rows that make a piece: with a few dozen columns their features fit in the second-level cache.
PIECE_ROWS = 1 << 12
# Rows that are decoded at once: each time, all of a column's dictionary is copied, which must pay.
MOST_ROWS, LEAST_ROWS = 1 << 18, 1 << 10
_BATCH_BYTES = 1 << 26

_NUMBERS = ("bins", "whole", "numeric")
_CATEGORIES = ("category", "flag", "code")


class ArrowTable:
    """Turns record batches of one schema into pieces; several threads may do so at once."""

    def __init__(self, plan: Plan, names: Sequence[str], file: str = "the table") -> None:
        self._plan = plan
        self._where = columns_at(plan, names, file)
        self._dictionaries: dict[int, tuple[Any, _Values]] = {}  # by column, the last one and what was made of it

    def convert(self, batch: pa.RecordBatch) -> Piece:
        """The examples of a record batch."""
        return self.piece(self.prepare(batch), 0, batch.num_rows)

    def prepare(self, batch: pa.RecordBatch) -> _Columns:
        """The columns of a record batch as cells."""
        arrays = [array for _, array in flat_columns(batch)]
        columns = _Columns(self._plan)
        for c, place in enumerate(self._where):
            if place >= 0:
                self._add(columns, c, arrays[place])
        return columns

    def piece(self, columns: _Columns, start: int, stop: int) -> Piece:
        """The examples of some of the rows."""
        return self._plan.piece(columns.sheet(start, stop))

    def _add(self, columns: _Columns, c: int, array: pa.Array) -> None:
        import pyarrow as pa
        import pyarrow.types as is_a

        role = self._plan.columns[c].role
        if is_a.is_dictionary(array.type):
            if self._plan.looked_up(c) and _is_text(array.type.value_type):
                columns.add_codes(c, array.indices.cast(pa.int32()), self._values(c, array.dictionary))
                return
            array = array.dictionary_decode()
        kind = array.type
        if is_a.is_decimal(kind) or is_a.is_float16(kind):
            array = array.cast(pa.float64())
            kind = array.type
        if is_a.is_integer(kind) or is_a.is_floating(kind):
            if role in _NUMBERS:
                columns.numbers[c] = _as_numbers(array)
            if role not in ("bins", "numeric"):
                columns.add_cells(c, *_whole_cells(array, role == "whole"))
        elif is_a.is_temporal(kind):
            columns.add_cells(c, *string_cells(_iso(array), False))
        elif is_a.is_boolean(kind):
            columns.add_cells(c, *string_cells(array.cast(pa.string()), False))
        elif _is_text(kind):
            # Where cells are read as numbers, something must stand between them.
            columns.add_cells(c, *string_cells(array, apart=role not in ("category", "flag", "text")))
        else:
            texts, several = column_as_cells(array.to_pylist(), role, self._plan.positive)
            columns.lists[c] = several
            columns.add_cells(c, *places_of(texts))

    def _values(self, c: int, dictionary: pa.Array) -> _Values:
        """The cells and hashes of a dictionary. Readers make it anew for each batch; mostly it is the same."""
        last = self._dictionaries.get(c)
        if last is not None and len(last[0]) == len(dictionary) and last[0].equals(dictionary):
            return last[1]
        data, starts, stops = string_cells(dictionary, apart=self._plan.columns[c].role == "code")
        table = np.zeros((len(self._plan.columns), 8), np.int64)
        table[c, :4] = data.ctypes.data, starts.ctypes.data, stops.ctypes.data, 1
        values = _Values(data, starts, stops, self._plan.hashes(c, table, len(dictionary)))
        self._dictionaries[c] = (dictionary, values)
        return values


@dataclass(frozen=True)
class _Values:
    """A dictionary's values: their text and their hashes."""

    data: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    hashes: np.ndarray


class _Columns:
    """The cells of a record batch, from which sheets of some rows are cut."""

    def __init__(self, plan: Plan) -> None:
        width = len(plan.columns)
        self._texts = [column.role == "text" for column in plan.columns]
        self._table = np.zeros((width, 8), np.int64)
        self._alive: list[object] = []
        self.numbers: dict[int, np.ndarray] = {}
        self.lists = np.zeros(width, np.uint8)

    def add_cells(self, c: int, data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> None:
        if self._texts[c]:
            data = plain_words(data, starts, stops, 0, 1, len(starts))
        self._table[c, :4] = data.ctypes.data, starts.ctypes.data, stops.ctypes.data, 1
        self._alive += [data, starts, stops]

    def add_codes(self, c: int, codes: pa.Array, values: _Values) -> None:
        valid, places = codes.buffers()
        self._table[c] = (
            values.data.ctypes.data,
            values.starts.ctypes.data,
            values.stops.ctypes.data,
            1,
            places.address + 4 * codes.offset,
            valid.address if valid is not None and codes.null_count else 0,
            codes.offset,
            values.hashes.ctypes.data,
        )
        self._alive += [codes, values]

    def sheet(self, start: int, stop: int) -> Sheet:
        """The rows from `start` to before `stop`."""
        table = self._table.copy()
        coded = table[:, cells.CODES] != 0
        table[coded, cells.CODES] += 4 * start
        table[coded, cells.FIRST_BIT] += start
        plain = ~coded & (table[:, cells.STARTS] != 0)
        table[plain, cells.STARTS] += 4 * start
        table[plain, cells.STOPS] += 4 * start
        return Sheet(
            rows=stop - start,
            table=table,
            alive=self._alive,
            lines=np.arange(stop - start),
            n_lines=stop - start,
            numbers={c: numbers[start:stop] for c, numbers in self.numbers.items()},
            lists=self.lists if self.lists.any() else None,
        )


# --- columns as cells -----------------------------------------------------------------------------------------------


def flat_columns(batch: Any) -> list[tuple[str, Any]]:
    """The columns of a record batch, or of a schema, by name: structs written out, what pandas adds left out."""
    import pyarrow as pa

    flat: list[tuple[str, Any]] = []

    def add(name: str, column: Any) -> None:
        kind = column.type
        if pa.types.is_struct(kind):
            parts = kind if isinstance(column, pa.Field) else column.flatten()
            for k, part in enumerate(parts):
                add(f"{name}.{kind.field(k).name}", part)
        elif not name.startswith("__index_level_"):
            flat.append((name, column))

    schema = batch if isinstance(batch, pa.Schema) else batch.schema
    for k, one in enumerate(schema):
        add(one.name, one if isinstance(batch, pa.Schema) else batch.column(k))
    return flat


def _names(schema: pa.Schema) -> list[str]:
    return [name for name, _ in flat_columns(schema)]


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as is_a

    return any(
        check(kind)
        for check in (is_a.is_string, is_a.is_large_string, is_a.is_binary, is_a.is_large_binary, is_a.is_string_view)
    )


def _nulls(array: pa.Array) -> np.ndarray | None:
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def _as_numbers(array: pa.Array) -> np.ndarray:
    """As float64, NaN for null."""
    import pyarrow as pa

    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)


def string_cells(array: pa.Array, apart: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Text as cells; `apart`: with a newline behind each."""
    import pyarrow as pa

    if not (pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)):
        array = array.cast(pa.large_binary() if pa.types.is_binary(array.type) else pa.large_string())
    n = len(array)
    _, offsets, text = array.buffers()
    ends = np.frombuffer(offsets, np.int64, n + 1, 8 * array.offset) if n else np.zeros(1, np.int64)
    first, last = int(ends[0]), int(ends[-1])
    if last - first + n >= 2**31:
        raise BadInput("a batch of a table holds more than 2 GiB of text in one column; make the batches smaller.")
    starts, stops = (ends[:-1] - first).astype(np.uint32), (ends[1:] - first).astype(np.uint32)
    if (nulls := _nulls(array)) is not None:
        stops[nulls] = starts[nulls]
    old = np.frombuffer(text, np.uint8)[first:last] if text is not None else np.empty(0, np.uint8)
    data = np.empty(last - first + PADDING + (n if apart else 0), np.uint8)
    if apart:
        _set_apart(old, starts, stops, data)
    else:
        data[: len(old)], data[len(old) :] = old, ord("\n")
    return data, starts, stops


def _whole_cells(array: pa.Array, only_whole: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers as cells: whole ones by their digits, others as Python writes them, or not at all."""
    import pyarrow as pa

    nulls = _nulls(array)
    empty = np.zeros(len(array), np.bool_) if nulls is None else nulls.copy()
    if pa.types.is_floating(array.type):
        values = _as_numbers(array)
        with np.errstate(invalid="ignore"):
            whole = (values == np.floor(values)) & (np.abs(values) < EXACT)
        if not only_whole and not (whole | np.isnan(values)).all():
            return places_of([text_of(value) for value in array.to_pylist()])
        empty |= ~whole
        numbers = np.where(whole, values, 0).astype(np.int64)
    else:
        numbers = (array if nulls is None else array.fill_null(0)).to_numpy(zero_copy_only=False)
    minus = numbers < 0
    sizes = numbers.astype(np.uint64)
    sizes[minus] = np.uint64(0) - sizes[minus]
    starts, stops = np.empty(len(numbers), np.uint32), np.empty(len(numbers), np.uint32)
    data = np.empty(len(numbers) * (2 * LONGEST_NUMBER) + WASTE + PADDING, np.uint8)
    _write_digits(sizes, minus, empty, data, starts, stops)
    return data, starts, stops


def _iso(array: pa.Array) -> pa.Array:
    """Points in time as ISO 8601, no zeros behind the seconds: 2013-01-01T10:00:00Z."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    text = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+(Z?)$", r"\1\2")
    return pc.replace_substring_regex(text, r"\.(Z?)$", r"\1")


@njit(cache=True, nogil=True, error_model="numpy")
def _set_apart(old, starts, stops, data):
    """Copy cells, a newline behind each."""
    k = 0
    for i in range(starts.size):
        start = k
        for place in range(starts[i], stops[i]):
            data[k] = old[place]
            k += 1
        starts[i], stops[i] = start, k
        data[k] = 10
        k += 1
    data[k:] = 10


@njit(cache=True, nogil=True, error_model="numpy")
def _write_digits(sizes, minus, empty, data, starts, stops):
    """Write whole numbers, a newline behind each; nothing for the empty ones."""
    base = address_of(data)
    at = base
    for i in range(sizes.size):
        starts[i] = at - base
        if not empty[i]:
            if minus[i]:
                put_byte(at, 45)
                at += 1
            size = sizes[i]
            if size < np.uint64(10**16):
                at = put_whole(at, size)
            else:
                at = put_whole(at, size // np.uint64(10**8))
                rest = size % np.uint64(10**8)
                for place in range(7, -1, -1):
                    put_byte(at + place, 48 + np.int64(rest % np.uint64(10)))
                    rest //= np.uint64(10)
                at += 8
        stops[i] = at - base
        put_byte(at, 10)
        at += 1


# --- the fit --------------------------------------------------------------------------------------------------------


def fit_arrow(recipe: Recipe, batches: Sequence[pa.RecordBatch], *, labels: bool = True) -> Recipe:
    """The recipe fitted to the first FIT_ROWS rows of some record batches, those that have the first one's columns."""
    import pyarrow as pa

    alike = [batch for batch in batches if batch.schema.equals(batches[0].schema)]
    table = pa.Table.from_batches(alike).slice(0, FIT_ROWS).combine_chunks()
    (batch,) = table.to_batches()
    sights = {name: _sight(array, name in (recipe.label, *LABELS)) for name, array in flat_columns(batch)}
    return fit(recipe, sights, labels=labels)


def _sight(array: pa.Array, values: bool) -> Sight:
    import pyarrow.types as is_a

    if is_a.is_dictionary(array.type):
        array = array.dictionary_decode()
    array = array.drop_null()
    kind = array.type
    number = is_a.is_integer(kind) or is_a.is_floating(kind) or is_a.is_decimal(kind)
    if number and not values:
        numbers = _as_numbers(array)
        numbers = numbers[np.isfinite(numbers)]
        return Sight("number" if len(numbers) else "nothing", numbers)
    if is_a.is_temporal(kind):
        array = _iso(array)
    elif is_a.is_decimal(kind):
        array = array.cast("float64")
    return sight_of([_as_text(value) for value in (array if values else array[:TASTE]).to_pylist()], values)


def _as_text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass
class _Task:
    """Some rows of a record batch, whose columns are made cells of by whoever comes first."""

    file: str
    first: bool
    shared: _Shared
    start: int
    stop: int


@dataclass
class _Shared:
    batch: pa.RecordBatch
    columns: _Columns | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prepared(self, table: ArrowTable) -> _Columns:
        with self.lock:
            if self.columns is None:
                self.columns = table.prepare(self.batch)
            return self.columns


def _tasks(batches: Iterator[pa.RecordBatch], file: str) -> Iterator[_Task]:
    first = True
    for batch in batches:
        shared = _Shared(batch)
        for start in range(0, batch.num_rows, PIECE_ROWS):
            yield _Task(file, first, shared, start, min(start + PIECE_ROWS, batch.num_rows))
            first = False


class ArrowReader(FittingReader):
    """The rows of anything with `__arrow_c_stream__`, for a `Source`."""

    def __init__(self, data: Any, extras: Extras, *, labels: bool = True, dtype: str = "float32") -> None:
        super().__init__(extras, labels, dtype)
        self._data = data
        self._table: ArrowTable | None = None
        self.again = not hasattr(data, "read_next_batch")  # what is itself a stream is used up

    def _pass(self) -> Iterator[_Task]:
        return _tasks(self._batches(), "the table")

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            for batch in self._record_batches():
                batch.validate(full=True)  # it comes from somebody else's memory
                for start in range(0, batch.num_rows, MOST_ROWS):
                    yield batch.slice(start, MOST_ROWS)
        except pa.ArrowException as error:
            raise BadInput(f"the table cannot be read: {str(error).splitlines()[0]}") from None

    def _record_batches(self) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self._data)

    def _sample(self, task: _Task) -> tuple[pa.RecordBatch, int]:
        rows = task.shared.batch.slice(task.start, task.stop - task.start)
        return rows, rows.num_rows

    def _fitted(self, samples: list[pa.RecordBatch]) -> Recipe:
        return fit_arrow(self._extras.required_recipe, samples, labels=self._labels)

    def _parse(self, task: _Task) -> Piece:
        table = self._table
        if table is None:
            table = self._table = ArrowTable(self.plan, _names(task.shared.batch.schema), task.file)
        return table.piece(task.shared.prepared(table), task.start, task.stop)


class ParquetReader(FittingReader):
    """The rows of Parquet files, for a `Source`."""

    def __init__(self, files: Files, extras: Extras, *, labels: bool = True, dtype: str = "float32") -> None:
        super().__init__(extras, labels, dtype)
        if STANDARD_INPUT in files.names:
            raise BadInput("a Parquet file cannot be read from standard input; name the file.")
        self._names = files.names
        self.bytes_total = files.bytes_total
        self._tables: dict[str, ArrowTable] = {}
        self._done = 0.0

    @property
    def bytes_done(self) -> int:  # type: ignore[override]
        return int(self._done)

    def _open(self, name: str, columns: set[str] | None = None) -> Any:
        """A Parquet file, whose text columns are to come with dictionaries if they are in `columns`, or all."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            schema = pq.read_schema(name, memory_map=True)
            texts = [one.name for one in schema if _is_text(one.type) and (columns is None or one.name in columns)]
            return pq.ParquetFile(name, memory_map=True, read_dictionary=texts)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{name}: the Parquet file cannot be read: {str(error).splitlines()[0]}") from None

    def _pass(self) -> Iterator[_Task]:
        self._done = 0.0
        for name in self._names:
            yield from _tasks(self._batches(name), name)

    def _batches(self, name: str) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        wanted = {column.name for column in self.plan.columns}
        file = self._open(name, {column.name for column in self.plan.columns if column.role in _CATEGORIES})
        columns_at(self.plan, _names(file.schema_arrow), name)
        there = [top for top in file.schema_arrow.names if any(w == top or w.startswith(f"{top}.") for w in wanted)]
        self._tables[name] = ArrowTable(self.plan, _names(pa.schema(file.schema_arrow.field(top) for top in there)))
        rows, size = file.metadata.num_rows, os.path.getsize(name)
        groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
        bytes_a_row = max(sum(group.total_byte_size for group in groups) / max(rows, 1), 4 * len(there), 1)
        batch_rows = min(max(int(_BATCH_BYTES / bytes_a_row), LEAST_ROWS), MOST_ROWS)
        try:
            # With threads of its own, although others learn and convert meanwhile: decoding is the longest part.
            for batch in file.iter_batches(batch_rows, columns=there, use_threads=True):
                yield batch
                self._done += size * batch.num_rows / max(rows, 1)
        except (OSError, pa.ArrowException) as error:
            raise BadInput(f"{name}: the Parquet file cannot be read further: {str(error).splitlines()[0]}") from None

    def start(self) -> None:
        if self._extras.required_recipe.fitted:
            return
        batches, rows = [], 0
        for name in self._names:
            for batch in self._open(name).iter_batches(FIT_ROWS, use_threads=True):
                batches.append(batch)
                rows += batch.num_rows
                if rows >= FIT_ROWS:
                    break
            if rows >= FIT_ROWS:
                break
        if not rows:
            raise BadInput(f"{self.what} has no rows; there must be some, to learn what its columns are.")
        self._extras.recipe = fit_arrow(self._extras.required_recipe, batches, labels=self._labels)

    def _parse(self, task: _Task) -> Piece:
        table = self._tables[task.file]
        return table.piece(task.shared.prepared(table), task.start, task.stop)
