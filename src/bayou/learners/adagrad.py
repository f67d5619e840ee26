"""AdaGrad: stochastic gradient on the log loss with a step per feature, the baseline people trust.

For an example (x, y in {0, 1}) of weight c, with p = S(sum x_i w_i), every active feature does

    g = c (p - y) x + l2 w
    G += g^2                       starts at 0
    w -= learning_rate g / sqrt(G)

There is no epsilon: the first step has the length of the learning rate, and where G is 0 nothing has happened and
nothing does. The l2 term is applied to active features alone, so that an update touches only what the example
holds, and never to the intercept. No posterior: no variance, intervals or samples.

Merging adds (G, G w): weights are averaged by the squared gradients that made them.

Paper: Duchi, Hazan, Singer, JMLR 2011; the rival in marginal-gaussian, section 4.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numba import njit

from bayou.core.batch import Batch
from bayou.core.checks import positive_number
from bayou.core.learner import Learner, Scores
from bayou.core.merging import merge_pairs
from bayou.core.registry import Record
from bayou.core.validation import LIMIT
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.vector import LANES, copy_lanes, fill, load, pick, put, sqrt, store, total, where_above

RECORD = Record(
    name="adagrad",
    path="bayou.learners.adagrad:AdaGrad",
    estimator="AdaGradClassifier",
    summary="stochastic gradient with a step per feature; the baseline people trust",
    paper="marginal-gaussian, section 4 (baseline)",
    posterior=False,
)

# Squared gradients add up to no more than this, so that they stay finite whatever comes.
LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]
# Non-zeros between a row and the one whose weights are asked for: about four rows of forty.
AHEAD = 160


class AdaGrad(Learner):
    """AdaGrad on the logistic loss.

    Args:
        n_features: how many weights there are; features are numbered from 0.
        learning_rate: the length of each feature's first step.
        l2: strength of the pull towards 0, felt when a feature is active.
        intercept: whether there is an extra weight whose feature is always 1.
        dtype: of the state, "float32" or "float64". The intercept is always kept in float64.

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
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            learning_rate=positive_number("learning_rate", learning_rate, high=1e6),
            l2=positive_number("l2", l2, zero=True, high=1e6),
        )
        # (w, G) of each feature, and a spare row to pad with.
        self._state = np.zeros((self._n_features + 1, 2), self._dtype)
        self._intercept_state = np.zeros(2)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"state": self._state[:-1], "intercept": self._intercept_state[None]}

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        score, probability = np.empty(len(batch)), np.empty(len(batch))
        _stream(
            batch.indptr,
            batch.indices,
            batch.values,
            batch.longest,
            batch.ones,
            signs,
            weights,
            self._state,
            self._intercept_state,
            self._has_intercept,
            self._parameters["learning_rate"],
            self._parameters["l2"],
            score,
            probability,
        )
        return Scores(probability, score, None)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._state[:-1, 0][features]

    def _intercept(self) -> tuple[float, float]:
        return float(self._intercept_state[0]), math.nan

    def _add(self, other: Self, base: Self | None) -> None:
        for name, mine in self._arrays().items():
            merge_pairs(mine, other._arrays()[name], None if base is None else base._arrays()[name])


@njit(cache=True, nogil=True, error_model="numpy")
def _stream(
    indptr,
    indices,
    values,
    longest,
    ones,
    signs,
    weights,
    state,
    intercept,
    has_intercept,
    learning_rate,
    l2,
    score,
    probability,
):
    """Predict every row, learn from those whose weight is not 0.

    Rows are laid out as in `marginal`, by the same lines: a function that took the arrays would cost more than the rest
    of the row, as Numba counts references at every call.
    """
    dtype = state.dtype.type
    spare = np.uint32(state.shape[0] - 1)
    room = (longest + 2 * LANES) // LANES * LANES
    xs = np.zeros(room, state.dtype)
    ws = np.zeros(room, state.dtype)
    squares = np.zeros(room, state.dtype)
    rows = np.full(room, spare, np.uint32)
    spares = rows[:LANES].copy()
    blank = xs[:LANES].copy()
    units = blank + dtype(1)
    xs[0] = has_intercept
    bias, bias_squares = intercept[0], intercept[1]
    zero = fill(load(xs, 0), 0.0)
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    rate = dtype(learning_rate)
    end = indptr[indptr.size - 1]
    for row in range(indptr.size - 1):
        start = indptr[row]
        length = indptr[row + 1] - start
        size = (length + LANES) // LANES * LANES
        if start + length + LANES <= end:
            for k in range(0, length, LANES):
                if ones:  # a third of what there is to read
                    copy_lanes(xs, 1 + k, units, 0)
                else:
                    copy_lanes(xs, 1 + k, values, start + k)
                copy_lanes(rows, 1 + k, indices, start + k)
        else:
            for k in range(length):
                xs[1 + k] = values[start + k]
                rows[1 + k] = indices[start + k]
        copy_lanes(xs, 1 + length, blank, 0)
        copy_lanes(rows, 1 + length, spares, 0)

        ahead = start + AHEAD
        fetch = ahead + size <= end
        m = zero
        for k in range(0, size, LANES):
            if fetch:
                prefetch_pairs(state, indices, ahead + k)
            w, square = gather_pairs(state, rows, k)
            if k == 0:
                w, square = put(w, 0, bias), put(square, 0, bias_squares)
            m = m + load(xs, k) * w
            store(ws, k, w)
            store(squares, k, square)
        score[row] = total(m)
        p = 1.0 / (1.0 + math.exp(-score[row]))
        probability[row] = p
        c = weights[row]
        if c == 0.0:
            continue
        error = dtype(c * (p if signs[row] < 0.0 else -1.0 / (1.0 + math.exp(score[row]))))
        for k in range(0, size, LANES):
            w = load(ws, k)
            pull = fill(w, l2)
            if k == 0:
                pull = put(pull, 0, 0.0)
            g = error * load(xs, k) + pull * w
            square = min(load(squares, k) + g * g, most)
            step = where_above(square, 0.0, rate * g / sqrt(square), zero)
            if k == 0:
                bias -= pick(step, 0)
                gradient = np.float64(pick(g, 0))
                bias_squares = min(bias_squares + gradient * gradient, LIMIT_64)
            scatter_pairs(state, rows, k, w - step, square)
    state[spare] = 0
    intercept[0] = bias
    intercept[1] = bias_squares
