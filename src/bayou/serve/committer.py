"""The thread that writes the log: whatever has queued up goes into one transaction, and nobody waits for a timer."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from bayou.serve.log import EXPIRE, JSON, Item, Log, NoRoom
from bayou.serve.work import Unit

# Entries of one transaction, at most.
MOST = 4096
# How often ids are looked at whose time is over, in seconds.
LOOK = 1.0


class Committer(threading.Thread):
    """Writes units to the log, in order, and hands them on once they are on disk.

    Attributes:
        commits, committed: how many transactions and entries were written.
        on_commit: called after each transaction with the seconds that it took, the seconds that its oldest unit had
            waited for it, and its entries.
    """

    def __init__(self, log: Log, hand_on: Callable[[Sequence[Unit]], None], broken: Callable[[str], None]) -> None:
        super().__init__(name="bayou-log", daemon=True)
        self._log, self._hand_on, self._broken = log, hand_on, broken
        self._waiting: deque[Unit] = deque()
        self._ready = threading.Condition()
        self._ends = False
        self._looked, self._more = 0.0, False
        self._often = LOOK if log.ids is None else min(LOOK, log.ids.wait / 4)
        self.commits = self.committed = 0
        self.on_commit: Callable[[float, float, int], None] = lambda seconds, waited, entries: None

    def put(self, unit: Unit) -> None:
        unit.queued = time.perf_counter()
        with self._ready:
            self._waiting.append(unit)
            self._ready.notify()

    def end(self) -> None:
        """Write what is left, and stop."""
        with self._ready:
            self._ends = True
            self._ready.notify()

    def run(self) -> None:
        try:
            while self._next():
                pass
        except Exception as error:
            self._broken(f"the log cannot be written ({error})")

    def _next(self) -> bool:
        with self._ready:
            if not self._waiting and not self._ends and not self._more:
                self._ready.wait(min(LOOK, self._often))
            units: list[Unit] = []
            entries = 0
            while self._waiting and entries < MOST:
                units.append(self._waiting.popleft())
                entries += len(units[-1].items)
            ends = self._ends and not self._waiting
        now, ids = time.time(), self._log.ids
        if ids is not None and (self._more or now - self._looked >= self._often):
            self._looked, self._more = now, ids.due(now)
            if self._more:
                units.append(Unit([Item(EXPIRE, JSON, None, b"")], []))
        if units:
            self._commit(units)
        return not ends

    def _commit(self, units: list[Unit]) -> None:
        started = time.perf_counter()
        try:
            self._log.commit([unit.items for unit in units])
            entries = sum(len(unit.items) for unit in units)
            self.commits += 1
            self.committed += entries
            waited = max((started - unit.queued for unit in units if unit.queued), default=0.0)
            self.on_commit(time.perf_counter() - started, waited, entries)
        except NoRoom as error:
            for unit in units:
                unit.failed = str(error)
        self._hand_on(units)
