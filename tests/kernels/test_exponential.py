"""Powers of vectors: accurate over their whole range, in both types."""

import numpy as np
import pytest
from numba import njit

from bayou.kernels import exponential
from bayou.kernels.exponential import POWERS_32, POWERS_64
from bayou.kernels.vector import LANES
from tests.kernels.lanes import apply, both, points

POWERS = {np.float32: POWERS_32, np.float64: POWERS_64}


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
def log_sigmoid(v):
    return exponential.log_sigmoid(v)


@njit
def log(v):
    return exponential.log(v)


@njit
def expm1(v):
    return exponential.expm1(v)


def relative_error(found: np.ndarray, function, xs: np.ndarray) -> float:
    """The largest error in units of the exact value, which has more digits than the answer."""
    exact = function(xs.astype(np.longdouble))
    return float(np.max(np.abs(found.astype(np.longdouble) - exact) / np.abs(exact)))


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


def test_log_sigmoids_are_right_to_rounding():
    z = np.concatenate([np.linspace(-30, 30, 4005), [0.0, 1e-300, -1e-300]])
    np.testing.assert_allclose(apply(log_sigmoid, z), -np.logaddexp(0, -z), rtol=2e-14)


def test_expm1_keeps_its_digits_near_0_and_stays_finite():
    near = np.exp2(points(-1000, 9, np.float64, 800))
    xs = np.concatenate([near, -near[near < 700], points(-2, 2, np.float64, 800)])
    xs = xs[np.abs(xs) < 353][: xs.size // 16 * LANES]
    assert relative_error(apply(expm1, xs), np.expm1, xs) < 2e-15 + 353 * 2.3e-16
    small = xs[np.abs(xs) < 1][:1600]
    assert relative_error(apply(expm1, small), np.expm1, small) < 2e-15
    assert (apply(expm1, np.zeros(LANES)) == 0.0).all()
    assert np.isfinite(apply(expm1, np.full(LANES, 1e300))).all()


def test_log_is_accurate_over_its_whole_range_and_near_1():
    far, near = np.exp2(points(-1022, 1023, np.float64)), points(0.5, 2.0, np.float64)
    xs = np.concatenate([far, near, 1.0 + np.exp2(-np.arange(1.0, 49.0))])
    xs = np.where(xs == 1.0, 2.0, xs)
    assert relative_error(apply(log, xs), np.log, xs) < 5e-16
    assert (apply(log, np.ones(LANES)) == 0.0).all()


def test_exponentials_say_that_they_are_for_jitted_code():
    for function in (exponential.exp2, exponential.exp2_within, exponential.exp_unit):
        with pytest.raises(NotImplementedError, match="jitted"):
            function(1.0)
