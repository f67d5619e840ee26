"""Text output: batches as svmlight, columns of numbers as CSV, written to files atomically.

with output("data.svm.gz") as file:
    for batch in batches:
        file.write(svmlight(batch))
"""

from __future__ import annotations

import contextlib
import csv as csv_of_python
import gzip
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bayou.core.arrow import pa
from bayou.core.batch import Batch
from bayou.core.errors import BadInput
from bayou.core.files import whole_file
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import (
    MAX_NUMBER_BYTES,
    WRITE_PADDING_BYTES,
    put_byte,
    put_float32,
    put_number,
    put_whole,
)
from bayou.kernels.parse_text import address_of, load_uint8

STANDARD_OUTPUT = "-"
# Higher levels take longer than making the text, for a few per cent.
_GZIP_LEVEL = 3
_COLON, _COMMA, _NEWLINE, _BLANK, _MINUS, _ZERO, _ONE = b":,\n -01"
_LONGEST_INDEX = 10


@contextlib.contextmanager
def output(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a binary file for atomic writing: "-" is standard output, .gz and .zst are compressed."""
    if str(path) == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with whole_file(path, flush=False) as temporary, _compressed(temporary, str(path)) as file:
            yield file
    except OSError as error:
        raise BadInput(f"{path} could not be written ({error.strerror or error}); no file was changed.") from None


@contextlib.contextmanager
def _compressed(path: str | os.PathLike[str], name: str) -> Iterator[Any]:
    with open(path, "wb") as raw:  # buffered, so that a partial write to a full disk raises an error
        if name.endswith(".gz"):
            # Without a time stamp and a name, so that the same examples give the same file.
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as file:
                yield file
        elif name.endswith(".zst"):
            with pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), "zstd") as file:
                yield file
        else:
            yield raw


def svmlight(batch: Batch) -> np.ndarray:
    """Return the batch as svmlight text. Reading it back gives the same features, values (as float32) and labels.

    >>> svmlight(Batch.from_rows([{3: 1.0, 7: -0.25}, {}], labels=[1, -1])).tobytes()
    b'1 3:1 7:-0.25\\n-1\\n'
    """
    if batch.labels is None or not np.isin(batch.labels, (1.0, 0.0, -1.0)).all():
        raise BadInput("svmlight text needs a label of 1, 0 or -1 for every example.")
    if batch.weights is not None and (batch.weights != 1.0).any():
        raise BadInput("svmlight text cannot hold weights.")
    capacity = batch.nonzeros * (_LONGEST_INDEX + MAX_NUMBER_BYTES + 2) + len(batch) * 3 + WRITE_PADDING_BYTES
    out = np.empty(capacity, np.uint8)
    values = batch.values.astype(np.float32, copy=False)
    return out[: _svmlight(batch.indptr, batch.indices, values, batch.labels, batch.is_all_ones, out)]


@kernel
def _svmlight(indptr, indices, values, labels, is_all_ones, out):
    start = address_of(out)
    address = start
    for row in range(labels.size):
        label = labels[row]
        if label < 0.0:
            put_byte(address, _MINUS)
            address += 1
        put_byte(address, _ONE if label != 0.0 else _ZERO)
        address += 1
        for k in range(indptr[row], indptr[row + 1]):
            put_byte(address, _BLANK)
            address = put_whole(address + 1, indices[k])
            put_byte(address, _COLON)
            address += 1
            if is_all_ones or values[k] == np.float32(1):
                put_byte(address, _ONE)
                address += 1
            else:
                address = put_float32(address, values[k])
        put_byte(address, _NEWLINE)
        address += 1
    return address - start


def write_csv(
    path: str | os.PathLike[str], names: Sequence[str], rows: Iterable[Sequence[Any]], end: str = "\n"
) -> None:
    """Write a small table as CSV, None as an empty cell, floats with all their digits."""
    text = io.StringIO()
    writer = csv_of_python.writer(text, lineterminator=end)
    writer.writerow(names)
    writer.writerows(rows)
    with output(path) as file:
        file.write(text.getvalue().encode())


def write_json(path: str | os.PathLike[str], plain: Any) -> None:
    """Write a JSON-compatible object."""
    with output(path) as file:
        file.write((json.dumps(plain, indent=1, ensure_ascii=False) + "\n").encode())


def header(names: Sequence[str]) -> bytes:
    """Return the header line of a CSV file.

    >>> header(["mean", "P(a, b)"])
    b'mean,"P(a, b)"\\n'
    """
    return (",".join(map(_quoted, names)) + "\n").encode()


def csv_fragments(columns: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the rows of text columns as CSV cells, quoted and joined; None without columns.

    >>> csv_fragments([["a", "b, c"], ["1", "2"]])
    ['a,1', '"b, c",2']
    """
    if not columns:
        return None
    cells = [column if _plain("\n".join(column), len(column)) else [*map(_quoted, column)] for column in columns]
    return list(cells[0]) if len(cells) == 1 else [*map(",".join, zip(*cells, strict=True))]


def csv(columns: np.ndarray, last: Sequence[str] | None = None, first: Sequence[str] | None = None) -> np.ndarray:
    """Return CSV rows: columns[c, row] with nine significant digits, with `csv_fragments` at either end of a row.

    >>> csv(np.array([[0.5, 1 / 3], [1e-9, -2.0]]), csv_fragments([["a", "b, c"]])).tobytes()
    b'0.5,1e-9,a\\n0.333333333,-2,"b, c"\\n'
    >>> csv(np.array([[0.5]]), first=["spam"]).tobytes()
    b'spam,0.5\\n'
    """
    n_columns, n = columns.shape
    ends = [_places(column) if column else (b"", *np.empty((2, 0), np.int64)) for column in (first, last)]
    size = n * (n_columns * (MAX_NUMBER_BYTES + 1) + 2) + sum(len(text) for text, _, _ in ends) + WRITE_PADDING_BYTES
    out = np.empty(size, np.uint8)
    columns = np.ascontiguousarray(columns, np.float64)
    arrays = [array for text, starts, stops in ends for array in (np.frombuffer(text, np.uint8), starts, stops)]
    return out[: _csv(columns, *arrays, out)]


def _places(items: Sequence[str]) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return the concatenated bytes of the texts, and where each text starts and stops in them."""
    joined = "\n".join(items).encode()
    marks = np.flatnonzero(np.frombuffer(joined, np.uint8) == _NEWLINE)
    if len(marks) == len(items) - 1:
        return joined, np.append(0, marks + 1), np.append(marks, len(joined))
    cells = [text.encode() for text in items]
    ends = np.cumsum([len(cell) for cell in cells])
    return b"".join(cells), np.append(0, ends[:-1]), ends


def _plain(joined: str, lines: int) -> bool:
    """Return whether none of these lines contains a character that needs quoting in CSV."""
    return joined.count("\n") == lines - 1 and not any(mark in joined for mark in ',"\r')


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


@kernel
def _csv(columns, first, first_starts, first_stops, last, starts, stops, out):
    start = address_of(out)
    beginning, source = address_of(first), address_of(last)
    address = start
    for row in range(columns.shape[1]):
        if first_starts.size:
            for offset in range(first_starts[row], first_stops[row]):
                put_byte(address, load_uint8(beginning + offset))
                address += 1
            put_byte(address, _COMMA)
            address += 1
        for column in range(columns.shape[0]):
            address = put_number(address, columns[column, row])
            put_byte(address, _COMMA)
            address += 1
        if starts.size:
            for offset in range(starts[row], stops[row]):
                put_byte(address, load_uint8(source + offset))
                address += 1
        else:
            address -= 1
        put_byte(address, _NEWLINE)
        address += 1
    return address - start
