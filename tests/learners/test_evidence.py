"""Heavy evidence in vectors, against roots found by others: any weight, any score, both types."""

import math

import numpy as np
import pytest
from numba import njit
from scipy import optimize
from scipy.special import expit

from bayou.kernels import vector
from bayou.kernels.vector import LANES
from bayou.learners.bank import updates
from bayou.learners.bases import evidence
from tests.kernels.lanes import both

LAST_PLACES = 2


@njit
def heavy(z, tau, c, slopes, curvatures):
    for k in range(0, z.size, LANES):
        slope, curvature = updates.evidence_heavy_weight(vector.load(z, k), vector.load(tau, k), c)
        vector.store(slopes, k, slope)
        vector.store(curvatures, k, curvature)


@njit
def settle(a, r, slopes, curvatures):
    for k in range(0, a.size, LANES):
        q, p = evidence.solve_evidence_step(vector.load(a, k), vector.load(r, k))
        vector.store(slopes, k, q)
        vector.store(curvatures, k, p * q)


def root(a: float, r: float) -> float:
    """The u that solves u = a + r S(-u)."""
    high = min(a + r, max(a, 0.0) + math.log1p(r) + 1.0)  # r S(-u) < 1 there
    bracket = a - 1.0 - 1e-9 * abs(a), high + 1.0 + 1e-9 * abs(high)
    return optimize.brentq(lambda u: u - a - r * expit(-u), *bracket, xtol=1e-17, rtol=1e-15, maxiter=1000)


def exact_heavy(z: float, tau: float, c: float) -> tuple[float, float, float]:
    q, k, u = exact_settled(z + tau * expit(-z), (c - 1.0) * tau)
    return expit(-z) + (c - 1.0) * q, expit(z) * expit(-z) + (c - 1.0) * k, u


def exact_settled(a: float, r: float) -> tuple[float, float, float]:
    u = root(a, r)
    return expit(-u), expit(u) * expit(-u), u


def agree(found, exact, inputs, dtype, weight: float = 1.0) -> None:
    """Slopes and curvatures are as near to the exact ones as the type allows.

    That is as near as those of inputs which are a few last places off, or of a u that is. Below a type's smallest
    number there is nothing: it stands for all smaller ones.
    """
    eps, least = np.finfo(dtype).eps, 4 * weight * float(np.finfo(dtype).tiny)
    columns = [np.broadcast_to(column, inputs[0].shape).astype(float) for column in inputs]

    def exactly(*given):
        return np.array([exact(*point) for point in zip(*given, strict=True)]).T

    *expected, u = exactly(*columns)
    felt = (16 + 4 * np.abs(u)) * eps * np.abs(expected)
    for which, column in enumerate(columns):
        for off in (-LAST_PLACES * eps, LAST_PLACES * eps):
            moved = [*columns[:which], column * (1 + off), *columns[which + 1 :]]
            felt += np.abs(exactly(*moved)[:2] - expected)
    assert (np.abs(np.array(found, float) - expected) <= felt + least).all()


def grid(*axes: np.ndarray, dtype) -> list[np.ndarray]:
    """Every combination, shuffled, so that the eight of a vector are unlike each other."""
    columns = [axis.ravel() for axis in np.meshgrid(*axes)]
    order = np.random.default_rng(0).permutation(columns[0].size // LANES * LANES)
    return [column[order].astype(dtype) for column in columns]


SCORES = np.array([-1e4, -300.0, -88.0, -30.0, -7.0, -2.0, -0.3, 0.0, 0.01, 1.0, 3.5, 12.0, 45.0, 90.0, 700.0, 1e4])


@both
@pytest.mark.parametrize("c", [1.0 + 1e-6, 1.5, 16.0, 1e3, 1e6])
def test_heavy_evidence_leaves_the_score_where_its_equation_says(dtype, c):
    z, tau = grid(SCORES, np.logspace(-6, 12, 19), dtype=dtype)
    found = np.empty_like(z), np.empty_like(z)
    heavy(z, tau, c, *found)
    agree(found, exact_heavy, (z, tau, c), dtype, c)


@both
def test_evidence_settles_where_its_equation_says(dtype):
    near_0 = -np.logspace(0, 6, 24) / 2 * (1 + 1e-3)  # of which r moves some to about 0, where the sides meet
    a, r = grid(np.concatenate([SCORES, near_0]), np.append(np.logspace(-6, 12, 37), 0.0), dtype=dtype)
    found = np.empty_like(a), np.empty_like(a)
    settle(a, r, *found)
    agree(found, exact_settled, (a, r), dtype)


@both
def test_the_largest_evidence_that_a_state_can_hold_settles(dtype):
    most = {np.float32: 30, np.float64: 150}[dtype]
    a, r = grid(SCORES, 10.0 ** np.arange(most - 8, most + 1), dtype=dtype)
    found = np.empty_like(a), np.empty_like(a)
    settle(a, r, *found)
    agree(found, exact_settled, (a, r), dtype)


@both
def test_heavy_evidence_without_variance_is_as_many_times_the_light(dtype):
    """What lanes of AdaGrad get, and lanes that fill a block."""
    z, tau = SCORES.astype(dtype), np.zeros(SCORES.size, dtype)
    slopes, curvatures = np.empty_like(z), np.empty_like(z)
    heavy(z, tau, 16.0, slopes, curvatures)
    exact = z.astype(float)
    tolerance = np.finfo(dtype).eps * (4 + np.abs(exact))
    least = 64 * np.finfo(dtype).tiny
    assert (np.abs(slopes - 16 * expit(-exact)) <= tolerance * 16 * expit(-exact) + least).all()
    exact_curvature = 16 * expit(exact) * expit(-exact)
    assert (np.abs(curvatures - exact_curvature) <= tolerance * exact_curvature + least).all()
