"""Links: how a score becomes a probability, with the derivatives that learning needs.

With labels y = +1 or -1 a symmetric link F gives P(y | score) = F(y * score). There are two:

    logistic   F(z) = S(z) = 1 / (1 + exp(-z))
    probit     F(z) = Phi(z), the normal distribution function        (marginal-gaussian, appendix B)

and of each the update rules need

    slope(z)     = (log F)'(z)        logistic S(-z)          probit R(z) = phi(z)/Phi(z), the hazard
    curvature(z) = -(log F)''(z)      logistic S(z) S(-z)     probit R(z) (z + R(z))

All are jitted scalar functions in float64, with a relative error of at most 1e-13 from z = -1e8 to 1e8: nothing here
subtracts two nearly equal numbers. Kernels call them with a link's integer code, which costs nothing if the code is a
compile-time constant. Python code uses the link's record in `TABLE`, which works on arrays.

To add a link, give it a code, a branch in each function below that takes a code (without one they return NaN) and a
record; for `Marginal` also a branch in each `link_...` function of `learners.bases.evidence`, for `Moment` a rule in
its table UNDER_PROBIT. Learners that can use it list it in their `supported_links`, which by default has the two
links above; all others reject it. `Prediction._equivalent_score` shows predictions by quadrature as scores; without a
branch it takes the formula of damped scores. `tests/core/test_links.py` and `tests/reference/known_links.py` check
links. An asymmetric link F has a mirror image G(z) = 1 - F(-z) with a code and a record of its own, so that P(y = -1
| score) = G(-score): `of_label`, which returns the link itself until then, must return the one for a given label.

>>> float(cdf(LOGISTIC, 0.0)), float(log_cdf(LOGISTIC, -1000.0))
(0.5, -1000.0)
>>> round(float(slope(PROBIT, -1e8)), 3), round(float(curvature(PROBIT, -1e8)), 12)
(100000000.0, 1.0)
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.checks import check_choice
from bayou.kernels.compiling import kernel

LOGISTIC = 0
PROBIT = 1

# S(z) is nearly Phi(z sqrt(pi/8)): both have the slope 1/4 at 0 (marginal-gaussian, equation 5).
C8 = math.pi / 8.0

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)

# Below this z a continued fraction replaces erfc. 40 levels are exact to the last bit there, where z + R(z)
# computed as a sum would have lost two digits.
_TAIL = -4.0
_LEVELS = 40

# Hastings' rational formula for normal quantiles; its error is at most 0.00045.
_HASTINGS = (2.515517, 0.802853, 0.010328), (1.432788, 0.189269, 0.001308)

# Gauss-Hermite rule of 20 points for the mean of a function of a standard normal variable.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
# Above this standard deviation the mean is taken over logistic noise, by the trapezoid rule, which is exact to 1e-11 at
# this step because the density is smooth.
WIDE = 1.5
NOISE = np.arange(-30.0, 30.1, 0.75)
NOISE_WEIGHTS = np.exp(-np.abs(NOISE)) / (1.0 + np.exp(-np.abs(NOISE))) ** 2
NOISE_WEIGHTS = NOISE_WEIGHTS / NOISE_WEIGHTS.sum()


def _scipy(name: str) -> Callable[[Any], Any]:
    """Return a function that imports and calls the one of that name in `scipy.special`."""

    def function(z: Any) -> Any:
        from scipy import special

        return getattr(special, name)(z)

    return function


@dataclass(frozen=True)
class Link:
    """Properties and functions of a link for use from Python; functions take arrays.

    >>> probit = TABLE[PROBIT]
    >>> round(float(probit.log_odds(1.0)), 3), probit.is_symmetric, TABLE[LOGISTIC].shift(0.5) == math.log(0.5)
    (1.668, True, True)
    """

    name: str
    link_code: int  # passed to kernels
    mirror: int  # the code of 1 - F(-z); its own if it is symmetric
    damping_constant: float  # C in E[F(score)] ~ F(mean / sqrt(1 + C variance))
    cdf: Callable[[Any], Any]  # F
    log_cdf: Callable[[Any], Any]  # log F
    quantile: Callable[[Any], Any]  # the inverse of F
    is_log_odds: bool = False  # whether scores are log-odds

    @property
    def is_symmetric(self) -> bool:
        return self.mirror == self.link_code

    def negative_cdf(self, score: Any) -> Any:
        """Return P(y = -1), without computing 1 - P(y = 1)."""
        return TABLE[self.mirror].cdf(-score)

    def log_odds(self, score: Any) -> Any:
        """Return log P(y = 1)/P(y = -1)."""
        return score if self.is_log_odds else self.log_cdf(score) - TABLE[self.mirror].log_cdf(-score)

    def shift(self, negative_rate: float) -> float:
        """Return the correction to a score if only this fraction of the negatives was kept; 0 if no shift is exact."""
        return math.log(negative_rate) if self.is_log_odds else 0.0


TABLE = {
    link.link_code: link
    for link in (
        Link(
            "logistic", LOGISTIC, LOGISTIC, C8, _scipy("expit"), _scipy("log_expit"), _scipy("logit"), is_log_odds=True
        ),
        Link("probit", PROBIT, PROBIT, 1.0, _scipy("ndtr"), _scipy("log_ndtr"), _scipy("ndtri")),
    )
}
LINKS = {link.name: link.link_code for link in TABLE.values()}


def link_code(name: str, supported: Iterable[str] = LINKS) -> int:
    """Return the integer code of a link for kernels; raise BadInput if the link is not supported."""
    return check_choice("link", name, {link: LINKS[link] for link in supported})


def find(name: str) -> Link:
    """Return the record of the link called `name`."""
    return TABLE[link_code(name)]


@kernel
def sigmoid(z):
    """Return S(z) = 1/(1 + exp(-z)), without overflow. Instead of 1 - S(z), call S(-z)."""
    z = np.float64(z)
    decay = math.exp(-abs(z))
    return (1.0 if z >= 0.0 else decay) / (1.0 + decay)


@kernel
def log_sigmoid(z):
    """Return log S(z) = min(z, 0) - log(1 + exp(-|z|))."""
    z = np.float64(z)
    return min(z, 0.0) - math.log1p(math.exp(-abs(z)))


@kernel
def _tail(x):
    """Return t in R(-x) = x + 1/(x + t) for x > 4, Laplace's continued fraction t = 2/(x + 3/(x + 4/(x + ...)))."""
    level = x
    for k in range(_LEVELS, 2, -1):
        level = x + k / level
    return 2.0 / level


@kernel
def normal_cdf(z):
    """Return Phi(z)."""
    return 0.5 * math.erfc(-np.float64(z) * _ROOT_HALF)


@kernel
def log_normal_cdf(z):
    """Return log Phi(z); far left as log phi(z) - log R(z), which cannot underflow."""
    z = np.float64(z)
    if z < _TAIL:
        return -0.5 * z * z - _LOG_ROOT_TWO_PI - math.log(hazard(z))
    if z < -1.0:
        return math.log(0.5 * math.erfc(-z * _ROOT_HALF))
    return math.log1p(-0.5 * math.erfc(z * _ROOT_HALF))


@kernel
def hazard(z):
    """Return R(z) = phi(z)/Phi(z), which nears -z far left and vanishes far right."""
    z = np.float64(z)
    if z < _TAIL:
        return 1.0 / (_tail(-z) - z) - z
    return _ROOT_TWO_OVER_PI * math.exp(-0.5 * z * z) / math.erfc(-z * _ROOT_HALF)


@kernel
def normal_quantile(log_p):
    """Return z with log Phi(z) = log_p for probabilities up to 1/2, by Hastings' formula and one refining step.

    The step is Newton's with the next two terms of the inverse function's series, whose derivatives follow from R(z)
    and z + R(z); the remaining error is of fourth order.
    """
    above, below = _HASTINGS
    t = math.sqrt(-2.0 * log_p)
    z = (above[0] + t * (above[1] + t * above[2])) / (1.0 + t * (below[0] + t * (below[1] + t * below[2]))) - t
    slope = hazard(z)
    step, bend = (log_p - log_normal_cdf(z)) / slope, z + slope
    return z + step * (1.0 + step * (bend / 2.0 + step * (bend * (2.0 * bend - slope) + 1.0) / 6.0))


@kernel
def _tail_slope_and_curvature(z):
    """Return R(z) and R(z) (z + R(z)) far left, where the latter nears 1. With x = -z and t from `_tail`,

    R = x + 1/(x + t),    R (z + R) = R / (x + t) = (1 + 1/(x (x + t))) / (1 + t/x)
    """
    x = -z
    t = _tail(x)
    return x + 1.0 / (x + t), (1.0 + 1.0 / x / (x + t)) / (1.0 + t / x)


@kernel
def damping_constant(link):
    """Return C in E[F(score)] ~ F(mean / sqrt(1 + C variance)): pi/8 for logistic (8), 1 for probit (24, exact)."""
    if link == LOGISTIC:
        return C8
    if link == PROBIT:
        return 1.0
    return math.nan


@kernel
def of_label(link, y):
    """Return the code of the link F with P(y | score) = F(y * score), which is `link` itself if it is symmetric."""
    return link


@kernel
def cdf(link, z):
    """Return F(z), the probability of a label whose margin y * score is z."""
    if link == LOGISTIC:
        return sigmoid(z)
    if link == PROBIT:
        return normal_cdf(z)
    return math.nan


@kernel
def log_cdf(link, z):
    """Return log F(z), minus the log loss at margin z."""
    if link == LOGISTIC:
        return log_sigmoid(z)
    if link == PROBIT:
        return log_normal_cdf(z)
    return math.nan


@kernel
def slope(link, z):
    """Return (log F)'(z) > 0: 1 - p in (15), the hazard in (28)."""
    return slope_and_curvature(link, z)[0]


@kernel
def curvature(link, z):
    """Return -(log F)''(z) >= 0: p (1 - p) in marginal-gaussian (17) and (19), R (z + R) in (30), (31)."""
    return slope_and_curvature(link, z)[1]


@kernel
def slope_and_curvature(link, z):
    """Return `slope` and `curvature`, which share the expensive terms."""
    z = np.float64(z)
    if link == LOGISTIC:
        decay = math.exp(-abs(z))
        share = 1.0 / (1.0 + decay)
        return (decay if z >= 0.0 else 1.0) * share, decay * share * share
    if link == PROBIT:
        if z < _TAIL:
            return _tail_slope_and_curvature(z)
        r = hazard(z)
        return r, 0.0 if r == 0.0 else r * (z + r)  # no 0 * inf where the hazard has vanished
    return math.nan, math.nan


@kernel
def peak_start(link, z):
    """Return a starting point for Newton's method on t = tau (log F)'(z + t)."""
    if link == LOGISTIC:
        return max(0.0, -z)
    if link == PROBIT:
        return 0.0  # the hazard is convex everywhere, so that steps from 0 climb to the root
    return math.nan


@kernel
def expected_probability(link, mean, variance):
    """Return the mean of F(score) over score ~ N(mean, variance). Exact for probit (24), to 1e-7 for logistic.

    Far left, where little is left to integrate, S(s) = exp(s) S(-s) and a Gaussian times exp(s) is a Gaussian again:
    E_m[S] = exp(m + v/2) E_{-m-v}[S].

    >>> round(float(expected_probability(LOGISTIC, 1.0, 4.0)), 5)
    0.64773
    """
    mean, variance = np.float64(mean), np.float64(variance)
    if link == PROBIT:
        return normal_cdf(mean / math.sqrt(1.0 + variance))
    if link != LOGISTIC:
        return math.nan
    doubt = math.exp(log_expected_complement(abs(mean), variance))
    return 1.0 - doubt if mean > 0.0 else doubt


@kernel
def log_expected_complement(mean, variance):
    """Return log E[S(-score)] for mean >= 0, even where the expectation itself would underflow."""
    if mean > variance:
        return 0.5 * variance - mean + math.log(_expected_sigmoid(mean - variance, variance))
    return math.log(_expected_sigmoid(-mean, variance))


@kernel
def _expected_sigmoid(mean, variance):
    """Return E[S(score)] over score ~ N(mean, variance).

    A narrow score is integrated with 20 Gauss-Hermite nodes. For a wide one, S is a step between two nodes; but
    S(score) is the probability that logistic noise is below the score, so the noise is integrated instead: the mean of
    Phi((mean - noise) / sd), which is smooth because sd is large.
    """
    sd = math.sqrt(variance)
    total = 0.0
    if sd <= WIDE:
        for k in range(NODES.size):
            total += NODE_WEIGHTS[k] * sigmoid(mean + sd * NODES[k])
    else:
        for k in range(NOISE.size):
            total += NOISE_WEIGHTS[k] * normal_cdf((mean - NOISE[k]) / sd)
    return total
