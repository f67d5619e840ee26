"""Posteriors of weights: of bayou's learners, of batch Bayesian logistic regression, and of peers that have one.

    Marginal, Joint     one pass; prior variance 1, or the true one where it is known. Joint with its full covariance
    bank                one pass, at its defaults
    batch               scikit-learn's logistic regression at the peak, Laplace's approximation around it, and a prior
                        variance learned from the same rows by MacKay's rule
    BayesianGLM         of bayesianbandits: Laplace's approximation with all correlations, 1,000 rows at a time, prior
                        variance 1 (its default), or the true one where it is known
    EmpiricalBayesGLM   of bayesianbandits: the same with a prior variance that is learned
    AdPredictor         of river: a diagonal posterior of a probit model for features that are there or not. Scores and
                        weights are divided by its noise `beta` and by sqrt(pi / 8), which makes them log-odds. At its
                        defaults it forgets, and trusts each label; "AdPredictor 1 0" has beta 1 and epsilon 0

Vowpal Wabbit, scikit-learn's SGDClassifier and river's LogisticRegression have no posterior, and river's
BayesianLinearRegression none for labels of two classes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from uncertainty_designs import Problem

from bayou import Batch
from bayou.learners import Bank, Joint, Marginal

# The rule for the prior of the batch posterior.
INTERCEPT_PRECISION = 0.1
PRIOR_SCORE_VARIANCE = 10.0  # at first a row's score has this variance
MAX_FIRST_VARIANCE = 100.0
PSEUDO_COUNT = 4.0
MIN_VARIANCE, MAX_GROWTH = 1e-4, 100.0
MAX_ROUNDS, TOLERANCE = 20, 0.01
MIN_VALUES = 16  # uses from which on a column's variance is known

MAX_JOINT_WORK = 3e11  # rows times features squared
GLM_ROWS = 1000


class Posterior(NamedTuple):
    """Belief in weights and in the scores of later rows."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: Callable[[np.ndarray], np.ndarray]  # of the features of these indices
    later: tuple[np.ndarray, np.ndarray]  # means and variances of scores, as a model that has stopped learning
    next: tuple[np.ndarray, np.ndarray] | None = None  # and as one that goes on, where that differs


# --- bayou's learners -----------------------------------------------------------------------------------------------


def learn_marginal(problem: Problem, **options: Any) -> Posterior:
    return learn(Marginal(len(problem.weights), **known_prior(problem), **options), problem)


def learn_joint(problem: Problem) -> Posterior | None:
    if len(problem.y) * len(problem.weights) ** 2 > MAX_JOINT_WORK:
        return None
    return learn(Joint(len(problem.weights), covariance="full", **known_prior(problem)), problem)


def learn_bank(problem: Problem, **options: Any) -> Posterior:
    return learn(Bank(len(problem.weights), intercept=problem.intercept is not None, **options), problem)


def known_prior(problem: Problem) -> dict[str, Any]:
    intercept = {"intercept": problem.intercept is not None}
    return intercept if problem.prior_variance is None else intercept | {"prior_variance": problem.prior_variance}


def learn(learner: Any, problem: Problem) -> Posterior:
    """Learn the rows in one pass, and return what the learner then believes."""
    learner.learn(batch_of(problem.X, problem, problem.y))
    rows = batch_of(problem.later, problem)
    later, after = (learner.predict(rows, horizon=horizon) for horizon in ("later", "next"))
    variance = learner.variance
    return Posterior(
        mean=learner.mean,
        variance=variance,
        covariance=lambda indices: covariance_of(learner, variance, indices),
        later=(later.mean, later.variance),
        next=(after.mean, after.variance),
    )


def batch_of(X: sparse.csr_matrix, problem: Problem, y: np.ndarray | None = None) -> Batch:
    groups = None if problem.groups is None else problem.groups[X.indices]
    return Batch.from_arrays(X.indptr, X.indices, X.data, y, groups=groups)


def covariance_of(learner: Any, variance: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the covariance of some weights; a diagonal one if the learner has no other."""
    if hasattr(learner, "covariance"):
        return np.asarray(learner.covariance(indices))
    if isinstance(learner, Joint):
        return learner.covariance_matrix()[np.ix_(indices, indices)]
    return np.diag(variance[indices])


# --- batch Bayesian logistic regression -----------------------------------------------------------------------------


def fit_batch(problem: Problem) -> Posterior:
    return batch_posterior(problem)[0]


def batch_posterior(problem: Problem) -> tuple[Posterior, float]:
    """Return Laplace's posterior under the learned prior, and the prior variance.

    Weight j has the prior N(0, v / r_j), with r_j as in `prior_units`. By MacKay's rule, with pseudo-counts:

        v = (4 v_0 + sum r mu^2) / (4 + sum gamma),    gamma_j = 1 - S_jj r_j / v,    v_0 = min(100, 10 / nonzeros)
    """
    X, y, counts = distinct_rows(problem)
    units = prior_units(problem.X)
    if problem.intercept is not None:
        X = sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr")
    first = min(MAX_FIRST_VARIANCE, PRIOR_SCORE_VARIANCE * len(problem.y) / problem.X.nnz)
    d, variance, mean = len(units), first, None
    for _ in range(MAX_ROUNDS):
        precision = np.append(units / variance, [INTERCEPT_PRECISION] * (X.shape[1] - d))
        mean = fit_peak(X, y, counts, precision, mean)
        covariance = laplace_covariance(X, counts, precision, mean)
        known = 1.0 - np.minimum(precision * np.diag(covariance), 1.0)[:d]
        before, variance = variance, (PSEUDO_COUNT * first + units @ mean[:d] ** 2) / (PSEUDO_COUNT + known.sum())
        variance = float(np.clip(variance, MIN_VARIANCE, MAX_GROWTH * first))
        if abs(math.log(variance / before)) < TOLERANCE:
            break
    return gaussian_posterior(problem, mean, covariance), before


def distinct_rows(problem: Problem) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Return each row with each of its labels once, and how often it came."""
    keys = 2 * problem.rows.astype(np.int64) + (problem.y > 0)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return problem.X[first], problem.y[first], counts.astype(float)


def prior_units(X: sparse.csr_matrix) -> np.ndarray:
    """Return r of each feature: the square of its only value, or the spread of a column that has several.

    The spread is the variance around the mean over all rows, per use, and a second term for columns used rarely.
    """
    rows, d = X.shape
    uses = np.bincount(X.indices, minlength=d)
    n = np.maximum(uses, 1)
    total, square = (np.bincount(X.indices, weights=X.data**power, minlength=d) for power in (1, 2))
    mean_square = square / n
    variance, floor = np.maximum(square - total**2 / rows, 0.0) / n, mean_square / n
    is_known = (n >= MIN_VALUES) & (variance > 1e-12 * mean_square)
    spread = variance + np.where(is_known, np.clip(10.0 * variance, floor / 100.0, floor), floor)
    one_value = np.abs(np.abs(total) / n - np.sqrt(mean_square)) <= 1e-9 * np.sqrt(mean_square)
    return np.where(uses == 0, 1.0, np.where(one_value, mean_square, spread))


def fit_peak(X: Any, y: np.ndarray, counts: np.ndarray, precision: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """Return the weights of largest posterior density, under the prior N(0, 1 / precision).

    scikit-learn has one penalty for all weights: columns are scaled so that each has precision 1.
    """
    unit = np.sqrt(precision)
    scaled = (X @ sparse.diags_array(1.0 / unit)).tocsr()
    model = LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky", tol=1e-6, warm_start=True)
    if start is not None:
        model.coef_, model.classes_, model.intercept_ = (start * unit)[None, :], np.array([-1.0, 1.0]), np.zeros(1)
    model.fit(scaled, y, sample_weight=counts)
    return model.coef_[0] / unit


def laplace_covariance(X: Any, counts: np.ndarray, precision: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the inverse of minus the second derivative of the log posterior density at `mean`."""
    p = expit(X @ mean)
    curvature = (X.T @ (X.multiply((counts * p * (1.0 - p))[:, None]))).toarray() + np.diag(precision)
    unit = 1.0 / np.sqrt(np.diag(curvature))
    return np.linalg.inv(curvature * np.outer(unit, unit)) * np.outer(unit, unit)


def gaussian_posterior(problem: Problem, mean: np.ndarray, covariance: np.ndarray) -> Posterior:
    """Return the posterior of weights, the intercept's last if there is one, that are jointly normal."""
    rows, d = problem.later, len(problem.weights)
    if problem.intercept is not None:
        rows = sparse.hstack([rows, np.ones((rows.shape[0], 1))], format="csr")
    variance = np.concatenate([row_variances(rows[k : k + 4096], covariance) for k in range(0, rows.shape[0], 4096)])
    return Posterior(
        mean=mean[:d],
        variance=np.diag(covariance)[:d],
        covariance=lambda indices: covariance[np.ix_(indices, indices)],
        later=(rows @ mean, variance),
    )


def row_variances(X: sparse.csr_matrix, covariance: np.ndarray) -> np.ndarray:
    """Return x'Sx of each row."""
    return np.asarray(X.multiply(X @ covariance).sum(axis=1)).ravel()


# --- other libraries ------------------------------------------------------------------------------------------------


def fit_bayesian_glm(problem: Problem) -> Posterior | None:
    alpha = 1.0 if problem.prior_variance is None else 1.0 / problem.prior_variance
    return fit_glm("BayesianGLM", problem, alpha=alpha)


def fit_empirical_glm(problem: Problem) -> Posterior | None:
    return fit_glm("EmpiricalBayesGLM", problem)


def fit_glm(name: str, problem: Problem, **options: Any) -> Posterior | None:
    """Learn with a model of bayesianbandits. It has no intercept: a column whose weight has the same prior as others.

    That column's value gives the intercept the prior variance that it has in the batch posterior.
    """
    try:
        import bayesianbandits
    except ImportError:
        return None
    X, d = problem.X, len(problem.weights)
    if len(problem.y) * d**2 > MAX_JOINT_WORK / 3:
        return None
    unit = np.ones(d + (problem.intercept is not None))
    unit[d:] = INTERCEPT_PRECISION**-0.5
    model = getattr(bayesianbandits, name)(link="logit", **options)
    positive = (problem.y > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five steps of Newton's, its default, are often not enough in the first blocks
        for k in range(0, len(positive), GLM_ROWS):
            block = np.tile(unit, (min(GLM_ROWS, len(positive) - k), 1))
            block[:, :d] = X[k : k + GLM_ROWS].toarray()
            model.partial_fit(block, positive[k : k + GLM_ROWS])
    return gaussian_posterior(problem, model.coef_ * unit, model.cov_.covariance * np.outer(unit, unit))


def fit_ad_predictor(problem: Problem, **options: float) -> Posterior | None:
    """Learn with river's AdPredictor, if all features have one and the same value, which it does not look at."""
    try:
        from river.linear_model import AdPredictor
    except ImportError:
        return None
    X, d = problem.X, len(problem.weights)
    if problem.intercept is None or np.ptp(X.data) > 1e-12:
        return None
    model = AdPredictor(**options)
    for k, positive in enumerate(problem.y > 0):
        model.learn_one(dict.fromkeys(X.indices[X.indptr[k] : X.indptr[k + 1]].tolist(), 1.0), bool(positive))
    bias = next(name for name in model.means if not isinstance(name, int))
    unit = 1.0 / (model.beta * math.sqrt(math.pi / 8.0))
    mean = unit * np.array([*(model.means.get(j, 0.0) for j in range(d)), model.means[bias]])
    variance = unit**2 * np.array([*(model.variances.get(j, 1.0) for j in range(d)), model.variances[bias]])
    rows = sparse.csr_matrix(
        (np.ones(problem.later.nnz), problem.later.indices, problem.later.indptr), problem.later.shape
    )
    value = X.data[0]
    return Posterior(
        mean=mean[:d] / value,
        variance=variance[:d] / value**2,
        covariance=lambda indices: np.diag(variance[indices] / value**2),
        later=(rows @ mean[:d] + mean[d], rows @ variance[:d] + variance[d]),
    )
