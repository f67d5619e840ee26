"""What a learner has gained over the one it grew from, in numbers that add up over learners that grew from the same.

A weight is a place and a strength: mean and precision, beyond a prior of precision `held`; or a weight and its summed
squared gradients. Each of K parts that grew from one base says two numbers (A, B) of it, and their sums make the whole:

    rule        A               B                               strength        place
    EVIDENCE    dS              d[(held + S) m]                 S + A/c         [(held + S) m + B/c] / (held + S + A/c)
    RECENT      dS              dm                              S + A/n         m + B/n
    GRADIENT    dS              (dS + e) dm                     S + A/c^2       m + B/(A + n e),  e = 2^-40 S
    AVERAGE     dS              d[(held + S) m]                 see below       [P m + B/n] / (P + A/n),  P = held + S

m and S are those of the base, d is what a part has more, n how many parts have met the weight. Each part has learned
its rows c times (row weights are multiplied by c): with c = K a part sees as much evidence as all of them together, and
EVIDENCE makes the weighted mean of the parts' posteriors, which cannot overshoot; with c = 1 it is the sum of what each
has learned alone, which counts corrections that all of them make K times, where an AVERAGE of what they have come to,
each by how sure it is, is safe: it has an error of variance (P + A/n^2) / (P + A/n)^2, what is left of the base's and
1/n of the parts' own. Of weights that fade (RECENT) all parts know about equally much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayou.core.batch import Batch
from bayou.core.errors import BadModel

EVIDENCE, RECENT, GRADIENT, AVERAGE = range(4)
# Of a sum of squared gradients: what moved a weight may be too little to be seen in it.
TINY = 2.0**-40


class Places(NamedTuple):
    """Weights in float64: arrays of one shape, and the precision of their prior, which may be one for many."""

    mean: Any
    strength: Any
    held: Any = 0.0


def gained(now: Places, base: Places, rule: Any) -> tuple[np.ndarray, np.ndarray]:
    """(A, B) of weights that grew from those of a base."""
    more, moved = now.strength - base.strength, now.mean - base.mean
    natural = (now.held + now.strength) * now.mean - (base.held + base.strength) * base.mean
    return more, np.choose(rule, [natural, moved, (more + TINY * base.strength) * moved, natural])


def refuse_less(more: Any, base: Places, rule: Any) -> None:
    """Refuse a base that knows more than what is said to have grown from it."""
    # In float32 a strength may have been rounded down by a last place or two.
    if np.any((np.asarray(rule) != RECENT) & (more < -1e-6 * base.strength)):
        raise BadModel("base knows more than the models grown from it; give a common ancestor.")


def joined(
    base: Places, held: Any, a: Any, b: Any, met: Any, weight: float, rule: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(means, strengths) of weights whose parts have gained `a` and `b` in sum.

    Args:
        held: the precision of the prior as it is now.
        met: how many parts have met each weight.
        weight: how often each part has learned each of its rows.
    """
    one, each = 1.0 / weight, 1.0 / np.maximum(met, 1)
    strength = np.maximum(base.strength + a * np.choose(rule, [one, each, one**2, 0.0]), 0.0)
    share = np.choose(rule, [one, 1.0, 1.0, each])  # of what was gained, for where natural parameters settle
    known, whole = base.held + base.strength, held + base.strength + a * share
    settled = divided(known * base.mean + b * share, whole)
    # Of an average: what the base did not know is still unknown, less what parts have told of it, each by itself.
    sure = divided(whole * whole, held + base.strength + a * each * each) - held
    stepped = base.mean + divided(b, np.maximum(a, 0.0) + TINY * met * base.strength)
    means = np.choose(rule, [settled, base.mean + b * each, stepped, settled])
    return means, np.where(np.equal(rule, AVERAGE), np.maximum(sure, base.strength), strength)


def divided(top: Any, bottom: Any) -> np.ndarray:
    """A quotient; 0 where the divisor is."""
    shape = np.broadcast(top, bottom).shape
    return np.divide(top, bottom, out=np.zeros(shape), where=np.broadcast_to(np.greater(bottom, 0), shape))


def changed(now: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> np.ndarray:
    """The rows, ascending, in which any of some tables differs from its base."""
    found = []
    for start in range(0, len(now[0]), 1 << 18):
        part = slice(start, start + (1 << 18))
        differs = [(mine[part] != before[part]).any(axis=1) for mine, before in zip(now, base, strict=True)]
        found.append(start + np.flatnonzero(np.any(differs, axis=0)))
    return np.concatenate(found)


class AddsUp:
    """The part of a learner that can learn in parts which add up: what `bayou.rounds` asks of it.

    Features come in blocks, so that nothing as large as the table is ever held in float64.
    """

    def _learn_part(self, batch: Batch) -> None:
        """Learn rows, but for what is learned afresh when the parts are one again."""
        raise NotImplementedError

    _n_features: int

    @property
    def _n_places(self) -> int:
        """How many numbers features have; there may be more, behind them, for what else is kept in a table."""
        return self._n_features

    def _with_places(self, base: Any, features: np.ndarray) -> np.ndarray:
        """These features, and behind them what else has changed since `base`."""
        return features

    def _changed_since(self, base: Any) -> np.ndarray:
        """What it knows something else of than `base`, from which it grew: features, and what is behind them."""
        raise NotImplementedError

    def _gain_at(self, base: Any, features: np.ndarray) -> np.ndarray:
        """What it has gained of some features, a row each."""
        raise NotImplementedError

    def _gain_apart(self, base: Any) -> np.ndarray:
        """What it has gained besides."""
        raise NotImplementedError

    def _join_apart(self, gains: np.ndarray, parts: int, weight: float) -> None:
        """Learn what `parts` parts, each with rows of that weight, have gained besides, in sum; before all else."""
        raise NotImplementedError

    def _join_at(self, features: np.ndarray, gains: np.ndarray, met: np.ndarray, weight: float) -> None:
        """Learn what they have gained of some features, which so many of them have met."""
        raise NotImplementedError

    def _discount(self, share: float) -> None:
        """Let what is known count less."""
        raise NotImplementedError
