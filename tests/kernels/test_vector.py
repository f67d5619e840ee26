"""Eight numbers at a time, against NumPy: every function inside a small kernel, in both types."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from bayou.kernels import vector
from bayou.kernels.vector import LANES, WIDE
from tests.kernels.lanes import apply, both, points


@njit
def sqrt(v):
    return vector.sqrt(v)


@njit
def magnitude(v):
    return vector.magnitude(v)


@njit
def nearest(v):
    return vector.nearest(v)


@both
def test_elementwise_functions_equal_numpys(dtype):
    xs = np.concatenate([points(-50, 50, dtype, 400), np.array([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, 1e30, -1e30], dtype)])
    np.testing.assert_array_equal(apply(sqrt, np.abs(xs)), np.sqrt(np.abs(xs)))
    np.testing.assert_array_equal(apply(magnitude, xs), np.abs(xs))
    np.testing.assert_array_equal(apply(nearest, xs), np.rint(xs))


@njit
def arithmetic(xs, ys, number, out):
    x, y = vector.load(xs, 0), vector.load(ys, 0)
    vector.store(out[0], 0, x + y)
    vector.store(out[1], 0, x - y)
    vector.store(out[2], 0, x * y)
    vector.store(out[3], 0, x / y)
    vector.store(out[4], 0, max(x, y))
    vector.store(out[5], 0, min(x, y))
    vector.store(out[6], 0, x * number)
    vector.store(out[7], 0, number - x)
    vector.store(out[8], 0, max(x, number))
    vector.store(out[9], 0, vector.broadcast(x, number))


@both
@pytest.mark.parametrize("number", [3, 0.1])
def test_arithmetic_equals_numpys_and_mixes_with_plain_numbers(dtype, number):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, LANES)).astype(dtype)
    out = np.empty((10, LANES), dtype)
    arithmetic(x, y, number, out)
    c = dtype(number)
    expected = [x + y, x - y, x * y, x / y, np.maximum(x, y), np.minimum(x, y), x * c, c - x, np.maximum(x, c)]
    np.testing.assert_array_equal(out, [*expected, np.full(LANES, c)])


@njit
def squares_less(xs, ys, out):
    x, y = vector.load(xs, 0), vector.load(ys, 0)
    vector.store(out, 0, vector.product(x, x) - y)


@both
def test_a_product_is_rounded_before_a_sum_takes_it_up(dtype):
    x = np.random.default_rng(2).normal(size=LANES).astype(dtype)
    out = np.empty(LANES, dtype)
    squares_less(x, x * x, out)  # what the square was rounded by, if both were one step
    assert not out.any()


@njit
def total(xs):
    return vector.sum_lanes(vector.load(xs, 0))


@both
def test_total_adds_in_one_fixed_order(dtype):
    """Halves first: (0 + 4) + (2 + 6) and (1 + 5) + (3 + 7). The numbers are such that any other order shows."""
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(200):
        x = (rng.normal(size=LANES) * 10.0 ** rng.integers(-3, 8, LANES)).astype(dtype)
        halves = x[:4] + x[4:]
        quarters = halves[:2] + halves[2:]
        assert total(x) == quarters[0] + quarters[1]
        seen.add(total(x) == np.add.accumulate(x)[-1])
        exact = float(sum(Fraction(float(v)) for v in x))
        assert math.isclose(total(x), exact, rel_tol=0, abs_tol=8 * np.finfo(dtype).eps * np.abs(x).sum())
    assert False in seen


@njit
def totals(xs, start, stride, out):
    vector.store(out, 0, vector.sum_lanes_many(xs, start, stride))


@njit
def highest(xs):
    return vector.max_lane(vector.load(xs, 0))


@njit
def load_one(xs, place, out):
    vector.store(out, 0, vector.broadcast_load(xs, place))


@both
def test_totals_of_eight_vectors_have_the_bits_of_total(dtype):
    xs = (np.random.default_rng(5).normal(size=200) * 1e3).astype(dtype)
    out = np.empty(LANES, dtype)
    for start, stride in ((0, LANES), (3, LANES), (5, 19)):
        totals(xs, start, stride, out)
        assert out.tolist() == [total(xs[start + k * stride :][:LANES]) for k in range(LANES)]


@both
def test_highest_and_load_one(dtype):
    xs = np.random.default_rng(6).normal(size=LANES).astype(dtype)
    out = np.empty(LANES, dtype)
    for shift in range(LANES):
        assert highest(np.roll(xs, shift)) == xs.max()
        load_one(xs, shift, out)
        assert (out == xs[shift]).all()


@njit
def any_above(xs, limit):
    return vector.any_above(vector.load(xs, 0), limit)


@njit
def where_above(xs, limit, then, other, out):
    vector.store(out, 0, vector.where_above(vector.load(xs, 0), limit, vector.load(then, 0), vector.load(other, 0)))


@both
def test_any_above_is_strict_and_not_fooled_by_nan(dtype):
    below = np.full(LANES, 1.0, dtype)
    assert not any_above(below, 1.0)
    assert any_above(below, np.nextafter(dtype(1), dtype(0)))
    for lane in range(LANES):
        one = below.copy()
        one[lane] = np.nextafter(dtype(1), dtype(2))
        assert any_above(one, dtype(1))
        one[lane] = np.nan
        assert not any_above(one, 1.0)
        one[lane] = np.inf
        assert any_above(one, 1.0)
    assert not any_above(below, np.nan)
    assert not any_above(np.full(LANES, np.inf, dtype), np.inf)


@both
def test_where_above_takes_the_other_at_equality_and_at_nan(dtype):
    x = np.array([0, 1, 2, np.nan, -np.inf, np.inf, 1, -1], dtype)
    then, other = np.arange(LANES).astype(dtype), -1 - np.arange(LANES).astype(dtype)
    out = np.empty(LANES, dtype)
    where_above(x, 1.0, then, other, out)
    np.testing.assert_array_equal(out, np.where(x > 1, then, other))


@njit
def replaced(xs, lane, value, out):
    vector.store(out, 0, vector.replace_lane(vector.load(xs, 0), lane, value))


@njit
def picked(xs, lane):
    return vector.extract_lane(vector.load(xs, 0), lane)


@both
@pytest.mark.parametrize("lane", range(LANES))
def test_put_and_pick_touch_one_lane(dtype, lane):
    x = np.arange(1, LANES + 1).astype(dtype)
    out = np.empty_like(x)
    replaced(x, lane, 0.1, out)
    expected = x.copy()
    expected[lane] = 0.1
    np.testing.assert_array_equal(out, expected)
    assert picked(x, lane) == lane + 1


@both
def test_load_and_store_start_anywhere(dtype):
    @njit
    def copy(source, a, target, b):
        vector.store(target, b, vector.load(source, a))

    source, target = np.arange(20).astype(dtype), np.zeros(20, dtype)
    copy(source, 5, target, 3)
    np.testing.assert_array_equal(target[3:11], source[5:13])
    assert (target[:3] == 0).all()
    assert (target[11:] == 0).all()


@njit
def sixteen(xs, number, out):
    x = vector.load_double_width(xs, 1)
    vector.store(out, 0, max(x * x + vector.broadcast(x, number), 2.0) / (x - number))
    return vector.sum_lanes(x)


@both
def test_sixteen_at_a_time(dtype):
    xs, out = np.random.default_rng(2).normal(size=WIDE + 1).astype(dtype), np.empty(WIDE, dtype)
    found, x = sixteen(xs, 0.25, out), xs[1:]
    np.testing.assert_allclose(out, np.maximum(x * x + dtype(0.25), 2) / (x - dtype(0.25)), rtol=1e-6)
    np.testing.assert_allclose(found, x.sum(), rtol=1e-5)


@njit
def turned(source, start, stride, target, at, step):
    vector.transpose(source, start, stride, target, at, step)


@both
def test_a_square_is_turned(dtype):
    source, target = np.arange(20.0 * LANES).astype(dtype), np.zeros(20 * LANES, dtype)
    turned(source, 3, 2 * LANES, target, 5, LANES + 1)
    expected, rows = np.zeros_like(target), 3 + 2 * LANES * np.arange(LANES)
    for k in range(LANES):
        expected[5 + k * (LANES + 1) :][:LANES] = source[rows + k]
    np.testing.assert_array_equal(target, expected)
