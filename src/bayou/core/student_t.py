"""Mixtures of Student-t distributions around 0: densities, probabilities and quantiles of errors.

Each row has shares w_k and scales s_k, and each component k has integer degrees of freedom nu_k:

    P(|e| <= a) = sum w_k P(|T_k| <= a / s_k)
"""

from __future__ import annotations

import math

import numpy as np

from bayou.kernels.allocate import empty, zeros
from bayou.kernels.compiling import kernel


@kernel
def within(t, degrees):
    """Return P(|T| <= t) for a Student-t with integer degrees of freedom.

    >>> round(within(1.0, 1), 3), round(within(2.0, 2), 4)
    (0.5, 0.8165)
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = int(degrees) % 2
    term, series = (cosine if odd else 1.0), 0.0
    for k in range(3 if odd else 2, int(degrees) + 1, 2):
        series += term
        term *= cosine * cosine * (k - 1) / k
    return 2.0 / math.pi * (angle + sine * series) if odd else sine * series


@kernel
def log_peaks(degrees):
    """Return the log density at 0 of a Student-t, for each of the degrees of freedom."""
    peaks = empty(degrees.size, np.float64)
    for k in range(degrees.size):
        nu = degrees[k]
        peaks[k] = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
    return peaks


def reaches(level: float, shares: np.ndarray, scales: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return, for each row, the a with P(|e| <= a) = level."""
    from scipy.special import stdtrit

    return _reaches(level, shares, scales, degrees, stdtrit(degrees, 0.5 + 0.5 * level))


@kernel
def log_densities(errors, shares, scales, degrees):
    """Return the log density of each error."""
    densities = empty(errors.size, np.float64)
    constants = log_peaks(degrees)
    for row in range(errors.size):
        most = -np.inf
        logs = empty(degrees.size, np.float64)
        for k in range(degrees.size):
            t = errors[row] / scales[row, k]
            logs[k] = math.log(shares[row, k]) + constants[k] - math.log(scales[row, k])
            logs[k] -= 0.5 * (degrees[k] + 1.0) * math.log1p(t * t / degrees[k])
            most = max(most, logs[k])
        total = 0.0
        for k in range(degrees.size):
            total += math.exp(logs[k] - most)
        densities[row] = most + math.log(total)
    return densities


@kernel
def nearer(errors, shares, scales, degrees):
    """Return P(|e| <= |error|) for each error."""
    inside = zeros(errors.size, np.float64)
    for row in range(errors.size):
        for k in range(degrees.size):
            inside[row] += shares[row, k] * within(abs(errors[row]) / scales[row, k], degrees[k])
    return inside


@kernel
def _reaches(level, shares, scales, degrees, single):
    """Return the a of `reaches`, by Newton's method with bisection when a step leaves the bracket.

    `single` has the a of each component alone, at a scale of 1. Times the scales, the smallest and the largest of these
    bracket the solution.
    """
    peaks = np.exp(log_peaks(degrees))
    solutions = empty(len(shares), np.float64)
    for row in range(solutions.size):
        low, high = np.inf, 0.0
        for k in range(degrees.size):
            low, high = min(low, single[k] * scales[row, k]), max(high, single[k] * scales[row, k])
        low, high = 0.99 * low, 1.01 * high  # single is not exact
        a = math.sqrt(low * high)
        for _ in range(200):
            inside, density = 0.0, 0.0
            for k in range(degrees.size):
                nu, scale = degrees[k], scales[row, k]
                t = a / scale
                inside += shares[row, k] * within(t, nu)
                falls = math.exp(-0.5 * (nu + 1.0) * math.log1p(t * t / nu))
                density += 2.0 * shares[row, k] * peaks[k] * falls / scale
            if inside < level:
                low = a
            else:
                high = a
            step = (level - inside) / density
            if not low <= a + step <= high:
                step = 0.5 * (low + high) - a
            a += step
            if abs(step) <= 1e-12 * a:
                break
        solutions[row] = a
    return solutions
