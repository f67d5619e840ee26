"""FTRL-proximal in plain NumPy: McMahan et al., Ad click prediction, KDD 2013, Algorithm 1."""

import numpy as np

from tests.reference.common import active_features, label_signs, sigmoid


def weight(z, n, alpha: float, beta: float, l1, l2) -> np.ndarray:
    """w = 0 where |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)."""
    z, n = np.asarray(z, float), np.asarray(n, float)
    pull = (beta + np.sqrt(n)) / alpha + l2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((np.abs(z) <= l1) | (pull == 0), 0.0, -(z - np.sign(z) * l1) / pull)


def step(z, n, x, y: float, c: float, alpha: float, beta: float, l1, l2) -> tuple[np.ndarray, np.ndarray]:
    """One example of weight c, y = +1 or -1: new z and n of its active features.

    g = c (p - [y = 1]) x        s = (sqrt(n + g^2) - sqrt(n)) / alpha        z += g - s w        n += g^2
    """
    w = weight(z, n, alpha, beta, l1, l2)
    g = -c * y * sigmoid(-y * np.sum(x * w)) * x
    s = (np.sqrt(n + g**2) - np.sqrt(n)) / alpha
    return z + g - s * w, n + g**2


class FTRLReference:
    """FTRL over the rows of a CSR matrix. l1 and l2 spare the intercept, whose entry is the last."""

    def __init__(self, n_features: int, alpha=0.1, beta=1.0, l1=0.0, l2=0.0, intercept: bool = True):
        self.n_features, self.has_intercept = n_features, intercept
        self.z, self.n = np.zeros((2, n_features + 1))
        self._rates = {"alpha": alpha, "beta": beta}
        self._l1, self._l2 = (np.append(np.full(n_features, value), 0.0) for value in (l1, l2))

    def _settings(self, i) -> dict:
        return {**self._rates, "l1": self._l1[i], "l2": self._l2[i]}

    @property
    def weights(self) -> np.ndarray:
        return weight(self.z, self.n, **self._settings(slice(None)))

    def learn(self, X, y, weights=None) -> np.ndarray:
        """P(y = 1) of each row as predicted just before learning from it."""
        signs = label_signs(y)
        weights = np.ones(len(signs)) if weights is None else weights
        probabilities = np.empty(len(signs))
        for row in range(len(signs)):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            settings = self._settings(i)
            probabilities[row] = sigmoid(np.sum(x * weight(self.z[i], self.n[i], **settings)))
            self.z[i], self.n[i] = step(self.z[i], self.n[i], x, signs[row], weights[row], **settings)
        return probabilities
