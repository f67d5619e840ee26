"""The joint Gaussian (DimGauss) in plain NumPy: every rule of marginal-gaussian, appendix D.1, a function each.

Nothing here is clever: covariances are matrices, inverses are inverses. `test_joint.py` checks it
against optimisers and finite differences; the kernels of `bayou.learners.joint` answer to it.
"""

import numpy as np

from tests.reference.common import active_features, label_signs, sigmoid
from tests.reference.marginal import marginal_predict


def joint_peak(a0: float, tau: float, max_iterations: int = 1000) -> float:
    """a = a0 + tau S(-a): the label's score y x'w at the peak of the posterior (35), equations (36) and (37).

    All of (37) is one equation: mu moves along S x, and the score by tau S(-a), tau = x'S x. Newton's method starts at
    the inflection of S, or at a0 if that lies beyond: the function bends one way only from there to the root.
    """
    a = max(a0, 0.0)
    for _ in range(max_iterations):
        q = sigmoid(-a)
        step = (tau * q - (a - a0)) / (1.0 + tau * q * sigmoid(a))
        a += step
        if abs(step) <= 1e-15 * (1.0 + abs(a)):
            break
    return a


def joint_taylor(a0: float, tau: float) -> float:
    """The score after (44) and (45): x'S~ x = tau/(1 + tau r(a0)), and the score moves by S(-a0) times that."""
    q = sigmoid(-a0)
    return a0 + tau * q / (1.0 + tau * q * sigmoid(a0))


def joint_score(a0: float, tau: float, mean_update: str) -> tuple[float, float]:
    """The label's score a at the new mean, and (a - a0) / tau, how far the mean moves along y S x."""
    if mean_update == "newton":
        a = joint_peak(a0, tau)
        return a, sigmoid(-a)
    if mean_update == "taylor":
        return joint_taylor(a0, tau), sigmoid(-a0) / (1.0 + tau * sigmoid(a0) * sigmoid(-a0))
    raise ValueError(f"mean_update is 'newton' or 'taylor', not {mean_update!r}")


def diagonal_step(mean, variance, x, y: float, weight: float = 1.0, mean_update: str = "newton"):
    """New means and variances of the active features of one example with label y = +1 or -1; S stays diagonal.

    A weight c multiplies the log-likelihood: tau becomes c tau where the score is sought, S(-a) and r become c S(-a)
    and c r. The new variances are the diagonal of (46), var (1 - r x^2 var / (1 + r tau)), without its cancellation.
    """
    mean, variance, x = (np.array(a, dtype=float) for a in (mean, variance, x))
    if weight == 0 or not x.any():
        return mean, variance
    a0, tau = y * np.sum(x * mean), np.sum(x**2 * variance)
    a, pull = joint_score(a0, weight * tau, mean_update)
    r = weight * sigmoid(a) * sigmoid(-a)
    others = np.array([np.sum(np.delete(x**2 * variance, i)) for i in range(len(x))])  # tau - x^2 var
    return mean + y * weight * pull * x * variance, variance * (1.0 + r * others) / (
        1.0 + r * (others + x**2 * variance)
    )


def full_step(mean, covariance, x, y: float, weight: float = 1.0, mean_update: str = "newton"):
    """New mean and covariance of all weights after one example: (37) or (45), then (46) by Sherman and Morrison."""
    mean, covariance, x = (np.array(a, dtype=float) for a in (mean, covariance, x))
    if weight == 0 or not x.any():
        return mean, covariance
    v = covariance @ x  # (43)
    a0, tau = y * (x @ mean), x @ v
    a, pull = joint_score(a0, weight * tau, mean_update)
    r = weight * sigmoid(a) * sigmoid(-a)
    return mean + y * weight * pull * v, covariance - r / (1.0 + r * tau) * np.outer(v, v)


def batch_step(mean, covariance, X, y, weights, mean_update: str = "newton"):
    """New mean and covariance after a mini-batch whose precisions are added at once.

    taylor: one Newton step for the mean, with gradients and precisions (47) where it stood; then (48) at the new mean.
    newton: as many steps as it takes, each halved until the logarithm of the posterior does not fall.
    """
    mean, prior = np.array(mean, dtype=float), np.linalg.inv(covariance)

    def log_posterior(w) -> float:
        return weights @ -np.logaddexp(0.0, -y * (X @ w)) - (w - mean) @ prior @ (w - mean) / 2.0

    w = mean
    for _ in range(1 if mean_update == "taylor" else 200):
        z = X @ w
        gradient = X.T @ (weights * y * sigmoid(-y * z)) - prior @ (w - mean)
        precision = prior + X.T @ ((weights * sigmoid(z) * sigmoid(-z))[:, None] * X)  # (39), (47)
        step = np.linalg.solve(precision, gradient)  # (40), (45)
        while mean_update == "newton" and log_posterior(w + step) < log_posterior(w) - 1e-9 * abs(log_posterior(w)):
            step = step / 2.0
        w = w + step
    z = X @ w
    return w, np.linalg.inv(prior + X.T @ ((weights * sigmoid(z) * sigmoid(-z))[:, None] * X))  # (48)


class JointReference:
    """The rules above over the rows of a CSR matrix. The intercept is the last weight, with a prior of its own."""

    def __init__(
        self,
        n_features: int,
        covariance: str = "diagonal",
        mean_update: str = "newton",
        prior_mean=0.0,
        prior_variance=1.0,
        batch_size: int = 1,
        intercept: bool = True,
        intercept_variance: float | None = None,
    ):
        if intercept_variance is None:
            intercept_variance = max(3.0, float(np.max(prior_variance)))
        self.n_features, self.has_intercept = n_features, intercept
        self._mean = np.append(np.full(n_features, prior_mean, dtype=float), 0.0)
        self._covariance = np.diag(np.append(np.full(n_features, prior_variance, dtype=float), intercept_variance))
        self.full, self.mean_update, self.batch_size = covariance == "full", mean_update, batch_size
        self._waiting: list[tuple[np.ndarray, float, float]] = []

    @property
    def mean(self) -> np.ndarray:
        return self._mean[:-1].copy()

    @property
    def variance(self) -> np.ndarray:
        return np.diag(self._covariance)[:-1].copy()

    @property
    def covariance(self) -> np.ndarray:
        size = self.n_features + self.has_intercept
        return self._covariance[:size, :size].copy()

    @property
    def intercept(self) -> tuple[float, float]:
        """Mean and variance of the intercept; (0, 0), known to be nothing, if there is none."""
        return (float(self._mean[-1]), float(self._covariance[-1, -1])) if self.has_intercept else (0.0, 0.0)

    def _dense(self, X, row: int) -> np.ndarray:
        i, values = active_features(X, row, self.n_features, self.has_intercept)
        x = np.zeros(self.n_features + 1)
        x[i] = values
        return x

    def _predict_row(self, x) -> tuple[float, float, float]:
        # The score's variance as that of a single weight: (8) asks for no more.
        return marginal_predict(x @ self._mean, x @ self._covariance @ x, 1.0)

    def _learn_row(self, x, y: float, weight: float) -> None:
        if not self.full:
            i = np.flatnonzero(x)
            self._mean[i], self._covariance[i, i] = diagonal_step(
                self._mean[i], self._covariance[i, i], x[i], y, weight, self.mean_update
            )
        elif self.batch_size == 1:
            self._mean, self._covariance = full_step(self._mean, self._covariance, x, y, weight, self.mean_update)
        elif weight > 0:
            self._waiting.append((x, y, weight))
            if len(self._waiting) == self.batch_size:
                self.finish()

    def finish(self) -> None:
        """Learn from what waits for the rest of its mini-batch."""
        if self._waiting:
            X, y, weights = (np.array(part) for part in zip(*self._waiting, strict=True))
            self._mean, self._covariance = batch_step(self._mean, self._covariance, X, y, weights, self.mean_update)
            self._waiting = []

    def learn(self, X, y, weights=None) -> np.ndarray:
        """P(y = 1) of each row as predicted just before learning from it."""
        signs = label_signs(y)
        weights = np.ones(len(signs)) if weights is None else np.asarray(weights, dtype=float)
        probabilities = np.empty(len(signs))
        for row in range(len(signs)):
            x = self._dense(X, row)
            probabilities[row] = self._predict_row(x)[0]
            self._learn_row(x, signs[row], weights[row])
        return probabilities

    def predict(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P(y = 1), and the mean and variance of the score, of each row."""
        return tuple(
            np.array(part)
            for part in zip(*(self._predict_row(self._dense(X, k)) for k in range(X.shape[0])), strict=True)
        )
