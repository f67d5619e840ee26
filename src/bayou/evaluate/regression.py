"""Meter for regression: squared loss, R2, absolute error, coverage of intervals, regret."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.errors import BadInput
from bayou.evaluate.base_meter import (
    LOSS,
    WEIGHT,
    BaseEvaluation,
    BaseMeter,
    add_curve_point,
    add_loss,
    column,
    ratio,
)
from bayou.kernels.compiling import kernel

LEVEL = 0.9  # of the intervals whose coverage is reported


@dataclass(frozen=True)
class RegressionEvaluation(BaseEvaluation):
    """Evaluation of a stream of regression predictions. Examples count by their weight; those of weight 0 do not.

    Attributes: those of `BaseEvaluation`, and
        squared_loss: mean of (y - prediction)^2; mean_absolute_error: of |y - prediction|.
        r2: 1 - summed squared loss / that of predicting each label by the mean of those before it (the first by 0), so
            that both start from nothing.
        r2_final: the same against the mean of all labels, known only in hindsight: the R2 of scikit-learn.
        coverage: fraction of labels in the central 90% of their predictive distribution; None if the learner has none.

    >>> meter = RegressionMeter()
    >>> meter.add([1.0, 2.0], labels=[1.0, 4.0])
    >>> meter.result().squared_loss, meter.result().mean_absolute_error
    (2.0, 1.0)
    """

    MEASURES = ("squared_loss", "r2", "r2_final", "mean_absolute_error", "coverage")
    HEADLINE = (
        *(("squared loss", "squared_loss"), ("R2 over the running mean", "r2")),
        *(("mean absolute error", "mean_absolute_error"), ("in 90% intervals", "coverage")),
    )

    squared_loss: float | None
    r2: float | None
    r2_final: float | None
    mean_absolute_error: float | None
    coverage: float | None


# Further slots of `RegressionMeter._totals`.
_ABSOLUTE, _RUNNING, _MEAN, _SCATTER, _COVERED, _JUDGED = range(5, 11)


class RegressionMeter(BaseMeter):
    """Meter of regression predictions, in constant memory.

    `add` also takes `nearer`, the predicted probability of a label nearer to the mean than the actual one, as
    `Prediction.central_probability` returns it; NaN if unknown.

    >>> meter = RegressionMeter()
    >>> meter.add([0.0, 2.0, 4.0], labels=[2.0, 4.0, 3.0], nearer=[0.95, 0.68, 0.38])
    >>> result = meter.result()
    >>> result.squared_loss, result.r2, result.r2_final, round(result.coverage, 3)
    (3.0, -0.125, -3.5, 0.667)
    """

    loss_name, n_totals = "squared_loss", 11

    def _add(
        self, predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray, losses: np.ndarray, nearer: Any = None
    ) -> None:
        means = column(predictions, "means", len(labels))
        levels = np.full(means.size, np.nan) if nearer is None else column(nearer, "nearer", means.size)
        for name, values in (("mean", means), ("label", labels), ("weight", weights), ("comparator's loss", losses)):
            is_valid = np.isfinite(values) & ((values >= 0) | (name != "weight"))
            if not is_valid.all():
                k = int(is_valid.argmin())
                raise BadInput(f"{name} {k} is {values[k]}; it must be a finite number{' >= 0' * (name == 'weight')}.")
        _score(
            means, labels, weights, losses, levels, self.regret, self._totals, self._counts, self._points, self._curve
        )  # fmt: skip

    def _add_known(self, prediction: Any, labels: np.ndarray, weights: Any, **extra: Any) -> None:
        self.add(prediction.expected, labels, weights, nearer=prediction.central_probability(labels), **extra)

    def result(self) -> RegressionEvaluation:
        """Return the evaluation of everything added so far; more can be added later."""
        totals = self._totals
        return RegressionEvaluation(
            **self._shared(),
            squared_loss=self.loss,
            r2=_explained(totals[LOSS], totals[_RUNNING]),
            r2_final=_explained(totals[LOSS], totals[_SCATTER]),
            mean_absolute_error=ratio(totals[_ABSOLUTE], totals[WEIGHT]),
            coverage=ratio(totals[_COVERED], totals[_JUDGED]),
        )


def _explained(loss: float, scatter: float) -> float | None:
    return float(1.0 - loss / scatter) if scatter > 0 else None


@kernel
def _score(means, labels, weights, comparator_losses, nearer, has_comparator, totals, counts, points, curve):
    """Add predictions to the state of a `RegressionMeter`, in order."""
    for k in range(means.size):
        weight = weights[k]
        if weight == 0.0:
            continue
        error = labels[k] - means[k]
        loss = weight * error * error
        totals[_RUNNING] += weight * (labels[k] - totals[_MEAN]) ** 2
        add_loss(totals, weight, loss, has_comparator, comparator_losses[k])
        totals[_ABSOLUTE] += weight * abs(error)
        # mean and scatter of the labels so far (Welford)
        away = labels[k] - totals[_MEAN]
        totals[_MEAN] += weight / totals[WEIGHT] * away
        totals[_SCATTER] += weight * away * (labels[k] - totals[_MEAN])
        if not math.isnan(nearer[k]):
            totals[_JUDGED] += weight
            totals[_COVERED] += weight * (nearer[k] <= LEVEL)
        add_curve_point(totals, counts, points, curve)
