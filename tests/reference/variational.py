"""Marginalised variational Bayes in plain NumPy float64, written to be read; see `tests.reference.common`.

``test_variational.py`` checks it against scipy's minimisers of the divergence (49). Equation numbers are
those of appendix D.3.
"""

import numpy as np
from scipy.special import ndtri

from tests.reference.common import LINKS, log_sigmoid, sigmoid
from tests.reference.marginal import MarginalReference, marginal_predict

SHRINK = LINKS["logistic"].shrink


def hermite_nodes(n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the mean of a function of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_points)
    return nodes, weights / weights.sum()


def mix(state: np.ndarray) -> np.ndarray:
    """splitmix64's output at each state."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def normal_draws(seed: int, example: int, feature: int, n_points: int) -> np.ndarray:
    """Draws keyed by (seed, example, feature, sample): 16 bits of a hash choose one of 2^16 quantiles each."""
    with np.errstate(over="ignore"):
        key = mix(np.array([seed], np.uint64) + GOLDEN)
        key = mix(key ^ (np.uint64(example) + GOLDEN))
        key = mix(key ^ (np.uint64(feature) + GOLDEN))
        bits = mix(key + np.arange(1, (n_points + 3) // 4 + 1, dtype=np.uint64) * GOLDEN)
    numbers = (bits[:, None] >> np.array([0, 16, 32, 48], np.uint64)) & np.uint64(0xFFFF)
    quantiles = ndtri((np.arange(2**16) + 0.5) / 2**16)
    return (quantiles / np.std(quantiles))[numbers.ravel()[:n_points].astype(int)]


def divergence(a: float, r: float, z0: float, k: float, weight: float, nodes, node_weights) -> float:
    """(49) less its constants, in units of the old standard deviation: see `bayou.learners.variational`."""
    loss = -np.sum(node_weights * log_sigmoid(z0 + k * (a + r * nodes)))
    return a**2 / 2 + r**2 / 2 - np.log(r) + weight * loss


def gradient_and_hessian(a, r, z0, k, weight, nodes, node_weights) -> tuple[np.ndarray, np.ndarray]:
    """(52) and (53) in the same units."""
    z = z0 + k * (a + r * nodes)
    q = node_weights * sigmoid(-z)
    p = q * sigmoid(z)
    gradient = np.array([a - weight * k * np.sum(q), r - 1 / r - weight * k * np.sum(nodes * q)])
    cross = weight * k**2 * np.sum(nodes * p)
    first, second = 1 + weight * k**2 * np.sum(p), 1 + 1 / r**2 + weight * k**2 * np.sum(nodes**2 * p)
    return gradient, np.array([[first, cross], [cross, second]])


def newton_minimum(z0: float, k: float, weight: float, nodes, node_weights) -> tuple[float, float]:
    """(54) from the old belief, each step halved until the divergence, a convex function, falls enough."""
    place = np.array([0.0, 1.0])
    told = (z0, k, weight, nodes, node_weights)
    for _ in range(500):
        gradient, hessian = gradient_and_hessian(*place, *told)
        step = -np.linalg.solve(hessian, gradient)
        expected = -gradient @ step
        length = 1.0
        while place[1] + length * step[1] <= 0:
            length /= 2
        if expected > 1e-9:  # below, rounding hides whether it falls, and whole steps converge
            while divergence(*(place + length * step), *told) > divergence(*place, *told) - 0.1 * length * expected:
                length /= 2
        place = place + length * step
        if expected <= 1e-26:
            break
    return float(place[0]), float(place[1])


def taylor_minimum(z0: float, k: float, weight: float, nodes, node_weights) -> tuple[float, float]:
    """(52) with each q_j replaced by its tangent at the old belief, a = 0 and r = 1, set to 0.

    Solved for a given r, a is linear in r; what remains is a quadratic of r with one positive root.
    """
    z = z0 + k * nodes
    q = node_weights * sigmoid(-z)
    p = q * sigmoid(z)
    # gradient = (a - A + B a + C (r - 1), r - 1/r - D + C a + E (r - 1))
    A, D = weight * k * np.sum(q), weight * k * np.sum(nodes * q)
    B, C, E = (weight * k**2 * np.sum(nodes**n * p) for n in range(3))
    linear, constant = E - C**2 / (1 + B), D - C * A / (1 + B)
    r = max(np.roots([1 + linear, -(constant + linear), -1.0]).real)
    return float((A - C * (r - 1)) / (1 + B)), float(r)


def variational_step(
    mean, variance, x, y, weight=1.0, mean_update="newton", nodes_of=None, cap=np.inf, may_widen=False
) -> tuple[np.ndarray, np.ndarray]:
    """New means and variances of the active features of one example; nodes_of(j): nodes and weights of the jth."""
    mean, variance, x = (np.array(a, dtype=float) for a in (mean, variance, x))
    if weight == 0:
        return mean, variance
    m, s2 = np.sum(x * mean), np.sum(x**2 * variance)
    new_mean, new_variance = mean.copy(), variance.copy()
    for j in range(len(x)):
        sd = np.sqrt(variance[j])
        s = np.sqrt(1.0 + SHRINK * max(s2 - (x[j] * sd) ** 2, 0.0))
        minimum = {"newton": newton_minimum, "taylor": taylor_minimum}[mean_update]
        a, r = minimum(y * m / s, abs(x[j]) * sd / s, weight, *nodes_of(j))
        new_mean[j] = mean[j] + y * np.sign(x[j]) * a * sd
        new_variance[j] = variance[j] * (r if may_widen else min(r, 1.0)) ** 2
    return new_mean, np.minimum(new_variance, cap)


class VariationalReference(MarginalReference):
    """Variational Bayes over the rows of a CSR matrix; prior and intercept as in `MarginalReference`."""

    def __init__(
        self,
        n_features: int,
        expectation: str = "quadrature",
        n_points: int = 8,
        mean_update: str = "newton",
        prior_mean=0.0,
        prior_variance=1.0,
        predictive: str = "closed",
        seed: int = 0,
        intercept: bool = True,
        intercept_variance: float | None = None,
    ):
        super().__init__(
            n_features,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            predictive=predictive,
            intercept=intercept,
            intercept_variance=intercept_variance,
        )
        self.mean_update, self.n_points, self.seed = mean_update, n_points, seed
        self.monte_carlo = expectation == "monte-carlo"
        self.examples = 0

    def _predict_row(self, i, x) -> tuple[float, float, float]:
        return marginal_predict(self._mean[i], self._variance[i], x, predictive=self.predictive)

    def _learn_row(self, i, x, y: float, weight: float) -> None:
        self.examples += weight > 0

        def nodes_of(j):
            if not self.monte_carlo:
                return hermite_nodes(self.n_points)
            feature = 2**63 if i[j] == self.n_features else int(i[j])
            draws = normal_draws(self.seed, self.examples, feature, self.n_points)
            return draws, np.full(self.n_points, 1 / self.n_points)

        self._mean[i], self._variance[i] = variational_step(
            self._mean[i], self._variance[i], x, y, weight, self.mean_update, nodes_of, self._prior[i], self.monte_carlo
        )
