"""Snapshot requests, served in steps between the batches that the model learns."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

from bayou.core.batch import Batch
from bayou.core.incremental_snapshot import IncrementalSnapshot
from bayou.serve.responses import RequestError
from bayou.serve.served_model import ServedModel

Snapshot = tuple[IncrementalSnapshot, int]


class SnapshotQueue:
    """Queue of snapshot requests. Any thread may call `request`; the owner thread copies the model in steps."""

    def __init__(self) -> None:
        self._waiting: deque[Future[Snapshot]] = deque()
        # A snapshot, its version, and for how many of the waiting requests it is: the first ones.
        self._under_way: tuple[IncrementalSnapshot, int, int] | None = None
        self._over = ""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def request(self) -> Future[Snapshot]:
        """Return a future of a snapshot and its version, or of an error. Its callbacks must be fast."""
        future: Future[Snapshot] = Future()
        self._waiting.append(future)
        if self._over:
            self._refuse()
        return future

    def before_learn(self, chunk: Batch) -> None:
        """Copy the parts of the model that the given rows will change; call this before they are learned."""
        if self._under_way is not None:
            self._under_way[0].before_learn(chunk)

    def advance(self, model: ServedModel, between_units: bool) -> bool:
        """Copy a further step if a snapshot is requested; return whether there was work. None begins within a unit."""
        if self._under_way is None and self._waiting and between_units:
            self._under_way = model.copy(), model.version, len(self._waiting)
        if self._under_way is None:
            return False
        copied, version, n_waiting = self._under_way
        if copied.copy_some():
            self._under_way = None
            for _ in range(n_waiting):
                self._waiting.popleft().set_result((copied, version))
        return True

    def close(self, reason: str) -> None:
        """Refuse all waiting and future requests, for the given reason."""
        self._over, self._under_way = reason, None
        self._refuse()

    def _refuse(self) -> None:
        while True:
            try:
                future = self._waiting.popleft()
            except IndexError:
                return
            future.set_exception(RequestError(503, self._over))
