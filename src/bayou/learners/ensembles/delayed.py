"""Delayed rows, and the expected loss on later rows.

Some rows of each block are predicted before the first row of the block is learned, without any nearby labels. They
train a combination for a model that has stopped learning, and give an estimate of the loss on later rows.

After t examples a block has max(1, min(t // 8, MAX_BLOCK_EXAMPLES, rows available)) examples, and each of its rows is
sampled with probability min(1, MAX_SAMPLED / t). Rows that come one at a time have no delay.

**The expected loss on later rows.** The mean over the last half of the stream of d = delayed loss - live loss of the
sampled rows estimates how much worse the frozen model is. The tally sums d in buckets of t (four per doubling).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel
from bayou.kernels.random import in_sample

# The first MAX_SAMPLED rows are all sampled, row t after that with probability MAX_SAMPLED / t.
MAX_SAMPLED = 16384
# A block has at most 1 / BLOCK_DIVISOR of the examples so far, and at most MAX_BLOCK_EXAMPLES.
BLOCK_DIVISOR, MAX_BLOCK_EXAMPLES = 8, 8192
# This many delayed rows are enough to predict later ones, whatever the number of examples.
ENOUGH_ROWS = 1024
# Lower bound of probabilities when losses are compared.
MIN_PROBABILITY = 1e-14
BUCKETS_PER_OCTAVE, OCTAVES = 4, 48
# Columns of the tally: sums over learned rows of weighted losses and of weights; then over sampled rows of the weighted
# gap between delayed and live loss, of its square, and of weights.
LOSSES, WEIGHTS, LOSS_GAPS, LOSS_GAP_SQUARES, SAMPLED_WEIGHTS = range(5)
# Progress: number of delayed rows the later combination has learned, and of repeated rows; number of finished passes
# over the rows that follow, which are new if it is 0.
N_LEARNED, N_PASSES = range(2)


class LaterLoss(NamedTuple):
    """The online loss over the last half of a stream, and the expected loss on later rows.

    >>> LaterLoss(learned=0.438, expected=0.497, error=0.004, rows=9000).differs
    True
    """

    learned: float  # mean loss, each row predicted before it was learned
    expected: float  # estimated mean loss on rows that come after learning has stopped
    error: float  # standard error of the difference between the two
    rows: float  # sum of the weights of the rows that the difference was measured on
    measure: str = "log loss"  # or squared loss, for regression

    @property
    def differs(self) -> bool:
        """True if the loss on later rows is clearly higher: by more than 2% and three standard errors."""
        gap = self.expected - self.learned
        return gap > 0.02 * self.learned and gap > 3.0 * self.error

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {name: getattr(self, name) for name in ("learned", "expected", "error", "differs", "measure")}


class DelayBlock(NamedTuple):
    """Block of rows whose sampled rows are predicted before any of it is learned."""

    start: int
    stop: int
    n_examples: int
    sampled: np.ndarray  # rows to predict before the first one is learned


class DelayedRows:
    """Progress of a combination for later rows, and the tally of their expected loss.

    Args:
        measure: name of the loss that the tally sums.
        max_sampled: number of first rows that are all sampled.
    """

    def __init__(self, measure: str = "log loss", max_sampled: int = MAX_SAMPLED) -> None:
        self._measure, self._max_sampled = measure, max_sampled
        self.progress = np.zeros(2)
        # A row for each bucket of t; rows of zeros are left out of files.
        self.tally = np.zeros((BUCKETS_PER_OCTAVE * OCTAVES, SAMPLED_WEIGHTS + 1))

    def blocks(self, weights: np.ndarray, examples: int) -> Iterator[DelayBlock]:
        """Yield the delay blocks of some rows, before which `examples` examples were learned."""
        row = 0
        while row < len(weights):
            end, size, sampled = next_delay_block(weights, row, examples, -1, self._max_sampled)
            yield DelayBlock(row, end, size, sampled)
            row, examples = end, examples + size

    def add(self, live: np.ndarray, weights: np.ndarray, delayed: np.ndarray, examples: int) -> None:
        """Add the live and the delayed losses of rows to the tally; a delayed loss of NaN means that there is none."""
        add_to_tally(self.tally, live, weights, delayed, examples)

    def has_learned_enough(self, examples: int) -> bool:
        """Return whether the combination for later rows has learned enough rows to be used after this many examples."""
        return bool(self.progress[N_LEARNED] >= min(examples, ENOUGH_ROWS))

    def reset(self, n_learned: float) -> None:
        """Clear the tally, for a combination that has learned `n_learned` rows."""
        self.progress[:], self.tally[:] = (n_learned, 0.0), 0.0

    def loss(self) -> LaterLoss | None:
        """Return the loss over the last half of all rows and on later ones; None before any row was sampled."""
        sums = np.cumsum(self.tally[::-1], axis=0)
        last_half = sums[int(np.searchsorted(sums[:, WEIGHTS], sums[-1, WEIGHTS] / 2.0))]
        loss, weight, gap, squared, sampled = last_half.tolist()
        if not (sampled > 0.0 and weight > 0.0):
            return None
        learned, mean = loss / weight, gap / sampled
        error = math.sqrt(max(squared / sampled - mean * mean, 0.0) / sampled)
        return LaterLoss(learned, learned + mean, error, sampled, self._measure)


def block_size(examples: int) -> int:
    """Return the size of the block that begins after this many examples, if enough rows are available.

    >>> block_size(0), block_size(2000), block_size(10**6)
    (1, 250, 8192)
    """
    return max(1, min(examples // BLOCK_DIVISOR, MAX_BLOCK_EXAMPLES))


_block_size = kernel(block_size)


@kernel
def next_delay_block(weights, row, examples, stop, max_sampled=MAX_SAMPLED):
    """Return the end of the next block, its number of examples, and its sampled rows; `examples` came before it.

    Whether a row is sampled depends only on its number in the stream. Rows of weight 0 do not count. A block ends when
    `stop` examples will have been learned.
    """
    before, size = examples, _block_size(examples)
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
    """Add the live losses, and for rows whose delayed loss is not NaN the gap between the two."""
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
            tally[bucket, LOSS_GAPS] += c * gap
            tally[bucket, LOSS_GAP_SQUARES] += c * gap * gap
            tally[bucket, SAMPLED_WEIGHTS] += c
