"""Files as blocks of whole lines, small at first, so that learning begins soon, and then larger."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bayou.core.errors import BadInput
from bayou.kernels.scan import PADDING
from bayou.sources.reading.opening import NEWLINE, OpenFile, size_of

# Each block of a file is twice as large as the one before, up to a size at which Python's share per block vanishes.
FIRST_BYTES, BLOCK_BYTES = 1 << 20, 1 << 22
# Those for other processes stay smaller, so that all of them have as much to do.
SHARED_BYTES = 1 << 21
# A line is not kept longer than this; a longer one is bad. It bounds the memory a file can ask for.
LONGEST_LINE = 1 << 26

_BOM = b"\xef\xbb\xbf"

Cut = Callable[[np.ndarray, int], int]


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file: data[:size], which ends in a newline; at least PADDING newlines follow."""

    data: np.ndarray
    size: int
    file: str
    first: bool = False  # the first block of its file
    trouble: str | None = None  # instead of lines: why there are none ("the compressed data end too early")
    lines: int = 0  # lines that the trouble took with it; none: it is the file that ends here
    at: int | None = None  # where it stands in its file, if that is not compressed

    @property
    def unread(self) -> bool:
        """Whether nobody has read its bytes yet (`Texts`)."""
        return self.at is not None and len(self.data) < self.size


def whole_lines(data: np.ndarray, size: int) -> int:
    """How many bytes of data[:size] are whole lines."""
    tail = 1 << 12  # the last newline is near, as a rule
    while True:
        start = max(size - tail, 0)
        found = data[start:size].tobytes().rfind(b"\n")
        if found >= 0 or start == 0:
            return start + found + 1 if found >= 0 else 0
        tail *= 8


def _next_room(room: int, left: int, most: int) -> int:
    """For the block after one of so much room, of which so much is left: a line that has not ended may be longer."""
    return max(min(max(2 * room, FIRST_BYTES), most), min(2 * left, LONGEST_LINE + 1))


class Files:
    """The bytes of some files, one after another, as blocks."""

    def __init__(self, names: Sequence[str], cut: Cut = whole_lines, block_bytes: int | None = None) -> None:
        self.names = list(names)
        self.cut = cut
        self._block_bytes = block_bytes or BLOCK_BYTES
        self._finished = 0  # bytes of the files that were read to their end
        self._file: OpenFile | None = None
        self._first: OpenFile | None = None  # opened already, to look at its beginning
        sizes = [size_of(name) for name in self.names]
        self.bytes_total = None if None in sizes else sum(s for s in sizes if s is not None)

    @property
    def bytes_done(self) -> int:
        """How far the files were read, in bytes as they lie on disk."""
        file = self._file  # once: another thread may be reading on
        return self._finished + (0 if file is None else file.position)

    @property
    def waits(self) -> bool:
        """Whether reading may have to wait for somebody, as at a pipe; what was read is then gone."""
        return self.bytes_total is None

    def head(self) -> bytes:
        """The beginning of the first file, decompressed. It will be read again."""
        if self._first is None:
            self._first = OpenFile(self.names[0])
        return self._first.head()

    def first_lines(self) -> Block:
        """The whole lines at the beginning of the first file. They will be read again."""
        head = self.head().removeprefix(_BOM)
        size = head.rfind(b"\n") + 1
        data = np.full(size + PADDING, NEWLINE, np.uint8)
        data[:size] = np.frombuffer(head[:size], np.uint8)
        return Block(data, size, self.names[0], first=True)

    def rewind(self) -> None:
        """Nothing was read yet of what the next pass will read."""
        self._finished = 0

    def __iter__(self) -> Iterator[Block]:
        return self._all(self._blocks)

    def unread(self) -> Iterator[Block]:
        """The same blocks, of files that are not compressed without their bytes, where lines are all that counts."""
        return self._all(self._places if self.cut is whole_lines else self._blocks)

    def _all(self, blocks: Callable[[OpenFile], Iterator[Block]]) -> Iterator[Block]:
        self.rewind()
        for number, name in enumerate(self.names):
            opened = self._first if number == 0 and self._first else OpenFile(name)
            self._first = None
            with opened as self._file:
                yield from blocks(self._file)
                self._finished, self._file = self._finished + self._file.position, None

    def _places(self, file: OpenFile) -> Iterator[Block]:
        """Where the blocks stand that `_blocks` would read: a look at where each ends is enough."""
        if not file.plain:
            yield from self._blocks(file)
            return
        nothing, total = np.empty(0, np.uint8), size_of(file.name) or 0
        most = min(self._block_bytes, SHARED_BYTES)
        room, first, begin = _next_room(0, 0, most), True, 0
        with open(file.name, "rb", buffering=0) as text:
            at = len(_BOM) if text.read(len(_BOM)) == _BOM else 0
            while at < total:
                upto = file.position = min(begin + room, total)
                end = _behind_last_newline(text, at, upto)
                left = upto - (end or at)
                room = _next_room(room, left, most)
                if end:
                    yield Block(nothing, end - at, file.name, first, at=at)
                elif left >= LONGEST_LINE:
                    yield Block(nothing, 0, file.name, first, f"expected a line of at most {LONGEST_LINE:,} bytes", 1)
                    end = _behind_next_newline(text, upto, total)
                elif upto == total:  # the file's last line has no newline
                    yield Block(nothing, total - at + 1, file.name, first, at=at)
                    end = total
                first = first and not end
                begin = at = end or at

    def _blocks(self, file: OpenFile) -> Iterator[Block]:
        room, first = _next_room(0, 0, self._block_bytes), True
        left = np.empty(0, np.uint8)  # the beginning of a line whose end is not read yet
        while True:
            data = np.empty(room + PADDING, np.uint8)
            data[: len(left)] = left
            got = file.fill(data[len(left) : room].data)
            size = len(left) + got
            at = file.position - size if file.plain else None
            if first and data[: min(size, 3)].tobytes() == _BOM:
                data[: size - 3] = data[3:size].copy()
                size, at = size - 3, None if at is None else at + 3
            if not got:
                if file.trouble:
                    break  # what is left is not a whole line
                if size and data[size - 1] != NEWLINE:
                    data[size] = NEWLINE  # the file's last line has none
                    size += 1
            end = self.cut(data, size) if got else size
            left = data[end:size].copy()
            room = _next_room(room, len(left), self._block_bytes)
            if end:
                data[end : end + PADDING] = NEWLINE
                yield Block(data, end, file.name, first, at=at)
                first = False
            elif len(left) >= LONGEST_LINE:
                yield Block(data, 0, file.name, first, f"expected a line of at most {LONGEST_LINE:,} bytes", 1)
                left, first = file.rest_after_line(self._block_bytes), False
            if not got:
                break
        if file.trouble:
            yield Block(left, 0, file.name, first, file.trouble)


class Texts:
    """Reads blocks whose bytes nobody has read, one after another into the same room: new memory is dear."""

    def __init__(self) -> None:
        self._room, self._files = np.empty(0, np.uint8), dict[str, io.FileIO]()
        self._counted = "", 0, 0  # a file, a place in it, and how many lines stand before that

    def room_for(self, size: int) -> np.ndarray:
        """For so many bytes, with newlines behind them."""
        if len(self._room) < size + PADDING:
            self._room = np.empty(2 * (size + PADDING), np.uint8)
        self._room[size : size + PADDING] = NEWLINE
        return self._room[: size + PADDING]

    def of(self, block: Block) -> np.ndarray:
        """The bytes of a block, until the next is read."""
        text, got, file = self.room_for(block.size), 0, self._opened(block.file)
        file.seek(block.at or 0)
        while got < block.size and (more := file.readinto(text[got : block.size].data)):
            got += more
        if got < block.size - 1:
            raise BadInput(f"{block.file}: the file has become shorter while it was learned; learn it again.")
        text[got : block.size] = NEWLINE  # which the last line of a file may lack
        return text

    def lines_before(self, block: Block) -> int:
        """How many lines of its file stand before a block. The file is read for it, once where blocks are in order."""
        name, at, lines = self._counted
        if name != block.file or at > (block.at or 0):
            at = lines = 0
        file = self._opened(block.file)
        file.seek(at)
        while at < (block.at or 0) and (text := file.read(min((block.at or 0) - at, BLOCK_BYTES))):
            at, lines = at + len(text), lines + text.count(b"\n")
        self._counted = block.file, at, lines
        return lines

    def _opened(self, name: str) -> io.FileIO:
        if name not in self._files:
            self._files[name] = io.FileIO(name)
        return self._files[name]


def _behind_last_newline(text: io.FileIO, start: int, stop: int) -> int:
    """The place behind the last newline between two places, 0 if there is none."""
    tail, first = 1 << 12, stop
    while first > start:
        first, tail = max(stop - tail, start), tail * 8
        text.seek(first)
        found = text.read(stop - first).rfind(b"\n")
        if found >= 0:
            return first + found + 1
    return 0


def _behind_next_newline(text: io.FileIO, start: int, stop: int) -> int:
    """The place behind the first newline from here on; the end if there is none."""
    text.seek(start)
    while start < stop and (some := text.read(BLOCK_BYTES)):
        found = some.find(b"\n")
        if found >= 0:
            return start + found + 1
        start += len(some)
    return stop
