"""Base rate loss: the loss of always predicting the distribution of the labels, as a baseline for a model's loss."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np

# With more classes than this there is no comparison, to bound the size of the counts.
MAX_CLASSES = 1000
# Minimum number of rows, and of the relative excess of the loss, for a model to be called worse than the base rate.
MIN_ROWS, MARGIN = 1000, 0.02

Sum = Annotated[float, msgspec.Meta(ge=0.0)]


class LabelSums(msgspec.Struct, omit_defaults=True):
    """Additive weighted sums over labels.

    Attributes:
        classes: total weight of each class; binary classes are -1 and 1. None once there are more than `MAX_CLASSES`.
        weight, mean, squares: for regression: total weight, mean, and weighted sum of squared deviations from it.
    """

    classes: dict[int, Sum] | None = {}
    weight: Sum = 0.0
    mean: float = 0.0
    squares: Sum = 0.0

    def add(self, labels: np.ndarray, weights: np.ndarray, task: str) -> None:
        """Count labels of a task: "binary", "multiclass" or "regression"."""
        total = float(weights.sum())
        if task == "binary":
            positive = float(weights @ (labels > 0))
            self._merge_classes({1: positive, -1: total - positive})
        elif task == "multiclass":
            values, class_indices = np.unique(labels, return_inverse=True)
            totals = np.bincount(class_indices, weights)
            self._merge_classes(dict(zip(values.astype(np.int64).tolist(), totals.tolist(), strict=True)))
        elif total > 0.0:
            mean = float(weights @ labels) / total
            self._merge_moments(total, mean, float(weights @ np.square(labels - mean)))

    def merge(self, sums: LabelSums) -> None:
        """Add the sums of other labels."""
        self._merge_classes(sums.classes)
        self._merge_moments(sums.weight, sums.mean, sums.squares)

    def _merge_classes(self, classes: dict[int, float] | None) -> None:
        if self.classes is None or classes is None:
            self.classes = None
            return
        for label, weight in classes.items():
            self.classes[label] = self.classes.get(label, 0.0) + max(weight, 0.0)
        if len(self.classes) > MAX_CLASSES:
            self.classes = None

    def _merge_moments(self, weight: float, mean: float, squares: float) -> None:
        total = self.weight + weight
        if weight <= 0.0:
            return
        step = mean - self.mean
        self.mean += step * weight / total
        self.squares += squares + step * step * self.weight * weight / total
        self.weight = total

    def loss(self) -> float | None:
        """Return the mean loss of the best constant prediction: entropy of the classes, or variance of the numbers."""
        if self.weight > 0.0:
            return self.squares / self.weight
        weights = [weight for weight in (self.classes or {}).values() if weight > 0.0]
        total = sum(weights)
        return -sum(w / total * math.log(w / total) for w in weights) if weights else None
