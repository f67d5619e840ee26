"""The paper's algorithms, pass by pass, and the distance of their solutions from the batch solution.

The paper's batch solvers (BBR for logistic, EM for probit) are replaced by ours run to a violation of 1e-9 of the
penalty. All tables penalise the intercept, as the paper does. L1 norms are of the difference from the batch solution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bayou.core.batch import Batch
from bayou.learners.lasso import Lasso

EXACT = 1e-9
MOST_PASSES = 200


def weights_of(learner: Lasso) -> np.ndarray:
    """Return the weights with the intercept first, as in the paper's tables."""
    return np.append(learner.intercept[0], learner.mean)


def passes(batch: Batch, width: int, algorithm: str, penalty: float, **parameters: Any) -> Iterator[Lasso]:
    """Yield the learner after each pass, until it has converged."""
    learner = Lasso(width, algorithm=algorithm, penalty=penalty, penalize_intercept=True, **parameters)
    for _ in range(MOST_PASSES):
        learner.learn(batch)
        done = learner.end_pass()
        yield learner
        if done:
            return


def solved(batch: Batch, width: int, penalty: float, algorithm: str = "multipass", **parameters: Any) -> Lasso:
    """Return the learner at the batch solution."""
    *_, last = passes(batch, width, algorithm, penalty, tolerance=EXACT, **parameters)
    return last


def online(batch: Batch, width: int, penalty: float, **parameters: Any) -> Lasso:
    learner = Lasso(width, penalty=penalty, penalize_intercept=True, **parameters)
    learner.learn(batch)
    learner.end_pass()
    return learner


class Problem:
    """Penalized regression on some rows, solved online and as a batch.

    Attributes:
        learner: the batch solution; exact: its weights.
        online: the weights of the online algorithm; online_gap: their L1 distance from the batch solution.
    """

    def __init__(self, X: Any, y: np.ndarray, penalty: float, **parameters: Any) -> None:
        self.batch, self.width, self.penalty, self.more = Batch.from_csr(X, y), X.shape[1], penalty, parameters
        self.learner = solved(self.batch, self.width, penalty, **parameters)
        self.exact = weights_of(self.learner)
        self.online = weights_of(online(self.batch, self.width, penalty, **parameters))
        self.online_gap = self._gap(self.online)

    def gaps(self, algorithm: str, **args: Any) -> list[float]:
        """Return the L1 distance from the batch solution after each pass."""
        args |= {"tolerance": EXACT, **self.more}
        return [self._gap(weights_of(fit)) for fit in passes(self.batch, self.width, algorithm, self.penalty, **args)]

    def _gap(self, weights: np.ndarray) -> float:
        return float(np.abs(weights - self.exact).sum())


def largest(weights: np.ndarray, names: Sequence[str]) -> list[tuple[int, str]]:
    """Return the position and name of each weight that is not 0, the largest first; names are those of the features."""
    order = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
    return [(j, "intercept" if j == 0 else names[j - 1]) for j in order.tolist()]


def by_pass(method: str, gaps: Sequence[float]) -> list[tuple[str, int, float]]:
    """Return the rows of a CSV file with the gap after each pass."""
    return [(method, z, gap) for z, gap in enumerate(gaps, 1)]


def after(gaps: Sequence[float], z: int) -> float:
    """Return the gap after z passes, or the last one if there were fewer."""
    return gaps[min(z, len(gaps)) - 1]


def shown(gap: float) -> str:
    """Format a gap with three decimals, a small one by its power of ten.

    >>> shown(28.2904), shown(0.0472), shown(3e-4), shown(2e-12)
    ('28.290', '0.047', '3.0e-04', '0')
    """
    if gap < 1e-6:
        return "0"
    return f"{gap:.3f}" if gap >= 0.001 else f"{gap:.1e}"
