"""Log-odds that stay exact where a probability has rounded to 0 or 1, and what estimators make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy.special import expit, log_expit, log_ndtr, logit, logsumexp, ndtr

from bayou.core import links
from bayou.core.learner import Prediction

CDF = {"logistic": expit, "probit": ndtr}
LOG_CDF = {"logistic": log_expit, "probit": log_ndtr}

# The probabilities closest to 0 and 1 that have finite log-odds.
_LEAST, _MOST = np.finfo(np.float64).tiny, 1.0 - 2.0**-53


def of_probability(probability: np.ndarray) -> np.ndarray:
    """log p/(1 - p), for when nothing but p is known: finite, and right from p = 1e-307 to 1 - 1e-10.

    >>> of_probability(np.array([0.0, 0.5, 1.0])).round(1)
    array([-708.4,    0. ,   36.7])
    """
    return logit(np.clip(probability, _LEAST, _MOST))


def of_gaussian_score(prediction: Prediction, parameters: dict[str, Any]) -> np.ndarray:
    """log E[F(score)]/E[F(-score)] for a Gaussian score, by the learner's `predictive`, and `link` and `temper` if any.

    The probability of a positive is E[F(score)], that of a negative E[F(-score)]: neither is taken from 1.
    """
    link, mean = parameters.get("link", "logistic"), prediction.mean
    variance = parameters.get("temper", (1.0, 1.0))[1] * prediction.variance
    if parameters["predictive"] == "quadrature" and link == "logistic":
        log_doubt = _log_expected_doubt(np.abs(mean), variance)
        return np.sign(mean) * (np.log1p(-np.exp(log_doubt)) - log_doubt)
    z = mean / np.sqrt(1.0 + links.spread(links.code(link)) * variance)
    return z if link == "logistic" else log_ndtr(z) - log_ndtr(-z)


@njit(cache=True, nogil=True)
def _log_expected_doubt(mean, variance):
    logs = np.empty(mean.size)
    for row in range(mean.size):
        logs[row] = links.log_expected_doubt(mean[row], variance[row])
    return logs


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
