"""Copies of a model for those who want to write it down or look at it, made in parts between its batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from bayou.core.batch import Batch
from bayou.core.gradual_copy import GradualCopy
from bayou.serve.model import LiveModel

Then = Callable[[GradualCopy, int], Any]
Fail = Callable[[str], Any]


class _Waits(NamedTuple):
    then: Then
    fail: Fail


class Copies:
    """Those who wait for a copy. The model's thread makes them; any may ask."""

    def __init__(self) -> None:
        self._waiting: deque[_Waits] = deque()
        self._under_way: tuple[GradualCopy, int, list[_Waits]] | None = None
        self._over = ""

    def __bool__(self) -> bool:
        return bool(self._waiting or self._under_way)

    def ask(self, then: Then, fail: Fail) -> None:
        """Do something with a copy and its version, quickly; or say why there will be none."""
        self._waiting.append(_Waits(then, fail))
        if self._over:
            self._refuse()

    def before(self, piece: Batch) -> None:
        """Rows are about to be learned."""
        if self._under_way is not None:
            self._under_way[0].before(piece)

    def advance(self, model: LiveModel, between_units: bool) -> bool:
        """Copy some more, where that is asked for; whether there was something to do. None begins within a unit."""
        if self._under_way is None and self._waiting and between_units:
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            self._under_way = model.copy(), model.version, waiting
        if self._under_way is None:
            return False
        copied, version, waiting = self._under_way
        if copied.step():
            self._under_way = None
            for one in waiting:
                one.then(copied, version)
        return True

    def end(self, why: str) -> None:
        """There will be no more, for that reason."""
        self._over = why
        if self._under_way is not None:
            self._waiting.extend(self._under_way[2])
            self._under_way = None
        self._refuse()

    def _refuse(self) -> None:
        while True:
            try:
                one = self._waiting.popleft()
            except IndexError:
                return
            one.fail(self._over)
