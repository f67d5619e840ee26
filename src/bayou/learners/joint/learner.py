"""Joint Gaussian (DimGauss): Laplace's approximation in all weights of an example at once.

The weights are N(mu, S), S diagonal or full. An example (x, y = +-1) with m = x'mu and s2 = x'S x is predicted by (8),
as in `marginal`: P(y) = S(y m / sqrt(1 + C s2)), C = pi/8. Then the posterior N(mu, S) S(y x'w) is replaced by a
Gaussian with its peak and its curvature there. The peak lies on the line mu + b S x, so that the d equations (37) are
one. With a = y x'mu_new, a0 = y m, tau = s2, sigmoid S(.) and r = S(a) S(-a):

    a = a0 + tau S(-a)                        (36), (37)   mean_update="newton"
    a = a0 + tau S(-a0) / (1 + tau r(a0))     (44), (45)   mean_update="taylor", Newton's first step from mu
    mu += y S x (a - a0) / tau = y S x S(-a) at the peak
    1/S += r x x'                             (46), (48)

and a diagonal S keeps the diagonal of the inverse: 1/v_i += r x_i^2 / (1 + r (tau - x_i^2 v_i)). Newton starts at the
inflection a = max(a0, 0), from where it is monotone. An example of weight c has its log-likelihood multiplied by c:
tau becomes c tau in the equations of a, S(-a) becomes c S(-a) and r becomes c r.

**Taylor's form explodes with wide priors**, and a diagonal S wants a wide one: nobody else's uncertainty is integrated
out here, so that each weight moves as if it alone were unsure. A label that surprises has r(a0) near 0, and its step is
then tau = s2 long: with 20 active features of variance 100 and a0 = -10 it goes to a = +1823, where Newton's stops at
4.9. On streams it shows as a regret of 10^4 where Newton's is 10^2.

Full covariance is for dense problems of some thousand features at most; an update takes d^2 operations, also of a
sparse example, because what is learned of one weight moves all that it is correlated with. S is kept as U D U', U unit
upper triangular, D diagonal, and an example updates both (Bierman's form of Sherman and Morrison's (41)). With
f = U'x, v = D f, k = c r, from alpha = 1 and a vector b = 0 on, for j = 1 .. d:

    U_ij, b_i  <-  U_ij - k f_j / alpha b_i,  b_i + U_ij v_j      for i < j, both from the old values
    1/D_j += k f_j^2 / alpha,  b_j = v_j,  alpha += k f_j v_j

whereupon b = S x for the means. Nothing is subtracted from a variance, so none can turn negative, as those of (46) do
where the prior is wide; and U = I, 1/D gained = 0 is the prior.

Mini-batches (full covariance alone): `batch_size` examples wait, predicted by what was known before the first of them,
until the last has come, or `end_pass`; then the precisions of all are added at once, (47), (48). The mean goes to the
peak of their joint posterior ("newton") or one Newton step from where it stood ("taylor", (47) and (45)), and r is
taken at the new mean.

Merging adds natural parameters: precisions, and precisions times means, beyond the prior's.

Paper: Low complexity approximate Bayesian logistic regression for sparse online learning (marginal-gaussian),
appendix D.1. prior_mean and prior_variance are its mu_0 and sigma_0^2. G. J. Bierman, Factorization methods for
discrete sequential estimation, 1977, chapter V.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.checks import one_of, whole_number
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Scores
from bayou.core.validation import LIMIT
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.random import normal
from bayou.kernels.rounding import add_on_average
from bayou.kernels.vector import LANES, copy_lanes, fill, load, padded, pick, put, store, total
from bayou.learners.diagonal import AHEAD, LIMIT_32, LIMIT_64, DiagonalGaussian, probabilities

COVARIANCES = {"diagonal": False, "full": True}
MEAN_UPDATES = {"newton": False, "taylor": True}
# In the tail a Newton step moves the score by about 1, and the peak is never beyond log tau: 345 steps for the largest
# tau that gets past the door, ten for a common one.
MAX_ITERATIONS = 400
# From so near, the exponential of a step is a short polynomial.
NEAR = 0.2
# A row of nothing has the variance 0: what is divided by it is multiplied by 0 afterwards.
TINY = 1e-200
# Of a full covariance, which is refused beyond: 23,168 features.
MOST_BYTES = 4 << 30
MOST_WAITING = 1024
# A row with fewer of the features than one in so many is multiplied entry by entry.
SPARSE = 6
# The mean of a mini-batch: more Newton steps can only mean rounding noise.
MAX_BATCH_ITERATIONS = 100
# Precisions may fall short of their base's by as much as rounding makes of them.
MERGE_ROUNDING = 1e-6


class Joint(DiagonalGaussian):
    """Joint Gaussian learner (DimGauss).

    Args:
        n_features: how many weights there are; features are numbered from 0.
        covariance: "diagonal", or "full" for dense problems: (n_features + 1)^2 numbers, refused beyond 4 GB.
        mean_update: "newton", or "taylor", which explodes with wide priors.
        prior_mean: what every weight is believed to be before any data; a number or one per feature.
        prior_variance: how sure of that; a number or one per feature. With a diagonal covariance the best is wider than
            the weights' own spread, the more so the more features are active: about 5 times for 20, 10 times for 40.
        batch_size: full covariance learns so many examples at once. Until they have come, nothing of them is used.
        intercept: whether there is an extra weight whose feature is always 1 (prior mean 0).
        intercept_variance: its prior variance; max(3, prior_variance) if not given.
        dtype: of the state, "float32" (the default) or "float64". The intercept is always kept in float64, and so is
            all of a full covariance (whose default is float64): there it is the type in which weights are shown.

    >>> from bayou import Batch
    >>> learner = Joint(n_features=3, covariance="full", intercept=False)
    >>> p = learner.learn(Batch.from_rows([{0: 1.0, 1: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> bool(p[0] == 0.5 and p[1] > 0.5)
    True
    >>> covariance = learner.covariance_matrix()  # either of the two may have been the cause; the third was not there
    >>> bool(covariance[0, 1] < 0 == covariance[0, 2])
    True
    """

    name = "joint"

    def __init__(
        self,
        n_features: int,
        *,
        covariance: str = "diagonal",
        mean_update: str = "newton",
        prior_mean: Any = 0.0,
        prior_variance: Any = 1.0,
        batch_size: int = 1,
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        self._full = one_of("covariance", covariance, COVARIANCES)
        super().__init__(
            n_features=n_features,
            dtype="float64" if dtype is None and self._full else dtype,
            intercept=intercept,
            covariance=covariance,
            mean_update=mean_update,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            batch_size=whole_number("batch_size", batch_size, 1, MOST_WAITING),
            intercept_variance=intercept_variance,
        )
        self._taylor = one_of("mean_update", mean_update, MEAN_UPDATES)
        if batch_size > 1 and not self._full:
            raise BadInput(f'batch_size is {batch_size}; only covariance="full" learns several examples at once.')

    def _prior_table(self, mean: Any, variance: Any) -> np.ndarray:
        """(mean, precision) of every weight's prior, or one row for all; full covariance has the intercept's last."""
        if not self._full:
            return super()._prior_table(mean, variance)
        each = np.broadcast_to(variance, self._n_features)
        table = super()._prior_table(mean, each).astype(np.float64)
        table[:-1, 0], table[:-1, 1] = mean, 1.0 / each
        table[-1] = 0.0, self._intercept_precision
        return table

    def _make_state(self) -> None:
        if not self._full:
            super()._make_state()
            return
        if (wanted := self.nbytes) > MOST_BYTES:
            raise BadInput(
                f"a full covariance of {self._n_features} features takes {wanted / 2**30:.1f} GB; it may take "
                f'{MOST_BYTES >> 30} GB, some 23,000 features. Use covariance="diagonal".'
            )
        size, room = self._n_features + 1, padded(self._n_features + 1)
        # The precision gained is that of D. The row behind the last feature is the intercept.
        self._state = np.zeros((size, 2))
        self._intercept_state = self._state[-1:]
        # Row j holds column j of U above the diagonal.
        self._factor = np.zeros((size, room))
        # The examples of an unfinished mini-batch, and of each (sign of the label, weight); a weight of 0 ends them.
        batch_size = self._parameters["batch_size"]
        waiting = batch_size if batch_size > 1 else 0
        self._waiting, self._waiting_labels = np.zeros((waiting, room)), np.zeros((waiting, 2))

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"state": self._state[:-1], "intercept": self._intercept_state}
        if self._full:
            arrays["factor"] = self._factor
            if len(self._waiting):
                arrays |= {"waiting": self._waiting, "waiting labels": self._waiting_labels}
        return arrays

    def nbytes_for(self, n_features: int) -> int:
        """The memory that a learner like this one would take with so many weights."""
        if not self._full:
            return super().nbytes_for(n_features)
        waiting = self._parameters["batch_size"] if self._parameters["batch_size"] > 1 else 0
        return 8 * ((n_features + 1) * (2 + padded(n_features + 1)) + waiting * (2 + padded(n_features + 1)))

    # --- learning and predicting --------------------------------------------------------------------------------

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        mean, variance, probability = (np.empty(len(batch)) for _ in range(3))
        if self._full:
            _stream_full(
                batch.indptr,
                batch.indices,
                batch.values,
                signs,
                weights,
                self._state,
                self._prior,
                self._factor,
                self._waiting,
                self._waiting_labels,
                self._has_intercept,
                self._taylor,
                LIMIT[self._dtype],
                mean,
                variance,
            )
        else:
            _stream(
                batch.indptr,
                batch.indices,
                batch.values,
                batch.longest,
                batch.ones,
                signs,
                weights,
                self._state,
                self._prior,
                self._intercept_state[0],
                self._has_intercept,
                self._intercept_precision,
                self._taylor,
                np.uint64(self._examples),
                mean,
                variance,
            )
        probabilities(links.LOGISTIC, False, 1.0, mean, variance, probability)
        return Scores(probability, mean, variance)

    def end_pass(self) -> bool:
        """The data came to their end: learn from what waits for the rest of its mini-batch. Never converged: False."""
        if self._frozen:
            raise BadInput("this is a snapshot: it predicts, but does not learn. Learn with the learner itself.")
        with self._lock:
            if self._full and self._waiting_labels.any():
                limits = self._taylor, LIMIT[self._dtype]
                _learn_waiting(self._state, self._prior, self._factor, self._waiting, self._waiting_labels, *limits)
        return False

    def sample(self, batch: Batch, n_draws: int, seed: int = 0) -> np.ndarray:
        """Probabilities under `n_draws` weight vectors drawn from the posterior, shape (n_draws, rows).

        A draw is one weight vector for all rows (Thompson sampling), correlations and all: mu + U sqrt(D) z, with
        standard normal numbers z keyed by (seed, draw, feature).
        """
        if not self._full:
            return super().sample(batch, n_draws, seed)
        probability = np.empty((whole_number("n_draws", n_draws, 1, 2**31), len(batch)))
        seed = whole_number("seed", seed, 0, 2**64 - 1)
        with self._lock:
            self._check(batch)
            _draw_probabilities(
                batch.indptr,
                batch.indices,
                batch.values,
                self._prior[:, 0] + self._state[:, 0],
                1.0 / np.sqrt(self._prior[:, 1] + self._state[:, 1]),
                self._factor,
                self._has_intercept,
                np.uint64(seed),
                probability,
            )
        return probability

    # --- looking inside -----------------------------------------------------------------------------------------

    def _mean_at(self, features: Any) -> np.ndarray:
        return super()._mean_at(features).astype(self._dtype, copy=False)

    def _variance_at(self, features: Any) -> np.ndarray:
        if not self._full:
            return super()._variance_at(features)
        variance = np.empty(len(self._state))
        _diagonal(self._factor, self._prior[:, 1] + self._state[:, 1], variance)
        # A sum of many terms may round to a last place above what it started from.
        return np.minimum(variance, 1.0 / self._prior[:, 1])[:-1][features].astype(self._dtype)

    def covariance_matrix(self) -> np.ndarray:
        """The covariance of all weights, the intercept's in the last row and column if there is one."""
        size = self._n_features + self._has_intercept
        with self._lock:
            if not self._full:
                return np.diag(np.append(self.variance, self.intercept[1])[:size])
            upper = self._factor[:size, :size].T + np.eye(size)
            half = upper / np.sqrt(self._prior[:size, 1] + self._state[:size, 1])
        return half @ half.T

    # --- merging ------------------------------------------------------------------------------------------------

    def _add(self, other: Self, base: Self | None) -> None:
        """Natural parameters add: 1/S and mu/S each gain what `other` gained over the prior, or over `base`."""
        (self._add_full if self._full else self._add_naturals)(other, base)

    def _add_full(self, other: Self, base: Self | None) -> None:
        from scipy.linalg import LinAlgError, cholesky, solve_triangular

        if base is not None and base._waiting_labels.any():
            raise BadModel(
                "base stopped inside a mini-batch, whose examples both models hold: end_pass() would end it."
            )
        other = other.snapshot()
        other._frozen = False
        for learner in (self, other):
            learner.end_pass()
        parts = [(self, 1.0), (other, 1.0)] + ([] if base is None else [(base, -1.0)])
        # What nobody has met is as the prior says and correlated with nothing: it keeps its bits.
        met = np.zeros(self._factor.shape[1], bool)
        for learner, _ in parts:
            met |= learner._factor.any(axis=0)
            met[: len(learner._state)] |= learner._state.any(axis=1) | learner._factor.any(axis=1)
        live = np.flatnonzero(met)
        block = np.ix_(live, live)
        prior = self._prior[live, 1]
        precisions = []
        for learner, _ in parts:
            root = np.sqrt(prior + learner._state[live, 1])
            # 1/S = U'^-1 (1/D) U^-1
            upper = learner._factor[block].T
            half = root[:, None] * solve_triangular(upper, np.eye(len(live)), unit_diagonal=True)
            precisions.append(half.T @ half)
        try:
            for heir in precisions[:2] if base is not None else []:
                cholesky(heir - precisions[2] + np.diag(MERGE_ROUNDING * np.diag(heir)))
            whole = sum(sign * p for (_, sign), p in zip(parts, precisions, strict=True))
            lower = cholesky(whole - (base is None) * np.diag(prior), lower=True)
        except LinAlgError:
            raise BadModel("base knows more than the models grown from it; give a common ancestor.") from None
        moved = sum(sign * p @ q._state[live, 0] for (q, sign), p in zip(parts, precisions, strict=True))
        self._state[live, 0] = solve_triangular(lower.T, solve_triangular(lower, moved, lower=True))
        self._state[live, 1] = np.maximum(np.diag(lower) ** 2 - prior, 0.0)
        # lower = U'^-1 / sqrt(D)
        inverse = solve_triangular(lower / np.diag(lower), np.eye(len(live)), lower=True, unit_diagonal=True)
        self._factor[block] = np.tril(inverse, -1)


@njit(cache=True, nogil=True, error_model="numpy")
def _taylor_peak(a0, tau):
    """((a - a0) / tau, r(a)) after one Newton step from a0, (44) to (46); tau is c s2."""
    q, r = links.slope_and_curvature(links.LOGISTIC, a0)
    pull = q / (1.0 + tau * r)
    return pull, links.curvature(links.LOGISTIC, a0 + tau * pull)


@njit(cache=True, nogil=True, error_model="numpy")
def _peak(a0, tau):
    """(S(-a), r(a)) at the peak a = a0 + tau S(-a), (37); tau is c s2. Right to 1e-11.

    With t = a - a0 and e = exp(-|a|) the equation is t (1 + e) = tau e right of 0, t (1 + e) = tau left of it. Both
    sides bend one way only, so that Newton's steps cannot miss; a row waits for this, so that all is done to need few
    exponentials and divisions. Where tau is small the peak is near a0, else it is near 0 or beyond.
    """
    tau = max(tau, TINY)
    inverse = 1.0 / tau
    a = a0 if tau <= 4.0 else max(a0, 0.0)
    t = a - a0
    right = a0 >= 0.0 or (tau > 4.0 and 0.5 * tau > -a0)
    sign = 1.0 if right else -1.0
    decay = math.exp(-sign * a)
    for _ in range(MAX_ITERATIONS):
        rest = tau - t if right else t
        narrow = 1.0 / (1.0 + decay * (1.0 + rest))
        step = ((tau * decay if right else tau) - t * (1.0 + decay)) * narrow
        if abs(step) <= NEAR:
            break
        a += step
        t += step
        decay = math.exp(-sign * a)
    # Newton's step with two more terms of the series; e follows by a short polynomial; and the same again.
    step = _curved(step, sign, decay * narrow, rest)
    t += step
    decay *= _exp_near(-sign * step)
    rest = tau - t if right else t
    narrow = 1.0 / (1.0 + decay * (1.0 + rest))
    step = ((tau * decay if right else tau) - t * (1.0 + decay)) * narrow
    step = _curved(step, sign, decay * narrow, rest)
    q = (t + step) * inverse
    return q, q * (1.0 - q if right else decay * (1.0 + step * (1.0 + 0.5 * step)) * q)


@njit(forceinline=True)
def _curved(step, sign, slope, rest):
    """Where a Newton step leads if the function's second and third derivatives are also looked at."""
    bend = sign * 0.5 * slope * (2.0 + rest)
    twist = slope * (3.0 + rest) * (1.0 / 6.0)
    return step + step * step * (bend + step * (2.0 * bend * bend - twist))


@njit(forceinline=True)
def _exp_near(h):
    """exp(h) for small h, to 1e-12 for |h| <= 2 NEAR: its series, added in a tree."""
    h2 = h * h
    h4 = h2 * h2
    low = (1.0 + h) + h2 * (1.0 / 2 + h * (1.0 / 6))
    high = (1.0 / 24 + h * (1.0 / 120)) + h2 * (1.0 / 720 + h * (1.0 / 5040)) + h4 * (1.0 / 40320 + h * (1.0 / 362880))
    return low + h4 * high


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
    prior,
    intercept,
    has_intercept,
    intercept_precision,
    taylor,
    example,
    score_mean,
    score_variance,
):
    """Diagonal covariance: predict every row, learn from those whose weight is not 0.

    Rows are laid out as in `marginal`, by the same lines: a function that took the arrays would cost more than the rest
    of the row, as Numba counts references at every call.
    """
    dtype = state.dtype.type
    spare = np.uint32(state.shape[0] - 1)
    room = (longest + 2 * LANES) // LANES * LANES
    xs = np.zeros(room, state.dtype)
    xvs = np.zeros(room, state.dtype)
    means = np.zeros(room, state.dtype)
    gains = np.zeros(room, state.dtype)
    rows = np.full(room, spare, np.uint32)
    spares = rows[:LANES].copy()
    blank = xs[:LANES].copy()
    units = blank + dtype(1)
    xs[0] = has_intercept
    shift = intercept[0]
    gain = intercept[1]
    prior_mean = fill(load(xs, 0), prior[0, 0])
    prior_precision = fill(load(xs, 0), prior[0, 1])
    most = dtype(LIMIT_32 if state.itemsize == 4 else LIMIT_64)
    far = math.sqrt(most)
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
        m = s2 = fill(prior_mean, 0.0)
        for k in range(0, size, LANES):
            if fetch:
                prefetch_pairs(state, indices, ahead + k)
            x = load(xs, k)
            mean, gained = gather_pairs(state, rows, k)
            if prior.shape[0] > 1:
                prior_mean, prior_precision = gather_pairs(prior, rows, k)
            base_mean, base_precision = prior_mean, prior_precision
            if k == 0:
                mean, gained = put(mean, 0, shift), put(gained, 0, gain)
                base_mean, base_precision = put(base_mean, 0, 0.0), put(base_precision, 0, intercept_precision)
            xv = x / (base_precision + gained)
            m = m + x * (base_mean + mean)
            s2 = s2 + x * xv
            store(means, k, mean)
            store(gains, k, gained)
            store(xvs, k, xv)
        row_mean = np.float64(total(m))
        row_variance = total(s2)
        score_mean[row] = row_mean
        score_variance[row] = row_variance

        c = np.float64(weights[row])
        if c == 0.0:
            continue
        example += np.uint64(1)
        label_score, tau = signs[row] * row_mean, c * np.float64(row_variance)
        pull, r = _taylor_peak(label_score, tau) if taylor else _peak(label_score, tau)
        slope = dtype(signs[row] * c * pull)
        curve = dtype(c * r)
        for k in range(0, size, LANES):
            x, xv = load(xs, k), load(xvs, k)
            step = slope * xv
            more = (curve * x) * x / (curve * max(row_variance - x * xv, 0.0) + 1.0)
            if k == 0:
                shift = max(min(shift + pick(step, 0), far), -far)
                gain = gain + pick(more, 0)
            mean = add_on_average(load(means, k), step, rows, k, example)
            gained = add_on_average(load(gains, k), more, rows, k, example)
            scatter_pairs(state, rows, k, max(min(mean, far), -far), min(gained, most))
    state[spare] = 0
    intercept[0] = shift
    intercept[1] = gain


# --- full covariance ----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _stream_full(
    indptr,
    indices,
    values,
    signs,
    weights,
    state,
    prior,
    factor,
    waiting,
    waiting_labels,
    has_intercept,
    taylor,
    most,
    score_mean,
    score_variance,
):
    """Full covariance: predict every row, learn from those whose weight is not 0, at once or with their mini-batch."""
    size, room = factor.shape
    last = size - 1
    far = math.sqrt(most)
    x, f, v, along = np.zeros(room), np.zeros(room), np.zeros(room), np.zeros(room)
    x[last] = has_intercept
    count = 0
    while count < len(waiting) and waiting_labels[count, 1] > 0.0:
        count += 1
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        first = last
        m = x[last] * (prior[last, 0] + state[last, 0])
        for k in range(start, stop):
            feature = np.int64(indices[k])
            x[feature] = values[k]
            m += x[feature] * (prior[feature, 0] + state[feature, 0])
            first = min(first, feature)
        if SPARSE * (stop - start) < size:
            for j in range(first, size):
                dot = x[j]
                for k in range(start, stop):
                    dot += factor[j, indices[k]] * x[indices[k]]
                f[j] = dot
        else:
            _turn(factor, x, first, f)
        s2 = _stretch(f, state, prior, first, v)
        score_mean[row] = m
        score_variance[row] = s2
        c = np.float64(weights[row])
        if c != 0.0:
            y = np.float64(signs[row])
            if len(waiting):
                waiting[count] = x
                waiting_labels[count, 0] = y
                waiting_labels[count, 1] = c
                count += 1
                if count == len(waiting):
                    _learn_waiting(state, prior, factor, waiting, waiting_labels, taylor, most)
                    count = 0
            else:
                pull, r = _taylor_peak(y * m, c * s2) if taylor else _peak(y * m, c * s2)
                _narrow(factor, state, f, v, first, c * r, most, along)
                for j in range(size):
                    state[j, 0] = max(min(state[j, 0] + y * c * pull * along[j], far), -far)
        for k in range(start, stop):
            x[indices[k]] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _turn(factor, x, first, f):
    """f = U'x, where x is 0 before `first`; f is not written there."""
    size, room = factor.shape
    flat = factor.reshape(-1)
    begin = first // LANES * LANES
    for j in range(first, size):
        dot = fill(load(x, 0), 0.0)
        for i in range(begin, j, LANES):
            dot = dot + load(flat, j * room + i) * load(x, i)
        f[j] = x[j] + total(dot)


@njit(cache=True, nogil=True, error_model="numpy")
def _stretch(f, state, prior, first, v):
    """v = D f from `first` on; f'D f."""
    s2 = 0.0
    for j in range(first, len(state)):
        v[j] = f[j] / (prior[j, 1] + state[j, 1])
        s2 += f[j] * v[j]
    return s2


@njit(cache=True, nogil=True, error_model="numpy")
def _dot(a, b):
    dot = fill(load(a, 0), 0.0)
    for i in range(0, len(a), LANES):
        dot = dot + load(a, i) * load(b, i)
    return total(dot)


@njit(cache=True, nogil=True, error_model="numpy")
def _narrow(factor, state, f, v, first, k, most, along):
    """1/S += k x x', by the module's recursion, with f = U'x and v = D f, both 0 before `first`; along = S x, of the
    old S."""
    size, room = factor.shape
    flat = factor.reshape(-1)
    along[:] = 0.0
    alpha = 1.0
    for j in range(first, size):
        if f[j] == 0.0:  # nothing happens to this column
            continue
        back = -k * f[j] / alpha
        for i in range(0, j, LANES):
            u, b = load(flat, j * room + i), load(along, i)
            store(flat, j * room + i, u + back * b)
            store(along, i, b + u * v[j])
        along[j] = v[j]
        state[j, 1] = min(state[j, 1] + k * f[j] * f[j] / alpha, most)
        alpha += k * f[j] * v[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _learn_waiting(state, prior, factor, waiting, waiting_labels, taylor, most):
    """Learn a mini-batch as far as it has come, and empty it.

    The new mean is mu + S X'g for some g, one number per example, so that all happens in the examples' scores.
    """
    count = 0
    while count < len(waiting) and waiting_labels[count, 1] > 0.0:
        count += 1
    size, room = factor.shape
    far = math.sqrt(most)
    f, v, along = np.zeros((count, room)), np.zeros((count, room)), np.zeros(room)
    scores, shared = np.zeros(count), np.zeros((count, count))
    for s in range(count):
        for j in range(size):
            scores[s] += waiting[s, j] * (prior[j, 0] + state[j, 0])
        _turn(factor, waiting[s], 0, f[s])
        _stretch(f[s], state, prior, 0, v[s])
        for other in range(s + 1):
            shared[s, other] = shared[other, s] = _dot(f[s], v[other])
    pulls = _batch_peak(shared, scores, waiting_labels, taylor)

    # mu += U D (U'X')g: column after column of U
    move = np.zeros(room)
    for s in range(count):
        for j in range(size):
            along[j] += pulls[s] * v[s, j]
    for j in range(size):
        move[j] += along[j]
        for i in range(j):
            move[i] += factor[j, i] * along[j]
    for j in range(size):
        state[j, 0] = max(min(state[j, 0] + move[j], far), -far)
    for s in range(count):
        rate = waiting_labels[s, 1] * links.curvature(links.LOGISTIC, scores[s])
        _turn(factor, waiting[s], 0, f[s])
        _stretch(f[s], state, prior, 0, v[s])
        _narrow(factor, state, f[s], v[s], 0, rate, most, along)
    waiting[:count] = 0.0
    waiting_labels[:count] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _batch_peak(shared, scores, labels, taylor):
    """g at the peak of the mini-batch's posterior, by Newton; scores become those at the new mean.

    With K = `shared` = X S X', scores z = z0 + K g, gradients q = c y S(-y z) and curvatures W = c r(z), a Newton step
    goes to g = b - W^1/2 (I + W^1/2 K W^1/2)^-1 W^1/2 K b, b = W (z - z0) + q (Rasmussen, Williams 2006, section 3.4).
    It is halved until the posterior's logarithm, sum c log S(y z) - g'K g / 2, does not fall. Taylor takes one, whole.
    """
    count = len(scores)
    start = scores.copy()
    g, b, q, w, to, old = np.zeros((6, count))
    square = np.zeros((count, count))
    height = -math.inf
    for _ in range(MAX_BATCH_ITERATIONS):
        now = 0.0
        for s in range(count):
            y, c = labels[s, 0], labels[s, 1]
            slope, curve = links.slope_and_curvature(links.LOGISTIC, y * scores[s])
            q[s], w[s] = c * y * slope, math.sqrt(c * curve)
            now += c * links.log_sigmoid(y * scores[s]) - 0.5 * g[s] * (scores[s] - start[s])
            b[s] = w[s] * w[s] * (scores[s] - start[s]) + q[s]
        height = now
        for s in range(count):
            for other in range(count):
                square[s, other] = w[s] * shared[s, other] * w[other] + (s == other)
        for s in range(count):
            to[s] = 0.0
            for other in range(count):
                to[s] += shared[s, other] * b[other]
            to[s] *= w[s]
        _solve(square, to)
        for s in range(count):
            old[s] = g[s]
            to[s] = b[s] - w[s] * to[s]
        share = 1.0
        while True:
            for s in range(count):
                g[s] = old[s] + share * (to[s] - old[s])
            farthest, now = 0.0, 0.0
            for s in range(count):
                z = start[s]
                for other in range(count):
                    z += shared[s, other] * g[other]
                b[s] = z
            for s in range(count):
                farthest = max(farthest, abs(b[s] - scores[s]) / (1.0 + abs(b[s])))
                now += labels[s, 1] * links.log_sigmoid(labels[s, 0] * b[s]) - 0.5 * g[s] * (b[s] - start[s])
            if taylor or now >= height - 1e-12 * (1.0 + abs(height)) or share < 1e-12:
                break
            share *= 0.5
        scores[:] = b
        # What is left is of the order of the last step's square.
        if taylor or (share == 1.0 and farthest < 1e-9) or share < 1e-12:
            break
    return g


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(square, right):
    """right <- square^-1 right, for a symmetric matrix that is I plus something positive: no pivot is below 1."""
    count = len(right)
    for j in range(count):
        for i in range(j, count):
            for k in range(j):
                square[i, j] -= square[i, k] * square[j, k]
            square[i, j] = math.sqrt(max(square[j, j], 1.0)) if i == j else square[i, j] / square[j, j]
    for i in range(count):
        for k in range(i):
            right[i] -= square[i, k] * right[k]
        right[i] /= square[i, i]
    for i in range(count - 1, -1, -1):
        for k in range(i + 1, count):
            right[i] -= square[k, i] * right[k]
        right[i] /= square[i, i]


@njit(cache=True, nogil=True)
def _diagonal(factor, precision, variance):
    """The diagonal of U D U'."""
    for j in range(len(factor)):
        variance[j] = 1.0 / precision[j]
        for i in range(j):
            variance[i] += factor[j, i] * factor[j, i] / precision[j]


@njit(cache=True, nogil=True)
def _draw_probabilities(indptr, indices, values, mean, sd, factor, has_intercept, seed, probability):
    """probability[draw, row], with one weight vector mean + U sd z per draw."""
    last = len(factor) - 1
    weights = np.empty(len(factor))
    for draw in range(probability.shape[0]):
        weights[:] = mean
        for j in range(len(factor)):
            deviation = sd[j] * normal(seed, draw, np.uint64(j))
            weights[j] += deviation
            for i in range(j):
                weights[i] += factor[j, i] * deviation
        for row in range(indptr.size - 1):
            score = weights[last] if has_intercept else 0.0
            for k in range(indptr[row], indptr[row + 1]):
                score += values[k] * weights[indices[k]]
            probability[draw, row] = links.sigmoid(score)
