"""Columns of the data that stand beside their predictions, found again by the rows' numbers in the data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bayou.core.checks import one_of
from bayou.core.errors import BadInput
from bayou.runs.options import Data
from bayou.sources.formats.arrow.chunks import Chunks, is_table, parts_or_paths
from bayou.sources.formats.delimited.split import layout_of
from bayou.sources.formats.detect import FORMATS, detect
from bayou.sources.reading.blocks import Files
from bayou.sources.reading.opening import expand

if TYPE_CHECKING:
    import pyarrow as pa


class Kept(Protocol):
    """Columns that were kept of the data."""

    def rows(self, positions: np.ndarray) -> pa.Table:
        """Of the rows at these positions, which ascend; never asked for again."""


class _OfChunks:
    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def rows(self, positions: np.ndarray) -> pa.Table:
        return self._chunks.kept(positions - 1)  # positions count from 1


def with_columns_kept(data: Data, keep: list[str], format: str) -> tuple[Data, Kept]:
    """The data to read, and the columns that are kept of them while they are read."""
    data = [data] if is_table(data) else data if isinstance(data, str | os.PathLike) else parts_or_paths(data)
    if not isinstance(data, Chunks):
        tables = isinstance(data, list) and data and is_table(data[0])
        data = Chunks(data if tables else _files(data, format))
    data.keep = keep
    return data, _OfChunks(data)


def _files(data: Data, format: str) -> Any:
    """Files as tables in parts, with all their columns."""
    names = expand(data)
    one_of("format", format, dict.fromkeys(FORMATS))
    found = detect(names[0], Files(names).head()) if format == "auto" else format
    if found == "parquet":
        return _Parquet(names)
    if found in ("csv", "tsv"):
        return _Delimited(names, found)
    raise BadInput(
        f"keep is for CSV, TSV and Parquet files and for tables in memory, and {names[0]} is read as {found}; "
        "leave keep out, or read the file into a DataFrame."
    )


class _Parquet:
    """Record batches of files, as often as one likes."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def __iter__(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in self._names:
            try:
                yield from pq.ParquetFile(name, memory_map=True).iter_batches()
            except (OSError, pa.ArrowException) as error:
                raise BadInput(f"{name}: the Parquet file cannot be read: {str(error).splitlines()[0]}") from None


class _Delimited:
    """Record batches of delimited files, every cell as the text it is; so it gives the features that the file gives."""

    def __init__(self, names: list[str], format: str) -> None:
        self._names, self._format = names, format

    def __iter__(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        for name in self._names:
            layout = layout_of(Files([name]).first_lines(), self._format)
            try:
                with pa.input_stream(name) as file:
                    yield from csv.open_csv(
                        file,
                        csv.ReadOptions(column_names=list(layout.names), skip_rows=layout.lines),
                        csv.ParseOptions(delimiter=chr(layout.delimiter), newlines_in_values=True),
                        csv.ConvertOptions(column_types={column: pa.string() for column in layout.names}),
                    )
            except (OSError, pa.ArrowException) as error:
                raise BadInput(f"{name}: the file cannot be read: {str(error).splitlines()[0]}") from None
