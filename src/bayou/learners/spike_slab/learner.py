"""Spike and slab: an inclusion probability for every feature, learned from a stream by expectation propagation.

Model: P(y | x, w) = Phi(y x'w); s_j ~ Bernoulli(rho0); w_j ~ N(0, tau0) where s_j = 1, and exactly 0 where s_j = 0.
The likelihood of all examples is stored as a Gaussian factor per weight, with precision Lr and precision times mean Lh,
both 0 at the start. With it, the posterior of a weight is again a spike and a slab (olss, (21) to (23)):

    log-odds  = logit(rho0) - log(1 + tau0 Lr)/2 + Lh^2 tau0 / (2 (1 + tau0 Lr)),   pi = S(log-odds)
    slab      N(mt, vt),   vt = 1/(Lr + 1/tau0),   mt = vt Lh
    mean      m = pi mt,   variance v = pi (vt + (1 - pi) mt^2), at least 1e-30

An example (x, y = +-1) is combined with independent Gaussians N(m, v). With S = 1 + sum x^2 v, z = y sum x m / sqrt(S),
R = phi(z)/Phi(z), k = R (R + z), every active weight gets the factor of moment matching, tilted distribution over
cavity, written without a difference of nearly equal numbers:

    d = 1 / (S - k x^2 v),   r = x^2 k d,   h = m r + x y R sqrt(S) d,         Lr += r,   Lh += h

That is assumed-density filtering, one pass over a stream. A further pass (after `end_pass`) is stochastic EP: the
averages of the factors of each class, Lr+/n+ and Lh+/n+, and those of the negatives, are frozen; a visit removes the
average of its class from N(m, v), computes the example's own factor against that cavity, and puts it in the average's
place. After each pass L is the sum of one factor per example, all of the same weight. Where only noise would be left (a
cavity's precision <= 0), a weight is not updated for that example.

An example of weight c is learned as ceil(c) repeats, each a factor to the power c / ceil(c): a factor applied c times
at once would attribute the effect of all repeats to every feature. Beyond 64 repeats each counts for more.

`refresh_every` = T > 1 holds the prior's factor, (1/v - Lr, m/v - Lh), for T examples at a time, as the paper does to
save time; by default it is computed whenever a weight is used, which costs less than storing it and is as good.
`batch_size` = M > 1 is the paper's mini-batch: N(m, v) is constant for M examples. These ignore each other's updates,
and with correlated features weights can grow without bound; it is meant for comparisons.

`intercept` is a weight that is always in the slab. A feature is selected where its log-odds are > 0. Predictions use
the means of the selected weights, Phi(sum x m), predictive="selected", or the whole posterior,
Phi(sum x m / sqrt(1 + sum x^2 v)), predictive="full".

Papers: Fang et al., Online Bayesian sparse learning with spike and slab priors, ICDM 2020 (olss), sections II, III, and
its slides. inclusion_prior and slab_variance are rho0 and tau0. Its (17) to (20) and (22), (23) are moments of the
tilted distribution and have to be divided by the cavity, as here; its 10^6 for the initial variances attributes all
evidence to features that are seen late.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from bayou.core.batch import Batch
from bayou.core.checks import check_choice, check_int, check_positive
from bayou.core.errors import BadInput, BadModel
from bayou.core.learner import Learner, Scores
from bayou.core.prediction import ScoreRule
from bayou.core.validation import LIMIT
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.row_layout import batch_arrays
from bayou.learners.bases.diagonal import probabilities
from bayou.learners.spike_slab import scalar_kernel, vector_kernel
from bayou.learners.spike_slab.weights import (
    AVERAGES,
    COLUMNS,
    COUNTS,
    HELD,
    LEAST_VARIANCE,
    LONGEST_ODDS,
    MOST,
    SUMS,
    SpikeSlabState,
    freeze_averages,
    likelihood,
)

PREDICTIVES = {"selected": True, "full": False}
# Counters of passes:
#     ENDED      number of passes that have ended
#     AVERAGED   value of ENDED when the averages were computed
ENDED, AVERAGED = range(2)
# pi (1 - pi) mt^2, the part of a variance that exceeds the slab's, is at most a quarter of 2 log(odds) vt.
WIDER_THAN_THE_SLAB = 100.0
# A pass that moves no inclusion probability by this much has converged.
CONVERGED_INCLUSION_CHANGE = 1e-3


class SpikeSlab(Learner):
    """Sparse probit regression with an inclusion probability for every feature.

    Args:
        n_features: number of weights; feature indices start at 0.
        inclusion_prior: rho0, prior probability that a feature is included; it controls how many are selected, and may
            be as small as 1e-30.
        slab_variance: tau0, prior variance of the included weights: about 1 for 0/1 features, 3 to 50 for rows of
            length 1 such as tf-idf.
        refresh_every: T, number of examples for which the prior's factor is held; 1 is best.
        batch_size: M, number of examples learned with the same posterior; more than 1 is for comparisons, and can
            diverge.
        predictive: "selected" uses the means of the selected weights, "full" the whole posterior.
        link: "probit", the only link supported.
        intercept: whether to add a weight whose feature is always 1; it is always selected.
        intercept_variance: its prior variance; by default max(3, slab_variance).
        dtype: type of the state, "float32" or "float64". The intercept is always kept in float64.

    >>> from bayou import Batch
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> learner = SpikeSlab(20, inclusion_prior=0.1)
    >>> p = learner.learn(Batch.from_csr(X, X[:, 3] - X[:, 7] > 0))
    >>> learner.selected.tolist(), bool(learner.inclusion[3] > 0.99)
    ([3, 7], True)
    """

    name = "spike-slab"
    supported_links = ("probit",)
    _per_feature_arrays = ("state", "averages")

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
        rho = check_positive("inclusion_prior", inclusion_prior)
        if not 1 / LONGEST_ODDS <= rho < 1:
            raise BadInput(f"inclusion_prior is {inclusion_prior!r}; it must be a probability from 1e-30 to below 1.")
        tau = check_positive("slab_variance", slab_variance, high=1e6)
        intercept_variance = max(3.0, tau) if intercept_variance is None else intercept_variance
        super().__init__(
            n_features=n_features,
            dtype=dtype,
            intercept=intercept,
            inclusion_prior=rho,
            slab_variance=tau,
            refresh_every=check_int("refresh_every", refresh_every, 1),
            batch_size=check_int("batch_size", batch_size, 1),
            predictive=predictive,
            link=link,
            intercept_variance=check_positive("intercept_variance", intercept_variance, high=1e6),
        )
        if min(tau, self._parameters["intercept_variance"]) < 1e-6:
            raise BadInput("slab_variance and intercept_variance must be at least 1e-6; scale the features.")
        self._selects = check_choice("predictive", predictive, PREDICTIVES)
        self._prior_log_odds = math.log(rho) - math.log1p(-rho)
        # The row after the last feature is spare: rows are padded with it.
        self._state = aligned_zeros(self._n_features + 1, COLUMNS, self._dtype)
        self._averages = aligned_zeros(self._n_features, AVERAGES, self._dtype)
        self._intercept_state = np.zeros(COLUMNS)
        self._intercept_averages = np.zeros(AVERAGES)
        self._passes = np.zeros(2, np.int64)
        # The stretch of T (or M) examples in which a feature was last used, from 1; empty if T = M = 1.
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
        if self._passes[ENDED] > self._passes[AVERAGED] and weights.any():
            self._freeze()  # not before further data arrive
        examples, example = batch_arrays(batch, signs, weights), np.uint64(self._examples)
        state = self._state, self._intercept_state, self._has_intercept
        priors = 1.0 / p["intercept_variance"], p["inclusion_prior"], p["slab_variance"]
        weights_state = SpikeSlabState(*state, *priors, self._selects)
        # also for predictions, as long as no second pass has begun: this kernel is faster
        if self._stretch == 1 and self._passes[AVERAGED] == 0:
            vector_kernel.stream(examples, weights_state, example, mean, variance)
        else:
            again, standing = self._passes[ENDED] > 0, p["batch_size"] > 1
            averages = self._averages, self._intercept_averages
            frozen = scalar_kernel.FrozenAverages(*averages, again, self._stretches, self._stretch, standing)
            scalar_kernel.stream(examples, weights_state, frozen, example, mean, variance)
        # temper 0: by the mean alone
        probabilities(self._link, False, 0.0 if self._selects else 1.0, mean, variance, probability)
        return Scores(probability, mean, variance)

    # --- passes -------------------------------------------------------------------------------------------------

    def new_stream(self) -> None:
        """Begin a new stream: the rows that follow are new data, even after `end_pass`."""
        with self._lock:
            self._passes[:] = 0

    def end_pass(self) -> bool:
        """End a pass over data that will be repeated. Returns True if it (after the first) changed little."""
        with self._lock:
            moved = self._freeze() if self._passes[ENDED] > 0 else math.inf
            self._passes[ENDED] += 1
            return moved < CONVERGED_INCLUSION_CHANGE

    def _freeze(self) -> float:
        """Update the average factors; return the largest change of an inclusion probability since the last update."""
        self._passes[AVERAGED] = self._passes[ENDED]
        p = self._parameters
        freeze_averages(self._intercept_state[None], self._intercept_averages[None], 0.5, 1.0)
        return freeze_averages(self._state[:-1], self._averages, p["inclusion_prior"], p["slab_variance"])

    # --- looking inside -----------------------------------------------------------------------------------------

    @property
    def log_odds(self) -> np.ndarray:
        """The log-odds of inclusion of every feature."""
        with self._lock:
            return self._log_odds_of(self._state[:-1])

    @property
    def inclusion(self) -> np.ndarray:
        """The inclusion probability of every feature."""
        with self._lock:
            return self._inclusion_of(self._state[:-1])

    @property
    def selected(self) -> np.ndarray:
        """The indices of features with an inclusion probability above 1/2, ascending."""
        return np.flatnonzero(self.log_odds > 0)

    def _log_odds_of(self, rows: np.ndarray) -> np.ndarray:
        precision, shift = likelihood(rows)
        tau = self._parameters["slab_variance"]
        return self._prior_log_odds - np.log1p(tau * precision) / 2 + shift * (shift / (precision + 1 / tau)) / 2

    def _inclusion_of(self, rows: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + np.exp(-np.clip(self._log_odds_of(rows), -700.0, 700.0)))

    def _moments(self, features: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = self._state[:-1][features]
        precision, shift = likelihood(rows)
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
        precision, shift = likelihood(self._intercept_state[None])
        variance = 1 / (precision[0] + 1 / self._parameters["intercept_variance"])
        return float(variance * shift[0]), float(variance)

    # --- merging ------------------------------------------------------------------------------------------------

    @cached_property
    def score_rule(self) -> ScoreRule:
        return ScoreRule(self._link, "plain" if self._parameters["predictive"] == "selected" else "closed")

    def _merge_many(self, others: list[Self], base: Self | None) -> None:
        """Add the factors of `other`. Features changed by only one of the two keep its row, including held factors."""
        for other in others:
            for name in ("state", "intercept"):
                mine, theirs = self._arrays()[name], other._arrays()[name]
                before = None if base is None else base._arrays()[name]
                for start in range(0, len(mine), 1 << 18):  # rows at a time, to bound the copies
                    rows = slice(start, start + (1 << 18))
                    old = np.zeros_like(mine[rows]) if before is None else before[rows]
                    if (np.minimum(mine[rows], theirs[rows]) < old * (1 - 1e-6))[:, COUNTS].any():
                        raise BadModel("base knows more than the models grown from it; give a common ancestor.")
                    news = (theirs[rows] != old).any(axis=1)
                    both = news & (mine[rows] != old).any(axis=1)
                    alone = start + np.flatnonzero(news & ~both)
                    both = start + np.flatnonzero(both)
                    summed = mine[both].astype(np.float64) + theirs[both] - old[both - start]
                    summed[:, SUMS] = np.maximum(summed[:, SUMS], 0.0)
                    summed[:, HELD] = 0.0
                    mine[both], mine[alone] = summed, theirs[alone]
                    if self._stretch > 1 and name == "state":
                        self._stretches[both], self._stretches[alone] = 0, other._stretches[alone]
            self._averages[:] = 0.0
            self._passes[:] = 0
