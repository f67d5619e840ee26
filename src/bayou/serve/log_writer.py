"""Thread that writes the log: everything queued goes into one transaction, without a timer."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence

from bayou.serve.label_joins import KIND_EXPIRE
from bayou.serve.log import JSON, BadLog, Log, LogWriteError, PendingEntry
from bayou.serve.model_requests import LearningUnit
from bayou.serve.telemetry import Times

# Maximum number of entries of a transaction.
MAX_TRANSACTION_ENTRIES = 4096
# Seconds between two checks for expired ids and of the state of the log.
EXPIRY_CHECK_SECONDS = 1.0
# While the disk is full, writes are tried with as many bytes as failed, within these bounds.
MIN_TRIED, MAX_TRIED = 1 << 16, 1 << 20
GONE = (
    "the log was removed, moved or replaced while the server ran, so nothing more is learned or remembered; "
    "predictions are made from memory. Stop the server before you restore a copy of its folder."
)


class LogWriter(threading.Thread):
    """Writer of units to the log, in order, which passes them on once they are on disk.

    Units that cannot be written are passed on with the reason. A full disk may have space again: the next units are
    tried, and while there are none, a small write each second. After any other failure, or once the log was moved, the
    log is broken, and nothing more is written.

    Attributes:
        commits: the number of transactions written.
        no_room: why the last write failed, if none has succeeded since but later ones may; else "".
        broken: why nothing can be written any more; else "".
        on_error: called with an unexpected error, which breaks the log.
        on_look: called about once a second, and when the state of the log has changed.
    """

    def __init__(self, log: Log, times: Times, hand_on: Callable[[Sequence[LearningUnit]], None]) -> None:
        super().__init__(name="bayou-log", daemon=True)
        self._log, self._times, self._hand_on = log, times, hand_on
        self._waiting: queue.SimpleQueue[LearningUnit | None] = queue.SimpleQueue()
        self._looked, self._more = 0.0, False
        self._often = EXPIRY_CHECK_SECONDS if log.ids is None else min(EXPIRY_CHECK_SECONDS, log.ids.wait / 4)
        self._tried = MIN_TRIED
        self.commits = 0
        self.no_room = self.broken = ""
        self.on_error: Callable[[BaseException], None] = traceback.print_exception
        self.on_look: Callable[[], None] = lambda: None

    def submit(self, unit: LearningUnit) -> None:
        unit.queued = time.perf_counter()
        self._waiting.put(unit)

    def close(self) -> None:
        """Write what is queued, then stop."""
        self._waiting.put(None)

    def run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        units, ends = self._taken()
        state = self.no_room, self.broken
        looks = time.monotonic() - self._looked >= self._often
        try:
            if looks:
                self._look_at_log(units)
            if not self.broken:
                self._look_at_ids(units, looks)
            if self.broken:
                _fail(units, f"nothing of this was learned: {self.broken}")
            elif units:
                self._commit(units)
        except LogWriteError as error:
            self._refuse(units, error)
        except Exception as error:
            self._break(units, error)
        if self.broken:
            self._more = False
        if looks or state != (self.no_room, self.broken):
            self.on_look()
        if units:
            self._hand_on(units)
        return not ends

    def _taken(self) -> tuple[list[LearningUnit], bool]:
        """Return the units of the next transaction, and whether they are the last."""
        units: list[LearningUnit] = []
        entries, seconds = 0, 0.0 if self._more else self._often
        with contextlib.suppress(queue.Empty):
            while entries < MAX_TRANSACTION_ENTRIES:
                unit = self._waiting.get(timeout=seconds)
                if unit is None:
                    return units, True
                units.append(unit)
                entries, seconds = entries + len(unit.items), 0.0
        return units, False

    def _look_at_log(self, units: Sequence[LearningUnit]) -> None:
        self._looked = time.monotonic()
        if self.broken:
            return
        if self._log.is_gone():
            self.broken, self.no_room = GONE, ""
        elif self.no_room and not units:
            self._log.try_write(self._tried)
            self.no_room = ""

    def _look_at_ids(self, units: list[LearningUnit], looks: bool) -> None:
        """Add an entry that closes expired ids, if there are any."""
        if self._more or looks:
            self._more = self._log.is_due(self._log.clock())
            if self._more:
                units.append(LearningUnit([PendingEntry(KIND_EXPIRE, JSON, None, b"")], []))

    def _commit(self, units: Sequence[LearningUnit]) -> None:
        started = time.perf_counter()
        self._log.commit([unit.items for unit in units])
        self.no_room = ""
        self.commits += 1
        self._times["log_commit"].observe(time.perf_counter() - started)
        self._times["log_wait"].observe(max((started - unit.queued for unit in units if unit.queued), default=0.0))

    def _refuse(self, units: Sequence[LearningUnit], error: LogWriteError) -> None:
        if self._log.is_gone():
            self.broken, self.no_room = GONE, ""
            _fail(units, f"nothing of this was learned: {GONE}")
            return
        self._more = False
        self.no_room = (
            f"the log cannot be written ({error}): nothing is learned or remembered until there is room; predictions "
            "go on"
        )
        n_bytes = sum(len(item.body) for unit in units for item in unit.items)
        self._tried = min(max(n_bytes, MIN_TRIED), MAX_TRIED)
        reason = f"the log cannot be written ({error}). Make room, and try again."
        _fail(units, f"nothing of this was learned: {reason}")

    def _break(self, units: Sequence[LearningUnit], error: Exception) -> None:
        detail = str(error) if isinstance(error, BadLog) else f"{type(error).__name__}: {error}"
        if not isinstance(error, BadLog):
            self.on_error(error)
        self.no_room = ""
        self.broken = (
            "the log cannot be written any more, so nothing more is learned or remembered; predictions are made "
            f"from memory. {detail.rstrip('.')}. What was acknowledged is in the model in memory; whether the log is "
            "intact shows when the server is started again."
        )
        _fail(units, f"{self.broken} It is unknown whether this request was logged: send it again then, with its id.")


def _fail(units: Sequence[LearningUnit], reason: str) -> None:
    for unit in units:
        unit.failed = reason
