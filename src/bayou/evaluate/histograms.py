"""The area under the ROC curve, and reliability, from histograms of predictions."""

from __future__ import annotations

import numpy as np

RELIABILITY_GROUPS = 20


def auc_from_histograms(positives: np.ndarray, negatives: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve from histograms of both classes, bins on the last axis; NaN without pairs."""
    pairs = positives.sum(axis=-1) * negatives.sum(axis=-1)
    rank_sums = np.cumsum(negatives, axis=-1) - negatives / 2  # ties count half
    with np.errstate(invalid="ignore"):
        return np.einsum("...k,...k", positives, rank_sums) / pairs


def reliability_of(
    negatives: np.ndarray, positives: np.ndarray, probabilities: np.ndarray
) -> tuple[float | None, dict[str, np.ndarray]]:
    """Return calibration error and reliability, as in `Evaluation`, from histograms and the summed probabilities."""
    mass = positives + negatives
    total = mass.sum()
    if not total:
        return None, {name: np.empty(0) for name in ("probability", "rate", "mass")}
    # A bin belongs to the group where its middle falls. A bin larger than a group is a group by itself.
    middle = (np.cumsum(mass) - mass / 2) / total
    group = np.minimum(middle * RELIABILITY_GROUPS, RELIABILITY_GROUPS - 1).astype(np.int64)
    sums = [np.bincount(group, of) for of in (probabilities, positives, mass)]
    probability, rate, size = (column[sums[2] > 0] for column in sums)
    error = float(np.abs(rate - probability).sum() / total)
    return error, {"probability": probability / size, "rate": rate / size, "mass": size}
