"""Scores of predictions as they come: log loss, AUC, accuracy, Brier, calibration, regret and their curves.

All in memory that does not grow with the stream. `evaluate` drives a learner and a meter together; `regression` has the
meter for predicted numbers, `classes` that for several classes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bayou.core.arrays import as_array
from bayou.core.checks import whole_number
from bayou.core.errors import BadInput
from bayou.evaluate.histograms import areas, reliability_of
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import log
from bayou.kernels.gather import prefetch
from bayou.kernels.inlining import inlined
from bayou.kernels.pages import aligned_zeros
from bayou.kernels.room import empty, zeros
from bayou.kernels.vector import LANES, fill, float_bits, load, store, where_above

# The histogram of predictions, over their odds: 1,024 bins for every doubling, so that a bin is at most 0.001 wide in
# the logit. From 2^-44 to 2^44 (a logit of +-30); beyond, all is one bin. The bits of a float tell its bin.
OCTAVES = 44
BINS_PER_OCTAVE = 1024
N_BINS = 2 * OCTAVES * BINS_PER_OCTAVE
_SHIFT = np.uint64(52 - 10)  # a float has 52 bits behind the point; ten of them tell 1,024 bins
_LOWEST = np.int64((1023 - OCTAVES) * BINS_PER_OCTAVE)

# So many rows are scored at a time.
_BLOCK = 64

# Points of a curve per tenfold number of examples.
CURVE_POINTS = 20


def numbers_of(result: Any, names: list[str]) -> dict[str, Any]:
    """These numbers of a result, and its regret if it was measured."""
    measured = [] if result.regret is None else ["regret", "normalized_regret"]
    return {name: getattr(result, name) for name in names + measured}


@dataclass(frozen=True)
class Evaluation:
    """What a stream of predictions was worth. Rows of weight 0 do not count; others count by their weight.

    Attributes:
        examples: how many were counted; nonzeros: how many features they had in all.
        skipped: how many the source left out, as told to the meter.
        log_loss: mean of -log P(label).
        auc: chance that a positive is ranked above a negative, ties one half. None with one class only.
        auc_error: how far that can at most be from the exact value. Predictions are kept as a histogram of
            their logits, and those that share a bin count as ties; where predictions mean anything the true
            error is far smaller, as a bin is at most 0.001 wide.
        accuracy: share of labels on the right side of 1/2; brier: mean of (p - y)^2, y in {0, 1}.
        calibration_error: mean of |rate of positives - mean prediction| over 20 groups of equal mass, made by
            ordering the predictions. Groups of equal mass, as where positives are rare groups of equal width
            would put nearly everything into one. By chance alone even perfect predictions
            show an error of about 0.8 sqrt(20 p (1 - p) / examples).
        seconds: from the making of the meter to the last example added.
        regret: log loss above that of the comparator, summed; normalized_regret: that over ln(examples).
        curve: columns at about geometrically spaced numbers of examples: `example`; `weight` and
            `cumulative_loss` so far; `log_loss`, their ratio; `window_loss`, the mean loss since the last
            point; `regret` if there is one.
        reliability: per group, from low to high: `probability` (mean), `rate` (of positives), `mass`.

    >>> meter = Meter()
    >>> meter.add([0.9, 0.2], labels=[1, 0])
    >>> result = meter.result()
    >>> round(result.log_loss, 3), result.auc, result.accuracy
    (0.164, 1.0, 1.0)
    """

    examples: int
    nonzeros: int
    skipped: int
    log_loss: float | None
    auc: float | None
    auc_error: float | None
    accuracy: float | None
    brier: float | None
    calibration_error: float | None
    seconds: float
    regret: float | None
    normalized_regret: float | None
    curve: dict[str, np.ndarray]
    reliability: dict[str, np.ndarray]

    def as_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON: what is unknown (no positives, say) is None."""
        names = ["examples", "nonzeros", "skipped", "log_loss", "auc", "accuracy", "brier"]
        names += ["calibration_error", "seconds"]
        return numbers_of(self, names)

    def headline(self) -> dict[str, float | None]:
        """The numbers to show first, by the names that people know."""
        return {
            "log loss": self.log_loss,
            "AUC": self.auc,
            "accuracy": self.accuracy,
            "calibration error": self.calibration_error,
        }


# What every meter's `_totals` begins with, in this order; and what else `Meter` holds there.
WEIGHT, LOSS, WINDOW_WEIGHT, WINDOW_LOSS, REGRET = range(5)
_BRIER, _RIGHT = 5, 6
# What a point of the curve holds besides its example number.
_CURVE_COLUMNS = ("weight", "cumulative_loss", "window_loss", "regret")

# Kinds of labels that were met; and that some examples have something that cannot be scored.
_NEGATIVE_ONE, _ZERO, _ONE, _OTHER, _NOT_SCORED = 1, 2, 4, 8, 16


class Running:
    """What meters share: summed losses, counts, and a curve of them.

    Curves do not depend on how the examples were cut into batches, not by one bit.
    """

    loss_name: ClassVar[str]  # as results call the mean loss
    add: Any  # (predictions, labels, weights=None, **more): score some, in a meter's own form

    def __init__(self, n_totals: int, regret: bool, curve_points: int) -> None:
        self.regret = regret
        self.nonzeros = 0
        self.skipped = 0
        self._totals = np.zeros(n_totals)
        self._points = _curve_examples(curve_points)
        self._curve = np.zeros((len(self._points), len(_CURVE_COLUMNS)))
        self._counts = np.zeros(2, np.int64)  # examples, points of the curve that were passed
        self._started = self._latest = time.perf_counter()

    @property
    def examples(self) -> int:
        """How many examples counted so far."""
        return int(self._counts[0])

    @property
    def weight(self) -> float:
        """The sum of their weights."""
        return float(self._totals[WEIGHT])

    @property
    def loss(self) -> float | None:
        """The mean loss so far."""
        return ratio(self._totals[LOSS], self._totals[WEIGHT])

    @property
    def seconds(self) -> float:
        """From the making of this meter to the last `add`."""
        return self._latest - self._started

    def add_prediction(self, prediction: Any, labels: Any, weights: Any = None, **more: Any) -> None:
        """Score what a learner said of some examples (a `Prediction`), as `add` does; those without a label, NaN, not.

        >>> from bayou import Batch
        >>> from bayou.learners import Marginal
        >>> meter = Meter()
        >>> meter.add_prediction(Marginal(n_features=2).predict(Batch.from_rows([{}, {}])), [1, np.nan])
        >>> meter.examples, round(meter.log_loss, 3)
        (1, 0.693)
        """
        labels = column(labels, "labels", np.size(labels))
        try:
            self._add_known(prediction, labels, weights, **more)
        except BadInput:  # nothing was added; labels that are missing are rare, and not looked for before
            known = np.flatnonzero(~np.isnan(labels))
            if len(known) == len(labels):
                raise
            if len(known):
                weights = None if weights is None else as_array(weights, "weights")[known]
                self._add_known(prediction.take(known), labels[known], weights, **more)

    def _add_known(self, prediction: Any, labels: np.ndarray, weights: Any, **more: Any) -> None:
        self.add(prediction.expected, labels, weights, **more)

    def _columns(
        self, predictions: Any, what: str, labels: Any, weights: Any, comparator_losses: Any
    ) -> tuple[np.ndarray, ...]:
        """Predictions, labels, weights and the comparator's losses (weights, if there is none), one of each a row."""
        predictions = as_array(predictions, what)
        predictions = column(predictions, what, predictions.size)
        return predictions, *self._beside(predictions.size, labels, weights, comparator_losses)

    def _beside(self, rows: int, labels: Any, weights: Any, comparator_losses: Any) -> tuple[np.ndarray, ...]:
        """All of that but predictions."""
        weights = ones(rows) if weights is None else weights
        if (comparator_losses is not None) != self.regret:
            raise BadInput("comparator_losses go with a meter made with regret=True: always then, and only then.")
        losses = comparator_losses if self.regret else weights
        others = {"labels": labels, "weights": weights, "comparator_losses": losses}
        return tuple(column(values, name, rows) for name, values in others.items())

    def _regrets(self) -> tuple[float | None, float | None]:
        """Regret, and that over ln(examples)."""
        regret = float(self._totals[REGRET]) if self.regret else None
        return regret, regret / math.log(self.examples) if regret is not None and self.examples > 1 else None

    def curve(self) -> dict[str, np.ndarray]:
        """The points that were passed, and where we are now."""
        examples, passed = self._counts
        number, rows = self._points[:passed], self._curve[:passed]
        if examples > (number[-1] if passed else 0):
            totals = self._totals
            window = totals[WINDOW_LOSS] / totals[WINDOW_WEIGHT]
            rows = np.vstack([rows, [totals[WEIGHT], totals[LOSS], window, totals[REGRET]]])
            number = np.append(number, examples)
        curve = {"example": number.copy()}
        curve.update({name: rows[:, k].copy() for k, name in enumerate(_CURVE_COLUMNS)})
        curve[self.loss_name] = curve["cumulative_loss"] / curve["weight"]
        if not self.regret:
            del curve["regret"]
        return curve


class Meter(Running):
    """Scores predictions as they come, in constant memory (about 3 MB).

    >>> meter = Meter()
    >>> meter.add([0.9, 0.2], labels=[1, -1])
    >>> meter.add([0.6], labels=[-1], weights=[2.0])
    >>> meter.examples, meter.result().accuracy
    (3, 0.5)
    """

    loss_name = "log_loss"

    def __init__(self, *, regret: bool = False, curve_points: int = CURVE_POINTS) -> None:
        """`regret`: every `add` will bring the comparator's losses. `curve_points`: how many per decade."""
        super().__init__(7, regret, curve_points)
        # of each bin: weight of negatives, weight of positives, sum of probabilities; one cache line holds two
        self._bins = aligned_zeros(N_BINS, 4, "float64")
        self._label_kinds = 0

    @property
    def log_loss(self) -> float | None:
        """The mean log loss so far."""
        return self.loss

    def add(
        self,
        probabilities: Any,
        labels: Any,
        weights: Any = None,
        *,
        comparator_losses: Any = None,
        nonzeros: int = 0,
    ) -> None:
        """Score P(y = 1) of some examples; all or, if anything is wrong with them, none."""
        # A probability that rounded to 1 stands for anything within half a step of it, in its own precision.
        least_doubt = 2.0**-25 if getattr(probabilities, "dtype", None) == np.float32 else 2.0**-54
        probabilities, labels, weights, losses = self._columns(
            probabilities, "probabilities", labels, weights, comparator_losses
        )
        nonzeros = whole_number("nonzeros", nonzeros, 0)
        kinds = _score(
            probabilities, labels, weights, losses, self.regret, least_doubt, self._label_kinds, self._totals,
            self._counts, self._bins, self._points, self._curve,
        )  # fmt: skip
        if kinds & _NOT_SCORED:
            raise _refusal(kinds, probabilities, labels, weights, losses)
        self._label_kinds = kinds
        self.nonzeros += nonzeros
        self._latest = time.perf_counter()

    def result(self) -> Evaluation:
        """What everything added so far was worth. The meter can go on."""
        totals, examples = self._totals, self.examples
        positives, negatives = self._bins[:, 1], self._bins[:, 0]
        auc, pairs = float(areas(positives, negatives)), positives.sum() * negatives.sum()
        calibration_error, reliability = reliability_of(*self._bins.T[:3])
        regret, normalized = self._regrets()
        return Evaluation(
            examples=examples,
            nonzeros=int(self.nonzeros),
            skipped=int(self.skipped),
            log_loss=self.log_loss,
            auc=None if math.isnan(auc) else auc,
            auc_error=ratio(float(positives @ negatives) / 2, pairs),
            accuracy=ratio(totals[_RIGHT], totals[WEIGHT]),
            brier=ratio(totals[_BRIER], totals[WEIGHT]),
            calibration_error=calibration_error,
            seconds=self.seconds,
            regret=regret,
            normalized_regret=normalized,
            curve=self.curve(),
            reliability=reliability,
        )


def _refusal(
    kinds: int, probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, losses: np.ndarray
) -> BadInput:
    """What is wrong with examples that cannot be scored."""
    improbable = ~((probabilities >= 0) & (probabilities <= 1))
    if improbable.any():
        k = int(improbable.argmax())
        return BadInput(f"prediction {k} is {probabilities[k]}; a probability lies between 0 and 1.")
    bad = ~((weights >= 0) & (weights < np.inf) & np.isfinite(losses))
    if bad.any():
        k = int(bad.argmax())
        return BadInput(
            f"weight {k} is {weights[k]}; weights are finite and >= 0 (and a comparator's losses are finite)."
        )
    if kinds & _OTHER:
        label = labels[~np.isin(labels, (-1.0, 0.0, 1.0))][0]
        return BadInput(f"a label is {label}; 1 is positive, and -1 or 0 is negative.")
    return BadInput("labels -1 and 0 come in one stream; either can mean negative, but not both.")


def _curve_examples(per_decade: int) -> np.ndarray:
    per_decade = whole_number("curve_points", per_decade, 1, 1000)
    exponents = np.arange(15 * per_decade + 1) / per_decade  # a quadrillion examples should do
    return np.unique(np.rint(10.0**exponents).astype(np.int64))


def column(values: Any, name: str, size: int) -> np.ndarray:
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{name} must be numbers: {error}.") from None
    if column.shape != (size,):
        raise BadInput(f"{name} have shape {column.shape}, but there are {size} predictions; give one each.")
    return column


def ones(n: int) -> np.ndarray:
    """So many ones, for kernels; they are the same for all that do not ask for very many."""
    return _ONES[:n] if n <= len(_ONES) else np.ones(n)


_ONES = np.ones(2**14)


def ratio(total: float, weight: float) -> float | None:
    """A mean, if there is anything to take it of."""
    return float(total / weight) if weight > 0 else None


@inlined
def _look(probabilities, labels, weights, losses, kinds):
    """The kinds of labels, with those met before; _NOT_SCORED where there is something that cannot be scored."""
    for k in range(labels.size):  # no branch: labels are hard to guess
        p, weight, label = probabilities[k], weights[k], labels[k]
        fine = (p >= 0.0) & (p <= 1.0) & (weight >= 0.0) & (weight < np.inf) & (abs(losses[k]) < np.inf)
        one, negative, zero = label == 1.0, label == -1.0, label == 0.0
        kinds |= one * _ONE | negative * _NEGATIVE_ONE | zero * _ZERO
        kinds |= (not (one | negative | zero)) * _OTHER | (not fine) * _NOT_SCORED
    if kinds & _OTHER or (kinds & _NEGATIVE_ONE and kinds & _ZERO):
        kinds |= _NOT_SCORED
    return kinds


@inlined
def note_point(totals, counts, points, curve):  # noqa: ANN201
    """A point of the curve, if the present example is one of those that make one."""
    point = counts[1]
    if point < points.size and counts[0] == points[point]:
        curve[point, 0] = totals[WEIGHT]
        curve[point, 1] = totals[LOSS]
        curve[point, 2] = totals[WINDOW_LOSS] / totals[WINDOW_WEIGHT]
        curve[point, 3] = totals[REGRET]
        totals[WINDOW_WEIGHT] = 0.0
        totals[WINDOW_LOSS] = 0.0
        counts[1] += 1


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
    """Add some predictions to all that a `Meter` keeps, one after another.

    Where any of them cannot be scored, none is; the kinds of labels tell it. What rows do not share is worked out for
    a block of them, and their bins are asked for; then all is summed up, row by row.
    """
    kinds = _look(probabilities, labels, weights, comparator_losses, kinds)
    if kinds & _NOT_SCORED:
        return kinds
    block_p, block_label = zeros(_BLOCK, np.float64), zeros(_BLOCK, np.float64)
    logs, odds, slots = empty(_BLOCK, np.float64), empty(_BLOCK, np.float64), empty(_BLOCK, np.int64)
    for start in range(0, labels.size, _BLOCK):
        size = min(_BLOCK, labels.size - start)
        for k in range(size):
            # + 0.0 makes 0 of -0, whose bits are those of a large number
            block_p[k], block_label[k] = probabilities[start + k] + 0.0, labels[start + k]
        for at in range(0, size, LANES):
            p, label = load(block_p, at), load(block_label, at)
            rest = 1.0 - p
            lost = (1.0 - rest) - p  # what 1 - p has lost of a small p
            doubt = max(rest, least_doubt)
            chance = where_above(label, 0.0, max(p, 2.2250738585072014e-308), doubt)
            store(logs, at, log(chance) + where_above(label, 0.0, fill(p, 0.0), lost))
            store(odds, at, p / doubt)
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
            totals[WEIGHT] += weight
            totals[LOSS] += loss
            totals[WINDOW_WEIGHT] += weight
            totals[WINDOW_LOSS] += loss
            totals[_BRIER] += weight * miss * miss
            totals[_RIGHT] += weight * ((p > 0.5) == positive)
            if has_comparator:
                # Summed as differences: the two sums alone would be large and nearly equal.
                totals[REGRET] += loss - weight * comparator_losses[start + k]
            bins[slot, np.int64(positive)] += weight  # no branch: labels are hard to guess
            bins[slot, 2] += weight * p
            counts[0] += 1
            note_point(totals, counts, points, curve)
    return kinds
