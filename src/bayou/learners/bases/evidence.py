"""Log-likelihood of a label for eight scores at a time: slope, curvature, and the posterior mode of a score.

Functions that take a link work in float64, the others in the type of their vectors. S(z) = 1/(1 + e^-z); every
exponential decays, so that none overflows.
"""

from __future__ import annotations

import math

from numba import types

from bayou.core import links
from bayou.kernels import normal_cdf
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import LOG2E, exp2, log1p_unit
from bayou.kernels.instructions import instruction
from bayou.kernels.vector import any_above, broadcast, magnitude, where_above

# The error of a third-order step is about its cube: for steps shorter than this, below the last place of the type.
SHORT_32, SHORT_64 = 3e-3, 4e-6
# A step covers at least 1 while the root is far; at LIMIT["float64"] the root is near 345.
MOST_STEPS = 400


def _tangent_at(u):
    """Return the parts of S(-u)'s tangent that do not depend on a and r: S(-u) + u S(u) S(-u), and S(u) S(-u)."""
    q = 1.0 / (1.0 + math.exp(u))
    return q + u * q * (1.0 - q), q * (1.0 - q)


_NEAR, _MIDDLE, _FAR = _tangent_at(1.0), _tangent_at(2.5), _tangent_at(4.5)


@instruction(lambda vec: types.float64(vec))
def _short(context, builder, sig, args):
    """Return SHORT of a vector's type."""
    return context.get_constant(types.float64, SHORT_32 if sig.args[0].scalar == types.float32 else SHORT_64)


@kernel(forceinline=True)
def slope_and_curvature(z):
    """Return S(-z) and S(z) S(-z)."""
    decay = exp2(magnitude(z) * -LOG2E)
    share = 1.0 / (decay + 1.0)
    small = decay * share
    return where_above(z, 0.0, small, share), small * share


@kernel(forceinline=True)
def link_slope_and_curvature(link, z):
    """Return (log F)' and -(log F)'' of a link at z."""
    if link == links.PROBIT:
        return normal_cdf.slope_and_curvature(z)
    if link == links.LOGISTIC:
        return slope_and_curvature(z)
    return z * math.nan, z * math.nan


@kernel(forceinline=True)
def link_log_cdf(link, z):
    """Return log F of a link at z."""
    if link == links.PROBIT:
        return normal_cdf.log_cdf(z)
    if link == links.LOGISTIC:
        return min(z, 0.0) - log1p_unit(exp2(magnitude(z) * -LOG2E))
    return z * math.nan


@kernel(forceinline=True)
def link_peak_start(link, z):
    """Return the start of Newton's steps to the peak; see `links.peak_start`."""
    if link == links.PROBIT:
        return broadcast(z, 0.0)
    if link == links.LOGISTIC:
        return max(z * -1.0, 0.0)
    return z * math.nan


@kernel(forceinline=True)
def solve_evidence_step(a, r):
    """Return S(-u) and S(u) at the solution of u = a + r S(-u), r >= 0: the score a after evidence of weight r.

    u = a + r S(-u) and -u = -(a + r) + r S(u) are the same equation, and in one of them u >= 0, where u - r S(-u) is
    concave: its tangents lie above it, and lead to points below the root. Steps of the third order (Chebyshev's:
    Newton's with a correction for curvature) start from the best of three such points. Two steps are mostly enough.
    """
    middle = r * 0.5 + a
    b = where_above(middle, 0.0, a, (a + r) * -1.0)
    u = max(max(b, 0.0), (r * _NEAR[0] + b) / (r * _NEAR[1] + 1.0))
    u = max(u, max((r * _MIDDLE[0] + b) / (r * _MIDDLE[1] + 1.0), (r * _FAR[0] + b) / (r * _FAR[1] + 1.0)))
    for _ in range(MOST_STEPS):
        e = exp2(u * -LOG2E)
        d, pull = e + 1.0, r * e
        # Newton's step with numerator and denominator times (1 + e)^2, so that neither division waits for the other
        p, inverse = 1.0 / d, 1.0 / (d * d + pull)
        newton = ((b - u) * d + pull) * (d * inverse)
        q = e * p
        bend = 0.5 - q
        step = newton * (newton * (pull * inverse) * bend + 1.0)
        if not any_above(magnitude(step), _short(u)):
            break
        u = max(u + step, 0.0)
    # so short a step needs no other exponential
    fall = p * q * step * (1.0 - bend * step)
    p, q = p + fall, q - fall
    return where_above(middle, 0.0, q, p), where_above(middle, 0.0, p, q)
