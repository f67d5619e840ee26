"""A second combination of the bank's outputs, for a model that has stopped learning.

The live combination answers for the next example, with every label told: it leans on lanes that remember little, on a
stacker that forgets, on shares that follow. A model that is trained and then only predicts has none of that. This one
(a `Combination` of its own, beside the live one, nothing per feature) answers for later examples:

    outputs     those of lanes without memory by use; one that fades by time, over ten thousand examples, is among them
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

from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, log
from bayou.kernels.inlining import inlined
from bayou.kernels.random import in_sample
from bayou.kernels.room import empty, zeros
from bayou.kernels.vector import LANES, fill, highest, load, store, total, where_above
from bayou.learners.bank.combination import SCORE
from bayou.learners.bank.levels import (
    BLOCK,
    CHANCE,
    DAMPED_MEMORY,
    FIELDS,
    MINUS,
    ODDS,
    OTHER,
    PLUS,
    SHARE,
    SHRINK,
    WEIGHT,
    Y,
    conclude,
    hear,
    learn_damping,
    mix,
    new_block,
    next_shares,
    say,
    stack,
)

KEPT, EIGHTH, MOST = 16384, 8, 8192
# The best output with a variance has a share of at least exp(-FARTHEST), which changes no probability.
FARTHEST = 230.0
# Who is this far behind has no share at all, rather than one that is no normal number.
NOTHING, NEVER = 690.0, 1e300
BUCKETS_PER_OCTAVE, OCTAVES = 4, 48
# Columns of the tally: sums over learned rows, then over kept ones.
LOSSES, WEIGHTS, GAPS, GAPS_SQUARED, KEPT_WEIGHTS = range(5)
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
    last_half = sums[int(np.searchsorted(sums[:, WEIGHTS], sums[-1, WEIGHTS] / 2.0))]
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
    before, size = examples, max(1, min(examples // EIGHTH, MOST))
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


@inlined
def _renew(losses, at_loss, kept, knows, shares, at_share, room):
    """Shares from evidence."""
    zero = fill(load(losses, 0), 0.0)
    none = zero - NEVER
    most = most_known = none
    for at in range(0, room, LANES):
        gained = where_above(load(kept, at), 0.0, load(losses, at_loss + at) * -1.0, none)
        most, most_known = max(most, gained), max(most_known, where_above(load(knows, at), 0.0, gained, none))
    best, best_known = highest(most), highest(most_known)
    # Variances are those of the outputs that know theirs, by their evidence, however far AdaGrad is ahead of them.
    far = max(best - best_known - FARTHEST, 0.0) if best_known > -NEVER else 0.0
    whole = zero
    for at in range(0, room, LANES):
        behind = where_above(load(knows, at), 0.0, zero + far, zero) - load(losses, at_loss + at) - best
        share = where_above(behind, -NOTHING, exp2(behind * LOG2E), zero)
        share = where_above(load(kept, at), 0.0, share, zero)
        whole = whole + share
        store(shares, at_share + at, share)
    part = 1.0 / total(whole)
    for at in range(0, room, LANES):
        store(shares, at_share + at, load(shares, at_share + at) * part)


@kernel
def renew_shares(into):
    """Shares from evidence, of outputs and of the last level."""
    room, finals, all_finals = into.shares.size, zeros(LANES, np.float64), zeros(LANES, np.float64)
    final_shares, losses = into.final_shares, into.losses[0]
    for j in range(final_shares.size):
        all_finals[1 + j] = 1.0
    _renew(losses, 0, into.kept, into.knows, into.shares, 0, room)
    _renew(losses, room, all_finals, all_finals, finals, 0, LANES)
    for j in range(final_shares.size):
        final_shares[j] = finals[1 + j]


@inlined
def _bayes(lines, numbers, losses, at_loss, kept, knows, room, r):
    """The shares after row r, from all losses so far."""
    line, c = r * FIELDS * room, numbers[WEIGHT + r]
    of_label = line + (PLUS * room if numbers[Y + r] > 0.0 else MINUS * room)
    for at in range(0, room, LANES):
        loss = load(losses, at_loss + at)
        more = where_above(load(kept, at), 0.0, loss - log(load(lines, of_label + at)) * c, loss)
        store(losses, at_loss + at, more)
    _renew(losses, at_loss, kept, knows, lines, line + (FIELDS + SHARE) * room, room)


@kernel
def learn_delayed(said, signs, weights, rows, ahead, into, counted, delayed):
    """Learn from what lanes said of `rows`. `into` is a `Combination`. How many rows were learned so far.

    `ahead` tells whether `said` has these rows alone, as they were said ahead; then the log losses of what was said by
    this combination are left in `delayed[LOST]`. Otherwise it has all rows, said without delay. `delayed[TOLD]` gets
    the log-odds that it said, either way.
    """
    means, covariances = into.stacker_mean.reshape(-1), into.stacker_covariance.reshape(-1)
    room, width, told = into.shares.size, said.shape[2], said.reshape(-1)
    losses, damping = into.losses[0], into.damping
    here = new_block(into, said, rows.size)
    places, numbers = here.places, here.numbers
    for start in range(0, rows.size, BLOCK):
        n = min(BLOCK, rows.size - start)
        for r in range(n):
            row = rows[start + r]
            places[r] = (start + r if ahead else row) * 2 * width
            numbers[Y + r], numbers[WEIGHT + r] = signs[row], weights[row]
        hear(into, here, told, width, n)
        for r in range(n):
            say(into, here, r)
            _bayes(here.outputs, numbers, losses, 0, into.kept, into.knows, room, r)
        mix(into, here, n)
        for r in range(n):
            stack(into, here, means, covariances, r)
            _bayes(here.finals, numbers, losses, room, here.final_floor, here.final_floor, LANES, r)
        conclude(into, here, n)
        for r in range(n):
            row, counted = rows[start + r], counted + 1
            learn_damping(into, here, r, 1.0, counted)
            latest = max(1.0 / counted, DAMPED_MEMORY)
            damping[SCORE] += (numbers[SHRINK + r] - 1.0 - damping[SCORE]) * latest
            lost = -math.log(numbers[CHANCE + r] if numbers[Y + r] > 0.0 else numbers[OTHER + r])
            losses[room] += numbers[WEIGHT + r] * lost
            delayed[TOLD, row] = numbers[ODDS + r]
            if ahead:
                delayed[LOST, row] = lost
        next_shares(into, here, n)
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
        tally[bucket, LOSSES] += c * live[row]
        tally[bucket, WEIGHTS] += c
        if not math.isnan(delayed[row]):
            gap = delayed[row] - live[row]
            tally[bucket, GAPS] += c * gap
            tally[bucket, GAPS_SQUARED] += c * gap * gap
            tally[bucket, KEPT_WEIGHTS] += c
