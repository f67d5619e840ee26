"""What learners of independent Gaussian weights share: prior, state, how it is shown, merged and predicted from.

A state row is (how far the mean has moved from the prior's, the precision gained). All zeros is the prior, so a table
costs no memory until it is touched. The row behind the last feature is spare: kernels pad their rows with it.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.checks import positive_number
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.merging import merge_pairs
from bayou.core.validation import LIMIT
from bayou.kernels.exponential import exp2
from bayou.kernels.vector import LANES, load, sqrt, store

# A precision gains no more than this, and a mean moves no further than its root, so that scores stay finite whatever
# comes: wide priors that believe too little of each other's uncertainty can push each other ever further.
LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]
# Non-zeros between a row and the one whose weights are asked for: about four rows of forty.
AHEAD = 160
LOG2E = 1.0 / math.log(2.0)
PREDICTIVES = {"closed": False, "quadrature": True}
# Newton needs 14 iterations for tau up to 1e6; more can only mean rounding noise.
MAX_ITERATIONS = 30


class DiagonalGaussian(Learner):
    """Independent Gaussian weights. A subclass adds its parameters, and the kernel."""

    def __init__(
        self,
        *,
        n_features: int,
        prior_mean: Any,
        prior_variance: Any,
        intercept_variance: float | None,
        least_intercept_variance: float = 3.0,
        unit: float = 1.0,
        **parameters: Any,
    ) -> None:
        """`unit`: what the variances that are kept are measured in; a regressor keeps them in units of its noise."""
        prior_mean = _per_feature("prior_mean", prior_mean, n_features, positive=False)
        prior_variance = _per_feature("prior_variance", prior_variance, n_features, positive=True)
        if intercept_variance is None:
            intercept_variance = max(least_intercept_variance, float(np.max(prior_variance)))
        super().__init__(
            n_features=n_features,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            intercept_variance=positive_number("intercept_variance", intercept_variance, high=1e15 * unit),
            **parameters,
        )
        prior_variance = np.asarray(prior_variance) / unit
        self._intercept_precision = unit / intercept_variance
        self._widest = max(1.0, float(np.max(prior_variance)), intercept_variance / unit)
        self._prior = self._prior_table(prior_mean, prior_variance)
        self._make_state()

    def _prior_table(self, mean: Any, variance: Any) -> np.ndarray:
        """(mean, precision) of every weight's prior, or one row for all."""
        far = math.sqrt(LIMIT[self._dtype])
        if np.max(np.abs(mean)) > far or np.max(variance) > far or np.min(variance) < 1 / far:
            raise BadInput(f"the prior is too extreme for {self._dtype} state; scale the features, or use float64.")
        one = np.ndim(mean) == np.ndim(variance) == 0
        table = np.ones((1 if one else self._n_features + 1, 2), self._dtype)
        rows = slice(None) if one else slice(self._n_features)
        table[rows, 0] = mean
        table[rows, 1] = 1.0 / np.asarray(variance, np.float64)
        return table

    def _make_state(self) -> None:
        self._state = np.zeros((self._n_features + 1, 2), self._dtype)
        self._intercept_state = np.zeros((1, 2))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"state": self._state[:-1], "intercept": self._intercept_state}

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._state[:-1, 0][features] + self._prior_at(features)[:, 0]

    def _variance_at(self, features: Any) -> np.ndarray:
        return 1 / (self._state[:-1, 1][features] + self._prior_at(features)[:, 1])

    def _prior_at(self, features: Any) -> np.ndarray:
        return self._prior if len(self._prior) == 1 else self._prior[:-1][features]

    def _intercept(self) -> tuple[float, float]:
        shift, gain = self._intercept_state[0]
        return float(shift), float(1.0 / (gain + self._intercept_precision))

    def _add(self, other: Self, base: Self | None) -> None:
        self._add_naturals(other, base)

    def _add_naturals(self, other: Self, base: Self | None, fading: bool = False) -> None:
        """Natural parameters add: 1/v and mu/v each gain what `other` gained over the prior, or over `base`.

        fading: whether both may know less than `base` did.
        """
        prior = self._prior[:, 1] if len(self._prior) == 1 else self._prior[:-1, 1]
        for name, held in (("state", prior), ("intercept", self._intercept_precision)):
            before = None if base is None else base._arrays()[name]
            merge_pairs(self._arrays()[name], other._arrays()[name], before, held, fading)


def _per_feature(name: str, value: Any, n_features: int, positive: bool) -> float | np.ndarray:
    """A prior parameter: a number, or an array with one number per feature."""
    try:
        array = np.array(value, dtype=np.float64)  # a copy: the caller may go on with theirs
    except (TypeError, ValueError):
        raise BadInput(f"{name} is {value!r}; give a number, or one for each feature.") from None
    if array.ndim not in (0, 1) or (array.ndim == 1 and array.shape != (n_features,)):
        raise BadInput(f"{name} has shape {array.shape}; give a number, or one for each of the {n_features} features.")
    if not np.isfinite(array).all() or (positive and not (array > 0).all()):
        found = f"is {value!r}; it" if array.ndim == 0 else "has other entries; all"
        raise BadInput(f"{name} {found} must be finite{' and > 0' if positive else ''}.")
    return float(array) if array.ndim == 0 else array


@njit(cache=True, nogil=True)
def nudged(value, noise):
    """value moved by noise times the last place of a float32 like it."""
    return value + noise * math.ldexp(1.0, math.frexp(value)[1] - 24)


@njit(cache=True, nogil=True, error_model="numpy")
def peak_shift(link, z0, tau, newton_above):
    """t of (15), (17), (28), (30)."""
    if tau <= newton_above:
        q, k = links.slope_and_curvature(link, z0)
        return tau * q / (1.0 + tau * k)
    # Probit's hazard is convex everywhere, so from 0 its steps climb to the root.
    t = max(0.0, -z0) if link == links.LOGISTIC else 0.0
    for _ in range(MAX_ITERATIONS):
        q, k = links.slope_and_curvature(link, z0 + t)
        step = (t - tau * q) / (1.0 + tau * k)
        t = max(t - step, 0.0)
        if abs(step) <= 1e-15 * t:
            break
    return t


@njit(cache=True, nogil=True, error_model="numpy")
def probabilities(link, quadrature, temper, mean, variance, probability):
    """(8), (24): P(y = 1) from the score's mean and variance."""
    spread = links.spread(link) * temper
    if quadrature:
        for row in range(mean.size):
            probability[row] = links.expected_probability(link, mean[row], temper * variance[row])
    elif link == links.PROBIT:
        for row in range(mean.size):
            probability[row] = links.normal_cdf(mean[row] / math.sqrt(1.0 + spread * variance[row]))
    else:
        # Rows beyond the last full vector are worked on in a padded copy, by the same operations.
        whole = mean.size // LANES * LANES
        padded = np.zeros((3, LANES))
        padded[0, : mean.size - whole] = mean[whole:]
        padded[1, : mean.size - whole] = variance[whole:]
        for row in range(0, whole, LANES):
            store(probability, row, _sigmoid(load(mean, row) / sqrt(load(variance, row) * spread + 1.0)))
        store(padded[2], 0, _sigmoid(load(padded[0], 0) / sqrt(load(padded[1], 0) * spread + 1.0)))
        probability[whole:] = padded[2, : mean.size - whole]


@njit(forceinline=True)
def _sigmoid(z):
    return 1.0 / (exp2(z * -LOG2E) + 1.0)
