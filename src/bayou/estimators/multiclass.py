"""Log-odds of several classes against the rest, and the probabilities that they make together."""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, logsumexp


def log_probabilities(log_odds: np.ndarray) -> np.ndarray:
    """A row's log-probability of each class, shape (rows, classes).

    From the positive class's log-odds, shape (rows,), or from those of each class against the rest, shape
    (rows, classes): these probabilities are divided by their sum.

    >>> np.exp(log_probabilities(np.array([0.0]))), log_probabilities(np.array([-1000.0]))[0, 1]
    (array([[0.5, 0.5]]), np.float64(-1000.0))
    >>> np.exp(log_probabilities(np.log([[1 / 3, 1.0, 3.0]]))).round(3)  # of 1/4, 1/2, 3/4
    array([[0.167, 0.333, 0.5  ]])
    """
    if log_odds.ndim == 1:
        return log_expit(np.column_stack([-log_odds, log_odds]))
    each = log_expit(log_odds)
    return each - logsumexp(each, axis=1, keepdims=True)


def log_of_the_others(log_odds: np.ndarray) -> np.ndarray:
    """The log of the summed one-against-rest probabilities of all classes but each, shape (rows, classes).

    >>> np.exp(log_of_the_others(np.log([[1 / 3, 1.0, 3.0]]))).round(3)  # of 1/4, 1/2, 3/4
    array([[1.25, 1.  , 0.75]])
    """
    each = log_expit(log_odds)
    return np.column_stack([logsumexp(np.delete(each, k, axis=1), axis=1) for k in range(each.shape[1])])
