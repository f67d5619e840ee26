"""Linear regression with a Gaussian for every weight: the exact update of a diagonal Kalman filter.

A label is y = sum x_i w_i + noise of variance s. Every weight is N(mu_i, s v_i), independent of the others: v_i counts
in units of the noise. An example (x, y) of weight c has the mean m = sum x_i mu_i, which is off by e = y - m, and the
variance s q, q = sum x_i^2 v_i. Conditioning the weights on it is exact, as all is Gaussian; of the result each weight
keeps its own mean and variance:

    mu_i += x_i v_i dm                          dm = c e / (1 + c q)
    v_i  -= (x_i v_i)^2 dv                      dv = c / (1 + c q)

Kept are precisions, which gain x^2 dv / (1 - x^2 v dv). None of this depends on s, and so s can be learned beside it.
With `noise_variance=None` it is

    s = sum c e^2 / (1 + c q) / sum c

which for weights whose correlations are kept would be exact for a conjugate (normal-inverse-gamma) prior; it starts
from 1 with next to no strength. Then also prior variances are in units of s, and labels of any scale are learned alike.
A known `noise_variance` makes them plain variances.

What is answered is the mean cut to the range of the labels so far (`bounded`): features in odd units can make of each
row all that is known, and of the next one anything. On one of fifteen sets the squared loss was 1.35 times the variance
of the labels, and is .78 with that; of the weights nothing changes.

The intercept is an ordinary weight, outside the vectors and in float64, as labels may lie far from 0. Merging adds
natural parameters and sums. Float32 state is rounded so that it is right on average, as in `marginal`.

Paper: none; Kalman, A new approach to linear filtering and prediction problems, 1960.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import positive_number, yes_or_no
from bayou.core.learner import Scores
from bayou.core.registry import Record
from bayou.core.validation import LARGEST_TARGET
from bayou.kernels.compiling import kernel
from bayou.kernels.rows import examples_of
from bayou.learners.bases.diagonal import (
    GAINED,
    LIMIT_32,
    LIMIT_64,
    MOVED,
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

# The noise variance starts from 1, as if this number of examples had said it.
START = 1e-6
# The intercept's prior variance in units of the noise: labels may lie some hundred deviations from 0.
WIDE = 1e6


class Gaussian(DiagonalGaussian):
    """Gaussian linear regression with a diagonal posterior, for huge sparse problems.

    Args:
        n_features: how many weights there are; features are numbered from 0.
        prior_mean: what every weight is believed to be before any data; a number or one per feature.
        prior_variance: how sure of that; a number or one per feature, in units of a noise variance that is learned.
        noise_variance: how far labels scatter around their means; None learns it.
        bounded: whether to answer with no number beyond the labels so far.
        intercept: whether there is an extra weight whose feature is always 1 (prior mean 0).
        intercept_variance: its prior variance; max(1e6, prior_variance) if not given, in units of the noise variance.
        dtype: of the state, "float32" or "float64". The intercept is always kept in float64.

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
            noise_variance = positive_number("noise_variance", noise_variance)
        self._unit = 1.0 if noise_variance is None else noise_variance  # of the variances that were given
        weights = n_features, dtype, intercept, prior_mean, prior_variance, intercept_variance
        least = WIDE * self._unit
        given: dict[str, Any] = {"noise_variance": noise_variance, "bounded": yes_or_no("bounded", bounded)}
        super().__init__(*weights, **given, least_intercept_variance=least, unit=self._unit)
        self._most_noise = LARGEST_TARGET[self._dtype] ** 2
        positive_number("noise_variance", self._unit, high=self._most_noise)
        self._noise_sums = np.zeros(2)  # of c e^2 / (1 + c q), and of c
        self._labels = new_range()

    @property
    def noise(self) -> float:
        """The noise variance, as it is known or learned so far."""
        if self._parameters["noise_variance"] is not None:
            return self._unit
        squares, weight = self._noise_sums
        return float(min((START + squares) / (START + weight), self._most_noise))

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"noise": self._noise_sums[None], "labels": self._labels[None]}

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        mean, variance, noise = (np.empty(len(batch)) for _ in range(3))
        _stream(
            examples_of(batch, signs, weights),
            self._beliefs(),
            self._noise_sums,
            0.0 if self._parameters["noise_variance"] is None else self._unit,
            self._most_noise,
            np.uint64(self._examples),
            mean,
            variance,
            noise,
        )
        expected = cut_to_range(mean, signs, weights, self._labels)
        return Scores(expected if self._parameters["bounded"] else mean.copy(), mean, variance, noise)

    def _variance_at(self, features: Any) -> np.ndarray:
        return super()._variance_at(features) * self._state.dtype.type(self.noise)

    def _intercept(self) -> tuple[float, float]:
        mean, variance = super()._intercept()
        return mean, variance * self.noise

    def _add_all(self, others: Sequence[Self], base: Self | None) -> None:
        super()._add_all(others, base)
        for other in others:
            self._noise_sums += other._noise_sums - (0.0 if base is None else base._noise_sums)
            join_ranges(self._labels, other._labels)
        np.maximum(self._noise_sums, 0.0, out=self._noise_sums)


@kernel
def _stream(examples, beliefs, noise_sums, known_noise, most_noise, example, score_mean, score_variance, score_noise):
    """Predict every row, learn from those whose weight is not 0."""
    state, intercept = beliefs.state, beliefs.intercept
    dtype = state.dtype.type
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    far = math.sqrt(most)
    squares, weight = noise_sums[0], noise_sums[1]
    noise = known_noise
    row = row_scratch(examples.longest, beliefs, beliefs.state.dtype)
    for n in range(examples.indptr.size - 1):
        m, q, size, ahead = read_row(examples, beliefs, row, n, 0, dtype(1), False)
        intercept_variance = 1.0 / (beliefs.intercept_precision + intercept[GAINED]) if beliefs.has_intercept else 0.0
        mean = np.float64(m) + intercept[MOVED]
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
        whole, dm, dv = dtype(variance), dtype(pull), dtype(fall)
        condition_row(beliefs, row, size, 0, whole, dm, dv, dtype(left), most, example, examples.indices, ahead)
        if beliefs.has_intercept:
            step = max(min(intercept_variance * pull, far - intercept[MOVED]), -far - intercept[MOVED])
            rest = max(variance - intercept_variance, 0.0) * fall + left
            intercept[MOVED] += step
            intercept[GAINED] += min(fall / rest, most - intercept[GAINED])
    state[-1] = 0
    noise_sums[0], noise_sums[1] = squares, weight
