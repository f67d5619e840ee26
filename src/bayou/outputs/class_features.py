"""Feature strengths of multiclass models: each class relative to the average class.

Every class has its own weights w_k, changes of its log-odds against the rest, treated as those of a binary model
(`feature_strengths`). Anything that all classes share separates none of them, so the mean over classes is subtracted:

    w_k - sum_j w_j / K        Var = (1 - 2/K) v_k + sum_j v_j / K^2        with classes independent
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayou.core.extras import Extras
from bayou.learners.classes import Classes
from bayou.outputs.features import FeatureStrengths, seen_features, strengths_of


class ClassStrengths:
    """Feature strengths of each class of a learner; recipe, names and uses are those of `extras`, by default its own.

    Attributes:
        names: class names, in the order of the learner's `labels`.

    >>> from bayou import Batch
    >>> learner = Classes(n_features=3, learner="marginal")
    >>> p = learner.learn(Batch.from_rows([{0: 1.0}, {1: 1.0}, {2: 1.0}] * 9, labels=[4, 5, 6] * 9))
    >>> strengths = ClassStrengths(learner)
    >>> strengths.names, int(strengths.of(1).mean.argmax())
    (['4', '5', '6'], 1)
    """

    def __init__(self, learner: Classes, view: str = "model", extras: Extras | None = None) -> None:
        self._learner, self._view, self.names = learner, view, learner.class_names
        self._frame = seen_features(learner, extras)
        # There may be many classes, so only sums over them are kept; each class is recomputed on request.
        self._mean, self._variance = np.zeros((2, len(self._frame.features)))
        self._intercept = self._intercept_variance = 0.0
        for k in range(len(self.names)):
            strengths = self._of(k)
            self._mean += strengths.mean / len(self.names)
            self._intercept += strengths.intercept / len(self.names)
            if strengths.sd is not None:
                self._variance += strengths.sd**2 / len(self.names) ** 2
                self._intercept_variance += strengths.intercept_sd**2 / len(self.names) ** 2

    def __len__(self) -> int:
        return len(self.names)

    @property
    def features(self) -> np.ndarray:
        """Indices of all seen features."""
        return self._frame.features

    def _of(self, index: int) -> FeatureStrengths:
        """Return the strengths of a class against the rest."""
        label, frame = self._learner.labels[index], self._frame
        return strengths_of(
            frame, self._learner.reading_of(label, frame.features, self._view, frame.squares), zeros=False
        )

    def of(self, index: int) -> FeatureStrengths:
        """Return the strengths of a class, given its position in `names`, relative to the average class."""
        strengths, left = self._of(index), 1.0 - 2.0 / len(self.names)
        sd = None if strengths.sd is None else np.sqrt(np.maximum(left * strengths.sd**2 + self._variance, 0.0))
        intercept_sd = float(np.sqrt(max(left * strengths.intercept_sd**2 + self._intercept_variance, 0.0)))
        mean, intercept = strengths.mean - self._mean, strengths.intercept - self._intercept
        return replace(strengths, mean=mean, sd=sd, intercept=intercept, intercept_sd=intercept_sd)
