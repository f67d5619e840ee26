"""Files that are written whole or not at all: under a temporary name beside them, then renamed into place."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], flush: bool = True) -> Iterator[Path]:
    """The name to write to. When the block ends well the file takes the name `path`; when it does not, what had that
    name before still has it, and nothing else is left behind. A file that replaces another has its rights.

    With `flush` the file is on disk before it takes the name, so that all this holds in a power cut, too.

    What is no ordinary file (a pipe, /dev/null) cannot be replaced and is written to as it is.
    """
    path = Path(os.path.realpath(path))  # the file a link points to, not the link
    if path.exists() and not path.is_file():
        yield path
        return
    old = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    # A name of our own in the same folder; made new, for its owner alone or with the rights any new file would get.
    temporary = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part"
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if old is None else 0o600))
    try:
        rights = stat.S_IMODE(temporary.stat().st_mode) if old is None else old
        yield temporary
        os.chmod(temporary, rights)  # whoever wrote it may have made it anew, for its owner alone
        if flush:
            _flush(temporary)
        os.replace(temporary, path)
        if flush:
            _flush(path.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
