"""Request counts and latencies: since the start for `/metrics`, and of the last minute and hour for the live page.

`Telemetry.count` is called once for each request, thousands of times a second, and only appends its latency to a list.
When a second is over, or on reading, the list is added to the totals and to the last minute.
"""

from __future__ import annotations

import socket
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

import bayou

# Histogram bounds in seconds, from an immediate prediction to a request that its client has given up on.
REQUEST_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Histogram bounds in seconds, from a disk with a battery to one that is failing.
COMMIT_BOUNDS = (0.00025, *REQUEST_BOUNDS)
WINDOW_SECONDS, REFUSAL_MINUTES = 60, 60
# Latencies are counted in buckets that grow by about a tenth, so that quantiles are accurate to 5%; the bounds of the
# exported histogram are among theirs.
BUCKETS_PER_BOUND = 8
_COARSE = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, *REQUEST_BOUNDS, 25.0, 60.0)
FINE_BOUNDS = np.array(
    [low * (high / low) ** (k / BUCKETS_PER_BOUND) for low, high in pairwise(_COARSE) for k in range(BUCKETS_PER_BOUND)]
)
# The exported bucket of each fine bucket, and of values beyond them all.
_EXPORTED = np.append(np.searchsorted(REQUEST_BOUNDS, FINE_BOUNDS), len(REQUEST_BOUNDS))
# Requests of an operator: they are slow, and do not show how fast rows are served.
OPERATOR_ROUTES = frozenset(("/events", "/features", "/info", "/snapshot"))
# Routes where a 503 is a regular response and not a refusal.
PROBES = frozenset(("/healthz", "/readyz"))
# Route of requests to unknown addresses.
OTHER = "other"


class RequestKey(NamedTuple):
    """Key by which requests are counted; `model` is "" if a request is about none."""

    route: str
    model: str
    status: int


class Histogram:
    """Counts of values by upper bound. Only one thread may observe; any may read.

    Attributes:
        counts: the number of values in each bucket; the last is for values beyond all bounds.
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


# Seconds that the threads of one model take: `queue`, from a request's arrival until the owner thread took it, for the
# oldest of each batch; `log_wait`, from the oldest request of a transaction until its commit began; `log_commit`, a
# transaction of the log, most of it fsync.
Times = dict[str, Histogram]


def new_times() -> Times:
    return {name: Histogram(COMMIT_BOUNDS) for name in ("queue", "log_wait", "log_commit")}


def _quantile(counts: np.ndarray, fraction: float) -> float | None:
    """Return the latency that this fraction of requests did not exceed, None without requests."""
    up_to = np.cumsum(counts)
    if not up_to[-1]:
        return None
    rank = fraction * up_to[-1]
    k = int(np.searchsorted(up_to, rank))
    low, high = FINE_BOUNDS[max(k - 1, 0)], FINE_BOUNDS[min(k, len(FINE_BOUNDS) - 1)]
    return float(high - (high - low) * (up_to[k] - rank) / counts[k])


class Telemetry:
    """Request counts of one server. Only the event loop's thread counts; any may read.

    Attributes:
        requests: the number of requests of each kind since the start.
        latencies: seconds from the last byte of a request to the first of its answer, by route, since the start.
        times: the times that the threads of each model take, by model.
        last_error: the unix time and the sentence of the last error.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.started = time.time()
        self._started = clock()
        self.requests: Counter[RequestKey] = Counter()
        self.latencies: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(REQUEST_BOUNDS))
        self.times: defaultdict[str, Times] = defaultdict(new_times)
        self.last_error: dict[str, Any] | None = None
        # By model: the seconds of the last minute, and their latencies in fine buckets.
        self._windows: defaultdict[str, deque[tuple[int, np.ndarray]]] = defaultdict(deque)
        self._refused: deque[tuple[int, Counter[tuple[str, int]]]] = deque()
        # Latencies not folded yet. They are appended without a lock, and taken from the front of their list.
        self._pending: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
        self._second, self._ends = int(self._started), float(int(self._started) + 1)
        self._lock = threading.Lock()

    def count(self, route: str, model: str, status: int, started: float) -> None:
        """Count a request that arrived at `started` and is answered now."""
        now = self.clock()
        if now >= self._ends:
            self.fold()
        self._pending[route, model, status].append(now - started)

    def failed(self, sentence: str) -> None:
        """Store an error for the live page."""
        self.last_error = {"at": time.time(), "text": sentence}

    # --- reading ------------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Add pending latencies to the totals, and drop expired ones."""
        with self._lock:
            second = int(self.clock())
            for key, pending in list(self._pending.items()):
                n = len(pending)
                if n:
                    self._fold_latencies(RequestKey(*key), np.array(pending[:n]))
                    del pending[:n]
            self._second, self._ends = second, float(second + 1)
            for window in self._windows.values():
                while window and window[0][0] <= second - WINDOW_SECONDS:
                    window.popleft()
            while self._refused and self._refused[0][0] <= second // 60 - REFUSAL_MINUTES:
                self._refused.popleft()

    def _fold_latencies(self, key: RequestKey, latencies: np.ndarray) -> None:
        """Add the latencies of requests since the last fold, most of them of one second."""
        counts = np.bincount(np.searchsorted(FINE_BOUNDS, latencies), minlength=len(_EXPORTED))
        histogram, n = self.latencies[key.route], len(latencies)
        histogram.total += float(latencies.sum())
        exported = np.array(histogram.counts)
        np.add.at(exported, _EXPORTED, counts)
        histogram.counts = exported.tolist()
        self.requests[key] += n
        if key.model and key.route not in OPERATOR_ROUTES:
            self._windows[key.model].append((self._second, counts))
        if key.status >= 400 and key.route not in PROBES:
            minute = self._second // 60
            if not self._refused or self._refused[-1][0] != minute:
                self._refused.append((minute, Counter()))
            self._refused[-1][1][key.model, key.status] += n

    def refusals(self) -> dict[int, int]:
        """Return how many requests were refused since the start, by status."""
        self.fold()
        counts: Counter[int] = Counter()
        for key, n in self.requests.items():
            if key.status >= 400 and key.route not in PROBES:
                counts[key.status] += n
        return dict(sorted(counts.items()))

    def summary(self, model: str) -> dict[str, Any]:
        """Return the request statistics of a model for the live page, with refused requests about no model."""
        self.fold()
        now = self.clock()
        with self._lock:
            counts = sum((counts for _, counts in self._windows[model]), np.zeros(len(_EXPORTED), np.int64))
            refused: Counter[int] = Counter()
            for _, minute in self._refused:
                for (about, status), count in minute.items():
                    if about in (model, ""):
                        refused[status] += count
            # The window has whole seconds and the current one.
            seconds = max(now - max(self._started, int(now) - WINDOW_SECONDS + 1), 1.0)
            return {
                "started": self.started,
                "uptime": now - self._started,
                "version": bayou.__version__,
                "host": socket.gethostname(),
                "requests_per_second": int(counts.sum()) / seconds,
                "p50": _quantile(counts, 0.5),
                "p99": _quantile(counts, 0.99),
                "refused": dict(sorted(refused.items())),
                "last_error": self.last_error,
            }
