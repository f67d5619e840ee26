"""A batch as kernels take it, and its rows laid out for vectors: [intercept, features, padding]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, copy_lanes, set_lanes

# Non-zeros between a row and the one whose weights are asked for: about four rows of forty.
AHEAD = 160


class Examples(NamedTuple):
    """The arrays of a batch that is to be learned from.

    A kernel takes such groups as arguments, and does not make them itself: Numba knows that what is written to an
    argument's arrays is seen outside, and may leave out writes to those of a tuple that was made inside. Handing over a
    named tuple takes a microsecond, which only `marginal`'s path for one row avoids.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    longest: int  # features of a row
    ones: bool  # whether all values are 1
    labels: np.ndarray  # +1 and -1, or a regressor's targets
    weights: np.ndarray  # 0: predict alone


def examples_of(batch: Any, labels: np.ndarray, weights: np.ndarray) -> Examples:
    """The examples of a `Batch`."""
    return Examples(batch.indptr, batch.indices, batch.values, batch.longest, batch.ones, labels, weights)


@kernel
def row_room(longest):
    """How long the arrays are that rows are laid out in: a multiple of LANES, with an intercept and padding."""
    return (longest + 2 * LANES) // LANES * LANES


@inlined
def lay_out(examples, row, first, xs, features, spare):
    """Values and features of a row into xs and features, from place `first` on; the size, a multiple of LANES.

    Padding has the value 0 and the feature `spare`. Where vectors would read beyond the end of the batch, a row goes
    over number by number.
    """
    start = examples.indptr[row]
    length = examples.indptr[row + 1] - start
    if start + length + LANES <= examples.indptr[examples.indptr.size - 1]:
        for k in range(0, length, LANES):
            if examples.ones:  # a third of what there is to read
                set_lanes(xs, first + k, 1.0)
            else:
                copy_lanes(xs, first + k, examples.values, start + k)
            copy_lanes(features, first + k, examples.indices, start + k)
    else:
        for k in range(length):
            xs[first + k] = examples.values[start + k]
            features[first + k] = examples.indices[start + k]
    set_lanes(xs, first + length, 0.0)
    set_lanes(features, first + length, spare)
    return (first + length + LANES - 1) // LANES * LANES


@inlined
def place_ahead(examples, row, size, distance):
    """Where in the indices those begin whose weights to ask for now, as many as `size`; -1 near the batch's end."""
    ahead = examples.indptr[row] + distance
    return ahead if ahead + size <= examples.indptr[examples.indptr.size - 1] else -1
