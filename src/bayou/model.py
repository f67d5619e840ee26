"""Model files: a header and named arrays in one file, written whole or not at all. Knows no learner.

The file is safetensors (no code runs on load). Its metadata holds the format's version and a JSON header; an array
most of whose rows are zero is stored as the rows that are not, so that a table of four million features of which
ten thousand were met takes the space of ten thousand.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from bayou.errors import BadModel

FORMAT = "bayou-model"
VERSION = 1
# Below this many rows a sparse copy gains nothing worth the second array.
_WORTH_IT = 1024


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the file whole: to a temporary name beside it, flushed to disk, then renamed into place."""
    from safetensors.numpy import save_file

    stored: dict[str, np.ndarray] = {}
    shapes: dict[str, list[int]] = {}
    for name, array in arrays.items():
        shape, rows, kept = packed(array)
        if rows is None:
            stored[name] = np.ascontiguousarray(kept)
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
    path = Path(path)
    # A name of our own in the same folder; made new, with the rights any new file would get.
    temporary = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part"
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        rights = temporary.stat().st_mode
        save_file(stored, temporary, metadata=metadata)  # for its owner alone
        os.chmod(temporary, rights)
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays) of a file that `write` made; a sentence for any other."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise BadModel(f"{path}: there is no such model file.")
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
            header = json.loads(metadata["header"])
            sparse = json.loads(metadata["sparse"])
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        return header, _whole(stored, sparse)
    except BadModel:
        raise
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError, MemoryError) as error:
        raise BadModel(f"{path} is not a bayou model, or not a whole one: {error}.") from None


def _whole(stored: dict[str, np.ndarray], sparse: dict[str, list[int]]) -> dict[str, np.ndarray]:
    """The arrays as they were before the empty rows of some were left out."""
    arrays = {name: array for name, array in stored.items() if name.rpartition(".")[0] not in sparse}
    for name, shape in sparse.items():
        kept, rows = stored[f"{name}.kept"], stored[f"{name}.rows"]
        try:
            arrays[name] = unpacked(shape, rows, kept)
        except (LookupError, ValueError, MemoryError) as error:
            raise ValueError(f"array {name!r}: {error}") from None
    return arrays


def touched_rows(array: np.ndarray) -> np.ndarray | None:
    """Rows with a bit set, if storing those alone is smaller than storing the array."""
    if array.ndim == 0 or len(array) < _WORTH_IT:
        return None
    row_bytes = array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    word = np.uint64 if row_bytes % 8 == 0 else np.uint32 if row_bytes % 4 == 0 else np.uint8
    words = np.ascontiguousarray(array).reshape(len(array), -1).view(word)
    rows = np.flatnonzero(words[:, 0] if words.shape[1] == 1 else words.any(axis=1))
    if len(rows) * (row_bytes + 4) >= len(array) * row_bytes:
        return None
    return rows.astype(np.uint32)


def packed(array: np.ndarray) -> tuple[tuple[int, ...], np.ndarray | None, np.ndarray]:
    """(shape, rows, kept): a copy of the rows with a bit set if that is smaller, else None and the array itself."""
    rows = touched_rows(array)
    return array.shape, rows, array if rows is None else array[rows]


def unpacked(shape: Any, rows: np.ndarray | None, kept: np.ndarray) -> np.ndarray:
    """The array that `packed` was given."""
    if rows is None:
        return kept
    array = np.zeros(shape, kept.dtype)
    array[rows] = kept
    return array


def _flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
