"""Rows laid out for vectors, against plain Python: of any length, also at the very end of a batch's arrays."""

import numpy as np
import pytest
from numba import njit

from bayou.kernels.row_layout import BatchArrays, copy_row, padded_row_length, prefetch_start
from bayou.kernels.vector import LANES
from tests.kernels.lanes import both

SPARE = 99


@njit
def laid_out(examples, row, first, xs, features, spare):
    return copy_row(examples, row, first, xs, features, np.uint32(spare))


@njit
def ahead(examples, row, size, distance):
    return prefetch_start(examples, row, size, distance)


def examples_of(lengths, ones: bool, values_dtype) -> BatchArrays:
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, SPARE, indptr[-1]).astype(np.uint32)
    values = (np.ones(indptr[-1]) if ones else rng.normal(size=indptr[-1])).astype(values_dtype)
    for array in (indptr, indices, values):
        array.flags.writeable = False
    return BatchArrays(indptr, indices, values, max(lengths), ones, np.ones(len(lengths)), np.ones(len(lengths)))


@both
@pytest.mark.parametrize("values_dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ones", [True, False], ids=["ones", "values"])
@pytest.mark.parametrize("first", [0, 1])
def test_rows_of_any_length_anywhere(dtype, values_dtype, ones, first):
    """Each length stands in the middle, and last, where vectors would read beyond the arrays."""
    for length in range(41):
        examples = examples_of([length, 3, 0, length], ones, values_dtype)
        room = padded_row_length(examples.max_row_length)
        xs, features = np.full(room + 1, 7, dtype), np.full(room + 1, 7, np.uint32)  # what earlier rows left
        for row in (0, 3):
            start = examples.indptr[row]
            size = laid_out(examples, row, first, xs[:-1], features[:-1], SPARE)
            padding = size - first - length
            assert size % LANES == 0
            assert 0 <= padding < LANES
            inside = slice(start, start + length)
            expected = [*[7] * first, *examples.values[inside].astype(dtype), *[0] * padding]
            np.testing.assert_array_equal(xs[:size], np.array(expected, dtype))
            np.testing.assert_array_equal(
                features[:size], [*[7] * first, *examples.indices[inside], *[SPARE] * padding]
            )
            assert xs[-1] == features[-1] == 7  # nothing is written beyond the room


def test_weights_ahead_are_asked_for_only_where_there_are_as_many_left():
    examples = examples_of([8] * 10, True, np.float32)
    assert [ahead(examples, row, 16, 24) for row in range(10)] == [24, 32, 40, 48, 56, 64, *[-1] * 4]
