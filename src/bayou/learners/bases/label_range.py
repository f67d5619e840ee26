"""Clipping of a regressor's predictions to the range of the labels so far.

A linear model with badly scaled features, or with more features than rows, may predict any number for a row
unlike those before it. The weights are left as they are; only the expected label is clipped.
"""

from __future__ import annotations

import numpy as np

# The range of the labels:
#     HAS_LABELS            1 once there was a label, 0 before
#     MIN_LABEL, MAX_LABEL  the smallest and the largest label
HAS_LABELS, MIN_LABEL, MAX_LABEL = range(3)


def new_range() -> np.ndarray:
    """Return a new label range, (HAS_LABELS, MIN_LABEL, MAX_LABEL), all 0 before the first label."""
    return np.zeros(3)


def cut_to_range(means: np.ndarray, targets: np.ndarray, weights: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Return each mean clipped to the range of the labels before it, and extend `held` by all labels of nonzero weight.

    >>> held = new_range()
    >>> cut_to_range(np.full(4, 9.0), np.array([1.0, 5.0, 7.0, 3.0]), np.array([1.0, 1.0, 0.0, 1.0]), held)
    array([9., 1., 5., 5.])
    >>> held
    array([1., 1., 5.])
    """
    learned = weights != 0
    first = (held[MIN_LABEL], held[MAX_LABEL]) if held[HAS_LABELS] else (np.inf, -np.inf)
    lows = np.minimum.accumulate(np.append(first[0], np.where(learned, targets, np.inf)))
    highs = np.maximum.accumulate(np.append(first[1], np.where(learned, targets, -np.inf)))
    if highs[-1] >= lows[-1]:
        held[:] = 1.0, lows[-1], highs[-1]
    before = highs[:-1] >= lows[:-1]
    return np.where(before, np.minimum(np.maximum(means, lows[:-1]), highs[:-1]), means)


def join_ranges(mine: np.ndarray, other: np.ndarray) -> None:
    """Extend the range `mine` to include the range `other`."""
    if other[HAS_LABELS] and mine[HAS_LABELS]:
        mine[MIN_LABEL] = min(mine[MIN_LABEL], other[MIN_LABEL])
        mine[MAX_LABEL] = max(mine[MAX_LABEL], other[MAX_LABEL])
    elif other[HAS_LABELS]:
        mine[:] = other
