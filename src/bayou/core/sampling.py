"""Draws of scores under random weights."""

from __future__ import annotations

import numpy as np

from bayou.core import links
from bayou.core.batch import Batch
from bayou.core.checks import check_int
from bayou.core.errors import BadInput
from bayou.kernels.compiling import kernel
from bayou.kernels.random import draw_scores

# Purposes of draws.
PURPOSES = {purpose: purpose for purpose in ("choose", "interval")}


def allocate_draws(n_draws: int, rows: int) -> np.ndarray:
    """Return an empty array of shape (n_draws, rows); raise BadInput if it does not fit into memory."""
    n_draws = check_int("n_draws", n_draws, 1, 2**31)
    try:
        return np.empty((n_draws, rows))
    except MemoryError:
        size = n_draws * rows / 2**27
        raise BadInput(
            f"{n_draws} draws for {rows} rows take {size:.0f} GiB, more than is available; ask for fewer."
        ) from None


def draw_gaussian(
    batch: Batch,
    mean: np.ndarray,
    variance: np.ndarray,
    intercept: tuple[float, float],
    seed: np.uint64,
    draws: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Fill `scores` under Gaussian weights; `mean` and `variance` are those of each non-zero's feature."""
    arrays = batch.indptr, batch.indices, batch.values
    weights = mean.astype(np.float64, copy=False), np.sqrt(variance, dtype=np.float64)
    draw_scores(*arrays, *weights, intercept[0], float(np.sqrt(intercept[1])), seed, draws, scores)


@kernel
def to_probability(link, scores):
    """Replace scores by their probabilities."""
    for draw in range(scores.shape[0]):
        for row in range(scores.shape[1]):
            scores[draw, row] = links.cdf(link, scores[draw, row])
