"""Fingerprints that identify files: the bare name, the size, and digests of the beginning and the end."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Any

import xxhash

from bayou.core.errors import BadModel

# Number of bytes at the beginning, and at the end, of a file that are hashed.
DIGEST_BYTES = 1 << 16
# Fields of a mark in a model file, besides its name under "path".
_KEPT = {"size": int, "begin": str, "end": str}


@dataclass(frozen=True)
class FileFingerprint:
    """Fingerprint of a file at one moment. A pipe or device only has a name, and is never recognized again.

    Model files hold only the bare name, so that they do not reveal in which folder the file was.

    Attributes:
        path: the full path, or "-"; the bare name in a mark from a model file. Not compared.
        name: the bare name, without folders.
        size: in bytes.
        begin, end: digests of the first and the last `DIGEST_BYTES` bytes.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     before = FileFingerprint.of(file.name)
    ...     after = (file.write(b"more"), file.flush()) and FileFingerprint.of(file.name)
    >>> before.size, after.size, before.name == after.name, before.to_json()["path"] == before.name
    (0, 4, True, True)
    """

    path: str = field(compare=False)
    size: int | None = None
    begin: str = ""
    end: str = ""
    name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        # Also handles paths written on Windows, on any platform.
        object.__setattr__(self, "name", self.path.replace("\\", "/").rpartition("/")[2])

    @classmethod
    def of(cls, path: str) -> FileFingerprint:
        full = path if path == "-" else os.path.abspath(path)
        try:
            about = None if path == "-" else os.stat(full)
            if about is None or not stat.S_ISREG(about.st_mode):
                return cls(full)
            return cls(full, about.st_size, *_digests(full, about.st_size))
        except OSError:
            return cls(full)

    def is_prefix_of(self, path: str) -> bool:
        """Return whether the file at `path` begins with the content of this one, judged by digests."""
        try:
            return self.size is not None and (self.begin, self.end) == _digests(path, self.size)
        except OSError:
            return False

    def to_json(self) -> dict[str, Any]:
        about = {name: getattr(self, name) for name in _KEPT}
        return {"path": self.name} | {name: value for name, value in about.items() if value not in (None, "")}

    @classmethod
    def from_json(cls, plain: Any) -> FileFingerprint:
        """Return the mark from the result of `to_json`; only the name of a full path (earlier versions) is kept."""
        if not isinstance(plain, dict) or "path" not in plain:
            raise BadModel(f"the model describes a file as {plain!r}; it must be a mapping with a path.")
        kinds = {"path": str, **_KEPT}
        values = {name: plain[name] for name in kinds if plain.get(name) is not None}
        for name, value in values.items():
            if not isinstance(value, kinds[name]):
                raise BadModel(f"the model describes a file with {name} = {value!r}; expected {kinds[name].__name__}.")
        return cls(**{**values, "path": cls(values["path"]).name})


def _digests(path: str, size: int) -> tuple[str, str]:
    """Return digests of the beginning and the end of a file's first `size` bytes; empty if it is shorter."""
    with open(path, "rb") as file:
        begin = file.read(min(size, DIGEST_BYTES))
        file.seek(max(size - DIGEST_BYTES, 0))
        end = file.read(min(size, DIGEST_BYTES))
    complete = len(begin) == len(end) == min(size, DIGEST_BYTES)
    return (xxhash.xxh3_64_hexdigest(begin), xxhash.xxh3_64_hexdigest(end)) if complete else ("", "")
