"""By what a file is known again: its size, its time, and digests of its beginning and its end."""

from __future__ import annotations

import os
import stat
from dataclasses import asdict, dataclass, fields
from typing import Any

import xxhash

from bayou.core.errors import BadModel

# How much of a file's beginning, and of its end, is looked at.
LOOKED_AT = 1 << 16


@dataclass(frozen=True)
class FileMark:
    """A file as it was. What is no ordinary file has a path and nothing else, and is never known again.

    Attributes:
        path: in full, or "-".
        size: in bytes; time: of its last change, in nanoseconds.
        begin, end: digests of its first and last bytes, as many as `LOOKED_AT`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     before = FileMark.of(file.name)
    ...     after = (file.write(b"more"), file.flush()) and FileMark.of(file.name)
    >>> before.size, after.size, before.path == after.path
    (0, 4, True)
    """

    path: str
    size: int | None = None
    time: int | None = None
    begin: str = ""
    end: str = ""

    @classmethod
    def of(cls, path: str) -> FileMark:
        full = path if path == "-" else os.path.abspath(path)
        try:
            about = None if path == "-" else os.stat(full)
            if about is None or not stat.S_ISREG(about.st_mode):
                return cls(full)
            return cls(full, about.st_size, about.st_mtime_ns, *_digests(full, about.st_size))
        except OSError:
            return cls(full)

    def begins(self, path: str) -> bool:
        """Whether a file begins with all of what this one was, as far as that was looked at."""
        try:
            return self.size is not None and (self.begin, self.end) == _digests(path, self.size)
        except OSError:
            return False

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}

    @classmethod
    def from_json(cls, plain: Any) -> FileMark:
        known = {part.name: str if "str" in str(part.type) else int for part in fields(cls)}
        if not isinstance(plain, dict) or "path" not in plain:
            raise BadModel(f"the model tells of a file as {plain!r}; it must be a mapping with a path.")
        found = {name: plain[name] for name in known if plain.get(name) is not None}
        for name, value in found.items():
            if not isinstance(value, known[name]):
                raise BadModel(f"the model tells of a file with {name} = {value!r}; that is no {known[name].__name__}.")
        return cls(**found)


def _digests(path: str, size: int) -> tuple[str, str]:
    """Of the beginning and the end of a file's first `size` bytes."""
    with open(path, "rb") as file:
        begin = file.read(min(size, LOOKED_AT))
        file.seek(max(size - LOOKED_AT, 0))
        end = file.read(min(size, LOOKED_AT))
    whole = len(begin) == len(end) == min(size, LOOKED_AT)
    return (xxhash.xxh3_64_hexdigest(begin), xxhash.xxh3_64_hexdigest(end)) if whole else ("", "")
