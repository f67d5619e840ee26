"""A second combination of the bank's outputs, for a model that has stopped learning.

The live combination answers for the next example, with every label told: it leans on lanes that remember little, on a
stacker that forgets, on shares that follow. A model that is trained and then only predicts has none of that. This one
(a `Combination` of its own, beside the live one, nothing per feature) answers for later examples:

    outputs     those of lanes without memory
    evidence    L_k = sum log p_k(y), w_k ~ exp(L_k): Bayes, without fixed share. Kept as losses, never as shares
    stacker     the one that does not forget; Bayes between it and the mixture

and it learns from **delayed** outputs: what lanes said of a row before its whole block of rows was learned. With t
examples so far a block has max(1, min(t/8, 8192, rows at hand)) rows, and of its rows each is kept with probability
min(1, 16384/t). Rows that come one by one have no delay.

**What to expect on later rows.** In the mean over the last half of the stream, d = delayed loss - live loss of the kept
rows says how much more the frozen model costs: `Tally` sums it up, in buckets of t (four for each doubling).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayou.core.links import C8
from bayou.kernels.compiling import kernel
from bayou.kernels.random import in_sample
from bayou.kernels.room import empty
from bayou.learners.bank.combination import (
    DAMPED_MEMORY,
    SCORE,
    combined,
    learn_damping,
    learn_stackers,
    scratch_for,
)

KEPT, SHARE, MOST = 16384, 8, 8192
# The best output with a variance has a share of at least exp(-FARTHEST), which changes no probability.
FARTHEST = 230.0
BUCKETS_PER_OCTAVE, OCTAVES = 4, 48
# Columns of the tally: sums over learned rows, then over kept ones.
LOSS, WEIGHT, GAP, GAP_SQUARED, KEPT_WEIGHT = range(5)
# Rows of what is said of kept examples; NaN of all others.
LOST, TOLD = range(2)


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
        """As JSON can say it."""
        return {name: getattr(self, name) for name in ("learned", "expected", "error", "differs", "measure")}


def new_tally() -> np.ndarray:
    """A row for each bucket of t; as zeros, which files leave out."""
    return np.zeros((BUCKETS_PER_OCTAVE * OCTAVES, 5))


def later_loss(tally: np.ndarray) -> LaterLoss | None:
    """Of the buckets that hold the last half of all rows; None before any row was kept."""
    sums = np.cumsum(tally[::-1], axis=0)
    last_half = sums[int(np.searchsorted(sums[:, WEIGHT], sums[-1, WEIGHT] / 2.0))]
    loss, weight, gap, squared, kept = last_half.tolist()
    if not (kept > 0.0 and weight > 0.0):
        return None
    learned, mean = loss / weight, gap / kept
    error = math.sqrt(max(squared / kept - mean * mean, 0.0) / kept)
    return LaterLoss(learned, learned + mean, error, kept)


@kernel
def next_block(weights, row, examples, stop, keep=KEPT):
    """(The first row behind the next block, how many examples it has, its rows that are kept), after so many examples.

    Which rows are kept, all of the first `keep`, is a function of their numbers alone. Rows of weight 0 do not count.
    A block ends where `stop` examples will have been learned.
    """
    before, size = examples, max(1, min(examples // SHARE, MOST))
    last = examples + size if stop < 0 else min(examples + size, stop)
    kept = empty(min(size, weights.size - row), np.int64)
    n = 0
    while row < weights.size and examples < last:
        if weights[row] != 0:
            examples += 1
            if in_sample(examples, keep):
                kept[n] = row
                n += 1
        row += 1
    return row, examples - before, kept[:n]


@kernel
def renew_shares(into):
    """Shares from evidence, of outputs and of the last level."""
    room, n_outputs, n_finals, losses = into.shares.size, into.lane_of.size, into.final_shares.size, into.losses[0]
    shares, kept, final_shares, knows = into.shares, into.kept, into.final_shares, into.knows
    least = least_known = np.inf
    for o in range(2, n_outputs + 2):
        if kept[o] > 0.0:
            least = min(least, losses[o])
            if knows[o] > 0.0:
                least_known = min(least_known, losses[o])
    # Variances are those of the outputs that know theirs, by their evidence, however far AdaGrad is ahead of them.
    far = max(least_known - least - FARTHEST, 0.0) if least_known < np.inf else 0.0
    whole = 0.0
    for o in range(2, n_outputs + 2):
        ahead = least - losses[o] + (far if knows[o] > 0.0 else 0.0)
        shares[o] = math.exp(ahead) if kept[o] > 0.0 else 0.0
        whole += shares[o]
    for o in range(2, n_outputs + 2):
        shares[o] /= whole
    least = losses[room + 1]
    for j in range(1, n_finals):
        least = min(least, losses[room + 1 + j])
    whole = 0.0
    for j in range(n_finals):
        final_shares[j] = math.exp(least - losses[room + 1 + j])
        whole += final_shares[j]
    for j in range(n_finals):
        final_shares[j] /= whole


@kernel
def learn_delayed(said, signs, weights, rows, ahead, into, counted, delayed):
    """Learn from what lanes said of `rows`. `into` is a `Combination`. How many rows were learned so far.

    `ahead` tells whether `said` has these rows alone, as they were said ahead; then the log losses of what was said by
    this combination are left in `delayed[LOST]`. Otherwise it has all rows, said without delay. `delayed[TOLD]` gets
    the log-odds that it said, either way.
    """
    means, covariances = into.stacker_mean.reshape(-1), into.stacker_covariance.reshape(-1)
    room, n_finals, width, told = into.shares.size, into.final_shares.size, said.shape[2], said.reshape(-1)
    here = scratch_for(into, said)
    summed, kept, damping, n_outputs = into.losses[0], into.kept, into.damping, into.lane_of.size
    chances, final_chances = here.chances, here.final_chances
    for n in range(rows.size):
        row = rows[n]
        c, y = np.float64(weights[row]), np.float64(signs[row])
        place = (n if ahead else row) * 2 * width
        _, _, sure_plus, sure_minus, variance = combined(into, here, told, place, width, means, covariances)
        counted += 1
        learn_damping(into, here, 0.0, counted)
        damping[SCORE] += (math.sqrt(1.0 + C8 * variance) - 1.0 - damping[SCORE]) * max(1.0 / counted, DAMPED_MEMORY)
        positive = y > 0.0
        label, final_label = (0, 0) if positive else (room, n_finals)
        lost = -math.log((sure_plus if positive else sure_minus) / (sure_plus + sure_minus))
        summed[room] += c * lost
        delayed[TOLD, row] = math.log(sure_plus / sure_minus)
        if ahead:
            delayed[LOST, row] = lost
        for o in range(2, n_outputs + 2):
            if kept[o] > 0.0:
                summed[o] -= c * math.log(chances[label + o])
        for j in range(n_finals):
            summed[room + 1 + j] -= c * math.log(final_chances[final_label + j])
        learn_stackers(into, here, means, covariances, final_label, y, c)
        renew_shares(into)
    return counted


@kernel
def log_losses(signs, probability):
    """Of the labels, each predicted with this probability of the positive one."""
    losses = np.empty(probability.size)
    for row in range(probability.size):
        p = probability[row] if signs[row] > 0 else 1.0 - probability[row]
        losses[row] = -math.log(max(p, 1e-14))
    return losses


@kernel
def count(tally, live, weights, delayed, examples):
    """Add the losses of what was learned, and of kept rows (whose delayed loss is a number) how much more that was."""
    bucket, ends = 0, 0.0
    for row in range(live.size):
        c = np.float64(weights[row])
        if c == 0.0:
            continue
        examples += 1
        if examples >= ends:
            bucket = min(int(BUCKETS_PER_OCTAVE * math.log2(examples) + 1e-9), tally.shape[0] - 1)
            ends = 2.0 ** ((bucket + 1) / BUCKETS_PER_OCTAVE)
        tally[bucket, LOSS] += c * live[row]
        tally[bucket, WEIGHT] += c
        if not math.isnan(delayed[row]):
            gap = delayed[row] - live[row]
            tally[bucket, GAP] += c * gap
            tally[bucket, GAP_SQUARED] += c * gap * gap
            tally[bucket, KEPT_WEIGHT] += c
