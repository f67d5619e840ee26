"""What a learner says of examples and weights, and what that means: one owner for every face of bayou.

A classifier believes the score of an example to be N(mean, variance). Its `ScoreRule` makes a probability of that:

    plain        P(y = 1) = F(mean)                                      F the link
    closed       P(y = 1) = F(mean / sqrt(1 + C kp variance))            C = pi/8 (logistic) or 1 (probit)
    quadrature   P(y = 1) = the mean of F over N(mean, kp variance)

kp is how much of its uncertainty the learner goes by when it predicts (`temper`). An interval of the probability is the
link of an interval of the score that has the posterior mass asked for, the level L: the middle part, mean -+ z
sqrt(kp variance), with (1 - L)/2 beyond either end. But where a score is both large and unsure, the probability is a
mean made by a tail, and may lie outside the middle part. Let q be the mass beyond the probability, on that side of it.
There the interval leaves out

    min((1 - L)/2, q (1 - L/2))

and the rest of 1 - L on the other side. So it has the mass L whatever q is, holds the probability strictly inside, and
grows to both sides with L. It ends at the probability only where scores are certain, or floats too coarse.

Where only a share R of the negatives was kept in the data, a learner sees odds 1/R times too high. Odds times R are
those of the full stream (`Prediction.of_full_stream`); for the logistic link that is ln R added to the score. A learner
whose recipe tells R answers with these when it is asked (`predict`, `sample`); what it says while it learns (`learn`,
`observe`) is of the data as they are given.

A regressor's label is expected + e. The error e is normal, its variance those of the mean and the noise added up; or,
where a regressor knows its tails, a mixture of Student-t's whose scales hold both (`student`). All that is said of
labels follows from that: an interval is expected -+ a with P(|e| <= a) = level, a quantile is the end of one, a density
that of e.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from bayou.core import checks, links, student
from bayou.core.checks import positive_number
from bayou.core.errors import NoPosterior, WrongTask
from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty

# What predictions are for: the next row of a stream whose labels are all told, or rows after learning has stopped.
HORIZONS = {"next": False, "later": True}
ONLY_NEXT = (
    "the model learned before bayou told the next row from later ones, so it predicts all rows as if each were the "
    "next; train it anew for predictions of later rows"
)
# z of the levels that are asked for all the time, and for them of `_most_aside`; any other is worked out.
_REACH = {
    0.9: 1.6448536269514722,
    0.9 / 1.1: 1.3351777361189363,
    0.95: 1.959963984540054,
    0.95 / 1.05: 1.668391193947079,
}


class Scores(NamedTuple):
    """What a kernel answers for each row: the expected label, and the score's mean and variance.

    The expected label is P(y = 1), which the learner's `ScoreRule` makes of the score; for a regressor it is the mean,
    cut to the labels so far where that was asked for, and there is a noise variance of each row besides.
    """

    expected: np.ndarray
    mean: np.ndarray
    variance: np.ndarray | None
    noise: np.ndarray | None = None
    tails: np.ndarray | None = None  # of a regressor that knows them: (shares, scales) of Student-t's around the mean


class ScoreRule(NamedTuple):
    """How a learner's score becomes a probability; see the module's docstring."""

    link: int = links.LOGISTIC
    predictive: Literal["plain", "closed", "quadrature"] = "closed"
    believed: float = 1.0  # kp
    degrees: tuple[float, ...] = ()  # of freedom, of the Student-t's around a regressor's mean

    def shift(self, negative_rate: float) -> float:
        """Return what the full stream adds to a score: ln R for the logistic link, 0 where no shift does it."""
        return links.TABLE[self.link].shift(negative_rate)


@dataclass(frozen=True)
class Prediction:
    """A learner's belief about some examples.

    Of a classifier `probability`, that of label 1, and mean and variance of the score (the log-odds, for the logistic
    link); of a regressor mean and variance of the label's expectation, and `noise`, the variance of a label around it.
    `expected` is the expected label of either, which is what `learn` answers with.

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
        """The expected label: of a classifier P(y = 1), of a regressor the mean, no further than labels went so far."""
        return corrected(self._scores.expected, self._negative_rate)

    @property
    def probability(self) -> np.ndarray:
        """P(y = 1) of each example."""
        self._check_classes("probability; ask for mean and variance")
        return self.expected

    @property
    def mean(self) -> np.ndarray:
        """The score's mean; of a regressor that of the label."""
        shift = self._rule.shift(self._negative_rate)
        return self._scores.mean + shift if shift else self._scores.mean

    @property
    def variance(self) -> np.ndarray:
        """How unsure the learner is of each score."""
        if self._scores.variance is None:
            raise no_posterior(self._learner)
        return self._scores.variance

    @property
    def noise(self) -> np.ndarray:
        """How far labels scatter around their expectation, as a variance."""
        if self._scores.noise is None:
            raise WrongTask(f"{self._learner} predicts classes, which have a probability and no noise.")
        return self._scores.noise

    @property
    def tails(self) -> np.ndarray | None:
        """Of a regressor that knows them: for each row the shares and the scales of Student-t's around the expected."""
        return self._scores.tails

    @property
    def deviation(self) -> np.ndarray | None:
        """A regressor's standard deviation of each label, noise and all; None where nothing is said about it."""
        if self._scores.noise is None or self._scores.variance is None:
            return None
        return np.sqrt(self._scores.variance + self._scores.noise)

    @property
    def log_odds(self) -> np.ndarray:
        """log P(y = 1)/P(y = 0), also where the probability itself rounds to 0 or 1.

        An unsure score is worth less: these are closer to 0 than its mean. P(y = 0) is never taken from 1 but worked
        out by the same rule, as that of the opposite score.
        """
        self._check_classes("log-odds; ask for mean and variance")
        return self._log_odds() + math.log(self._negative_rate)

    def _log_odds(self) -> np.ndarray:
        """As the learner sees them, whose data may lack negatives."""
        return links.TABLE[self._rule.link].log_odds(self._sure_score())

    def _sure_score(self) -> np.ndarray:
        """The score that would give the same probability if it were certain."""
        mean, variance = self._scores.mean, self._scores.variance
        if self._rule.predictive == "plain" or variance is None:
            return mean
        if self._rule.predictive == "quadrature" and self._rule.link == links.LOGISTIC:
            log_doubt = _log_expected_doubt(np.abs(mean), self._rule.believed * variance)
            return np.sign(mean) * (np.log1p(-np.exp(log_doubt)) - log_doubt)
        return mean / np.sqrt(1.0 + links.TABLE[self._rule.link].spread * (self._rule.believed * variance))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(low, high): the probability lies between them with posterior probability `level`, as far as the learner
        knows; of a regressor, the label itself does, noise and all.
        """
        if self._scores.noise is not None:
            room = self._reach(level)
            return self.expected - room, self.expected + room
        low, high = self._score_interval(level)
        _hold(self._rule.link, self._scores.expected, low, high)
        return corrected(low, self._negative_rate), corrected(high, self._negative_rate)

    def _score_interval(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """(low, high) of the scores, of which this share lies between them; so does what gives the probability."""
        sd = np.sqrt(self._rule.believed * self.variance)
        return _ends(self._scores.mean, sd, self._sure_score(), level, reach(level), reach(_most_aside(level)))

    def quantile(self, share: float) -> np.ndarray:
        """Of a regressor: the number below which each label lies with this probability.

        >>> from bayou import Batch
        >>> from bayou.learners import Gaussian
        >>> learner = Gaussian(n_features=8, noise_variance=1.0, intercept_variance=3.0)
        >>> prediction = learner.predict(Batch.from_rows([{}]))
        >>> prediction.quantile(0.5), prediction.quantile(0.9).round(3)
        (array([0.]), array([2.563]))
        """
        self._check_numbers("quantiles; ask for interval")
        share = checks.share("share", share)
        side = abs(2.0 * share - 1.0)
        return self.expected + (math.copysign(1.0, share - 0.5) * self._reach(side) if side else 0.0)

    def log_density(self, labels: Any) -> np.ndarray:
        """Of a regressor: the logarithm of the density of each label."""
        self._check_numbers("density; ask for log_odds")
        errors = np.asarray(labels, np.float64) - self.expected
        if self._scores.tails is None:
            variance = self.variance + self._scores.noise
            return -0.5 * (errors * errors / variance + np.log(2.0 * math.pi * variance))
        return student.log_densities(errors, *self._tails())

    def nearer(self, labels: Any) -> np.ndarray | None:
        """Of a regressor: how probable it was for each label to be nearer to the expected; None where it does not say.

        Uniform in [0, 1] if predictions are right: 90 % of the labels have no more than 0.9.
        """
        if self._scores.noise is None or self._scores.variance is None:
            return None
        errors = np.abs(np.asarray(labels, np.float64) - self.expected)
        if self._scores.tails is None:
            from scipy.special import erf

            return erf(errors / np.sqrt(2.0 * (self._scores.variance + self._scores.noise)))
        return student.nearer(errors, *self._tails())

    def _reach(self, level: float) -> np.ndarray:
        """How far labels reach from their means to either side, with probability `level`."""
        z = reach(level)
        if self._scores.tails is None:
            return z * np.sqrt(self.variance + self._scores.noise)
        return student.reaches(float(level), *self._tails())

    def _tails(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shares, scales and degrees of freedom of the Student-t's."""
        assert self._scores.tails is not None
        return self._scores.tails[:, 0], self._scores.tails[:, 1], np.array(self._rule.degrees)

    def log_interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The logarithms of a classifier's `interval`, also where a bound itself would round to 0."""
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
        """Of these rows alone."""
        parts: Any = (None if part is None else part[rows] for part in self._scores)
        return replace(self, _scores=Scores(*parts))

    def of_full_stream(self, negative_rate: float) -> Prediction:
        """The same for the full stream, where only this share of the negatives was learned from.

        >>> from bayou import Batch
        >>> from bayou.learners import Marginal
        >>> thinned = Marginal(n_features=8).predict(Batch.from_rows([{}]))
        >>> full = thinned.of_full_stream(0.1)
        >>> full.probability.round(3), full.mean.round(3), np.round(full.interval(0.95), 3).ravel()
        (array([0.091]), array([-2.303]), array([0.003, 0.749]))
        """
        negative_rate = positive_number("negative_rate", negative_rate, high=1.0)
        if negative_rate == 1.0:
            return self
        self._check_classes("negatives; leave the rate out")
        return replace(self, _negative_rate=self._negative_rate * negative_rate)

    def of_data_as_learned(self) -> Prediction:
        """The same for data that lack as many of the negatives as those that were learned from."""
        return replace(self, _negative_rate=1.0)

    def _check_classes(self, what: str) -> None:
        if self._scores.noise is not None:
            raise WrongTask(f"{self._learner} predicts numbers, which have no {what}.")

    def _check_numbers(self, what: str) -> None:
        if self._scores.noise is None:
            raise WrongTask(f"{self._learner} predicts classes, which have no {what}.")


class Weights(NamedTuple):
    """What a learner believes of some weights.

    >>> from bayou.learners import Marginal
    >>> weights = Marginal(n_features=10, prior_variance=4.0).weights_at([3, 7])
    >>> weights.mean.tolist(), weights.sd.tolist()
    ([0.0, 0.0], [2.0, 2.0])
    """

    mean: np.ndarray
    variance: np.ndarray | None  # None: it has no posterior

    @property
    def sd(self) -> np.ndarray | None:
        return None if self.variance is None else np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(low, high): each weight lies between them with posterior probability `level`."""
        if self.variance is None:
            raise NoPosterior("weights without a posterior have no interval; use a Bayesian learner such as marginal.")
        room = reach(level) * np.sqrt(self.variance)
        return self.mean - room, self.mean + room


class Part(NamedTuple):
    """One of the learners that a belief is a mixture of: its share, its weights, its intercept (mean, variance)."""

    share: float
    weights: Weights
    intercept: tuple[float, float]


class Reading(NamedTuple):
    """Some weights and the intercept as they add up to a score, and what their variances come from.

    Differences of weights are surer than the weights: parts that are at odds about all weights of a column may agree on
    their differences. So variances of sums and differences are made part by part.
    """

    mean: np.ndarray
    intercept: float
    parts: Sequence[Part]  # none without a posterior
    score: Literal["mean", "log_odds"] = "mean"  # what of a `Prediction` they add up to, or nearly so


def reach(level: Any) -> float:
    """How many standard deviations to either side of its mean hold this share of a normal distribution.

    >>> reach(0.95)
    1.959963984540054
    """
    level = checks.share("level", level)
    if level in _REACH:
        return _REACH[level]
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * level))


def _most_aside(level: float) -> float:
    """The middle part that the probability must lie in for an interval of this level to be in the middle as well."""
    return level / (2.0 - level)


def no_posterior(name: str) -> NoPosterior:
    return NoPosterior(
        f"{name} has no posterior, so no variance, intervals or samples; use a Bayesian learner such as marginal."
    )


def corrected(probability: Any, negative_rate: float) -> Any:
    """Probabilities of the full stream, of which this share of the negatives was learned from: odds times the rate."""
    if negative_rate == 1.0:
        return probability
    return probability * negative_rate / (probability * negative_rate + (1.0 - probability))


@kernel
def _log_expected_doubt(mean, variance):
    logs = empty(mean.size, np.float64)
    for row in range(mean.size):
        logs[row] = links.log_expected_doubt(mean[row], variance[row])
    return logs


@kernel
def _ends(mean, sd, sure, level, middle, inner):
    """(low, high) of scores. `middle` and `inner` are the reach of the level and of `_most_aside`."""
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
    """Between which a standard normal variable lies with this probability, and z < 0 as well, which is far out."""
    log_tail = links.log_normal_cdf(z) + math.log1p(-0.5 * level)
    below = math.exp(log_tail) + level
    near = links.normal_quantile(log_tail)
    if below > 0.5:
        return near, -links.normal_quantile(math.log1p(-below))
    return near, links.normal_quantile(math.log(below))


@kernel
def _hold(link, probability, low, high):
    """Make probabilities of low and high scores; not even rounding leaves the probability itself outside."""
    for k in range(probability.size):
        low[k] = min(links.cdf(link, low[k]), probability[k])
        high[k] = max(links.cdf(link, high[k]), probability[k])
