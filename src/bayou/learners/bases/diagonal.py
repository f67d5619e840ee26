"""Base of learners with independent Gaussian weights: prior, state, inspection, merging and prediction.

A row of the state is (mean minus the prior mean, precision minus the prior precision). All zeros is the prior, so a
table costs no memory until it is touched. The row after the last feature is spare: kernels pad their rows with it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from bayou.core import links
from bayou.core.batch import MAX_FEATURES, Batch
from bayou.core.checks import check_choice, check_int, check_positive
from bayou.core.errors import BadInput
from bayou.core.gains import RULE_EVIDENCE
from bayou.core.learner import Learner, Scores
from bayou.core.validation import LIMIT
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import exp2
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.inlining import inlined
from bayou.kernels.rounding import add_dithered, rounding_phase
from bayou.kernels.row_layout import (
    PREFETCH_NONZEROS,
    BatchArrays,
    batch_arrays,
    copy_row,
    padded_row_length,
    prefetch_start,
)
from bayou.kernels.vector import LANES, broadcast, cast_like, extract_lane, load, replace_lane, sqrt, store, sum_lanes
from bayou.learners.bases.location_strength import LocationStrengthSharding, merge_pairs

# The columns of a state:
#     MEAN_SHIFT      the mean, minus that of the prior
#     PRECISION_GAIN  the precision, minus that of the prior
MEAN_SHIFT, PRECISION_GAIN = range(2)
# The columns of a prior:
#     MEAN       its mean
#     PRECISION  the inverse of its variance
MEAN, PRECISION = range(2)
# Largest precision gain, whose square root is the largest move of a mean, so that scores stay finite for any data:
# weights with wide priors that underestimate each other's uncertainty can push each other ever further.
LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]
FAR_32, FAR_64 = math.sqrt(LIMIT_32), math.sqrt(LIMIT_64)
LOG2E = 1.0 / math.log(2.0)
PREDICTIVES = {"closed": False, "quadrature": True}
# Newton needs 14 iterations for tau up to 1e6; any more would be due to rounding noise.
MAX_ITERATIONS = 30


class DiagonalState(NamedTuple):
    """Weight state that a kernel reads and updates in place."""

    state: np.ndarray  # (MEAN_SHIFT, PRECISION_GAIN) of every weight, and the spare row
    prior: np.ndarray  # (mean, precision) of every weight, or one row for all
    intercept: np.ndarray  # like a row of the state
    has_intercept: bool
    intercept_precision: float  # of the intercept's prior, whose mean is 0


class DiagonalGaussian(Learner):
    """Base class of learners with independent Gaussian weights. A subclass adds its parameters and `_run_kernel`.

    Args:
        n_features: number of weights; feature indices start at 0.
        prior_mean: prior mean of the weights; a number or one per feature.
        prior_variance: prior variance of the weights; a number or one per feature.
        intercept_variance: the intercept's prior variance, by default max(least_intercept_variance, prior_variance).
        unit: unit of the stored variances; a regressor stores them in units of its noise variance.
        parameters: those of the subclass, and those of every `Learner`.
    """

    _predictive_temper = 1.0  # factor of the score's variance in predictions

    def __init__(
        self,
        n_features: int,
        dtype: Any,
        intercept: bool,
        prior_mean: Any,
        prior_variance: Any,
        intercept_variance: float | None,
        *,
        least_intercept_variance: float = 3.0,
        unit: float = 1.0,
        **parameters: Any,
    ) -> None:
        n_features = check_int("n_features", n_features, 1, MAX_FEATURES)
        prior_mean = _per_feature_prior("prior_mean", prior_mean, n_features, positive=False)
        prior_variance = _per_feature_prior("prior_variance", prior_variance, n_features, positive=True)
        if intercept_variance is None:
            intercept_variance = max(least_intercept_variance, float(np.max(prior_variance)))
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            intercept_variance=check_positive("intercept_variance", intercept_variance, high=1e15 * unit),
            **parameters,
        )
        self._quadrature = check_choice("predictive", parameters.get("predictive", "closed"), PREDICTIVES)
        prior_variance = np.asarray(prior_variance) / unit
        self._intercept_precision = unit / intercept_variance
        self._widest = max(1.0, float(np.max(prior_variance)), intercept_variance / unit)
        self._prior = self._prior_table(prior_mean, prior_variance)
        self._make_state()

    def _prior_table(self, mean: Any, variance: Any) -> np.ndarray:
        """Return (mean, precision) of every weight's prior, or one row if all are the same."""
        far = math.sqrt(LIMIT[self._dtype])
        if np.max(np.abs(mean)) > far or np.max(variance) > far or np.min(variance) < 1 / far:
            raise BadInput(f"the prior is too extreme for {self._dtype} state; scale the features, or use float64.")
        one = np.ndim(mean) == np.ndim(variance) == 0
        table = np.ones((1 if one else self._n_features + 1, 2), self._dtype)
        rows = slice(None) if one else slice(self._n_features)
        table[rows, MEAN] = mean
        table[rows, PRECISION] = 1.0 / np.asarray(variance, np.float64)
        return table

    def _make_state(self) -> None:
        self._state = aligned_zeros(self._n_features + 1, 2, self._dtype)
        self._intercept_state = np.zeros((1, 2))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"state": self._state[:-1], "intercept": self._intercept_state}

    def _beliefs(self) -> DiagonalState:
        return DiagonalState(
            self._state, self._prior, self._intercept_state[0], self._has_intercept, self._intercept_precision
        )

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        mean, variance, probability = (np.empty(len(batch)) for _ in range(3))
        self._run_kernel(batch_arrays(batch, signs, weights), mean, variance)
        probabilities(self._link, self._quadrature, self._predictive_temper, mean, variance, probability)
        return Scores(probability, mean, variance)

    def _run_kernel(self, examples: BatchArrays, mean: np.ndarray, variance: np.ndarray) -> None:
        """Write mean and variance of each row's score, then learn from the row if its weight is not 0."""
        raise NotImplementedError

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._state[:-1, MEAN_SHIFT][features] + self._prior_at(features)[:, MEAN]

    def _variance_at(self, features: Any) -> np.ndarray:
        return 1 / (self._state[:-1, PRECISION_GAIN][features] + self._prior_at(features)[:, PRECISION])

    def _prior_at(self, features: Any) -> np.ndarray:
        return self._prior if len(self._prior) == 1 else self._prior[:-1][features]

    def _intercept(self) -> tuple[float, float]:
        shift, gain = self._intercept_state[0]
        return float(shift), float(1.0 / (gain + self._intercept_precision))

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        """Add to 1/v and mu/v what the others have gained over the prior, or over `base`."""
        prior = self._prior[:, PRECISION] if len(self._prior) == 1 else self._prior[:-1, PRECISION]
        for name, held in (("state", prior), ("intercept", self._intercept_precision)):
            before = None if base is None else base._arrays()[name]
            states = [other._arrays()[name] for other in others]
            merge_pairs(self._arrays()[name], states, before, held, self._rule, self._may_lose)

    _may_lose = False  # whether an example may lower a weight's precision

    @property
    def _rule(self) -> int:
        """The rule of `core.gains` by which weights are merged."""
        return RULE_EVIDENCE

    @property
    def sharding(self) -> LocationStrengthSharding:
        def prior_at(features: np.ndarray) -> np.ndarray:
            return self._prior_at(features)[:, PRECISION].astype(np.float64)

        return LocationStrengthSharding(self, self._rule, prior_at, self._intercept_precision)


def _per_feature_prior(name: str, value: Any, n_features: int, positive: bool) -> float | np.ndarray:
    """Return a checked prior parameter: a number, or an array with one number per feature."""
    try:
        array = np.array(value, dtype=np.float64)  # a copy: the caller may change the original
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{name} is {value!r}; give a number, or one for each feature.") from None
    if array.ndim not in (0, 1) or (array.ndim == 1 and array.shape != (n_features,)):
        raise BadInput(f"{name} has shape {array.shape}; give a number, or one for each of the {n_features} features.")
    if not np.isfinite(array).all() or (positive and not (array > 0).all()):
        problem = f"is {value!r}; it" if array.ndim == 0 else "has other entries; all"
        raise BadInput(f"{name} {problem} must be finite{' and > 0' if positive else ''}.")
    return float(array) if array.ndim == 0 else array


# --- rows in vectors ----------------------------------------------------------------------------------------------


class RowScratch(NamedTuple):
    """Scratch arrays of one row for vector kernels. The intercept comes first unless the learner handles it apart."""

    xs: np.ndarray
    xvs: np.ndarray  # value times variance
    means: np.ndarray  # the state of its weights
    gains: np.ndarray
    features: np.ndarray


@kernel
def row_scratch(longest, beliefs, dtype):
    """Allocate a `RowScratch` that any row of a batch fits into, with the intercept's value set."""
    room = padded_row_length(longest)
    numbers, features = zeros((4, room), dtype), zeros(room, np.uint32)
    numbers[0, 0], features[0] = beliefs.has_intercept, len(beliefs.state) - 1
    return RowScratch(numbers[0], numbers[1], numbers[2], numbers[3], features)


@inlined
def read_row(examples, beliefs, row, n, first, keep, at_once):
    """Lay out row n and gather its weights into `row`.

    Args:
        first: 1 if the intercept comes first, else 0.
        keep: factor that memory applies to precisions.
        at_once: prefetch the weights of a later row here. This is also done where the row is not learned from.

    Returns:
        Mean and variance of the score, the size of the row in scratch, and the offset in the batch's indices at which
        `condition_row` is to prefetch (-1: do not prefetch).
    """
    size = copy_row(examples, n, first, row.xs, row.features, np.uint32(len(beliefs.state) - 1))
    ahead = prefetch_start(examples, n, size, PREFETCH_NONZEROS)
    now = ahead if at_once or examples.weights[n] == 0 else -1
    mean, variance = _gather_row(beliefs, row, size, first, keep, examples.indices, now)
    return mean, variance, size, ahead


@inlined
def _gather_row(beliefs, row, size, first, keep, indices, ahead):
    """Gather the weights of the row that is laid out in `row`; return mean and variance of its score."""
    x = load(row.xs, 0)
    prior_mean, prior_precision = broadcast(x, beliefs.prior[0, MEAN]), broadcast(x, beliefs.prior[0, PRECISION])
    m = s2 = broadcast(x, 0.0)
    for k in range(0, size, LANES):
        if ahead >= 0:
            prefetch_pairs(beliefs.state, indices, ahead + k)
        x = load(row.xs, k)
        mean, gained = gather_pairs(beliefs.state, row.features, k)
        mean, gained = cast_like(mean, x), cast_like(gained, x)
        if beliefs.prior.shape[0] > 1:
            own_mean, own_precision = gather_pairs(beliefs.prior, row.features, k)
            prior_mean, prior_precision = cast_like(own_mean, x), cast_like(own_precision, x)
        base_mean, base_precision = prior_mean, prior_precision
        if k < first:
            mean = replace_lane(mean, 0, beliefs.intercept[MEAN_SHIFT])
            gained = replace_lane(gained, 0, beliefs.intercept[PRECISION_GAIN])
            base_mean = replace_lane(base_mean, 0, 0.0)
            base_precision = replace_lane(base_precision, 0, beliefs.intercept_precision)
        if keep < 1:
            gained = max(gained * keep - base_precision * (1 - keep), 0.0)
        xv = x / (base_precision + gained)
        m = m + x * (base_mean + mean)
        s2 = s2 + x * xv
        store(row.means, k, mean)
        store(row.gains, k, gained)
        store(row.xvs, k, xv)
    return sum_lanes(m), sum_lanes(s2)


@inlined
def condition_row(beliefs, row, size, first, score_variance, dm, dv, left, most, example, indices, ahead):
    """Condition the weights of a row on an update of its score: mu += x v dm, v -= (x v)^2 dv.

    `left` = 1 - score_variance dv; `first` and `ahead` are as in `read_row`.
    """
    far = math.sqrt(most)
    for k in range(0, size, LANES):
        if ahead >= 0:
            prefetch_pairs(beliefs.state, indices, ahead + k)
        x, xv, mean, gained = load(row.xs, k), load(row.xvs, k), load(row.means, k), load(row.gains, k)
        step = max(min(xv * dm, far - mean), -far - mean)
        # 1 - x^2 v dv, which may nearly vanish, by way of the remaining fraction of the score's variance
        rest = max(score_variance - x * xv, 0.0) * dv + left
        more = min((x * x) * dv / rest, most - gained)
        if k < first:
            beliefs.intercept[MEAN_SHIFT] += extract_lane(step, 0)
            beliefs.intercept[PRECISION_GAIN] += extract_lane(more, 0)
        mean = add_dithered(mean, step, row.features, k, example)
        gained = add_dithered(gained, more, row.features, k, example)
        scatter_pairs(beliefs.state, row.features, k, mean, gained)


# --- rows in scalars ----------------------------------------------------------------------------------------------


class ScalarRowScratch(NamedTuple):
    """Scratch arrays of one row in float64, the intercept first, for kernels that update one weight at a time."""

    xs: np.ndarray
    means: np.ndarray  # the state of its weights
    gains: np.ndarray
    bases: np.ndarray  # precisions of their priors


@kernel
def row_scalars(longest):
    """Allocate `ScalarRowScratch` that any row of a batch fits into."""
    numbers = zeros((4, longest + 1), np.float64)
    return ScalarRowScratch(numbers[0], numbers[1], numbers[2], numbers[3])


@inlined
def gather_scalars(examples, beliefs, n, row):
    """Gather the weights of row n into `row`; return mean and variance of its score, and its size. See `read_row`."""
    start = examples.indptr[n]
    size = examples.indptr[n + 1] - start + 1
    m = 0.0
    s2 = 0.0
    for k in range(size):
        if k == 0:
            x = 1.0 if beliefs.has_intercept else 0.0
            base_mean, base = 0.0, beliefs.intercept_precision
            mean, gained = beliefs.intercept[MEAN_SHIFT], beliefs.intercept[PRECISION_GAIN]
        else:
            x = np.float64(beliefs.state.dtype.type(examples.values[start + k - 1]))
            feature = examples.indices[start + k - 1]
            of = feature if beliefs.prior.shape[0] > 1 else np.uint32(0)
            base_mean, base = np.float64(beliefs.prior[of, MEAN]), np.float64(beliefs.prior[of, PRECISION])
            mean = np.float64(beliefs.state[feature, MEAN_SHIFT])
            gained = np.float64(beliefs.state[feature, PRECISION_GAIN])
        row.xs[k], row.means[k], row.gains[k], row.bases[k] = x, mean, gained, base
        m += x * (base_mean + mean)
        s2 += x * x / (base + gained)
    return m, s2, size


@inlined
def store_weight(examples, beliefs, n, k, mean, gained, least, example):
    """Store mean and gained as the state of the weight in slot k of row n; gained is raised to `least`."""
    most, far = (LIMIT_32, FAR_32) if beliefs.state.itemsize == 4 else (LIMIT_64, FAR_64)
    if k == 0:
        beliefs.intercept[MEAN_SHIFT] = max(min(mean, far), -far)
        beliefs.intercept[PRECISION_GAIN] = min(max(gained, least), most)
    else:
        feature = examples.indices[examples.indptr[n] + k - 1]
        noise = rounding_phase(feature, example) if beliefs.state.itemsize == 4 else 0.0
        beliefs.state[feature, MEAN_SHIFT] = max(min(add_rounding_noise(mean, noise), far), -far)
        beliefs.state[feature, PRECISION_GAIN] = min(max(add_rounding_noise(gained, noise), least), most)


@kernel
def add_rounding_noise(value, noise):
    """Return value + noise times the last place of a float32 of its size."""
    return value + noise * math.ldexp(1.0, math.frexp(value)[1] - 24)


@kernel
def peak_shift(link, z0, tau, newton_above):
    """Return t of (15), (17), (28), (30)."""
    if tau <= newton_above:
        q, k = links.slope_and_curvature(link, z0)
        return tau * q / (1.0 + tau * k)
    t = links.peak_start(link, z0)
    for _ in range(MAX_ITERATIONS):
        q, k = links.slope_and_curvature(link, z0 + t)
        step = (t - tau * q) / (1.0 + tau * k)
        t = max(t - step, 0.0)
        if abs(step) <= 1e-15 * t:
            break
    return t


def probabilities(link, quadrature, temper, mean, variance, probability):
    """Write P(y = 1), (8) or (24), for the score's mean and variance in each row to `probability`."""
    if quadrature:
        _by_quadrature(link, temper, mean, variance, probability)
    elif link == links.LOGISTIC:
        logistic_probabilities(temper, mean, variance, probability)
    else:
        _closed(link, temper, mean, variance, probability)


@kernel
def _by_quadrature(link, temper, mean, variance, probability):
    for row in range(mean.size):
        probability[row] = links.expected_probability(link, mean[row], temper * variance[row])


@kernel
def _closed(link, temper, mean, variance, probability):
    spread = links.damping_constant(link)
    for row in range(mean.size):
        probability[row] = links.cdf(link, mean[row] / math.sqrt(1.0 + spread * (temper * variance[row])))


@kernel
def logistic_probabilities(temper, mean, variance, probability):
    spread = links.C8 * temper
    full_vectors = mean.size // LANES * LANES
    for row in range(0, full_vectors, LANES):
        store(probability, row, _sigmoid(load(mean, row) / sqrt(load(variance, row) * spread + 1.0)))
    if full_vectors < mean.size:  # rows after the last full vector go through a padded copy, by the same operations
        padded = zeros((3, LANES), np.float64)
        for row in range(full_vectors, mean.size):
            padded[0, row - full_vectors], padded[1, row - full_vectors] = mean[row], variance[row]
        store(padded[2], 0, _sigmoid(load(padded[0], 0) / sqrt(load(padded[1], 0) * spread + 1.0)))
        for row in range(full_vectors, mean.size):
            probability[row] = padded[2, row - full_vectors]


@kernel(forceinline=True)
def _sigmoid(z):
    return 1.0 / (exp2(z * -LOG2E) + 1.0)
