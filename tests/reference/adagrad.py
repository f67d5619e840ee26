"""AdaGrad, the baseline of the marginal-gaussian paper's section 4, in plain NumPy; see `tests.reference.common`."""

import numpy as np

from tests.reference.common import active_features, label_signs, sigmoid


def adagrad_step(
    weights, accumulator, x, y: float, weight: float = 1.0, learning_rate: float = 0.1, l2=0.0
) -> tuple[np.ndarray, np.ndarray]:
    """One AdaGrad step on the log loss: new weights and accumulators of the active features, y = +1 or -1.

        g = c (p - [y = 1]) x + l2 w        accumulator += g^2        w -= learning_rate g / sqrt(accumulator)

    c is the example's weight. The accumulator starts at 0 and no epsilon is added, so the first step of a
    feature has length `learning_rate` whatever its units. `l2` may be an array (0 for the intercept), and
    decays active features only.
    """
    weights, accumulator, x = (np.array(a, dtype=float) for a in (weights, accumulator, x))
    if weight == 0:
        return weights, accumulator
    score = np.sum(x * weights)
    residual = -y * sigmoid(-y * score)  # p - [y = 1], without its cancellation
    gradient = weight * residual * x + l2 * weights
    accumulator = accumulator + gradient**2
    moves = accumulator > 0  # a gradient of exactly 0 from the start: no direction, no step
    weights[moves] -= learning_rate * gradient[moves] / np.sqrt(accumulator[moves])
    return weights, accumulator


class AdaGradReference:
    """AdaGrad over the rows of a CSR matrix, all weights 0 at the start. `l2` spares the intercept."""

    def __init__(self, n_features: int, learning_rate: float, l2: float = 0.0, intercept: bool = True):
        self.n_features, self.learning_rate, self.has_intercept = n_features, learning_rate, intercept
        # The last entry of each array is the intercept's.
        self._weights = np.zeros(n_features + 1)
        self._accumulator = np.zeros(n_features + 1)
        self._l2 = np.append(np.full(n_features, l2, dtype=float), 0.0)

    @property
    def mean(self) -> np.ndarray:
        """The weights, under the name that every learner gives them."""
        return self._weights[:-1].copy()

    @property
    def intercept(self) -> float:
        return float(self._weights[-1])

    def learn(self, X, y, weights=None) -> np.ndarray:
        """P(y = 1) of each row as predicted just before learning from it."""
        signs = label_signs(y)
        weights = np.ones(len(signs)) if weights is None else np.asarray(weights, dtype=float)
        probabilities = np.empty(len(signs))
        for row in range(len(signs)):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            w, a, l2 = self._weights[i], self._accumulator[i], self._l2[i]
            probabilities[row] = sigmoid(np.sum(x * w))
            self._weights[i], self._accumulator[i] = adagrad_step(
                w, a, x, signs[row], weights[row], self.learning_rate, l2
            )
        return probabilities

    def predict(self, X) -> tuple[np.ndarray, np.ndarray]:
        """P(y = 1) and the score of each row."""
        scores = np.empty(X.shape[0])
        for row in range(X.shape[0]):
            i, x = active_features(X, row, self.n_features, self.has_intercept)
            scores[row] = np.sum(x * self._weights[i])
        return sigmoid(scores), scores
