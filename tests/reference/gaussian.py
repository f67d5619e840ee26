"""Gaussian linear regression with a diagonal posterior, in plain NumPy: what `bayou.learners.gaussian` answers to."""

import numpy as np


def condition(mean, variance, x, y, c=1.0):
    """Weights N(mean, s diag(variance)) after seeing y = x'w + noise of variance s/c: the mean and variance of each.

    The joint posterior is Gaussian with precision diag(1/variance) + c x x'; only its diagonal is kept. The third
    number is what the example says about s: (y - x'mean)^2 over the variance it was expected to have, if s were 1.
    """
    spread = variance @ x**2
    error = y - mean @ x
    gain = variance * x * c / (1.0 + c * spread)
    return mean + gain * error, variance - gain * variance * x, c * error**2 / (1.0 + c * spread)


class Gaussian:
    """A stream of such examples. The last weight is the intercept. Noise is learned unless it is known."""

    def __init__(self, n_features, prior_mean=0.0, prior_variance=1.0, noise_variance=None, intercept_variance=1e6):
        unit = 1.0 if noise_variance is None else noise_variance
        self.mean = np.append(np.broadcast_to(np.asarray(prior_mean, float), n_features), 0.0)
        prior_variance = np.broadcast_to(np.asarray(prior_variance, float), n_features)
        self.relative = np.append(prior_variance, intercept_variance) / unit
        self.known, self.squares, self.weight = noise_variance, 0.0, 0.0

    @property
    def noise(self):
        return (1e-6 + self.squares) / (1e-6 + self.weight) if self.known is None else self.known

    def learn(self, x, y, c=1.0):
        """(mean, variance, noise) predicted; then learned."""
        x = np.append(x, 1.0)
        told = self.mean @ x, self.noise * (self.relative @ x**2), self.noise
        if c > 0:
            self.mean, self.relative, square = condition(self.mean, self.relative, x, y, c)
            self.squares += square
            self.weight += c
        return told
