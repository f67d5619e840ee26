"""Whose files these are: what is loaded as code must have been written by this user, or by root, and by nobody else.

A folder is safe if it is owned by one of the two and nobody else may write to it. What is above it matters as well, for
who may write to a folder may move what is in it, and put something else in its place:

- In a folder where everybody may write and remove only what is theirs (a sticky one, as /tmp is), ours stays.
- Where others may rename what is ours, they cannot make a folder of ours. They may find one, though, that we have made
  for something else: there only a folder is taken that nobody else may even read, as ours are.
- A link that somebody else has made is not followed.

What was looked at is what is read: files are opened in a folder that is open already, and asked for their owner then.
This is for POSIX; where users have no numbers, everything is taken as before.
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
    """Return why code must not be loaded from a folder, as what follows "for"; None if it may, or is not there yet.

    Args:
        folder: with its files.
        within: a folder whose content is trusted as it is; of what lies in it nothing above is looked at.
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
    """Return what a file in a folder holds; None if somebody else may have written it; OSError if there is none."""
    if not _POSIX:
        return (folder / name).read_bytes()
    link, exposed = _around(folder, within)
    if link is not None:
        return None
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
    try:
        if _why_not(folder, os.fstat(at), exposed) is not None:
            return None
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=at), "rb") as file:
            status = os.fstat(file.fileno())
            regular = stat.S_ISREG(status.st_mode)
            return file.read() if regular and _why_not(folder / name, status) is None else None
    finally:
        os.close(at)


def write(path: Path, content: bytes) -> None:
    """Write a new file that this user alone can write, whatever the umask."""
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | getattr(os, "O_BINARY", 0)
    path.unlink(missing_ok=True)  # of a process that was killed, and had this one's number
    with open(os.open(path, how, 0o644), "wb") as file:
        file.write(content)


def make_folder(folder: Path, mode: int) -> None:
    """Make a folder, and those above it that are missing, with these permissions."""
    if not folder.parent.is_dir():
        make_folder(folder.parent, mode)
    folder.mkdir(mode, exist_ok=True)  # another process may be as quick


def is_own_folder(path: Path) -> bool:
    """Return whether a path is a folder that this user has made, and no link."""
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and (not _POSIX or status.st_uid == os.geteuid())


def _why_not(path: Path, status: os.stat_result, exposed: str | None = None) -> str | None:
    """Return why code in a file or folder may be another user's.

    Args:
        exposed: a folder above it where others may put another one in its place.
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
    """Return another user's link among a folder and all above it, and a folder where others may rename what is ours."""
    link = exposed = None
    named, real = os.path.abspath(folder), os.path.realpath(folder)
    for path in dict.fromkeys([Path(named), *Path(named).parents, Path(real), *Path(real).parents]):
        try:
            status = os.lstat(path)
        except OSError:  # not there yet: we shall make it
            continue
        theirs = status.st_uid not in (0, user)
        if stat.S_ISLNK(status.st_mode):
            link = str(path) if theirs else link
        elif theirs or (status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX):
            exposed = str(path)
    return link, exposed
