"""Base classes of the meters: counts, summed losses, regret, and curves of them.

Their memory does not grow with the stream. `evaluate` drives a learner and a meter together. The meters are in
`binary`, `multiclass` and `regression`; `meters` knows which one a task needs.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayou.core.arrays import as_array
from bayou.core.checks import check_int
from bayou.core.errors import BadInput
from bayou.kernels.inlining import inlined

# Points of a curve per tenfold number of examples.
CURVE_POINTS = 20
# Slots of `_totals` that all meters share.
WEIGHT, LOSS, WINDOW_WEIGHT, WINDOW_LOSS, REGRET = range(5)
# Values at a point of the curve besides the number of examples.
_CURVE_COLUMNS = ("weight", "cumulative_loss", "window_loss", "regret")


@dataclass(frozen=True)
class BaseEvaluation:
    """Evaluation of a stream of predictions, for any task. Examples count by their weight; those of weight 0 do not.

    Attributes:
        examples: number of examples counted; nonzeros: their total number of features.
        skipped: number of examples that the source left out, as set on the meter.
        seconds: time from the creation of the meter to the last example added.
        regret: summed loss minus that of the comparator; normalized_regret: regret / ln(examples).
        curve: columns at about geometrically spaced numbers of examples: `example`; `weight` and `cumulative_loss` so
            far; `log_loss` or `squared_loss`, their ratio; `window_loss`, the mean loss since the last point; `regret`
            if there is one.

    >>> from bayou.evaluate import RegressionMeter
    >>> meter = RegressionMeter()
    >>> meter.add([1.0, 2.0], labels=[1.0, 4.0])
    >>> meter.result().examples, meter.result().curve["cumulative_loss"]
    (2, array([0., 4.]))
    """

    MEASURES: ClassVar[tuple[str, ...]]  # numeric fields specific to the task
    HEADLINE: ClassVar[tuple[tuple[str, str], ...]]  # fields to show first: (display name, field)

    examples: int
    nonzeros: int
    skipped: int
    seconds: float
    regret: float | None
    normalized_regret: float | None
    curve: dict[str, np.ndarray]

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON; undefined ones (such as an AUC without positives) are None."""
        names = ["examples", "nonzeros", "skipped", *self.MEASURES, "seconds"]
        names += [] if self.regret is None else ["regret", "normalized_regret"]
        return {name: getattr(self, name) for name in names}

    def headline(self) -> dict[str, float | None]:
        """Return the numbers to show first, by display name."""
        return {title: getattr(self, name) for title, name in self.HEADLINE}


class BaseMeter:
    """Base class of meters: counts, summed losses, and a curve of them.

    Curves are bitwise independent of how the examples are cut into batches.
    """

    loss_name: ClassVar[str]  # name of the mean loss in results
    n_totals: ClassVar[int]  # length of `_totals`
    _add: Any  # (predictions, labels, weights, losses, **more): score examples; the arrays are as long as each other

    def __init__(self, *, regret: bool = False, curve_points: int = CURVE_POINTS) -> None:
        """Create an empty meter.

        Args:
            regret: whether every `add` passes the comparator's losses.
            curve_points: points of the curve per tenfold number of examples.
        """
        self.regret = regret
        self.nonzeros = 0
        self.skipped = 0
        self._totals = np.zeros(self.n_totals)
        self._points = _curve_examples(curve_points)
        self._curve = np.zeros((len(self._points), len(_CURVE_COLUMNS)))
        self._counts = np.zeros(2, np.int64)  # examples, points of the curve passed
        self._started = self._latest = time.perf_counter()

    @property
    def examples(self) -> int:
        """Number of examples counted so far."""
        return int(self._counts[0])

    @property
    def weight(self) -> float:
        """Sum of the weights of the examples so far."""
        return float(self._totals[WEIGHT])

    @property
    def loss(self) -> float | None:
        """Mean loss so far; None without examples."""
        return ratio(self._totals[LOSS], self._totals[WEIGHT])

    @property
    def seconds(self) -> float:
        """Time from the creation of this meter to the last `add`."""
        return self._latest - self._started

    def add(
        self, predictions: Any, labels: Any, weights: Any = None, *, comparator_losses: Any = None, nonzeros: int = 0,
        **extra: Any,
    ) -> None:  # fmt: skip
        """Score the predictions of some examples. Raise BadInput, and score none, if any is invalid.

        Args:
            predictions: P(y = 1) of each example, or its mean; for multiclass a row for each example, with a column for
                each class.
            labels: 1 and -1 or 0; for multiclass and regression any numbers.
            weights: weights of the examples.
            comparator_losses: losses to measure regret against.
            nonzeros: total number of features of the examples.
            extra: further properties of the predictions, as the meter's class describes them.
        """
        nonzeros, array = check_int("nonzeros", nonzeros, 0), as_array(predictions, "predictions")
        self._add(array, *self._labels_weights_losses(self._n_rows(array), labels, weights, comparator_losses), **extra)
        self.nonzeros += nonzeros
        self._latest = time.perf_counter()

    def _n_rows(self, predictions: np.ndarray) -> int:
        return predictions.size

    def add_prediction(self, prediction: Any, labels: Any, weights: Any = None, **extra: Any) -> None:
        """Score a learner's `Prediction` of some examples as `add` does, without those whose label is missing (NaN).

        >>> from bayou import Batch
        >>> from bayou.evaluate import Meter
        >>> from bayou.learners import Marginal
        >>> meter = Meter()
        >>> meter.add_prediction(Marginal(n_features=2).predict(Batch.from_rows([{}, {}])), [1, np.nan])
        >>> meter.examples, round(meter.log_loss, 3)
        (1, 0.693)
        """
        labels = column(labels, "labels", np.size(labels))
        try:
            self._add_known(prediction, labels, weights, **extra)
        except BadInput:  # nothing was added; missing labels are rare, so they are not checked for in advance
            labeled_rows = np.flatnonzero(~np.isnan(labels))
            if len(labeled_rows) == len(labels):
                raise
            if len(labeled_rows):
                weights = None if weights is None else as_array(weights, "weights")[labeled_rows]
                self._add_known(prediction.take(labeled_rows), labels[labeled_rows], weights, **extra)

    def _add_known(self, prediction: Any, labels: np.ndarray, weights: Any, **extra: Any) -> None:
        self.add(prediction.expected, labels, weights, **extra)

    def _labels_weights_losses(
        self, rows: int, labels: Any, weights: Any, comparator_losses: Any
    ) -> tuple[np.ndarray, ...]:
        """Return labels, weights and comparator losses (weights if there are none) as checked arrays."""
        weights = ones(rows) if weights is None else weights
        if (comparator_losses is not None) != self.regret:
            raise BadInput("comparator_losses must be given if and only if the meter has regret=True.")
        losses = comparator_losses if self.regret else weights
        columns = {"labels": labels, "weights": weights, "comparator_losses": losses}
        return tuple(column(values, name, rows) for name, values in columns.items())

    def _shared(self) -> dict[str, Any]:
        """Return the fields of `BaseEvaluation`."""
        regret = float(self._totals[REGRET]) if self.regret else None
        return {
            "examples": self.examples,
            "nonzeros": int(self.nonzeros),
            "skipped": int(self.skipped),
            "seconds": self.seconds,
            "regret": regret,
            "normalized_regret": regret / math.log(self.examples) if regret is not None and self.examples > 1 else None,
            "curve": self.curve(),
        }

    def curve(self) -> dict[str, np.ndarray]:
        """Return the columns of the curve at the points passed, and at the current example."""
        examples, passed = self._counts
        points, rows = self._points[:passed], self._curve[:passed]
        if examples > (points[-1] if passed else 0):
            totals = self._totals
            window = totals[WINDOW_LOSS] / totals[WINDOW_WEIGHT]
            rows = np.vstack([rows, [totals[WEIGHT], totals[LOSS], window, totals[REGRET]]])
            points = np.append(points, examples)
        curve = {"example": points.copy()}
        curve.update({name: rows[:, k].copy() for k, name in enumerate(_CURVE_COLUMNS)})
        curve[self.loss_name] = curve["cumulative_loss"] / curve["weight"]
        if not self.regret:
            del curve["regret"]
        return curve


def _curve_examples(per_decade: int) -> np.ndarray:
    per_decade = check_int("curve_points", per_decade, 1, 1000)
    exponents = np.arange(15 * per_decade + 1) / per_decade  # enough for a quadrillion examples
    return np.unique(np.rint(10.0**exponents).astype(np.int64))


@dataclass(frozen=True)
class ClassifierEvaluation(BaseEvaluation):
    """Evaluation of a stream of class probabilities; the subclasses describe the fields."""

    MEASURES = ("log_loss", "auc", "accuracy", "brier", "calibration_error")

    log_loss: float | None
    auc: float | None
    accuracy: float | None
    brier: float | None
    calibration_error: float | None
    reliability: dict[str, np.ndarray]


# Further slots of `_totals` in classifiers' meters.
BRIER, RIGHT = 5, 6


class ClassifierMeter(BaseMeter):
    """Base class of the meters for binary and multiclass tasks."""

    loss_name, n_totals = "log_loss", 7

    @property
    def log_loss(self) -> float | None:
        """Mean log loss so far; None without examples."""
        return self.loss

    def _shared(self) -> dict[str, Any]:
        weight = self._totals[WEIGHT]
        accuracy, brier = (ratio(self._totals[k], weight) for k in (RIGHT, BRIER))
        return super()._shared() | {"log_loss": self.log_loss, "accuracy": accuracy, "brier": brier}


def column(values: Any, name: str, size: int) -> np.ndarray:
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{name} must be numbers: {error}.") from None
    if column.shape != (size,):
        raise BadInput(f"{name} have shape {column.shape}, but there are {size} predictions; give one per prediction.")
    return column


def ones(n: int) -> np.ndarray:
    """Return an array of n ones for kernels to read; small ones share memory."""
    return _ONES[:n] if n <= len(_ONES) else np.ones(n)


_ONES = np.ones(2**14)


def ratio(total: float, weight: float) -> float | None:
    """Return total / weight; None if the weight is 0."""
    return float(total / weight) if weight > 0 else None


@inlined
def add_loss(totals, weight, loss, has_comparator, comparator_loss):  # noqa: ANN201
    """Add an example's loss, already multiplied by `weight`, to the totals that all meters share."""
    totals[WEIGHT] += weight
    totals[LOSS] += loss
    totals[WINDOW_WEIGHT] += weight
    totals[WINDOW_LOSS] += loss
    if has_comparator:
        # Summed as differences: two separate sums would be large and nearly equal.
        totals[REGRET] += loss - weight * comparator_loss


@inlined
def add_curve_point(totals, counts, points, curve):  # noqa: ANN201
    """Count an example, and add a point to the curve if one is due."""
    counts[0] += 1
    point = counts[1]
    if point < points.size and counts[0] == points[point]:
        curve[point, 0] = totals[WEIGHT]
        curve[point, 1] = totals[LOSS]
        curve[point, 2] = totals[WINDOW_LOSS] / totals[WINDOW_WEIGHT]
        curve[point, 3] = totals[REGRET]
        totals[WINDOW_WEIGHT] = 0.0
        totals[WINDOW_LOSS] = 0.0
        counts[1] += 1
