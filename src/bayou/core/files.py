"""Files that are written whole or not at all: in a folder of their own beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

# What is being written to clicks.bayou is in .clicks.bayou.<random>.part/ until it is whole.
_PART = ".part"
_LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part", re.DOTALL)


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether there is something at the path that is no ordinary file: a pipe, a device. It cannot be replaced."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], flush: bool = True) -> Iterator[Path]:
    """The name to write to. When the block ends well the file takes the name `path`; when it does not, what had that
    name before still has it, and nothing else is left behind. A file that replaces another has its rights.

    With `flush` the file is on disk before it takes the name, so that all this holds in a power cut, too. What a
    process that was killed has left behind is removed by the next one that writes to the same path.

    What is no ordinary file (`is_special`) cannot be replaced: the name to write to is then its own.
    """
    path = Path(os.path.realpath(path))  # the file a link points to, not the link
    if is_special(path):
        yield path
        return
    remove_leftovers(path)
    with _own_folder(path) as folder:
        temporary = folder / path.name
        old = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        # Made new, for its owner alone or with the rights that any new file would get.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if old is None else 0o600))
        rights = stat.S_IMODE(temporary.stat().st_mode) if old is None else old
        yield temporary
        os.chmod(temporary, rights)  # whoever wrote it may have made it anew, for its owner alone
        if flush:
            _flush(temporary)
        os.replace(temporary, path)
        if flush:
            _flush(path.parent)


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    """A new folder beside the path, locked as long as this process lives, and gone afterwards."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}{_PART}"
    folder.mkdir()
    lock = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_leftovers(path: Path) -> None:
    """Remove what processes that are gone were writing to the path; one that is at work holds a lock on its folder."""
    _remove_leftovers(path.parent, path.name)


def remove_all_leftovers(folder: Path) -> None:
    """Remove what processes that are gone were writing to any file of a folder."""
    _remove_leftovers(folder, None)


def _remove_leftovers(folder: Path, name: str | None) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            match = _LEFTOVER.fullmatch(entry)
            if match is not None and name in (None, match[1]):
                lock = _locked(folder / entry)
                if lock is not None:
                    shutil.rmtree(folder / entry, ignore_errors=True)
                    os.close(lock)


def _locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock; None if another process has it, or there are no locks here."""
    if sys.platform == "win32":
        return None
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        if handle is not None:
            os.close(handle)
        return None
    return handle


def _flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
