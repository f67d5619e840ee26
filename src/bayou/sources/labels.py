"""What a label says: the recipe's rule, applied to the numbers that stand in the data."""

from __future__ import annotations

import numpy as np

from bayou.core.errors import BadInput
from bayou.core.recipe import Recipe

MISSING = "expected a label"
BOTH = (
    "negative labels are written both 0 and -1, and both were taken as negative; if one of them is something else, say "
    "what is positive with --positive or --label-above"
)
# Up to this many labels that are neither 1, 0 nor -1 are bad lines, as up to this share of all are; more are a third
# class.
FEW, SHARE = 5, 0.1


class LabelRule:
    """Turns labels as written into 1 and -1 (or 0), and says which rows have none that counts.

    `positive`: that number is positive, any other negative. `label_above`: above it is positive. Otherwise 1 is
    positive, and -1 or 0 negative. Both in one stream are an error where bad lines are; where those are skipped, both
    are negative, and it is said: a stream without one way to write its negatives would be all positives.
    Where they are `numbers` labels stay as they are: for regression.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.classes = not recipe.numbers
        self._above = recipe.label_above
        self._positive: float | None = None
        self._negative: float | None = None
        if recipe.positive is not None and recipe.kind != "table":  # tables compare text themselves
            try:
                self._positive = float(recipe.positive)
            except ValueError:
                raise BadInput(
                    f"positive is {recipe.positive!r}, but labels in {recipe.kind} data are numbers."
                ) from None

    def read(self, raw: np.ndarray) -> np.ndarray:
        """The labels; NaN where one is missing or says nothing. Remembers nothing: any thread may call it."""
        if not self.classes:
            return raw
        known = ~np.isnan(raw)
        if self._above is not None:
            return np.where(known, np.where(raw > self._above, 1.0, -1.0), np.nan)
        if self._positive is not None:
            return np.where(known, np.where(raw == self._positive, 1.0, -1.0), np.nan)
        return np.where((raw == 1) | (raw == 0) | (raw == -1), raw, np.nan)

    def mixed(self, labels: np.ndarray) -> np.ndarray | None:
        """Rows whose negative label is not written as this stream's first one was; None if there are none."""
        if not self.classes:
            return None
        zeros, minus = labels == 0, labels == -1
        if self._negative is None and (zeros | minus).any():
            self._negative = float(labels[np.argmax(zeros | minus)])
        wrong = minus if self._negative == 0 else zeros
        return wrong if self._negative is not None and wrong.any() else None

    def what(self, raw: float, mixed: bool = False) -> str:
        """What is wrong with a label."""
        if np.isnan(raw):
            return MISSING
        if mixed:
            return (
                f"expected a negative label to be {self._negative:g}, as before in this stream, not {raw:g}; "
                "if both are negative, say --positive 1"
            )
        return f"expected the label 1, 0 or -1, not {raw:g}; say with --positive or --label-above what is positive"
