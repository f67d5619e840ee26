"""Spike and slab by expectation propagation in plain NumPy, and the exact posterior by a Gibbs sampler to judge it by.

Labels are +1 and -1, the intercept's entries are the last. Equations: olss, with what SPEC and the learner's docstring
say is to be divided out.
"""

import math

import numpy as np
from numba import njit
from scipy.special import expit, log_ndtr, ndtr

from tests.reference.common import active_features, label_signs

LEAST_VARIANCE = 1e-30


def log_odds(precision, shift, rho: float, tau: float) -> np.ndarray:
    """log q(s = 1)/q(s = 0) given the likelihood's factor N(shift/precision, 1/precision): (21) and logit(rho0)."""
    prior = math.log(rho) - math.log1p(-rho)
    return prior - np.log1p(tau * precision) / 2 + shift**2 * tau / (2 * (1 + tau * precision))


def moments(precision, shift, rho: float, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the tilted distribution, likelihood times spike and slab: (22), (23)."""
    inclusion = expit(log_odds(precision, shift, rho, tau))
    slab = 1 / (precision + 1 / tau)
    there = slab * shift
    variance = inclusion * (slab + (1 - inclusion) * there**2)
    return inclusion * there, np.maximum(variance, LEAST_VARIANCE)


def site(x, y: float, mean, variance) -> tuple[np.ndarray, np.ndarray]:
    """(precision, precision * mean) of the factor that Phi(y x'w) leaves to each weight: (17), (18) over the cavity.

    With S = 1 + sum x^2 v, z = y sum x m / sqrt(S), R = phi(z)/Phi(z), kappa = R (R + z) / S, g = y R / sqrt(S):

        precision = x^2 kappa / (1 - v x^2 kappa)        shift = m precision + x g (1 + v precision)
    """
    total = 1 + np.sum(variance * x**2)
    z = y * np.sum(mean * x) / math.sqrt(total)
    hazard = math.exp(-(z**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))
    kappa, g = hazard * (hazard + z) / total, y * hazard / math.sqrt(total)
    precision = x**2 * kappa / (1 - variance * x**2 * kappa)
    return precision, mean * precision + x * g * (1 + variance * precision)


class SpikeSlabReference:
    """The learner, row by row over a CSR matrix; `end_pass` before the data come again."""

    def __init__(
        self, n_features, rho=0.1, tau=1.0, intercept_variance=3.0, intercept=True, refresh_every=1, batch_size=1
    ):
        self.n_features, self.has_intercept, self.rho, self.tau = n_features, intercept, rho, tau
        self.intercept_precision = 1 / intercept_variance
        self.factors = np.zeros((2, n_features + 1, 2))  # of the negatives and of the positives; (precision, shift)
        self.counts = np.zeros((2, n_features + 1))
        self.averages = np.zeros_like(self.factors)
        self.again = False
        self.refresh_every, self.batch_size, self.examples = refresh_every, batch_size, 0
        self.held = np.zeros((n_features + 1, 2))  # the prior's factor, or all of q within a mini-batch
        self.held_in = np.full(n_features + 1, -1)

    def likelihood(self) -> np.ndarray:
        return self.factors.sum(axis=0)

    @property
    def inclusion(self) -> np.ndarray:
        precision, shift = self.likelihood()[:-1].T
        return expit(log_odds(precision, shift, self.rho, self.tau))

    def posterior(self, i) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of q of some weights. The intercept has a slab and no spike."""
        precision, shift = self.likelihood()[i].T
        mean, variance = moments(precision, shift, self.rho, self.tau)
        if max(self.refresh_every, self.batch_size) > 1:
            stretch = self.examples // max(self.refresh_every, self.batch_size)
            standing = self.batch_size > 1
            likelihood = np.zeros_like(self.held[i]) if standing else self.likelihood()[i]
            old = self.held_in[i] == stretch
            natural = self.held[i] + likelihood
            natural = np.where(old[:, None], natural, np.stack([1 / variance, mean / variance], axis=1))
            self.held[i], self.held_in[i] = natural - likelihood, stretch
            mean, variance = natural[:, 1] / natural[:, 0], 1 / natural[:, 0]
        last = i == self.n_features
        slab = 1 / (precision + self.intercept_precision)
        return np.where(last, slab * shift, mean), np.where(last, slab, variance)

    def learn(self, X, y, weights=None) -> None:
        weights = np.ones(X.shape[0]) if weights is None else weights
        for row, (sign, weight) in enumerate(zip(label_signs(y), weights, strict=True)):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            repeats = min(max(math.ceil(weight), 1), 64)
            for _ in range(repeats):
                self._visit(i, x, sign, weight / repeats)
            self.examples += 1

    def _visit(self, i, x, sign, share) -> None:
        """One example, to the power `share`."""
        label = int(sign > 0)
        mean, variance = self.posterior(i)
        out = self.averages[label, i] if self.again else np.zeros((len(i), 2))
        left = 1 / variance - share * out[:, 0]
        fine = left > 0  # else the weight is left alone, and met as it is
        left = np.where(fine, left, 1 / variance)
        mean = np.where(fine, (mean / variance - share * out[:, 1]) / left, mean)
        precision, shift = site(x, sign, mean, 1 / left)
        put = share * (np.stack([precision, shift], axis=1) - out)
        self.factors[label, i[fine]] += put[fine]
        self.counts[label, i] += share * (fine & (out == 0).all(axis=1))

    def end_pass(self) -> None:
        counts = self.counts[:, :, None]
        self.averages = np.divide(self.factors, counts, out=np.zeros_like(self.factors), where=counts > 0)
        self.again = True

    def score(self, X, selected: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of each row's score; of the selected features alone, or of all."""
        mean, variance = self.posterior(np.arange(self.n_features + 1))
        used = np.ones(self.n_features + 1, bool)
        if selected:
            precision, shift = self.likelihood().T
            used = log_odds(precision, shift, self.rho, self.tau) > 0
        used[-1] = True
        mean, variance = np.where(used, mean, 0), np.where(used, variance, 0)
        ends = mean[-1], variance[-1]
        if not self.has_intercept:
            ends = 0.0, 0.0
        return X @ mean[:-1] + ends[0], X.multiply(X) @ variance[:-1] + ends[1]


def probability(mean, variance, selected: bool) -> np.ndarray:
    return ndtr(mean if selected else mean / np.sqrt(1 + variance))


@njit(cache=True)
def gibbs(X, y, rho, tau, intercept_variance, sweeps, burn, seed):
    """Inclusion probabilities of the exact posterior: Albert and Chib's sampler for probit regression.

    Every example gets a latent N(x'w, 1), cut off at 0 on the side of its label. Given these the model is linear, and
    of each weight in turn the indicator is drawn with the weight integrated out, then the weight.
    """
    np.random.seed(seed)  # noqa: NPY002
    n, d = X.shape
    w = np.zeros(d)
    bias = 0.0
    included = np.zeros(d)
    score = np.zeros(n)
    left = np.zeros(n)  # latent minus score
    squares = np.zeros(d)
    for j in range(d):
        squares[j] = np.sum(X[:, j] ** 2)
    for sweep in range(sweeps):
        for i in range(n):
            left[i] = y[i] * _positive_normal(y[i] * score[i]) - score[i]
        for j in range(d):
            shift = squares[j] * w[j] + np.sum(X[:, j] * left)
            precision = squares[j] + 1 / tau
            odds = math.log(rho / (1 - rho)) - math.log(tau * precision) / 2 + shift**2 / (2 * precision)
            chance = 1 / (1 + math.exp(-odds))
            new = 0.0
            if np.random.random() < chance:  # noqa: NPY002
                new = shift / precision + np.random.normal() / math.sqrt(precision)  # noqa: NPY002
            if sweep >= burn:
                included[j] += chance
            if new != w[j]:
                left -= X[:, j] * (new - w[j])
                score += X[:, j] * (new - w[j])
                w[j] = new
        precision = n + 1 / intercept_variance
        new = (np.sum(left) + n * bias) / precision + np.random.normal() / math.sqrt(precision)  # noqa: NPY002
        left -= new - bias
        score += new - bias
        bias = new
    return included / (sweeps - burn)


@njit(cache=True)
def _positive_normal(mean):
    """A draw of N(mean, 1) given that it is positive; by rejection, from an exponential where that is rare."""
    if mean > -0.5:
        while True:
            draw = mean + np.random.normal()  # noqa: NPY002
            if draw > 0:
                return draw
    rate = (math.sqrt(mean**2 + 4) - mean) / 2
    while True:
        above = -mean + np.random.exponential() / rate  # noqa: NPY002
        if np.random.random() < math.exp(-((above - rate) ** 2) / 2):  # noqa: NPY002
            return mean + above
