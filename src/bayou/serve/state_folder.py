"""State folder of a served model: its log, the model it began with, and snapshots.

    STATE/models/NAME/base.bayou             the model that the log continues from
                      log.sqlite, head       the log
                      snapshots/N.bayou      the model after entry N of the log, written whole
                      live.json              the last hour of the live page

A server holds a lock on the folder, so that no other writes to it. Only the server's user may read folders (0700) and
files (0600): the log has every row as it was sent.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from bayou.core.errors import BadInput, BadModel
from bayou.core.files import remove_leftovers
from bayou.core.incremental_snapshot import IncrementalSnapshot
from bayou.core.learner import Learner
from bayou.core.spelling import option
from bayou.core.storage import load
from bayou.serve.log import Log
from bayou.serve.served_model import ServedModel
from bayou.serve.writers import this_writer, writer_warnings

if sys.platform != "win32":
    import fcntl

DEFAULT = "default"
N_SNAPSHOTS_KEPT = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def check_name(name: str) -> str:
    """Raise BadInput if a name cannot be a model's: it is part of paths and addresses."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"a model is called {name!r}; use up to 64 letters, digits, dots, hyphens and underscores.")
    return name


def names_in(state: Path) -> list[str]:
    """Return the names of the models that a folder holds."""
    models = state / "models"
    if not os.path.isdir(models):  # which also handles names that no folder can have
        return []
    marks = ("base.bayou", "log.sqlite")
    return sorted(entry.name for entry in models.iterdir() if any(os.path.isfile(entry / name) for name in marks))


class StateFolder:
    """State folder of one model."""

    def __init__(self, state: Path, name: str) -> None:
        self.name, self.state = check_name(name), state
        self.path = state / "models" / name
        self.base, self.snapshots = self.path / "base.bayou", self.path / "snapshots"
        self._lock: int | None = None

    @property
    def exists(self) -> bool:
        return os.path.isfile(self.base)

    def check_base(self) -> None:
        """Raise BadModel if the model that the log began with is missing: no other model fits the log."""
        if self.exists or not os.path.isfile(self.path / "log.sqlite"):
            return
        newest = max(self.versions(), default=0)
        hint = f"; or begin a new log: bayou serve --model {self.snapshot(newest)} --data NEW_FOLDER" if newest else ""
        raise BadModel(f"{self.base} is gone, and the log beside it continues from it. Restore it from a copy{hint}.")

    def lock(self) -> str:
        """Lock the folder for this process and make it private; return a sentence if others could read it.

        Incomplete files of a killed process are removed.
        """
        try:
            self.state.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.state, self.path.parent, self.path, self.snapshots):
                if not folder.exists():
                    folder.mkdir(exist_ok=True)
                    folder.chmod(0o700)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise BadInput(
                f"{self.path} cannot be written ({error.strerror}); give another {option('data')}."
            ) from None
        if sys.platform != "win32":
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BadInput(
                    f"{self.path} is in use by another server; give another {option('data')}, or {option('read_only')} "
                    "to follow it."
                ) from None
        for folder in (self.path, self.snapshots):
            remove_leftovers(folder)
        return self._make_private()

    def _make_private(self) -> str:
        """Make the state unreadable to other users; return a warning if they could read it, else ""."""
        if os.name != "posix":
            return ""
        models = self.path.parent
        # Other contents of a folder that the user gave are left alone.
        is_own = {path.name for path in self.state.iterdir()} <= {models.name}
        paths = [*([self.state] if is_own else []), models, self.path, *self.path.rglob("*")]
        warning = ""
        for path in paths:
            try:
                mode = stat.S_IMODE(path.lstat().st_mode)
                if mode & 0o077 and not path.is_symlink():
                    path.chmod(mode & 0o700)
                    warning = warning or f"others could read {path}; access is now restricted to this user"
            except OSError as error:
                warning = f"others can read {path}, and its mode cannot be changed ({error.strerror})"
        return warning

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin(self, learner: Learner) -> None:
        """Save the model that the log continues from."""
        self._save(learner, self.base)

    def _save(self, model: Learner | IncrementalSnapshot, path: Path) -> None:
        model.save(path)
        path.chmod(0o600)

    def versions(self) -> list[int]:
        """Return the versions of the snapshots, the newest first."""
        paths = self.snapshots.glob("*.bayou") if self.snapshots.is_dir() else ()
        return sorted((int(path.stem) for path in paths if path.stem.isdigit()), reverse=True)

    def snapshot(self, version: int) -> Path:
        return self.snapshots / f"{version:012d}.bayou"

    def load(self, log: Log | None, says: list[str]) -> ServedModel:
        """Load the newest undamaged snapshot, or else the model that the log began with; report damaged ones."""
        for version in self.versions():
            if log is not None and version > log.last:
                raise log.damaged(f"it ends at entry {log.last:,}, but there is a snapshot of entry {version:,}")
            try:
                return ServedModel(load(self.snapshot(version)), version)
            except BadModel as error:
                says.append(f"the snapshot of entry {version:,} is ignored: {error}")
        return ServedModel(load(self.base))

    def write(self, copied: IncrementalSnapshot, version: int) -> Path:
        """Write a snapshot, and remove all but the newest ones."""
        path = self.snapshot(version)
        self._save(copied, path)
        for old in self.versions()[N_SNAPSHOTS_KEPT:]:
            self.snapshot(old).unlink(missing_ok=True)
        return path


def replayed(
    state: Path,
    name: str | None = None,
    on_progress: Callable[[int, int], object] = lambda done, last: None,
    on_warning: Callable[[str], object] = lambda sentence: None,
) -> ServedModel:
    """Rebuild the model of a server from its log alone, and return it.

    Args:
        on_warning: called with a sentence for each part of the log that was written on another kind of processor or by
            another version, so that the bits may differ.
    """
    names = names_in(state)
    if not names:
        raise BadInput(f"{state}: no server has stored anything here; give the folder that `bayou serve --data` used.")
    if name is None and len(names) > 1:
        raise BadInput(f"{state} holds several models; choose one with {option('name')}: {', '.join(names)}.")
    folder = StateFolder(state, name or names[0])
    if folder.name not in names:
        raise BadInput(f"{state} holds no model called {folder.name!r}; there are: {', '.join(names)}.")
    folder.check_base()
    log = Log(folder.path, write=False)
    try:
        for sentence in writer_warnings(log.writers, log.last, this_writer()):
            on_warning(sentence)
        model = ServedModel(load(folder.base))
        for unit in log.units():
            model.replay(log, unit)
            on_progress(model.version, log.last)
    finally:
        log.close()
    return model
