"""Meter for binary tasks: log loss, AUC, accuracy, Brier score and calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bayou.core.errors import BadInput
from bayou.evaluate.base_meter import (
    BRIER,
    CURVE_POINTS,
    RIGHT,
    ClassifierEvaluation,
    ClassifierMeter,
    add_curve_point,
    add_loss,
    column,
    ratio,
)
from bayou.evaluate.histograms import auc_from_histograms, reliability_of
from bayou.kernels.allocate import empty, zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import log
from bayou.kernels.gather import prefetch
from bayou.kernels.huge_pages import aligned_zeros
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, broadcast, float_bits, load, store, where_above

# The histogram of predictions, over their odds: 1,024 bins for every doubling, so that a bin is at most 0.001 wide in
# the logit, from 2^-44 to 2^44 (a logit of +-30); the outer bins take the rest. A float's bits determine its bin.
OCTAVES = 44
BINS_PER_OCTAVE = 1024
N_BINS = 2 * OCTAVES * BINS_PER_OCTAVE
_SHIFT = np.uint64(52 - 10)  # a float has 52 fraction bits; ten of them give 1,024 bins
_LOWEST = np.int64((1023 - OCTAVES) * BINS_PER_OCTAVE)

# Number of rows that are scored at a time.
_BLOCK = 64


@dataclass(frozen=True)
class Evaluation(ClassifierEvaluation):
    """Evaluation of a stream of binary predictions. Examples count by their weight; those of weight 0 do not.

    Attributes: those of `BaseEvaluation`, and
        log_loss: mean of -log P(label).
        auc: probability that a positive is ranked above a negative, ties one half. None with one class only.
        auc_error: upper bound on the error of `auc`. Predictions are kept as a histogram of their logits, and those
            that share a bin count as ties; for any reasonable predictions the true error is far smaller, as a bin is
            at most 0.001 wide.
        accuracy: fraction of labels on the right side of 1/2; brier: mean of (p - y)^2, y in {0, 1}.
        calibration_error: mean of |rate of positives - mean prediction| over 20 groups of equal mass, made by
            ordering the predictions. (Where positives are rare, groups of equal width would put nearly everything into
            one.) By chance alone, even perfect predictions have an error of about 0.8 sqrt(20 p (1 - p) / examples).
        reliability: per group, from low to high: `probability` (mean), `rate` (of positives), `mass`.

    >>> meter = Meter()
    >>> meter.add([0.9, 0.2], labels=[1, 0])
    >>> result = meter.result()
    >>> round(result.log_loss, 3), result.auc, result.accuracy
    (0.164, 1.0, 1.0)
    """

    HEADLINE = (
        *(("log loss", "log_loss"), ("AUC", "auc")),
        *(("accuracy", "accuracy"), ("calibration error", "calibration_error")),
    )

    auc_error: float | None


# Flags: kinds of labels seen so far, and whether some example cannot be scored.
_NEGATIVE_ONE, _ZERO, _ONE, _OTHER, _NOT_SCORED = 1, 2, 4, 8, 16


class Meter(ClassifierMeter):
    """Meter of binary predictions, in constant memory (about 3 MB).

    >>> meter = Meter()
    >>> meter.add([0.9, 0.2], labels=[1, -1])
    >>> meter.add([0.6], labels=[-1], weights=[2.0])
    >>> meter.examples, meter.result().accuracy
    (3, 0.5)
    """

    def __init__(self, *, regret: bool = False, curve_points: int = CURVE_POINTS) -> None:
        super().__init__(regret=regret, curve_points=curve_points)
        # per bin: weight of negatives, weight of positives, sum of probabilities; one cache line holds two
        self._bins = aligned_zeros(N_BINS, 4, "float64")
        self._label_kinds = 0

    def _add(self, predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray, losses: np.ndarray) -> None:
        # A probability rounded to 1 stands for anything within half a step of it, in its own precision.
        least_doubt = 2.0**-25 if predictions.dtype == np.float32 else 2.0**-54
        probabilities = column(predictions, "probabilities", len(labels))
        kinds = _score(
            probabilities, labels, weights, losses, self.regret, least_doubt, self._label_kinds, self._totals,
            self._counts, self._bins, self._points, self._curve,
        )  # fmt: skip
        if kinds & _NOT_SCORED:
            raise _refusal(kinds, probabilities, labels, weights, losses)
        self._label_kinds = kinds

    def result(self) -> Evaluation:
        """Return the evaluation of everything added so far; more can be added later."""
        positives, negatives = self._bins[:, 1], self._bins[:, 0]
        auc, pairs = float(auc_from_histograms(positives, negatives)), positives.sum() * negatives.sum()
        calibration_error, reliability = reliability_of(*self._bins.T[:3])
        return Evaluation(
            **self._shared(),
            auc=None if math.isnan(auc) else auc,
            auc_error=ratio(float(positives @ negatives) / 2, pairs),
            calibration_error=calibration_error,
            reliability=reliability,
        )


def _refusal(
    kinds: int, probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, losses: np.ndarray
) -> BadInput:
    """Return the error for examples that cannot be scored."""
    improbable = ~((probabilities >= 0) & (probabilities <= 1))
    if improbable.any():
        k = int(improbable.argmax())
        return BadInput(f"prediction {k} is {probabilities[k]}; a probability must be between 0 and 1.")
    bad = ~((weights >= 0) & (weights < np.inf) & np.isfinite(losses))
    if bad.any():
        k = int(bad.argmax())
        return BadInput(
            f"weight {k} is {weights[k]}; weights are finite and >= 0 (and a comparator's losses are finite)."
        )
    if kinds & _OTHER:
        label = labels[~np.isin(labels, (-1.0, 0.0, 1.0))][0]
        return BadInput(f"a label is {label}; 1 is positive, and -1 or 0 is negative.")
    return BadInput("the stream has labels -1 and 0; either can mean negative, but not both.")


@inlined
def _scan_labels(probabilities, labels, weights, losses, kinds):
    """Return `kinds` with the flags of these labels added, and _NOT_SCORED if any example cannot be scored."""
    for k in range(labels.size):  # branch-free: labels are unpredictable
        p, weight, label = probabilities[k], weights[k], labels[k]
        is_valid = (p >= 0.0) & (p <= 1.0) & (weight >= 0.0) & (weight < np.inf) & (abs(losses[k]) < np.inf)
        positive, negative, zero = label == 1.0, label == -1.0, label == 0.0
        kinds |= positive * _ONE | negative * _NEGATIVE_ONE | zero * _ZERO
        kinds |= (not (positive | negative | zero)) * _OTHER | (not is_valid) * _NOT_SCORED
    if kinds & _OTHER or (kinds & _NEGATIVE_ONE and kinds & _ZERO):
        kinds |= _NOT_SCORED
    return kinds


@kernel
def _score(
    probabilities,
    labels,
    weights,
    comparator_losses,
    has_comparator,
    least_doubt,
    kinds,
    totals,
    counts,
    bins,
    points,
    curve,
):
    """Add predictions to the state of a `Meter`, in order, and return the flags of the labels.

    If any cannot be scored, none is, and _NOT_SCORED is set. Each block of rows is processed in phases: the logarithms
    and odds, the bins (prefetched), and then the sums, row by row.
    """
    kinds = _scan_labels(probabilities, labels, weights, comparator_losses, kinds)
    if kinds & _NOT_SCORED:
        return kinds
    block_p, block_label = zeros(_BLOCK, np.float64), zeros(_BLOCK, np.float64)
    logs, odds, slots = empty(_BLOCK, np.float64), empty(_BLOCK, np.float64), empty(_BLOCK, np.int64)
    for start in range(0, labels.size, _BLOCK):
        size = min(_BLOCK, labels.size - start)
        for k in range(size):
            # + 0.0 turns -0 into 0; the bits of -0 are those of a large number
            block_p[k], block_label[k] = probabilities[start + k] + 0.0, labels[start + k]
        for offset in range(0, size, LANES):
            p, label = load(block_p, offset), load(block_label, offset)
            complement = 1.0 - p
            lost = (1.0 - complement) - p  # the part of a small p lost in rounding 1 - p
            doubt = max(complement, least_doubt)
            chance = where_above(label, 0.0, max(p, 2.2250738585072014e-308), doubt)
            store(logs, offset, log(chance) + where_above(label, 0.0, broadcast(p, 0.0), lost))
            store(odds, offset, p / doubt)
        for k in range(size):
            slot = np.int64(float_bits(odds[k]) >> _SHIFT) - _LOWEST
            slots[k] = min(max(slot, 0), N_BINS - 1)
            prefetch(bins, slots[k] * bins.shape[1])
        for k in range(size):
            weight = weights[start + k]
            if weight == 0.0:
                continue
            p, slot, positive = block_p[k], slots[k], block_label[k] > 0.0
            loss = -weight * logs[k]
            miss = 1.0 - p if positive else p
            add_loss(totals, weight, loss, has_comparator, comparator_losses[start + k])
            totals[BRIER] += weight * miss * miss
            totals[RIGHT] += weight * ((p > 0.5) == positive)
            bins[slot, np.int64(positive)] += weight  # branch-free: labels are unpredictable
            bins[slot, 2] += weight * p
            add_curve_point(totals, counts, points, curve)
    return kinds
