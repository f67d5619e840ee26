"""Heads in shards: the gain of a shard's head over its base, and gains added to the base.

In a shard the head keeps its base's features and prior variances. Its gain is in natural parameters and in units of the
features, over the base in the shard's scale, so that what is not seen has gained nothing. The base chooses features
after a join that passes one of its marks, and computes S, mu and the priors anew; its second answer begins again.

Sums of values are those of x - first, or of x itself if the base has not seen the feature. A column of a single value
must stay one: of a new column its first value v is sent, too, and v^2, or -1 - v^2 if there were others. Shards that
have all seen the same value send sums of equal numbers, which are exact.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from bayou.core.model_file import nonzero_rows
from bayou.core.sharding import Gain, Rows
from bayou.learners.bank import head_kernels as kernels
from bayou.learners.bank.head import Head
from bayou.learners.bank.head_kernels import FIRST, GAIN, MEAN, SQUARE, SUM, USES
from bayou.learners.bank.head_merging import knowledge_of, next_mark

# Numbers of a feature's gain: uses, sums of values and of squares; the two numbers of a new column; precision times
# mean, and the precision gained, if it is outside.
OF_FEATURE = 7
# Relative difference of two numbers that are equal but for having been sent in float32.
ROUNDING = 1e-6
# Counters that add up.
COUNTERS = [kernels.ROWS, kernels.NONZEROS, kernels.INSIDE]


def begin_shard(head: Head) -> None:
    """Let features and prior variances stay as they are."""
    head.state.stream[[kernels.LIMIT, kernels.MARK, kernels.LEAST]] = 0.0, kernels.NEVER, kernels.NEVER


def global_gain(head: Head, base: Rows) -> np.ndarray:
    """Return the gain over `base` in counters, the scale, b, and the lower half of H."""
    state, before = head.state, base["head stream"].ravel()
    own = math.exp(-state.stream[kernels.SCALE])
    since = math.exp(before[kernels.FOLDED] - state.stream[kernels.FOLDED])
    shift = own * (state.shift - since * base["head vectors"].ravel()[: head.width])
    precision = own**2 * (state.precision - since**2 * base["head precision"].ravel()).reshape(head.width, -1)
    precision += precision.T - np.diag(np.diag(precision))
    counted = (state.stream - before)[[*COUNTERS, kernels.SCALE_GAIN]]
    moved = _scale(state.stream) - _scale(before)
    return np.concatenate([counted, [moved], shift, precision[np.tril_indices(head.width)]])


def global_gain_size(head: Head) -> int:
    """Return the length of `global_gain`."""
    return len(COUNTERS) + 2 + head.width * (head.width + 3) // 2


def apply_global_gain(head: Head, gains: np.ndarray, parts: int, weight: float) -> np.ndarray:
    """Add the summed `global_gain` of shards; return the stream as it was, for `apply_feature_gain`."""
    state, width, (counted, rest) = head.state, head.width, np.split(gains, [len(COUNTERS)])
    stream, before = state.stream, state.stream.copy()
    scale = stream[kernels.SCALE] + rest[1] / max(parts, 1)
    factor, lower = math.exp(-scale), np.tril_indices(width)
    state.shift[:] = factor * state.shift + rest[2 : width + 2] / weight
    precision = state.precision.reshape(width, -1)
    precision *= factor**2
    precision[lower] += rest[width + 2 :] / weight
    stream[COUNTERS] = np.maximum(stream[COUNTERS] + counted, 0.0)
    stream[kernels.SCALE_GAIN] += rest[0] / weight
    stream[kernels.FOLDED] += scale
    stream[[kernels.SCALE, kernels.UNIT]] = 0.0, math.exp(stream[kernels.FOLDED])
    if not before[kernels.ROWS] and stream[kernels.ROWS]:
        per_row = stream[kernels.NONZEROS] / stream[kernels.ROWS]
        state.group_variance[:] = min(kernels.MAX_FIRST_VARIANCE, kernels.SCORE_VARIANCE / max(per_row, 1e-9))
    return before


def feature_gain(head: Head, base: Rows, features: np.ndarray) -> np.ndarray:
    """Return the gain of some features over their rows in `base`, one row per feature."""
    own, before, scale = _rows(head, features), base["head table"], _scale(head.state.stream)
    uses, first, total, square = own["head table"][:, : SQUARE + 1].T
    met = before[:, USES] > 0
    apart, first = np.where(met, 0.0, first), np.where(met, 0.0, first)
    sums = np.stack([uses, total + uses * apart, square + apart * (2.0 * total + uses * apart)], axis=1)
    sums -= before[:, [USES, SUM, SQUARE]]
    one = np.where(met, 0.0, np.where(square > 0.0, -1.0 - first**2, first**2))
    alone = (_alone(head, own, scale) - _alone(head, base, scale)) * (head.state.slots[features] == 0)[:, None]
    return np.column_stack([sums, first, one, alone])


def apply_feature_gain(head: Head, before: np.ndarray, groups: np.ndarray, gain: Gain, weight: float) -> None:
    """Add the summed gains of some features.

    Args:
        before: what `apply_global_gain` returned.
        groups: the groups of features that are new.
    """
    features, gains, _, met = gain
    state, unit, rows = head.state, head.state.stream[kernels.UNIT], _rows(head, features)
    alone = _alone(head, rows | {"head stream": before}, state.stream[kernels.FOLDED]) + gains[:, 5:] / weight
    table = rows["head table"]
    # values
    (uses, total, square), (first, one) = gains[:, :3].T, gains[:, 3:5].T / np.maximum(met, 1)
    seen, constant, mean = table[:, USES] > 0, np.isclose(one, first**2, ROUNDING, 0.0), total / np.maximum(uses, 1.0)
    varied = np.where(constant, 0.0, np.maximum(square - total * mean, kernels.LEAST_SPREAD))
    table[:, FIRST] = np.where(seen, table[:, FIRST], np.where(constant, first, mean))
    table[:, SUM] += np.where(seen, total, 0.0)
    table[:, SQUARE] += np.where(seen, np.maximum(square, 0.0), varied)
    table[:, USES] += np.maximum(uses, 0.0)
    state.groups[features] = np.where(seen, state.groups[features], groups)
    # weights
    outside = state.slots[features] == 0
    table[outside, GAIN] = np.maximum(alone[outside, 1], 0.0) * unit**2
    state.table[features] = table
    variance = head.weights_given_scale(features)[1]
    state.table[features[outside], MEAN] = (alone[:, 0] * variance / unit)[outside]


def finish_merge(head: Head, before: np.ndarray) -> None:
    """Choose features if a mark was passed, and compute the posterior anew."""
    state, stream = head.state, head.state.stream
    rows = stream[kernels.ROWS]
    if not rows:
        return
    if stream[kernels.AUTO] and before[kernels.ROWS] < kernels.SIZED <= rows:
        few = stream[kernels.NONZEROS] > kernels.LONG_ROWS * rows
        stream[kernels.LIMIT] = kernels.FEW_SLOTS if few else kernels.MANY_SLOTS
    if (free := int(stream[kernels.LIMIT]) + 1 - head.taken) > 0:
        new = nonzero_rows(state.table)
        new = new[state.slots[new] == 0]
        kernels.fill_slots(state, new[np.lexsort((new, -state.table[new, USES]))][:free].astype(np.int64))
    state.n_candidates[0] = state.candidates.size + 1  # the list is out of date: the next choice scans the table
    at_mark, stream[kernels.FADING] = rows >= stream[kernels.MARK], 0.0
    head.refresh(chooses=bool(at_mark and (not stream[kernels.AUTO] or rows > kernels.SIZED)))
    if at_mark:
        stream[kernels.MARK] = next_mark(rows)


def discount(head: Head, share: float) -> None:
    """Multiply H, b, and the precisions gained outside by `share`."""
    state, rows = head.state, nonzero_rows(head.state.table)
    state.table[rows, GAIN] *= share
    for array in (state.precision, state.shift, state.stream[kernels.SCALE_GAIN : kernels.SCALE_GAIN + 1]):
        array *= share
    if state.stream[kernels.ROWS]:
        head.refresh()


def with_features_of(head: Head, base: Head) -> Head:
    """Return a head with the features of `base` inside: others are marginalized out, and go to the table."""
    chosen, own = base.state.features[1 : base.taken], head.state.features[1 : head.taken]
    if np.array_equal(own, chosen):
        return head
    twin = copy.copy(head.settled())
    state, unit, taken = twin.state, twin.state.stream[kernels.UNIT], len(chosen) + 1
    known = knowledge_of(twin, np.sort(chosen), np.zeros(len(chosen)), chosen)
    table, slots, stream = state.table.copy(), np.zeros_like(state.slots), state.stream.copy()
    mean, variance, _ = twin.weights_given_scale(own)
    table[own, MEAN], table[own, GAIN] = mean / unit, (1.0 / variance - state.prior[1 : len(own) + 1]) * unit**2
    slots[chosen], stream[kernels.TAKEN] = np.arange(1, taken), taken
    precision, shift = np.zeros((head.width, head.width)), np.zeros(head.width)
    precision[:taken, :taken], shift[:taken] = np.tril(known.precision), known.shift
    twin.state = state._replace(table=table, slots=slots, stream=stream, precision=precision.ravel(), shift=shift)
    return twin


def _scale(stream: np.ndarray) -> float:
    """Return the logarithm of all of the scale, folded or not."""
    return float(stream[kernels.FOLDED] + stream[kernels.SCALE])


def _rows(head: Head, features: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of a head, with copies of some features' rows."""
    return head.arrays() | {name: head.arrays()[name][features] for name in ("head table", "head groups")}


def _alone(head: Head, rows: Rows, scale: float) -> np.ndarray:
    """Return precision times mean, and the precision gained, of features as if outside, at log scale `scale`."""
    stream, table = rows["head stream"].ravel().copy(), np.ascontiguousarray(rows["head table"])
    stream[[kernels.SCALE, kernels.FOLDED, kernels.UNIT]] = 0.0, scale, math.exp(scale)
    state = head.state._replace(
        table=table,
        groups=np.ascontiguousarray(rows["head groups"]),
        slots=np.zeros(len(table), np.int16),
        stream=stream,
        group_variance=rows["head group_variance"].ravel(),
    )
    mean, variance, _ = head.weights_given_scale(np.arange(len(table)), state)
    return np.stack([mean / variance, table[:, GAIN] / stream[kernels.UNIT] ** 2], axis=1)
