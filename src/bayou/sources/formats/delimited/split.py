"""Splitting of delimited text (CSV, TSV) into cells by RFC 4180: where each cell of each row begins and ends.

    row   = cell {delimiter cell} newline            newline = LF or CR LF
    cell  = '"' {any byte but '"', or '""'} '"'      a doubled quote means one quote; delimiters and newlines are text
          | anything without delimiter and newline   quotes in it are text as well

Empty lines are ignored. A row is bad if its number of cells differs from that of the columns, if anything but a
delimiter or a newline follows a closing quote, or if a quote is not closed within QUOTED_BYTES. Then only its first
line is skipped, and reading continues with the next: one stray quote costs one line, not the file.

Most text has no quotes; it takes a separate path that processes 64 bytes at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import put_byte
from bayou.kernels.parse_text import (
    PADDING,
    address_of,
    line_ends,
    load_uint8,
    load_uint64,
    match_byte_mask,
    trailing_zeros,
)
from bayou.kernels.text_stops import where_in_64
from bayou.sources.reading.blocks import TextBlock, whole_lines
from bayou.sources.reading.buffers import ThreadBuffers
from bayou.sources.table.cell_columns import check_names, check_width

# Maximum length of a quoted cell; beyond it, the quote counts as a stray one.
QUOTED_BYTES = 1 << 20

# The reasons why a row is bad.
FEW, MANY, AFTER_QUOTE, NO_QUOTE, _OPEN = 1, 2, 3, 4, 5

_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
# Masks of a cell's end, and of the flag that it holds doubled quotes: blocks are far smaller than 2 GiB.
_PLACE, _DOUBLED = np.uint32(0x7FFFFFFF), np.uint32(0x80000000)
_DELIMITERS = {"csv": b",\t;|", "tsv": b"\t,;|", "criteo": b"\t"}
CRITEO = ("label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27)))


@dataclass(frozen=True)
class SplitCells:
    """Cells of a block's rows: cell j of row r is data[starts[r * width + j] : stops[r * width + j]]."""

    data: np.ndarray  # uint8, with padding; a copy if there are quotes, as doubled ones are replaced
    starts: np.ndarray  # uint32
    stops: np.ndarray  # uint32
    width: int
    begins: np.ndarray  # int64, where each row begins
    lines: np.ndarray  # int64, the line it begins in
    n_lines: int
    bad_lines: np.ndarray  # int64, for each bad row: line, byte within it (from 1), reason, number of cells
    skipped: int  # number of bad rows

    @property
    def rows(self) -> int:
        return len(self.lines)

    def text(self, row: int, column: int, max_bytes: int = 40) -> str:
        """Return up to `max_bytes` bytes of a cell as text, without surrounding blanks."""
        start, stop = (int(ends[row * self.width + column]) for ends in (self.starts, self.stops))
        return self.data[start : min(stop, start + max_bytes)].tobytes().decode("utf-8", "replace").strip(" \t")


class DelimitedLayout(NamedTuple):
    """Layout of a file: its delimiter, columns and header."""

    delimiter: int
    names: tuple[str, ...]
    size: int = 0  # bytes of the header
    lines: int = 0  # lines of the header

    @property
    def width(self) -> int:
        return len(self.names)


def layout_of(block: TextBlock, format: str) -> DelimitedLayout:
    """Return the layout of a file, given its first block. Criteo files have no header, and fixed column names."""
    if format == "criteo":
        return DelimitedLayout(_DELIMITERS["criteo"][0], CRITEO)
    text = block.data[: block.size].tobytes()
    start = len(text) - len(text.lstrip(b"\r\n"))
    line = text[start : text.find(b"\n", start) + 1]
    if not line.strip():
        raise BadInput(f"{block.file}: there is no header line; the first line must name the columns.")
    counts = {mark: _outside_quotes(line).count(mark) for mark in _DELIMITERS[format]}
    delimiter = max(counts, key=lambda mark: counts[mark])
    cells, end = _header_cells(text, start, delimiter)
    names = tuple(cell.decode("utf-8", "replace").strip() or f"column {k}" for k, cell in enumerate(cells, 1))
    check_width(len(names), block.file)
    check_names(names, block.file)
    if all(_is_number(cell) for cell in cells):
        header = line[:60].decode("utf-8", "replace").strip()
        raise BadInput(f"{block.file}: the first line must name the columns, but it holds numbers: {header}. Add one.")
    return DelimitedLayout(delimiter, names, end, text.count(b"\n", 0, end))


def _outside_quotes(line: bytes) -> bytes:
    return b"".join(line.split(b'"')[::2])


def _header_cells(text: bytes, start: int, delimiter: int) -> tuple[list[bytes], int]:
    """Return the cells of the row at `start`, and the offset where it ends."""
    data = np.frombuffer(text[start:] + b"\n" * PADDING, np.uint8)
    starts, stops = np.empty(len(data), np.uint32), np.empty(len(data), np.uint32)
    width, end, error = _row(data, 0, len(text) - start, delimiter, len(data), starts, stops, 0)
    if error > FEW:  # quotes are invalid: the header is the first line
        end = text.find(b"\n", start) + 1
        return text[start:end].strip().split(bytes([delimiter])), end
    cells = [data[starts[k] : stops[k] & _PLACE].tobytes() for k in range(width)]
    return [cell.replace(b'""', b'"') if stops[k] & _DOUBLED else cell for k, cell in enumerate(cells)], start + end


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def whole_rows_size(data: np.ndarray, size: int, delimiter: int, width: int) -> int:
    """Return how many bytes at the beginning of data[:size] are complete rows.

    Splitting these and then the rest gives the same cells as splitting all.
    """
    if not _any_quote(data, 0, size):
        return whole_lines(data, size)
    cells = np.empty((2, width + 1), np.uint32)
    return _cut_quoted(data, size, delimiter, width, cells[0], cells[1])


def split(
    data: np.ndarray,
    start: int,
    size: int,
    delimiter: int,
    width: int,
    scratch: ThreadBuffers | None = None,
    line: int = 0,
) -> SplitCells:
    """Return the cells of data[start:size], which begins at this line and ends in a newline, in rows of `width`.

    With scratch, the offsets of the cells are valid until the next block is split.
    """
    scratch = scratch or ThreadBuffers()
    # Each cell ends in a delimiter or newline, and rows are not empty.
    capacity = size - start + width + 2
    starts, stops = (scratch.take(name, capacity, np.uint32) for name in ("starts", "stops"))
    rows = (size - start) // max(width, 2) + 1
    begins, lines = np.empty(rows, np.int64), np.empty(rows, np.int64)
    bad_lines = np.empty(((size - start) // 2 + 2, 4), np.int64)  # pages are allocated only as bad rows are written
    quoted = _any_quote(data, start, size)
    if quoted:
        data = data.copy()
    kernel = _split_quoted if quoted else _split_plain
    n, n_lines, skipped = kernel(data, start, size, line, delimiter, width, starts, stops, begins, lines, bad_lines)
    n_cells = n * width
    return SplitCells(
        data, starts[:n_cells], stops[:n_cells], width, begins[:n], lines[:n], n_lines, bad_lines[:skipped], skipped
    )


@kernel
def _any_quote(data, start, size):
    address = address_of(data) + start
    end = address_of(data) + size
    while address + 64 <= end:
        if where_in_64(address, _QUOTE):
            return True
        address += 64
    while address < end:
        if load_uint8(address) == _QUOTE:
            return True
        address += 1
    return False


@kernel
def _split_plain(data, start, size, line, delimiter, width, starts, stops, begins, lines, bad_lines):
    """Split text without quotes, and return (rows, lines, bad rows)."""
    base = address_of(data)
    row = skipped = 0
    k = first = 0  # number of cells, and index of this row's first one
    starts[0] = start
    for chunk in range(start, size, 64):
        newlines = where_in_64(base + chunk, _NEWLINE)
        marks = where_in_64(base + chunk, delimiter) | newlines
        if size - chunk < 64:
            marks &= (np.uint64(1) << np.uint64(size - chunk)) - np.uint64(1)
        while marks:
            offset = chunk + trailing_zeros(marks)
            mark = marks & (~marks + np.uint64(1))
            marks ^= mark
            stops[k] = offset
            k += 1
            starts[k] = offset + 1
            if not mark & newlines:
                continue
            stop = offset
            if stop > starts[k - 1] and load_uint8(base + stop - 1) == _RETURN:
                stop -= 1
                stops[k - 1] = stop
            row_start = np.int64(starts[first])
            if k - first == width and stop > row_start:
                begins[row] = row_start
                lines[row] = line
                row += 1
            else:
                if stop > row_start:  # not an empty line
                    error = FEW if k - first < width else MANY
                    bad_lines[skipped, 0], bad_lines[skipped, 1] = line, 1
                    bad_lines[skipped, 2], bad_lines[skipped, 3] = error, k - first
                    skipped += 1
                k = first
                starts[k] = offset + 1
            first = k
            line += 1
    return row, line, skipped


@kernel
def _split_quoted(data, start, size, line, delimiter, width, starts, stops, begins, lines, bad_lines):
    """Split text with quotes, and return (rows, lines, bad rows). In good rows doubled quotes become one, in place."""
    base = address_of(data)
    row = skipped = k = 0
    offset = start
    while offset < size:
        if line_ends(base + offset):
            offset = _next_line(base, offset)
            line += 1
            continue
        n_cells, end, error = _row(data, offset, size, delimiter, width, starts, stops, k)
        if error:
            behind_line = _next_line(base, offset)
            bad_lines[skipped, 0], bad_lines[skipped, 3] = line, n_cells
            bad_lines[skipped, 1] = min(end, behind_line - 1) - offset + 1 if error >= AFTER_QUOTE else 1
            bad_lines[skipped, 2] = NO_QUOTE if error == _OPEN else error
            skipped += 1
            offset = behind_line
            line += 1
            continue
        begins[row] = offset
        lines[row] = line
        row += 1
        while offset < end:
            offset = _next_line(base, offset)
            line += 1
        for c in range(k, k + width):
            if stops[c] & _DOUBLED:
                stops[c] = _unescape_quotes(base + starts[c], base + np.int64(stops[c] & _PLACE)) - base
        k += width
    return row, line, skipped


@kernel
def _cut_quoted(data, size, delimiter, width, starts, stops):
    base = address_of(data)
    offset = 0
    while offset < size:
        _, end, error = _row(data, offset, size, delimiter, width, starts, stops, 0)
        if error == _OPEN:
            break
        if error:
            end = _find(base + offset, base + size, _NEWLINE, _NEWLINE) - base + 1
            if end > size:
                break
        offset = end
    return offset


@kernel
def _row(data, cursor, end, delimiter, width, starts, stops, k):
    """Split the row at `cursor` and return (number of cells, offset of its end or of the error, reason or 0).

    The cells are written to starts and stops from index k on. _OPEN means that the row does not end before `end`; the
    result depends on nothing after `end`.
    """
    base = address_of(data)
    last = base + end
    cursor += base
    n_cells = 0
    while n_cells < width:
        start = cursor
        if cursor < last and load_uint8(cursor) == _QUOTE:
            cursor += 1
            start = cursor
            doubled = np.uint32(0)
            limit = min(last, start + QUOTED_BYTES)
            while True:
                cursor = _find(cursor, limit, _QUOTE, _QUOTE)
                if cursor >= limit:
                    return n_cells, start - 1 - base, NO_QUOTE if start + QUOTED_BYTES + 2 <= last else _OPEN
                if load_uint8(cursor + 1) != _QUOTE:
                    break
                doubled = _DOUBLED
                cursor += 2
            stops[k + n_cells] = np.uint32(cursor - base) | doubled
            cursor += 1
            if load_uint8(cursor) == _RETURN and load_uint8(cursor + 1) == _NEWLINE and cursor + 1 < last:
                cursor += 1
            if cursor >= last or (load_uint8(cursor) == _RETURN and cursor + 1 >= last):
                return n_cells, cursor - base, _OPEN
            if load_uint8(cursor) != delimiter and load_uint8(cursor) != _NEWLINE:
                return n_cells, cursor - base, AFTER_QUOTE
        else:
            cursor = _find(cursor, last, delimiter, _NEWLINE)
            if cursor >= last:
                return n_cells, cursor - base, _OPEN
            stop = cursor
            if load_uint8(cursor) == _NEWLINE and stop > start and load_uint8(stop - 1) == _RETURN:
                stop -= 1
            stops[k + n_cells] = stop - base
        starts[k + n_cells] = start - base
        n_cells += 1
        cursor += 1
        if load_uint8(cursor - 1) == _NEWLINE:
            return n_cells, cursor - base, 0 if n_cells == width else FEW
    return n_cells + 1, cursor - base, MANY


# --- by address -----------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def _find(address, end, byte, other_byte):
    """Return the address of the first occurrence of either byte from `address` on, or an address >= end."""
    while address < end:
        word = load_uint64(address)
        matches = match_byte_mask(word, byte) | match_byte_mask(word, other_byte)
        if matches:
            return address + (trailing_zeros(matches) >> 3)
        address += 8
    return address


@kernel(forceinline=True)
def _next_line(base, offset):
    """Return the offset after the next newline, which must exist."""
    return _find(base + offset, base + offset + (1 << 40), _NEWLINE, _NEWLINE) - base + 1


@kernel
def _unescape_quotes(start, stop):
    """Replace doubled quotes in a cell by single ones, in place, and return its new end."""
    to = start
    source = start
    while source < stop:
        byte = load_uint8(source)
        put_byte(to, byte)
        to += 1
        source += 2 if byte == _QUOTE else 1
    return to
