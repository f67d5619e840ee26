"""Checks of output paths before a run starts: each must be writable and must not overwrite another file of the run."""

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
    """Raise BadInput if an output cannot be written, or would overwrite an input or another output.

    Args:
        outputs: paths to write to, keyed by option as the user spells it.
        inputs: data and models to read, as runs take them. A model that is read completely before anything is written
            may be left out, so that it can be overwritten, as by `--resume m.bayou --model m.bayou`.
    """
    for name, path in outputs.items():
        check_output_path(name, path)
    read = {identity for data in inputs for name in _files(data) if (identity := _identity(name, 0)) is not None}
    written: dict[Hashable, str] = {}
    for name, path in outputs.items():
        if path is None or (identity := _identity(os.fspath(path), 1)) is None:
            continue
        if identity in read:
            raise BadInput(f"{name} is {path}, which is also read and would be lost; choose another name.")
        if identity in written:
            raise BadInput(f"{name} is {path}, and so is {written[identity]}; give each its own file.")
        written[identity] = name


def _files(data: Any) -> Iterator[str]:
    """Yield the existing files that data are read from, with globs expanded."""
    for name in names_of(data):
        yield from [name] if name == STANDARD or os.path.exists(name) else glob.glob(name, recursive=True)


def _identity(name: str, standard: int) -> Hashable:
    """Return a key that all names of a file share, links included; None for an input pipe or a device."""
    try:
        status = os.stat(name) if name != STANDARD else os.fstat(0 if standard == 0 else sys.stdout.fileno())
    except (OSError, ValueError):  # a file that does not exist yet, or a standard output without a descriptor
        return name if name == STANDARD else os.path.realpath(name)
    if stat.S_ISREG(status.st_mode):
        return status.st_dev, status.st_ino
    return STANDARD if name == STANDARD and standard == 1 else None


def check_output_path(name: str, path: str | os.PathLike[str] | None) -> None:
    """Raise BadInput if no file can be written to this path."""
    if path is None or checks.check_path(name, path) == "-":
        return
    target = Path(os.path.realpath(path))  # the file a link points to
    if os.path.isdir(target):
        raise BadInput(f"{name} is {path}, which is a folder; no file can be written there. Name a file in it.")
    if not os.path.isdir(target.parent):
        folder = Path(path).parent
        exists = os.path.exists(folder)
        reason = f"{folder} is a file; choose another" if exists else f"there is no folder {folder}; create it first"
        raise BadInput(f"{name} is {path}, but {reason}.")
    if is_special(target):
        return  # a pipe or a device, which is written to directly
    try:  # files are first written under a temporary name in their folder, so that must be possible
        tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=".part").close()
    except OSError as error:
        raise BadInput(
            f"{name} is {path}; no file can be written there ({error.strerror}). Choose another folder or name."
        ) from None
    # even if this run turns out to have been finished before and writes nothing
    remove_leftovers(target.parent, target.name)


def check_report(path: str | os.PathLike[str] | None) -> None:
    """Raise BadInput unless a report's name ends in .html or .htm: any other name is more likely a data file."""
    if path is not None and Path(checks.check_path(option("report"), path)).suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"{option('report')} is {path}; its name must end in .html.")
