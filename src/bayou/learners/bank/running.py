"""Running a bank over rows: lanes first, those of pairs beside them, and behind them the combinations.

The lanes need nothing of the combinations: they go on with the next rows while those follow in another thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from bayou.core import threads
from bayou.core.batch import Batch
from bayou.core.learner import AT_ONCE
from bayou.core.prediction import Scores
from bayou.learners.bank.combination import Combination, combine, learn_sampled_rows
from bayou.learners.bank.dropping import Dropping
from bayou.learners.bank.groups import GroupPriors
from bayou.learners.bank.lanes import LaneState, run_lanes
from bayou.learners.bank.pairs import PairLanes
from bayou.learners.ensembles.delayed import N_LEARNED, RESTS, DelayBlock, DelayedRows, log_losses

# The combination follows the lanes this many rows behind.
STRIDE_ROWS = 1024
# From so many rows on, lanes of pairs work beside the others.
MIN_THREADED_ROWS = 128
NO_ROWS = np.zeros(0, np.int64)


class LabelledRows(NamedTuple):
    """Rows as kernels take them, those of weight 0 to be predicted alone."""

    batch: Batch
    signs: np.ndarray  # +-1
    weights: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.batch)

    @classmethod
    def unlabelled(cls, batch: Batch, dtype: str) -> LabelledRows:
        """Rows that are all to be predicted alone."""
        nothing = np.zeros(len(batch), dtype)
        return cls(batch, nothing, nothing)


class BankScores(NamedTuple):
    """What a bank says of some rows: for the next ones, and for later ones."""

    scores: Scores
    delayed: np.ndarray | None  # of sampled rows what was LOST, if it was said ahead, and the log-odds TOLD; else NaN


class LaneRunner:
    """Predicts and learns rows with all lanes of a bank."""

    def __init__(self, lanes: LaneState, groups: GroupPriors, pairs: PairLanes | None) -> None:
        self._lanes, self.groups, self.pairs = lanes, groups, pairs
        self._discarded: np.ndarray | None = None

    def empty_outputs(self, n_rows: int) -> np.ndarray:
        """Allocate what lanes say of some rows: mean and variance of the score in every lane."""
        n_pairs = 0 if self.pairs is None else len(self.pairs.lanes)
        return np.empty((n_rows, 2, self._lanes.width + n_pairs), self._lanes.state.dtype)

    def run(
        self,
        rows: LabelledRows,
        start: int,
        stop: int,
        examples: int,
        outputs: np.ndarray,
        stop_example: int = -1,
        renews: bool = True,
    ) -> tuple[int, int]:
        """Predict rows from `start` to `stop`, and learn from those that have a weight; fill their `outputs`.

        Args:
            examples: how many were learned before.
            stop_example: how many are learned at most, in all; -1 for any number.
            renews: whether priors are made anew as rows are learned.

        Returns:
            the next row, and how many examples were learned.
        """
        batch, signs, weights = rows
        groups = self.groups.of_batch(batch, learns=bool(weights.any()))
        lanes = self._lanes if renews else self._lanes._replace(renews=False)
        arrays = batch.indptr, batch.indices, batch.values, batch.longest, batch.ones, groups, signs, weights
        if self.pairs is None:
            return run_lanes(*arrays, lanes, start, stop, examples, stop_example, outputs)
        end: list[tuple[int, int]] = []

        def run() -> None:
            end.append(run_lanes(*arrays, lanes, start, stop, examples, stop_example, outputs))

        if stop_example >= 0 and examples + stop - start >= stop_example:  # nobody knows yet where it ends
            run()
            tasks = self.pairs.tasks(batch, groups, signs, weights, start, end[0][0], examples, outputs)
            threads.all_done(tasks, apart=False)
        else:
            tasks = self.pairs.tasks(batch, groups, signs, weights, start, stop, examples, outputs)
            threads.all_done([run, *tasks], apart=stop - start >= MIN_THREADED_ROWS)
        return end[0]

    def discarded_outputs(self, n_rows: int) -> np.ndarray:
        """Return memory for outputs that nobody reads; it is the same one every time."""
        if self._discarded is None or len(self._discarded) < n_rows:
            self._discarded = self.empty_outputs(max(n_rows, AT_ONCE))
        return self._discarded[:n_rows]

    def learn(self, rows: LabelledRows, examples: int) -> np.ndarray:
        """Return what lanes say of rows, each just before it is learned."""
        if rows.weights.any():
            self.groups.rebase_fade()
        outputs = self.empty_outputs(rows.n_rows)
        self.run(rows, 0, rows.n_rows, examples, outputs)
        return outputs

    def predict(self, batch: Batch, examples: int) -> np.ndarray:
        """Return what lanes say of rows, none of which they learn."""
        return self.learn(LabelledRows.unlabelled(batch, self._lanes.state.dtype.name), examples)


class _Run(NamedTuple):
    """Rows, and what is filled as they are run."""

    rows: LabelledRows
    outputs: np.ndarray
    combination: Combination  # which says what the scores are
    scores: Scores
    delayed: np.ndarray | None = None  # of the combination for later rows; None where that learns nothing
    queue: threads.Together | None = None  # where what follows the lanes is left to be done


class BankRunner:
    """Predicts and learns rows with a bank: lanes, combinations, and what is dropped on the way."""

    def __init__(
        self, lanes: LaneRunner, live: Combination, later: Combination, delayed: DelayedRows, dropping: Dropping
    ) -> None:
        self._lanes, self._live, self._later, self._delayed, self._dropping = lanes, live, later, delayed, dropping
        self.n_examples_before = 0  # of the stream before the bank's first, for one that joins others

    def learn(
        self, rows: LabelledRows, outputs: np.ndarray, examples: int, queue: threads.Together | None = None
    ) -> BankScores:
        """Predict rows, and learn from them after so many examples; what follows the lanes may be left to a queue."""
        if learns := bool(rows.weights.any()):
            self._lanes.groups.rebase_fade()
        learns_delayed = learns and not self._delayed.progress[RESTS] and self._later.kept.any()
        delayed = np.full((2, rows.n_rows), np.nan) if learns_delayed else None
        run = _Run(rows, outputs, self._live, _empty_scores(rows.n_rows), delayed, queue)
        row = 0
        while row < rows.n_rows:
            stop_example = self._dropping.next_stop(examples)
            row, examples = self._run_to_stop(run, row, examples, stop_example)
            if examples == stop_example:
                if queue is not None:
                    queue.rest()
                self._dropping.at_stop(stop_example)
        return BankScores(run.scores, delayed)

    def predict(self, rows: LabelledRows, combination: Combination, examples: int) -> Scores:
        """Predict rows of weight 0 by one of the combinations."""
        run = _Run(rows, self._lanes.empty_outputs(rows.n_rows), combination, _empty_scores(rows.n_rows))
        self._run_to_stop(run, 0, examples, -1)
        return run.scores

    def count_losses(
        self, signs: np.ndarray, weights: np.ndarray, expected: np.ndarray, delayed: np.ndarray, examples: int
    ) -> None:
        """Count the losses of rows as they were learned, and of those that were predicted ahead."""
        self._delayed.add(log_losses(signs, expected), weights, delayed, examples)

    def compile(self, dtype: str) -> None:
        """Have what follows the lanes compiled, by no rows."""
        nothing, outputs, scores = np.zeros(0, dtype), self._lanes.empty_outputs(0), np.empty(0)
        combine(outputs, nothing, nothing, self._live, 0, 0, 0, scores, scores, scores)
        self._learn_sampled(outputs, nothing, nothing, NO_ROWS, False, np.empty((2, 0)))

    def _run_to_stop(self, run: _Run, row: int, examples: int, stop_example: int) -> tuple[int, int]:
        """Run rows from `row` on until `stop_example` examples were learned; return the next row, examples learned."""
        rows, queue, n_rows = run.rows, run.queue, run.rows.n_rows
        following: list[Future[None]] = []
        # Of many rows long strides are enough; and pairs work beside the lanes, which wait at the end of a stride.
        is_long = self._lanes.pairs is not None or n_rows > AT_ONCE
        stride = n_rows if queue is not None else 4 * STRIDE_ROWS if is_long else STRIDE_ROWS

        def follow(*work: Any) -> None:
            if queue is not None:
                queue.do(*work)
            elif following or row < n_rows:
                following.append(threads.follower().submit(*work))
            else:
                work[0](*work[1:])

        try:
            for block in self._blocks(run, row, examples, stop_example):
                sampled, ahead = block.sampled, len(block.sampled) > 0 and block.n_examples > 1
                delayed_outputs = self._lanes.predict(rows.batch.take(sampled), examples) if ahead else run.outputs
                while row < block.stop and examples != stop_example:
                    start, before, stop = row, examples, min(row + stride, block.stop)
                    row, examples = self._lanes.run(rows, start, stop, before, run.outputs, stop_example)
                    labels = rows.signs, rows.weights
                    follow(combine, run.outputs, *labels, run.combination, start, row, before, *run.scores[:3])
                if len(sampled):
                    follow(self._learn_sampled, delayed_outputs, rows.signs, rows.weights, sampled, ahead, run.delayed)
        finally:
            for part in following:
                part.result()
        return row, examples

    def _blocks(self, run: _Run, row: int, examples: int, stop_example: int) -> Iterable[DelayBlock]:
        if run.delayed is None:
            return [DelayBlock(row, run.rows.n_rows, 0, NO_ROWS)]
        before = self.n_examples_before
        stop_example += before if stop_example >= 0 else 0
        return self._delayed.blocks(run.rows.weights, before + examples, row, stop_example)

    def _learn_sampled(self, outputs: Any, signs: Any, weights: Any, sampled: Any, ahead: bool, delayed: Any) -> None:
        """Have the combination for later rows learn from `sampled` rows (`learn_sampled_rows`)."""
        progress = self._delayed.progress
        progress[N_LEARNED] = learn_sampled_rows(
            outputs, signs, weights, sampled, ahead, self._later, progress[N_LEARNED], delayed
        )


def _empty_scores(n_rows: int) -> Scores:
    return Scores(np.empty(n_rows), np.empty(n_rows), np.empty(n_rows))
