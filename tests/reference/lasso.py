"""quadratic-l1 in plain NumPy, with the paper's own symbols: the specification of `bayou.learners.lasso`.

The data are dense here, and the intercept is a column of ones.
"""

import numpy as np
from scipy.special import log_expit, log_ndtr

from tests.reference.l1_solver import shooting


def log_likelihood(link, c, y):
    """log p(y | score c), y in {0, 1}."""
    s = np.where(y > 0, 1.0, -1.0)
    return log_expit(s * c) if link == "logistic" else log_ndtr(s * c)


def expansion(link, c, y, online=False):
    """(a, b) of appendix A at the score c, in SPEC's stable form: log p ~ a c'^2 + b c' + const.

    On line a surprising example has no less curvature than its slope over 10 + 2 |c|.
    """
    s = np.where(y > 0, 1.0, -1.0)
    if link == "logistic":
        p = 1 / (1 + np.exp(-c))
        slope, h = y - p, p * (1 - p)
    else:
        rate = np.exp(-(c**2) / 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(s * c))
        slope, h = s * rate, rate * (rate + s * c)
    if online:
        h = np.where(s * c < 0, np.maximum(h, np.abs(slope) / (10 + 2 * np.abs(c))), h)
    return -h / 2, slope + c * h


def online(X, y, gamma, link="logistic", every=1, ramp=None, block=0, weights=None):
    """Algorithm 2, shooting after every so many examples; the last one is not dropped. (beta, predicted scores)."""
    t, d = X.shape
    gamma = np.broadcast_to(gamma, d)
    weights = np.ones(t) if weights is None else weights
    beta, psi, theta = np.zeros(d), np.zeros((d, d)), np.zeros(d)
    of_block, start, scores = [], 0, np.zeros(t)

    def shot(i):
        share = 1.0 if ramp is None else min(1.0, max(1.0 / gamma.max(), i / ramp))
        return shooting(psi, theta, share * gamma, beta)

    for i in range(t):
        scores[i] = X[i] @ beta
        a, b = weights[i] * np.array(expansion(link, scores[i], y[i], online=True))
        psi += a * np.outer(X[i], X[i])
        theta += b * X[i]
        of_block.append((i, a, b))
        if block and i + 1 - start >= block:  # expand the block again at the estimate after it
            beta = shot(i + 1)
            for j, a, b in of_block:
                a2, b2 = weights[j] * np.array(expansion(link, X[j] @ beta, y[j], online=True))
                psi += (a2 - a) * np.outer(X[j], X[j])
                theta += (b2 - b) * X[j]
            of_block, start = [], i + 1
            beta = shot(i + 1)
        elif (i + 1) % every == 0:
            beta = shot(i + 1)
    return beta, scores


def multipass(X, y, gamma, passes, link="logistic", beta=None, weights=None, sweeps=100_000):
    """Section 5, without a safeguard: the estimates after each pass."""
    beta = np.zeros(X.shape[1]) if beta is None else beta
    weights = np.ones(len(y)) if weights is None else weights
    estimates = []
    for _ in range(passes):
        a, b = expansion(link, X @ beta, y)
        beta = shooting((X.T * (weights * a)) @ X, X.T @ (weights * b), gamma, beta, sweeps)
        estimates.append(beta)
    return estimates


def objective(X, y, gamma, beta, link="logistic", weights=1.0):
    """(4), to be least."""
    return -np.sum(weights * log_likelihood(link, X @ beta, y)) + np.sum(gamma * np.abs(beta))
