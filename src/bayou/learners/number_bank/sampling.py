"""Draws of weights from a regression bank: the weights that it shows, plus noise from one of its block lanes.

A draw picks a block lane by its share (0, in the combination for later rows, for lanes whose weights walk) and adds
N(0, noise V) of that lane to the weights of the combination: with correlations within the head, independently for each
weight outside. Normal numbers are keyed by (seed, draw, feature), so a draw is one weight vector for all rows.
"""

from __future__ import annotations

import numpy as np

from bayou.core.batch import Batch
from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.random import INTERCEPT, choices, normal
from bayou.kernels.vector import LANES
from bayou.learners.number_bank import lanes as layout
from bayou.learners.number_bank.combination import NumberCombination
from bayou.learners.number_bank.head import MAX_PENDING_UPDATES, N_HEAD_LANES, apply_pending_updates
from bayou.learners.number_bank.lanes import NumberLaneState, column_means
from bayou.learners.number_bank.weights import intercept_of, lane_weights, noise_of, weights_of


def draw(
    lanes: NumberLaneState, combination: NumberCombination, batch: Batch, seed: np.uint64, scores: np.ndarray
) -> None:
    """Fill scores[draw, row]."""
    features, place_in = np.unique(batch.indices, return_inverse=True)
    mean, noise = weights_of(lanes, combination, features)[0], noise_of(combination)
    dense = np.flatnonzero(
        (lanes.uses[:, 0] > 0.5 * lanes.stream[layout.ROWS]) & (lanes.columns[:, layout.COLUMN_HEAD_SLOT] == 0)
    )
    middles = column_means(lanes, dense)
    units = np.where(lanes.columns[features, layout.COLUMN_UNIT] > 0, lanes.columns[features, layout.COLUMN_UNIT], 1.0)
    places = lanes.columns[features, layout.COLUMN_HEAD_SLOT].astype(np.int64)
    chances = combination.shares[:N_HEAD_LANES] + 1e-300
    taken = choices(seed, chances / chances.sum(), len(scores))
    for block in np.unique(taken).tolist():
        factor = factor_of(lanes, block) * np.sqrt(noise)
        alone, centred = (np.sqrt(noise * lane_weights(lanes, of)[1][:, block]) for of in (features, dense))
        _fill(
            *(batch.indptr, batch.indices, batch.values, place_in, mean, places, units, alone),
            *(dense, centred * middles, lanes.head.columns, factor, intercept_of(lanes, combination)[0]),
            *(lanes.has_intercept, seed, np.flatnonzero(taken == block), scores),
        )


def factor_of(lanes: NumberLaneState, block: int) -> np.ndarray:
    """Return a root of the covariance of one lane's head, in learned units."""
    head = lanes.head._replace(
        **{name: getattr(lanes.head, name).copy() for name in ("covariance", "pending", "pending_dv", "counts")}
    )
    apply_pending_updates(head, np.zeros(MAX_PENDING_UPDATES * LANES))
    size = int(head.counts[0]) + 1
    upper = np.triu(head.covariance[:size, block : size * N_HEAD_LANES : N_HEAD_LANES])
    values, vectors = np.linalg.eigh(upper + np.triu(upper, 1).T)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@kernel
def _fill(
    indptr, indices, values, place_in, mean, places, units, alone,
    dense, centred, columns, factor, intercept, has_intercept, seed, draws, scores,
):  # fmt: skip
    z, moved = zeros(len(factor), np.float64), zeros(mean.size, np.float64)
    for number in draws:
        z[0] = normal(seed, number, INTERCEPT)
        for i in range(1, z.size):
            z[i] = normal(seed, number, columns[i - 1])
        shared = intercept
        for i in range(z.size if has_intercept else 0):
            shared += factor[0, i] * z[i]
        for k in range(dense.size):  # outside of the head dense columns are centered
            shared -= centred[k] * normal(seed, number, dense[k])
        for n in range(mean.size):
            moved[n] = np.nan
        for row in range(indptr.size - 1):
            score = shared
            for k in range(indptr[row], indptr[row + 1]):
                n = place_in[k]
                if np.isnan(moved[n]):
                    if places[n] > 0:
                        moved[n] = 0.0
                        for i in range(z.size):
                            moved[n] += factor[places[n], i] * z[i]
                        moved[n] *= units[n]
                    else:
                        moved[n] = alone[n] * normal(seed, number, indices[k])
                score += values[k] * (mean[n] + moved[n])
            scores[number, row] = score
