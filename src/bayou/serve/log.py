"""The log: everything that changes a model, in order, on disk before any response.

An SQLite database (WAL, synchronous=FULL). One thread writes all queued entries in one transaction. Entries are
numbered from 1 without gaps, and carry a checksum. `unit` identifies those that were learned as one batch, so that a
replay learns the same batches and produces a bit-identical model.

    learn   rows with labels, as they were sent
    row     a row that was predicted under an id, whose label comes later
    label   the label for an id
    expire  rows whose label did not arrive in time, and the default label that they got

Which row a label joins is decided by `LabelJoins`, in the transaction that logs it, and is part of the entry. Long
bodies are compressed (zstd): a log is kept as long as its model, and takes a quarter of the space.

SQLite silently drops everything after a damaged part of its write-ahead log. So after each commit the number of the
last entry is written to a small file, `head`, without waiting for the disk: a log that ends before that number is
reported as damaged.

`meta` holds the version of the schema, the start of the log, and the versions and kind of processor that learned its
entries (`writers`): where those are the same, the same log gives the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import xxhash

from bayou.core.arrow import pa
from bayou.core.errors import BadModel
from bayou.serve.clock import SteadyClock
from bayou.serve.label_joins import KIND_EXPIRE, KIND_ROW, LabelJoins
from bayou.sources.formats.registry import code_of

# Codes of the formats of bodies.
JSON, VW, SVMLIGHT, ARROW = (code_of(name) for name in ("jsonl", "vw", "svmlight", "arrow"))

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE log (
    n INTEGER PRIMARY KEY, unit INTEGER NOT NULL, at REAL NOT NULL, kind INTEGER NOT NULL, form INTEGER NOT NULL,
    key TEXT, body BLOB NOT NULL, joins INTEGER, sum INTEGER NOT NULL
);
"""
_VERSION = "2"
# Page size in bytes: long bodies are written faster in larger pages, single labels in smaller ones.
_PAGE = 16384
# Bodies of at least _LONG bytes are compressed; their form is then larger by _PACKED, and their length precedes them.
_LONG, _PACKED, _LENGTH = 4 * _PAGE, 16, struct.Struct("<q")
_COLUMNS = "n, unit, at, kind, form, key, body, joins, sum"
_INSERT = f"INSERT INTO log ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ABOUT = struct.Struct("<qqdbbq")
_HEAD = struct.Struct("<qqQ")


class BadLog(BadModel):
    """Raised when the log is damaged or cannot be read."""


class LogWriteError(Exception):
    """Raised when the log cannot be written: the disk is full, or the system refuses the write."""


@dataclass(slots=True)
class PendingEntry:
    """Entry to be logged, and its outcome.

    Attributes:
        outcome: for a label one of `label_joins.OUTCOMES`; for a row "remembered", "known" or "joined"; for rows to
            learn "" or "duplicate".
        n: its number in the log; for a duplicate that of the first; 0 if there is none.
        rows_to_learn: rows to learn because of it, each with its label: (form, row, label).
        labeled_ids: for rows to learn, the ids that some have, which no longer wait for labels.
    """

    kind: int
    form: int
    key: str | None
    body: bytes
    outcome: str = ""
    sequence: int = 0
    rows_to_learn: Sequence[tuple[int, bytes, bytes]] = ()
    labeled_ids: Sequence[str] = ()


class LogEntry(NamedTuple):
    """Row of the log's table."""

    sequence: int
    unit: int
    timestamp: float
    kind: int
    form: int
    key: str | None
    body: bytes
    joined_entry: int | None
    checksum: int


def _packed(form: int, body: bytes) -> tuple[int, bytes]:
    """Return a body as the database stores it."""
    if len(body) < _LONG:
        return form, body
    return form + _PACKED, _LENGTH.pack(len(body)) + pa.Codec("zstd", 1).compress(body, asbytes=True)


def _unpacked(form: int, body: bytes) -> tuple[int, bytes]:
    """Return a body as it was sent."""
    if form < _PACKED:
        return form, body
    (length,) = _LENGTH.unpack_from(body)
    return form - _PACKED, pa.Codec("zstd").decompress(memoryview(body)[_LENGTH.size :], length, asbytes=True)


def _checksum(
    sequence: int, unit: int, timestamp: float, kind: int, form: int, key: str | None, body: bytes, joined_entry: Any
) -> int:
    about = _ABOUT.pack(sequence, unit, timestamp, kind, form, -1 if joined_entry is None else joined_entry)
    total = xxhash.xxh3_64(about + (b"" if key is None else b"\0" + key.encode("utf-8", "surrogatepass")) + b"\0")
    total.update(body)  # bodies may be long, so they are not copied
    return total.intdigest() - (1 << 63)  # SQLite's integers are signed


class Log:
    """Log of one model, with its label joins. One thread writes; other threads read through a `Log` of their own.

    Attributes:
        path: the database.
        last, unit: the number of the last entry and of its unit; 0 if there is none.
        clock: the time that entries are stamped with.
        writers: the writers of the log (`bayou.serve.writers`): the first entry and the note of each, oldest first.
    """

    def __init__(self, folder: Path, *, write: bool = True) -> None:
        self.path, self._head_path, self._writes = folder / "log.sqlite", folder / "head", write
        is_new = not self.path.exists() or (write and self._died_in_creation())
        if is_new and not write:
            raise BadLog(f"{folder}: there is no log here; `bayou serve --data` makes one.")
        with self._converted_errors():
            if is_new:  # SQLite gives its other files the same mode
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._db = self._connect()
            if is_new:
                self._db.executescript(f"BEGIN; {_SCHEMA} {LabelJoins.SCHEMA} COMMIT;")
                self.put_meta("version", _VERSION)
                self.put_meta("began", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
            if self.meta("version") != _VERSION:
                raise BadLog(f"{self.path} is a log of another version of bayou ({self.meta('version')}).")
            last = self._db.execute("SELECT n, unit, at FROM log ORDER BY n DESC LIMIT 1").fetchone() or (0, 0, 0.0)
            self.writers: list[tuple[int, dict[str, str]]] = self._noted_writers()
        self.last, self.unit = last[0], last[1]
        self._at, self.clock = 0.0, SteadyClock(last[2])
        self._unsigned: dict[str, str] | None = None
        self._pending: dict[int, LogEntry] = {}  # entries of the current transaction
        self._check_head()
        with self._converted_errors():
            self.ids = LabelJoins(self._db, self._body_of) if write else None
        self._head = os.open(self._head_path, os.O_RDWR | os.O_CREAT, 0o600) if write else None
        self._files = {path: _file_id(path) for path in self._paths if path.exists()}

    @property
    def _paths(self) -> tuple[Path, Path]:
        return self.path, self.path.with_name(f"{self.path.name}-wal")

    def _died_in_creation(self) -> bool:
        """Return whether the process that created the database ended before it wrote anything."""
        return self.path.stat().st_size == 0 and not self._head_path.exists()

    def _connect(self) -> sqlite3.Connection:
        mode = "rwc" if self._writes else "ro&immutable=1" if self._is_immutable() else "ro"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=60.0)
        if self._writes:
            db.execute(f"PRAGMA page_size={_PAGE}")  # for a new database
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA cache_size=-16000")
        return db

    def _is_immutable(self) -> bool:
        """Return whether SQLite cannot write beside this log: an archive, a read-only mount, another user's folder.

        Such a log is read without its write-ahead log, so it is refused if that holds entries.
        """
        folder, wal = self.path.parent, self._paths[1]
        if os.access(folder, os.W_OK) or (wal.exists() and self.path.with_name(f"{self.path.name}-shm").exists()):
            return False
        if wal.exists() and wal.stat().st_size:
            raise BadLog(
                f"{folder} cannot be written, and {wal.name} holds entries that are not in {self.path.name} yet: the "
                "server did not stop before this copy was made. Copy the folder to where it can be written."
            )
        return True

    @contextlib.contextmanager
    def _converted_errors(self) -> Iterator[None]:
        """Convert SQLite's errors to BadLog or LogWriteError, with a message."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if _is_full(error):
                raise LogWriteError(str(error)) from error
            raise BadLog(f"{self.path} cannot be read ({error}); restore it from a copy.") from error
        except sqlite3.DatabaseError as error:
            raise self.damaged(str(error)) from error

    def damaged(self, damage: str) -> BadLog:
        """Return the error for a damaged log. Clients may read it, too, so it mentions no command."""
        return BadLog(
            f"{self.path} is damaged: {damage}. Restore the log from a copy, or start again with the newest snapshot, "
            "as the server's option model, and a new folder, as its option data."
        )

    def meta(self, name: str) -> str | None:
        """Return an entry of the log's metadata; None if it is missing."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def put_meta(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def _noted_writers(self) -> list[tuple[int, dict[str, str]]]:
        try:
            return [(int(first), dict(writer)) for first, writer in json.loads(self.meta("writers") or "[]")]
        except (ValueError, TypeError):  # the notes only explain differences
            return []

    # --- writing ------------------------------------------------------------------------------------------------------

    def sign(self, writer: dict[str, str]) -> bool:
        """Record the writer of the next entry; return whether it differs from the previous one."""
        is_other = not self.writers or self.writers[-1][1] != writer
        self._unsigned = writer if is_other else None
        return is_other

    def commit(self, units: Iterable[Sequence[PendingEntry]], timestamp: float | None = None) -> None:
        """Log all items that change anything and set their outcomes; raise LogWriteError and log none if that fails."""
        assert self.ids is not None
        now = self._at = max(self._at, self.clock() if timestamp is None else timestamp)
        last, unit, lines = self.last, self.unit, self._pending
        with self._transaction():
            for items in units:
                unit += 1
                for item in items:
                    joined_entry = self.ids.apply(item, last + 1, now)
                    if joined_entry is not False:
                        item.sequence = last = last + 1
                        form, body = _packed(item.form, item.body)
                        about = (last, unit, now, item.kind, form, item.key, body, joined_entry)
                        lines[last] = LogEntry(*about, _checksum(*about))
            self._db.executemany(_INSERT, lines.values())
            writers = self.writers
            if self._unsigned is not None and lines:
                writers = [*writers, (self.last + 1, self._unsigned)]
                self.put_meta("writers", json.dumps(writers))
        self.last, self.unit = last, unit
        if writers is not self.writers:
            self.writers, self._unsigned = writers, None
        if self._head is not None and lines:
            with contextlib.suppress(OSError):  # the head only helps to detect damage
                os.pwrite(self._head, _HEAD.pack(last, unit, lines[last].checksum + (1 << 63)), 0)
        lines.clear()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        assert self.ids is not None
        with self._converted_errors():
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self.ids.on_rollback()
                self._pending.clear()
                with contextlib.suppress(sqlite3.Error):
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                raise
        self.ids.on_commit()

    def is_due(self, now: float) -> bool:
        """Return whether some ids have expired."""
        with self._converted_errors():
            return self.ids is not None and self.ids.has_expired(now)

    def try_write(self, n_bytes: int) -> None:
        """Write `n_bytes` bytes and delete them again; raise LogWriteError if they cannot be written."""
        with self._converted_errors():
            self.put_meta("try", "0" * n_bytes)
            self._db.execute("DELETE FROM meta WHERE name = 'try'")

    def is_gone(self) -> bool:
        """Return whether the open files are no longer those at their paths."""
        for path, file_id in self._files.items():
            try:
                if _file_id(path) != file_id:
                    return True
            except FileNotFoundError:
                return True
            except OSError:  # unknown
                return False
        return False

    # --- reading ------------------------------------------------------------------------------------------------------

    def units(self, after: int = 0, until: int | None = None) -> Iterator[list[LogEntry]]:
        """Yield the entries after a number, unit by unit; raise BadLog if some are damaged."""
        expected = after + 1
        unit: list[LogEntry] = []
        for entry in self._entries(after, self.last if until is None else until):
            if entry.sequence != expected or _checksum(*entry[:-1]) != entry.checksum:
                self._refuse(expected, entry.sequence)
            if unit and entry.unit != unit[0].unit:
                yield unit
                unit = []
            form, body = _unpacked(entry.form, entry.body)
            unit.append(entry._replace(form=form, body=body))
            expected += 1
        if expected != (self.last if until is None else until) + 1:
            self._refuse(expected, None)
        if unit:
            yield unit

    def _entries(self, last: int, until: int) -> Iterator[LogEntry]:
        while last < until:
            with self._converted_errors():
                rows = self._db.execute(
                    f"SELECT {_COLUMNS} FROM log WHERE n > ? AND n <= ? ORDER BY n LIMIT 1000", (last, until)
                ).fetchall()
            if not rows:
                return
            yield from map(LogEntry._make, rows)
            last = rows[-1][0]

    def rows_learned_by(self, entry: LogEntry) -> Sequence[tuple[int, bytes, bytes]]:
        """Return the rows that are learned because an entry joins another one or expires rows: (form, row, label)."""
        if entry.kind == KIND_EXPIRE:
            label, _, sequences = entry.body.partition(b"\n")
            return [(*self._body_of(int(sequence)), label) for sequence in sequences.split(b",")]
        if entry.joined_entry is None:
            return ()
        form, joined_body = self._body_of(entry.joined_entry, entry.key)
        return [(entry.form, entry.body, joined_body) if entry.kind == KIND_ROW else (form, joined_body, entry.body)]

    def _body_of(self, sequence: int, key: str | None = None) -> tuple[int, bytes]:
        """Return form and body of entry n; raise BadLog if it is damaged or has another id."""
        entry = self._pending.get(sequence)
        if entry is None:
            entry = self._db.execute(f"SELECT {_COLUMNS} FROM log WHERE n = ?", (sequence,)).fetchone()
        if entry is None or _checksum(*entry[:-1]) != entry[-1] or key not in (None, entry[5]):
            self._refuse(sequence, None)
        return _unpacked(entry[4], entry[6])

    def _refuse(self, expected: int, sequence: int | None) -> NoReturn:
        state = "not whole" if sequence in (expected, None) else "missing"
        raise self.damaged(f"entry {expected:,} is {state}")

    def _check_head(self) -> None:
        """Compare the last entry with the number in the head file, to detect a truncated log."""
        with contextlib.suppress(FileNotFoundError):
            data = self._head_path.read_bytes()
            if len(data) != _HEAD.size:
                return
            sequence, _, total = _HEAD.unpack(data)
            with self._converted_errors():
                row = self._db.execute("SELECT sum FROM log WHERE n = ?", (sequence,)).fetchone()
            if sequence and (row is None or row[0] + (1 << 63) != total):
                raise self.damaged(f"it ends at entry {self.last:,}, but {sequence:,} were acknowledged")

    def size_bytes(self) -> int:
        """Return how many bytes the database and its write-ahead log take on the disk."""
        total = 0
        for path in self._paths:
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total

    def reader(self) -> Log:
        """Return another view of the log, for another thread."""
        return Log(self.path.parent, write=False)

    def close(self) -> None:
        """Write back what is in the write-ahead log, and close."""
        with contextlib.suppress(sqlite3.Error):
            self._db.close()
        if self._head is not None:
            os.close(self._head)
            self._head = None


def _file_id(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_dev, about.st_ino


def _is_full(error: sqlite3.Error) -> bool:
    """Return whether an error is the system's (such as a full disk), and not the database's."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY)
