"""Live statistics of a served model: rates, losses, calibration, label delays, surprises.

They do not affect the model and are not stored in it. Time series are kept for an hour, in slices of ten seconds. There
is a slice for all time that the server was up, with or without rows; where there is none, it was down. Slices follow
the monotonic clock, so that a step of the wall clock moves only their labels.
"""

from __future__ import annotations

import copy
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np

from bayou.core.batch import Batch
from bayou.core.files import whole_file
from bayou.core.printable import MAX_SHOWN_CHARACTERS, printable, shorten
from bayou.serve.base_rate import MARGIN, MIN_ROWS, LabelSums, Sum

# Length of a time slice, and number of slices kept.
SLICE_SECONDS, N_SLICES = 10, 360
# Rates are means over this number of whole seconds.
RATE_SECONDS = 60
BINS = 10
N_SURPRISES, SURPRISE_SECONDS = 8, 900.0
# Traffic was steady before it ended if at least this many slices are known before, of which this fraction has rows.
STEADY_SLICES, STEADY_SHARE = 30, 0.95
# Label delays are recent if their slice is not older than this; the older ones of the hour are the usual ones.
RECENT_DELAYS = 300.0
# Numbers of rows of a unit that are sampled for calibration and drift, and of features whose weights are sampled.
SAMPLED_ROWS, SAMPLED_FEATURES = 128, 40
# Numbers of features whose weights are tracked and shown, and seconds that a movement counts.
MAX_TRACKED_WEIGHTS, N_MOVED, MOVE_SECONDS = 2000, 12, 300.0
# One unit in this many is also predicted by the combination for later rows, to detect drift.
LATER_SAMPLE_PERIOD = 8

# The last hour and the loss curve survive a restart; only the page depends on them. An hour of a model with many
# classes takes a few megabytes.
HISTORY_FILE, MAX_HISTORY_BYTES = "live.json", 64 << 20

_Bins = Annotated[list[Sum], msgspec.Meta(min_length=BINS, max_length=BINS)]


class Clock(NamedTuple):
    """Clocks: `monotonic` for measuring and slicing time, `wall` for display."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class TimeSlice(msgspec.Struct, omit_defaults=True):
    """Sums over one slice of time.

    Attributes:
        index: 0 for the first slice of this process, negative for those before its start.
        later, gap, gap_squares: rows predicted by the frozen model, its excess loss on them, and squares of that.
        calibration: by bins of the prediction: weight, predicted and actual positives.
        labels: sums for the base rate loss.
        delay, delays: the usual time from row to label, and the number of labels.
    """

    index: int
    learned: int = 0
    predicted: int = 0
    weight: Sum = 0.0
    loss: Sum = 0.0
    loss_squares: Sum = 0.0
    sd: Sum = 0.0
    later: int = 0
    gap: float = 0.0
    gap_squares: Sum = 0.0
    calibration: Annotated[list[_Bins], msgspec.Meta(min_length=3, max_length=3)] | None = None
    labels: LabelSums | None = None
    delay: Sum = 0.0
    delays: int = 0


class History(msgspec.Struct):
    """Statistics that survive a restart. `began` is the wall-clock time at which slice 0 began."""

    began: float
    slices: list[TimeSlice]
    curve: list[tuple[int, float]]
    format: Literal["bayou live page"] = "bayou live page"
    version: Literal[1] = 1


class LiveStats:
    """Statistics of one model. The owner thread counts; other threads ask for the live status."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self._lock = threading.Lock()
        self._began = self.clock.monotonic()
        self.slices: deque[TimeSlice] = deque(maxlen=N_SLICES)
        self._seconds: deque[list[int]] = deque(maxlen=RATE_SECONDS + 1)  # second, rows learned, rows predicted
        self._last_row: float | None = None
        self._surprises: dict[int, list[dict[str, Any]]] = {}  # by slice, largest first
        self.counts: Counter[str] = Counter()
        self._curve: list[tuple[int, float]] = []  # (examples, mean loss so far)
        self._next_point = 1.0
        self._watched: dict[int, None] = {}
        self._weights: deque[tuple[float, dict[int, float]]] = deque(maxlen=int(MOVE_SECONDS / 5) + 2)
        self.moved: list[dict[str, Any]] = []
        self.parts: list[dict[str, Any]] = []
        self._units = 0

    def _now(self) -> TimeSlice:
        """Return the current slice, after adding empty ones for time without rows. Needs the lock."""
        index = int((self.clock.monotonic() - self._began) // SLICE_SECONDS)
        last = self.slices[-1].index if self.slices else -1
        first = max(0 if last < 0 else last + 1, index - N_SLICES + 1)
        self.slices.extend(TimeSlice(k) for k in range(first, index + 1))
        return self.slices[-1]

    def _count(self, learned: int, predicted: int) -> None:
        """Count rows for the rates. Needs the lock."""
        self._last_row = self.clock.monotonic()
        second = int(self._last_row)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0, 0])
        self._seconds[-1][1] += learned
        self._seconds[-1][2] += predicted
        self.counts["learned"] += learned
        self.counts["predicted"] += predicted

    # --- counting -----------------------------------------------------------------------------------------------------

    def should_measure_later(self) -> bool:
        """Return whether to measure the later loss of the next unit."""
        self._units += 1
        return self._units % LATER_SAMPLE_PERIOD == 0

    def predicted(self, rows: int, sd: float) -> None:
        with self._lock:
            current = self._now()
            current.predicted += rows
            current.sd += sd
            self._count(0, rows)

    def learned(
        self, batch: Batch, prediction: Any, losses: np.ndarray, frozen: np.ndarray | None, task: str, counters: Any
    ) -> None:
        """Count learned rows, the predictions made before, and the losses of the frozen model."""
        weights = batch.weights_or_ones()
        weighted = weights * losses
        with self._lock:
            current = self._now()
            current.learned += len(batch)
            current.weight += float(weights.sum())
            current.loss += float(weighted.sum())
            current.loss_squares += float(weighted @ losses)
            current.labels = current.labels or LabelSums()
            current.labels.add(np.asarray(batch.labels), weights, task)
            self._count(len(batch), 0)
            if task == "binary":
                current.calibration = (_calibration(batch, prediction.expected) + _calibration_of([current])).tolist()
            if frozen is not None and len(frozen):
                gap = frozen - losses[: len(frozen)]
                current.later += len(gap)
                current.gap += float(gap.sum())
                current.gap_squares += float(gap @ gap)
            if counters.examples >= self._next_point and counters.weight:
                self._curve.append((counters.examples, counters.loss / counters.weight))
                self._next_point = _next_point(counters.examples)
        for feature in batch.indices[:SAMPLED_FEATURES].tolist():
            self._watched[feature] = None
        while len(self._watched) > MAX_TRACKED_WEIGHTS:
            del self._watched[next(iter(self._watched))]

    def joined(self, delays: Sequence[float]) -> None:
        """Count joined labels, given the seconds that each arrived after its row."""
        if delays:
            with self._lock:
                current = self._now()
                total = current.delays + len(delays)
                current.delay += (float(np.median(delays)) - current.delay) * len(delays) / total
                current.delays = total

    def surprises(self, loss: float) -> bool:
        """Return whether a row with this loss is among the most surprising of the current slice."""
        with self._lock:
            listed = self._surprises.get(self._now().index, [])
        return loss > 1.0 and (len(listed) < N_SURPRISES or loss > listed[-1]["loss"])

    def add_surprise(self, loss: float, row: bytes, label: float, expected: float) -> None:
        """Add a surprising row, as it was sent."""
        text = printable(shorten(row[: 4 * MAX_SHOWN_CHARACTERS + 4].decode("utf-8", "replace")))
        surprise = {"loss": round(loss, 3), "row": text, "label": label, "expected": round(expected, 4)}
        with self._lock:
            index = self._now().index
            self._surprises = {k: listed for k, listed in self._surprises.items() if _is_recent(k, index)}
            self._surprises[index] = _greatest([*self._surprises.get(index, ()), surprise])

    def track_weights(self, learner: Any) -> None:
        """Record which weights moved most recently, and the lanes' shares. For the owner, every few seconds."""
        if learner.record.task == "multiclass":
            return
        features = list(self._watched)
        if features:
            now = self.clock.monotonic()
            means = dict(zip(features, learner.weights_at(features).mean.tolist(), strict=True))
            self._weights.append((now, means))
            while now - self._weights[0][0] > MOVE_SECONDS:
                self._weights.popleft()
            base_means: dict[int, float] = {}
            for _, earlier_means in reversed(self._weights):
                base_means |= earlier_means  # the oldest mean wins
            most_moved = sorted(means, key=lambda feature: -abs(means[feature] - base_means[feature]))[:N_MOVED]
            names = learner.extras.names
            called = names.name_of(np.array(most_moved)) if names is not None else [None] * len(most_moved)
            self.moved = [
                {
                    "feature": printable(shorten(name)) if name else f"feature {feature}",
                    "mean": means[feature],
                    "change": means[feature] - base_means[feature],
                }
                for feature, name in zip(most_moved, called, strict=True)
            ]
        self.parts = learner.parts()

    # --- history ------------------------------------------------------------------------------------------------------

    def history(self) -> History:
        """Return the statistics to keep over a restart: the complete slices, and the curve."""
        with self._lock:
            self._now()
            return History(self._wall(0), list(self.slices)[:-1], list(self._curve))

    def restore(self, history: History, examples: int) -> None:
        """Continue from a stored history; the curve is cut at `examples`, the number that the model has learned."""
        with self._lock:
            offset = round((history.began - self._wall(0)) / SLICE_SECONDS)
            first = self._now().index - N_SLICES + 1
            slices = {old.index + offset: old for old in history.slices if first <= old.index + offset < 0}
            for index, old in slices.items():
                old.index = index
            self.slices = deque([slices[k] for k in sorted(slices)] + list(self.slices), N_SLICES)
            self._curve = [point for point in history.curve if point[0] <= examples] + self._curve
            if self._curve:
                self._next_point = _next_point(self._curve[-1][0])

    def _wall(self, index: int) -> float:
        """Return when a slice began, by the current wall clock."""
        return self.clock.wall() - self.clock.monotonic() + self._began + index * SLICE_SECONDS

    # --- reading ------------------------------------------------------------------------------------------------------

    def live_status(self) -> dict[str, Any]:
        """Return all statistics for JSON. The current slice counts in means, but not in the hour or in rates."""
        with self._lock:
            running = self._now()
            slices = [time_slice for time_slice in self.slices if time_slice.index > running.index - N_SLICES]
            slices[-1] = copy.deepcopy(running)
            surprises = [row for k, rows in self._surprises.items() if _is_recent(k, running.index) for row in rows]
            learned, predicted = self._rates()
            now = self.clock.monotonic()
            idle = None if self._last_row is None else now - self._last_row
            curve, began = _thinned(self._curve), self._wall(0)
        return {
            "hour": _hour(slices, began),
            "loss_hour": _share(_sum(slices, "loss"), _sum(slices, "weight")),
            "base": base(slices),
            "curve": curve,
            "learned_per_second": learned,
            "predicted_per_second": predicted,
            "idle": idle,
            "up": now - self._began,
            "steady": _is_steady(slices),
            "delay": _delay(slices),
            "calibration": [
                {"weight": w, "predicted": p / w, "actual": a / w}
                for w, p, a in _calibration_of(slices).T.tolist()
                if w
            ],
            "surprises": _greatest(surprises),
            "moved": self.moved,
            "parts": self.parts,
            "drift": drift(slices),
        }

    def _rates(self) -> tuple[float, float]:
        """Return rows learned and predicted per second over the last minute, or since the start. Needs the lock."""
        now = self.clock.monotonic()
        seconds = min(max(int(now) - int(self._began), 1), RATE_SECONDS)
        counts = [second for second in self._seconds if int(now) - RATE_SECONDS <= second[0] < int(now)]
        return sum(second[1] for second in counts) / seconds, sum(second[2] for second in counts) / seconds


def drift(slices: list[TimeSlice]) -> dict[str, Any] | None:
    """Return how much more a frozen model would have lost in the last hour, and whether that warrants an alarm."""
    n = int(_sum(slices, "later"))
    if n < 100:
        return None
    gap, error = _mean_and_error(_sum(slices, "gap"), _sum(slices, "gap_squares"), n, n)
    loss = _share(_sum(slices, "loss"), _sum(slices, "weight")) or 0.0
    return {"gap": gap, "error": error, "rows": n, "alarm": gap > 0.02 * loss and gap > 3.0 * error}


def base(slices: list[TimeSlice]) -> dict[str, Any] | None:
    """Return the loss of always predicting the base rate, how much better the model is, and whether it is worse."""
    labels, n, weight = LabelSums(), int(_sum(slices, "learned")), _sum(slices, "weight")
    for time_slice in slices:
        if time_slice.labels is not None:
            labels.merge(time_slice.labels)
    constant = labels.loss()
    if not weight or constant is None:
        return None
    loss, error = _mean_and_error(_sum(slices, "loss"), _sum(slices, "loss_squares"), weight, n)
    worse = n >= MIN_ROWS and loss > (1.0 + MARGIN) * constant and loss > constant + 3.0 * error
    return {"loss": constant, "better": 1.0 - loss / constant if constant else None, "rows": n, "alarm": worse}


def _sum(slices: list[TimeSlice], name: str) -> float:
    return sum(getattr(time_slice, name) for time_slice in slices)


def _mean_and_error(total: float, squares: float, weight: float, n: int) -> tuple[float, float]:
    """Return the mean of n values and its standard error, from weighted sums."""
    mean = total / weight
    return mean, math.sqrt(max(squares / weight - mean * mean, 0.0) / n)


def _hour(slices: list[TimeSlice], began: float) -> list[dict[str, Any]]:
    """Return the complete slices in order; those in which the server was down have no numbers."""
    hour = {
        index: {"at": round(began + index * SLICE_SECONDS, 1)} | dict.fromkeys(("learned", "predicted", "loss", "sd"))
        for index in range(slices[0].index, slices[-1].index)
    }
    for time_slice in slices[:-1]:
        hour[time_slice.index] |= {
            "learned": time_slice.learned,
            "predicted": time_slice.predicted,
            "loss": _share(time_slice.loss, time_slice.weight),
            "sd": _share(time_slice.sd, time_slice.predicted),
        }
    return list(hour.values())


def _is_steady(slices: list[TimeSlice]) -> bool:
    """Return whether rows came in nearly all slices up to the last rows."""
    with_rows = [time_slice.index for time_slice in slices if time_slice.learned or time_slice.predicted]
    n_slices = sum(time_slice.index <= with_rows[-1] for time_slice in slices) if with_rows else 0
    return n_slices >= STEADY_SLICES and len(with_rows) >= STEADY_SHARE * n_slices


def _delay(slices: list[TimeSlice]) -> dict[str, float | None]:
    """Return seconds from row to label: recently, usually in this hour, and since the last label."""
    current = slices[-1].index
    last = max((time_slice.index for time_slice in slices if time_slice.delays), default=None)
    recent = [time_slice for time_slice in slices if time_slice.index >= current - RECENT_DELAYS / SLICE_SECONDS]
    usual = [time_slice for time_slice in slices if time_slice.index < current - RECENT_DELAYS / SLICE_SECONDS]
    means = (_share(sum(s.delay * s.delays for s in span), _sum(span, "delays")) for span in (recent, usual))
    silent = None if last is None else float((current - last) * SLICE_SECONDS)
    return dict(zip(("recent", "usual"), means, strict=True)) | {"silent": silent}


def _calibration(batch: Batch, expected: np.ndarray) -> np.ndarray:
    """Return weight, predicted and actual positives by bins of the prediction, from a sample of the rows."""
    step = max(1, len(batch) // SAMPLED_ROWS)
    rows = slice(len(batch) % step, None, step)
    p, weights = expected[rows], step * batch.weights_or_ones()[rows]
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    positive = np.asarray(batch.labels)[rows] > 0
    columns = weights, weights * p, weights * positive
    return np.stack([np.bincount(bins, column, minlength=BINS) for column in columns])


def _calibration_of(slices: Sequence[TimeSlice]) -> np.ndarray:
    """Return the sum of the calibration of slices, as `_calibration` does."""
    return sum((np.array(span.calibration) for span in slices if span.calibration), np.zeros((3, BINS)))


def _greatest(surprises: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(surprises, key=lambda row: -row["loss"])[:N_SURPRISES]


def _is_recent(index: int, current: int) -> bool:
    return (current - index) * SLICE_SECONDS < SURPRISE_SECONDS


def _next_point(examples: int) -> float:
    return max(examples * 1.1, examples + 1)


def _share(total: float, weight: float) -> float | None:
    return total / weight if weight else None


def _thinned(points: list[tuple[int, float]], max_points: int = 200) -> list[tuple[int, float]]:
    step = max(1, len(points) // max_points)
    return points[::step] + (points[-1:] if step > 1 else [])


def save_history(folder: Path, history: History) -> None:
    """Write the history atomically, readable by this user only. It is not flushed: a power cut may lose it."""
    path = folder / HISTORY_FILE
    data = msgspec.json.encode(history)
    with whole_file(path, flush=False) as temporary:
        temporary.write_bytes(data)
    os.chmod(path, 0o600)


def load_history(folder: Path) -> tuple[History | None, str]:
    """Return the stored history, if there is one, and a sentence if it cannot be used."""
    path = folder / HISTORY_FILE
    try:
        if path.stat().st_size > MAX_HISTORY_BYTES:
            raise ValueError(f"it has more than {MAX_HISTORY_BYTES:,} bytes")
        return msgspec.json.decode(path.read_bytes(), type=History), ""
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return None, f"{path} cannot be used ({reason}); the live page starts a new hour; the model is unaffected."
