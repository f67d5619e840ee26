"""Places to write to, checked before the work: a file can be made there, and no other is lost by that."""

from __future__ import annotations

import glob
import os
import stat
import sys
import tempfile
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bayou.core import checks
from bayou.core.errors import BadInput
from bayou.core.files import is_special, remove_leftovers
from bayou.core.spelling import option
from bayou.runs.options import names_of

STANDARD = "-"  # standard input, or standard output


def check_outputs(outputs: Mapping[str, str | os.PathLike[str] | None], *inputs: Any) -> None:
    """Say it before the work if a file can have no place, or would take that of one that is read, or written as well.

    Args:
        outputs: where to write, by option as it is spelled.
        inputs: data and models to read, as runs take them. A model that is read whole before anything is written may
            be left out: then its place can be taken, as by `--resume m.bayou --model m.bayou`.
    """
    for name, path in outputs.items():
        check_place(name, path)
    read = {same for data in inputs for name in _files(data) if (same := _identity(name, 0)) is not None}
    written: dict[Hashable, str] = {}
    for name, path in outputs.items():
        if path is None or (same := _identity(os.fspath(path), 1)) is None:
            continue
        if same in read:
            raise BadInput(f"{name} is {path}, which is to be read, and would be lost; give it another name.")
        if same in written:
            raise BadInput(f"{name} is {path}, and so is {written[same]}; give each a file of its own.")
        written[same] = name


def _files(data: Any) -> Iterator[str]:
    """The files that data are read from, as far as they are there."""
    for name in names_of(data):
        yield from [name] if name == STANDARD or os.path.exists(name) else glob.glob(name, recursive=True)


def _identity(name: str, standard: int) -> Hashable:
    """What two names of one file share, through links of any kind; None of a pipe or a device, which nothing takes."""
    try:
        found = os.stat(name) if name != STANDARD else os.fstat(0 if standard == 0 else sys.stdout.fileno())
    except (OSError, ValueError):  # not there yet; or a standard output that is no file
        return name if name == STANDARD else os.path.realpath(name)
    if stat.S_ISREG(found.st_mode):
        return found.st_dev, found.st_ino
    return STANDARD if name == STANDARD and standard == 1 else None


def check_place(name: str, path: str | os.PathLike[str] | None) -> None:
    """Say it before the work if a file can have no place."""
    if path is None or checks.path(name, path) == "-":
        return
    here = Path(os.path.realpath(path))  # the file a link points to
    if os.path.isdir(here):
        raise BadInput(f"{name} is {path}, which is a folder; no file can be written there. Name a file in it.")
    if not os.path.isdir(here.parent):
        folder = Path(path).parent
        there = os.path.exists(folder)
        why = f"{folder} is a file; choose another" if there else f"there is no folder {folder}; make it first"
        raise BadInput(f"{name} is {path}, but {why}.")
    if is_special(here):
        return  # a pipe or a device, which is written to as it is
    try:  # files are written under another name in their folder; what counts is whether that can be made
        tempfile.NamedTemporaryFile(dir=here.parent, prefix=f".{here.name}.", suffix=".part").close()
    except OSError as error:
        raise BadInput(
            f"{name} is {path}; no file can be written there ({error.strerror}). Choose another folder or name."
        ) from None
    remove_leftovers(here)  # also if this run will write nothing, since it finds that it was finished before


def check_report(path: str | os.PathLike[str] | None) -> None:
    """A report is a page; any other name is rather that of some data."""
    if path is not None and Path(checks.path(option("report"), path)).suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"{option('report')} is {path}; its name must end in .html.")
