"""What a learner says of examples, and what that means: expected label, score, uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayou.core.errors import NoPosterior, WrongTask


class Scores(NamedTuple):
    """What a kernel answers for each row: the expected label, and the score's mean and variance.

    The expected label is P(y = 1); for a regressor it is the mean, and there is a noise variance of each row besides.
    """

    expected: np.ndarray
    mean: np.ndarray
    variance: np.ndarray | None
    noise: np.ndarray | None = None


@dataclass(frozen=True)
class Prediction:
    """A learner's belief about some examples.

    Of a classifier `probability`, that of label 1, and mean and variance of the score (the log-odds); of a regressor
    mean and variance of the label's expectation, and `noise`, the variance of a label around it. `expected` is the
    expected label of either, which is what `learn` answers with.
    """

    expected: np.ndarray
    mean: np.ndarray
    _variance: np.ndarray | None
    _learner: str
    _noise: np.ndarray | None = None

    @property
    def probability(self) -> np.ndarray:
        """P(y = 1) of each example."""
        if self._noise is not None:
            raise WrongTask(f"{self._learner} predicts numbers, which have no probability; ask for mean and variance.")
        return self.expected

    @property
    def noise(self) -> np.ndarray:
        """How far labels scatter around their expectation, as a variance."""
        if self._noise is None:
            raise WrongTask(f"{self._learner} predicts classes, which have a probability and no noise.")
        return self._noise

    @property
    def variance(self) -> np.ndarray:
        """How unsure the learner is of each score."""
        if self._variance is None:
            raise no_posterior(self._learner)
        return self._variance


def no_posterior(name: str) -> NoPosterior:
    return NoPosterior(
        f"{name} has no posterior, so no variance, intervals or samples; use a Bayesian learner such as marginal."
    )
