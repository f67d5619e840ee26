"""Evaluate a learner as it learns: every example is predicted before it is learned from.

`progressive` runs a learner over any iterable of batches, in one pass and in memory that does not grow with
the stream. `Meter` is the part of it that scores, for those who drive the learner themselves.

Regret, with known true weights w* or the best fixed weights in hindsight (marginal-gaussian, section 4):

    R_T = sum_t [ -log p_t(y_t) + log F(y_t x_t'w*) ]          r_T = R_T / ln T

>>> from bayou import simulate
>>> class Coin:
...     def learn(self, batch):
...         return np.full(len(batch), 0.5)
>>> stream = simulate.random(n_features=200, active=0.1)
>>> result = progressive(Coin(), stream.batches(10_000), truth=stream.weights)
>>> round(result.log_loss, 4), result.auc, result.regret > 1000
(0.6931, 0.5, True)
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit

from bayou import links
from bayou.batch import Batch
from bayou.errors import BadInput

# The histogram of predictions, over their logit: 65,536 bins of width 0.0009. Beyond +-30 all is one bin.
N_BINS = 2**16
LARGEST_LOGIT = 30.0

RELIABILITY_GROUPS = 20

# Points of a curve per tenfold number of examples.
CURVE_POINTS = 20


class Learner(Protocol):
    def learn(self, batch: Batch) -> np.ndarray:
        """P(y = 1) of each example, from before it was learned from."""


class Hindsight(NamedTuple):
    """The weights that would have been best all along, and their summed log loss (without the penalty)."""

    weights: np.ndarray
    intercept: float
    loss: float


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
            error is far smaller, as a bin is only 0.0009 wide.
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
        if self.regret is not None:
            names += ["regret", "normalized_regret"]
        return {name: getattr(self, name) for name in names}


# ----------------------------------------------------------------------------------------------------
# Scoring
# ----------------------------------------------------------------------------------------------------

# What `Meter._totals` holds, in this order.
_WEIGHT, _LOSS, _WINDOW_WEIGHT, _WINDOW_LOSS, _BRIER, _RIGHT, _REGRET = range(7)
# What a point of the curve holds besides its example number.
_CURVE_COLUMNS = ("weight", "cumulative_loss", "window_loss", "regret")

_NEGATIVE_ONE, _ZERO, _ONE, _OTHER = 1, 2, 4, 8


class Meter:
    """Scores predictions as they come, in constant memory (about 1.5 MB).

    >>> meter = Meter()
    >>> meter.add([0.9, 0.2], labels=[1, -1])
    >>> meter.add([0.6], labels=[-1], weights=[2.0])
    >>> meter.examples, meter.result().accuracy
    (3, 0.5)

    Curves do not depend on how the examples were cut into batches, not by one bit.
    """

    def __init__(self, *, regret: bool = False, curve_points: int = CURVE_POINTS) -> None:
        """`regret`: every `add` will bring the comparator's losses. `curve_points`: so many per decade."""
        self.regret = regret
        self.nonzeros = 0
        self.skipped = 0
        self._totals = np.zeros(7)
        self._positives, self._negatives = np.zeros(N_BINS), np.zeros(N_BINS)
        self._probabilities = np.zeros(N_BINS)
        self._points = _curve_examples(curve_points)
        self._curve = np.zeros((len(self._points), len(_CURVE_COLUMNS)))
        self._counts = np.zeros(2, np.int64)  # examples, points of the curve that were passed
        self._label_kinds = 0
        self._started = self._latest = time.perf_counter()

    @property
    def examples(self) -> int:
        """How many examples counted so far."""
        return int(self._counts[0])

    @property
    def log_loss(self) -> float | None:
        """The mean log loss so far."""
        return _ratio(self._totals[_LOSS], self._totals[_WEIGHT])

    @property
    def seconds(self) -> float:
        """From the making of this meter to the last `add`."""
        return self._latest - self._started

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
        probabilities = np.asarray(probabilities)
        # A probability that rounded to 1 stands for anything within half a step of it, in its own precision.
        least_doubt = 2.0**-25 if probabilities.dtype == np.float32 else 2.0**-54
        probabilities = _column(probabilities, "probabilities", probabilities.size)
        labels = _column(labels, "labels", probabilities.size)
        weights = np.ones(probabilities.size) if weights is None else weights
        weights = _column(weights, "weights", probabilities.size)
        if (comparator_losses is not None) != self.regret:
            raise BadInput("comparator_losses go with a Meter(regret=True): always then, and only then.")
        losses = weights
        if self.regret:
            losses = _column(comparator_losses, "comparator_losses", probabilities.size)
        self._label_kinds = self._look_at(probabilities, labels, weights, losses)
        _score(
            probabilities, labels, weights, losses, self.regret, least_doubt, self._totals, self._counts,
            self._positives, self._negatives, self._probabilities, self._points, self._curve,
        )  # fmt: skip
        self.nonzeros += nonzeros
        self._latest = time.perf_counter()

    def _look_at(self, probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray, losses: np.ndarray) -> int:
        """Refuse what cannot be scored; the kinds of labels seen by now."""
        improbable, kinds, bad_weight = _look(probabilities, labels, weights, losses)
        if improbable >= 0:
            raise BadInput(
                f"prediction {improbable} is {probabilities[improbable]}; a probability lies between 0 and 1."
            )
        if bad_weight >= 0:
            raise BadInput(
                f"weight {bad_weight} is {weights[bad_weight]}; weights are finite and >= 0 "
                "(and a comparator's losses are finite)."
            )
        kinds |= self._label_kinds
        if kinds & _OTHER:
            bad = labels[~np.isin(labels, (-1.0, 0.0, 1.0))][0]
            raise BadInput(f"a label is {bad}; 1 is positive, and -1 or 0 is negative.")
        if kinds & _NEGATIVE_ONE and kinds & _ZERO:
            raise BadInput("labels -1 and 0 come in one stream; either can mean negative, but not both.")
        return kinds

    def result(self) -> Evaluation:
        """What everything added so far was worth. The meter can go on."""
        totals, examples = self._totals, self.examples
        auc, auc_error = _area(self._positives, self._negatives)
        calibration_error, reliability = self._reliability()
        regret = float(totals[_REGRET]) if self.regret else None
        normalized = regret / math.log(examples) if regret is not None and examples > 1 else None
        return Evaluation(
            examples=examples,
            nonzeros=int(self.nonzeros),
            skipped=int(self.skipped),
            log_loss=self.log_loss,
            auc=auc,
            auc_error=auc_error,
            accuracy=_ratio(totals[_RIGHT], totals[_WEIGHT]),
            brier=_ratio(totals[_BRIER], totals[_WEIGHT]),
            calibration_error=calibration_error,
            seconds=self.seconds,
            regret=regret,
            normalized_regret=normalized,
            curve=self._curve_so_far(),
            reliability=reliability,
        )

    def _curve_so_far(self) -> dict[str, np.ndarray]:
        """The points that were passed, and where we are now."""
        examples, passed = self._counts
        number, rows = self._points[:passed], self._curve[:passed]
        if examples > (number[-1] if passed else 0):
            totals = self._totals
            window = totals[_WINDOW_LOSS] / totals[_WINDOW_WEIGHT]
            rows = np.vstack([rows, [totals[_WEIGHT], totals[_LOSS], window, totals[_REGRET]]])
            number = np.append(number, examples)
        curve = {"example": number.copy()}
        curve.update({name: rows[:, k].copy() for k, name in enumerate(_CURVE_COLUMNS)})
        curve["log_loss"] = curve["cumulative_loss"] / curve["weight"]
        if not self.regret:
            del curve["regret"]
        return curve

    def _reliability(self) -> tuple[float | None, dict[str, np.ndarray]]:
        mass = self._positives + self._negatives
        total = mass.sum()
        if not total:
            return None, {name: np.empty(0) for name in ("probability", "rate", "mass")}
        # A bin goes where its middle falls. One that is larger than a group is a group.
        middle = (np.cumsum(mass) - mass / 2) / total
        group = np.minimum(middle * RELIABILITY_GROUPS, RELIABILITY_GROUPS - 1).astype(np.int64)
        sums = [np.bincount(group, of) for of in (self._probabilities, self._positives, mass)]
        probability, positives, size = (column[sums[2] > 0] for column in sums)
        error = float(np.abs(positives - probability).sum() / total)
        return error, {"probability": probability / size, "rate": positives / size, "mass": size}


def _curve_examples(per_decade: int) -> np.ndarray:
    if not (isinstance(per_decade, int | np.integer) and per_decade >= 1):
        raise BadInput(f"curve_points is {per_decade!r}; it must be a whole number >= 1.")
    exponents = np.arange(15 * per_decade + 1) / per_decade  # a quadrillion examples should do
    return np.unique(np.rint(10.0**exponents).astype(np.int64))


def _column(values: Any, name: str, size: int) -> np.ndarray:
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be numbers: {error}.") from None
    if column.shape != (size,):
        raise BadInput(f"{name} have shape {column.shape}, but there are {size} predictions; give one each.")
    return column


def _ratio(total: float, weight: float) -> float | None:
    return float(total / weight) if weight > 0 else None


def _area(positives: np.ndarray, negatives: np.ndarray) -> tuple[float | None, float | None]:
    """The area under the ROC curve, from the histogram of each class, and its largest possible error."""
    pairs = positives.sum() * negatives.sum()
    if not pairs:
        return None, None
    below = np.cumsum(negatives) - negatives
    tied = positives @ negatives / 2
    return float((positives @ below + tied) / pairs), float(tied / pairs)


@njit(cache=True, nogil=True)
def _look(probabilities, labels, weights, losses):
    """(first that is no probability or -1, kinds of labels, first bad weight or comparator loss or -1)."""
    improbable, bad_weight, kinds = -1, -1, 0
    for k in range(labels.size - 1, -1, -1):
        if not 0.0 <= probabilities[k] <= 1.0:
            improbable = k
        if not (0.0 <= weights[k] < np.inf and abs(losses[k]) < np.inf):
            bad_weight = k
        label = labels[k]
        if label == 1.0:
            kinds |= _ONE
        elif label == -1.0:
            kinds |= _NEGATIVE_ONE
        elif label == 0.0:
            kinds |= _ZERO
        else:
            kinds |= _OTHER
    return improbable, kinds, bad_weight


@njit(cache=True, nogil=True, error_model="numpy")
def _score(
    probabilities,
    labels,
    weights,
    comparator_losses,
    has_comparator,
    least_doubt,
    totals,
    counts,
    positives,
    negatives,
    probability_sums,
    points,
    curve,
):
    """Add some predictions to all that a `Meter` keeps, one after another."""
    per_logit = N_BINS / (2.0 * LARGEST_LOGIT)
    for k in range(probabilities.size):
        weight = weights[k]
        if weight == 0.0:
            continue
        p = probabilities[k]
        log_p = math.log(max(p, 2.2250738585072014e-308))  # the least normal number
        log_not_p = math.log1p(-p) if 1.0 - p > least_doubt else math.log(least_doubt)
        positive = labels[k] > 0.0
        loss = -weight * (log_p if positive else log_not_p)
        miss = 1.0 - p if positive else p
        totals[_WEIGHT] += weight
        totals[_LOSS] += loss
        totals[_WINDOW_WEIGHT] += weight
        totals[_WINDOW_LOSS] += loss
        totals[_BRIER] += weight * miss * miss
        totals[_RIGHT] += weight * ((p > 0.5) == positive)
        if has_comparator:
            # Summed as differences: the two sums alone would be large and nearly equal.
            totals[_REGRET] += loss - weight * comparator_losses[k]
        place = (log_p - log_not_p + LARGEST_LOGIT) * per_logit
        slot = np.int64(min(max(place, 0.0), N_BINS - 1.0))
        if positive:
            positives[slot] += weight
        else:
            negatives[slot] += weight
        probability_sums[slot] += weight * p
        counts[0] += 1
        point = counts[1]
        if point < points.size and counts[0] == points[point]:
            curve[point, 0] = totals[_WEIGHT]
            curve[point, 1] = totals[_LOSS]
            curve[point, 2] = totals[_WINDOW_LOSS] / totals[_WINDOW_WEIGHT]
            curve[point, 3] = totals[_REGRET]
            totals[_WINDOW_WEIGHT] = 0.0
            totals[_WINDOW_LOSS] = 0.0
            counts[1] += 1


# ----------------------------------------------------------------------------------------------------
# Predict, then learn
# ----------------------------------------------------------------------------------------------------


def progressive(
    learner: Learner,
    batches: Iterable[Batch],
    *,
    truth: Any = None,
    link: str = "logistic",
    delay: int = 0,
    on_progress: Callable[[Meter], None] | None = None,
    curve_points: int = CURVE_POINTS,
) -> Evaluation:
    """Predict each example, score the prediction, then learn from the example.

    Args:
        learner: `learner.learn(batch)` gives P(y = 1) of each example before it was learned from.
        batches: examples with labels, once over.
        truth: weights to measure regret against: an array, or (weights, intercept), such as what
            `best_fixed_weights` returns.
        link: how `truth` makes probabilities.
        delay: example t is predicted when the labels of examples up to t - 1 - delay are known. The last
            `delay` examples are learned after the stream has ended.
        on_progress: called with the meter after each batch.
        curve_points: points of the curve per tenfold number of examples.
    """
    link_code = links.code(link)
    if not (isinstance(delay, int | np.integer) and delay >= 0):
        raise BadInput(f"delay is {delay!r}; it must be a whole number of examples >= 0.")
    comparator = None if truth is None else _as_truth(truth)
    predict_then_learn = _Delayed(learner, int(delay)) if delay else learner
    meter = Meter(regret=comparator is not None, curve_points=curve_points)
    for batch in batches:
        if batch.labels is None:
            raise BadInput("a batch has no labels; there is nothing to score its predictions against.")
        losses = None if comparator is None else _comparator_losses(batch, *comparator, link_code)
        probabilities = predict_then_learn.learn(batch)
        meter.add(
            probabilities,
            batch.labels,
            batch.weights,
            comparator_losses=losses,
            nonzeros=_counted_nonzeros(batch),
        )
        if on_progress is not None:
            on_progress(meter)
    if isinstance(predict_then_learn, _Delayed):
        predict_then_learn.finish()
    return meter.result()


def _counted_nonzeros(batch: Batch) -> int:
    if batch.weights is None:
        return batch.nonzeros
    return int(np.diff(batch.indptr)[batch.weights > 0].sum())


def _as_truth(truth: Any) -> tuple[np.ndarray, float]:
    weights, intercept = truth[:2] if isinstance(truth, tuple) else (truth, 0.0)
    try:
        weights, intercept = np.ascontiguousarray(weights, dtype=np.float64), float(intercept)
    except (TypeError, ValueError) as error:
        raise BadInput(f"truth must be an array of weights, or (weights, intercept): {error}.") from None
    if weights.ndim != 1 or not (np.isfinite(weights).all() and math.isfinite(intercept)):
        raise BadInput("truth must be a finite array of weights, one per feature, or (weights, intercept).")
    return weights, intercept


def _comparator_losses(batch: Batch, weights: np.ndarray, intercept: float, link: int) -> np.ndarray:
    _check_width(batch, len(weights), "truth has weights")
    return _losses(batch.indptr, batch.indices, batch.values, batch.labels, weights, intercept, link)


def _check_width(batch: Batch, n_features: int, what: str) -> None:
    if batch.max_index >= n_features:
        raise BadInput(f"feature {batch.max_index} was met, but {what} only for features below {n_features}.")


@njit(cache=True, nogil=True, error_model="numpy")
def _losses(indptr, indices, values, labels, weights, intercept, link):
    """-log F(y (x'w + intercept)) of each row."""
    losses = np.empty(labels.size)
    for row in range(labels.size):
        score = intercept
        for k in range(indptr[row], indptr[row + 1]):
            score += np.float64(values[k]) * weights[indices[k]]
        losses[row] = -links.log_cdf(link, score if labels[row] > 0.0 else -score)
    return losses


# ----------------------------------------------------------------------------------------------------
# Labels that come late
# ----------------------------------------------------------------------------------------------------


class _Delayed:
    """A learner that is told each label `delay` examples late.

    Still at full speed: what it learns is a batch of pairs, first example t with weight 0, which is predicted
    and changes nothing, then example t - delay with its own weight.
    """

    def __init__(self, learner: Learner, delay: int) -> None:
        self.learner, self.delay = learner, delay
        self.waiting: deque[Batch] = deque()
        self.n_waiting = 0

    def learn(self, batch: Batch) -> np.ndarray:
        if len(batch) == 0:
            return np.empty(0)
        self.waiting.append(batch)
        self.n_waiting += len(batch)
        due = self._take(min(len(batch), max(self.n_waiting - self.delay, 0)))
        pairs = _interleave(batch, due)
        # Before the first labels come due, an example stands alone.
        alone = len(batch) - len(due)
        predicted = np.concatenate([np.arange(alone), alone + 2 * np.arange(len(due))])
        return np.asarray(self.learner.learn(pairs))[predicted]

    def finish(self) -> None:
        """Learn what still waits for its label."""
        for batch in self.waiting:
            self.learner.learn(batch)
        self.waiting.clear()
        self.n_waiting = 0

    def _take(self, n: int) -> Batch:
        """The n examples that have waited longest."""
        self.n_waiting -= n
        parts = [self.waiting[0][:0]]
        while n:
            first = self.waiting.popleft()
            parts.append(first[:n])
            if len(first) > n:
                self.waiting.appendleft(first[n:])
            n -= len(parts[-1])
        return _concatenate(parts)


def _weights(batch: Batch) -> np.ndarray:
    return np.ones(len(batch)) if batch.weights is None else batch.weights


def _concatenate(parts: list[Batch]) -> Batch:
    starts = np.cumsum([0] + [part.nonzeros for part in parts])
    ends = [part.indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    return Batch.from_arrays(
        np.concatenate([[0], *ends]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([_weights(part) for part in parts]),
    )


def _interleave(batch: Batch, due: Batch) -> Batch:
    """Every row of the batch with weight 0; behind each of the last len(due) of them a row that is due."""
    dtype = np.result_type(batch.values, due.values)
    arrays = _interleave_rows(
        batch.indptr, batch.indices, batch.values.astype(dtype, copy=False), batch.labels,
        due.indptr, due.indices, due.values.astype(dtype, copy=False), due.labels, _weights(due),
    )  # fmt: skip
    return Batch.from_arrays(*arrays)


@njit(cache=True, nogil=True)
def _interleave_rows(indptr, indices, values, labels, due_indptr, due_indices, due_values, due_labels, due_weights):
    rows = labels.size + due_labels.size
    size = indices.size + due_indices.size
    new_indptr = np.zeros(rows + 1, np.int64)
    new_indices, new_values = np.empty(size, indices.dtype), np.empty(size, values.dtype)
    new_labels, new_weights = np.empty(rows), np.zeros(rows)
    alone = labels.size - due_labels.size
    at, k = 0, 0
    for row in range(labels.size):
        for j in range(indptr[row], indptr[row + 1]):
            new_indices[k], new_values[k] = indices[j], values[j]
            k += 1
        new_labels[at] = labels[row]
        at += 1
        new_indptr[at] = k
        late = row - alone
        if late < 0:
            continue
        for j in range(due_indptr[late], due_indptr[late + 1]):
            new_indices[k], new_values[k] = due_indices[j], due_values[j]
            k += 1
        new_labels[at], new_weights[at] = due_labels[late], due_weights[late]
        at += 1
        new_indptr[at] = k
    return new_indptr, new_indices, new_values, new_labels, new_weights


# ----------------------------------------------------------------------------------------------------
# The best fixed weights in hindsight
# ----------------------------------------------------------------------------------------------------


def best_fixed_weights(
    batches: Callable[[], Iterable[Batch]] | Iterable[Batch],
    n_features: int,
    link: str = "logistic",
    l2: float = 1e-3,
    intercept: bool = False,
) -> Hindsight:
    """The fixed weights with the least summed log loss + l2/2 |w|^2: what regret can be measured against.

    Found by L-BFGS, which goes over the data some hundred times: `batches` is a list, or a function that
    returns a fresh iterator each time. A little `l2` keeps weights finite that the data would drive to
    infinity, such as those of a feature which only ever came with one label. The intercept is not penalised.

    >>> from bayou import simulate
    >>> stream = simulate.random(n_features=5, active=0.5, seed=1)
    >>> best = best_fixed_weights(lambda: stream.batches(20_000), 5)
    >>> bool(np.abs(best.weights - stream.weights).max() < 0.15)
    True
    """
    from scipy.optimize import minimize

    link_code = links.code(link)
    if not 0.0 <= l2 < math.inf:
        raise BadInput(f"l2 is {l2!r}; it must be a finite number >= 0.")
    again = _fresh(batches)
    weight = sum(float(_weights(batch).sum()) for batch in again())
    if not weight:
        return Hindsight(np.zeros(n_features), 0.0, 0.0)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        loss, gradient = _loss_and_gradient(again(), point, link_code, intercept)
        loss += 0.5 * l2 * float(point[:-1] @ point[:-1])
        gradient[:-1] += l2 * point[:-1]
        # Per unit of weight, so that the tolerances mean the same for short and long streams.
        return loss / weight, gradient / weight

    tolerances = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 1e-9}
    best = minimize(objective, np.zeros(n_features + 1), jac=True, method="L-BFGS-B", options=tolerances).x
    loss, _ = _loss_and_gradient(again(), best, link_code, intercept)
    return Hindsight(best[:-1].copy(), float(best[-1]), loss)


def _fresh(batches: Any) -> Callable[[], Iterable[Batch]]:
    if callable(batches):
        return batches
    if isinstance(batches, Iterator):
        raise BadInput(
            "batches can be read only once, but the best weights take many readings; "
            "give a list, or a function that returns a fresh iterator."
        )
    return lambda: batches


def _loss_and_gradient(
    batches: Iterable[Batch], point: np.ndarray, link: int, intercept: bool
) -> tuple[float, np.ndarray]:
    """Summed log loss at weights point[:-1] and intercept point[-1], and its gradient."""
    loss = 0.0
    gradient = np.zeros_like(point)
    for batch in batches:
        if batch.labels is None:
            raise BadInput("a batch has no labels; weights cannot be fitted to it.")
        _check_width(batch, len(point) - 1, "there are weights")
        loss += _add_gradient(
            batch.indptr, batch.indices, batch.values, batch.labels, _weights(batch), point, link, gradient
        )
    if not intercept:
        gradient[-1] = 0.0
    return loss, gradient


@njit(cache=True, nogil=True, error_model="numpy")
def _add_gradient(indptr, indices, values, labels, weights, point, link, gradient):
    """Add d/dw sum c (-log F(y score)) = -sum c y slope(y score) x; the loss."""
    last = point.size - 1
    loss = 0.0
    for row in range(labels.size):
        score = point[last]
        for k in range(indptr[row], indptr[row + 1]):
            score += np.float64(values[k]) * point[indices[k]]
        y = 1.0 if labels[row] > 0.0 else -1.0
        loss -= weights[row] * links.log_cdf(link, y * score)
        pull = -weights[row] * y * links.slope(link, y * score)
        for k in range(indptr[row], indptr[row + 1]):
            gradient[indices[k]] += pull * np.float64(values[k])
        gradient[last] += pull
    return loss
