"""Moment matching in plain NumPy float64, one example at a time, written to be read; see `tests.reference.common`.

``test_moment.py`` checks it against tilted integrals and finite differences. Paper: appendix D.2, which names
the method only; the rules are Minka's (2001) and adPredictor's (2010).
"""

import numpy as np

from tests.reference.common import LINKS, hazard, hazard_slope, sigmoid
from tests.reference.marginal import MarginalReference, marginal_predict, newton_shift

# The dense rule below is exact to rounding from here (in standard deviations) to there.
REACH, POINTS = 12.0, 4001


def sigmoid_log_slopes(m: float, s2: float) -> tuple[float, float]:
    """L1 = d log F/dm and -L2 = -d^2 log F/dm^2 of F(m) = E[S(a)], a ~ N(m, s2).

    By Louis' identity L1 is the mean of q = S(-a) under the density tilted by S, and -L2 the tilted mean of the
    curvature q (1 - q) less the tilted variance of the slope q. A brute-force sum: no clever rule.

    Far left F vanishes; but S(a) = e^a S(-a) and a normal density times e^a is a normal density, so that
    F(m) = e^(m + s2/2) F(-m - s2), whence L1(m) = 1 - L1(-m - s2), L2(m) = L2(-m - s2).

    Far right L1 and L2 vanish. There D = 1 - F = F(-m) = e^(s2/2 - m) F(m - s2), with D'/D = -(1 - L1(m - s2)).
    """
    if m < -s2 / 2:
        slope, fall = sigmoid_log_slopes(-m - s2, s2)
        return 1.0 - slope, fall
    if m > s2 / 2:
        log_chance, slope, fall = sigmoid_log_sums(m - s2, s2)
        doubt = np.exp(s2 / 2 - m + log_chance)
        odds, back = doubt / (1.0 - doubt), 1.0 - slope
        return odds * back, odds * (back**2 - fall) + (odds * back) ** 2
    return sigmoid_log_sums(m, s2)[1:]


def sigmoid_log_sums(m: float, s2: float) -> tuple[float, float, float]:
    """log F, L1, -L2 for m >= -s2/2."""
    sd = np.sqrt(s2)
    if sd < 5.0 or m > 15.0 * sd:
        u = np.linspace(-REACH, REACH, POINTS)
        a, log_density = m + sd * u, -(u**2) / 2 - np.log(np.sqrt(2 * np.pi) / (u[1] - u[0]))
    else:  # S bends at 0, the density at m: steps that widen with the distance from 0
        v = np.linspace(-1.0, 1.0, POINTS) * np.arcsinh(abs(m) + REACH * sd)
        a = np.sinh(v)
        log_density = -((a - m) ** 2) / (2 * s2) + np.log(np.cosh(v) * (v[1] - v[0]) / (np.sqrt(2 * np.pi) * sd))
    log_tilted = log_density - np.logaddexp(0.0, -a)
    top = log_tilted.max()
    tilted = np.exp(log_tilted - top)
    chance = tilted.sum()
    tilted /= chance
    q = sigmoid(-a)
    slope = np.sum(tilted * q)
    if sd < 5.0 or m >= 0:
        fall = np.sum(tilted * q * sigmoid(a)) - np.sum(tilted * (q - slope) ** 2)
    else:  # the same is (1 - tilted variance / s2) / s2, which loses nothing where much of the variance is gone
        fall = (1.0 - np.sum(tilted * (a - np.sum(tilted * a)) ** 2) / s2) / s2
    return float(top + np.log(chance)), float(slope), float(fall)


def probit_log_slopes(m: float, s2: float, noise: float) -> tuple[float, float]:
    """The same of Z = Phi(t), t = m/sqrt(noise + s2): v/sqrt(..) and w/(..), v = R(t), w = v (v + t)."""
    spread = np.sqrt(noise + s2)
    return float(hazard(m / spread) / spread), float(hazard_slope(m / spread) / spread**2)


def moment_step(
    mean, variance, x, y: float, weight: float = 1.0, link: str = "logistic", expectation: str = "exact"
) -> tuple[np.ndarray, np.ndarray]:
    """New means and variances of the active features of one example with label y = +1 or -1.

        mean += x variance dm        variance += (x variance)^2 dv        dm = d log Z/dm, dv = d^2 log Z/dm^2

    weight <= 1 multiplies both. Of a heavier example the first unit is matched, which leaves the score at N(m1, s1);
    the others are taken at their mode, t = s1 (c - 1) q(m1 + t), with the curvature there. In terms of the score that
    is a new mean and a new variance again, and dm and dv are what would have led to them.
    """
    mean, variance, x = (np.array(a, dtype=float) for a in (mean, variance, x))
    if weight == 0:
        return mean, variance
    m, s2 = y * np.sum(x * mean), np.sum(x**2 * variance)
    exact = expectation == "exact" and link == "logistic"
    noise = 1.0 if exact or link == "probit" else 8.0 / np.pi
    slope, fall = sigmoid_log_slopes(m, s2) if exact else probit_log_slopes(m, s2, noise)
    left = 1.0 - s2 * fall
    if weight <= 1.0:
        slope, fall = weight * slope, weight * fall
        left = 1.0 - s2 * fall
    else:
        rest, rule = weight - 1.0, "logistic" if exact else "probit"
        z = (m + s2 * slope) / np.sqrt(noise)
        z = z + newton_shift(z, s2 * left * rest / noise, rule)
        pull = left * rest * LINKS[rule].curvature(z) / noise
        slope = slope + left * rest * LINKS[rule].slope(z) / np.sqrt(noise)
        fall = (fall + pull) / (1.0 + s2 * pull)
        left = left / (1.0 + s2 * pull)
    # 1 - x^2 variance fall, by what is left of the whole score's variance
    own = x**2 * variance
    shrink = left + np.maximum(s2 - own, 0.0) * fall
    return mean + y * x * variance * slope, variance / (1.0 + own * fall / shrink)


class MomentReference(MarginalReference):
    """Moment matching over the rows of a CSR matrix; prior and intercept as in `MarginalReference`."""

    def __init__(
        self,
        n_features: int,
        link: str = "logistic",
        expectation: str = "exact",
        prior_mean=0.0,
        prior_variance=1.0,
        predictive: str = "closed",
        intercept: bool = True,
        intercept_variance: float | None = None,
    ):
        super().__init__(
            n_features,
            link=link,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            predictive=predictive,
            intercept=intercept,
            intercept_variance=intercept_variance,
        )
        self.expectation = expectation

    def _predict_row(self, i, x) -> tuple[float, float, float]:
        return marginal_predict(self._mean[i], self._variance[i], x, self.link, predictive=self.predictive)

    def _learn_row(self, i, x, y: float, weight: float) -> None:
        self._mean[i], self._variance[i] = moment_step(
            self._mean[i], self._variance[i], x, y, weight, self.link, self.expectation
        )
