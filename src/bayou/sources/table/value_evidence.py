"""Evidence that the label differs between values of a numeric column, beyond a smooth function of the number.

A column of whole numbers may hold quantities, whose neighbors behave alike, or names, whose neighbors have nothing to
do with each other. Both kinds of evidence below are log marginal likelihoods, in nats, of a model in which each group
of rows has a mean of its own, against one without; the variance of these means is a fraction of the residuals', of
several the best.

    by value    each value is a group; residuals are what the label differs from rows with values nearby
    by bin      each quantile bin is a group; residuals are what the label differs from its mean
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Rows on either side of a value, in the order of the numbers, that predict its rows; and pseudo-rows at the mean.
N_NEIGHBORS, N_PRIOR_ROWS = 25, 5.0
# Fractions of the residuals' variance that the means of the groups may have.
FRACTIONS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.4)
BIN_FRACTIONS = (0.001, *FRACTIONS)
# Values get indicators if the evidence by value is at least this, or that by bin is below this: then the number says
# nothing as a quantity. Fewer rows than this show nothing.
MIN_VALUE_EVIDENCE, MAX_BIN_EVIDENCE, MIN_ROWS = 10.0, 3.0, 50


class ValueEvidence(NamedTuple):
    """Evidence, in nats, that the label differs by value and by bin of a column; 0 rows show nothing."""

    rows: int
    by_value: float
    by_bin: float


def value_evidence(numbers: np.ndarray, labels: np.ndarray, edges: Sequence[float]) -> ValueEvidence:
    """Return the evidence for a column, the largest over all labels.

    Args:
        numbers: the number of each row, NaN where it is missing.
        labels: a line for each label (0 and 1 for a class, or numbers), NaN in rows that have none.
        edges: the edges of the column's bins.
    """
    order = np.argsort(numbers, kind="stable")
    order = order[: np.count_nonzero(~np.isnan(numbers))]
    order = order[~np.isnan(labels[:, order]).any(axis=0)]
    labels = labels[:, order]
    labels = labels[np.ptp(labels, axis=1) > 0] if len(order) >= MIN_ROWS else labels[:0]
    if not len(labels):
        return ValueEvidence(0, 0.0, 0.0)
    x = numbers[order]
    values, bins = np.cumsum(np.diff(x, prepend=x[0]) > 0), np.searchsorted(edges, x, side="right")
    counts = np.bincount(values)
    stop = np.cumsum(counts)[values]
    start = stop - counts[values]
    evidence = []
    with np.errstate(over="ignore", invalid="ignore"):  # labels may be huge; they then show nothing
        for y in labels:
            y = y - y.mean()
            rest = y - _neighbor_means(y, start, stop)
            evidence.append((_group_evidence(values, rest, FRACTIONS), _group_evidence(bins, y, BIN_FRACTIONS)))
    return ValueEvidence(len(order), *np.max(evidence, axis=0).tolist())


def _neighbor_means(y: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the mean of the N_NEIGHBORS rows before and after the rows [start, stop) of a value; that of y is 0."""
    sums = np.concatenate([[0.0], np.cumsum(y)])
    before, after = np.maximum(start - N_NEIGHBORS, 0), np.minimum(stop + N_NEIGHBORS, len(y))
    total = sums[start] - sums[before] + sums[after] - sums[stop]
    return total / (start - before + after - stop + N_PRIOR_ROWS)


def _group_evidence(groups: np.ndarray, residuals: np.ndarray, fractions: Sequence[float]) -> float:
    """Return the log marginal likelihood of means by group against none, for the best of some fractions; at least 0."""
    sd = residuals.std()
    if not 0 < sd < np.inf:
        return 0.0
    residuals = residuals / sd
    counts, sums, squares = np.bincount(groups), np.bincount(groups, residuals), residuals @ residuals
    best = 0.0
    for fraction in fractions:
        noise = 1 - fraction
        gain = fraction * sums**2 / (noise * (noise + counts * fraction)) - np.log1p(counts * fraction / noise)
        best = max(best, gain.sum() - squares * (1 / noise - 1) - len(residuals) * np.log(noise))
    return float(best) / 2
