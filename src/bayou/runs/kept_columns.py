"""Columns of the data that are copied next to the predictions, looked up by row position."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bayou.core.checks import check_choice
from bayou.core.errors import BadInput
from bayou.runs.options import Data
from bayou.sources.formats.arrow.chunks import TableChunks, is_table, parts_or_paths
from bayou.sources.formats.registry import FORMATS, RECORDS, detect, find
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.reading.open_files import expand

if TYPE_CHECKING:
    import pyarrow as pa


class KeptColumns(Protocol):
    """Columns of the data that were kept for the output."""

    def rows(self, positions: np.ndarray) -> pa.Table:
        """Return the kept columns of the rows at these ascending positions; each row can be requested only once."""


class _OfChunks:
    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def rows(self, positions: np.ndarray) -> pa.Table:
        return self._chunks.kept(positions - 1)  # positions count from 1


def with_columns_kept(data: Data, keep: list[str], format: str) -> tuple[Data, KeptColumns]:
    """Return the data to read, and the columns that are kept while they are read."""
    data = [data] if is_table(data) else data if isinstance(data, str | os.PathLike) else parts_or_paths(data)
    if not isinstance(data, TableChunks):
        tables = isinstance(data, list) and data and is_table(data[0])
        data = TableChunks(data if tables else _files(data, format))
    data.keep = keep
    return data, _OfChunks(data)


def _files(data: Data, format: str) -> Any:
    """Return the record batches of files, with all their columns. Raise BadInput if the format has none."""
    names = expand(data)
    check_choice("format", format, dict.fromkeys(FORMATS))
    found = detect(names[0], BlockReader(names).head()) if format == "auto" else find(format)
    if found.record_batches is not None:
        return found.open_record_batches(names)
    *titles, last = (record.title for record in RECORDS if record.record_batches is not None)
    raise BadInput(
        f"keep is for {', '.join(titles)} and {last} files and for tables in memory, and {names[0]} is read as "
        f"{found.name}; leave keep out, or read the file into a DataFrame."
    )
