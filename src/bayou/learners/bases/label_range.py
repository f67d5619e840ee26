"""What a regressor answers with: its mean, cut to the range of the labels so far.

A linear model of features in odd units, or of more features than rows, may say anything of a row that is unlike those
before it. What it believes of its weights is as it is; what it expects of a label is no more than was ever seen.
"""

from __future__ import annotations

import numpy as np

# The range of the labels:
#     SEEN        1 once there was a label, 0 before
#     LOW, HIGH   the least and the greatest label
SEEN, LOW, HIGH = range(3)


def new_range() -> np.ndarray:
    """(Whether any label was seen, the least, the greatest); zeros before the first."""
    return np.zeros(3)


def cut_to_range(means: np.ndarray, targets: np.ndarray, weights: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Each mean cut to the labels before it, those of weight 0 not counted; `held` takes in the labels.

    >>> held = new_range()
    >>> cut_to_range(np.full(4, 9.0), np.array([1.0, 5.0, 7.0, 3.0]), np.array([1.0, 1.0, 0.0, 1.0]), held)
    array([9., 1., 5., 5.])
    >>> held
    array([1., 1., 5.])
    """
    learned = weights != 0
    first = (held[LOW], held[HIGH]) if held[SEEN] else (np.inf, -np.inf)
    lows = np.minimum.accumulate(np.append(first[0], np.where(learned, targets, np.inf)))
    highs = np.maximum.accumulate(np.append(first[1], np.where(learned, targets, -np.inf)))
    if highs[-1] >= lows[-1]:
        held[:] = 1.0, lows[-1], highs[-1]
    before = highs[:-1] >= lows[:-1]
    return np.where(before, np.minimum(np.maximum(means, lows[:-1]), highs[:-1]), means)


def join_ranges(mine: np.ndarray, other: np.ndarray) -> None:
    """The range of all labels that either has seen, into `mine`."""
    if other[SEEN] and mine[SEEN]:
        mine[LOW], mine[HIGH] = min(mine[LOW], other[LOW]), max(mine[HIGH], other[HIGH])
    elif other[SEEN]:
        mine[:] = other
