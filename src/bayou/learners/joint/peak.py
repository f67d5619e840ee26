"""Peak of the posterior of one example's score, by which both covariances are updated. See `learner`."""

from __future__ import annotations

import math

from bayou.core import links
from bayou.kernels.compiling import kernel

# In the tail a Newton step moves the score by about 1, and the peak is never beyond log tau: 345 steps for the largest
# tau that a learner lets in, ten for a common one.
MAX_ITERATIONS = 400
# For steps up to this length the exponential is a short polynomial.
NEAR = 0.2
# Stands for the variance 0 of an empty row in divisions, whose results are multiplied by 0 afterwards.
TINY = 1e-200


@kernel
def taylor_peak(a0, tau):
    """Return ((a - a0) / tau, r(a)) after one Newton step from a0, (44) to (46); tau is c s2."""
    q, r = links.slope_and_curvature(links.LOGISTIC, a0)
    pull = q / (1.0 + tau * r)
    return pull, links.curvature(links.LOGISTIC, a0 + tau * pull)


@kernel
def newton_peak(a0, tau):
    """Return (S(-a), r(a)) at the peak a = a0 + tau S(-a), (37), accurate to 1e-11; tau is c s2.

    With t = a - a0 and e = exp(-|a|) the equation is t (1 + e) = tau e right of 0, t (1 + e) = tau left of it. Both
    sides are convex or concave, so that Newton's steps converge. Each row waits for this function, which therefore uses
    few exponentials and divisions. Where tau is small the peak is near a0, else it is near 0 or beyond.
    """
    tau = max(tau, TINY)
    inverse = 1.0 / tau
    a = a0 if tau <= 4.0 else max(a0, 0.0)
    t = a - a0
    right = a0 >= 0.0 or (tau > 4.0 and 0.5 * tau > -a0)
    sign = 1.0 if right else -1.0
    decay = math.exp(-sign * a)
    for _ in range(MAX_ITERATIONS):
        rest = tau - t if right else t
        narrow = 1.0 / (1.0 + decay * (1.0 + rest))
        step = ((tau * decay if right else tau) - t * (1.0 + decay)) * narrow
        if abs(step) <= NEAR:
            break
        a += step
        t += step
        decay = math.exp(-sign * a)
    # Newton's step with two more terms of the series, twice; a short polynomial updates e in between.
    step = _curved(step, sign, decay * narrow, rest)
    t += step
    decay *= _exp_near(-sign * step)
    rest = tau - t if right else t
    narrow = 1.0 / (1.0 + decay * (1.0 + rest))
    step = ((tau * decay if right else tau) - t * (1.0 + decay)) * narrow
    step = _curved(step, sign, decay * narrow, rest)
    q = (t + step) * inverse
    return q, q * (1.0 - q if right else decay * (1.0 + step * (1.0 + 0.5 * step)) * q)


@kernel(forceinline=True)
def _curved(step, sign, slope, rest):
    """Return a Newton step corrected by the second and third derivatives of the function."""
    bend = sign * 0.5 * slope * (2.0 + rest)
    twist = slope * (3.0 + rest) * (1.0 / 6.0)
    return step + step * step * (bend + step * (2.0 * bend * bend - twist))


@kernel(forceinline=True)
def _exp_near(h):
    """Return exp(h) for small h, accurate to 1e-12 for |h| <= 2 NEAR: its series, summed in a tree."""
    h2 = h * h
    h4 = h2 * h2
    low = (1.0 + h) + h2 * (1.0 / 2 + h * (1.0 / 6))
    high = (1.0 / 24 + h * (1.0 / 120)) + h2 * (1.0 / 720 + h * (1.0 / 5040)) + h4 * (1.0 / 40320 + h * (1.0 / 362880))
    return low + h4 * high
