"""Spike and slab: which features matter, with a probability for each, learned from a stream by expectation propagation.

Model: P(y | x, w) = Phi(y x'w); s_j ~ Bernoulli(rho0); w_j ~ N(0, tau0) where s_j = 1, and exactly 0 where s_j = 0.
The likelihood of all examples is kept as a Gaussian factor per weight, with precision Lr and precision times mean Lh,
both 0 at the start. With it, the posterior of a weight is a spike and a slab again (olss, (21) to (23)):

    log-odds  = logit(rho0) - log(1 + tau0 Lr)/2 + Lh^2 tau0 / (2 (1 + tau0 Lr)),   pi = S(log-odds)
    slab      N(mt, vt),   vt = 1/(Lr + 1/tau0),   mt = vt Lh
    mean      m = pi mt,   variance v = pi (vt + (1 - pi) mt^2), at least 1e-30

An example (x, y = +-1) meets the independent Gaussians N(m, v). With S = 1 + sum x^2 v, z = y sum x m / sqrt(S),
R = phi(z)/Phi(z), k = R (R + z), every active weight gets from it the factor that moment matching leaves, tilted
distribution over cavity, written without a difference of nearly equal numbers:

    d = 1 / (S - k x^2 v),   r = x^2 k d,   h = m r + x y R sqrt(S) d,         Lr += r,   Lh += h

That is assumed-density filtering, one pass over a stream. A further pass (`end_pass` says that the data come again) is
stochastic EP: the averages of the factors of each class, Lr+/n+ and Lh+/n+, and those of the negatives, are frozen; a
visit takes the average of its class out of N(m, v), computes the example's own factor against that cavity, and puts it
in the average's place. After each pass L is the sum of one factor per example, all of the same weight. Where nothing
but noise would be left (a cavity's precision <= 0), a weight is left alone for that example.

An example of weight c is learned as ceil(c) repeats, each a factor to the power c / ceil(c): a factor taken c times at
once would claim the credit of all repeats for every feature. Beyond 64 repeats each counts for more.

`refresh_every` = T > 1 holds the prior's factor, (1/v - Lr, m/v - Lh), for T examples at a time, as the paper does
to save time; here it is computed whenever a weight is used, which costs less than keeping it and is as good.
`batch_size` = M > 1 is the paper's mini-batch: N(m, v) stands still for M examples. They all claim the same credit, and
with correlated features weights can grow without bound; it is there for comparisons.

`intercept` is a weight that is always in the slab. A feature is selected where its log-odds are > 0. Predictions use
the means of the selected weights, Phi(sum x m), predictive="selected", or all of the posterior,
Phi(sum x m / sqrt(1 + sum x^2 v)), predictive="full".

Papers: Fang et al., Online Bayesian sparse learning with spike and slab priors, ICDM 2020 (olss), sections II, III, and
its slides. inclusion_prior and slab_variance are rho0 and tau0. Its (17) to (20) and (22), (23) are moments of the
tilted distribution and have to be divided by the cavity, as here; its 10^6 for the first variances lets a feature that
is met late take all the credit.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np
from numba import njit

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.checks import one_of, positive_number, whole_number
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores
from bayou.core.prediction import ScoreRule
from bayou.core.registry import Record
from bayou.core.validation import LIMIT
from bayou.kernels.exponential import POWERS_32, POWERS_64, exp2_within
from bayou.kernels.gather import add_to_half, gather_sums, prefetch
from bayou.kernels.rounding import rounding_phase
from bayou.kernels.vector import (
    LANES,
    aligned_zeros,
    copy_lanes,
    fill,
    load,
    pick,
    put,
    sqrt,
    store,
    total,
    where_above,
)
from bayou.learners.diagonal import nudged

RECORD = Record(
    name="spike-slab",
    path="bayou.learners.spike_slab:SpikeSlab",
    estimator="SpikeSlabClassifier",
    summary="selects features: each has a probability to matter; expectation propagation on a stream",
    paper="olss, sections II, III; olss-slides",
    dtype="float64",
    linear=False,
    passes="multi",
)

LINKS = {"probit": links.PROBIT}
PREDICTIVES = {"selected": True, "full": False}
# A feature's row: of the positive examples the sum of factors (precision, precision * mean) and of weights, then the
# precision that is held; the same of the negative ones, and the precision * mean that is held.
COLUMNS = 8
COUNTS, HELD = [2, 6], [3, 7]
LOG2E = 1.0 / math.log(2.0)
# No factor is larger than this, in float64 as in float32, and no mean than its root: all stays finite.
MOST = LIMIT["float32"]
LEAST_VARIANCE = 1e-30
LONGEST_ODDS = 1e30  # against a feature; pi is no smaller than its inverse
MOST_REPEATS = 64
# pi (1 - pi) mt^2, the part of a variance that exceeds the slab's, is at most a quarter of 2 log(odds) vt.
WIDER_THAN_THE_SLAB = 100.0
# A pass that moves no inclusion probability further than this was the last one needed.
SETTLED = 1e-3
# Non-zeros between a row and the one whose weights are asked for: about two rows of forty.
AHEAD = 80


class SpikeSlab(Learner):
    """Sparse probit regression with an inclusion probability for every feature.

    Args:
        n_features: how many weights there are; features are numbered from 0.
        inclusion_prior: rho0, how probable it is that a feature matters, before any data; it steers how many are
            selected, and may be as small as 1e-30.
        slab_variance: tau0, the variance of the weights that matter: about 1 for 0/1 features, 3 to 50 for rows of
            length 1 such as tf-idf.
        refresh_every: T, for how many examples the prior's factor is held; 1 is best.
        batch_size: M, how many examples meet the same posterior; more than 1 is for comparisons, and can diverge.
        predictive: "selected", the means of the selected features, or "full".
        link: "probit", the only one.
        intercept: whether there is an extra weight whose feature is always 1; it is always selected.
        intercept_variance: its prior variance; max(3, slab_variance) if not given.
        dtype: of the state, "float32" or "float64". The intercept is always kept in float64.

    >>> from bayou import Batch
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> learner = SpikeSlab(20, inclusion_prior=0.1)
    >>> p = learner.learn(Batch.from_csr(X, X[:, 3] - X[:, 7] > 0))
    >>> learner.selected.tolist(), bool(learner.inclusion[3] > 0.99)
    ([3, 7], True)
    """

    name = "spike-slab"
    _per_feature = ("state", "averages")

    def __init__(
        self,
        n_features: int,
        *,
        inclusion_prior: float = 0.1,
        slab_variance: float = 1.0,
        refresh_every: int = 1,
        batch_size: int = 1,
        predictive: str = "selected",
        link: str = "probit",
        intercept: bool = True,
        intercept_variance: float | None = None,
        dtype: Any = None,
    ) -> None:
        rho = positive_number("inclusion_prior", inclusion_prior)
        if not 1 / LONGEST_ODDS <= rho < 1:
            raise BadInput(f"inclusion_prior is {inclusion_prior!r}; it must be a probability from 1e-30 to below 1.")
        tau = positive_number("slab_variance", slab_variance, high=1e6)
        if intercept_variance is None:
            intercept_variance = max(3.0, tau)
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            inclusion_prior=rho,
            slab_variance=tau,
            refresh_every=whole_number("refresh_every", refresh_every, 1),
            batch_size=whole_number("batch_size", batch_size, 1),
            predictive=predictive,
            link=link,
            intercept_variance=positive_number("intercept_variance", intercept_variance, high=1e6),
        )
        if min(tau, self._parameters["intercept_variance"]) < 1e-6:
            raise BadInput("slab_variance and intercept_variance must be at least 1e-6; scale the features.")
        one_of("link", link, LINKS)
        self._selects = one_of("predictive", predictive, PREDICTIVES)
        self._prior_log_odds = math.log(rho) - math.log1p(-rho)
        # The row behind the last feature is spare: rows are padded with it.
        self._state = aligned_zeros(self._n_features + 1, COLUMNS, self._dtype)
        self._averages = np.zeros((self._n_features, 4), self._dtype)
        self._intercept_state = np.zeros(COLUMNS)
        self._intercept_averages = np.zeros(4)
        self._passes = np.zeros(2, np.int64)  # how many have ended; after how many the averages were made
        # In which stretch of T (or M) examples a feature was last used, from 1; who refreshes always needs none.
        self._stretch = max(refresh_every, batch_size)
        self._stretches = np.zeros(self._n_features if self._stretch > 1 else 0, np.int64)
        widest = WIDER_THAN_THE_SLAB * max(1.0, tau, self._parameters["intercept_variance"])
        self._widest = widest * LIMIT[self._dtype] / MOST  # the same values are too large for either type

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {
            "state": self._state[:-1],
            "averages": self._averages,
            "intercept": self._intercept_state[None],
            "intercept_averages": self._intercept_averages[None],
            "passes": self._passes,
        }
        return arrays | ({"stretches": self._stretches} if self._stretch > 1 else {})

    def _run(self, batch: Batch, signs: np.ndarray, weights: np.ndarray) -> Scores:
        mean, variance, probability = (np.empty(len(batch)) for _ in range(3))
        p = self._parameters
        if self._passes[0] > self._passes[1] and weights.any():
            self._freeze()  # not before the data do come again
        rows = (batch.indptr, batch.indices, batch.values, batch.longest)
        rest = (
            signs,
            weights,
            self._state,
            self._intercept_state,
            self._has_intercept,
            1.0 / p["intercept_variance"],
            p["inclusion_prior"],
            p["slab_variance"],
            self._selects,
            np.uint64(self._examples),
            mean,
            variance,
        )
        if self._stretch == 1 and self._passes[1] == 0:  # a model whose data have not come again predicts as fast
            _stream(*rows, batch.ones, *rest)
        else:
            _stream_general(
                *rows,
                *rest,
                self._averages,
                self._intercept_averages,
                self._passes[0] > 0,
                self._stretches,
                self._stretch,
                p["batch_size"] > 1,
            )
        _probabilities(self._selects, mean, variance, probability)
        return Scores(probability, mean, variance)

    # --- passes -------------------------------------------------------------------------------------------------

    def new_stream(self) -> None:
        """What comes next was never learned from, whatever `end_pass` said."""
        with self._lock:
            self._passes[:] = 0

    def end_pass(self) -> bool:
        """The data will come again. True where this pass, not the first, has hardly moved an inclusion probability."""
        with self._lock:
            moved = self._freeze() if self._passes[0] > 0 else math.inf
            self._passes[0] += 1
            return moved < SETTLED

    def _freeze(self) -> float:
        """Make the averages those of now; how far the most restless inclusion probability has moved since the last."""
        self._passes[1] = self._passes[0]
        p = self._parameters
        _averages(self._intercept_state[None], self._intercept_averages[None], 0.5, 1.0)
        return _averages(self._state[:-1], self._averages, p["inclusion_prior"], p["slab_variance"])

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def log_odds(self) -> np.ndarray:
        """The log-odds of every feature's inclusion."""
        with self._lock:
            return self._log_odds_of(self._state[:-1])

    @property
    def inclusion(self) -> np.ndarray:
        """The probability of every feature to matter."""
        with self._lock:
            return self._inclusion_of(self._state[:-1])

    @property
    def selected(self) -> np.ndarray:
        """The features more likely to matter than not, in ascending order."""
        return np.flatnonzero(self.log_odds > 0)

    def _log_odds_of(self, rows: np.ndarray) -> np.ndarray:
        precision, shift = _likelihood(rows)
        tau = self._parameters["slab_variance"]
        return self._prior_log_odds - np.log1p(tau * precision) / 2 + shift * (shift / (precision + 1 / tau)) / 2

    def _inclusion_of(self, rows: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-np.clip(self._log_odds_of(rows), -700.0, 700.0)))

    def _moments(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = self._state[:-1][features]
        precision, shift = _likelihood(rows)
        inclusion = np.maximum(self._inclusion_of(rows), 1 / LONGEST_ODDS)
        slab = 1 / (precision + 1 / self._parameters["slab_variance"])
        far = math.sqrt(MOST)
        there = np.clip(slab * shift, -far, far)
        mean = inclusion * there
        variance = np.maximum(inclusion * (slab + (1 - inclusion) * there**2), LEAST_VARIANCE)
        if self._stretch > 1:
            standing = self._stretches[features] == self._examples // self._stretch + 1
            held = rows[:, HELD].astype(np.float64)
            if self._parameters["batch_size"] == 1:
                held += np.stack([precision, shift], axis=1)
            standing &= held[:, 0] > 0
            precision = np.where(standing, held[:, 0], 1.0)
            mean = np.where(standing, held[:, 1] / precision, mean)
            variance = np.where(standing, 1 / precision, variance)
        return mean.astype(self._dtype), variance.astype(self._dtype)

    def _mean_at(self, features: Any) -> np.ndarray:
        return self._moments(features)[0]

    def _variance_at(self, features: Any) -> np.ndarray:
        return self._moments(features)[1]

    def _intercept(self) -> tuple[float, float]:
        precision, shift = _likelihood(self._intercept_state[None])
        variance = 1 / (precision[0] + 1 / self._parameters["intercept_variance"])
        return float(variance * shift[0]), float(variance)

    # --- merging ------------------------------------------------------------------------------------------------

    @cached_property
    def score_rule(self) -> ScoreRule:
        return ScoreRule(self._link, "plain" if self._parameters["predictive"] == "selected" else "closed")

    def _add(self, other: Self, base: Self | None) -> None:
        """Factors add. What only one of the two has met stays as it is there, also what is held of it."""
        for name in ("state", "intercept"):
            mine, theirs = self._arrays()[name], other._arrays()[name]
            before = None if base is None else base._arrays()[name]
            for start in range(0, len(mine), 1 << 18):  # rows at a time, to bound the copies
                part = slice(start, start + (1 << 18))
                old = np.zeros_like(mine[part]) if before is None else before[part]
                if (np.minimum(mine[part], theirs[part]) < old * (1 - 1e-6))[:, COUNTS].any():
                    raise BadModel("base knows more than the models grown from it; give a common ancestor.")
                news = (theirs[part] != old).any(axis=1)
                both = news & (mine[part] != old).any(axis=1)
                alone = start + np.flatnonzero(news & ~both)
                both = start + np.flatnonzero(both)
                summed = mine[both].astype(np.float64) + theirs[both] - old[both - start]
                summed[:, [0, 2, 4, 6]] = np.maximum(summed[:, [0, 2, 4, 6]], 0.0)
                summed[:, HELD] = 0.0
                mine[both], mine[alone] = summed, theirs[alone]
                if self._stretch > 1 and name == "state":
                    self._stretches[both], self._stretches[alone] = 0, other._stretches[alone]
        self._averages[:] = 0.0
        self._passes[:] = 0


def _likelihood(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Lr, Lh) of some rows."""
    rows = rows.astype(np.float64)
    return rows[:, 0] + rows[:, 4], rows[:, 1] + rows[:, 5]


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
    intercept_precision,
    inclusion_prior,
    slab_variance,
    selects,
    example,
    score_mean,
    score_variance,
):
    """The first pass: predict every row, learn from those whose weight is not 0. Rows are laid out as in `marginal`."""
    dtype = state.dtype.type
    spare = np.uint32(state.shape[0] - 1)
    room = (longest + 2 * LANES) // LANES * LANES
    xs = np.zeros(room, state.dtype)
    slabs = np.zeros(room, state.dtype)
    theres = np.zeros(room, state.dtype)
    powers = np.zeros(room, state.dtype)
    roots = np.zeros(room, state.dtype)
    means = np.zeros(room, state.dtype)
    variances = np.zeros(room, state.dtype)
    rows = np.full(room, spare, np.uint32)
    spares = rows[:LANES].copy()
    blank = xs[:LANES].copy()
    units = blank + dtype(1)
    xs[0] = has_intercept
    zero = fill(load(xs, 0), 0.0)
    most = dtype(MOST)
    far = math.sqrt(most)
    lowest = dtype(POWERS_32[0] if state.itemsize == 4 else POWERS_64[0])
    precision_0 = dtype(1.0 / slab_variance)
    # exp(-log-odds) = odds sqrt(Lr + 1/tau0) exp(-Lh mt / 2)
    odds = dtype((1.0 - inclusion_prior) / inclusion_prior * math.sqrt(slab_variance))
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

        c = weights[row]
        sign = 1.0 if signs[row] > 0 else -1.0
        half = 0 if signs[row] > 0 else 1
        repeats = 1 if c <= 1.0 else int(min(math.ceil(c), MOST_REPEATS))
        share = dtype(c / repeats)
        example += np.uint64(c != 0.0)
        for repeat in range(repeats):
            ahead = start + AHEAD
            fetch = repeat == 0 and ahead + size <= end
            bias_variance = 1.0 / (intercept_precision + intercept[0] + intercept[4])
            bias = bias_variance * (intercept[1] + intercept[5])
            m = s2 = chosen_m = chosen_s2 = zero
            for k in range(0, size, LANES):
                if fetch:
                    for lane in range(LANES):
                        prefetch(state, np.intp(indices[ahead + k + lane]) * COLUMNS)
                precision, shift = gather_sums(state, rows, k)
                precision = precision + precision_0
                slab = 1.0 / precision
                there = min(max(slab * shift, -far), far)
                store(slabs, k, slab)
                store(theres, k, there)
                store(powers, k, max(shift * there * (-0.5 * LOG2E), lowest))
                store(roots, k, sqrt(precision) * odds)
            # A loop of its own: short chains of operations overlap with their neighbours better than a long one.
            for k in range(0, size, LANES):
                x, slab, there = load(xs, k), load(slabs, k), load(theres, k)
                against = min(load(roots, k) * exp2_within(load(powers, k)), LONGEST_ODDS)
                inclusion = 1.0 / (against + 1.0)
                mean = inclusion * there
                variance = max(inclusion * (slab + (against * inclusion) * (there * there)), LEAST_VARIANCE)
                if k == 0:
                    mean, variance, against = put(mean, 0, bias), put(variance, 0, bias_variance), put(against, 0, 0.0)
                xm, xxv = x * mean, x * (x * variance)
                m = m + xm
                s2 = s2 + xxv
                if selects:
                    chosen = 1.0 - against
                    chosen_m = chosen_m + where_above(chosen, 0.0, xm, zero)
                    chosen_s2 = chosen_s2 + where_above(chosen, 0.0, xxv, zero)
                store(means, k, mean)
                store(variances, k, variance)
            if repeat == 0:
                score_mean[row] = total(chosen_m) if selects else total(m)
                score_variance[row] = total(chosen_s2) if selects else total(s2)
            if c == 0.0:
                break

            others = total(s2)
            spread = math.sqrt(1.0 + np.float64(others))
            slope, curvature = links.slope_and_curvature(links.PROBIT, sign * np.float64(total(m)) / spread)
            pull = dtype(sign * slope * spread)
            bend, rest = dtype(curvature), dtype(1.0 - curvature)
            count = example + np.uint64(repeat << 24)
            for k in range(0, size, LANES):
                x, mean = load(xs, k), load(means, k)
                xx = x * x
                own = xx * load(variances, k)
                d = 1.0 / ((max(others - own, 0.0) + own * rest) + 1.0)
                precision = xx * bend * d
                shift, push = mean * precision, x * pull * d
                if state.itemsize == 4:  # float64 has room for any product of what is let in
                    shift, push = min(max(shift, -most), most), min(max(push, -most), most)
                shift = shift + push
                precision, shift = precision * share, shift * share
                if k == 0 and has_intercept:
                    at = 4 * half
                    intercept[at] = min(intercept[at] + pick(precision, 0), MOST)
                    intercept[at + 1] = max(min(intercept[at + 1] + pick(shift, 0), MOST), -MOST)
                    intercept[at + 2] += share
                add_to_half(state, rows, k, half, precision, shift, share, most, count)
    state[spare] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _posterior(precision, shift, inclusion_prior, slab_variance, far):
    """(mean, variance, whether selected) of a weight with this likelihood; the module's docstring, in odds."""
    slab = 1.0 / (precision + 1.0 / slab_variance)
    there = min(max(slab * shift, -far), far)
    against = (1.0 - inclusion_prior) / inclusion_prior * math.sqrt(1.0 + slab_variance * precision)
    against = min(against * math.exp(max(-0.5 * shift * there, -700.0)), LONGEST_ODDS)
    inclusion = 1.0 / (1.0 + against)
    variance = inclusion * (slab + against * inclusion * there * there)
    return inclusion * there, max(variance, LEAST_VARIANCE), against < 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _stream_general(
    indptr,
    indices,
    values,
    longest,
    signs,
    weights,
    state,
    intercept,
    has_intercept,
    intercept_precision,
    inclusion_prior,
    slab_variance,
    selects,
    example,
    score_mean,
    score_variance,
    averages,
    intercept_averages,
    again,
    stretches,
    stretch,
    standing,
):
    """Any pass, with the prior's factor held for `stretch` examples, or all of the posterior (`standing`)."""
    most = MOST
    far = math.sqrt(most)
    xs = np.zeros(longest + 1)
    means = np.zeros(longest + 1)
    variances = np.zeros(longest + 1)
    out = np.zeros((longest + 1, 2))  # what is taken out for the cavity
    alone = np.zeros(longest + 1, np.bool_)  # to be left alone
    for row in range(indptr.size - 1):
        start = indptr[row]
        size = indptr[row + 1] - start + 1
        c = weights[row]
        sign = 1.0 if signs[row] > 0 else -1.0
        at = 0 if signs[row] > 0 else 4
        repeats = 1 if c <= 1.0 else int(min(math.ceil(c), MOST_REPEATS))
        share = np.float64(c) / repeats
        here = np.int64(example) // stretch + 1
        example += np.uint64(c != 0.0)
        for repeat in range(repeats):
            m = s2 = score = spread = 0.0
            for k in range(size):
                if k == 0:
                    x = 1.0 if has_intercept else 0.0
                    variance = 1.0 / (intercept_precision + intercept[0] + intercept[4])
                    mean, selected = variance * (intercept[1] + intercept[5]), True
                    out[k, 0], out[k, 1] = intercept_averages[at // 2], intercept_averages[at // 2 + 1]
                else:
                    feature = indices[start + k - 1]
                    x = np.float64(state.dtype.type(values[start + k - 1]))
                    precision = np.float64(state[feature, 0]) + state[feature, 4]
                    shift = np.float64(state[feature, 1]) + state[feature, 5]
                    mean, variance, selected = _posterior(precision, shift, inclusion_prior, slab_variance, far)
                    if stretch > 1:
                        held, held_shift = np.float64(state[feature, 3]), np.float64(state[feature, 7])
                        if not standing:
                            held, held_shift = held + precision, held_shift + shift
                        if stretches[feature] == here and held > 0.0:
                            mean, variance = held_shift / held, 1.0 / held
                        elif c != 0.0:
                            held = 1.0 / variance - (0.0 if standing else precision)
                            held_shift = mean / variance - (0.0 if standing else shift)
                            state[feature, 3] = max(min(held, most), -most)
                            state[feature, 7] = max(min(held_shift, most), -most)
                            stretches[feature] = here
                    out[k, 0], out[k, 1] = averages[feature, at // 2], averages[feature, at // 2 + 1]
                if selected or not selects:
                    score += x * mean
                    spread += x * x * variance
                alone[k] = False
                if again:
                    left = 1.0 / variance - share * out[k, 0]
                    alone[k] = not left > 0.0
                    if left > 0.0:
                        mean, variance = (mean / variance - share * out[k, 1]) / left, 1.0 / left
                else:
                    out[k, 0] = out[k, 1] = 0.0
                xs[k], means[k], variances[k] = x, max(min(mean, far), -far), variance
                m += x * means[k]
                s2 += x * x * variance
            if repeat == 0:
                score_mean[row], score_variance[row] = score, spread
            if c == 0.0:
                break
            whole = math.sqrt(1.0 + s2)
            slope, curvature = links.slope_and_curvature(links.PROBIT, sign * m / whole)
            for k in range(size):
                x = xs[k]
                if x == 0.0 or alone[k]:
                    continue
                own = x * x * variances[k]
                d = 1.0 / (1.0 + max(s2 - own, 0.0) + own * (1.0 - curvature))
                precision = x * x * curvature * d
                shift = max(min(means[k] * precision, most), -most) + max(
                    min(x * sign * slope * whole * d, most), -most
                )
                precision, shift = share * (precision - out[k, 0]), share * (shift - out[k, 1])
                new = out[k, 0] == 0.0 and out[k, 1] == 0.0
                if k == 0:
                    intercept[at] = min(max(intercept[at] + precision, 0.0), MOST)
                    intercept[at + 1] = max(min(intercept[at + 1] + shift, MOST), -MOST)
                    intercept[at + 2] += share * new
                else:
                    feature = indices[start + k - 1]
                    count = example + np.uint64(repeat << 24)
                    noise = rounding_phase(feature, count) if state.itemsize == 4 else 0.0
                    grown = np.float64(state[feature, at]) + precision
                    state[feature, at] = min(max(nudged(grown, noise), 0.0), most)
                    moved = np.float64(state[feature, at + 1]) + shift
                    state[feature, at + 1] = max(min(nudged(moved, noise), most), -most)
                    if new:
                        met = np.float64(state[feature, at + 2]) + share
                        state[feature, at + 2] = min(nudged(met, noise), most)


@njit(cache=True, nogil=True, error_model="numpy")
def _averages(state, averages, inclusion_prior, slab_variance):
    """Fill the averages of every row's factors, an example of each class; how far an inclusion probability moved."""
    moved = 0.0
    for row in range(state.shape[0]):
        precision = shift = old_precision = old_shift = 0.0
        for half in range(2):
            count = np.float64(state[row, 4 * half + 2])
            if count == 0.0:
                continue
            at = 2 * half
            old_precision += averages[row, at] * count
            old_shift += averages[row, at + 1] * count
            precision += state[row, 4 * half]
            shift += state[row, 4 * half + 1]
            averages[row, at] = state[row, 4 * half] / count
            averages[row, at + 1] = state[row, 4 * half + 1] / count
        if precision > 0.0:
            new = _inclusion(precision, shift, inclusion_prior, slab_variance)
            moved = max(moved, abs(new - _inclusion(old_precision, old_shift, inclusion_prior, slab_variance)))
    return moved


@njit(cache=True, nogil=True, error_model="numpy")
def _inclusion(precision, shift, inclusion_prior, slab_variance):
    against = (1.0 - inclusion_prior) / inclusion_prior * math.sqrt(1.0 + slab_variance * precision)
    return 1.0 / (1.0 + against * math.exp(max(-0.5 * shift * shift / (precision + 1.0 / slab_variance), -700.0)))


@njit(cache=True, nogil=True, error_model="numpy")
def _probabilities(selects, mean, variance, probability):
    for row in range(mean.size):
        z = mean[row] if selects else mean[row] / math.sqrt(1.0 + variance[row])
        probability[row] = links.normal_cdf(z)
