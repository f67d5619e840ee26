"""Progressive evaluation: every example is predicted before it is learned.

`progressive` runs a learner over any iterable of batches, in one pass and in memory that does not grow with
the stream. `predict_then_learn` is its step, for runs that do more between batches (`bayou.runs`). The meters do the
scoring.

Regret, with known true weights w* or the best fixed weights in hindsight (marginal-gaussian, section 4):

    R_T = sum_t [ -log p_t(y_t) + log F(y_t x_t'w*) ]          r_T = R_T / ln T

For regression, squared losses replace log losses, here and elsewhere.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayou.core import links
from bayou.core.batch import Batch, check_is_batch, require_labels
from bayou.core.checks import check_callable, check_choice, check_int
from bayou.core.errors import BadInput
from bayou.core.learner import Learner
from bayou.core.registry import Record
from bayou.core.threads import SerialExecutor
from bayou.evaluate.base_meter import CURVE_POINTS
from bayou.evaluate.hindsight import check_width
from bayou.evaluate.meters import METERS, meter_for
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel


class PredictsThenLearns(Protocol):
    """Learner that predicts each example of a batch before it learns it."""

    def learn(self, batch: Batch) -> np.ndarray:
        """Learn the examples, and return P(y = 1) of each (regression: its mean), predicted before it was learned."""


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
        learner: `learner.learn(batch)` must return P(y = 1) of each example, or its mean, predicted before learning it.
        batches: labeled examples, read once.
        truth: weights to measure regret against: an array, or (weights, intercept), as `best_fixed_weights` returns.
        link: link function of `truth`.
        delay: number of examples by which labels are late: example t is predicted when the labels up to t - 1 - delay
            are available. The last `delay` examples are learned after the stream has ended.
        on_progress: called with the meter after each batch.
        curve_points: points of the curve per tenfold number of examples.
        task: "binary", "multiclass" (`learn` returns a column of probabilities for each class, labeled from 0) or
            "regression"; by default that of the learner's record, or else "binary".

    Returns:
        An `Evaluation`, `ClassEvaluation` or `RegressionEvaluation`, depending on the task.

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
    check_choice("task", task, METERS)
    link_code = _SQUARES if task == "regression" else links.link_code(link)
    if task == "multiclass" and truth is not None:
        raise BadInput("truth is one vector of weights, but each of several classes has its own; omit truth.")
    delay = check_int("delay", delay, 0)
    comparator = None if truth is None else _as_truth(truth)
    learns: Any = DelayedLabels(learner, delay) if delay else learner
    meter = meter_for(task, regret=comparator is not None, curve_points=curve_points)
    check_callable("on_progress", on_progress)
    for batch in require_labels([batches] if isinstance(batches, Batch) else batches):
        losses = None if comparator is None else comparator_losses(batch, *comparator, link_code)
        predict_then_learn(learns, batch).score(meter, comparator_losses=losses)
        if on_progress is not None:
            on_progress(meter)
    if isinstance(learns, DelayedLabels):
        learns.finish()
    return meter.result()


class PredictedBatch(NamedTuple):
    """Predictions of the examples of a batch, made before they were learned.

    >>> from bayou.evaluate import Meter
    >>> meter = Meter()
    >>> PredictedBatch(Batch.from_rows([{}], labels=[1]), np.array([0.5])).score(meter)
    >>> round(meter.result().log_loss, 3)
    0.693
    """

    batch: Batch
    prediction: Any  # a prediction object, or an array of P(y = 1) or means from learners without `observe`

    @property
    def expected(self) -> np.ndarray:
        """The expected labels (binary: P(y = 1)); for multiclass, the class probabilities."""
        return self.prediction if isinstance(self.prediction, np.ndarray) else self.prediction.expected

    def score(self, meter: Any, **extra: Any) -> None:
        """Add the predictions to a meter."""
        add = meter.add if isinstance(self.prediction, np.ndarray) else meter.add_prediction
        add(self.prediction, self.batch.labels, self.batch.weights, nonzeros=self.batch.counted_nonzeros, **extra)


def predict_then_learn(learner: Any, batch: Batch, behind: SerialExecutor | None = None) -> PredictedBatch:
    """Do one step of `progressive`: predict each example, then learn from it, and return the predictions.

    With `behind`, part of the work is deferred to it; only its later tasks may use the result (`Learner.observe`).

    >>> from bayou.learners import Marginal
    >>> told = predict_then_learn(Marginal(n_features=2), Batch.from_rows([{0: 1.0}, {0: 1.0}], labels=[1, 1]))
    >>> float(told.expected[0]), bool(told.expected[1] > 0.5)
    (0.5, True)
    """
    check_is_batch(batch)
    learns = learner.learner if isinstance(learner, DelayedLabels) else learner
    if isinstance(learner, Learner):
        return PredictedBatch(batch, learner.observe(batch, behind))
    if hasattr(learns, "observe"):
        return PredictedBatch(batch, learner.observe(batch))
    if not hasattr(learns, "learn"):
        raise BadInput(f"a learner needs a method `learn`, which {type(learns).__name__} does not have.")
    return PredictedBatch(batch, np.asarray(learner.learn(batch)))


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
    """Return the loss of fixed weights on each example, to measure regret against. `link` is one of their codes.

    >>> batch = Batch.from_rows([{0: 1.0}, {1: 1.0}], labels=[1, 0])
    >>> comparator_losses(batch, np.array([0.0, 0.0]), 0.0, links.LOGISTIC).round(3)
    array([0.693, 0.693])
    """
    (batch,), (weights, intercept) = require_labels([batch]), _as_truth((weights, intercept))
    check_width(batch, len(weights), "truth has weights")
    link = check_int("link", link, _SQUARES, max(links.LINKS.values()))
    return _losses(batch.indptr, batch.indices, batch.values, batch.labels, weights, intercept, link)


# Used instead of a link's code: squared loss of the score.
_SQUARES = -1


@kernel
def _losses(indptr, indices, values, labels, weights, intercept, link):
    """Return -log F(y (x'w + intercept)) of each row, or (y - (x'w + intercept))^2."""
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


class DelayedLabels:
    """Wrapper of a learner that delays each label by `delay` examples.

    It runs at full speed: the learner gets a batch of pairs, first example t with weight 0, which is predicted and
    changes nothing, then example t - delay with its own weight.
    """

    def __init__(self, learner: PredictsThenLearns, delay: int) -> None:
        self.learner, self.delay = learner, delay
        self.waiting: deque[Batch] = deque()
        self.n_waiting = 0

    def learn(self, batch: Batch) -> np.ndarray:
        """Return P(y = 1) of each example, or its mean, and learn the examples whose labels are due."""
        pairs, predicted = self._next(batch)
        return np.asarray(self.learner.learn(pairs))[predicted]

    def observe(self, batch: Batch) -> Any:
        """Return the full prediction of each example, and learn the examples whose labels are due."""
        if hasattr(self.learner, "check"):
            self.learner.check(batch)  # invalid examples must not enter the queue
        pairs, predicted = self._next(batch)
        return self.learner.observe(pairs).take(predicted)  # type: ignore[attr-defined]

    def _next(self, batch: Batch) -> tuple[Batch, np.ndarray]:
        """Return the batch to learn now, and the positions of this batch's rows in it."""
        if len(batch) == 0:
            return batch, np.arange(0)
        self.waiting.append(batch)
        self.n_waiting += len(batch)
        due = self._pop_oldest(min(len(batch), max(self.n_waiting - self.delay, 0)))
        # Until the first labels are due, examples are not paired.
        alone = len(batch) - len(due)
        return _interleave(batch, due), np.concatenate([np.arange(alone), alone + 2 * np.arange(len(due))])

    def finish(self) -> None:
        """Learn the examples that still wait for their labels."""
        for batch in self.waiting:
            self.learner.learn(batch)
        self.waiting.clear()
        self.n_waiting = 0

    def _pop_oldest(self, n: int) -> Batch:
        """Remove and return the n examples that have waited longest."""
        self.n_waiting -= n
        batches = [self.waiting[0][:0]]
        while n:
            first = self.waiting.popleft()
            batches.append(first[:n])
            if len(first) > n:
                self.waiting.appendleft(first[n:])
            n -= len(batches[-1])
        return Batch.concatenate(batches)


def _interleave(batch: Batch, due: Batch) -> Batch:
    """Return the batch with weights 0, and a due row after each of its last len(due) rows."""
    n, alone = len(batch), len(batch) - len(due)
    both = Batch.concatenate([batch, due])
    weights = np.concatenate([np.zeros(n), due.weights_or_ones()])
    order = np.insert(np.arange(n), np.arange(alone, n) + 1, n + np.arange(len(due)))
    return both.with_labels(both.labels, weights).take(order)
