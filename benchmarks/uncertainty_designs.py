"""Problems whose true weights are known: real rows with labels drawn from a linear truth, and simulated streams.

    real        the rows of a set of quality_sets.py, drawn with replacement. The truth is the logistic regression
                (scikit-learn, C = 1) that fits the set's own labels; the labels to learn are drawn from it
    simulated   `bayou.simulate.random`: each of the features is in a row with one probability, weights are normal
    misfit      the same with 10 of 100 features active, std 1 and an intercept of 0, but the truth is not what learners
                assume: weights walk (by a normal step of this standard deviation in all rows together), or this share
                of them changes at once after 70% of the rows, or pairs of features have weights of this size

The real rows have what simulated ones lack: columns of which each row has one value, words that come together, units.
All but the 1,000 most frequent features of imdb and frappe are left out. Later rows are drawn as those to learn are.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import quality_sets
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from bayou import simulate

# The value is how many features are kept, the most frequent ones; None keeps every feature that occurs.
DESIGNS: dict[str, int | None] = {
    "a9a": None,
    "adult": None,
    "phishing": None,
    "splice": None,
    "higgs": None,
    "imdb": 1000,
    "frappe": 1000,
    "nsl_kdd": None,
    "w8a": None,
    "mushrooms": None,
}
# Every field gives a row at most one feature, also where `quality_sets.fields` does not tell the learner so.
ONE_HOT = quality_sets.ONE_HOT | {"a9a", "phishing"}
LATER_ROWS = 20_000


class Design(NamedTuple):
    """Rows of a real set, and the truth that its labels are drawn from."""

    X: sparse.csr_matrix
    weights: np.ndarray
    intercept: float
    groups: np.ndarray | None  # what learners are told: the column of each feature
    columns: np.ndarray  # of contrasts: the column of each feature from 1 on, 0 for features that have none


class Problem(NamedTuple):
    """Rows to learn, later ones, and the truth."""

    X: sparse.csr_matrix
    y: np.ndarray  # -1 or 1
    rows: np.ndarray  # equal numbers are equal rows of X
    later: sparse.csr_matrix
    weights: np.ndarray
    intercept: float | None  # None: there is none, and the learner is not to have one
    groups: np.ndarray | None
    columns: np.ndarray
    prior_variance: float | None  # of the true weights, where it is known
    known_scores: np.ndarray | None = None  # of later rows, where they are not linear

    @property
    def later_scores(self) -> np.ndarray:
        if self.known_scores is not None:
            return self.known_scores
        return self.later @ self.weights + (self.intercept or 0.0)

    @property
    def uses(self) -> np.ndarray:
        return np.bincount(self.X.indices, minlength=self.X.shape[1])


# --- real rows ------------------------------------------------------------------------------------------------------


def load_design(name: str, data: Path, cache: Path) -> Design:
    """Return the rows of a set and the truth that was fitted to it."""
    X, y = quality_sets.load(name, data, cache)
    X, kept = frequent_features(X, DESIGNS[name])
    fields = quality_sets.fields(name, data, cache)
    groups = None if fields is None else fields[kept]
    columns = np.zeros(X.shape[1], np.uint8)
    if name in ONE_HOT:
        columns = quality_sets.one_hot_fields(quality_sets.load(name, data, cache)[0])[kept]
    elif groups is not None:
        columns = groups
    weights, intercept = fit_truth(X, y)
    return Design(X, weights, intercept, groups, columns)


def frequent_features(X: sparse.csr_matrix, most: int | None) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return X with the features that are used most, in their old order, and which these are."""
    uses = np.bincount(X.indices, minlength=X.shape[1])
    kept = np.sort(np.argsort(-uses, kind="stable")[: np.count_nonzero(uses) if most is None else most])
    X = X[:, kept].tocsr()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    X.sort_indices()
    return X, kept


def fit_truth(X: sparse.csr_matrix, y: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights and intercept of scikit-learn's logistic regression with C = 1."""
    model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-8).fit(X, y)
    return model.coef_[0], float(model.intercept_[0])


def draw_problem(design: Design, examples: int, seed: int) -> Problem:
    """Draw rows with replacement, and labels from the truth."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(design.X.shape[0], size=examples + LATER_ROWS)
    rows, later = drawn[:examples], drawn[examples:]
    score = (design.X @ design.weights + design.intercept)[rows]
    y = np.where(rng.random(examples) < expit(score), 1.0, -1.0)
    return Problem(
        X=design.X[rows],
        y=y,
        rows=rows,
        later=design.X[later],
        weights=design.weights,
        intercept=design.intercept,
        groups=design.groups,
        columns=design.columns,
        prior_variance=None,
    )


# --- simulated rows -------------------------------------------------------------------------------------------------


def simulate_problem(features: int, active: int, std: float, examples: int, seed: int) -> Problem:
    """Return the first rows of a simulated stream, which has no intercept."""
    stream = simulate.random(n_features=features, active=active / features, weight_std=std, seed=seed)
    (batch,) = stream.batches(examples, batch_size=examples)
    (later,) = stream.batches(LATER_ROWS, batch_size=LATER_ROWS, start=examples)
    return Problem(
        X=batch.to_csr(features),
        y=batch.labels,
        rows=np.arange(examples),
        later=later.to_csr(features),
        weights=stream.weights,
        intercept=None,
        groups=None,
        columns=np.zeros(features, np.uint8),
        prior_variance=stream.prior_variance,
    )


# --- truths that do not fit -----------------------------------------------------------------------------------------

MISFITS = {f"{kind} {size:g}": (kind, size) for kind, size in (
    *(("walk", size) for size in (0.1, 0.3, 1.0, 3.0)), *(("jump", size) for size in (0.1, 0.5, 1.0)),
    *(("pairs", size) for size in (0.03, 0.1, 0.3)),
)}  # fmt: skip
MISFIT_FEATURES, MISFIT_ACTIVE, MISFIT_ROWS, WALK_ROWS, JUMP_AFTER = 100, 0.1, 50_000, 100, 0.7


def draw_misfit(kind: str, size: float, seed: int) -> Problem:
    """Draw rows and labels from a truth that drifts or is not linear; later rows have the last weights."""
    rng, d, rows = np.random.default_rng(seed), MISFIT_FEATURES, MISFIT_ROWS
    X = (rng.random((rows + LATER_ROWS, d)) < MISFIT_ACTIVE) * 1.0
    weights = np.tile(rng.normal(0, 1, d), (rows + LATER_ROWS, 1))
    interactions = np.zeros((d, d))
    if kind == "walk":
        steps = rng.normal(0, size * np.sqrt(WALK_ROWS / rows), (rows // WALK_ROWS, d)).cumsum(axis=0)
        weights[:rows] += np.repeat(steps, WALK_ROWS, axis=0)
        weights[rows:] += steps[-1]
    elif kind == "jump":
        changed = rng.permutation(d)[: round(size * d)]
        weights[int(JUMP_AFTER * rows) :, changed] = rng.normal(0, 1, len(changed))
    else:
        interactions = np.triu(rng.normal(0, size, (d, d)), 1)
    score = (X * (weights + X @ interactions)).sum(axis=1)
    y = np.where(rng.random(rows) < expit(score[:rows]), 1.0, -1.0)
    return Problem(
        X=sparse.csr_matrix(X[:rows]),
        y=y,
        rows=np.arange(rows),
        later=sparse.csr_matrix(X[rows:]),
        weights=weights[-1],
        intercept=0.0,
        groups=None,
        columns=np.zeros(d, np.uint8),
        prior_variance=1.0,
        known_scores=score[rows:],
    )
