"""Histograms of seconds, as Prometheus wants them: counts up to each bound, and the sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

# From a prediction that waits for nothing to a request that a client has given up on.
REQUEST_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# From a disk with a battery to one that is failing.
COMMIT_BOUNDS = (0.00025, *REQUEST_BOUNDS)


class Histogram:
    """Counts of values by upper bound. One thread observes; any may read.

    Attributes:
        counts: how many values are in each bucket; the last is for values beyond all bounds.
        total: the sum of the values.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """Return (upper bound, values up to there), the last for all values."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))
