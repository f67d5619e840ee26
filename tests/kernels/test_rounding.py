"""Rounding that is right on average: what is lost of small steps stays bounded, and float64 is left alone."""

import numpy as np
from numba import njit

from bayou.kernels import rounding, vector
from bayou.kernels.vector import LANES
from tests.kernels.lanes import both


@njit
def add(values, steps, ids, count):
    vector.store(values, 0, rounding.add_dithered(vector.load(values, 0), vector.load(steps, 0), ids, 0, count))


@njit
def phases(like, ids, count, out):
    vector.store(out, 0, rounding.rounding_phases(vector.load(like, 0), ids, 0, count))


@njit
def phase(feature, count):
    return rounding.rounding_phase(feature, count)


def test_float32_takes_small_steps_as_often_as_is_right():
    """Steps of a tenth of the last place; rounded to nearest none would be taken."""
    values = np.full(LANES, 3 * 2.0**23, np.float32)
    steps = np.full(LANES, 0.2, np.float32)
    steps[1::2] *= -1
    ids = np.arange(LANES, dtype=np.uint32) * 7919
    for count in range(1, 1001):
        add(values, steps, ids, np.uint64(count))
    np.testing.assert_allclose(values - 3 * 2.0**23, np.sign(steps) * 200.0, atol=4)


def test_float64_is_rounded_as_ever():
    rng = np.random.default_rng(0)
    values, steps = rng.normal(size=(2, LANES))
    expected = values + steps
    add(values, steps, np.arange(LANES, dtype=np.uint32), np.uint64(3))
    np.testing.assert_array_equal(values, expected)


@both
def test_the_sequence_is_one_for_vectors_and_numbers(dtype):
    ids = np.array([0, 1, 2, 5, 1000, 2**20, 2**31, 2**32 - 1], np.uint32)
    out = np.empty(LANES, dtype)
    for count in (0, 1, 12345, 2**40 + 3):
        phases(out, ids, np.uint64(count), out)
        expected = [phase(feature, np.uint64(count)) for feature in ids]
        np.testing.assert_allclose(out, expected, atol=1e-7 if dtype == np.float32 else 0)
        assert (np.abs(out) <= 0.5).all()
