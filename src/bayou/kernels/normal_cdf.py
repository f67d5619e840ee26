"""The normal distribution in vectors of float64: logarithm of Phi, its slope and its curvature, for any z.

With R(z) = phi(z)/Phi(z), the hazard, (log Phi)' = R and -(log Phi)'' = R (z + R). Far left R(z) approaches -z, so that
the sum z + R would cancel: it is computed first (`excess`), and everything else from it.
"""

from __future__ import annotations

import math

from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, log, log1p_unit, polynomial
from bayou.kernels.vector import any_above, magnitude, where_above

_ROOT = 1.0 / math.sqrt(2.0 * math.pi)
_LOG_ROOT = math.log(_ROOT)
# phi is taken as 0 from here on.
_FAR = 38.5
# (4 + x)(R(-x) - x) as a polynomial of (x - 4)/(x + 4), which interpolates 28 exact values: relative error 2e-17.
_EXCESS = (
    1.8048571559157687,
    -1.1822045015192797,
    0.40195670380623516,
    0.06751792792283014,
    -0.13822449147914684,
    0.0337036676512472,
    0.0316565274896319,
    -0.020800454273858873,
    -0.004488589888986743,
    0.00796141079607631,
    -0.00037358598026898405,
    -0.0024857901680142395,
    0.0005948560376954562,
    0.0006654877420034621,
    -0.0002892919343453747,
    -0.0001503099414745899,
    0.00010488780723204895,
    2.5559015582861455e-05,
    -3.170894333965478e-05,
    -1.4060247434863263e-06,
    8.114491573713766e-06,
    -1.1708386948108755e-06,
    -1.6907513438144842e-06,
    5.856091601311411e-07,
    2.5575598560518874e-07,
    -1.4360935380845031e-07,
    -2.0720960346813525e-08,
    1.6032788795386735e-08,
)


@kernel(forceinline=True)
def excess(x):
    """Return R(-x) - x for x >= 0, from sqrt(2/pi) at 0 to 1/x for large x; Mills' ratio is 1/(x + excess(x))."""
    reciprocal = 1.0 / (x + 4.0)
    return polynomial(reciprocal * -8.0 + 1.0, _EXCESS) * reciprocal


@kernel(forceinline=True)
def density(x):
    """Return phi(x) for x >= 0."""
    return where_above(x, _FAR, x * 0.0, exp2(x * x * (-0.5 * LOG2E)) * _ROOT)


@kernel(forceinline=True)
def slope_and_curvature(z):
    """Return R(z) and R(z) (z + R(z)). Right of 0, R(x) = phi/(1 - Phi(-x)) with Phi(-x) = phi/R(-x)."""
    x = magnitude(z)
    beyond = excess(x)
    left = x + beyond
    slope, curvature = left, min(left * beyond, 1.0)
    if any_above(z, 0.0):
        p = density(x)
        right = p * left / (left - p)
        slope, curvature = where_above(z, 0.0, right, left), where_above(z, 0.0, right * (x + right), curvature)
    return slope, curvature


@kernel(forceinline=True)
def log_cdf(z):
    """Return log Phi(z): left of 0 log phi(z) - log R(z), right of it -log(1 + Phi(-x)/Phi(x))."""
    x = magnitude(z)
    left = x + excess(x)
    value = z
    if any_above(z * -1.0, 0.0):
        value = (x * x * -0.5 + _LOG_ROOT) - log(left)
    if not any_above(z * -1.0, 0.0) or any_above(z, 0.0):
        p = density(x)
        value = where_above(z * -1.0, 0.0, value, log1p_unit(p / (left - p)) * -1.0)
    return value
