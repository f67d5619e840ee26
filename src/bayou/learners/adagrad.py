"""AdaGrad: stochastic gradient on the log loss with a step size per feature, a widely used baseline.

For an example (x, y in {0, 1}) of weight c, with p = S(sum x_i w_i), every active feature does

    g = c (p - y) x + l2 w
    G += g^2                       starts at 0
    w -= learning_rate g / sqrt(G)

There is no epsilon: the length of the first step is the learning rate, and a weight whose G is 0 has not been updated
and stays where it is. The l2 term applies to active features only, so that an update touches only the example's own
features, and never to the intercept. There is no posterior: no variance, intervals or samples.

Merging adds (G, G w): weights are averaged in proportion to their sums of squared gradients.

Paper: Duchi, Hazan, Singer, JMLR 2011; the baseline in marginal-gaussian, section 4.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from bayou.core.checks import check_positive
from bayou.core.gains import GRADIENT
from bayou.core.registry import Record
from bayou.core.sharding import ShardingLearner
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.row_layout import PREFETCH_NONZEROS, BatchArrays, copy_row, prefetch_start
from bayou.kernels.vector import LANES, broadcast, extract_lane, load, replace_lane, sqrt, store, sum_lanes, where_above
from bayou.learners.bases.gradient import LIMIT_32, LIMIT_64, GradientLearner, predict_row, row_scratch
from bayou.learners.bases.location_strength import LocationStrengthSharding, merge_pairs

RECORD = Record(
    "adagrad", "bayou.learners.adagrad:AdaGrad", "AdaGradClassifier", posterior=False, sharding=True,
    summary="stochastic gradient with a step per feature; the baseline people trust",
    paper="marginal-gaussian, section 4 (baseline)",
)  # fmt: skip

# The columns of the state:
#     WEIGHT            w
#     GRADIENT_SQUARES  G, the sum of squared gradients
WEIGHT, GRADIENT_SQUARES = range(2)


class AdaGrad(GradientLearner, ShardingLearner):
    """AdaGrad on the logistic loss.

    Args:
        n_features: number of weights; feature indices start at 0.
        learning_rate: the length of each feature's first step.
        l2: strength of the pull towards 0, applied when a feature is active.
        intercept: whether to add a weight whose feature is always 1.
        dtype: type of the state, "float32" or "float64". The intercept is always kept in float64.

    >>> from bayou import Batch
    >>> learner = AdaGrad(n_features=10, learning_rate=0.5)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0}, {0: 1.0}], labels=[1, 0]))
    >>> float(p[0]), round(float(p[1]), 3)
    (0.5, 0.731)
    """

    name = "adagrad"

    def __init__(
        self,
        n_features: int,
        *,
        learning_rate: float = 0.5,
        l2: float = 0.0,
        intercept: bool = True,
        dtype: Any = None,
    ) -> None:
        rate = check_positive("learning_rate", learning_rate, high=1e6)
        l2 = check_positive("l2", l2, zero=True, high=1e6)
        super().__init__(n_features, intercept, dtype, learning_rate=rate, l2=l2)

    def _run_kernel(self, examples: BatchArrays, score: np.ndarray, probability: np.ndarray) -> None:
        rules = self._parameters["learning_rate"], self._parameters["l2"]
        _stream(examples, self._weights(), *rules, score, probability)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._state[:-1, WEIGHT][features]

    def _intercept(self) -> tuple[float, float]:
        return float(self._intercept_state[WEIGHT]), math.nan

    @property
    def sharding(self) -> LocationStrengthSharding:
        return LocationStrengthSharding(self, GRADIENT, lambda features: np.zeros(len(features)), 0.0)

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        for name, mine in self._arrays().items():
            before = None if base is None else base._arrays()[name]
            merge_pairs(mine, [other._arrays()[name] for other in others], before, rule=GRADIENT)


@kernel
def _stream(examples, weights, learning_rate, l2, score, probability):
    """Predict each row, then learn from it if its weight is not 0."""
    state, intercept = weights.state, weights.intercept
    dtype = state.dtype.type
    spare = np.uint32(len(state) - 1)
    numbers, features = row_scratch(examples.max_row_length, weights, 2)
    xs, ws, squares = numbers[0], numbers[1], numbers[2]
    zero = broadcast(load(xs, 0), 0.0)
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    rate = dtype(learning_rate)
    bias, bias_squares = intercept[WEIGHT], intercept[GRADIENT_SQUARES]
    for row in range(examples.indptr.size - 1):
        size = copy_row(examples, row, 1, xs, features, spare)
        ahead = prefetch_start(examples, row, size, PREFETCH_NONZEROS)
        m = zero
        for k in range(0, size, LANES):
            if ahead >= 0:
                prefetch_pairs(state, examples.indices, ahead + k)
            w, square = gather_pairs(state, features, k)
            if k == 0:
                w, square = replace_lane(w, 0, bias), replace_lane(square, 0, bias_squares)
            m = m + load(xs, k) * w
            store(ws, k, w)
            store(squares, k, square)
        error = dtype(predict_row(examples, row, sum_lanes(m), score, probability))
        if examples.weights[row] == 0.0:
            continue
        for k in range(0, size, LANES):
            w = load(ws, k)
            pull = broadcast(w, l2)
            if k == 0:
                pull = replace_lane(pull, 0, 0.0)
            g = error * load(xs, k) + pull * w
            square = min(load(squares, k) + g * g, most)
            step = where_above(square, 0.0, rate * g / sqrt(square), zero)
            if k == 0:
                bias -= extract_lane(step, 0)
                gradient = np.float64(extract_lane(g, 0))
                bias_squares = min(bias_squares + gradient * gradient, LIMIT_64)
            scatter_pairs(state, features, k, w - step, square)
    state[spare] = 0
    intercept[WEIGHT], intercept[GRADIENT_SQUARES] = bias, bias_squares
