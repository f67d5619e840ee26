"""Checks of file ownership: files that are loaded as code must have been written by this user or root only.

A folder is safe if it is owned by one of the two and no one else can write to it. The folders above it matter as well,
because whoever can write to a folder can replace the folders in it:

- In a sticky folder such as /tmp, others cannot rename or remove our folders.
- Where others can rename our folders, they cannot create a folder that we own. They may move another one of ours there,
  though: so only folders that no one else can even read are accepted there, as ours are created.
- A link that another user has made is not followed.

Files are opened relative to an open folder, and owners are checked on the open files, so that the files checked are the
files read. All of this applies to POSIX; on other systems everything is accepted.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path

_POSIX = hasattr(os, "geteuid")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def why_unsafe(folder: Path, within: Path) -> str | None:
    """Return why code must not be loaded from a folder, to be put after "for"; None if it is safe or missing.

    Args:
        folder: the folder with the files.
        within: a trusted folder; for a folder inside it the folders above are not checked.
    """
    if not _POSIX:
        return None
    link, exposed = _around(folder, within)
    if link is not None:
        return f"{link} is another user's link"
    try:
        status = os.lstat(folder)
    except OSError:  # not there
        return None
    return _why_not(folder, status, exposed)


def read(folder: Path, name: str, within: Path) -> bytes | None:
    """Return the content of a file in a folder; None if another user may have written it. OSError if missing."""
    if not _POSIX:
        return (folder / name).read_bytes()
    link, exposed = _around(folder, within)
    if link is not None:
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
    try:
        if _why_not(folder, os.fstat(descriptor), exposed) is not None:
            return None
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=descriptor), "rb") as file:
            status = os.fstat(file.fileno())
            regular = stat.S_ISREG(status.st_mode)
            return file.read() if regular and _why_not(folder / name, status) is None else None
    finally:
        os.close(descriptor)


def write(path: Path, content: bytes) -> None:
    """Write a new file that only this user can write to, whatever the umask."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_BINARY", 0)
    path.unlink(missing_ok=True)  # left by a killed process with the same process id
    with open(os.open(path, flags, 0o644), "wb") as file:
        file.write(content)


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder, and missing folders above it, with these permissions."""
    if not folder.parent.is_dir():
        make_folder(folder.parent, mode)
    folder.mkdir(mode, exist_ok=True)  # another process may make it at the same time


def is_own_folder(path: Path) -> bool:
    """Return whether a path is a folder, not a link, that this user owns."""
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and (not _POSIX or status.st_uid == os.geteuid())


def _why_not(path: Path, status: os.stat_result, exposed: str | None = None) -> str | None:
    """Return why code in a file or folder may be another user's; None if it cannot be.

    Args:
        exposed: a folder above it in which others can rename or replace folders, if any.
    """
    if stat.S_ISLNK(status.st_mode):
        return f"{path} is a link"
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user"
    if status.st_mode & _OTHERS_WRITE:
        return f"others can write to {path}"
    if exposed is not None and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
        return f"others can write to {exposed}"
    return None


def _around(folder: Path, within: Path) -> tuple[str | None, str | None]:
    return (None, None) if folder.is_relative_to(within) else _above(folder.parent, os.geteuid())


@cache
def _above(folder: Path, user: int) -> tuple[str | None, str | None]:
    """Return a link of another user, and a folder in which others can rename ours, among a folder and those above."""
    link = exposed = None
    named, real = os.path.abspath(folder), os.path.realpath(folder)
    for path in dict.fromkeys([Path(named), *Path(named).parents, Path(real), *Path(real).parents]):
        try:
            status = os.lstat(path)
        except OSError:  # missing: it will be created by this process
            continue
        is_foreign = status.st_uid not in (0, user)
        if stat.S_ISLNK(status.st_mode):
            link = str(path) if is_foreign else link
        elif is_foreign or (status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX):
            exposed = str(path)
    return link, exposed
