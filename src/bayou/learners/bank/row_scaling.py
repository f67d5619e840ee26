"""Layout of a row for the lanes: values in units of the stream, and offsets of its features in the tables."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.allocate import zeros
from bayou.kernels.compiling import kernel
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.inlining import inlined
from bayou.kernels.rounding import LAST_PLACE, rounding_phase, rounding_phases
from bayou.kernels.vector import LANES, any_above, broadcast, copy_lanes, load, magnitude, product, store

# A typical row is scaled to a length between these; the scale is fixed after UNIT_FIT_ROWS rows.
MIN_ROW_NORM, MAX_ROW_NORM, UNIT_FIT_ROWS = 0.9, 12.0, 1024
# Mean squares are at least this, so that v0/q stays a float32.
LEAST_SQUARE = 1e-30
# Non-zeros between a feature and the one whose lanes are prefetched. One is prefetched with each that is processed: all
# of a row's at once would queue, and delay the row.
AHEAD = 128


class LaneRowScratch(NamedTuple):
    """Scratch for the features of a row."""

    scaled_values: np.ndarray  # values in units of the stream
    offsets: np.ndarray  # where their lanes begin in the state
    mean_squares: np.ndarray  # including this row
    squares_before: np.ndarray  # mean squares before it
    uses: np.ndarray  # including this row
    means: np.ndarray  # of their weights in every lane, under the prior of this row's mean squares
    variances: np.ndarray  # and their variances
    dither_phases: np.ndarray  # rounding phases
    prior_offsets: np.ndarray  # where their priors begin


class CountEstimate(NamedTuple):
    """Estimate of how often a feature was seen before it was counted, from the gain of a normalized lane.

    A feature whose values are all 1 or -1 gains at most 1/4 at each use.
    """

    state: np.ndarray
    stride: int
    place: int
    count_per_gain: float  # in the type of the state


@kernel(forceinline=True)
def new_row(room, width, state):
    """Allocate scratch for rows of up to `room` features, in the type of the state."""
    return LaneRowScratch(
        zeros(room, state.dtype),
        zeros(room, np.int64),
        np.ones(room, state.dtype),
        np.ones(room, state.dtype),
        zeros(room, state.dtype),
        zeros(room * width, state.dtype),
        zeros(room * width, state.dtype),
        zeros(room, state.dtype),
        zeros(room, np.int64),
    )


@kernel
def stream_scale(log_length):
    """Return the factor of values that brings a typical row to a length between MIN_ROW_NORM and MAX_ROW_NORM."""
    there = min(max(log_length, math.log(MIN_ROW_NORM)), math.log(MAX_ROW_NORM))
    return math.exp(min(max(there - log_length, -69.0), 69.0))


@kernel
def row_log_length(values, start, stop):
    square = 0.0
    for k in range(start, stop):
        square += np.float64(values[k]) ** 2
    return 0.5 * math.log(max(square, 1e-300))


@inlined
def scaled_row(scaled_values, values, start, length, unit, bound):
    """Write a row in units of the stream; return whether a value is other than 1 or -1, and whether all are 1."""
    other = negative = False
    full_vectors = length // LANES * LANES
    for k in range(0, full_vectors, LANES):
        copy_lanes(scaled_values, k, values, start + k)
        x = load(scaled_values, k)
        other |= any_above(magnitude(x * x - 1.0), 0.0)
        negative |= any_above(x * -1.0, 0.0)
        store(scaled_values, k, max(min(x * unit, bound), -bound))
    for k in range(full_vectors, length):
        x = scaled_values.dtype.type(values[start + k])
        other |= x * x != scaled_values.dtype.type(1)
        negative |= x < scaled_values.dtype.type(0)
        scaled_values[k] = max(min(x * unit, bound), -bound)
    return other, not (other or negative)


@inlined
def count_tracked(marks, indices, start, length):
    """Return how many of a row's features have their squares counted."""
    n, first = np.uint64(0), np.uint64(start)
    for k in range(np.uint64(length)):
        feature = np.uint64(indices[first + k])
        n += (np.uint64(marks[feature >> np.uint64(3)]) >> (feature & np.uint64(7))) & np.uint64(1)
    return np.int64(n)


@inlined
def is_tracked(marks, feature):
    """Return whether the squares of a feature are counted."""
    return (marks[feature >> 3] >> (feature & 7)) & 1 != 0


@inlined
def track(marks, feature):
    """Mark a feature: its squares are counted from now on."""
    marks[feature >> 3] |= np.uint8(1 << (feature & 7))


def rebuild_tracked(marks, squares):
    """Rebuild the marks from the table of squares: a feature is marked if its use count is positive."""
    bits = np.packbits(squares[:, 1] > 0, bitorder="little")
    marks[: len(bits)] = bits


@inlined
def row_squares(
    row, squares, marks, estimate, should_count_all, indices, values, start, length, all_marked, ahead, most
):
    """Compute each feature's mean square and uses including this row, and its mean square before; 0 uses: not counted.

    A feature that is not marked has a mean square of 1 until its first value other than 1 or -1, or until
    `should_count_all` feature is counted; `estimate` tells how often it was seen before. If all are marked, they are
    processed in vectors, the last of which holds the last eight features, some of them for the second time; then the
    squares of as many non-zeros from `ahead` on are prefetched, unless it is negative.
    """
    dtype = squares.dtype.type
    mean_squares, squares_before, uses = row.mean_squares, row.squares_before, row.uses
    least = dtype(LEAST_SQUARE)
    if length < LANES or not all_marked:
        for k in range(length):
            feature, square = np.int64(indices[start + k]), dtype(values[start + k]) * dtype(values[start + k])
            q, before, count = dtype(1), dtype(1), dtype(0)
            if is_tracked(marks, feature):
                before, count = squares[2 * feature], squares[2 * feature + 1] + dtype(1)
                q = before + (square - before) / count
            elif should_count_all or square != dtype(1):
                met = estimate.count_per_gain * estimate.state[feature * estimate.stride + estimate.place]
                count = met + dtype(1)
                q = (met + square) / count
            mean_squares[k], squares_before[k], uses[k] = min(max(q, least), most), before, count
        return
    for k in range(0, length, LANES):
        slot = min(k, length - LANES)
        if ahead >= 0:
            prefetch_pairs(squares, indices, ahead + slot)
        copy_lanes(mean_squares, slot, values, start + slot)
        x = load(mean_squares, slot)
        before, count = gather_pairs(squares, indices, start + slot)
        q = before + (product(x, x) - before) / (count + 1.0)
        store(mean_squares, slot, min(max(q, least), most))
        store(squares_before, slot, before)
        store(uses, slot, count + 1.0)


@inlined
def store_squares(row, squares, marks, indices, start, length, all_marked):
    """Store the results of `row_squares` in the table, and mark the features counted."""
    if length < LANES or not all_marked:
        for k in range(length):
            if row.uses[k] > 0.0:
                feature = np.int64(indices[start + k])
                squares[2 * feature], squares[2 * feature + 1] = row.mean_squares[k], row.uses[k]
                track(marks, feature)
        return
    for k in range(0, length, LANES):
        slot = min(k, length - LANES)
        scatter_pairs(squares, indices, start + slot, load(row.mean_squares, slot), load(row.uses, slot))


@inlined
def row_offsets(row, indices, groups, start, length, width):
    """Write the offsets of the lanes and of the priors of a row's features."""
    offsets, prior_offsets, first = row.offsets, row.prior_offsets, np.uint64(start)
    for k in range(np.uint64(length)):
        offsets[k] = np.int64(indices[first + k]) * (2 * width)
    if groups.size:
        for k in range(np.uint64(length)):
            prior_offsets[k] = np.int64(groups[first + k]) * width


@inlined
def row_phases(dither_phases, indices, start, length, examples):
    """Write the rounding phase of each feature's sums, as a fraction of the power of two below."""
    zero = broadcast(load(dither_phases, 0), 0.0)
    full_vectors = length // LANES * LANES
    for k in range(0, full_vectors, LANES):
        store(dither_phases, k, rounding_phases(zero, indices, start + k, np.uint64(examples)) * LAST_PLACE)
    for k in range(full_vectors, length):
        dither_phases[k] = rounding_phase(indices[np.uint64(start + k)], examples) * LAST_PLACE
