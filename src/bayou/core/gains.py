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

from bayou.core.errors import BadModel
from bayou.kernels.compiling import kernel
from bayou.kernels.room import empty

# How gains add up, as the table above has it:
#     EVIDENCE   weights that keep all evidence
#     RECENT     weights whose evidence fades
#     GRADIENT   weights learned by AdaGrad, whose strength is a root of summed squares
#     AVERAGE    the mean of what the parts have come to
EVIDENCE, RECENT, GRADIENT, AVERAGE = range(4)
# Of a sum of squared gradients: what moved a weight may be too little to be seen in it.
TINY = 2.0**-40
# In float32 a strength may have been rounded down by a last place or two.
LESS = -1e-6


class Places(NamedTuple):
    """Weights in float64: arrays of one shape, and the precision of their prior, which may be one for many."""

    mean: Any
    strength: Any
    held: Any = 0.0


def gained(now: Places, base: Places, rule: Any) -> tuple[np.ndarray, np.ndarray]:
    """(A, B) of weights that grew from those of a base."""
    shape, flat = _flat(*now, *base, rule)
    more, moved = _gained(*flat)
    return more.reshape(shape), moved.reshape(shape)


def joined(
    base: Places, held: Any, a: Any, b: Any, met: Any, weight: float, rule: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(means, strengths) of weights whose parts have gained `a` and `b` in sum.

    Args:
        held: the precision of the prior as it is now.
        met: how many parts have met each weight.
        weight: how often each part has learned each of its rows.
    """
    shape, flat = _flat(*base, held, a, b, met, rule)
    means, strengths = _joined(*flat, float(weight))
    return means.reshape(shape), strengths.reshape(shape)


def _flat(*numbers: Any) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Numbers of one shape after broadcasting, the last of them whole: that shape, and each in one dimension."""
    arrays = np.broadcast_arrays(*numbers)
    kinds = [np.float64] * (len(arrays) - 1) + [np.int64]
    return arrays[0].shape, [np.array(one, kind).ravel() for one, kind in zip(arrays, kinds, strict=True)]


def refuse_less(more: Any, base: Places, rule: Any) -> None:
    """Refuse a base that knows more than what is said to have grown from it."""
    if np.any((np.asarray(rule) != RECENT) & (more < LESS * base.strength)):
        raise knows_more()


def knows_more() -> BadModel:
    return BadModel("base knows more than the models grown from it; give a common ancestor.")


@kernel
def gained_one(mean, strength, held, base_mean, base_strength, base_held, rule):  # noqa: ANN201
    """(A, B) of one weight."""
    more, moved = strength - base_strength, mean - base_mean
    if rule == RECENT:
        return more, moved
    if rule == GRADIENT:
        return more, (more + TINY * base_strength) * moved
    return more, (held + strength) * mean - (base_held + base_strength) * base_mean


@kernel
def joined_one(mean, strength, base_held, held, a, b, met, rule, weight):  # noqa: ANN201
    """(mean, strength) of one weight whose parts have gained `a` and `b` in sum."""
    one, each = 1.0 / weight, 1.0 / max(met, 1.0)
    if rule == RECENT:
        return mean + b * each, max(strength + a * each, 0.0)
    if rule == GRADIENT:
        return mean + _divided(b, max(a, 0.0) + TINY * met * strength), max(strength + a * (one * one), 0.0)
    share = one if rule == EVIDENCE else each  # of what was gained, for where natural parameters settle
    whole = held + strength + a * share
    settled = _divided((base_held + strength) * mean + b * share, whole)
    if rule == EVIDENCE:
        return settled, max(strength + a * one, 0.0)
    # Of an average: what the base did not know is still unknown, less what parts have told of it, each by itself.
    return settled, max(_divided(whole * whole, held + strength + a * each * each) - held, strength)


@kernel
def _divided(top, bottom):
    """A quotient; 0 where the divisor is."""
    return top / bottom if bottom > 0.0 else 0.0


@kernel
def _gained(mean, strength, held, base_mean, base_strength, base_held, rule):
    more, moved = empty(mean.size, np.float64), empty(mean.size, np.float64)
    for k in range(mean.size):
        more[k], moved[k] = gained_one(
            mean[k], strength[k], held[k], base_mean[k], base_strength[k], base_held[k], rule[k]
        )
    return more, moved


@kernel
def _joined(mean, strength, base_held, held, a, b, met, rule, weight):
    means, strengths = empty(mean.size, np.float64), empty(mean.size, np.float64)
    for k in range(mean.size):
        means[k], strengths[k] = joined_one(
            mean[k], strength[k], base_held[k], held[k], a[k], b[k], met[k], rule[k], weight
        )
    return means, strengths


def changed(now: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> np.ndarray:
    """The rows, ascending, in which any of some tables differs from its base."""
    found = []
    for start in range(0, len(now[0]), 1 << 18):
        part = slice(start, start + (1 << 18))
        differs = [(mine[part] != before[part]).any(axis=1) for mine, before in zip(now, base, strict=True)]
        found.append(start + np.flatnonzero(np.any(differs, axis=0)))
    return np.concatenate(found)
