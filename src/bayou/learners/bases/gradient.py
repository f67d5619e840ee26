"""Base of gradient learners: two numbers per weight (the second is the sum of squared gradients), no posterior."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.learner import Learner, Scores
from bayou.core.validation import LIMIT
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.inlining import inlined
from bayou.kernels.row_layout import BatchArrays, batch_arrays, padded_row_length

# Largest sum of squared gradients, so that everything stays finite for any data.
LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]


class GradientState(NamedTuple):
    """Weight state that a kernel reads and updates in place."""

    state: np.ndarray  # two numbers per weight, and a spare row to pad with
    intercept: np.ndarray  # like a row of the state
    has_intercept: bool


class GradientLearner(Learner):
    """Base class of logistic regression by gradients. A subclass adds its parameters and `_run_kernel`."""

    def __init__(self, n_features: int, intercept: bool, dtype: Any, **parameters: Any) -> None:
        super().__init__(n_features=n_features, dtype=dtype, intercept=intercept, **parameters)
        self._state = aligned_zeros(self._n_features + 1, 2, self._dtype)
        self._intercept_state = np.zeros(2)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"state": self._state[:-1], "intercept": self._intercept_state[None]}

    def _weights(self) -> GradientState:
        return GradientState(self._state, self._intercept_state, self._has_intercept)

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        score, probability = np.empty(len(batch)), np.empty(len(batch))
        self._run_kernel(batch_arrays(batch, signs, weights), score, probability)
        return Scores(probability, score, None)

    def _run_kernel(self, examples: BatchArrays, score: np.ndarray, probability: np.ndarray) -> None:
        """Write score and probability of each row, then learn from the row if its weight is not 0."""
        raise NotImplementedError


@kernel
def row_scratch(longest, weights, count):
    """Allocate (numbers: values and `count` other arrays, features) for any row, with the intercept's value set."""
    room = padded_row_length(longest)
    numbers, features = zeros((1 + count, room), weights.state.dtype), zeros(room, np.uint32)
    numbers[0, 0], features[0] = weights.has_intercept, len(weights.state) - 1
    return numbers, features


@inlined
def predict_row(examples, row, z, score, probability):
    """Write score and probability of a row of score z; return its weighted derivative of the log loss by the score."""
    score[row] = z
    p = 1.0 / (1.0 + math.exp(-score[row]))
    probability[row] = p
    c = examples.weights[row]
    if c == 0.0:
        return 0.0
    return c * (p if examples.labels[row] < 0.0 else -1.0 / (1.0 + math.exp(score[row])))
