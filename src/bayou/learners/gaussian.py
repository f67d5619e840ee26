"""Linear regression with an independent Gaussian per weight, updated exactly: a diagonal Kalman filter.

A label is y = sum x_i w_i + noise of variance s. Every weight is N(mu_i, s v_i), independent of the others: v_i is in
units of the noise variance. The score of an example (x, y) of weight c has the mean m = sum x_i mu_i, with the error
e = y - m, and the variance s q, q = sum x_i^2 v_i. Everything is Gaussian, so that conditioning the weights on the
label is exact; each weight then keeps its own marginal mean and variance:

    mu_i += x_i v_i dm                          dm = c e / (1 + c q)
    v_i  -= (x_i v_i)^2 dv                      dv = c / (1 + c q)

Precisions are stored, and gain x^2 dv / (1 - x^2 v dv). None of this depends on s, so that s can be learned as well.
With `noise_variance=None` it is

    s = sum c e^2 / (1 + c q) / sum c

which would be exact under a conjugate (normal-inverse-gamma) prior if the covariances of the weights were kept; it
starts from 1 with next to no strength. Prior variances are then in units of s as well, and the scale of the labels does
not matter. With a given `noise_variance` they are plain variances.

The prediction is the mean, clipped to the range of the labels so far (`bounded`): with badly scaled features a model
can fit every past row and still predict any number for the next. On one of fifteen data sets the squared loss was 1.35
times the variance of the labels, and is .78 with clipping; the weights are not affected.

The intercept is an ordinary weight, but is kept apart from the vectors in float64, as labels may lie far from 0.
Merging adds natural parameters and sums. Float32 state is rounded so that it is right on average, as in `marginal`.

Paper: none; Kalman, A new approach to linear filtering and prediction problems, 1960.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_bool, check_positive
from bayou.core.learner import Scores
from bayou.core.registry import Record
from bayou.core.validation import LARGEST_TARGET
from bayou.kernels.compiling import kernel
from bayou.kernels.row_layout import batch_arrays
from bayou.learners.bases.diagonal import (
    LIMIT_32,
    LIMIT_64,
    MEAN_SHIFT,
    PRECISION_GAIN,
    DiagonalGaussian,
    condition_row,
    read_row,
    row_scratch,
)
from bayou.learners.bases.label_range import cut_to_range, join_ranges, new_range

RECORD = Record(
    "gaussian", "bayou.learners.gaussian:Gaussian", "GaussianRegressor", task="regression",
    summary="linear regression with Gaussian weights, exact for each of them; noise known or learned",
    paper="none: Kalman 1960, diagonal",
)  # fmt: skip

# The initial noise variance of 1 counts as much as this number of examples.
START = 1e-6
# The intercept's prior variance, in units of the noise: labels may lie a few hundred standard deviations from 0.
WIDE = 1e6


class Gaussian(DiagonalGaussian):
    """Gaussian linear regression with a diagonal posterior, for huge sparse problems.

    Args:
        n_features: number of weights; feature indices start at 0.
        prior_mean: prior mean of the weights; a number or one per feature.
        prior_variance: prior variance of the weights; a number or one per feature, in units of the noise variance if
            that is learned.
        noise_variance: variance of the labels around their means; None learns it.
        bounded: whether to clip predictions to the range of the labels so far.
        intercept: whether to add a weight whose feature is always 1 (prior mean 0).
        intercept_variance: its prior variance; by default max(1e6, prior_variance) in units of the noise variance.
        dtype: type of the state, "float32" or "float64". The intercept is always kept in float64.

    >>> from bayou import Batch
    >>> learner = Gaussian(n_features=10)
    >>> m = learner.learn(Batch.from_rows([{0: 1.0, 3: 1.0}, {0: 1.0}], labels=[7.0, 7.5]))
    >>> bool(m[0] == 0.0 and m[1] == 7.0 and learner.variance[0] < learner.variance[1])
    True
    >>> d = learner.predict(Batch.from_rows([{0: 1.0}]))
    >>> bool(7.0 < d.mean[0] < 7.5 and d.variance[0] > 0 and d.noise[0] == learner.noise)
    True
    """

    name = "gaussian"

    def __init__(
        self,
        n_features: int,
        *,
        prior_mean: Any = 0.0,
        prior_variance: Any = 1.0,
        noise_variance: float | None = None,
        bounded: bool = True,
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        if noise_variance is not None:
            noise_variance = check_positive("noise_variance", noise_variance)
        self._unit = 1.0 if noise_variance is None else noise_variance  # of the variances that were given
        weights = n_features, dtype, intercept, prior_mean, prior_variance, intercept_variance
        least = WIDE * self._unit
        given: dict[str, Any] = {"noise_variance": noise_variance, "bounded": check_bool("bounded", bounded)}
        super().__init__(*weights, **given, least_intercept_variance=least, unit=self._unit)
        self._most_noise = LARGEST_TARGET[self._dtype] ** 2
        check_positive("noise_variance", self._unit, high=self._most_noise)
        self._noise_sums = np.zeros(2)  # of c e^2 / (1 + c q), and of c
        self._labels = new_range()

    @property
    def noise(self) -> float:
        """The noise variance, as given or as learned so far."""
        if self._parameters["noise_variance"] is not None:
            return self._unit
        squares, weight = self._noise_sums
        return float(min((START + squares) / (START + weight), self._most_noise))

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"noise": self._noise_sums[None], "labels": self._labels[None]}

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        mean, variance, noise = (np.empty(len(batch)) for _ in range(3))
        known_noise = 0.0 if self._parameters["noise_variance"] is None else self._unit
        noise_rules, example = (self._noise_sums, known_noise, self._most_noise), np.uint64(self._examples)
        examples = batch_arrays(batch, signs, weights)
        _stream(examples, self._beliefs(), noise_rules, example, mean, variance, noise)
        expected = cut_to_range(mean, signs, weights, self._labels)
        return Scores(expected if self._parameters["bounded"] else mean.copy(), mean, variance, noise)

    def _variance_at(self, features: Any) -> np.ndarray:
        return super()._variance_at(features) * self._state.dtype.type(self.noise)

    def _intercept(self) -> tuple[float, float]:
        mean, variance = super()._intercept()
        return mean, variance * self.noise

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        super()._merge_many(others, base)
        for other in others:
            self._noise_sums += other._noise_sums - (0.0 if base is None else base._noise_sums)
            join_ranges(self._labels, other._labels)
        np.maximum(self._noise_sums, 0.0, out=self._noise_sums)


@kernel
def _stream(examples, beliefs, noise_rules, example, score_mean, score_variance, score_noise):
    """Predict each row, then learn from it if its weight is not 0."""
    state, intercept = beliefs.state, beliefs.intercept
    noise_sums, known_noise, most_noise = noise_rules
    dtype = state.dtype.type
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    far = math.sqrt(most)
    squares, weight = noise_sums[0], noise_sums[1]
    noise = known_noise
    row = row_scratch(examples.max_row_length, beliefs, beliefs.state.dtype)
    for n in range(examples.indptr.size - 1):
        m, q, size, ahead = read_row(examples, beliefs, row, n, 0, dtype(1), False)
        intercept_variance = (
            1.0 / (beliefs.intercept_precision + intercept[PRECISION_GAIN]) if beliefs.has_intercept else 0.0
        )
        mean = np.float64(m) + intercept[MEAN_SHIFT]
        variance = np.float64(q) + intercept_variance
        if known_noise == 0.0:
            noise = min((START + squares) / (START + weight), most_noise)
        score_mean[n] = mean
        score_variance[n] = noise * variance
        score_noise[n] = noise
        c = np.float64(examples.weights[n])
        if c == 0.0:
            continue
        example += np.uint64(1)
        error = examples.labels[n] - mean
        left = 1.0 / (1.0 + c * variance)
        pull, fall = max(min(c * left * error, most), -most), c * left
        squares += min(c * left * error * error, c * most_noise)
        weight += c
        spread, dm, dv = dtype(variance), dtype(pull), dtype(fall)
        condition_row(beliefs, row, size, 0, spread, dm, dv, dtype(left), most, example, examples.indices, ahead)
        if beliefs.has_intercept:
            step = max(min(intercept_variance * pull, far - intercept[MEAN_SHIFT]), -far - intercept[MEAN_SHIFT])
            rest = max(variance - intercept_variance, 0.0) * fall + left
            intercept[MEAN_SHIFT] += step
            intercept[PRECISION_GAIN] += min(fall / rest, most - intercept[PRECISION_GAIN])
    state[-1] = 0
    noise_sums[0], noise_sums[1] = squares, weight
