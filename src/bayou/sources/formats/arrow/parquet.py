"""Reader of Parquet files, for a `Source`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bayou.core.arrow import fs, pa, pq
from bayou.core.errors import BadInput
from bayou.core.extras import Extras
from bayou.recipe.recipe import FIT_ROWS
from bayou.sources.formats.arrow.cells import is_text, names_of
from bayou.sources.formats.arrow.reader import MOST_ROWS, RowRange, fit_arrow, row_ranges
from bayou.sources.formats.arrow.table import ArrowTable
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.reading.open_files import STANDARD_INPUT
from bayou.sources.reading.parsed_block import ParsedBlock
from bayou.sources.row_group_slices import RowGroupSlice, RowGroupSlices
from bayou.sources.table.cell_columns import check_names
from bayou.sources.table.fitting_reader import FittingReader

# Minimum number of rows decoded at once, and maximum number of bytes they should take.
LEAST_ROWS = 1 << 10
_BATCH_BYTES = 1 << 26
# Maximum number of rows decoded at once if the end of a row group is not needed.
_FEW_ROWS = 1 << 14
_CATEGORIES = ("category", "flag", "code")


@contextmanager
def readable(name: str, further: str = "") -> Iterator[None]:
    """Raise BadInput for errors of Arrow while it reads a file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise BadInput(f"{name}: the Parquet file cannot be read{further}: {reason}.") from None


def opened(name: str) -> pa.NativeFile:
    """Open a file on disk, or at an address such as s3://bucket/name."""
    if "://" not in name:
        return pa.memory_map(os.fsencode(name))  # also if the name is not valid UTF-8
    system, path = fs.FileSystem.from_uri(name)
    return system.open_input_file(path)


class ParquetReader(FittingReader):
    """Reader of the rows of Parquet files, or of parts of them, for a `Source`."""

    _fit = staticmethod(fit_arrow)

    def __init__(
        self, files: BlockReader | RowGroupSlices, extras: Extras, *, labels: bool = True, dtype: str = "float32"
    ) -> None:
        super().__init__(extras, labels, dtype)
        self._parts = files if isinstance(files, RowGroupSlices) else None
        self._names = files.files if isinstance(files, RowGroupSlices) else files.names
        if STANDARD_INPUT in self._names:
            raise BadInput("a Parquet file cannot be read from standard input; name the file.")
        if isinstance(files, BlockReader):
            self.bytes_total = files.bytes_total
        self._tables: dict[str, ArrowTable] = {}
        self._done = self._bytes_a_row = 0.0  # bytes on disk

    @property
    def bytes_done(self) -> int:
        return int(self._done)

    def _open(self, name: str, columns: set[str] | None = None) -> Any:
        """Open a Parquet file; text columns in `columns`, by default all, will be read as dictionaries."""
        with readable(name):
            file = opened(name)
            schema = pq.read_schema(file)
            check_names(names_of(schema), name)
            texts = [one.name for one in schema if is_text(one.type) and (columns is None or one.name in columns)]
            return pq.ParquetFile(file, read_dictionary=texts)

    def _pass(self) -> Iterator[RowRange]:
        self._done = 0.0
        for name, batches in self._scans(self._wanted):
            for row_range in row_ranges(batches, name):
                self._done += self._bytes_a_row * (row_range.stop - row_range.start)
                yield row_range

    def _scans(self, opened: Callable[[str], _Opened]) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
        """Yield (file, record batches) for each file, or for each scan of a row group if the data are parts."""
        if self._parts is None:
            yield from ((name, opened(name).rows()) for name in self._names)
            return
        file: _Opened | None = None
        for name, group, slices in self._parts.scans():
            file = file if file is not None and file.name == name else opened(name)
            yield name, file.rows_of(group, slices)

    def _wanted(self, name: str) -> _Opened:
        """Open a file for reading the columns that the recipe needs."""
        needed = {column.name for column in self.plan.columns}
        file = self._open(name, {column.name for column in self.plan.columns if column.role in _CATEGORIES})
        self.plan.places(names_of(file.schema_arrow), name)  # raises if a needed column is missing
        tops = [top for top in file.schema_arrow.names if any(w == top or w.startswith(f"{top}.") for w in needed)]
        self._tables[name] = ArrowTable(self.plan, names_of(pa.schema(file.schema_arrow.field(top) for top in tops)))
        rows = file.metadata.num_rows
        self._bytes_a_row = (self.bytes_total or 0) and os.path.getsize(name) / max(rows, 1)
        groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
        bytes_a_row = max(sum(group.total_byte_size for group in groups) / max(rows, 1), 4 * len(tops), 1)
        batch_rows = min(max(int(_BATCH_BYTES / bytes_a_row), LEAST_ROWS), MOST_ROWS)
        return _Opened(name, file, tops, batch_rows)

    def _samples(self) -> list[pa.RecordBatch]:
        batches, rows = [], 0
        for _, scan in self._scans(lambda name: _Opened(name, self._open(name), None, FIT_ROWS)):
            for batch in scan:
                batches.append(batch)
                rows += batch.num_rows
                if rows >= FIT_ROWS:
                    return batches
        return batches if rows else []

    def _parse(self, task: RowRange) -> ParsedBlock:
        table = self._tables[task.file]
        return table.parse(task.shared.prepared(table), task.start, task.stop)


@dataclass(frozen=True)
class _Opened:
    """An open file, the columns to read from it, and the number of rows to decode at once."""

    name: str
    file: Any
    columns: list[str] | None
    batch_rows: int

    def rows(self, **options: Any) -> Iterator[pa.RecordBatch]:
        with readable(self.name, " further"):
            # With Arrow's threads, although others learn and convert meanwhile: decoding takes the longest.
            yield from self.file.iter_batches(
                **{"batch_size": self.batch_rows, "columns": self.columns, "use_threads": True, **options}
            )

    def rows_of(self, group: int, slices: list[RowGroupSlice]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group that are in `slices`; decoding stops after the last of them."""
        with readable(self.name):
            rows = self.file.metadata.row_group(group).num_rows
        options = {} if slices[-1].last >= rows else {"batch_size": min(self.batch_rows, _FEW_ROWS)}
        start = 0
        for batch in self.rows(row_groups=[group], **options):
            for row_slice in slices:
                low, high = max(row_slice.first - start, 0), min(row_slice.last - start, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)
            start += batch.num_rows
            if start >= slices[-1].last:
                return


class ParquetBatches:
    """Iterable of the record batches of Parquet files, with all columns."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for name in self._names:
            with readable(name):
                yield from pq.ParquetFile(name, memory_map=True).iter_batches()
