"""Model files: a header and named arrays in one file, written atomically. Independent of learners.

The file is safetensors (no code runs on load). Its metadata holds the format's version, a JSON header, and a checksum
(xxh3, 64 bits) of the header and of every array, which is checked when the file is read. If most rows of an array are
zero, only the others are stored, so that a table of four million features of which ten thousand were seen takes the
space of ten thousand.

The same model gives the same bytes. The writer of safetensors orders the metadata differently each time, and blocks all
other Python threads while it copies, so files are written here; they are read by safetensors.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from bayou.core.errors import BadModel
from bayou.core.files import whole_file
from bayou.kernels.compiling import kernel
from bayou.kernels.parse_text import load_uint64

FORMAT = "bayou-model"
VERSION = 1
_WORDS = {"format", "version", "header", "sparse", "checksums"}
# Arrays with fewer rows than this are always stored dense.
_WORTH_IT = 1024
# Names of array types in safetensors.
_TYPES = {
    "?": "BOOL", "u1": "U8", "i1": "I8", "u2": "U16", "i2": "I16", "u4": "U32", "i4": "I32", "u8": "U64", "i8": "I64",
    "f2": "F16", "f4": "F32", "f8": "F64",
}  # fmt: skip
# Bytes of an array that are copied at a time, so that a large one is never held twice.
_BLOCK_BYTES = 8 << 20


class PackedArray(NamedTuple):
    """An array as it is stored: dense, or only the rows with a bit set, if all others are zero."""

    shape: tuple[int, ...]
    rows: np.ndarray | None  # indices of the stored rows; None: all
    kept: Any  # an array of these rows, or a handle to one that is still in its file

    @property
    def dtype(self) -> np.dtype:
        return self.kept.dtype

    def blocks(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield (row indices, their content), a few megabytes at a time; all other rows are zero."""
        if not self.shape:
            yield ..., self.kept
            return
        step = max(1, _BLOCK_BYTES // max(1, self.dtype.itemsize * _items(self.shape[1:])))
        n = self.kept.shape[0]
        for start in range(0, n, step):
            chunk = slice(start, min(start + step, n))
            yield chunk if self.rows is None else self.rows[chunk], self.kept[chunk]

    def dense(self) -> np.ndarray:
        """Return the dense array, a copy."""
        array = np.zeros(self.shape, self.dtype)
        for rows, block in self.blocks():
            array[rows] = block
        return array


class _CorruptFile(BadModel):
    """Raised when the content of a file fails its checksum or has unexpected arrays."""


class _LazyArray:
    """An array in an open file, read slice by slice in order; its checksum is checked after the last slice."""

    def __init__(self, file: Any, name: str, checksum: str) -> None:
        self._slice, self._name = file.get_slice(name), name
        self.shape = tuple(self._slice.get_shape())
        self.dtype = self._slice[:1].dtype
        self._expected, self._sum, self._next = checksum, xxhash.xxh3_64(), 0

    def __getitem__(self, rows: slice) -> np.ndarray:
        read = self._slice[rows]
        if rows.start == self._next:
            self._sum.update(np.ascontiguousarray(read).data)
            self._next = rows.stop
            if self._next >= self.shape[0]:
                _compare(self._name, self._sum.hexdigest(), self._expected)
        return read


def _checksum(array: np.ndarray) -> str:
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(array).data)


def _header_checksum(metadata: Mapping[str, str], arrays: Mapping[str, str]) -> str:
    """Return the checksum of the metadata, and of the names and checksums of the arrays."""
    parts = [metadata[name] for name in ("version", "header", "sparse")]
    return xxhash.xxh3_64_hexdigest(json.dumps([*parts, sorted(arrays.items())]).encode())


def _compare(what: str, checksum: str, expected: str) -> None:
    if checksum != expected:
        raise _CorruptFile(
            f"the file is damaged (its {what or 'header'} fails the checksum); copy it again, or retrain."
        )


def packed(array: np.ndarray) -> PackedArray:
    """Pack an array: a copy of the rows with a bit set if that is smaller, else the array itself."""
    if array.ndim and len(array) >= _WORTH_IT:
        rows = nonzero_rows(array)
        if is_sparse_smaller(array.shape, array.dtype, len(rows)):
            return PackedArray(array.shape, rows.astype(np.uint32), array[rows])
    return PackedArray(array.shape, None, array)


def is_sparse_smaller(shape: tuple[int, ...], dtype: np.dtype, touched: int) -> bool:
    """Return whether storing `touched` rows with their indices takes less space than the whole array."""
    row_bytes = dtype.itemsize * _items(shape[1:])
    return shape[0] >= _WORTH_IT and touched * (row_bytes + 4) < shape[0] * row_bytes


def nonzero_rows(*arrays: np.ndarray) -> np.ndarray:
    """Return the rows, ascending, in which any of some arrays of one length has a bit set (as -0.0 has)."""
    marks = np.zeros(len(arrays[0]), bool)
    for array in arrays:
        width = _items(array.shape[1:])
        row_bytes = array.dtype.itemsize * width
        rows = np.ascontiguousarray(array).reshape(len(array), width).view(np.uint8)
        if row_bytes % 8 == 0:
            _mark(rows.ctypes.data, row_bytes, marks)
        else:
            words = rows.view(np.uint32 if row_bytes % 4 == 0 else np.uint8)
            marks |= words[:, 0] != 0 if words.shape[1] == 1 else words.any(axis=1)
    return np.flatnonzero(marks)


@kernel
def _mark(address, row_bytes, marks):
    """Mark the rows at an address that have a bit set, reading words of eight bytes."""
    for row in range(marks.size):
        bits = np.uint64(0)
        for word in range(address, address + row_bytes, 8):
            bits |= load_uint64(word)
        marks[row] |= bits != 0
        address += row_bytes


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, np.ndarray | PackedArray]) -> None:
    """Write a model file atomically; raise BadModel and leave an existing file unchanged if that fails."""
    try:
        metadata, stored = _header_and_arrays(header, arrays)
    except (TypeError, ValueError) as error:
        raise BadModel(f"{path} was not written: the model holds what JSON cannot represent ({error}).") from None
    try:
        with whole_file(path) as temporary, open(temporary, "wb") as file:
            _write_safetensors(file, metadata, stored)
    except (OSError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadModel(f"{path} could not be written ({reason}); no file was changed.") from error


def to_bytes(header: dict[str, Any], arrays: Mapping[str, np.ndarray | PackedArray]) -> bytes:
    """Return the bytes that `write` would write."""
    file = io.BytesIO()
    _write_safetensors(file, *_header_and_arrays(header, arrays))
    return file.getvalue()


def _header_and_arrays(
    header: dict[str, Any], arrays: Mapping[str, np.ndarray | PackedArray]
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Return the metadata of a file, and the arrays to store."""
    stored: dict[str, np.ndarray] = {}
    shapes: dict[str, list[int]] = {}
    for name, array in arrays.items():
        shape, rows, kept = array if isinstance(array, PackedArray) else packed(array)
        if rows is None or arrays.keys() & {f"{name}.rows", f"{name}.kept"}:
            stored[name] = np.asarray(array.dense() if isinstance(array, PackedArray) else array, order="C")
        else:
            shapes[name] = list(shape)
            stored[f"{name}.rows"] = rows
            stored[f"{name}.kept"] = kept
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "header": json.dumps(header, sort_keys=True, allow_nan=False),
        "sparse": json.dumps(shapes, sort_keys=True),
    }
    return sign(metadata, {name: _checksum(array) for name, array in stored.items()}), stored


def sign(metadata: dict[str, str], sums: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with the checksums added; `sums` are those of the arrays."""
    return metadata | {"checksums": json.dumps({**sums, "": _header_checksum(metadata, sums)}, sort_keys=True)}


def _write_safetensors(file: Any, metadata: dict[str, str], stored: dict[str, np.ndarray]) -> None:
    """Write in the format of safetensors: the header's length, the header, and the arrays, widest types first."""
    order = sorted(stored, key=lambda name: (-stored[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in order:
        array, start = stored[name], end
        kind = _TYPES.get(array.dtype.newbyteorder("=").str.lstrip("<>=|"))
        if kind is None:
            raise TypeError(f"{name} holds {array.dtype}, which is not numeric")
        end += array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array = stored[name]
        little = array if array.dtype.byteorder != ">" else array.astype(array.dtype.newbyteorder("<"))
        data: Any = little.reshape(-1).view(np.uint8).data if little.size else b""
        for start in range(0, len(data), _BLOCK_BYTES):  # in blocks, so that other threads can run
            file.write(data[start : start + _BLOCK_BYTES])


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return (header, arrays) of a model file; raise BadModel for any other file."""
    with open_lazily(path) as (header, stored):
        return header, {name: array.dense() for name, array in stored.items()}


@contextlib.contextmanager
def open_lazily(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], dict[str, PackedArray]]]:
    """Yield (header, arrays) like `read`, but read large arrays block by block on demand, inside the `with`."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not os.path.isfile(path):  # also False for an invalid file name
        folder = os.path.isdir(path)
        what = "it is a folder; name the file in it" if folder else "`bayou train --model` or `save` writes one"
        raise BadModel(f"{path}: there is no such model file; {what}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise BadModel(f"{path} is not a bayou model: it is a safetensors file of another kind.")
            version = int(metadata["version"])
            if version < 1:
                raise BadModel(f"{path} is not a bayou model: there is no format {version}.")
            if version > VERSION:
                raise BadModel(
                    f"{path} is a bayou model of format {version}; this bayou reads up to format {VERSION}. "
                    "Upgrade bayou to read it."
                )
            if unknown := metadata.keys() - _WORDS:  # a damaged key could hide the checksums
                raise BadModel(f"{path} is damaged (it contains {min(unknown)!r}); copy it again, or retrain.")
            sums = json.loads(metadata["checksums"])
            try:
                arrays = {name: value for name, value in sums.items() if name}
                _compare("", _header_checksum(metadata, arrays), sums[""])
                yield json.loads(metadata["header"]), _stored(file, json.loads(metadata["sparse"]), sums)
            except _CorruptFile as error:
                raise BadModel(f"{path}: {error}") from None
    except BadModel:
        raise
    except (
        SafetensorError, LookupError, ValueError, TypeError, AttributeError, MemoryError, RecursionError, OSError,
    ) as error:  # fmt: skip
        why = str(error).rstrip(".")
        if isinstance(error, SafetensorError) and _looks_like_model(path):
            raise BadModel(f"{path} is cut short or damaged ({why}); copy it again, or retrain the model.") from None
        raise BadModel(
            f"{path} is not a bayou model, or is incomplete ({why}); give a file that `bayou train --model` wrote."
        ) from None


def _looks_like_model(path: Path) -> bool:
    """Return whether an unreadable file begins like a model file."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return f'"format":"{FORMAT}"'.encode() in file.read(1 << 20)
    return False


def _stored(file: Any, sparse: dict[str, list[int]], checksums: Mapping[str, str]) -> dict[str, PackedArray]:
    names = set(file.keys())
    if names != checksums.keys() - {""}:
        raise _CorruptFile("the file is damaged (its arrays are not those written); copy it again, or retrain.")
    arrays = {}
    for name, shape in sparse.items():
        names -= {f"{name}.rows", f"{name}.kept"}
        rows, kept = (_array(file, f"{name}.{part}", checksums) for part in ("rows", "kept"))
        rows = rows[0 : rows.shape[0]] if isinstance(rows, _LazyArray) else rows
        fit = rows.dtype == np.uint32 and kept.shape == (len(rows), *shape[1:]) and rows.max(initial=0) < shape[0]
        if not fit or len(shape) < 1:
            raise ValueError(f"array {name!r} should have shape {shape}, but the stored data do not fit it")
        arrays[name] = PackedArray(tuple(shape), rows, kept)
    for name in names:
        array = _array(file, name, checksums)
        arrays[name] = PackedArray(array.shape, None, array)
    return arrays


def _array(file: Any, name: str, checksums: Mapping[str, str]) -> Any:
    """Return a small array, or a handle to a large one that is still in its file."""
    shape = file.get_slice(name).get_shape()
    if shape and _items(shape) > _BLOCK_BYTES // 8:
        return _LazyArray(file, name, checksums[name])
    array = file.get_tensor(name)
    _compare(name, _checksum(array), checksums[name])
    return array


def _items(shape: Any) -> int:
    return int(np.prod(shape, dtype=np.int64))
