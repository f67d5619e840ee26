"""Gains of a learner over its base, in a form that adds up over all learners trained from the same base.

Each weight has a mean and a strength: its precision beyond the prior's precision `held`, or its summed squared
gradients. Each of K shards trained from one base has gained (A, B), and the sums of these give the merged weight:

    rule           A               B                strength      mean
    RULE_EVIDENCE  dS              d[(held + S) m]  S + A/c       [(held + S) m + B/c] / (held + S + A/c)
    RULE_RECENT    dS              dm               S + A/n       m + B/n
    GRADIENT       dS              (dS + e) dm      S + A/c^2     m + B/(A + n e),  e = 2^-40 S
    AVERAGE        dS              d[(held + S) m]  see below     [P m + B/n] / (P + A/n),  P = held + S

m and S are mean and strength in the base, d is a shard's difference from the base, and n the number of shards that saw
the weight. Each shard multiplies the weights of its rows by c. With c = K a shard sees as much evidence as all shards
together, and RULE_EVIDENCE gives the weighted mean of their posteriors, which cannot overshoot. With c = 1 it gives
the sum of what each learned alone, which counts a correction K times if all shards make it. AVERAGE is safe then: it
weights the shards' means by their precision, and its error has the variance (P + A/n^2) / (P + A/n)^2, made of the
rest of the base's error and 1/n of the shards' own. For weights that fade (RULE_RECENT), all shards have about the
same strength.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayou.core.errors import BadModel
from bayou.kernels.allocate import empty
from bayou.kernels.compiling import kernel

# Rules by which gains add up (see the table above):
#     RULE_EVIDENCE   weights that keep all evidence
#     RULE_RECENT     weights whose evidence fades
#     GRADIENT   weights learned by AdaGrad, whose strength is a root of summed squares
#     AVERAGE    the precision-weighted mean of the shards' weights
RULE_EVIDENCE, RULE_RECENT, GRADIENT, AVERAGE = range(4)
# Relative to a sum of squared gradients: a gradient that moved a weight may be too small to change the sum.
TINY = 2.0**-40
# Relative tolerance: in float32 a strength may have been rounded down by one or two ulps.
LESS = -1e-6


class LocationStrength(NamedTuple):
    """Weights in float64: mean and strength, arrays of one shape, and the prior precision, which broadcasts."""

    mean: Any
    strength: Any
    held: Any = 0.0


def gain(now: LocationStrength, base: LocationStrength, rule: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the gains (A, B) of weights over those of their base."""
    shape, flat = _flat(*now, *base, rule)
    more, moved = _gained(*flat)
    return more.reshape(shape), moved.reshape(shape)


def apply_gain(
    base: LocationStrength, held: Any, a: Any, b: Any, met: Any, weight: float, rule: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return (means, strengths) of a base to which the summed gains `a` and `b` of its shards are added.

    Args:
        held: the current precision of the prior.
        met: the number of shards that saw each weight (n).
        weight: the factor by which each shard multiplied the weights of its rows (c).
    """
    shape, flat = _flat(*base, held, a, b, met, rule)
    means, strengths = _apply_gain(*flat, float(weight))
    return means.reshape(shape), strengths.reshape(shape)


def _flat(*numbers: Any) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Broadcast arrays, the last of them integers; return their shape, and each array flattened."""
    arrays = np.broadcast_arrays(*numbers)
    kinds = [np.float64] * (len(arrays) - 1) + [np.int64]
    return arrays[0].shape, [np.array(one, kind).ravel() for one, kind in zip(arrays, kinds, strict=True)]


def check_grew_from(more: Any, base: LocationStrength, rule: Any) -> None:
    """Raise BadModel if a strength in `base` exceeds that of the model that should have been trained from it."""
    if np.any((np.asarray(rule) != RULE_RECENT) & (more < LESS * base.strength)):
        raise base_not_ancestor_error()


def base_not_ancestor_error() -> BadModel:
    return BadModel("base knows more than the models grown from it; give a common ancestor.")


@kernel
def gain_one(mean, strength, held, base_mean, base_strength, base_held, rule):  # noqa: ANN201
    """Return the gain (A, B) of one weight."""
    more, moved = strength - base_strength, mean - base_mean
    if rule == RULE_RECENT:
        return more, moved
    if rule == GRADIENT:
        return more, (more + TINY * base_strength) * moved
    return more, (held + strength) * mean - (base_held + base_strength) * base_mean


@kernel
def apply_gain_one(mean, strength, base_held, held, a, b, met, rule, weight):  # noqa: ANN201
    """Return (mean, strength) of one weight of a base after adding the summed gains `a` and `b` of its shards."""
    one, each = 1.0 / weight, 1.0 / max(met, 1.0)
    if rule == RULE_RECENT:
        return mean + b * each, max(strength + a * each, 0.0)
    if rule == GRADIENT:
        return mean + _divided(b, max(a, 0.0) + TINY * met * strength), max(strength + a * (one * one), 0.0)
    share = one if rule == RULE_EVIDENCE else each  # the fraction of the gain that enters the mean
    precision = held + strength + a * share
    settled = _divided((base_held + strength) * mean + b * share, precision)
    if rule == RULE_EVIDENCE:
        return settled, max(strength + a * one, 0.0)
    # AVERAGE: the inverse of the variance of its error (see the module docstring), beyond the prior's precision.
    return settled, max(_divided(precision * precision, held + strength + a * each * each) - held, strength)


@kernel
def _divided(top, bottom):
    """Return top / bottom, or 0 if bottom is not positive."""
    return top / bottom if bottom > 0.0 else 0.0


@kernel
def _gained(mean, strength, held, base_mean, base_strength, base_held, rule):
    more, moved = empty(mean.size, np.float64), empty(mean.size, np.float64)
    for k in range(mean.size):
        more[k], moved[k] = gain_one(
            mean[k], strength[k], held[k], base_mean[k], base_strength[k], base_held[k], rule[k]
        )
    return more, moved


@kernel
def _apply_gain(mean, strength, base_held, held, a, b, met, rule, weight):
    means, strengths = empty(mean.size, np.float64), empty(mean.size, np.float64)
    for k in range(mean.size):
        means[k], strengths[k] = apply_gain_one(
            mean[k], strength[k], base_held[k], held[k], a[k], b[k], met[k], rule[k], weight
        )
    return means, strengths


def changed_rows(now: Sequence[np.ndarray], base: Sequence[np.ndarray]) -> np.ndarray:
    """Return the rows, ascending, in which any of the tables differs from its base."""
    changed = []
    for start in range(0, len(now[0]), 1 << 18):
        rows = slice(start, start + (1 << 18))
        differs = [(mine[rows] != before[rows]).any(axis=1) for mine, before in zip(now, base, strict=True)]
        changed.append(start + np.flatnonzero(np.any(differs, axis=0)))
    return np.concatenate(changed)
