"""Clock for waiting rows and labels: the wall clock without its steps."""

from __future__ import annotations

import time
from collections.abc import Callable

# Minimum and maximum speed of following the wall clock, in seconds per second of the monotonic clock.
SLOWEST, FASTEST = 0.5, 2.0


class SteadyClock:
    """Wall time that never steps, as unix time.

    Between two readings it advances with the wall clock, but by no less than half and no more than twice the seconds of
    the monotonic clock. So a wall clock that is thirty days wrong for a second moves it by one second, and a wait of a
    week takes between half a week and two weeks, whatever the wall clock does. Lasting differences are made up
    gradually: a sleep of an hour, during which the monotonic clock stood still, in an hour; a wall clock that was set
    back by an hour, in two.

    It starts at the wall clock's time, but not before `not_before`. No state survives a restart. Not thread-safe.

    Args:
        not_before: the unix time of the last entry of the log; no later entry may have an earlier time.
        wall, monotonic: the two clocks, in seconds.

    Attributes:
        lead: seconds by which `not_before` was ahead of the wall clock; 0 if it was not.

    >>> walls, ticks = iter([100.0, 101.0, 100_000.0, 103.0]), iter([0.0, 1.0, 2.0, 3.0])
    >>> clock = SteadyClock(wall=lambda: next(walls), monotonic=lambda: next(ticks))
    >>> clock(), clock(), clock()
    (101.0, 103.0, 103.5)
    """

    def __init__(
        self,
        not_before: float = 0.0,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._read_at, start = monotonic(), wall()
        self._now = max(start, not_before)
        self.lead = self._now - start

    def __call__(self) -> float:
        read_at = self._monotonic()
        elapsed, self._read_at = read_at - self._read_at, read_at
        self._now = min(max(self._wall(), self._now + SLOWEST * elapsed), self._now + FASTEST * elapsed)
        return self._now
