"""Merging heads: the gains of all over the base that they grew from add up, in natural parameters.

All are settled first: their scales are folded, so that everything is in units of the features. The merged head has the
features of its base, and in free slots those used most. A feature outside a head contributes its entry in the
table; one inside it but outside the merged head is marginalized out. The second answer is reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayou.core.model_file import nonzero_rows
from bayou.learners.bank import head_kernels as kernels
from bayou.learners.bank.head import Head

# Counters that add up.
COUNTERS = [kernels.ROWS, kernels.NONZEROS, kernels.INSIDE, kernels.SCALE_GAIN]


class _Knowledge(NamedTuple):
    """A settled head in natural parameters."""

    precision: np.ndarray  # of the intercept and the chosen features
    shift: np.ndarray
    sums: np.ndarray  # of each feature: uses, sums of its values and of their squares, less `first`
    alone: np.ndarray  # of each feature: precision times mean, and the precision gained
    counters: np.ndarray

    def plus_gains(self, others: Sequence[_Knowledge]) -> _Knowledge:
        """Return this (the base) plus the sum of the gains of `others` over it."""
        pairs = zip(self, zip(*others, strict=True), strict=True)
        return _Knowledge(*(base + sum(each - base for each in theirs) for base, theirs in pairs))


def merge_heads(heads: Sequence[Head], into: Head) -> None:
    """Merge heads that grew from `into` into it, in place."""
    heads = [head for head in heads if head.state.stream[kernels.ROWS] > into.state.stream[kernels.ROWS]]
    if len(heads) < 2:  # nothing to add up
        for head in heads:
            into.copy_from(head)
        return
    into.later_gaps += sum(head.later_gaps - into.later_gaps for head in heads)
    state, base, heads = into.state, into.settled(), [head.settled() for head in heads]
    features = np.unique(np.concatenate([nonzero_rows(head.state.table) for head in (*heads, base)]))
    columns = np.array([head.state.table[features] for head in (base, *heads)])
    first = np.where(columns[:, :, kernels.USES] > 0, columns[:, :, kernels.FIRST], np.inf)
    first = np.where(columns[0, :, kernels.USES] > 0, first[0], first.min(axis=0))
    limit = max(int(head.state.stream[kernels.LIMIT]) for head in heads)
    chosen = _chosen(base, features, columns[:, :, kernels.USES].sum(axis=0), limit)
    before, *after = (knowledge_of(head, features, first, chosen) for head in (base, *heads))
    merged, taken = before.plus_gains(after), len(chosen) + 1
    # counters
    stream = state.stream
    stream[COUNTERS] = np.maximum(merged.counters, 0.0)
    stream[kernels.FOLDED] = np.mean([head.state.stream[kernels.FOLDED] for head in heads])
    stream[[kernels.TAKEN, kernels.LIMIT, kernels.FADING]] = taken, limit, 0.0
    stream[kernels.UNIT] = np.exp(stream[kernels.FOLDED])
    stream[kernels.MARK] = next_mark(stream[kernels.ROWS])
    # features
    state.group_variance[:] = np.mean([head.state.group_variance for head in heads], axis=0)
    state.groups[features] = np.max([head.state.groups[features] for head in (base, *heads)], axis=0)
    state.slots[nonzero_rows(state.slots)] = 0
    state.slots[chosen], state.features[1:taken] = np.arange(1, taken), chosen
    sums = np.maximum(merged.sums, [0.0, -np.inf, 0.0])
    state.table[features, kernels.USES], state.table[features, kernels.FIRST] = sums[:, 0], first
    state.table[features, kernels.SUM], state.table[features, kernels.SQUARE] = sums[:, 1], sums[:, 2]
    state.table[features, kernels.GAIN] = np.maximum(merged.alone[:, 1], 0.0) * stream[kernels.UNIT] ** 2
    outside = state._replace(slots=np.zeros_like(state.slots))
    variance = into.weights_given_scale(features, outside)[1]
    state.table[features, kernels.MEAN] = merged.alone[:, 0] * variance / stream[kernels.UNIT]
    # the joint posterior; an entry of H is the sum of two
    square = state.precision.reshape(into.width, -1)
    square[:], state.shift[:], state.mean[:], state.waiting[:] = 0.0, 0.0, 0.0, 0.0
    square[:taken, :taken] = (merged.precision + np.diag(np.diag(merged.precision))) / 2.0
    state.shift[:taken] = merged.shift
    into.refresh()
    into.refresh_candidates()


def next_mark(rows: float) -> float:
    """Return the number of rows at which the next choice of features is due."""
    return max(float(2.0 ** np.floor(np.log2(max(rows, 1.0)) + 1.0)), kernels.FIRST_MARK)


def _chosen(base: Head, features: np.ndarray, uses: np.ndarray, limit: int) -> np.ndarray:
    """Return the base's features in its order, then those used most, up to `limit`."""
    inside = base.state.features[1 : base.taken]
    others = features[np.lexsort((features, -uses))]
    return np.concatenate([inside, others[~np.isin(others, inside)]])[:limit]


def knowledge_of(head: Head, features: np.ndarray, first: np.ndarray, chosen: np.ndarray) -> _Knowledge:
    """Return a settled head's knowledge of some features, joint for the chosen ones."""
    state, width = head.state, head.width
    uses, own, total, square = state.table[features, : kernels.SQUARE + 1].T
    apart = np.where(uses > 0, own - first, 0.0)
    sums = np.stack([uses, total + uses * apart, square + 2.0 * apart * total + uses * apart**2], axis=1)
    mean, variance, _ = head.weights_given_scale(features)
    slots = state.slots[features].astype(np.int64)
    gain = state.table[features, kernels.GAIN] / state.stream[kernels.UNIT] ** 2
    gain = np.where(slots > 0, 1.0 / variance - state.prior[slots], gain)
    alone = np.stack([mean / variance, gain], axis=1)
    # jointly: first each on its own, then those inside the head
    places, at = state.slots[chosen].astype(np.int64), np.searchsorted(features, chosen)
    precision, shift = np.zeros((len(chosen) + 1, len(chosen) + 1)), np.zeros(len(chosen) + 1)
    precision[range(1, len(shift)), range(1, len(shift))], shift[1:] = gain[at], alone[at, 0]
    begin = 0 if state.has_intercept else 1
    here = np.append(0, 1 + np.flatnonzero(places > 0))[begin:]
    inside = np.append(0, places[places > 0])[begin:]
    if len(inside) == head.taken - begin:
        entries = state.precision.reshape(width, -1)
        precision[np.ix_(here, here)] = (entries + entries.T - np.diag(np.diag(entries)))[np.ix_(inside, inside)]
        shift[here] = state.shift[inside]
    else:
        inverse = np.linalg.inv(state.covariance[: width * width].reshape(width, -1)[np.ix_(inside, inside)])
        precision[np.ix_(here, here)] = inverse - np.diag(state.prior[inside])
        shift[here] = inverse @ state.mean[inside]
    return _Knowledge(precision, shift, sums, alone, state.stream[COUNTERS])
