"""Evaluate a learner as it learns: every example is predicted before it is learned from.

`progressive` runs a learner over any iterable of batches, in one pass and in memory that does not grow with
the stream. `predict_then_learn` is its step, for runs that have more to do between two batches (`bayou.runs`), and
`Meter` is the part that scores.

Regret, with known true weights w* or the best fixed weights in hindsight (marginal-gaussian, section 4):

    R_T = sum_t [ -log p_t(y_t) + log F(y_t x_t'w*) ]          r_T = R_T / ln T

For a regressor, squared losses stand in the place of log losses, here and everywhere.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayou.core import links
from bayou.core.batch import Batch, check_is_batch, labelled
from bayou.core.checks import function, one_of, whole_number
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.registry import Record
from bayou.core.threads import InTurn
from bayou.evaluate.base_meter import CURVE_POINTS
from bayou.evaluate.hindsight import check_width
from bayou.evaluate.meters import METERS, meter_for
from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty


class PredictsThenLearns(Protocol):
    def learn(self, batch: Batch) -> np.ndarray:
        """P(y = 1) of each example (a regressor: its predicted mean), from before it was learned from."""


def progressive(
    learner: PredictsThenLearns,
    batches: Iterable[Batch] | Batch,
    *,
    truth: Any = None,
    link: str = "logistic",
    delay: int = 0,
    on_progress: Callable[[Any], None] | None = None,
    curve_points: int = CURVE_POINTS,
    task: str | None = None,
) -> Any:
    """Predict each example, score the prediction, then learn from the example.

    Args:
        learner: `learner.learn(batch)` gives P(y = 1) of each example, or its mean, before it was learned from.
        batches: examples with labels, once over.
        truth: weights to measure regret against: an array, or (weights, intercept), such as what
            `best_fixed_weights` returns.
        link: how `truth` makes probabilities.
        delay: example t is predicted when the labels of examples up to t - 1 - delay are known. The last
            `delay` examples are learned after the stream has ended.
        on_progress: called with the meter after each batch.
        curve_points: points of the curve per tenfold number of examples.
        task: "binary", "multiclass" (`learn` gives a column of probabilities for each class, labelled from 0) or
            "regression"; taken from the record of a learner of bayou.

    Returns an `Evaluation`, for several classes a `ClassEvaluation`, for a regressor a `RegressionEvaluation`.

    >>> from bayou import simulate
    >>> class Coin:
    ...     def learn(self, batch):
    ...         return np.full(len(batch), 0.5)
    >>> stream = simulate.random(n_features=200, active=0.1)
    >>> result = progressive(Coin(), stream.batches(10_000), truth=stream.weights)
    >>> round(result.log_loss, 4), result.auc, result.regret > 1000
    (0.6931, 0.5, True)
    """
    if task is None:
        record = getattr(learner, "record", None)
        task = record.task if isinstance(record, Record) else "binary"
    one_of("task", task, METERS)
    link_code = _SQUARES if task == "regression" else links.code(link)
    if task == "multiclass" and truth is not None:
        raise BadInput("truth is one vector of weights, and each of several classes has its own; leave it out.")
    delay = whole_number("delay", delay, 0)
    comparator = None if truth is None else _as_truth(truth)
    learns: Any = Delayed(learner, delay) if delay else learner
    meter = meter_for(task, regret=comparator is not None, curve_points=curve_points)
    function("on_progress", on_progress)
    for batch in labelled([batches] if isinstance(batches, Batch) else batches):
        losses = None if comparator is None else comparator_losses(batch, *comparator, link_code)
        predict_then_learn(learns, batch).score(meter, comparator_losses=losses)
        if on_progress is not None:
            on_progress(meter)
    if isinstance(learns, Delayed):
        learns.finish()
    return meter.result()


class Told(NamedTuple):
    """What was said of each example of a batch before it was learned from.

    >>> from bayou.evaluate import Meter
    >>> meter = Meter()
    >>> Told(Batch.from_rows([{}], labels=[1]), np.array([0.5])).score(meter)
    >>> round(meter.result().log_loss, 3)
    0.693
    """

    batch: Batch
    said: Any  # a prediction; of learners that do not say more, P(y = 1) or what else is expected, as an array

    @property
    def expected(self) -> np.ndarray:
        """The expected labels; of several classes, the probabilities."""
        return self.said if isinstance(self.said, np.ndarray) else self.said.expected

    def score(self, meter: Any, **more: Any) -> None:
        """Add it to a meter."""
        add = meter.add if isinstance(self.said, np.ndarray) else meter.add_prediction
        add(self.said, self.batch.labels, self.batch.weights, nonzeros=self.batch.counted_nonzeros, **more)


def predict_then_learn(learner: Any, batch: Batch, behind: InTurn | None = None) -> Told:
    """One step of `progressive`: each example is predicted, then learned from.

    What it gives is for those who come next in the thread of `behind`, if there is one (`Learner.observe`).

    >>> from bayou.learners import Marginal
    >>> told = predict_then_learn(Marginal(n_features=2), Batch.from_rows([{0: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> float(told.expected[0]), bool(told.expected[1] > 0.5)
    (0.5, True)
    """
    check_is_batch(batch)
    learns = learner.learner if isinstance(learner, Delayed) else learner
    if isinstance(learner, Learner):
        return Told(batch, learner.observe(batch, behind))
    if hasattr(learns, "observe"):
        return Told(batch, learner.observe(batch))
    if not hasattr(learns, "learn"):
        raise BadInput(f"a learner has a method `learn`, which {type(learns).__name__} has not.")
    return Told(batch, np.asarray(learner.learn(batch)))


def _as_truth(truth: Any) -> tuple[np.ndarray, float]:
    weights, intercept = truth[:2] if isinstance(truth, tuple) else (truth, 0.0)
    try:
        weights, intercept = np.ascontiguousarray(weights, dtype=np.float64), float(intercept)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"truth must be an array of weights, or (weights, intercept): {error}.") from None
    if weights.ndim != 1 or not (np.isfinite(weights).all() and math.isfinite(intercept)):
        raise BadInput("truth must be a finite array of weights, one per feature, or (weights, intercept).")
    return weights, intercept


def comparator_losses(batch: Batch, weights: np.ndarray, intercept: float, link: int) -> np.ndarray:
    """The loss of fixed weights on each example: what regret is measured against. `link` is one of its codes.

    >>> batch = Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[1, 0])
    >>> comparator_losses(batch, np.array([0.0, 0.0]), 0.0, links.LOGISTIC).round(3)
    array([0.693, 0.693])
    """
    (batch,), (weights, intercept) = labelled([batch]), _as_truth((weights, intercept))
    check_width(batch, len(weights), "truth has weights")
    link = whole_number("link", link, _SQUARES, max(links.LINKS.values()))
    return _losses(batch.indptr, batch.indices, batch.values, batch.labels, weights, intercept, link)


# In the place of a link's code: the score is a number to be compared with the label.
_SQUARES = -1


@kernel
def _losses(indptr, indices, values, labels, weights, intercept, link):
    """-log F(y (x'w + intercept)) of each row, or (y - (x'w + intercept))^2."""
    losses = empty(labels.size, np.float64)
    for row in range(labels.size):
        score = intercept
        for k in range(indptr[row], indptr[row + 1]):
            score += np.float64(values[k]) * weights[indices[k]]
        if link == _SQUARES:
            losses[row] = (labels[row] - score) ** 2
        else:
            losses[row] = -links.log_cdf(links.of_label(link, labels[row]), score if labels[row] > 0.0 else -score)
    return losses


class Delayed:
    """A learner that is told each label `delay` examples late.

    Still at full speed: what it learns is a batch of pairs, first example t with weight 0, which is predicted
    and changes nothing, then example t - delay with its own weight.
    """

    def __init__(self, learner: PredictsThenLearns, delay: int) -> None:
        self.learner, self.delay = learner, delay
        self.waiting: deque[Batch] = deque()
        self.n_waiting = 0

    def learn(self, batch: Batch) -> np.ndarray:
        """As a learner's own: P(y = 1) of each example, or its mean."""
        pairs, predicted = self._next(batch)
        return np.asarray(self.learner.learn(pairs))[predicted]

    def observe(self, batch: Batch) -> Any:
        """As a learner's own."""
        if hasattr(self.learner, "check"):
            self.learner.check(batch)  # nothing may wait that will be refused
        pairs, predicted = self._next(batch)
        return self.learner.observe(pairs).take(predicted)  # type: ignore[attr-defined]

    def _next(self, batch: Batch) -> tuple[Batch, np.ndarray]:
        """What to learn now, and which of its rows are the batch's."""
        if len(batch) == 0:
            return batch, np.arange(0)
        self.waiting.append(batch)
        self.n_waiting += len(batch)
        due = self._take(min(len(batch), max(self.n_waiting - self.delay, 0)))
        # Before the first labels come due, an example stands alone.
        alone = len(batch) - len(due)
        return _interleave(batch, due), np.concatenate([np.arange(alone), alone + 2 * np.arange(len(due))])

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
        return Batch.concatenate(parts)


def _interleave(batch: Batch, due: Batch) -> Batch:
    """Every row of the batch with weight 0; behind each of the last len(due) of them a row that is due."""
    n, alone = len(batch), len(batch) - len(due)
    both = Batch.concatenate([batch, due])
    weights = np.concatenate([np.zeros(n), due.each_weight()])
    order = np.insert(np.arange(n), np.arange(alone, n) + 1, n + np.arange(len(due)))
    return both.with_labels(both.labels, weights).take(order)
