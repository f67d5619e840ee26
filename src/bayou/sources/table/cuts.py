"""Where numbers are cut into bins, how they are scaled, and the knots of their slope."""

from __future__ import annotations

import numpy as np

# A slope goes through so many quantiles.
KNOTS = 33


def quantile_edges(numbers: np.ndarray, bins: int) -> tuple[float, ...]:
    """Where to cut numbers into at most `bins` parts that hold about equally many.

    Few values have a bin each. A value so frequent that it fills a bin gets one of its own, and the other bins share
    the rest: of a column that is mostly 0 the numbers above 0 are still told apart. An edge is the smallest number of
    the bin above it.

    >>> quantile_edges(np.array([0, 0, 0, 0, 0, 0, 1, 2, 3, 4]), 3)
    (1.0, 3.0)
    """
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) <= bins:
        return tuple(values[1:].tolist())
    ends = np.cumsum(counts)  # how many numbers are at most each value
    edges: list[float] = []
    first = done = 0
    for left in range(bins, 1, -1):
        if first + 1 >= len(values):
            break
        goal = done + (len(numbers) - done) / left
        last = int(np.searchsorted(ends, goal))  # the last value of this bin, or the one before
        if last > first and goal - ends[last - 1] < ends[last] - goal:
            last -= 1
        if last + 1 >= len(values):
            break
        edges.append(float(values[last + 1]))
        first, done = last + 1, int(ends[last])
    return tuple(edges)


def centre_and_scale(numbers: np.ndarray) -> tuple[float, float]:
    """The middle of some numbers and how far from it two thirds of them lie. A few outliers change neither.

    >>> centre_and_scale(np.append(np.arange(100), 1e9))
    (50.0, 34.0)
    """
    if not len(numbers):
        return 0.0, 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        low, centre, high = np.quantile(numbers, [0.16, 0.5, 0.84])
        for scale in ((high - low) / 2, np.std(numbers), abs(centre)):
            if np.isfinite(scale) and scale > 0:
                return float(centre), float(scale)
    return float(centre), 1.0


def knots_and_levels(numbers: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The quantiles 0, 1/32, ... 1 of some numbers and their levels; equal quantiles are one knot at their mean level.

    >>> knots_and_levels(np.array([5.0] * 16 + [6.0] * 8 + [9.0] * 8))
    ((5.0, 6.0, 9.0), (0.25, 0.640625, 0.890625))
    """
    levels = np.arange(KNOTS) / (KNOTS - 1)
    quantiles = np.quantile(numbers, levels, method="inverted_cdf") if len(numbers) else np.empty(0)
    knots, which = np.unique(quantiles, return_inverse=True)
    if len(knots) < 2:
        return (), ()
    means = np.bincount(which, levels) / np.bincount(which)
    return tuple(knots.tolist()), tuple(means.tolist())
