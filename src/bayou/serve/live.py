"""What is watched of a model while it is served: rates, losses, calibration, labels, surprises.

Nothing of it is learned from, and none of it is in the model. Numbers over time are kept for an hour.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.core.printable import printable

# Time is cut into slices of so many seconds, and so many are kept.
SLICE, SLICES = 10, 360
BINS = 10
SURPRISES, SURPRISE_AGE = 8, 900.0
# Of a unit of many rows about so many are looked at for calibration and drift, and so many features for their weights.
LOOKED_AT, FEATURES = 128, 40
# Features whose weights are watched, and how long a movement counts.
WATCHED, MOVED, MOVE_AGE = 2000, 12, 300.0
# One unit in so many is also predicted by the combination for later rows, to see whether the stream drifts.
LATER_EVERY = 8
_LONGEST = 300


class Slice:
    """Sums over some seconds."""

    __slots__ = (
        *("at", "calibration", "gap", "gap_squares", "later", "learned", "loss", "predicted", "sd", "surprises"),
        "weight",
    )

    def __init__(self, at: int) -> None:
        self.at = at
        self.learned = self.predicted = 0
        self.weight = self.loss = self.sd = 0.0
        self.gap = self.gap_squares = self.later = 0.0
        self.calibration = np.zeros((3, BINS))  # weight, predicted, actual
        self.surprises: list[dict[str, Any]] = []  # the greatest first


class Live:
    """Watches one model. The owner's thread counts; others ask for a picture."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.slices: deque[Slice] = deque(maxlen=SLICES)
        self.counts: Counter[str] = Counter()
        self._curve: list[tuple[int, float]] = []  # examples, mean loss up to there
        self._next_point = 1.0
        self._watched: dict[int, None] = {}
        self._weights: deque[tuple[float, dict[int, float]]] = deque(maxlen=int(MOVE_AGE / 5) + 2)
        self.moved: list[dict[str, Any]] = []
        self.parts: list[dict[str, Any]] = []
        self._units = 0

    def _now(self) -> Slice:
        at = int(time.time()) // SLICE * SLICE
        if not self.slices or self.slices[-1].at != at:
            self.slices.append(Slice(at))
        return self.slices[-1]

    # --- counting -----------------------------------------------------------------------------------------------------

    def asks_later(self) -> bool:
        """Whether the next unit is one whose later loss is measured."""
        self._units += 1
        return self._units % LATER_EVERY == 0

    def predicted(self, rows: int, sd: float) -> None:
        with self._lock:
            now = self._now()
            now.predicted += rows
            now.sd += sd
            self.counts["predicted"] += rows

    def learned(
        self, batch: Batch, told: Any, losses: np.ndarray, later: np.ndarray | None, task: str, counters: Any
    ) -> None:
        """Rows that were learned, what was said of them before, and what the frozen model would have lost."""
        weights = batch.weights
        with self._lock:
            now = self._now()
            now.learned += len(batch)
            now.weight += len(batch) if weights is None else float(weights.sum())
            now.loss += float(losses.sum() if weights is None else weights @ losses)
            self.counts["learned"] += len(batch)
            if task == "classify":
                now.calibration += _calibration(batch, told.expected)
            if later is not None and len(later):
                gap = later - losses[: len(later)]
                now.later += len(gap)
                now.gap += float(gap.sum())
                now.gap_squares += float(gap @ gap)
            if counters.examples >= self._next_point and counters.weight:
                self._curve.append((counters.examples, counters.loss / counters.weight))
                self._next_point = max(counters.examples * 1.1, counters.examples + 1)
        for feature in batch.indices[:FEATURES].tolist():
            self._watched[feature] = None
        while len(self._watched) > WATCHED:
            del self._watched[next(iter(self._watched))]

    def surprises(self, loss: float) -> bool:
        """Whether a row of this loss is among those whose labels were least expected, these seconds."""
        known = self._now().surprises
        return loss > 1.0 and (len(known) < SURPRISES or loss > known[-1]["loss"])

    def surprising(self, loss: float, row: bytes, label: float, expected: float) -> None:
        """One of those rows, as it was sent."""
        text = printable(row[:_LONGEST].decode("utf-8", "replace")) + ("…" if len(row) > _LONGEST else "")
        told = {"loss": round(loss, 3), "row": text, "label": label, "expected": round(expected, 4)}
        with self._lock:
            now = self._now()
            now.surprises = _greatest([*now.surprises, told])

    def look_at_weights(self, learner: Any) -> None:
        """Which weights have moved most of late, and what the lanes weigh. For the owner, every few seconds."""
        if learner.record.task == "classes":
            return
        features = list(self._watched)
        if features:
            now = time.time()
            means = dict(zip(features, learner.weights_at(features).mean.tolist(), strict=True))
            self._weights.append((now, means))
            while now - self._weights[0][0] > MOVE_AGE:
                self._weights.popleft()
            before: dict[int, float] = {}
            for _, known in self._weights:
                for feature, mean in known.items():
                    before.setdefault(feature, mean)
            moved = sorted(means, key=lambda feature: -abs(means[feature] - before[feature]))[:MOVED]
            names = learner.extras.names
            called = names.name_of(np.array(moved)) if names is not None else [None] * len(moved)
            self.moved = [
                {
                    "feature": printable(name) if name else f"feature {feature}",
                    "mean": means[feature],
                    "change": means[feature] - before[feature],
                }
                for feature, name in zip(moved, called, strict=True)
            ]
        self.parts = learner.parts()

    # --- telling ------------------------------------------------------------------------------------------------------

    def picture(self) -> dict[str, Any]:
        """All of it, as JSON can say it."""
        now = time.time()
        with self._lock:
            slices = [part for part in self.slices if part.at > now - SLICE * SLICES]
            calibration = sum((part.calibration for part in slices), np.zeros((3, BINS)))
            curve = _thinned(self._curve)
            recent = _greatest([told for part in slices if part.at > now - SURPRISE_AGE for told in part.surprises])
        # The present slice is not over yet.
        last = [part for part in slices if part.at > now - 7 * SLICE and part.at < now - SLICE] or slices[-1:]
        seconds = max(SLICE * len(last), 1)
        return {
            "hour": [
                {
                    "at": part.at,
                    "learned": part.learned,
                    "predicted": part.predicted,
                    "loss": part.loss / part.weight if part.weight else None,
                    "sd": part.sd / part.predicted if part.predicted else None,
                }
                for part in slices
            ],
            "loss_hour": _share(sum(part.loss for part in slices), sum(part.weight for part in slices)),
            "curve": curve,
            "learned_per_second": sum(part.learned for part in last) / seconds,
            "predicted_per_second": sum(part.predicted for part in last) / seconds,
            "calibration": [
                {"weight": w, "predicted": p / w, "actual": a / w} for w, p, a in calibration.T.tolist() if w
            ],
            "surprises": recent,
            "moved": self.moved,
            "parts": self.parts,
            "drift": drift(slices),
        }


def drift(slices: list[Slice]) -> dict[str, Any] | None:
    """How much more a model would have lost in the last hour that learns no more; whether that is an alarm."""
    n = sum(part.later for part in slices)
    if n < 100:
        return None
    gap = sum(part.gap for part in slices) / n
    error = math.sqrt(max(sum(part.gap_squares for part in slices) / n - gap * gap, 0.0) / n)
    loss = _share(sum(part.loss for part in slices), sum(part.weight for part in slices)) or 0.0
    return {"gap": gap, "error": error, "rows": n, "alarm": gap > 0.02 * loss and gap > 3.0 * error}


def _calibration(batch: Batch, expected: np.ndarray) -> np.ndarray:
    """Weight, what was predicted and what came, by bins of the prediction; some rows stand for all."""
    step = max(1, len(batch) // LOOKED_AT)
    rows = slice(len(batch) % step, None, step)
    p, weights = expected[rows], step * batch.each_weight()[rows]
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    positive = np.asarray(batch.labels)[rows] > 0
    columns = weights, weights * p, weights * positive
    return np.stack([np.bincount(bins, column, minlength=BINS) for column in columns])


def _greatest(surprises: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(surprises, key=lambda told: -told["loss"])[:SURPRISES]


def _share(total: float, weight: float) -> float | None:
    return total / weight if weight else None


def _thinned(points: list[tuple[int, float]], most: int = 200) -> list[tuple[int, float]]:
    step = max(1, len(points) // most)
    return points[::step] + (points[-1:] if step > 1 else [])
