"""FTRL-proximal: follow the regularized leader, with a step size per feature and weights that are exactly 0.

For an example (x, y in {0, 1}) of weight c, with p = S(sum x_i w_i), every active feature does

    w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)      before it is used
    g = c (p - y) x
    s = (sqrt(n + g^2) - sqrt(n)) / alpha
    z += g - s w,   n += g^2                                                              both start at 0

Weights are never stored: they are computed from (z, n) when they are needed, so that l1 and l2 act on all features at
all times while an update touches only the example's own features. w is the minimizer of
sum g w + sum s (w - w_then)^2 / 2 + l1 |w| + (beta / alpha + l2) w^2 / 2. l1 and l2 do not apply to the intercept.
There is no posterior: no variance, intervals or samples.

Merging adds (n, z sqrt(n)): weights are averaged in proportion to their sums of squared gradients.

Paper: McMahan et al., Ad click prediction: a view from the trenches, KDD 2013,
Algorithm 1; the baseline in olss, section V.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from bayou.core.checks import check_positive
from bayou.core.registry import Record
from bayou.core.validation import LIMIT
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.rounding import add_dithered
from bayou.kernels.row_layout import PREFETCH_NONZEROS, BatchArrays, copy_row, prefetch_start
from bayou.kernels.vector import LANES, broadcast, extract_lane, load, replace_lane, sqrt, store, sum_lanes, where_above
from bayou.learners.bases.gradient import LIMIT_32, LIMIT_64, GradientLearner, predict_row, row_scratch
from bayou.learners.bases.location_strength import merge_pairs

RECORD = Record(
    "ftrl", "bayou.learners.ftrl:FTRL", "FTRLClassifier", posterior=False,
    summary="follow the regularised leader, with exact zeros; the sparse baseline people trust",
    paper="olss, section V (baseline)",
)  # fmt: skip

# The columns of the state:
#     Z         z, the sum of gradients, corrected for the steps taken so far
#     SQUARES   n, the sum of squared gradients
Z, SQUARES = range(2)


class FTRL(GradientLearner):
    """FTRL-proximal on the logistic loss.

    Args:
        n_features: number of weights; feature indices start at 0.
        alpha: learning rate, which scales every step.
        beta: added to sqrt(n) in the step size; larger values make a feature's first steps shorter.
        l1: strength of the L1 penalty; weights with |z| <= l1 are 0, so larger values make a smaller model.
        l2: strength of the L2 penalty.
        intercept: whether to add a weight whose feature is always 1, without l1 or l2 penalty.
        dtype: type of the state, "float32" or "float64". The intercept is always kept in float64.

    >>> from bayou import Batch
    >>> learner = FTRL(n_features=10, alpha=0.5, l1=0.6)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(learner.mean[0] > 0), float(learner.mean[1])
    (True, 0.0)
    """

    name = "ftrl"

    def __init__(
        self,
        n_features: int,
        *,
        alpha: float = 0.1,
        beta: float = 1.0,
        l1: float = 0.0,
        l2: float = 0.0,
        intercept: bool = True,
        dtype: Any = None,
    ) -> None:
        alpha = check_positive("alpha", alpha, high=1e6)
        beta = check_positive("beta", beta, zero=True, high=1e6)
        l1 = check_positive("l1", l1, zero=True, high=1e15)
        l2 = check_positive("l2", l2, zero=True, high=1e15)
        super().__init__(n_features, intercept, dtype, alpha=alpha, beta=beta, l1=l1, l2=l2)

    def _run_kernel(self, examples: BatchArrays, score: np.ndarray, probability: np.ndarray) -> None:
        p = self._parameters
        rules = p["alpha"], p["beta"], p["l1"], p["l2"]
        _stream(examples, self._weights(), *rules, np.uint64(self._examples), score, probability)

    @property
    def selected(self) -> np.ndarray:
        """The features whose weights are not 0, in ascending order."""
        return np.flatnonzero(self.mean)

    def _mean_at(self, features: Any) -> np.ndarray:
        p = self._parameters
        return self._weights_of(self._state[:-1][features], p["l1"], p["l2"])

    def _intercept(self) -> tuple[float, float]:
        return float(self._weights_of(self._intercept_state[None], 0.0, 0.0)[0]), math.nan

    def _weights_of(self, rows: np.ndarray, l1: float, l2: float) -> np.ndarray:
        """Return the weights of these rows of (z, n), as the kernel computes them."""
        kind = rows.dtype.type
        z, n = rows[:, Z], rows[:, SQUARES]
        pull = (kind(self._parameters["beta"]) + np.sqrt(n)) * kind(1.0 / self._parameters["alpha"]) + kind(l2)
        shrunk = np.maximum(-z - kind(l1), 0) - np.maximum(z - kind(l1), 0)
        w = np.divide(shrunk, pull, out=np.zeros_like(z), where=pull > 0)
        return np.clip(w, -math.sqrt(LIMIT[rows.dtype.name]), math.sqrt(LIMIT[rows.dtype.name]))

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        for other in others:
            mine = self._arrays()
            for name, state in mine.items():
                merged = _located(state)
                before = None if base is None else _located(base._arrays()[name])
                merge_pairs(merged, [_located(other._arrays()[name])], before)
                state[:, Z] = merged[:, 0] * np.sqrt(merged[:, SQUARES])
                state[:, SQUARES] = merged[:, SQUARES]


def _located(state: np.ndarray) -> np.ndarray:
    """Return (z / sqrt(n), n) per row: the unregularized location of each weight, and its strength for merging."""
    z, n = state.astype(np.float64).T
    return np.column_stack([np.divide(z, np.sqrt(n), out=np.zeros_like(z), where=n > 0), n])


@kernel
def _stream(examples, weights, alpha, beta, l1, l2, example, score, probability):
    """Predict each row, then learn from it if its weight is not 0."""
    state, intercept = weights.state, weights.intercept
    dtype = state.dtype.type
    spare = np.uint32(len(state) - 1)
    numbers, features = row_scratch(examples.max_row_length, weights, 4)
    xs, ws, zs, squares, roots = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    bias, bias_squares = intercept[Z], intercept[SQUARES]
    zero = broadcast(load(xs, 0), 0.0)
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    far = math.sqrt(most)
    rate = dtype(1.0 / alpha)
    caution = dtype(beta)
    shrink, pull = broadcast(zero, l1), broadcast(zero, l2)
    for row in range(examples.indptr.size - 1):
        size = copy_row(examples, row, 1, xs, features, spare)
        ahead = prefetch_start(examples, row, size, PREFETCH_NONZEROS)
        m = zero
        for k in range(0, size, LANES):
            if ahead >= 0:
                prefetch_pairs(state, examples.indices, ahead + k)
            z, square = gather_pairs(state, features, k)
            first, second = shrink, pull
            if k == 0:
                z, square = replace_lane(z, 0, bias), replace_lane(square, 0, bias_squares)
                first, second = replace_lane(first, 0, 0.0), replace_lane(second, 0, 0.0)
            root = sqrt(square)
            slope = (root + caution) * rate + second
            beyond = max(z - first, 0.0) + min(z + first, 0.0)
            w = where_above(slope, 0.0, beyond * -1.0 / slope, zero)
            w = max(min(w, far), -far)
            m = m + load(xs, k) * w
            store(ws, k, w)
            store(zs, k, z)
            store(squares, k, square)
            store(roots, k, root)
        error = dtype(predict_row(examples, row, sum_lanes(m), score, probability))
        if examples.weights[row] == 0.0:
            continue
        example += np.uint64(1)
        for k in range(0, size, LANES):
            g = error * load(xs, k)
            more = g * g
            square, root = load(squares, k), load(roots, k)
            # (sqrt(n + g^2) - sqrt(n)) / alpha, without the cancellation of nearly equal numbers
            both = sqrt(square + more) + root
            stiffer = where_above(both, 0.0, more / both, zero) * rate
            step = g - stiffer * load(ws, k)
            if k == 0:
                bias = max(min(bias + extract_lane(step, 0), LIMIT_64), -LIMIT_64)
                bias_squares = min(bias_squares + extract_lane(more, 0), LIMIT_64)
            z = max(min(add_dithered(load(zs, k), step, features, k, example), most), -most)
            square = min(add_dithered(square, more, features, k, example), most)
            scatter_pairs(state, features, k, z, square)
    state[spare] = 0
    intercept[Z], intercept[SQUARES] = bias, bias_squares
