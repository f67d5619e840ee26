"""Rows of tables into vectors and back, against NumPy, in both types."""

import numpy as np
import pytest
from numba import njit

from bayou.kernels import gather, vector
from bayou.kernels.vector import LANES
from tests.kernels.lanes import both


@njit
def gather_at(table, rows, start, first, second):
    a, b = gather.gather_pairs(table, rows, start)
    vector.store(first, 0, a)
    vector.store(second, 0, b)


@njit
def scatter_at(table, rows, start, first, second):
    gather.scatter_pairs(table, rows, start, vector.load(first, 0), vector.load(second, 0))


@both
def test_gather_pairs_reads_the_rows_that_are_named(dtype):
    rng = np.random.default_rng(2)
    table = rng.normal(size=(50, 2)).astype(dtype)
    rows = rng.integers(0, 50, 20).astype(np.uint32)
    rows[5:8] = 49, 49, 0  # repeated, first and last
    first, second = np.empty((2, LANES), dtype)
    gather_at(table, rows, 3, first, second)
    np.testing.assert_array_equal(np.stack([first, second], axis=1), table[rows[3:11]])


@both
def test_scatter_pairs_writes_those_rows_alone_and_the_last_of_a_repeated_row_stays(dtype):
    rng = np.random.default_rng(3)
    table = rng.normal(size=(50, 2)).astype(dtype)
    rows = np.array([9, 9, 7, 3, 7, 49, 0, 9, 7, 1, 1], np.uint32)
    pairs = rng.normal(size=(LANES, 2)).astype(dtype)
    expected = table.copy()
    for row, pair in zip(rows[2 : 2 + LANES], pairs, strict=True):
        expected[row] = pair
    scatter_at(table, rows, 2, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
    np.testing.assert_array_equal(table, expected)


@njit
def prefetch_at(table, rows, start):
    gather.prefetch_pairs(table, rows, start)


@both
def test_prefetch_changes_nothing(dtype):
    table = np.arange(20, dtype=dtype).reshape(10, 2)
    before = table.copy()
    prefetch_at(table, np.arange(LANES, dtype=np.uint32), 0)
    np.testing.assert_array_equal(table, before)


@njit
def _sums(table, indices, out):
    first, second = gather.gather_sums(table, indices, 2)
    vector.store(out[0], 0, first)
    vector.store(out[1], 0, second)


@njit
def _add(table, indices, half, steps, third, most, count):
    gather.scatter_add_half(
        table, indices, 2, half, vector.load(steps[0], 0), vector.load(steps[1], 0), third, most, count
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("half", [0, 1])
def test_halves_of_rows_are_summed_and_added_to(dtype, half):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20, 8)).astype(dtype)
    indices = rng.permutation(20)[: LANES + 2].astype(np.uint32)
    chosen = indices[2:]
    out = np.zeros((2, LANES), dtype)
    _sums(table, indices, out)
    np.testing.assert_array_equal(out, (table[chosen, :4] + table[chosen, 4:])[:, :2].T)
    expected = table.astype(float)
    steps = rng.normal(size=(2, LANES)).astype(dtype)
    steps[0, 3] = 1e9  # cut at most
    expected[chosen, 4 * half] += steps[0]
    expected[chosen, 4 * half + 1] += steps[1]
    expected[chosen, 4 * half + 2] += 0.25
    untouched = np.delete(np.arange(8), [4 * half, 4 * half + 1, 4 * half + 2])
    before = table.copy()
    _add(table, indices, half, steps, 0.25, 1e6, np.uint64(1))
    np.testing.assert_allclose(table, np.clip(expected, -1e6, 1e6), rtol=1e-6 if dtype == "float32" else 1e-15)
    np.testing.assert_array_equal(table[:, untouched], before[:, untouched])


def test_float32_halves_are_right_on_average():
    """A step of a tenth of the last place of 3 * 2^23 is taken once in ten times."""
    table = np.full((LANES, 8), 3 * 2.0**23, np.float32)
    indices = np.concatenate([[0, 0], np.arange(LANES)]).astype(np.uint32)
    steps = np.full((2, LANES), 0.2, np.float32)
    for count in range(1, 1001):
        _add(table, indices, 0, steps, np.float32(0.2), np.float32(1e30), np.uint64(count))
    np.testing.assert_allclose(table[:, :3] - 3 * 2.0**23, 200.0, atol=4)
    assert (table[:, 3:] == 3 * 2.0**23).all()
