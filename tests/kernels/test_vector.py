"""Eight numbers at a time, against NumPy: every function inside a small kernel, in both types."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from bayou.kernels import exponential, gather, vector
from bayou.kernels.exponential import POWERS_32, POWERS_64
from bayou.kernels.vector import LANES

both = pytest.mark.parametrize("dtype", [np.float32, np.float64])
POWERS = {np.float32: POWERS_32, np.float64: POWERS_64}


@njit
def each(function, xs, out):
    for k in range(0, xs.size, LANES):
        vector.store(out, k, function(vector.load(xs, k)))


@njit
def exp2(v):
    return exponential.exp2(v)


@njit
def exp2_within(v):
    return exponential.exp2_within(v)


@njit
def exp_unit(v):
    return exponential.exp_unit(v)


@njit
def sqrt(v):
    return vector.sqrt(v)


@njit
def magnitude(v):
    return vector.magnitude(v)


@njit
def nearest(v):
    return vector.nearest(v)


def apply(function, xs: np.ndarray) -> np.ndarray:
    out = np.empty_like(xs)
    each(function, xs, out)
    return out


def points(low: float, high: float, dtype, n: int = 8000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([np.linspace(low, high, n), rng.uniform(low, high, n)]).astype(dtype)


def relative_error(found: np.ndarray, function, xs: np.ndarray) -> float:
    """The largest error in units of the exact value, which has more digits than the answer."""
    exact = function(xs.astype(np.longdouble))
    return float(np.max(np.abs(found.astype(np.longdouble) - exact) / exact))


# Two units of the last place in float32: one is the series', one is rounding.
ACCURACY = {np.float32: 2.5e-7, np.float64: 1e-15}


@both
@pytest.mark.parametrize("function", [exp2, exp2_within], ids=["exp2", "exp2_within"])
def test_exp2_is_accurate_over_its_whole_range(dtype, function):
    xs = points(*POWERS[dtype], dtype)
    assert relative_error(apply(function, xs), np.exp2, xs) < ACCURACY[dtype]


@both
def test_exp2_of_whole_numbers_is_exact(dtype):
    low, high = POWERS[dtype]
    xs = np.arange(low, high + 1).astype(dtype)
    xs = np.pad(xs, (0, -len(xs) % LANES))
    # the polynomial's constant term is not quite 1 in float32
    np.testing.assert_allclose(apply(exp2, xs), np.exp2(xs), rtol=np.finfo(dtype).eps)


@both
def test_exp2_is_held_within_its_range(dtype):
    low, high = POWERS[dtype]
    xs = np.array([low - 0.6, low * 2, -np.inf, low, high, high + 0.6, high * 2, np.inf], dtype)
    found = apply(exp2, xs)
    np.testing.assert_array_equal(found[:4], found[3])
    np.testing.assert_array_equal(found[4:], found[4])
    assert found[0] >= np.finfo(dtype).tiny
    assert np.isfinite((1 + found[-1]) ** 2)


@both
def test_exp_unit_is_accurate(dtype):
    xs = points(0.0, 1.0, dtype)
    assert relative_error(apply(exp_unit, xs), np.exp, xs) < ACCURACY[dtype]


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
    vector.store(out[9], 0, vector.fill(x, number))


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
def gather(table, rows, start, first, second):
    a, b = gather.gather_pairs(table, rows, start)
    vector.store(first, 0, a)
    vector.store(second, 0, b)


@njit
def scatter(table, rows, start, first, second):
    gather.scatter_pairs(table, rows, start, vector.load(first, 0), vector.load(second, 0))


@both
def test_gather_pairs_reads_the_rows_that_are_named(dtype):
    rng = np.random.default_rng(2)
    table = rng.normal(size=(50, 2)).astype(dtype)
    rows = rng.integers(0, 50, 20).astype(np.uint32)
    rows[5:8] = 49, 49, 0  # repeated, first and last
    first, second = np.empty((2, LANES), dtype)
    gather(table, rows, 3, first, second)
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
    scatter(table, rows, 2, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
    np.testing.assert_array_equal(table, expected)


@njit
def prefetch(table, rows, start):
    gather.prefetch_pairs(table, rows, start)


@both
def test_prefetch_changes_nothing(dtype):
    table = np.arange(20, dtype=dtype).reshape(10, 2)
    before = table.copy()
    prefetch(table, np.arange(LANES, dtype=np.uint32), 0)
    np.testing.assert_array_equal(table, before)


@njit
def total(xs):
    return vector.total(vector.load(xs, 0))


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
    vector.store(out, 0, vector.put(vector.load(xs, 0), lane, value))


@njit
def picked(xs, lane):
    return vector.pick(vector.load(xs, 0), lane)


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


def test_exponentials_say_that_they_are_for_jitted_code():
    for function in (exponential.exp2, exponential.exp2_within, exponential.exp_unit):
        with pytest.raises(NotImplementedError, match="jitted"):
            function(1.0)


# --- rows of eight --------------------------------------------------------------------------------------------------


@njit
def _sums(table, indices, out):
    first, second = gather.gather_sums(table, indices, 2)
    vector.store(out[0], 0, first)
    vector.store(out[1], 0, second)


@njit
def _add(table, indices, half, steps, third, most, count):
    gather.add_to_half(table, indices, 2, half, vector.load(steps[0], 0), vector.load(steps[1], 0), third, most, count)


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
