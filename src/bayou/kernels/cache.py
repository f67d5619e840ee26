"""Where compiled kernels are kept: one file for each kernel and types, found by everything the code depends on.

A folder is named after the sources of all kernels, the versions of Python, Numba and LLVM, and how they are set; a file
after the kernel, the types of its arguments and the processor. So a file is right or not there: an upgrade in place, a
copied virtual environment and other processes that compile at the same time cannot make it wrong. Numba's own cache
knows a kernel's own file alone, and mixes up two processes that save different types of one kernel at once.

Looked for in this order: NUMBA_CACHE_DIR, if it is set; else the package's folder, then the user's cache folder. Saved
in the first that can be written to.

Who can write such a file decides what this process runs, so files are loaded that nobody but this user and root can
have written (`ownership`). A folder of which that is not sure is left out, as if it had not been named; a sentence says
so.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import config

from bayou.kernels import ownership
from bayou.kernels.notices import notice
from bayou.kernels.numba_private import StoredCode

PACKAGE = Path(__file__).parents[1]
# What there is in the package that has no kernels, and nothing that those are made of: the modules that define kernels
# import none of it, and neither does what they import. A test computes it.
WITHOUT_KERNELS = {
    "__init__", "__main__", "cli", "estimators", "plots", "registry", "report", "reproduce", "river", "runs", "serve",
    "spark",
}  # fmt: skip
# Of folders for other sources or settings so many stay.
OTHERS_KEPT = 8

# Whoever says that it compiles a kernel is believed for so long, while its process lives; in seconds. Who it is must be
# said sooner: a process may be killed between the two.
BELIEVED, NAMELESS = 60.0, 1.0


class KernelCache(StoredCode):
    """The files of one kernel, for Numba's dispatcher."""

    def __init__(self, function: Callable[..., Any]) -> None:
        qualified = f"{function.__module__}.{function.__qualname__}"
        self._name = qualified.replace("<", "").replace(">", "").removeprefix("bayou.")
        self._line, self._file = function.__code__.co_firstlineno, function.__code__.co_filename

    @property
    def cache_path(self) -> str:
        return str(next(iter(places()), ""))

    def find(self, sig: Any, processor: Any) -> bytes | None:
        name = self._file_name(sig, processor)
        found = _read(name)
        if found is None and _another_compiles(name):
            found = _read(name)
        return found

    def keep(self, sig: Any, processor: Any, content: bytes) -> None:
        _write(self._file_name(sig, processor), content)

    def _file_name(self, sig: Any, processor: Any) -> str:
        # The sources, too: a folder that somebody else has moved to the place of this one holds no file of this name.
        about = repr((_digest(), self._name, self._line, _elsewhere(self._file), sig, processor)).encode()
        return f"{self._name}-{hashlib.blake2b(about, digest_size=8).hexdigest()}"


@cache
def _elsewhere(file: str) -> bytes:
    """What a file holds that is not one of bayou's, whose sources name the folder: another package's kernel."""
    with suppress(OSError):
        if not Path(file).is_relative_to(PACKAGE):
            return hashlib.blake2b(Path(file).read_bytes()).digest()
    return b""


def places() -> list[Path]:
    """Folders that may hold files of these sources, in the order in which they are looked into.

    Of one that others can write to, a notice says so. If it is the one that was named, the usual ones take its place.
    """
    return _safe(_named()) or _safe(_usual())


@cache
def _named() -> list[Path]:
    # As the environment has it: Numba would also take the word of a file in the current folder, .numba_config.yaml.
    folder = os.environ.get("NUMBA_CACHE_DIR")
    return [Path(os.path.abspath(folder)) / _digest()] if folder else []


@cache
def _usual() -> list[Path]:
    return [base / _digest() for base in (PACKAGE / "__pycache__" / "kernels", _users_folder() / "bayou" / "kernels")]


def _safe(candidates: list[Path]) -> list[Path]:
    found = []
    for place in candidates:
        # Who can write to the package's folder can write its sources: nothing above its kernels matters.
        why = ownership.why_unsafe(place, within=PACKAGE)
        if why is None:
            found.append(place)
        else:
            notice(
                f"compiled kernels in {place.parent} are not used, for {why}; set NUMBA_CACHE_DIR to a folder of your "
                "own, or remove that one"
            )
    return found


def sources() -> Iterator[Path]:
    """All files that kernels may be made of; none, if the package lies in an archive."""
    folders = [PACKAGE] if PACKAGE.is_dir() else []
    while folders:
        folder = folders.pop()
        for entry in os.scandir(folder):
            name = entry.name.removesuffix(".py")
            if name == "__pycache__" or (folder == PACKAGE and name in WITHOUT_KERNELS):
                continue
            if entry.is_dir():
                folders.append(Path(entry.path))
            elif name != entry.name:
                yield Path(entry.path)


@cache
def _digest() -> str:
    about = hashlib.blake2b(digest_size=8)
    for source in sorted(sources()):
        about.update(source.read_bytes())
    versions = sys.modules["bayou"].__version__, sys.version, numba.__version__, llvmlite.__version__
    about.update(repr((versions, config.BOUNDSCHECK, config.OPT, config.CPU_NAME, config.CPU_FEATURES)).encode())
    return about.hexdigest()


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _read(name: str) -> bytes | None:
    """What a file holds, if it is there, whole, and nobody else's."""
    for place in places():
        with suppress(OSError):
            content = ownership.read(place, name, within=PACKAGE)
            if content is not None and zlib.crc32(content[4:]) == int.from_bytes(content[:4], "little"):
                return content[4:]
    return None


def _write(name: str, content: bytes) -> None:
    """Files appear whole or not at all, and whoever writes the same file at the same time writes the same."""
    place = writable()
    if place is None:
        return
    with suppress(OSError):  # a full disk: it will be compiled again
        temporary = place / f"{name}.{os.getpid()}"  # one thread compiles at a time
        try:
            ownership.write(temporary, zlib.crc32(content).to_bytes(4, "little") + content)
            temporary.replace(place / name)
        finally:
            temporary.unlink(missing_ok=True)
            _claim(place, name).unlink(missing_ok=True)


def _another_compiles(name: str) -> bool:
    """Wait while another process compiles this very kernel, and give True then. If none does, say that this one will.

    So processes that need the same kernels share the work: those of a test run, and those of `runs.warming`.
    """
    place = writable()
    if place is None:
        return False
    claim = _claim(place, name)
    while not (place / name).exists():
        try:
            with open(claim, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            if _still_works(claim):
                time.sleep(0.02)
            else:
                claim.unlink(missing_ok=True)
        except OSError:
            return False
        else:
            return False
    return True


def _claim(place: Path, name: str) -> Path:
    return place / f"{name}.claim"


def _still_works(claim: Path) -> bool:
    with suppress(OSError, ValueError):
        age = time.time() - claim.stat().st_mtime
        owner = int(claim.read_text() or 0)  # 0: about to be written
        if age < (BELIEVED if owner else NAMELESS):
            if owner and sys.platform != "win32":  # where it would do more than ask
                os.kill(owner, 0)  # only asks whether it is there
            return owner != os.getpid()
    return False


def writable() -> Path | None:
    """The first of the places that can be written to; None, with a notice, if there is none."""
    for place in places():
        with suppress(OSError):
            if not place.is_dir():
                # Of the package all may read, as its sources: root has compiled for others then.
                ownership.make_folder(place, 0o755 if place.is_relative_to(PACKAGE) else 0o700)
                _clear_others(place)
            if place in places() and os.access(place, os.W_OK):  # still: somebody else may have been quicker
                return place
    notice(cannot_keep())
    return None


@cache
def plain_folder() -> Path | None:
    """A folder for Numba's own files of these sources, which nobody else can even read; None if there is none."""
    place = writable()
    if place is None:
        return None
    ownership.make_folder(place / "plain", 0o700)
    return place / "plain"


def cannot_keep() -> str:
    tried = " nor ".join(str(place.parent) for place in (places() or _usual()))
    return (
        f"compiled kernels cannot be kept, so every start compiles anew: neither {tried} can be written to; set "
        "NUMBA_CACHE_DIR to a folder that can"
    )


def _clear_others(place: Path) -> None:
    """Remove the oldest folders for other sources or settings that this user has made."""
    with suppress(OSError):  # another process does the same
        others = [
            other
            for other in place.parent.iterdir()
            if other != place and re.fullmatch("[0-9a-f]{16}", other.name) and ownership.is_own_folder(other)
        ]
        for other in sorted(others, key=lambda other: other.stat().st_mtime)[:-OTHERS_KEPT]:
            shutil.rmtree(other, ignore_errors=True)
