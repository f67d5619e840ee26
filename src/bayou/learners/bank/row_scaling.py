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
from bayou.kernels.vector import LANES, any_above, copy_lanes, fill, load, magnitude, product, store

# A typical row is scaled to a length between these; the scale is fixed after SETTLED rows.
SHORTEST, LONGEST, SETTLED = 0.9, 12.0, 1024
# Mean squares are at least this, so that v0/q stays a float32.
LEAST_SQUARE = 1e-30
# Non-zeros between a feature and the one whose lanes are prefetched. One is prefetched with each that is processed: all
# of a row's at once would queue, and delay the row.
AHEAD = 128


class LaneRowScratch(NamedTuple):
    """Scratch for the features of a row."""

    xs: np.ndarray  # values in units of the stream
    places: np.ndarray  # where their lanes begin in the state
    mean_squares: np.ndarray  # including this row
    squares_before: np.ndarray  # mean squares before it
    uses: np.ndarray  # including this row
    means: np.ndarray  # of their weights in every lane, under the prior of this row's mean squares
    vs: np.ndarray  # and their variances
    phases: np.ndarray  # rounding phases
    held: np.ndarray  # where their priors begin


class CountEstimate(NamedTuple):
    """Estimate of how often a feature was seen before it was counted, from the gain of a normalized lane.

    A feature whose values are all 1 or -1 gains at most 1/4 at each use.
    """

    state: np.ndarray
    stride: int
    place: int
    per_gain: float  # in the type of the state


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
def unit_of(log_length):
    """Return the factor of values that brings a typical row to a length between SHORTEST and LONGEST."""
    there = min(max(log_length, math.log(SHORTEST)), math.log(LONGEST))
    return math.exp(min(max(there - log_length, -69.0), 69.0))


@kernel
def row_log_length(values, start, stop):
    square = 0.0
    for k in range(start, stop):
        square += np.float64(values[k]) ** 2
    return 0.5 * math.log(max(square, 1e-300))


@inlined
def scaled_row(xs, values, start, length, unit, bound):
    """Write a row in units of the stream; return whether a value is other than 1 or -1, and whether all are 1."""
    other = negative = False
    whole = length // LANES * LANES
    for k in range(0, whole, LANES):
        copy_lanes(xs, k, values, start + k)
        x = load(xs, k)
        other |= any_above(magnitude(x * x - 1.0), 0.0)
        negative |= any_above(x * -1.0, 0.0)
        store(xs, k, max(min(x * unit, bound), -bound))
    for k in range(whole, length):
        x = xs.dtype.type(values[start + k])
        other |= x * x != xs.dtype.type(1)
        negative |= x < xs.dtype.type(0)
        xs[k] = max(min(x * unit, bound), -bound)
    return other, not (other or negative)


@inlined
def count_marked(marks, indices, start, length):
    """Return how many of a row's features have their squares counted."""
    n, first = np.uint64(0), np.uint64(start)
    for k in range(np.uint64(length)):
        feature = np.uint64(indices[first + k])
        n += (np.uint64(marks[feature >> np.uint64(3)]) >> (feature & np.uint64(7))) & np.uint64(1)
    return np.int64(n)


@inlined
def is_marked(marks, feature):
    """Return whether the squares of a feature are counted."""
    return (marks[feature >> 3] >> (feature & 7)) & 1 != 0


@inlined
def mark(marks, feature):
    """Mark a feature: its squares are counted from now on."""
    marks[feature >> 3] |= np.uint8(1 << (feature & 7))


def mark_again(marks, squares):
    """Restore the marks from the table of squares: features with uses are marked."""
    found = np.packbits(squares[:, 1] > 0, bitorder="little")
    marks[: len(found)] = found


@inlined
def row_squares(row, squares, marks, known, every, indices, values, start, length, all_marked, ahead, asks, most):
    """Compute each feature's mean square and uses including this row, and its mean square before; 0 uses: not counted.

    A feature that is not marked has a mean square of 1 until its first value other than 1 or -1, or until `every`
    feature is counted; `known` estimates how often it was seen before. If all are marked, they are processed in
    vectors, the last of which holds the last eight features, some of them for the second time; then, if `asks`, the
    squares of as many non-zeros from `ahead` on are prefetched.
    """
    dtype = squares.dtype.type
    mean_squares, squares_before, uses = row.mean_squares, row.squares_before, row.uses
    least = dtype(LEAST_SQUARE)
    if length < LANES or not all_marked:
        for k in range(length):
            feature, square = np.int64(indices[start + k]), dtype(values[start + k]) * dtype(values[start + k])
            q, before, count = dtype(1), dtype(1), dtype(0)
            if is_marked(marks, feature):
                before, count = squares[2 * feature], squares[2 * feature + 1] + dtype(1)
                q = before + (square - before) / count
            elif every or square != dtype(1):
                met = known.per_gain * known.state[feature * known.stride + known.place]
                count = met + dtype(1)
                q = (met + square) / count
            mean_squares[k], squares_before[k], uses[k] = min(max(q, least), most), before, count
        return
    for k in range(0, length, LANES):
        at = min(k, length - LANES)
        if asks:
            prefetch_pairs(squares, indices, ahead + at)
        copy_lanes(mean_squares, at, values, start + at)
        x = load(mean_squares, at)
        before, count = gather_pairs(squares, indices, start + at)
        q = before + (product(x, x) - before) / (count + 1.0)
        store(mean_squares, at, min(max(q, least), most))
        store(squares_before, at, before)
        store(uses, at, count + 1.0)


@inlined
def count_row(row, squares, marks, indices, start, length, all_marked):
    """Store the results of `row_squares` in the table, and mark the features counted."""
    if length < LANES or not all_marked:
        for k in range(length):
            if row.uses[k] > 0.0:
                feature = np.int64(indices[start + k])
                squares[2 * feature], squares[2 * feature + 1] = row.mean_squares[k], row.uses[k]
                mark(marks, feature)
        return
    for k in range(0, length, LANES):
        at = min(k, length - LANES)
        scatter_pairs(squares, indices, start + at, load(row.mean_squares, at), load(row.uses, at))


@inlined
def row_places(row, indices, groups, start, length, width):
    """Write the offsets of the lanes and of the priors of a row's features."""
    places, held, first = row.places, row.held, np.uint64(start)
    for k in range(np.uint64(length)):
        places[k] = np.int64(indices[first + k]) * (2 * width)
    if groups.size:
        for k in range(np.uint64(length)):
            held[k] = np.int64(groups[first + k]) * width


@inlined
def row_phases(phases, indices, start, length, examples):
    """Write the rounding phase of each feature's sums, as a fraction of the power of two below."""
    zero = fill(load(phases, 0), 0.0)
    whole = length // LANES * LANES
    for k in range(0, whole, LANES):
        store(phases, k, rounding_phases(zero, indices, start + k, np.uint64(examples)) * LAST_PLACE)
    for k in range(whole, length):
        phases[k] = rounding_phase(indices[np.uint64(start + k)], examples) * LAST_PLACE
