"""The normal distribution in vectors, against scipy over the whole line."""

import numpy as np
from numba import njit
from scipy import special

from bayou.kernels import normal_cdf
from bayou.kernels.vector import LANES
from tests.kernels.lanes import apply

_MANY = np.concatenate(
    [
        np.linspace(-40.0, 40.0, 16_001),
        np.linspace(-0.01, 0.01, 201),  # where left and right meet
        np.linspace(38.4, 38.6, 101),  # where the density vanishes
        [side * 10.0**k for side in (-1, 1) for k in range(-300, 151, 3)],
        [-0.0, 0.0],
    ]
)
# Shuffled, so that the eight of a vector are on both sides; and in order, so that they are on one.
GRID = np.concatenate([np.random.default_rng(0).permutation(_MANY), np.sort(_MANY)])
GRID = GRID[: GRID.size // LANES * LANES]


@njit
def slope(z):
    return normal_cdf.slope_and_curvature(z)[0]


@njit
def curvature(z):
    return normal_cdf.slope_and_curvature(z)[1]


@njit
def log_cdf(z):
    return normal_cdf.log_cdf(z)


@njit
def excess(x):
    return normal_cdf.excess(x)


def assert_close(found, exact, relative):
    """Equal to a relative tolerance, but for what is too small to be a normal number."""
    found, exact, relative = np.broadcast_arrays(found, exact, relative)
    assert np.isfinite(found).all()
    assert (np.abs(found - exact) <= relative * np.abs(exact) + 1e-300).all()


def of_square(z):
    """What the roundings of z^2/2 in units of log 2 do to exp(-z^2/2), ours and scipy's."""
    return np.where(z > 0, 1e-15 * np.minimum(np.square(z), 1600), 0)


def hazard(z):
    return np.sqrt(2 / np.pi) / special.erfcx(-z / np.sqrt(2))


def fraction(x, levels=400):
    """R(-x) - x by Laplace's continued fraction, for x from 1 on."""
    level = x
    for k in range(levels, 1, -1):
        level = k / level + x
    return 1 / level


def test_the_slope_is_the_hazard_everywhere():
    assert_close(apply(slope, GRID), hazard(GRID), 2e-15 + of_square(GRID))


def test_mills_ratio_is_made_of_the_excess():
    x = np.abs(GRID)
    mills = np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2))
    assert_close(1 / (x + apply(excess, x)), mills, 2e-15)


def test_the_excess_keeps_its_digits_where_a_difference_would_cancel():
    x = np.abs(GRID)
    found = apply(excess, x)
    assert_close(found[x >= 3], fraction(x[x >= 3]), 1e-15)
    assert_close(found[x < 3], hazard(-x[x < 3]) - x[x < 3], 2e-14)


def test_the_curvature_is_right_on_both_sides():
    found = apply(curvature, GRID)
    left, right = GRID <= -3, GRID > -3
    assert_close(found[left], hazard(GRID[left]) * fraction(-GRID[left]), 2e-15)
    sums = np.where(hazard(GRID) == 0, 0, hazard(GRID) * (GRID + hazard(GRID)))
    assert_close(found[right], sums[right], 2e-14 + 2 * of_square(GRID[right]))
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[GRID > 39] == 0).all()


def test_the_logarithm_is_scipys_everywhere():
    assert_close(apply(log_cdf, GRID), special.log_ndtr(GRID), 1e-14 + of_square(GRID))
