"""Meter for multiclass tasks: log loss, accuracy, calibration, AUC of each class, and confusion.

`ClassMeter` is to several classes what `Meter` is to two. A prediction is one distribution over the classes that the
learner had seen, plus the outcome that the class is none of them (`unseen`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.errors import BadInput
from bayou.evaluate.base_meter import (
    BRIER,
    CURVE_POINTS,
    RIGHT,
    WEIGHT,
    ClassifierEvaluation,
    ClassifierMeter,
    add_curve_point,
    add_loss,
    column,
    ratio,
)
from bayou.evaluate.histograms import auc_from_histograms, reliability_of
from bayou.kernels.compiling import kernel
from bayou.kernels.vector import float_bits

# Calibration of the most probable class: groups of equal width.
CALIBRATION_BINS = 15
# Each class has a histogram of its predictions over their odds: 16 bins for every doubling, from 2^-30 to 2^30.
OCTAVES = 30
BINS_PER_OCTAVE = 16
N_BINS = 2 * OCTAVES * BINS_PER_OCTAVE
_SHIFT = np.uint64(52 - 4)
_LOWEST = np.int64((1023 - OCTAVES) * BINS_PER_OCTAVE)
# Number of classes, those seen first, with a histogram (23 kB) and a row of their own in the confusion matrix.
DETAILED = 1000
# Number of classes, the most frequent, that are shown in that matrix and have reliability; the others are pooled.
SHOWN = 50
# Probabilities of a row that add up to more than this are invalid.
_MOST = 1.001


@dataclass(frozen=True)
class ClassEvaluation(ClassifierEvaluation):
    """Evaluation of a stream of multiclass predictions. Examples count by their weight; those of weight 0 do not.

    Attributes: those of `BaseEvaluation`, and
        log_loss: mean of -log P(label); for a label not seen before, P is the probability reserved for unseen classes.
        auc: mean over classes of their AUC: the probability that a row of the class gets a higher probability of it
            than a row of another class, ties one half. None with one class only.
        accuracy: fraction of rows whose most probable class is the right one.
        brier: mean of the summed (p - y)^2 over classes, with unseen classes as one of them; from 0 to 2.
        calibration_error: mean of |accuracy - probability| of the most probable class, over 15 groups of equal width
            (ECE).
        reliability: for the most probable class, per group: `probability` (mean), `rate` (of being right), `mass`.
        classes: columns with one entry per class, most frequent first: `label`; `mass`, the weight of its rows;
            `predicted`, the weight of the rows predicted as it; `auc`, `precision` and `recall`, NaN if undefined. With
            more than 1,000 classes, only those seen first.
        class_reliability: as `reliability`, for each of the 50 most frequent classes, in 20 groups of equal mass.
        confusion: weight of the rows of each class (rows) that were predicted as each (columns), in the order of
            `classes`; with more than 50 classes the last row and column pool the others.

    >>> meter = ClassMeter()
    >>> meter.add([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.5, 0.3, 0.2]], labels=[0, 1, 2])
    >>> result = meter.result()
    >>> round(result.log_loss, 3), round(result.accuracy, 3), result.classes["auc"], result.confusion[2]
    (0.826, 0.667, array([1., 1., 1.]), array([1., 0., 0.]))
    """

    HEADLINE = (
        *(("log loss", "log_loss"), ("accuracy", "accuracy")),
        *(("mean AUC", "auc"), ("calibration error", "calibration_error")),
    )

    classes: dict[str, np.ndarray]
    class_reliability: list[dict[str, np.ndarray]]
    confusion: np.ndarray


# Columns of groups and of bins: weight of misses, weight of hits, sum of predicted probabilities.
_MISSED, _HIT, _SAID = range(3)


class ClassMeter(ClassifierMeter):
    """Meter of multiclass predictions.

    Memory does not grow with the stream; it grows with the number of classes up to a thousand, to 31 MB at most.
    `add` also takes `classes`, the labels of the columns (by default 0, 1, 2 and so on), and `unseen`, the probability
    reserved in each row for all other classes: `predictions` divide up the rest.

    >>> meter = ClassMeter()
    >>> meter.add([[0.9, 0.1]], labels=[4], classes=[4, 7])
    >>> meter.add([[0.5, 0.5]], labels=[9], classes=[4, 7], unseen=[0.25])  # of 9 nothing was known
    >>> meter.examples, round(meter.log_loss, 3), meter.result().accuracy
    (2, 0.746, 0.5)
    """

    def __init__(self, *, regret: bool = False, curve_points: int = CURVE_POINTS) -> None:
        super().__init__(regret=regret, curve_points=curve_points)
        self._groups = np.zeros((CALIBRATION_BINS, 3))
        self._slots: dict[float, int] = {}  # slot of each label, in the order of appearance
        self._bins = np.zeros((0, N_BINS, 3))
        self._confusion = np.zeros((1, 1))  # row and column 0 pool the classes without a slot of their own
        self._detailed = 0  # number of classes with one

    def _n_rows(self, predictions: np.ndarray) -> int:
        if predictions.ndim != 2:
            raise BadInput(
                f"probabilities have shape {predictions.shape}; give a row for each example, a column for each class."
            )
        return len(predictions)

    def _add(
        self, predictions: np.ndarray, labels: np.ndarray, weights: np.ndarray, losses: np.ndarray,
        classes: Any = None, unseen: Any = None,
    ) -> None:  # fmt: skip
        matrix = np.ascontiguousarray(predictions, np.float64)
        rows, width = matrix.shape
        unseen = column(np.zeros(rows) if unseen is None else unseen, "unseen", rows)
        names = column(np.arange(width) if classes is None else classes, "classes", width)
        _refuse(matrix, unseen, labels, weights, losses, names)
        columns, label_slots = self._places(names, labels, weights)
        lacking = np.setdiff1d(np.arange(self._detailed), columns)
        _score(
            matrix, unseen, label_slots, weights, losses, self.regret, columns, lacking, self._totals, self._counts,
            self._groups, self._bins[: self._detailed], self._confusion, self._points, self._curve,
        )  # fmt: skip

    def _add_known(self, prediction: Any, labels: np.ndarray, weights: Any, **extra: Any) -> None:
        self.add(
            prediction.probability,
            labels,
            weights,
            classes=prediction.labels,
            unseen=prediction.unseen_probability,
            **extra,
        )

    def _places(self, names: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slots of the columns' classes and of the rows' labels; new classes get the next slots."""
        new, first = np.unique(labels[weights > 0], return_index=True)
        for label in (*names.tolist(), *new[np.argsort(first)].tolist()):
            self._slots.setdefault(label, len(self._slots))
        self._make_room()
        distinct, index_of = np.unique(labels, return_inverse=True)
        of_labels = np.array([self._slots.get(label, -1) for label in distinct.tolist()], np.int64)
        return np.array([self._slots[label] for label in names.tolist()], np.int64), of_labels[index_of]

    def _make_room(self) -> None:
        """Extend the histograms and the confusion to new classes; all rows so far count as rows of other classes."""
        had, n_detailed, capacity = self._detailed, min(len(self._slots), DETAILED), len(self._bins)
        if n_detailed > capacity:
            n_extra = min(max(2 * capacity, n_detailed), DETAILED) - capacity
            self._bins = np.pad(self._bins, ((0, n_extra), (0, 0), (0, 0)))
            self._confusion = np.pad(self._confusion, (0, n_extra))
        self._bins[had:n_detailed, 0, _MISSED] = self._totals[WEIGHT]
        self._detailed = n_detailed

    def result(self) -> ClassEvaluation:
        """Return the evaluation of everything added so far; more can be added later."""
        bins = self._bins[: self._detailed]
        labels, mass_of = np.array(list(self._slots))[: self._detailed], bins[:, :, _HIT].sum(axis=1)
        order = np.lexsort((labels, -mass_of))  # most frequent first
        table = self._table(labels, mass_of, order)
        aucs = table["auc"][~np.isnan(table["auc"])]
        mass = self._groups[:, _MISSED] + self._groups[:, _HIT]
        has_mass = mass > 0
        gaps = np.abs(self._groups[:, _HIT] - self._groups[:, _SAID]).sum()
        return ClassEvaluation(
            **self._shared(),
            auc=float(aucs.mean()) if len(aucs) else None,
            calibration_error=ratio(gaps, self.weight),
            reliability={
                "probability": self._groups[has_mass, _SAID] / mass[has_mass],
                "rate": self._groups[has_mass, _HIT] / mass[has_mass],
                "mass": mass[has_mass],
            },
            classes=table,
            class_reliability=[reliability_of(*bins[k].T)[1] for k in order[:SHOWN]],
            confusion=self._shown_confusion(order),
        )

    def _table(self, labels: np.ndarray, mass: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
        bins, listed = self._bins[: self._detailed], slice(1, self._detailed + 1)
        right, predicted = np.diagonal(self._confusion)[listed], self._confusion[:, listed].sum(axis=0)
        with np.errstate(invalid="ignore"):
            columns = {
                "label": labels,
                "mass": mass,
                "predicted": predicted,
                "auc": auc_from_histograms(bins[:, :, _HIT], bins[:, :, _MISSED]),
                "precision": right / predicted,
                "recall": right / mass,
            }
        return {name: values[order] for name, values in columns.items()}

    def _shown_confusion(self, order: np.ndarray) -> np.ndarray:
        """Return the confusion of the first SHOWN classes in this order; the last row and column pool the others."""
        n_shown = min(len(order), SHOWN)
        position = np.full(len(self._confusion), n_shown)
        position[order[:n_shown] + 1] = np.arange(n_shown)
        pooled = np.zeros((n_shown + 1, n_shown + 1))
        np.add.at(pooled, np.ix_(position, position), self._confusion)
        size = n_shown + (len(self._slots) > n_shown)
        return pooled[:size, :size]


def _refuse(
    probabilities: np.ndarray,
    unseen: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    losses: np.ndarray,
    names: np.ndarray,
) -> None:
    """Raise BadInput if any example, or the classes, cannot be scored."""
    if len(np.unique(names)) < len(names) or not np.isfinite(names).all():
        raise BadInput("classes must be the labels of the columns, distinct finite numbers.")
    improbable, bad = _look(probabilities, unseen, labels, weights, losses)
    if improbable >= 0:
        raise BadInput(
            f"row {improbable}: the probabilities are {np.array2string(probabilities[improbable], threshold=6)} and "
            f"{unseen[improbable]} for unseen classes; each lies between 0 and 1, and those of a row add up to 1."
        )
    if bad >= 0:
        raise BadInput(
            f"row {bad}: the label is {labels[bad]}, its weight {weights[bad]}; labels are finite, weights finite and "
            ">= 0 (and a comparator's losses are finite)."
        )


@kernel
def _look(probabilities, unseen, labels, weights, losses):
    """Return (row, -1) for the first invalid probabilities or (-1, row) for other invalid values; (-1, -1) if none."""
    for row in range(labels.size):
        total, is_valid = 0.0, 0.0 <= unseen[row] <= 1.0
        for k in range(probabilities.shape[1]):
            is_valid = is_valid and 0.0 <= probabilities[row, k] <= 1.0
            total += probabilities[row, k]
        if not is_valid or total > _MOST:
            return row, -1
        if not (abs(labels[row]) < np.inf and 0.0 <= weights[row] < np.inf and abs(losses[row]) < np.inf):
            return -1, row
    return -1, -1


@kernel
def _score(
    probabilities,
    unseen,
    label_slots,
    weights,
    comparator_losses,
    has_comparator,
    columns,
    lacking,
    totals,
    counts,
    groups,
    bins,
    confusion,
    points,
    curve,
):
    """Add predictions to the state of a `ClassMeter`, in order.

    `label_slots` are the slots of the rows' classes, `columns` those of the columns, `lacking` those without a column.
    """
    detailed = bins.shape[0]
    for row in range(label_slots.size):
        weight = weights[row]
        if weight == 0.0:
            continue
        label, scale = label_slots[row], 1.0 - unseen[row]
        best, top, p_label, squares = -1, 0.0, 0.0, unseen[row] * unseen[row]
        for k in range(columns.size):
            p = probabilities[row, k] * scale + 0.0  # turns -0 into 0; the bits of -0 are those of a large number
            column_slot = columns[k]
            if p > top:
                best, top = column_slot, p
            if column_slot == label:
                p_label = p
            squares += p * p
            if column_slot < detailed:
                slot = np.int64(float_bits(p / max(1.0 - p, 2.0**-54)) >> _SHIFT) - _LOWEST
                slot = min(max(slot, 0), N_BINS - 1)
                bins[column_slot, slot, np.int64(column_slot == label)] += weight
                bins[column_slot, slot, _SAID] += weight * p
        for k in range(lacking.size):
            bins[lacking[k], 0, np.int64(lacking[k] == label)] += weight
        chance = p_label if p_label > 0.0 else unseen[row]
        loss = -weight * math.log(max(chance, 2.2250738585072014e-308))
        right = best == label
        add_loss(totals, weight, loss, has_comparator, comparator_losses[row])
        totals[BRIER] += weight * (squares + 1.0 - 2.0 * chance)
        totals[RIGHT] += weight * right
        if best >= 0:
            group = min(int(top * CALIBRATION_BINS), CALIBRATION_BINS - 1)
            groups[group, np.int64(right)] += weight
            groups[group, _SAID] += weight * top
            confusion[label + 1 if label < detailed else 0, best + 1 if best < detailed else 0] += weight
        add_curve_point(totals, counts, points, curve)
