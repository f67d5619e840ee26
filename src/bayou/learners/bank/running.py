"""Running a bank over rows: the lanes first, lanes of pairs beside them, and then the combinations.

Lanes do not depend on the combinations: they continue with the next rows while those follow in another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from bayou.core import threads
from bayou.core.batch import Batch
from bayou.core.learner import LEARN_CHUNK_ROWS
from bayou.core.prediction import Scores
from bayou.kernels.row_layout import batch_arrays
from bayou.learners.bank.combination import DELAYED_LOSS, Combination, add_gaps, combine, learn_sampled_rows
from bayou.learners.bank.dropping import GAPS, LOSS, MEASURES, Dropping, HeadTwin
from bayou.learners.bank.groups import GroupPriors
from bayou.learners.bank.head import Head
from bayou.learners.bank.lanes import STREAM_WEIGHT, LaneState, run_lanes
from bayou.learners.bank.pairs import PairLanes
from bayou.learners.ensembles.delayed import N_LEARNED, N_PASSES, DelayBlock, DelayedRows, log_losses

# The combination follows the lanes this many rows behind.
STRIDE_ROWS = 1024
# Minimum number of rows for which lanes of pairs run in threads beside the others.
MIN_THREADED_ROWS = 128
NO_ROWS = np.zeros(0, np.int64)
# Weight of rows in the lanes by the number of passes before, the last for all further ones: repeated rows of full
# weight would make lanes too certain.
REPEATED_WEIGHTS = (1.0, 0.2, 0.1)


class LabelledRows(NamedTuple):
    """Rows as kernels take them; rows of weight 0 are only predicted."""

    batch: Batch
    signs: np.ndarray  # +-1
    weights: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.batch)

    @classmethod
    def unlabelled(cls, batch: Batch, dtype: str) -> LabelledRows:
        """Return rows that are all only predicted."""
        nothing = np.zeros(len(batch), dtype)
        return cls(batch, nothing, nothing)


class BankScores(NamedTuple):
    """Scores of some rows by the live combination, and results of the one for later rows."""

    scores: Scores
    delayed: np.ndarray | None  # rows DELAYED_LOSS (if predicted ahead) and DELAYED_LOG_ODDS, of sampled rows; else NaN


class LaneRunner:
    """Predicts and learns rows with all lanes of a bank."""

    def __init__(self, lanes: LaneState, groups: GroupPriors, pairs: PairLanes | None, head: Head | None) -> None:
        self._lanes, self.groups, self.pairs, self.head = lanes, groups, pairs, head
        self.width = lanes.width + sum(len(beside.lanes) for beside in (pairs, head) if beside is not None)
        self._discarded: np.ndarray | None = None
        self.stream = lanes.stream

    def empty_outputs(self, n_rows: int) -> np.ndarray:
        """Allocate lane outputs for some rows: mean and variance of the score in every lane."""
        return np.empty((n_rows, 2, self.width), self._lanes.state.dtype)

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
        """Predict rows in [start, stop), then learn from those with nonzero weight; fill their `outputs`.

        Args:
            examples: number of examples learned before.
            stop_example: number of examples, in all, at which to stop; -1 for no limit.
            renews: whether priors are recomputed as rows are learned.

        Returns:
            the next row, and the number of examples learned in all.
        """
        batch, signs, weights = rows
        groups = self.groups.of_batch(batch, learns=bool(weights.any()))
        lanes = self._lanes if renews else self._lanes._replace(should_renew_priors=False)
        arrays = batch_arrays(batch, signs, weights)
        end: list[tuple[int, int]] = []

        def run() -> None:
            end.append(run_lanes(arrays, groups, lanes, start, stop, examples, stop_example, outputs))

        def tasks(last: int) -> list[Callable[[], Any]]:
            beside = [] if self.pairs is None else self.pairs.tasks(arrays, groups, start, last, examples, outputs)
            return beside + ([] if self.head is None else self.head.tasks(arrays, groups, start, last, outputs))

        if stop_example >= 0 and examples + stop - start >= stop_example:  # where it ends is not known yet
            run()
            threads.run_all(tasks(end[0][0]), parallel=False)
        else:
            threads.run_all([run, *tasks(stop)], parallel=stop - start >= MIN_THREADED_ROWS)
        return end[0]

    @property
    def is_threaded(self) -> bool:
        """True if other lanes run beside the bank's own, in threads."""
        return self.pairs is not None or self.head is not None

    def discarded_outputs(self, n_rows: int) -> np.ndarray:
        """Return a reusable buffer for outputs that are not read."""
        if self._discarded is None or len(self._discarded) < n_rows:
            self._discarded = self.empty_outputs(max(n_rows, LEARN_CHUNK_ROWS))
        return self._discarded[:n_rows]

    def learn(self, rows: LabelledRows, examples: int) -> np.ndarray:
        """Learn rows, and return their lane outputs, each computed just before its row is learned."""
        if rows.weights.any():
            self.groups.rebase_fade()
        outputs = self.empty_outputs(rows.n_rows)
        self.run(rows, 0, rows.n_rows, examples, outputs)
        return outputs

    def predict(self, batch: Batch, examples: int) -> np.ndarray:
        """Return the lane outputs of rows without learning from them."""
        return self.learn(LabelledRows.unlabelled(batch, self._lanes.state.dtype.name), examples)


class _Run(NamedTuple):
    """Rows, and the results that are filled as they run."""

    rows: LabelledRows
    outputs: np.ndarray
    combination: Combination  # that computes the scores
    scores: Scores
    delayed: np.ndarray | None = None  # results of the combination for later rows; None if it does not learn
    queue: threads.WorkQueue | None = None  # for deferred work that follows the lanes


class BankRunner:
    """Predicts and learns rows with a bank: lanes, combinations, and the dropping of outputs."""

    def __init__(
        self, lanes: LaneRunner, live: Combination, later: Combination, delayed: DelayedRows, dropping: Dropping
    ) -> None:
        self._lanes, self._live, self._later, self._delayed, self._dropping = lanes, live, later, delayed, dropping
        self.n_examples_before = 0  # examples of the stream before the bank's first, if it joined late

    def learn(
        self, rows: LabelledRows, outputs: np.ndarray, examples: int, queue: threads.WorkQueue | None = None
    ) -> BankScores:
        """Predict rows, then learn from them; work that follows the lanes may be deferred to `queue`."""
        if learns := bool(rows.weights.any()):
            self._lanes.groups.rebase_fade()
        n_passes = int(self._delayed.progress[N_PASSES])
        if n_passes:  # the combinations rest
            weight = REPEATED_WEIGHTS[min(n_passes, len(REPEATED_WEIGHTS) - 1)]
            rows = rows._replace(weights=rows.weights * rows.weights.dtype.type(weight))
            self._delayed.progress[N_LEARNED] += np.count_nonzero(rows.weights)
        learns_delayed = learns and not n_passes and self._later.is_kept.any()
        delayed = np.full((2, rows.n_rows), np.nan) if learns_delayed else None
        run = _Run(rows, outputs, self._live, _empty_scores(rows.n_rows), delayed, queue)
        weight_before = float(self._lanes.stream[STREAM_WEIGHT])
        self._run(run, examples, stops=learns and not n_passes)
        if n_passes:  # losses are those of new rows, and so is the weight that they are divided by
            self._lanes.stream[STREAM_WEIGHT] = weight_before
        return BankScores(run.scores, delayed)

    def predict(self, rows: LabelledRows, combination: Combination, examples: int) -> Scores:
        """Predict rows of weight 0 with one of the combinations."""
        run = _Run(rows, self._lanes.empty_outputs(rows.n_rows), combination, _empty_scores(rows.n_rows))
        self._run(run, examples, stops=False)
        head = self._lanes.head
        if head is None or not head.live or combination is self._live:
            return run.scores
        return head.describe_later(run.scores, run.outputs)

    def count_losses(
        self, signs: np.ndarray, weights: np.ndarray, expected: np.ndarray, delayed: np.ndarray, examples: int
    ) -> None:
        """Add the live losses of rows, and the delayed losses of those predicted ahead, to the tally."""
        self._delayed.add(log_losses(signs, expected), weights, delayed, examples)

    def compile(self, dtype: str) -> None:
        """Compile the kernels that follow the lanes, by running them on no rows."""
        nothing, outputs, scores = np.zeros(0, dtype), self._lanes.empty_outputs(0), np.empty(0)
        combine(outputs, nothing, nothing, self._live, 0, 0, 0, scores, scores, scores)
        self._learn_sampled(outputs, nothing, nothing, NO_ROWS, False, np.empty((2, 0)))

    def _run(self, run: _Run, examples: int, stops: bool) -> None:
        """Run rows; if `stops`, outputs may be dropped at fixed numbers of examples, within delay blocks, too."""
        rows, queue, n_rows, row = run.rows, run.queue, run.rows.n_rows, 0
        stop_example = self._dropping.next_stop(examples) if stops else -1
        labels = rows.signs, np.zeros_like(rows.weights) if self._delayed.progress[N_PASSES] else rows.weights
        following: list[Future[None]] = []
        # Long strides suffice for many rows; and the lanes wait for those of pairs at the end of each stride.
        is_long = self._lanes.is_threaded or n_rows > LEARN_CHUNK_ROWS
        stride = n_rows if queue is not None else 4 * STRIDE_ROWS if is_long else STRIDE_ROWS

        def submit_combine(*work: Any) -> None:
            if queue is not None:
                queue.submit(*work)
            elif following or row < n_rows:
                following.append(threads.pipeline_executor().submit(*work))
            else:
                work[0](*work[1:])

        try:
            for block in self._blocks(run, examples):
                sampled, ahead = block.sampled, len(block.sampled) > 0 and block.n_examples > 1
                delayed_outputs = self._lanes.predict(rows.batch.take(sampled), examples) if ahead else run.outputs
                while row < block.stop:
                    start, before, stop = row, examples, min(row + stride, block.stop)
                    row, examples = self._lanes.run(rows, start, stop, before, run.outputs, stop_example)
                    submit_combine(combine, run.outputs, *labels, run.combination, start, row, before, *run.scores[:3])
                    twin = self._dropping.twin if stops else None
                    if twin is not None and twin.progress[MEASURES]:
                        submit_combine(_measure, run, twin, start, row, before)
                    if examples == stop_example:
                        if queue is not None:
                            queue.drain()
                        while following:
                            following.pop(0).result()
                        self._dropping.at_stop(stop_example)
                        stop_example = self._dropping.next_stop(examples)
                if len(sampled):
                    submit_combine(
                        self._learn_sampled, delayed_outputs, rows.signs, rows.weights, sampled, ahead, run.delayed
                    )
        finally:
            for future in following:
                future.result()

    def _blocks(self, run: _Run, examples: int) -> Iterable[DelayBlock]:
        if run.delayed is None:
            return [DelayBlock(0, run.rows.n_rows, 0, NO_ROWS)]
        return self._delayed.blocks(run.rows.weights, self.n_examples_before + examples)

    def _learn_sampled(self, outputs: Any, signs: Any, weights: Any, sampled: Any, ahead: bool, delayed: Any) -> None:
        """Update the combination for later rows from `sampled` rows (`learn_sampled_rows`)."""
        progress, twin = self._delayed.progress, self._dropping.twin
        rows = outputs, signs, weights, sampled, ahead
        for later in (self._later,) if twin is None else (self._later, twin.later):
            results = delayed if later is self._dropping.later else np.empty_like(delayed)
            n_learned = learn_sampled_rows(*rows, later, progress[N_LEARNED], results)
        if ahead and (head := self._lanes.head) is not None and head.live:
            losses = delayed[DELAYED_LOSS, sampled]
            head.later_gaps += head.later_gaps_of(
                outputs, signs[sampled], weights[sampled], losses, progress[N_LEARNED]
            )
        progress[N_LEARNED] = n_learned


def _measure(run: _Run, twin: HeadTwin, first: int, last: int, examples: int) -> None:
    """Run the rows through the live combination without the head, too, and compare the losses."""
    labels, scores = (run.rows.signs, run.rows.weights), _empty_scores(run.rows.n_rows)
    combine(run.outputs, *labels, twin.live, first, last, examples, *scores[:3])
    add_gaps(*labels, run.scores.expected, scores.expected, first, last, twin.progress[GAPS : LOSS + 1])


def _empty_scores(n_rows: int) -> Scores:
    return Scores(np.empty(n_rows), np.empty(n_rows), np.empty(n_rows))
