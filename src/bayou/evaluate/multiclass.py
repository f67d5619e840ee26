"""Scores of predicted classes as they come: log loss, accuracy, calibration, AUC of each class, who is taken for whom.

`ClassMeter` is to several classes what `Meter` is to two. What a row's prediction says is one distribution over the
classes that the learner knew then, and one further outcome, that the class is none of them (`unseen`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayou.core.arrays import as_array
from bayou.core.checks import whole_number
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
from bayou.evaluate.histograms import areas, reliability_of
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
# So many classes, those that were met first, have a histogram (23 kB), and a place in who is taken for whom.
DETAILED = 1000
# So many, the commonest, are shown in that table, and have a curve of reliability; the others are one.
SHOWN = 50
# Probabilities of a row that add up to more than this are none.
_MOST = 1.001


@dataclass(frozen=True)
class ClassEvaluation(ClassifierEvaluation):
    """What a stream of predicted classes was worth. Rows of weight 0 do not count; others count by their weight.

    Attributes: those of `BaseEvaluation`, and
        log_loss: mean of -log P(label); a label that was not known costs what was reserved for such.
        auc: mean over classes of their AUC: the chance that a row of the class is given a higher probability of it than
            a row of another, ties one half. None with one class only.
        accuracy: share of rows whose most probable class is theirs.
        brier: mean of the summed (p - y)^2 over classes, what is reserved for unseen ones among them; from 0 to 2.
        calibration_error: mean of |accuracy - probability| of the most probable class, over 15 groups of equal width
            (ECE).
        reliability: of the most probable class, per group: `probability` (mean), `rate` (of being right), `mass`.
        classes: a row for each class, the commonest first: `label`; `mass`, the weight of its rows; `predicted`, that
            of the rows that were taken for it; `auc`, `precision` and `recall`, NaN where there is nothing to take them
            of. Of more than 1,000 classes, those that came first.
        class_reliability: as `reliability`, of each of the commonest 50 classes, in 20 groups of equal mass.
        confusion: weight of the rows of each class (down) that were taken for each (across), as `classes` are ordered;
            of more than 50 the last row and column are all others.

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


# Columns of what is kept of groups, and of bins: both have a sum of probabilities.
_MISSED, _HIT, _SAID = range(3)


class ClassMeter(ClassifierMeter):
    """Scores predictions of several classes as they come.

    Memory does not grow with the stream, and with the number of classes up to a thousand, to 31 MB at most.

    >>> meter = ClassMeter()
    >>> meter.add([[0.9, 0.1]], labels=[4], classes=[4, 7])
    >>> meter.add([[0.5, 0.5]], labels=[9], classes=[4, 7], unseen=[0.25])  # of 9 nothing was known
    >>> meter.examples, round(meter.log_loss, 3), meter.result().accuracy
    (2, 0.746, 0.5)
    """

    def __init__(self, *, regret: bool = False, curve_points: int = CURVE_POINTS) -> None:
        super().__init__(regret=regret, curve_points=curve_points)
        self._groups = np.zeros((CALIBRATION_BINS, 3))
        self._slots: dict[float, int] = {}  # of each label that was met, in their order
        self._bins = np.zeros((0, N_BINS, 3))
        self._confusion = np.zeros((1, 1))  # the first of both is for all without a place of their own
        self._detailed = 0  # how many have one

    def add(
        self,
        probabilities: Any,
        labels: Any,
        weights: Any = None,
        *,
        classes: Any = None,
        unseen: Any = None,
        comparator_losses: Any = None,
        nonzeros: int = 0,
    ) -> None:
        """Score the probabilities of the classes of some examples; all or, if anything is wrong with them, none.

        Args:
            probabilities: a row for each example, a column for each class that was known.
            labels: any numbers.
            weights: of the examples.
            classes: the labels of the columns; 0, 1, 2 and so on if not given.
            unseen: what was reserved in each row for all other classes; the probabilities are of the rest.
            comparator_losses: what regret is measured against.
            nonzeros: how many features the examples had.
        """
        given = as_array(probabilities, "probabilities")
        if given.ndim != 2:
            raise BadInput(
                f"probabilities have shape {given.shape}; give a row for each example, a column for each class."
            )
        chances = np.ascontiguousarray(given, np.float64)
        rows, width = chances.shape
        labels, weights, losses = self._beside(rows, labels, weights, comparator_losses)
        unseen = column(np.zeros(rows) if unseen is None else unseen, "unseen", rows)
        names = column(np.arange(width) if classes is None else classes, "classes", width)
        nonzeros = whole_number("nonzeros", nonzeros, 0)
        _refuse(chances, unseen, labels, weights, losses, names)
        columns, numbers = self._places(names, labels, weights)
        lacking = np.setdiff1d(np.arange(self._detailed), columns)
        _score(
            chances, unseen, numbers, weights, losses, self.regret, columns, lacking, self._totals, self._counts,
            self._groups, self._bins[: self._detailed], self._confusion, self._points, self._curve,
        )  # fmt: skip
        self._count(nonzeros)

    def _add_known(self, prediction: Any, labels: np.ndarray, weights: Any, **more: Any) -> None:
        self.add(prediction.probability, labels, weights, classes=prediction.labels, unseen=prediction.unseen, **more)

    def _places(self, names: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The place of each column's class, and of each row's; those that are new get the next ones."""
        new, first = np.unique(labels[weights > 0], return_index=True)
        for label in (*names.tolist(), *new[np.argsort(first)].tolist()):
            self._slots.setdefault(label, len(self._slots))
        self._make_room()
        met, which = np.unique(labels, return_inverse=True)
        of_labels = np.array([self._slots.get(label, -1) for label in met.tolist()], np.int64)
        return np.array([self._slots[label] for label in names.tolist()], np.int64), of_labels[which]

    def _make_room(self) -> None:
        """For all classes with a place of their own; to those that are new, all rows so far were rows of others."""
        had, now, room = self._detailed, min(len(self._slots), DETAILED), len(self._bins)
        if now > room:
            more = min(max(2 * room, now), DETAILED) - room
            self._bins = np.pad(self._bins, ((0, more), (0, 0), (0, 0)))
            self._confusion = np.pad(self._confusion, (0, more))
        self._bins[had:now, 0, _MISSED] = self._totals[WEIGHT]
        self._detailed = now

    def result(self) -> ClassEvaluation:
        """What everything added so far was worth. The meter can go on."""
        bins = self._bins[: self._detailed]
        labels, mass_of = np.array(list(self._slots))[: self._detailed], bins[:, :, _HIT].sum(axis=1)
        order = np.lexsort((labels, -mass_of))  # the commonest first
        table = self._table(labels, mass_of, order)
        aucs = table["auc"][~np.isnan(table["auc"])]
        mass = self._groups[:, _MISSED] + self._groups[:, _HIT]
        some = mass > 0
        gaps = np.abs(self._groups[:, _HIT] - self._groups[:, _SAID]).sum()
        return ClassEvaluation(
            **self._shared(),
            auc=float(aucs.mean()) if len(aucs) else None,
            calibration_error=ratio(gaps, self.weight),
            reliability={
                "probability": self._groups[some, _SAID] / mass[some],
                "rate": self._groups[some, _HIT] / mass[some],
                "mass": mass[some],
            },
            classes=table,
            class_reliability=[reliability_of(*bins[k].T)[1] for k in order[:SHOWN]],
            confusion=self._shown_confusion(order),
        )

    def _table(self, labels: np.ndarray, mass: np.ndarray, order: np.ndarray) -> dict[str, np.ndarray]:
        bins, own = self._bins[: self._detailed], slice(1, self._detailed + 1)
        right, predicted = np.diagonal(self._confusion)[own], self._confusion[:, own].sum(axis=0)
        with np.errstate(invalid="ignore"):
            columns = {
                "label": labels,
                "mass": mass,
                "predicted": predicted,
                "auc": areas(bins[:, :, _HIT], bins[:, :, _MISSED]),
                "precision": right / predicted,
                "recall": right / mass,
            }
        return {name: values[order] for name, values in columns.items()}

    def _shown_confusion(self, order: np.ndarray) -> np.ndarray:
        """The commonest classes, in this order, and all others, where there are any."""
        shown = min(len(order), SHOWN)
        place = np.full(len(self._confusion), shown)
        place[order[:shown] + 1] = np.arange(shown)
        whole = np.zeros((shown + 1, shown + 1))
        np.add.at(whole, np.ix_(place, place), self._confusion)
        size = shown + (len(self._slots) > shown)
        return whole[:size, :size]


def _refuse(
    chances: np.ndarray,
    unseen: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    losses: np.ndarray,
    names: np.ndarray,
) -> None:
    """What cannot be scored."""
    if len(np.unique(names)) < len(names) or not np.isfinite(names).all():
        raise BadInput("classes are the labels of the columns, finite numbers that differ.")
    improbable, bad = _look(chances, unseen, labels, weights, losses)
    if improbable >= 0:
        raise BadInput(
            f"row {improbable}: the probabilities are {np.array2string(chances[improbable], threshold=6)} and "
            f"{unseen[improbable]} for unseen classes; each lies between 0 and 1, and those of a row add up to 1."
        )
    if bad >= 0:
        raise BadInput(
            f"row {bad}: the label is {labels[bad]}, its weight {weights[bad]}; labels are finite, weights finite and "
            ">= 0 (and a comparator's losses are finite)."
        )


@kernel
def _look(chances, unseen, labels, weights, losses):
    """(First row with something that is no probability or -1, first row with a bad label, weight or loss or -1)."""
    for row in range(labels.size):
        whole, fine = 0.0, 0.0 <= unseen[row] <= 1.0
        for k in range(chances.shape[1]):
            fine = fine and 0.0 <= chances[row, k] <= 1.0
            whole += chances[row, k]
        if not fine or whole > _MOST:
            return row, -1
        if not (abs(labels[row]) < np.inf and 0.0 <= weights[row] < np.inf and abs(losses[row]) < np.inf):
            return -1, row
    return -1, -1


@kernel
def _score(
    chances,
    unseen,
    numbers,
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
    """Add some predictions to all that a `ClassMeter` keeps, one after another.

    `numbers` are the places of the rows' classes, `columns` those of the columns', `lacking` those that have none.
    """
    detailed = bins.shape[0]
    for row in range(numbers.size):
        weight = weights[row]
        if weight == 0.0:
            continue
        label, rest = numbers[row], 1.0 - unseen[row]
        best, top, own, squares = -1, 0.0, 0.0, unseen[row] * unseen[row]
        for k in range(columns.size):
            p = chances[row, k] * rest + 0.0  # which makes 0 of -0, whose bits are those of a large number
            place = columns[k]
            if p > top:
                best, top = place, p
            if place == label:
                own = p
            squares += p * p
            if place < detailed:
                slot = np.int64(float_bits(p / max(1.0 - p, 2.0**-54)) >> _SHIFT) - _LOWEST
                slot = min(max(slot, 0), N_BINS - 1)
                bins[place, slot, np.int64(place == label)] += weight
                bins[place, slot, _SAID] += weight * p
        for k in range(lacking.size):
            bins[lacking[k], 0, np.int64(lacking[k] == label)] += weight
        chance = own if own > 0.0 else unseen[row]
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
