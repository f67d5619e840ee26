"""Requests and their latencies: since the start for `/metrics`, of the last minute and hour for the live page.

`Telemetry.count` is called once for each request, many thousand times a second, and only appends its latency to a list.
When the second is over, or when a reader asks, the list is added to the totals and to the last minute.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import bayou
from bayou.serve.histogram import COMMIT_BOUNDS, REQUEST_BOUNDS, Histogram

if TYPE_CHECKING:
    from bayou.serve.served import Served

WINDOW_SECONDS, REFUSAL_MINUTES = 60, 60
# Latencies are counted in buckets that grow by about a tenth, so that a quantile is right within 5 %; each bound of the
# exported histogram is one of theirs.
BUCKETS_PER_BOUND = 8
_COARSE = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, *REQUEST_BOUNDS, 25.0, 60.0)
FINE_BOUNDS = np.array(
    [low * (high / low) ** (k / BUCKETS_PER_BOUND) for low, high in pairwise(_COARSE) for k in range(BUCKETS_PER_BOUND)]
)
# The exported bucket of each of them, and of what is beyond them all.
_EXPORTED = [*np.searchsorted(REQUEST_BOUNDS, FINE_BOUNDS).tolist(), len(REQUEST_BOUNDS)]
# Requests of an operator: they take their time, and say nothing about how quickly rows are served.
OPERATOR_ROUTES = frozenset(("/events", "/features", "/info", "/snapshot"))
# Where a 503 is the answer, and no refusal.
PROBES = frozenset(("/healthz", "/readyz"))
# The route of requests whose address is none of the server's.
OTHER = "other"


class RequestKey(NamedTuple):
    """What requests are counted by. `model` is "" where the request is about none."""

    route: str
    model: str
    status: int


class _Window:
    """Latencies of the last minute, in fine buckets."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, dict[int, int]]] = deque()
        self.buckets: Counter[int] = Counter()

    def add(self, second: int, buckets: dict[int, int]) -> None:
        self._seconds.append((second, buckets))
        self.buckets.update(buckets)

    def expire(self, before: int) -> None:
        while self._seconds and self._seconds[0][0] < before:
            self.buckets.subtract(self._seconds.popleft()[1])

    def quantile(self, fraction: float, n: int) -> float | None:
        """Return the latency that this fraction of the n requests did not exceed, None without requests."""
        rank, below = fraction * n, 0
        for k in sorted(k for k, count in self.buckets.items() if count):
            count = self.buckets[k]
            if below + count >= rank:
                low, high = FINE_BOUNDS[max(k - 1, 0)], FINE_BOUNDS[min(k, len(FINE_BOUNDS) - 1)]
                return float(low + (high - low) * (rank - below) / count)
            below += count
        return None


class ModelTimes:
    """What the threads of one model take their time for, in seconds.

    Attributes:
        queue: from a request's arrival until the model's thread took it, the oldest of each batch.
        log_wait: from the oldest request of a transaction until its commit began.
        commit: a transaction of the log, most of it fsync.
    """

    def __init__(self) -> None:
        self.queue = Histogram(COMMIT_BOUNDS)
        self.log_wait = Histogram(COMMIT_BOUNDS)
        self.commit = Histogram(COMMIT_BOUNDS)

    def committed(self, seconds: float, waited: float, entries: int) -> None:
        """Count a transaction of the log. For `Committer.on_commit`."""
        self.commit.observe(seconds)
        self.log_wait.observe(waited)


class Telemetry:
    """Counts of one server. The event loop's thread counts; any may read.

    Attributes:
        requests: how many requests there were of each kind since the start.
        latencies: seconds from the last byte of a request to the first of its answer, by route, since the start.
        times: of each model, where its threads spend their time.
        last_error: when the last failure was (unix time), and the sentence about it.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.started = time.time()
        self._started = clock()
        self.requests: Counter[RequestKey] = Counter()
        self.latencies: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(REQUEST_BOUNDS))
        self.times: defaultdict[str, ModelTimes] = defaultdict(ModelTimes)
        self.last_error: dict[str, Any] | None = None
        self._windows: defaultdict[str, _Window] = defaultdict(_Window)
        self._refused: deque[tuple[int, Counter[tuple[str, int]]]] = deque()
        # Latencies not folded yet. They are appended without a lock, and taken from the front of their list.
        self._pending: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
        self._second, self._ends = int(self._started), float(int(self._started) + 1)
        self._lock = threading.Lock()

    def count(self, route: str, model: str, status: int, started: float) -> None:
        """Count a request that came in at `started` and is answered now."""
        now = self.clock()
        if now >= self._ends:
            self.fold()
        self._pending[route, model, status].append(now - started)

    def failed(self, sentence: str) -> None:
        """Remember an error for the live page."""
        self.last_error = {"at": time.time(), "text": sentence}

    def watch(self, served: Served) -> None:
        """Have a model's threads measured."""
        times, owner = self.times[served.name], served.owner
        if owner is None:
            return
        owner.on_requests = times.queue.observe
        if owner.committer is not None:
            owner.committer.on_commit = times.committed

    # --- reading ------------------------------------------------------------------------------------------------------

    def fold(self) -> None:
        """Bring the totals up to date."""
        with self._lock:
            second = int(self.clock())
            for key, pending in list(self._pending.items()):
                n = len(pending)
                if n:
                    self._fold_latencies(RequestKey(*key), np.array(pending[:n]))
                    del pending[:n]
            self._second, self._ends = second, float(second + 1)
            for window in self._windows.values():
                window.expire(second - WINDOW_SECONDS + 1)
            while self._refused and self._refused[0][0] <= second // 60 - REFUSAL_MINUTES:
                self._refused.popleft()

    def _fold_latencies(self, key: RequestKey, latencies: np.ndarray) -> None:
        """Add the latencies of requests since the last fold, most of them of one second."""
        counts = np.bincount(np.searchsorted(FINE_BOUNDS, latencies))
        buckets = {k: int(counts[k]) for k in np.flatnonzero(counts).tolist()}
        histogram, n = self.latencies[key.route], len(latencies)
        histogram.total += float(latencies.sum())
        for k, count in buckets.items():
            histogram.counts[_EXPORTED[k]] += count
        self.requests[key] += n
        if key.model and key.route not in OPERATOR_ROUTES:
            self._windows[key.model].add(self._second, buckets)
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
        """Return what the live page shows of the server: of a model's requests, and of refused ones about no model."""
        self.fold()
        now = self.clock()
        with self._lock:
            window = self._windows[model]
            n = window.buckets.total()
            refused: Counter[int] = Counter()
            for _, minute in self._refused:
                for (about, status), count in minute.items():
                    if about in (model, ""):
                        refused[status] += count
            # The window has whole seconds and the one under way.
            seconds = max(now - max(self._started, int(now) - WINDOW_SECONDS + 1), 1.0)
            return {
                "started": self.started,
                "uptime": now - self._started,
                "version": bayou.__version__,
                "host": socket.gethostname(),
                "requests_per_second": n / seconds,
                "p50": window.quantile(0.5, n),
                "p99": window.quantile(0.99, n),
                "refused": dict(sorted(refused.items())),
                "last_error": self.last_error,
            }
