"""Running a multiclass learner over rows: each class's learner separately, then the stacks on all their outputs."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.class_prediction import ClassScores
from bayou.core.learner import Learner
from bayou.core.threads import run_all
from bayou.learners.bank import Bank
from bayou.learners.bank.combination import DELAYED_LOG_ODDS, DELAYED_LOSS
from bayou.learners.bank.running import LabelledRows
from bayou.learners.classes.compact_index import SharedBatch
from bayou.learners.classes.members import ALL_CLASSES, OWN_CLASS, Members
from bayou.learners.classes.parallel import MIN_THREADED_CELLS, StackedRows, StackRunner
from bayou.learners.classes.stack_inputs import StackOutputs, StackState, new_stack_inputs, new_stack_outputs
from bayou.learners.ensembles.delayed import N_LEARNED, N_PASSES, DelayedRows, class_log_losses


class StackedOutputs(NamedTuple):
    """The outputs of each learner that are stacked: none for learners other than banks, and for light banks."""

    width: int  # of the lane outputs
    lane_of: np.ndarray  # the lane of each output
    spread: np.ndarray  # C8 kp

    @classmethod
    def of(cls, learner: Learner, light: bool) -> StackedOutputs:
        width = learner._lanes.width if isinstance(learner, Bank) else 0
        if not isinstance(learner, Bank) or light:
            return cls(width, np.zeros(0, np.int64), np.zeros(0, learner.parameters["dtype"]))
        combination = learner._combination
        return cls(width, combination.lane_of, combination.output_damping[combination.slots])


class _Chunk(NamedTuple):
    """Rows that all learners learn, and the results that are filled meanwhile."""

    batch: Batch  # by rows of the members' index
    rows: StackedRows
    delayed: np.ndarray  # of each class, as `BankScores.delayed`


class ClassRunner:
    """Predicts and learns rows with the learners of all classes and the stacks on top of them.

    Args:
        members: the learners.
        stacked: those of their outputs that are stacked.
        live: the stack for the next row; later: the one for later rows.
        delayed: the progress and the tally of delayed rows.
        certain: whether learners give no variances.
        max_classes: maximum number of classes; n_given: number of classes given at the start.
    """

    def __init__(
        self,
        members: Members,
        stacked: StackedOutputs,
        live: StackState,
        later: StackState,
        delayed: DelayedRows,
        certain: bool,
        max_classes: int,
        n_given: int,
    ) -> None:
        self._members, self._stacked, self._delayed, self._certain = members, stacked, delayed, certain
        self._live, self._later = StackRunner(live, certain), StackRunner(later, certain, follows=False)
        self._max_classes, self._n_given = max_classes, n_given

    def learn(self, batch: Batch, numbers: np.ndarray, weights: np.ndarray, examples: int) -> ClassScores:
        """Predict rows, then learn from them; a class joins at its first row, after that row was predicted."""
        members, n_rows, before = self._members, len(batch), len(self._members)
        # classes join
        fresh = np.flatnonzero((numbers >= before) & (weights > 0))
        joins = fresh[np.unique(numbers[fresh], return_index=True)[1]]
        placed = SharedBatch.of(members.index.reindex(batch, weights))
        for row in joins.tolist():
            members.join(float(np.asarray(batch.labels)[row]))
        members.resize()
        n_classes, starts = len(members), [0] * before + joins.tolist()
        seen = examples + np.concatenate([[0], np.cumsum(weights > 0)])  # examples before each row
        # every learner alone
        taught = weights * (self._delayed.progress[N_PASSES] == 0)
        inputs = new_stack_inputs(self._live.stack, n_rows, n_classes, *self._stacked)
        outputs = new_stack_outputs(2, n_rows, n_classes)
        chunk = _Chunk(placed, StackedRows(inputs, numbers, weights, outputs), np.full((n_classes, 2, n_rows), np.nan))
        work = [partial(self._collect_outputs, chunk, k, start, int(seen[start])) for k, start in enumerate(starts)]
        run_all(work, parallel=n_rows * n_classes >= MIN_THREADED_CELLS)
        # the stacks: the live one, then that for later rows
        rows, edges = chunk.rows._replace(weights=taught), [0, *(joins + 1).tolist(), n_rows]
        later = np.full(n_rows, np.nan)
        for n_joined, first, last in zip(range(before, n_classes + 1), edges, edges[1:], strict=False):
            self._live.run(rows, n_joined, int(seen[first]), first, last)
            delayed = chunk.delayed[:n_joined, :, first:last]
            kept = first + np.flatnonzero(~np.isnan(delayed[:, DELAYED_LOG_ODDS]).any(axis=0)) if n_joined else []
            if len(kept):
                log_odds = chunk.delayed[:n_joined, DELAYED_LOG_ODDS, kept].T
                stacked = self._stack_later(log_odds, numbers[kept], taught[kept])
                ahead = ~np.isnan(chunk.delayed[:n_joined, DELAYED_LOSS, kept]).any(axis=0)
                later[kept[ahead]] = _of_own(stacked.probability, numbers[kept])[ahead]
                self._delayed.progress[N_LEARNED] += np.count_nonzero(taught[kept])
        # counters
        unseen = self._unseen(before + np.searchsorted(joins, np.arange(n_rows)), seen[:-1])
        members.learned[:, OWN_CLASS] += np.bincount(numbers[weights > 0], minlength=n_classes)
        if isinstance(members.like, Bank) and taught.any():
            live, later = (
                class_log_losses(np.where(p == 0.0, unseen, p * (1.0 - unseen)))
                for p in (_of_own(outputs.probability, numbers), later)
            )
            self._delayed.add(live, taught, later, examples)
        return ClassScores(outputs.probability, outputs.mean, None if self._certain else outputs.variance, unseen)

    def predict_later(self, batch: Batch, examples: int) -> ClassScores:
        """Predict rows with the banks' combinations for later rows and the stack on top of these."""
        n_rows, learners = len(batch), self._members.learners
        nothing = np.zeros(n_rows, learners[0].parameters["dtype"])
        placed = self._members.index.reindex(batch, nothing)
        log_odds, own = np.empty((2, n_rows, len(learners)))

        def ask(k: int) -> None:
            scores = learners[k]._predict_later(placed)
            log_odds[:, k], own[:, k] = learners[k].wrap_scores(scores).log_odds, scores.variance

        run_all([partial(ask, k) for k in range(len(learners))], parallel=n_rows * len(learners) >= MIN_THREADED_CELLS)
        stacked = self._stack_later(log_odds, np.full(n_rows, -1), nothing, own)
        unseen = self._unseen(np.full(n_rows, len(learners)), examples)
        return ClassScores(stacked.probability, stacked.mean, stacked.variance, unseen)

    def _collect_outputs(self, chunk: _Chunk, number: int, start: int, examples: int) -> None:
        """Predict and learn rows from `start` on with one learner, after `examples` examples; store its outputs."""
        learner, rows = self._members.learners[number], slice(start, len(chunk.batch))
        batch = chunk.batch if start == 0 else chunk.batch[rows]
        inputs, numbers, weights, outputs = chunk.rows
        signs = np.where(numbers[rows] == number, 1.0, -1.0).astype(learner._dtype)
        learner._examples = int(self._members.learned[number, ALL_CLASSES])
        if isinstance(learner, Bank):
            learner._runner.n_examples_before = examples - learner._examples
            labelled = LabelledRows(batch, signs, weights[rows])
            scores, delayed = learner._runner.learn(labelled, inputs.lane_outputs[number, rows], learner._examples)
            if delayed is not None:
                chunk.delayed[number][:, rows] = delayed
        else:
            scores = learner._run(batch, signs, weights[rows])
        learner._examples += int(np.count_nonzero(weights[rows]))
        self._members.learned[number, ALL_CLASSES] = learner._examples
        inputs.log_odds[number, rows] = learner.wrap_scores(scores).log_odds
        if scores.variance is not None:
            outputs.learner_variances[rows, number] = scores.variance

    def _stack_later(
        self, log_odds: np.ndarray, numbers: np.ndarray, weights: np.ndarray, own: Any = 0.0
    ) -> StackOutputs:
        """Run banks' log-odds, shape (rows, classes), through the stack for later rows."""
        n_rows, n_classes = log_odds.shape
        nothing = np.zeros(0, np.int64), np.zeros(0, self._stacked.spread.dtype)
        inputs = new_stack_inputs(self._later.stack, n_rows, n_classes, 0, *nothing)
        outputs = new_stack_outputs(1, n_rows, n_classes)
        outputs.learner_variances[:] = own
        inputs.log_odds[:] = log_odds.T
        self._later.run(StackedRows(inputs, numbers, weights, outputs), n_classes, 0, 0, n_rows)
        return outputs

    def _unseen(self, n_known: Any, examples: Any) -> np.ndarray:
        """Return the probability reserved for further classes; those given at the start count as seen once."""
        return np.where(n_known < self._max_classes, 1.0 / (1.0 + self._n_given + examples), 0.0)


def _of_own(probability: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the probability of each row's own class; 0 if it has no column yet, or the row has no class."""
    has_column = (numbers >= 0) & (numbers < probability.shape[1])
    if not probability.shape[1]:
        return np.zeros(len(numbers))
    return np.where(has_column, probability[np.arange(len(numbers)), np.where(has_column, numbers, 0)], 0.0)
