"""Atomic file writes: a file is written in a temporary folder beside its target, then renamed."""

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

# A new clicks.bayou is in .clicks.bayou.<random>.part/ until it is complete.
_PART = ".part"
_LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part", re.DOTALL)


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether the path exists but is not a regular file (a pipe, a device), so that it cannot be replaced."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], flush: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces `path` if the block succeeds.

    If the block fails, `path` stays as it was and nothing is left behind. A replaced file's permissions are kept. With
    `flush` the file is on disk before the rename, so that this also holds if the power fails. Temporary files of a
    killed process are removed by the next one that writes to the same path.

    A pipe or device (`is_special`) cannot be replaced; then `path` itself is yielded.
    """
    path = Path(os.path.realpath(path))  # the file a link points to, not the link
    if is_special(path):
        yield path
        return
    remove_leftovers(path.parent, path.name)
    with _own_folder(path) as folder:
        temporary = folder / path.name
        old = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
        # Created for its owner only, or with the default permissions if nothing is replaced.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if old is None else 0o600))
        rights = stat.S_IMODE(temporary.stat().st_mode) if old is None else old
        yield temporary
        os.chmod(temporary, rights)  # the writer may have created it again, with other permissions
        if flush:
            _flush(temporary)
        os.replace(temporary, path)
        if flush:
            _flush(path.parent)


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside the path, locked while this process lives, and remove it afterwards."""
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}{_PART}"
    folder.mkdir()
    lock = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove temporary folders that dead processes left for a file of a folder, or for any (None).

    A live process holds a lock on its folder.
    """
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
    """Return a handle that holds the folder's lock; None if another process has it, or locks are unavailable."""
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
    """Flush a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
