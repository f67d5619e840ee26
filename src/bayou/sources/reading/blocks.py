"""Files cut into blocks of complete lines, small at first so that learning starts soon, then larger."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.errors import BadInput
from bayou.kernels.parse_text import PADDING
from bayou.sources.reading.open_files import NEWLINE, OpenFile, size_of

# Each block of a file is twice as large as the one before, up to a size at which Python's cost per block is negligible.
FIRST_BYTES, BLOCK_BYTES = 1 << 20, 1 << 22
# Blocks for other processes stay smaller, to balance the load.
SHARED_BYTES = 1 << 21
# Maximum length of a line; a longer one is bad. It bounds the memory that a file can use.
MAX_LINE_BYTES = 1 << 26

_BOM = b"\xef\xbb\xbf"

Cut = Callable[[np.ndarray, int], int]


@dataclass(frozen=True)
class TextBlock:
    """Whole lines of a file: data[:size], which ends in a newline; at least PADDING newlines follow."""

    data: np.ndarray
    size: int
    file: str
    first: bool = False  # the first block of its file
    trouble: str | None = None  # why there are no lines, if so ("the compressed data end too early")
    lines: int = 0  # number of lines lost to the trouble; 0: the file ends here
    offset: int | None = None  # offset in its file, if that is not compressed
    layout: Any = None  # delimiter and columns of its file, for delimited text

    @property
    def unread(self) -> bool:
        """True if the bytes are not read yet (see `BlockLoader`)."""
        return self.offset is not None and len(self.data) < self.size


def whole_lines(data: np.ndarray, size: int) -> int:
    """Return how many bytes at the beginning of data[:size] are complete lines."""
    return _behind_last_newline(lambda start, stop: data[start:stop].tobytes(), 0, size)


def _behind_last_newline(read: Callable[[int, int], bytes], start: int, stop: int) -> int:
    """Return the offset after the last newline in [start, stop), 0 if there is none; `read` returns the bytes there."""
    tail, first = 1 << 12, stop  # the last newline is usually near
    while first > start:
        first, tail = max(stop - tail, start), tail * 8
        newline = read(first, stop).rfind(b"\n")
        if newline >= 0:
            return first + newline + 1
    return 0


def _next_room(capacity: int, left: int, max_capacity: int) -> int:
    """Return the capacity for the next block, given that of the last and the `left` bytes of a line that has not ended.

    It is twice the last one, at most `max_capacity`, unless that line needs more.
    """
    return max(min(max(2 * capacity, FIRST_BYTES), max_capacity), min(2 * left, MAX_LINE_BYTES + 1))


class BlockReader:
    """Reader of files, one after another, as blocks of bytes."""

    def __init__(self, names: Sequence[str], cut: Cut = whole_lines, block_bytes: int | None = None) -> None:
        self.names = list(names)
        self.cut = cut
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._finished = 0  # bytes of the files that were read to their end
        self._file: OpenFile | None = None
        self._first: OpenFile | None = None  # opened already, to examine its beginning
        sizes = [size_of(name) for name in self.names]
        self.bytes_total = None if None in sizes else sum(s for s in sizes if s is not None)

    @property
    def bytes_done(self) -> int:
        """Number of bytes read so far, as stored on disk."""
        file = self._file  # read once: another thread may be reading the files
        return self._finished + (0 if file is None else file.position)

    @property
    def may_block(self) -> bool:
        """True if reading may block, as from a pipe, which cannot be read again."""
        return self.bytes_total is None

    def head(self) -> bytes:
        """Return the beginning of the first file, decompressed. Iteration will read it again."""
        if self._first is None:
            self._first = OpenFile(self.names[0])
        return self._first.head()

    def first_lines(self) -> TextBlock:
        """Return the complete lines at the beginning of the first file. Iteration will read them again."""
        head = self.head().removeprefix(_BOM)
        size = head.rfind(b"\n") + 1
        data = np.full(size + PADDING, NEWLINE, np.uint8)
        data[:size] = np.frombuffer(head[:size], np.uint8)
        return TextBlock(data, size, self.names[0], first=True)

    def rewind(self) -> None:
        """Reset the number of bytes read, for the next pass."""
        self._finished = 0

    def __iter__(self) -> Iterator[TextBlock]:
        return self._all(self._blocks)

    def unread(self) -> Iterator[TextBlock]:
        """Yield the blocks of one pass; of uncompressed files cut at lines, without their bytes (see `BlockLoader`)."""
        return self._all(self._block_bounds if self.cut is whole_lines else self._blocks)

    def _all(self, blocks: Callable[[OpenFile], Iterator[TextBlock]]) -> Iterator[TextBlock]:
        self.rewind()
        for index, name in enumerate(self.names):
            opened = self._first if index == 0 and self._first else OpenFile(name)
            self._first = None
            with opened as self._file:
                yield from blocks(self._file)
                self._finished, self._file = self._finished + self._file.position, None

    def _block_bounds(self, file: OpenFile) -> Iterator[TextBlock]:
        """Yield blocks without bytes, cut like those of `_blocks`; only the ends of blocks are read."""
        if not file.plain:
            yield from self._blocks(file)
            return
        nothing, total = np.empty(0, np.uint8), size_of(file.name) or 0
        max_capacity = min(self._block_bytes, SHARED_BYTES)
        capacity, first, read_start = _next_room(0, 0, max_capacity), True, 0
        with open(file.name, "rb", buffering=0) as text:

            def read(start: int, stop: int) -> bytes:
                text.seek(start)
                return text.read(stop - start)

            offset = len(_BOM) if text.read(len(_BOM)) == _BOM else 0
            while offset < total:
                upto = file.position = min(read_start + capacity, total)
                end = _behind_last_newline(read, offset, upto)
                left = upto - (end or offset)
                capacity = _next_room(capacity, left, max_capacity)
                if end:
                    yield TextBlock(nothing, end - offset, file.name, first, offset=offset)
                elif left >= MAX_LINE_BYTES:
                    yield TextBlock(
                        nothing, 0, file.name, first, f"expected a line of at most {MAX_LINE_BYTES:,} bytes", 1
                    )
                    end = _behind_next_newline(text, upto, total)
                elif upto == total:  # the file's last line has no newline
                    yield TextBlock(nothing, total - offset + 1, file.name, first, offset=offset)
                    end = total
                first = first and not end
                read_start = offset = end or offset

    def _blocks(self, file: OpenFile) -> Iterator[TextBlock]:
        capacity, first = _next_room(0, 0, self._block_bytes), True
        left = np.empty(0, np.uint8)  # the beginning of a line that is not read to its end yet
        while True:
            data = np.empty(capacity + PADDING, np.uint8)
            data[: len(left)] = left
            got = file.fill(data[len(left) : capacity].data)
            size = len(left) + got
            offset = file.position - size if file.plain else None
            if first and data[: min(size, 3)].tobytes() == _BOM:
                data[: size - 3] = data[3:size].copy()
                size, offset = size - 3, None if offset is None else offset + 3
            if not got:
                if file.trouble:
                    break  # the rest is not a whole line
                if size and data[size - 1] != NEWLINE:
                    data[size] = NEWLINE  # the file's last line lacks it
                    size += 1
            end = self.cut(data, size) if got else size
            left = data[end:size].copy()
            capacity = _next_room(capacity, len(left), self._block_bytes)
            if end:
                data[end : end + PADDING] = NEWLINE
                yield TextBlock(data, end, file.name, first, offset=offset)
                first = False
            elif len(left) >= MAX_LINE_BYTES:
                yield TextBlock(data, 0, file.name, first, f"expected a line of at most {MAX_LINE_BYTES:,} bytes", 1)
                left, first = file.rest_after_line(self._block_bytes), False
            if not got:
                break
        if file.trouble:
            yield TextBlock(left, 0, file.name, first, file.trouble)


class BlockLoader:
    """Reader of the bytes of blocks that come without them, into one reused buffer: new memory is expensive."""

    def __init__(self) -> None:
        self._room, self._files = np.empty(0, np.uint8), dict[str, io.FileIO]()
        self._counted = "", 0, 0  # a file, an offset in it, and the number of lines before that

    def room_for(self, size: int) -> np.ndarray:
        """Return the buffer for `size` bytes, followed by PADDING newlines."""
        if len(self._room) < size + PADDING:
            self._room = np.empty(2 * (size + PADDING), np.uint8)
        self._room[size : size + PADDING] = NEWLINE
        return self._room[: size + PADDING]

    def of(self, block: TextBlock) -> np.ndarray:
        """Return the bytes of a block; they are valid until the next block is read."""
        text, got, file = self.room_for(block.size), 0, self._opened(block.file)
        file.seek(block.offset or 0)
        while got < block.size and (n_read := file.readinto(text[got : block.size].data)):
            got += n_read
        if got < block.size - 1:
            raise BadInput(f"{block.file}: the file was truncated while it was read; start again when it is complete.")
        text[got : block.size] = NEWLINE  # the last line of a file may lack it
        return text

    def lines_before(self, block: TextBlock) -> int:
        """Return the number of lines before a block in its file, by reading it; once if blocks are passed in order."""
        name, offset, lines = self._counted
        if name != block.file or offset > (block.offset or 0):
            offset = lines = 0
        file = self._opened(block.file)
        file.seek(offset)
        while offset < (block.offset or 0) and (text := file.read(min((block.offset or 0) - offset, BLOCK_BYTES))):
            offset, lines = offset + len(text), lines + text.count(b"\n")
        self._counted = block.file, offset, lines
        return lines

    def _opened(self, name: str) -> io.FileIO:
        if name not in self._files:
            self._files[name] = io.FileIO(name)
        return self._files[name]


def _behind_next_newline(text: io.FileIO, start: int, stop: int) -> int:
    """Return the offset after the first newline from `start` on; `stop` if there is none before it."""
    text.seek(start)
    while start < stop and (chunk := text.read(BLOCK_BYTES)):
        newline = chunk.find(b"\n")
        if newline >= 0:
            return start + newline + 1
        start += len(chunk)
    return stop
