"""Bin edges, scales and slope knots of numeric columns, computed from quantiles."""

from __future__ import annotations

import numpy as np

# Number of quantiles that a slope is interpolated through.
KNOTS = 33
# Scale of slopes: a level of 1/2 maps to 0, and the variance over the rows that a rank slope was fitted to is 1.
SLOPE = float(np.sqrt(3.0))
# A raw slope is constant this many standard deviations from the mean. Where the fourth moment is larger than
# HEAVY_TAILS, it is that of a signed logarithm, in RAW_KNOTS pieces. One whose squared correlation with the rank slope
# is larger than MAX_SAME says nothing new.
RAW_RANGE, HEAVY_TAILS, RAW_KNOTS, MAX_SAME = 5.0, 10.0, 41, 0.98


def quantile_edges(numbers: np.ndarray, bins: int) -> tuple[float, ...]:
    """Return the edges of at most `bins` bins that hold about equally many of the numbers.

    If there are at most `bins` distinct values, each gets its own bin. A value frequent enough to fill a bin gets one
    of its own, and the other bins share the rest: in a column that is mostly 0, values above 0 are still distinguished.
    An edge is the smallest number of the bin above it.

    >>> quantile_edges(np.array([0, 0, 0, 0, 0, 0, 1, 2, 3, 4]), 3)
    (1.0, 3.0)
    """
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) <= bins:
        return tuple(values[1:].tolist())
    ends = np.cumsum(counts)  # number of entries less than or equal to each value
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
    """Return the median of the numbers and half the width of their central 68%, both robust to a few outliers.

    The scale falls back to the standard deviation, then to |median|, then to 1 where it would be 0 or not finite.

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
    """Return the quantiles 0, 1/32, ..., 1 of the numbers and their levels; equal quantiles become one knot.

    The level of such a knot is the mean of theirs. With fewer than two knots both tuples are empty.

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


def raw_knots_and_levels(
    numbers: np.ndarray, knots: tuple[float, ...], levels: tuple[float, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the knots and levels of the numbers themselves, standardized and cut.

    Both tuples are empty if that is nearly the rank slope with the given knots and levels.

    >>> raw_knots_and_levels(np.array([0.0, 0.0, 4.0, 4.0]), (), ())[0]
    (-8.0, 12.0)
    >>> raw_knots_and_levels(np.arange(100.0), (0.0, 99.0), (0.0, 1.0))
    ((), ())
    """
    z = np.linspace(-RAW_RANGE, RAW_RANGE, RAW_KNOTS)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers may be huge; they then have no raw slope
        mean, sd = numbers.mean(), numbers.std()
        if not 0 < sd < np.inf:
            return (), ()
        if np.mean(((numbers - mean) / sd) ** 4) > HEAVY_TAILS:
            centre, scale = centre_and_scale(numbers)
            away = (numbers - centre) / scale
            logs = np.sign(away) * np.log1p(np.abs(away))
            at = logs.mean() + logs.std() * z
            raw = centre + scale * np.sign(at) * np.expm1(np.abs(at))
        else:
            z = z[[0, -1]]
            raw = mean + sd * z
    ascends = np.isfinite(raw) & (np.diff(raw, prepend=-np.inf) > 0)
    raw, raw_levels = raw[ascends], (z[ascends] / SLOPE + 1) / 2
    if len(raw) < 2:
        return (), ()
    if knots:
        both = np.interp(numbers, knots, levels), np.interp(numbers, raw, raw_levels)
        if np.corrcoef(*both)[0, 1] ** 2 > MAX_SAME:
            return (), ()
    return tuple(raw.tolist()), tuple(raw_levels.tolist())
