"""Disk cache of compiled kernels: one file per kernel and argument types, keyed by everything the code depends on.

A folder is named after the sources of all kernels, the versions of Python, Numba and LLVM, and Numba's settings; a file
after the kernel, the types of its arguments and the processor. So a file is either valid or missing: an upgrade in
place, a copied virtual environment and other processes that compile at the same time cannot make it stale. Numba's own
cache depends on a kernel's own source file only, and confuses two processes that save different types of one kernel at
the same time.

Folders are searched in this order: NUMBA_CACHE_DIR, if it is set; else the package's folder, then the user's cache
folder. Files are saved in the first of them that is writable.

Whoever can write such a file controls what this process runs, so files are loaded only if no one but this user and root
can have written them (`ownership`). A folder that is not safe in this sense is ignored, with a notice.
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
from bayou.kernels.compile_notices import notice
from bayou.kernels.numba_private import StoredCode

PACKAGE = Path(__file__).parents[1]
# Parts of the package that no kernel depends on: modules that define kernels do not import them, directly or
# indirectly. A test computes this set.
WITHOUT_KERNELS = {
    "__init__", "__main__", "cli", "estimators", "plots", "registry", "report", "reproduce", "river", "runs", "serve",
    "spark",
}  # fmt: skip
# Number of folders for other sources or settings that are kept.
OTHERS_KEPT = 8

# Seconds for which a claim to compile a kernel is valid, while its process lives; and until its process id must have
# been written, as a process may be killed before that.
BELIEVED, NAMELESS = 60.0, 1.0


class KernelCache(StoredCode):
    """Cache files of one kernel, as Numba's dispatcher uses them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        qualified = f"{function.__module__}.{function.__qualname__}"
        self._name = qualified.replace("<", "").replace(">", "").removeprefix("bayou.")
        self._line, self._file = function.__code__.co_firstlineno, function.__code__.co_filename

    def find(self, sig: Any, processor: Any) -> bytes | None:
        name = self._file_name(sig, processor)
        content = _read(name)
        if content is None and _wait_for_other_process(name):
            content = _read(name)
        return content

    def keep(self, sig: Any, processor: Any, content: bytes) -> None:
        _write(self._file_name(sig, processor), content)

    def _file_name(self, sig: Any, processor: Any) -> str:
        # Includes the sources: a different folder that was moved to this path has no file of this name.
        about = repr((_digest(), self._name, self._line, _foreign_sources(self._file), sig, processor)).encode()
        return f"{self._name}-{hashlib.blake2b(about, digest_size=8).hexdigest()}"


@cache
def _foreign_sources(file: str) -> bytes:
    """Return the hash of a source file outside of bayou, whose own sources name the folder; b"" for bayou's."""
    with suppress(OSError):
        if not Path(file).is_relative_to(PACKAGE):
            return hashlib.blake2b(Path(file).read_bytes()).digest()
    return b""


def places() -> list[Path]:
    """Return the folders that may hold files of these sources, in search order.

    Folders that others can write to are left out, with a notice. If NUMBA_CACHE_DIR is one, the default ones are used.
    """
    return _safe(_named()) or _safe(_usual())


@cache
def _named() -> list[Path]:
    # From the environment only: Numba would also read it from a file in the current folder, .numba_config.yaml.
    folder = os.environ.get("NUMBA_CACHE_DIR")
    return [Path(os.path.abspath(folder)) / _digest()] if folder else []


@cache
def _usual() -> list[Path]:
    return [base / _digest() for base in (PACKAGE / "__pycache__" / "kernels", _users_folder() / "bayou" / "kernels")]


def _safe(candidates: list[Path]) -> list[Path]:
    folders = []
    for folder in candidates:
        # Whoever can write to the package's folder can change its sources: folders above it do not matter.
        reason = ownership.why_unsafe(folder, within=PACKAGE)
        if reason is None:
            folders.append(folder)
        else:
            notice(
                f"compiled kernels in {folder.parent} are not used, for {reason}; set NUMBA_CACHE_DIR to a folder of "
                "your own, or remove that one"
            )
    return folders


def sources() -> Iterator[Path]:
    """Yield the source files that kernels may depend on; none if the package is in an archive."""
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
    """Return the content of a cache file; None if it is missing, damaged or unsafe."""
    for folder in places():
        with suppress(OSError):
            content = ownership.read(folder, name, within=PACKAGE)
            if content is not None and zlib.crc32(content[4:]) == int.from_bytes(content[:4], "little"):
                return content[4:]
    return None


def _write(name: str, content: bytes) -> None:
    """Write a cache file atomically. Processes that write the same file at the same time write the same content."""
    folder = writable()
    if folder is None:
        return
    with suppress(OSError):  # e.g. a full disk: the kernel will be compiled again
        temporary = folder / f"{name}.{os.getpid()}"  # one thread compiles at a time
        try:
            ownership.write(temporary, zlib.crc32(content).to_bytes(4, "little") + content)
            temporary.replace(folder / name)
        finally:
            temporary.unlink(missing_ok=True)
            _claim(folder, name).unlink(missing_ok=True)


def _wait_for_other_process(name: str) -> bool:
    """Wait while another process compiles this kernel, then return True. If none does, claim it and return False.

    In this way processes that need the same kernels share the work: those of a test run, and those of `runs.warming`.
    """
    folder = writable()
    if folder is None:
        return False
    claim = _claim(folder, name)
    while not (folder / name).exists():
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


def _claim(folder: Path, name: str) -> Path:
    return folder / f"{name}.claim"


def _still_works(claim: Path) -> bool:
    with suppress(OSError, ValueError):
        age = time.time() - claim.stat().st_mtime
        owner = int(claim.read_text() or 0)  # 0: about to be written
        if age < (BELIEVED if owner else NAMELESS):
            if owner and sys.platform != "win32":  # on Windows this would do more than check
                os.kill(owner, 0)  # only checks that it exists
            return owner != os.getpid()
    return False


def writable() -> Path | None:
    """Return the first of `places` that is writable; None, with a notice, if there is none."""
    for folder in places():
        with suppress(OSError):
            if not folder.is_dir():
                # In the package everyone may read it, like the sources: root may have compiled for other users.
                ownership.make_folder(folder, 0o755 if folder.is_relative_to(PACKAGE) else 0o700)
                _remove_old_caches(folder)
            if folder in places() and os.access(folder, os.W_OK):  # again: another user may have been faster
                return folder
    notice(notice_no_cache())
    return None


@cache
def plain_folder() -> Path | None:
    """Return a folder, private to this user, for Numba's own cache files of these sources; None if there is none."""
    folder = writable()
    if folder is None:
        return None
    ownership.make_folder(folder / "plain", 0o700)
    return folder / "plain"


def notice_no_cache() -> str:
    tried = " nor ".join(str(folder.parent) for folder in (places() or _usual()))
    return (
        f"compiled kernels cannot be kept, so every start compiles anew: neither {tried} can be written to; set "
        "NUMBA_CACHE_DIR to a folder that can"
    )


def _remove_old_caches(folder: Path) -> None:
    """Remove this user's oldest folders for other sources or settings."""
    with suppress(OSError):  # another process may do the same
        old_folders = [
            path
            for path in folder.parent.iterdir()
            if path != folder and re.fullmatch("[0-9a-f]{16}", path.name) and ownership.is_own_folder(path)
        ]
        for path in sorted(old_folders, key=lambda path: path.stat().st_mtime)[:-OTHERS_KEPT]:
            shutil.rmtree(path, ignore_errors=True)
