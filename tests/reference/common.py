"""What the references share: links that turn a score into a probability, and how rows and labels are read.

Everything here is plain NumPy float64, one example at a time, and written to be read: equation numbers are those of
"Low complexity approximate Bayesian logistic regression for sparse online learning". Each learner's rule has a file of
its name beside this one. The fast kernels answer to these files, and these files to the tests beside them, which check
them against what we did not write: scipy's functions, minimisers, integrals and differences. Nothing here is fast, and
nothing here should be made fast.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfc, erfcx


def sigmoid(z):
    """S(z) = 1 / (1 + exp(-z)), equation (2). The exponential only ever decays, so it cannot overflow."""
    decay = np.exp(-np.abs(z))
    return np.where(np.asarray(z) >= 0, 1.0, decay) / (1.0 + decay)


def log_sigmoid(z):
    """log S(z) = -log(1 + exp(-z)); about z itself far to the left."""
    return -np.logaddexp(0.0, -np.asarray(z, dtype=float))


def probit(z):
    """Phi(z), the normal distribution function, equation (23)."""
    return 0.5 * erfc(-np.asarray(z, dtype=float) / np.sqrt(2.0))


def log_probit(z):
    """log Phi(z). On the left Phi(z) = exp(-z^2/2) erfcx(-z/sqrt 2)/2: the logarithm comes first."""
    far = np.abs(z)
    left = np.log(0.5 * erfcx(far / np.sqrt(2.0))) - 0.5 * far**2
    right = np.log1p(-0.5 * erfc(far / np.sqrt(2.0)))
    return np.where(np.asarray(z) < 0, left, right)


def hazard(z):
    """R(z) = phi(z)/Phi(z), the slope of log Phi in (28). The exp(-z^2/2) in both cancels, erfcx stays."""
    return np.sqrt(2.0 / np.pi) / erfcx(-np.asarray(z, dtype=float) / np.sqrt(2.0))


def hazard_gap(z):
    """z + R(z) > 0. Far to the left R(z) is nearly -z and the sum would cancel. There, with a = -z,

        z + R(z) = 1/(a + 2/(a + 3/(a + 4/(a + ...))))

    which is Laplace's continued fraction for R(z), less its first term.
    """
    a = np.maximum(-np.asarray(z, dtype=float), 8.0)
    tail = a
    for k in range(40, 1, -1):  # 40 levels are exact to the last bit for a >= 8
        tail = a + k / tail
    return np.where(np.asarray(z) < -8.0, 1.0 / tail, z + hazard(z))


def hazard_slope(z):
    """R(z) (z + R(z)) = -R'(z), the curvature of -log Phi in (30) and (31): 1 far left, 0 far right."""
    return hazard(z) * hazard_gap(z)


def sigmoid_slope(z):
    """(log S)'(z) = S(-z), the 1 - p of (15). Never 1 - S(z): it loses all digits as S(z) nears 1."""
    return sigmoid(-z)


def sigmoid_curvature(z):
    """-(log S)''(z) = S(z) S(-z), the p (1 - p) of (17) and (19)."""
    return sigmoid(z) * sigmoid(-z)


class Link(NamedTuple):
    """What the updates need to know of a link F, where F(y * score) is the probability of the label y."""

    cdf: Callable[[Any], Any]  # F
    log_cdf: Callable[[Any], Any]  # log F
    slope: Callable[[Any], Any]  # q(z) = (log F)'
    curvature: Callable[[Any], Any]  # r(z) = -(log F)'' >= 0
    shrink: float  # C: averaging F over a normal score of variance v divides the score by sqrt(1 + C v)


LINKS = {
    # S(z) is nearly Phi(z sqrt(pi/8)), (5): they agree in height and slope at 0.
    "logistic": Link(sigmoid, log_sigmoid, sigmoid_slope, sigmoid_curvature, np.pi / 8.0),
    "probit": Link(probit, log_probit, hazard, hazard_slope, 1.0),
}


def label_signs(labels) -> np.ndarray:
    """Labels as +1 and -1. 1 is positive; -1 or 0, but not both, is negative."""
    labels = np.asarray(labels, dtype=float)
    if not (np.isin(labels, (-1.0, 1.0)).all() or np.isin(labels, (0.0, 1.0)).all()):
        raise ValueError("labels are 1 and -1, or 1 and 0; nothing else, and not all three")
    return np.where(labels == 1.0, 1.0, -1.0)


def active_features(X, row: int, n_features: int, intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Indices and values of a row: duplicates summed, zeros dropped, the intercept at the end."""
    begin, end = X.indptr[row], X.indptr[row + 1]
    indices, slots = np.unique(X.indices[begin:end], return_inverse=True)
    values = np.zeros(len(indices))
    np.add.at(values, slots, X.data[begin:end])
    indices, values = indices[values != 0].astype(int), values[values != 0]
    if intercept:
        indices, values = np.append(indices, n_features), np.append(values, 1.0)
    return indices, values
