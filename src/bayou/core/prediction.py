"""Predictions and weights: how scores become probabilities, intervals and quantiles, for all interfaces of bayou.

For a classifier the score of an example is N(mean, variance). Its `ScoreRule` turns that into a probability:

    plain        P(y = 1) = F(mean)                                      F the link
    closed       P(y = 1) = F(mean / sqrt(1 + C kp variance))            C = pi/8 (logistic) or 1 (probit)
    quadrature   P(y = 1) = the mean of F over N(mean, kp variance)

kp is the factor on the variance in predictions (`temper`). An interval of the probability is the link of an interval of
the score that has posterior mass L, the level: the central one, mean -+ z sqrt(kp variance), with (1 - L)/2 beyond
either end. But if a score is both large and uncertain, the probability is a mean dominated by one tail, and may lie
outside the central interval. Let q be the mass beyond the probability, on that side of it. There the interval leaves
out

    min((1 - L)/2, q (1 - L/2))

and the rest of 1 - L on the other side. So it has mass L for any q, contains the probability strictly, and grows to
both sides with L. It ends at the probability only if scores are certain, or after rounding.

A learner may predict a probability that its score's mean and variance do not give, such as a bank with a head: then
`Scores.log_odds` has its log-odds. The interval is that of the score, and contains the probability by the same rule.

If only a fraction R of the negatives was kept in the data, a learner sees odds 1/R times too high. Odds times R are
those of the full stream (`Prediction.with_sampling_correction`); for the logistic link that adds ln R to the score. If
the recipe has R, `predict` and `sample` apply this correction; predictions made while learning (`learn`, `observe`)
are for the data as given.

A regressor's label is expected + e. The error e is normal, with the sum of the variances of the mean and the noise; or,
if the regressor estimates its tails, a mixture of Student-t's whose scales include both (`student_t`). All statements
about labels follow from that: an interval is expected -+ a with P(|e| <= a) = level, a quantile is the end of one, and
the density is that of e.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from bayou.core import checks, links, student_t
from bayou.core.checks import check_positive
from bayou.core.errors import NoPosterior, WrongTask
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel

# Horizons of predictions: the next row of a fully labeled stream, or rows after learning has stopped.
HORIZONS = {"next": False, "later": True}
ONLY_NEXT = (
    "the model was trained before bayou distinguished the next row from later ones, so it predicts every row as if it "
    "were the next; retrain it to predict later rows"
)
# z for the most common levels, and for their `_tail_level`; others are computed.
_REACH = {
    0.9: 1.6448536269514722,
    0.9 / 1.1: 1.3351777361189363,
    0.95: 1.959963984540054,
    0.95 / 1.05: 1.668391193947079,
}


class Scores(NamedTuple):
    """Output of a kernel for each row: the expected label, and the score's mean and variance.

    The expected label is P(y = 1), computed from the score by the learner's `ScoreRule`. For a regressor it is the
    mean, clipped to the range of the labels so far if that was requested, and each row has a noise variance as well.
    """

    expected: np.ndarray
    mean: np.ndarray
    variance: np.ndarray | None
    noise: np.ndarray | None = None
    student_t_mixture: np.ndarray | None = (
        None  # a regressor's error distribution: (shares, scales) of a mixture of Student-t's
    )
    log_odds: np.ndarray | None = None  # of `expected`, where mean and variance describe a score that does not give it

    @classmethod
    def concatenate(cls, chunks: Sequence[Scores]) -> Scores:
        """Return the scores of consecutive chunks as one."""
        joined: Any = (None if arrays[0] is None else np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
        return cls(*joined)


class ScoreRule(NamedTuple):
    """Rule that turns a learner's score into a probability; see the module's docstring."""

    link: int = links.LOGISTIC
    predictive: Literal["plain", "closed", "quadrature"] = "closed"
    predictive_temper: float = 1.0  # kp
    degrees: tuple[float, ...] = ()  # degrees of freedom of the Student-t's around a regressor's mean

    def shift(self, negative_rate: float) -> float:
        """Return the correction of a score to the full stream: ln R for the logistic link, 0 if no shift is exact."""
        return links.TABLE[self.link].shift(negative_rate)


@dataclass(frozen=True)
class Prediction:
    """A learner's prediction for some examples.

    A classifier gives `probability`, that of label 1, and mean and variance of the score (the log-odds, for the
    logistic link); a regressor gives mean and variance of the label's expectation, and `noise`, the variance of a label
    around it. `expected` is the expected label of either, as `learn` returns it.

    >>> from bayou import Batch
    >>> from bayou.learners import Marginal
    >>> prediction = Marginal(n_features=8).predict(Batch.from_rows([{}]))
    >>> float(prediction.probability[0]), float(prediction.variance[0]), float(prediction.log_odds[0])
    (0.5, 3.0, 0.0)
    >>> low, high = prediction.interval(0.95)
    >>> low.round(3), high.round(3)
    (array([0.032]), array([0.968]))
    """

    _scores: Scores
    _learner: str
    _rule: ScoreRule
    _negative_rate: float = 1.0

    @property
    def expected(self) -> np.ndarray:
        """The expected label: P(y = 1) for a classifier; for a regressor the mean, possibly clipped (see `Scores`)."""
        return corrected(self._scores.expected, self._negative_rate)

    @property
    def probability(self) -> np.ndarray:
        """P(y = 1) of each example."""
        self._check_classes("probability; ask for mean and variance")
        return self.expected

    @property
    def mean(self) -> np.ndarray:
        """The mean of the score, or of the label for a regressor."""
        shift = self._rule.shift(self._negative_rate)
        return self._scores.mean + shift if shift else self._scores.mean

    @property
    def variance(self) -> np.ndarray:
        """The variance of each score; raises NoPosterior if the learner has none."""
        if self._scores.variance is None:
            raise no_posterior(self._learner)
        return self._scores.variance

    @property
    def noise(self) -> np.ndarray:
        """The variance of labels around their expectation; raises WrongTask for a classifier."""
        if self._scores.noise is None:
            raise WrongTask(f"{self._learner} predicts classes, which have a probability and no noise.")
        return self._scores.noise

    @property
    def student_t_mixture(self) -> np.ndarray | None:
        """Shares and scales of the mixture of Student-t's of a regressor's errors, per row; None without one."""
        return self._scores.student_t_mixture

    @property
    def deviation(self) -> np.ndarray | None:
        """A regressor's standard deviation of each label, noise included; None for others or without a variance."""
        if self._scores.noise is None or self._scores.variance is None:
            return None
        return np.sqrt(self._scores.variance + self._scores.noise)

    @property
    def log_odds(self) -> np.ndarray:
        """Log-odds log P(y = 1)/P(y = 0), accurate even where the probability itself rounds to 0 or 1.

        They are closer to 0 than the score's mean the larger its variance. P(y = 0) is not computed as 1 - P(y = 1) but
        by the same rule from the opposite score.
        """
        self._check_classes("log-odds; ask for mean and variance")
        return self._log_odds() + math.log(self._negative_rate)

    def _log_odds(self) -> np.ndarray:
        """Return the log-odds for data such as were learned from, which may lack negatives."""
        return links.TABLE[self._rule.link].log_odds(self._equivalent_score())

    def _equivalent_score(self) -> np.ndarray:
        """Return the score that would give the same probability if it were certain."""
        mean, variance = self._scores.mean, self._scores.variance
        if self._scores.log_odds is not None:
            return self._scores.log_odds
        if self._rule.predictive == "plain" or variance is None:
            return mean
        if self._rule.predictive == "quadrature" and self._rule.link == links.LOGISTIC:
            log_doubt = _log_expected_doubt(np.abs(mean), self._rule.predictive_temper * variance)
            return np.sign(mean) * (np.log1p(-np.exp(log_doubt)) - log_doubt)
        return mean / np.sqrt(
            1.0 + links.TABLE[self._rule.link].damping_constant * (self._rule.predictive_temper * variance)
        )

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), which contain the probability with posterior probability `level`.

        For a regressor, they contain the label itself, noise included.
        """
        if self._scores.noise is not None:
            room = self._interval_radius(level)
            return self.expected - room, self.expected + room
        low, high = self._score_interval(level)
        _hold(self._rule.link, self._scores.expected, low, high)
        return corrected(low, self._negative_rate), corrected(high, self._negative_rate)

    def _score_interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), which contain the score with probability `level`, and also `_equivalent_score`."""
        sd = np.sqrt(self._rule.predictive_temper * self.variance)
        return _interval_bounds(
            self._scores.mean, sd, self._equivalent_score(), level, z_score(level), z_score(_tail_level(level))
        )

    def quantile(self, share: float) -> np.ndarray:
        """Return the value that each label lies below with probability `share`. For regressors only.

        >>> from bayou import Batch
        >>> from bayou.learners import Gaussian
        >>> learner = Gaussian(n_features=8, noise_variance=1.0, intercept_variance=3.0)
        >>> prediction = learner.predict(Batch.from_rows([{}]))
        >>> prediction.quantile(0.5), prediction.quantile(0.9).round(3)
        (array([0.]), array([2.563]))
        """
        self._check_numbers("quantiles; ask for interval")
        share = checks.check_fraction("share", share)
        side = abs(2.0 * share - 1.0)
        return self.expected + (math.copysign(1.0, share - 0.5) * self._interval_radius(side) if side else 0.0)

    def log_density(self, labels: Any) -> np.ndarray:
        """Return the log density of each label. For regressors only."""
        self._check_numbers("density; ask for log_odds")
        errors = np.asarray(labels, np.float64) - self.expected
        if self._scores.student_t_mixture is None:
            variance = self.variance + self._scores.noise
            return -0.5 * (errors * errors / variance + np.log(2.0 * math.pi * variance))
        return student_t.log_densities(errors, *self._tails())

    def central_probability(self, labels: Any) -> np.ndarray | None:
        """Return a regressor's probability that each label is nearer to `expected` than it is; None if not available.

        The values are uniform in [0, 1] if predictions are calibrated: 90% of the labels have at most 0.9.
        """
        if self._scores.noise is None or self._scores.variance is None:
            return None
        errors = np.abs(np.asarray(labels, np.float64) - self.expected)
        if self._scores.student_t_mixture is None:
            from scipy.special import erf

            return erf(errors / np.sqrt(2.0 * (self._scores.variance + self._scores.noise)))
        return student_t.nearer(errors, *self._tails())

    def _interval_radius(self, level: float) -> np.ndarray:
        """Return half the width of the interval around the mean that contains the label with probability `level`."""
        z = z_score(level)
        if self._scores.student_t_mixture is None:
            return z * np.sqrt(self.variance + self._scores.noise)
        return student_t.reaches(float(level), *self._tails())

    def _tails(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return shares, scales and degrees of freedom of the Student-t's."""
        assert self._scores.student_t_mixture is not None
        return self._scores.student_t_mixture[:, 0], self._scores.student_t_mixture[:, 1], np.array(self._rule.degrees)

    def log_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of a classifier's `interval`, accurate even where a bound itself would round to 0."""
        from scipy.special import log_expit

        self._check_classes("probability; ask for interval")
        log_cdf = links.TABLE[self._rule.link].log_cdf
        log_p, (low, high) = log_expit(self._log_odds()), self._score_interval(level)
        low, high = np.minimum(log_cdf(low), log_p), np.maximum(log_cdf(high), log_p)
        if self._negative_rate == 1.0:
            return low, high
        with np.errstate(divide="ignore"):
            low, high = (log_expit(p - np.log(-np.expm1(p)) + math.log(self._negative_rate)) for p in (low, high))
        return low, high

    def take(self, rows: np.ndarray) -> Prediction:
        """Return the prediction of the given rows only."""
        parts: Any = (None if part is None else part[rows] for part in self._scores)
        return replace(self, _scores=Scores(*parts))

    def with_sampling_correction(self, negative_rate: float) -> Prediction:
        """Return the prediction corrected to the full stream, of which the data had only this fraction of negatives.

        >>> from bayou import Batch
        >>> from bayou.learners import Marginal
        >>> thinned = Marginal(n_features=8).predict(Batch.from_rows([{}]))
        >>> full = thinned.with_sampling_correction(0.1)
        >>> full.probability.round(3), full.mean.round(3), np.round(full.interval(0.95), 3).ravel()
        (array([0.091]), array([-2.303]), array([0.003, 0.749]))
        """
        negative_rate = check_positive("negative_rate", negative_rate, high=1.0)
        if negative_rate == 1.0:
            return self
        self._check_classes("negatives; omit the rate")
        return replace(self, _negative_rate=self._negative_rate * negative_rate)

    def without_sampling_correction(self) -> Prediction:
        """Return the prediction without the correction to the full stream, for data sampled like the training data."""
        return replace(self, _negative_rate=1.0)

    def _check_classes(self, what: str) -> None:
        if self._scores.noise is not None:
            raise WrongTask(f"{self._learner} predicts numbers, which have no {what}.")

    def _check_numbers(self, what: str) -> None:
        if self._scores.noise is None:
            raise WrongTask(f"{self._learner} predicts classes, which have no {what}.")


class Weights(NamedTuple):
    """Means and variances of some weights of a learner.

    >>> from bayou.learners import Marginal
    >>> weights = Marginal(n_features=10, prior_variance=4.0).weights_at([3, 7])
    >>> weights.mean.tolist(), weights.sd.tolist()
    ([0.0, 0.0], [2.0, 2.0])
    """

    mean: np.ndarray
    variance: np.ndarray | None  # None without a posterior

    @property
    def sd(self) -> np.ndarray | None:
        return None if self.variance is None else np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), which contain each weight with posterior probability `level`."""
        if self.variance is None:
            raise NoPosterior("weights without a posterior have no interval; use a Bayesian learner such as marginal.")
        room = z_score(level) * np.sqrt(self.variance)
        return self.mean - room, self.mean + room


class Contrast(NamedTuple):
    """Mean and standard deviation of a linear combination of weights, and an interval that contains it.

    >>> difference = Contrast(mean=0.9, sd=0.1, low=0.7, high=1.1)
    >>> difference.low > 0  # certainly positive
    True
    """

    mean: float
    sd: float
    low: float
    high: float


class WeightViewPart(NamedTuple):
    """A component of a mixture of learners: its share, its weights, and its intercept (mean, variance)."""

    share: float
    weights: Weights
    intercept: tuple[float, float]


class JointCovariance(NamedTuple):
    """Covariance of the intercept and some weights; all other weights are independent of them and of each other."""

    positions: np.ndarray  # of these weights among those of a view
    covariance: np.ndarray  # the intercept's row and column first


class WeightView(NamedTuple):
    """Weights and intercept as they add up to a score, and the components of their variances.

    Differences of weights are more certain than the weights: components that disagree about all weights of a column may
    agree on their differences. So variances of sums and differences are computed component by component.
    """

    mean: np.ndarray
    intercept: float
    parts: Sequence[WeightViewPart]  # empty without a posterior
    score: Literal["mean", "log_odds"] = "mean"  # the attribute of `Prediction` that they (nearly) add up to
    joint: JointCovariance | None = None  # of a view with one component


def z_score(level: Any) -> float:
    """Return z such that a normal variable is within z standard deviations of its mean with probability `level`.

    >>> z_score(0.95)
    1.959963984540054
    """
    level = checks.check_fraction("level", level)
    if level in _REACH:
        return _REACH[level]
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * level))


def _tail_level(level: float) -> float:
    """Return the level whose central interval must hold `_equivalent_score` for that of `level` to be central."""
    return level / (2.0 - level)


def no_posterior(name: str) -> NoPosterior:
    return NoPosterior(
        f"{name} has no posterior, so no variance, intervals or samples; use a Bayesian learner such as marginal."
    )


def corrected(probability: Any, negative_rate: float) -> Any:
    """Return probabilities for the full stream, if the data kept this fraction of its negatives: odds times rate."""
    if negative_rate == 1.0:
        return probability
    return probability * negative_rate / (probability * negative_rate + (1.0 - probability))


@kernel
def _log_expected_doubt(mean, variance):
    logs = empty(mean.size, np.float64)
    for row in range(mean.size):
        logs[row] = links.log_expected_complement(mean[row], variance[row])
    return logs


@kernel
def _interval_bounds(mean, sd, sure, level, middle, inner):
    """Return (low, high) of scores. `middle` and `inner` are the `z_score` of the level and of its `_tail_level`."""
    low, high = empty(mean.size, np.float64), empty(mean.size, np.float64)
    for k in range(mean.size):
        near, far = -middle, middle
        off = sure[k] - mean[k]
        if abs(off) > inner * sd[k]:
            near, far = _ends_around(-abs(off) / sd[k], level)
        if off > 0.0:
            near, far = -far, -near
        low[k], high[k] = mean[k] + near * sd[k], mean[k] + far * sd[k]
    return low, high


@kernel
def _ends_around(z, level):
    """Return an interval that has probability `level` under a standard normal and contains z < 0, far in the tail."""
    log_tail = links.log_normal_cdf(z) + math.log1p(-0.5 * level)
    below = math.exp(log_tail) + level
    near = links.normal_quantile(log_tail)
    if below > 0.5:
        return near, -links.normal_quantile(math.log1p(-below))
    return near, links.normal_quantile(math.log(below))


@kernel
def _hold(link, probability, low, high):
    """Convert low and high scores to probabilities, in place, so that they contain `probability` despite rounding."""
    for k in range(probability.size):
        low[k] = min(links.cdf(link, low[k]), probability[k])
        high[k] = max(links.cdf(link, high[k]), probability[k])
