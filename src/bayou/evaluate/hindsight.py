"""The best fixed weights in hindsight, to measure regret against when the true weights are unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bayou.core import links
from bayou.core.batch import Batch, require_labels
from bayou.core.checks import check_bool, check_int, check_positive
from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel

# The most features for a square matrix, and the number of rows made dense at a time.
MAX_DENSE = 20_000
_ROWS = 4096


class Hindsight(NamedTuple):
    """The best fixed weights for all examples, and their summed loss (without the penalty).

    `best_fixed_weights` and `least_squares` return one; `progressive(..., truth=...)` accepts it.

    >>> from bayou import Batch
    >>> best = least_squares([Batch.from_rows([{0: 1.0}, {0: 2.0}], labels=[2.0, 4.0])], n_features=1, l2=0.0)
    >>> best.weights.round(6).tolist(), round(best.loss, 6)
    ([2.0], 0.0)
    """

    weights: np.ndarray
    intercept: float
    loss: float


def best_fixed_weights(
    batches: Callable[[], Iterable[Batch]] | Iterable[Batch],
    n_features: int,
    link: str = "logistic",
    l2: float = 1e-3,
    intercept: bool = False,
) -> Hindsight:
    """Return the fixed weights with the least summed log loss + l2/2 |w|^2, to measure regret against.

    L-BFGS reads the data about a hundred times, so `batches` must be a list, or a function that returns a fresh
    iterator each time. A small `l2` keeps weights finite that the data would drive to infinity, such as that of a
    feature which occurred with one label only. The intercept is not penalized.

    >>> from bayou import simulate
    >>> stream = simulate.random(n_features=5, active=0.5, seed=1)
    >>> best = best_fixed_weights(lambda: stream.batches(20_000), 5)
    >>> bool(np.abs(best.weights - stream.weights).max() < 0.15)
    True
    """
    from scipy.optimize import minimize

    link_code = links.link_code(link)
    l2 = check_positive("l2", l2, zero=True)
    n_features = check_int("n_features", n_features, 1)
    again = _fresh(batches)
    intercept = check_bool("intercept", intercept)
    weight = sum(float(batch.weights_or_ones().sum()) for batch in again())
    if not weight:
        return Hindsight(np.zeros(n_features), 0.0, 0.0)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = _loss_and_gradient(again(), point, link_code, intercept)
        loss += 0.5 * l2 * float(point[:-1] @ point[:-1])
        gradient[:-1] += l2 * point[:-1]
        # Per unit of weight, so that tolerances do not depend on the length of the stream.
        return loss / weight, gradient / weight

    tolerances = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 1e-9}
    best = minimize(objective, np.zeros(n_features + 1), jac=True, method="L-BFGS-B", options=tolerances).x
    loss, _ = _loss_and_gradient(again(), best, link_code, intercept)
    return Hindsight(best[:-1].copy(), float(best[-1]), loss)


def least_squares(
    batches: Callable[[], Iterable[Batch]] | Iterable[Batch], n_features: int, l2: float = 1e-9, intercept: bool = False
) -> Hindsight:
    """Return the fixed weights with the least summed squared loss + l2 |w|^2, for regression.

    Solves the normal equations, which take n_features^2 numbers. The intercept is not penalized.

    >>> rows = [Batch.from_rows([{0: 1.0}, {0: 2.0}, {1: 1.0}], labels=[3.0, 5.0, 0.0])]
    >>> best = least_squares(rows, 2, intercept=True)
    >>> best.weights.round(6), round(best.intercept, 6), round(best.loss, 6)
    (array([ 2., -1.]), 1.0, 0.0)
    """
    from scipy.linalg import lstsq

    l2 = check_positive("l2", l2, zero=True)
    width = check_int("n_features", n_features, 1, MAX_DENSE) + 1
    again = _fresh(batches)
    intercept = check_bool("intercept", intercept)
    products, against = np.zeros((width, width)), np.zeros(width)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows, labels, weights in _dense(again(), width, intercept):
            products += (rows * weights[:, None]).T @ rows
            against += rows.T @ (weights * labels)
    products[np.arange(width - 1), np.arange(width - 1)] += l2
    if not (np.isfinite(products).all() and np.isfinite(against).all()):
        raise BadInput("the examples' values are so large that their squares overflow; scale them down.")
    best = lstsq(products, against)[0]
    loss = sum(
        float(weights @ (labels - rows @ best) ** 2) for rows, labels, weights in _dense(again(), width, intercept)
    )
    return Hindsight(best[:-1].copy(), float(best[-1]), loss)


def _dense(batches: Iterable[Batch], width: int, intercept: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (rows, labels, weights) in chunks; dense rows with a last column for the intercept."""
    for full_batch in batches:
        check_width(full_batch, width - 1, "there are weights")
        for start in range(0, len(full_batch), _ROWS):
            batch = full_batch[start : start + _ROWS]
            rows = np.full((len(batch), width), float(intercept))
            rows[:, :-1] = batch.to_csr(width - 1).toarray()
            yield rows, batch.labels, batch.weights_or_ones()


def _fresh(batches: Any) -> Callable[[], Iterable[Batch]]:
    if callable(batches):
        return lambda: require_labels(batches())
    if isinstance(batches, Iterator):
        raise BadInput(
            "batches can be read only once, but finding the best weights reads them many times; "
            "give a list, or a function that returns a fresh iterator."
        )
    return lambda: require_labels([batches] if isinstance(batches, Batch) else batches)


def check_width(batch: Batch, n_features: int, subject: str) -> None:
    """Raise BadInput if a batch has features beyond the fixed weights."""
    if batch.max_index >= n_features and (index := int(batch.indices.max(initial=0))) >= n_features:
        raise BadInput(f"the data have feature {index}, but {subject} only for features below {n_features}.")


def _loss_and_gradient(
    batches: Iterable[Batch], point: np.ndarray, link: int, intercept: bool
) -> tuple[float, np.ndarray]:
    """Return the summed log loss at weights point[:-1] and intercept point[-1], and its gradient."""
    loss = 0.0
    gradient = np.zeros_like(point)
    for batch in batches:
        if batch.labels is None:
            raise BadInput("a batch has no labels; weights cannot be fitted to it.")
        check_width(batch, len(point) - 1, "there are weights")
        loss += _add_gradient(
            batch.indptr, batch.indices, batch.values, batch.labels, batch.weights_or_ones(), point, link, gradient
        )
    if not intercept:
        gradient[-1] = 0.0
    return loss, gradient


@kernel
def _add_gradient(indptr, indices, values, labels, weights, point, link, gradient):
    """Add d/dw sum c (-log F(y score)) = -sum c y slope(y score) x to `gradient`, and return the summed loss."""
    last = point.size - 1
    loss = 0.0
    for row in range(labels.size):
        score = point[last]
        for k in range(indptr[row], indptr[row + 1]):
            score += np.float64(values[k]) * point[indices[k]]
        y = 1.0 if labels[row] > 0.0 else -1.0
        side = links.of_label(link, y)
        loss -= weights[row] * links.log_cdf(side, y * score)
        pull = -weights[row] * y * links.slope(side, y * score)
        for k in range(indptr[row], indptr[row + 1]):
            gradient[indices[k]] += pull * np.float64(values[k])
        gradient[last] += pull
    return loss
