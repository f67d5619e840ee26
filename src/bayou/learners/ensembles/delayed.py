"""Delayed rows, and what to expect of later ones.

Some rows of each block are predicted before the first row of it is learned, so that no label near them is known. They
teach a combination for a model that has stopped learning, and tell what later rows will cost.

With t examples so far a block has max(1, min(t // 8, MAX_BLOCK_EXAMPLES, rows at hand)) examples, and of its rows each
is sampled with probability min(1, MAX_SAMPLED / t). Rows that come one by one have no delay.

**What to expect on later rows.** In the mean over the last half of the stream, d = delayed loss - live loss of the
sampled rows says how much more the frozen model costs. The tally sums it up, in buckets of t (four per doubling).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.random import in_sample
from bayou.kernels.room import empty

# All of the first rows are sampled, later ones with a chance of this over their number.
MAX_SAMPLED = 16384
# A block has this part of the examples so far, and no more than so many.
BLOCK_DIVISOR, MAX_BLOCK_EXAMPLES = 8, 8192
# So many rows settle how to predict later ones, whatever the number of examples.
ENOUGH_ROWS = 1024
# A probability below this counts as this much, where losses are compared.
MIN_PROBABILITY = 1e-14
BUCKETS_PER_OCTAVE, OCTAVES = 4, 48
# Columns of the tally: sums over learned rows of weighted losses and of weights; then over sampled rows of the weighted
# gap between delayed and live loss, of its square, and of weights.
LOSSES, WEIGHTS, GAPS, GAPS_SQUARED, SAMPLED_WEIGHTS = range(5)
# Progress: how many delayed rows the later combination has learned; 1 while it rests, as the data come again.
N_LEARNED, RESTS = range(2)


class LaterLoss(NamedTuple):
    """The loss over the last half of a stream as it was learned, and what later rows are expected to cost.

    >>> LaterLoss(learned=0.438, expected=0.497, error=0.004, rows=9000).differs
    True
    """

    learned: float  # mean loss, each row predicted before it was learned
    expected: float  # of rows that come after learning has stopped
    error: float  # standard error of the difference between the two
    rows: float  # that the difference was measured on
    measure: str = "log loss"  # or squared loss, of numbers

    @property
    def differs(self) -> bool:
        """Whether later rows cost clearly more: by 2 % and by three standard errors."""
        gap = self.expected - self.learned
        return gap > 0.02 * self.learned and gap > 3.0 * self.error

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that JSON shows."""
        return {name: getattr(self, name) for name in ("learned", "expected", "error", "differs", "measure")}


class DelayBlock(NamedTuple):
    """Rows that are learned before any of the combination's delayed outputs are."""

    start: int
    stop: int
    n_examples: int
    sampled: np.ndarray  # the rows of it to predict before its first one is learned


class DelayedRows:
    """The progress of a combination for later rows, and the tally of what those will cost.

    Args:
        measure: the loss that the tally adds up, in words.
        max_sampled: how many of the first rows are all sampled.
    """

    def __init__(self, measure: str = "log loss", max_sampled: int = MAX_SAMPLED) -> None:
        self._measure, self._max_sampled = measure, max_sampled
        self.progress = np.zeros(2)
        # A row for each bucket of t; as zeros, which files leave out.
        self.tally = np.zeros((BUCKETS_PER_OCTAVE * OCTAVES, SAMPLED_WEIGHTS + 1))

    def blocks(self, weights: np.ndarray, examples: int, row: int = 0, stop: int = -1) -> Iterator[DelayBlock]:
        """Yield the delay blocks from `row` on, after so many examples, until `stop` are learned (-1: never)."""
        while row < len(weights) and examples != stop:
            end, size, sampled = next_delay_block(weights, row, examples, stop, self._max_sampled)
            yield DelayBlock(row, end, size, sampled)
            row, examples = end, examples + size

    def add(self, live: np.ndarray, weights: np.ndarray, delayed: np.ndarray, examples: int) -> None:
        """Count the live losses of rows after so many examples, and the delayed ones; NaN where there is none."""
        add_to_tally(self.tally, live, weights, delayed, examples)

    def has_learned_enough(self, examples: int) -> bool:
        """Whether the combination for later rows has learned enough of so many examples to answer."""
        return bool(self.progress[N_LEARNED] >= min(examples, ENOUGH_ROWS))

    def reset(self, n_learned: float) -> None:
        """Start anew, with a combination that has learned so many rows."""
        self.progress[:], self.tally[:] = (n_learned, 0.0), 0.0

    def loss(self) -> LaterLoss | None:
        """Return the loss over the last half of all rows and that of later ones; None before any row was sampled."""
        sums = np.cumsum(self.tally[::-1], axis=0)
        last_half = sums[int(np.searchsorted(sums[:, WEIGHTS], sums[-1, WEIGHTS] / 2.0))]
        loss, weight, gap, squared, sampled = last_half.tolist()
        if not (sampled > 0.0 and weight > 0.0):
            return None
        learned, mean = loss / weight, gap / sampled
        error = math.sqrt(max(squared / sampled - mean * mean, 0.0) / sampled)
        return LaterLoss(learned, learned + mean, error, sampled, self._measure)


@kernel
def next_delay_block(weights, row, examples, stop, max_sampled=MAX_SAMPLED):
    """Return the end of the next block, how many examples it has, and its sampled rows, after so many examples.

    Which rows are sampled is a function of their numbers alone. Rows of weight 0 do not count. A block ends where
    `stop` examples will have been learned.
    """
    before, size = examples, max(1, min(examples // BLOCK_DIVISOR, MAX_BLOCK_EXAMPLES))
    last = examples + size if stop < 0 else min(examples + size, stop)
    sampled = empty(min(size, weights.size - row), np.int64)
    n = 0
    while row < weights.size and examples < last:
        if weights[row] != 0:
            examples += 1
            if in_sample(examples, max_sampled):
                sampled[n] = row
                n += 1
        row += 1
    return row, examples - before, sampled[:n]


@kernel
def log_losses(signs, probability):
    """Return the log loss of each label, given the probability that it is positive."""
    losses = np.empty(probability.size)
    for row in range(probability.size):
        p = probability[row] if signs[row] > 0 else 1.0 - probability[row]
        losses[row] = -math.log(max(p, MIN_PROBABILITY))
    return losses


def class_log_losses(probability: np.ndarray) -> np.ndarray:
    """Return the log loss of each row, given the probability of its own class."""
    losses: np.ndarray = -np.log(np.maximum(probability, MIN_PROBABILITY))
    return losses


@kernel
def add_to_tally(tally, live, weights, delayed, examples):
    """Add live losses, and for rows whose delayed loss is a number how much more that was."""
    bucket, ends = 0, 0.0
    for row in range(live.size):
        c = np.float64(weights[row])
        if c == 0.0:
            continue
        examples += 1
        if examples >= ends:
            bucket = min(int(BUCKETS_PER_OCTAVE * math.log2(examples) + 1e-9), tally.shape[0] - 1)
            ends = 2.0 ** ((bucket + 1) / BUCKETS_PER_OCTAVE)
        tally[bucket, LOSSES] += c * live[row]
        tally[bucket, WEIGHTS] += c
        if not math.isnan(delayed[row]):
            gap = delayed[row] - live[row]
            tally[bucket, GAPS] += c * gap
            tally[bucket, GAPS_SQUARED] += c * gap * gap
            tally[bucket, SAMPLED_WEIGHTS] += c
