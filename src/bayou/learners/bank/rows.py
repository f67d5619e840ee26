"""How a row is laid out for the lanes: values in units of the stream, and where in the tables its features stand."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.gather import gather_pairs, prefetch_pairs, scatter_pairs
from bayou.kernels.inlining import inlined
from bayou.kernels.room import zeros
from bayou.kernels.rounding import LAST_PLACE, rounding_phase, rounding_phases
from bayou.kernels.vector import LANES, any_above, copy_lanes, fill, load, magnitude, product, store

# A typical row's length is brought to between these, and is settled after SETTLED rows.
SHORTEST, LONGEST, SETTLED = 0.9, 12.0, 1024
# Mean squares are at least this, so that v0/q stays a float32.
LEAST_SQUARE = 1e-30
# Non-zeros between a feature and the one whose lanes are asked for. With each that is worked on, one is asked for: all
# of a row's at once would wait for each other, and the row for them.
AHEAD = 128


class LaneRowScratch(NamedTuple):
    """Scratch for the features of a row."""

    xs: np.ndarray  # values in units of the stream
    places: np.ndarray  # where their lanes begin in the state
    mean_squares: np.ndarray  # this row counted
    squares_before: np.ndarray  # and as they were
    uses: np.ndarray  # this row counted
    means: np.ndarray  # of their weights in every lane, the prior being that of this row's mean squares
    vs: np.ndarray  # and their variances
    phases: np.ndarray  # what sums are rounded by
    held: np.ndarray  # where their priors begin


class CountEstimate(NamedTuple):
    """Where it stands how often a feature was met, before anybody counted: in what a normalised lane has gained.

    A feature whose values are all 1 or -1 gains at most 1/4 at each use.
    """

    state: np.ndarray
    stride: int
    place: int
    per_gain: float  # in the type of the state


@kernel(forceinline=True)
def new_row(room, width, state):
    """For rows of so many features, in the type of the state."""
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
    """By how much values are multiplied, for a typical row to have a length between SHORTEST and LONGEST."""
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
    """Lay out a row in units of the stream; whether a value is other than 1 or -1, and whether all are 1."""
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
    """Of how many of a row's features squares are counted."""
    n, first = np.uint64(0), np.uint64(start)
    for k in range(np.uint64(length)):
        feature = np.uint64(indices[first + k])
        n += (np.uint64(marks[feature >> np.uint64(3)]) >> (feature & np.uint64(7))) & np.uint64(1)
    return np.int64(n)


@inlined
def is_marked(marks, feature):
    """Whether squares of a feature are counted."""
    return (marks[feature >> 3] >> (feature & 7)) & 1 != 0


@inlined
def mark(marks, feature):
    """From now on they are."""
    marks[feature >> 3] |= np.uint8(1 << (feature & 7))


def mark_again(marks, squares):
    """All of them, as they follow from the table of squares: those with uses."""
    found = np.packbits(squares[:, 1] > 0, bitorder="little")
    marks[: len(found)] = found


@inlined
def row_squares(row, squares, marks, known, every, indices, values, start, length, all_marked, ahead, asks, most):
    """Each feature's mean square and uses, this row counted, and as it was; no uses: it is not counted.

    What is not marked has a mean square of 1 until a value other than 1 or -1 comes, or until `every` feature is
    counted; `known` tells how often it was met before. If all are marked, they are done in vectors, the last of which
    is the last eight features, some of them for the second time; if it `asks`, the squares of as many non-zeros from
    `ahead` on are asked for.
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
    """What `row_squares` found is so."""
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
    """Where the lanes of a row's features begin, and where their priors do."""
    places, held, first = row.places, row.held, np.uint64(start)
    for k in range(np.uint64(length)):
        places[k] = np.int64(indices[first + k]) * (2 * width)
    if groups.size:
        for k in range(np.uint64(length)):
            held[k] = np.int64(groups[first + k]) * width


@inlined
def row_phases(phases, indices, start, length, examples):
    """What each feature's sums are rounded by, as shares of the power of two below."""
    zero = fill(load(phases, 0), 0.0)
    whole = length // LANES * LANES
    for k in range(0, whole, LANES):
        store(phases, k, rounding_phases(zero, indices, start + k, np.uint64(examples)) * LAST_PLACE)
    for k in range(whole, length):
        phases[k] = rounding_phase(indices[np.uint64(start + k)], examples) * LAST_PLACE
