"""Evidence that values of a column need weights of their own, written down as it is defined: in loops, by densities."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import multivariate_normal

N_NEIGHBORS, N_PRIOR_ROWS = 25, 5.0


def residuals(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return what each label differs from the mean of its neighbors: rows of another value, on either side."""
    order = np.argsort(x, kind="stable")
    rest = np.empty(len(x))
    for row in range(len(x)):
        below = [k for k in order if x[k] < x[row]][-N_NEIGHBORS:]
        above = [k for k in order if x[k] > x[row]][:N_NEIGHBORS]
        neighbors = np.append(y[below], y[above])
        rest[row] = y[row] - (neighbors.sum() + N_PRIOR_ROWS * y.mean()) / (len(neighbors) + N_PRIOR_ROWS)
    return rest


def evidence(groups: np.ndarray, rest: np.ndarray, fractions: Sequence[float]) -> float:
    """Return by how many nats means of the groups explain residuals better than independent noise does; at least 0.

    The means have a fraction of the residuals' variance, the noise has the rest; the best of the fractions counts.
    """
    variance, best = rest.var(), 0.0
    for fraction in fractions:
        total = 0.0
        for group in np.unique(groups):
            r = rest[groups == group]
            noise = variance * np.eye(len(r))
            shared = (1 - fraction) * noise + fraction * variance
            zero = np.zeros(len(r))
            total += multivariate_normal.logpdf(r, zero, shared) - multivariate_normal.logpdf(r, zero, noise)
        best = max(best, total)
    return best


def by_value(x: np.ndarray, y: np.ndarray) -> float:
    """Return the evidence that values have means of their own, beyond their neighbors'."""
    return evidence(x, residuals(x, y), (0.003, 0.01, 0.03, 0.1, 0.2, 0.4))


def by_bin(x: np.ndarray, y: np.ndarray, edges: Sequence[float]) -> float:
    """Return the evidence that bins between these edges have means of their own."""
    return evidence(np.searchsorted(edges, x, "right"), y - y.mean(), (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4))
