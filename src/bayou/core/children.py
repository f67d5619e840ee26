"""Python processes that bayou starts, and the folders they import from: never the current one.

Python puts the current folder before all others for `python -c` and `python -m`, and an empty or relative entry of
PYTHONPATH means it, or a folder in it. That folder often holds data, and the supplier of the data may have put a
`numpy.py` beside them.

    own_python          start a process that imports this bayou
    safe_environment    for processes that libraries start: multiprocessing, pyspark
    protect_command     for the command: this process from now on, and all that it starts

Folders with absolute names stay importable. The folder of bayou itself always does, wherever it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

# The folder that contains the package.
HOME = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def own_python(code: str, *arguments: str, pipes: bool = False) -> subprocess.Popen[bytes]:
    """Start a Python process that imports this bayou, in its own session; without output, or with pipes."""
    import subprocess

    path = os.pathsep.join(dict.fromkeys([HOME, *import_path()]))
    talks = subprocess.PIPE if pipes else subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments],
        stdin=talks, stdout=talks, stderr=None if pipes else subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}, start_new_session=True,
    )  # fmt: skip


def import_path() -> list[str]:
    """Return `sys.path` without the current folder and without the relative entries of PYTHONPATH."""
    absolute, relative = _pythonpath()
    dropped = relative - {HOME, *absolute}
    return [entry for entry in sys.path if os.path.isabs(entry) and entry not in dropped]


@contextmanager
def safe_environment() -> Iterator[None]:
    """Keep Python processes started inside the block from importing from their current folder."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    _clean_environment()
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def protect_command() -> None:
    """Stop importing from the current folder, in this process and all that it starts."""
    sys.path[:] = import_path()
    _clean_environment()


def _clean_environment() -> None:
    absolute, relative = _pythonpath()
    if "PYTHONPATH" in os.environ:
        os.environ["PYTHONPATH"] = os.pathsep.join(absolute + [HOME] * (HOME in relative))
    os.environ["PYTHONSAFEPATH"] = "1"


def _entries() -> list[str]:
    names = os.environ.get("PYTHONPATH", "")
    return names.split(os.pathsep) if names else []


def _pythonpath() -> tuple[list[str], set[str]]:
    """Return the absolute entries of PYTHONPATH; and the relative ones and the current folder as absolute paths."""
    relative = set()
    with suppress(OSError):  # the current folder may be gone: then nothing can be imported from it
        relative = {os.path.abspath(name) for name in ["", *_entries()] if not os.path.isabs(name)}
    return [name for name in _entries() if os.path.isabs(name)], relative
