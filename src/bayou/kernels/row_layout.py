"""Batches as arguments of kernels, and the layout of rows for vectors: [intercept, features, padding]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.inlining import inlined
from bayou.kernels.vector import LANES, copy_lanes, set_lanes

# Non-zeros between a row and the one whose weights are prefetched: about four rows of forty.
PREFETCH_NONZEROS = 160


class BatchArrays(NamedTuple):
    """Arrays of a batch to learn from or to predict.

    Kernels take such tuples as arguments and do not create them: Numba assumes that writes to an argument's arrays are
    visible outside, but may drop writes to arrays of a tuple that was created inside. Passing a named tuple takes a
    microsecond, which only `marginal`'s path for a single row avoids.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    max_row_length: int  # the largest number of features in a row
    is_all_ones: bool  # whether all values are 1
    labels: np.ndarray  # +1 and -1, or a regressor's targets
    weights: np.ndarray  # 0: only predict


def batch_arrays(batch: Any, labels: np.ndarray, weights: np.ndarray) -> BatchArrays:
    """Return the examples of a `Batch`."""
    columns = batch.indptr, batch.indices, batch.values
    return BatchArrays(*columns, batch.max_row_length, batch.is_all_ones, labels, weights)


@kernel
def padded_row_length(max_row_length):
    """Return the length of row scratch: a multiple of LANES with room for the intercept and padding."""
    return (max_row_length + 2 * LANES) // LANES * LANES


@inlined
def copy_row(examples, row, first, xs, features, padding_feature):
    """Copy values and features of a row to xs and features, from slot `first` on; return the size with padding.

    The size is a multiple of LANES. Padding has the value 0 and the feature `padding_feature`. Where vectors would read
    beyond the end of the batch, a row is copied number by number.
    """
    start = examples.indptr[row]
    length = examples.indptr[row + 1] - start
    if start + length + LANES <= examples.indptr[examples.indptr.size - 1]:
        for k in range(0, length, LANES):
            if examples.is_all_ones:  # the values need not be read
                set_lanes(xs, first + k, 1.0)
            else:
                copy_lanes(xs, first + k, examples.values, start + k)
            copy_lanes(features, first + k, examples.indices, start + k)
    else:
        for k in range(length):
            xs[first + k] = examples.values[start + k]
            features[first + k] = examples.indices[start + k]
    set_lanes(xs, first + length, 0.0)
    set_lanes(features, first + length, padding_feature)
    return (first + length + LANES - 1) // LANES * LANES


@inlined
def prefetch_start(examples, row, size, distance):
    """Return the offset in `indices` of the `size` features to prefetch now; -1 near the end of the batch."""
    offset = examples.indptr[row] + distance
    return offset if offset + size <= examples.indptr[examples.indptr.size - 1] else -1
