"""Columns of the data that are copied next to the predictions."""

from __future__ import annotations

import os
from typing import Any

from bayou.core.checks import check_choice
from bayou.core.errors import BadInput
from bayou.runs.options import Data
from bayou.sources.formats.arrow.chunks import TableChunks, is_table, parts_or_paths
from bayou.sources.formats.registry import FORMATS, RECORDS, detect, find
from bayou.sources.reading.blocks import BlockReader
from bayou.sources.reading.open_files import expand


def with_columns_kept(data: Data, keep: list[str], format: str) -> TableChunks:
    """Return the data to read as chunks that keep these columns of the rows read (`TableChunks.kept`)."""
    data = [data] if is_table(data) else data if isinstance(data, str | os.PathLike) else parts_or_paths(data)
    has_tables = isinstance(data, list) and data and is_table(data[0])
    chunks = data if isinstance(data, TableChunks) else TableChunks(data if has_tables else _files(data, format))
    chunks.keep = keep
    return chunks


def _files(data: Data, format: str) -> Any:
    """Return the record batches of files, with all their columns. Raise BadInput if the format has none."""
    names = expand(data)
    check_choice("format", format, dict.fromkeys(FORMATS))
    file_format = detect(names[0], BlockReader(names).head()) if format == "auto" else find(format)
    if file_format.record_batches is not None:
        return file_format.open_record_batches(names)
    *titles, last = (record.title for record in RECORDS if record.record_batches is not None)
    raise BadInput(
        f"keep is for {', '.join(titles)} and {last} files and for tables in memory, but {names[0]} is read as "
        f"{file_format.name}; omit keep, or read the file into a DataFrame."
    )
