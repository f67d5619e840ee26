"""Updates of a lane from a label: slope and curvature of the evidence, and steps of scale, intercept and weights.

Each function handles eight lanes at a time. The equations are in the docstring of `learner`.
"""

from __future__ import annotations

from bayou.core.validation import LIMIT
from bayou.kernels.compiling import kernel
from bayou.kernels.exponential import exp2
from bayou.kernels.vector import cast_like, sqrt, where_above
from bayou.learners.bases.evidence import slope_and_curvature, solve_evidence_step

LIMIT_32, LIMIT_64 = LIMIT["float32"], LIMIT["float64"]
# Largest stored value of a gained precision, in the units of a lane that fades.
FARTHEST_32, FARTHEST_64 = 1e37, 1e300
# l ~ N(0, .05) before any data; an example moves it by at most 1/2, and it stays within +-5.
SCALE_PRECISION, SCALE_STEP, SCALE_FARTHEST = 1.0 / 0.05, 0.5, 5.0
# Lower bound of the root of squared gradients: an error below 1e-6 should not move a weight by the whole rate.
LEAST_ROOT = 1e-6


@kernel(forceinline=True)
def evidence(logit, c):
    """Return slope and curvature of c <= 1 units of evidence, given log2 of the odds of the label."""
    e = exp2(logit)
    slope = c / (e + 1.0)
    return slope, slope * (e / (e + 1.0))


@kernel(forceinline=True)
def evidence_heavy_weight(z, tau, c):
    """Return slope and curvature of c > 1 units of evidence: the first unit at z, the other c - 1 where they move z to.

    That is z + t with t = tau [q(z) + (c - 1) q(z + t)], q(z) = S(-z).
    """
    slope, curvature = slope_and_curvature(z)
    q, p = solve_evidence_step(z + tau * slope, tau * (c - 1.0))
    return slope + q * (c - 1.0), curvature + p * q * (c - 1.0)


@kernel(forceinline=True)
def scale_step(log, gained, scaled, total, v, step, fall):
    """Return the scale's updated logarithm and gained precision; `total` is M, its value."""
    log = log + cast_like(max(min(total * v * step, SCALE_STEP), -SCALE_STEP), log)
    more = scaled * (total * total * fall)
    more = cast_like(more / max(1.0 - more * v, 0.5), log)
    return max(min(log, SCALE_FARTHEST), -SCALE_FARTHEST), min(gained + more, LIMIT_64)


@kernel(forceinline=True)
def intercept_step(mean, gained, prior, keep, live, v, rate, any_rate, step, fall):
    """Return the intercept's updated mean and gained precision."""
    grown = gained + live * cast_like(step * step, mean)
    moved, more = v * step, fall / max(1.0 - v * fall, 0.5)
    if any_rate:
        moved = where_above(rate, 0.0, rate * step / max(sqrt(cast_like(grown, v)), LEAST_ROOT), moved)
    gained = gained + live * cast_like(more, mean)
    gained = max(gained * keep - prior * (1.0 - keep), 0.0)
    return mean + live * cast_like(moved, mean), min(where_above(cast_like(rate, mean), 0.0, grown, gained), LIMIT_64)


@kernel(forceinline=True)
def weight_step(gained, x, xv, rate, any_rate, step, fall):
    """Return the step of a feature's means, the gain of its precisions, and the fraction of its variances that stays.

    The fraction is at least a half; if moment matching asks for less, variances fall more slowly than it says.
    """
    xf = x * fall
    top, share = x * xf, max(1.0 - xv * xf, 0.5)
    shift, bottom = xv * step, share
    if any_rate:
        gradient = x * step
        square = gradient * gradient
        top = where_above(rate, 0.0, rate * gradient, top)
        bottom = where_above(rate, 0.0, max(sqrt(gained + square), LEAST_ROOT), bottom)
        more = top / bottom
        shift = where_above(rate, 0.0, more, shift)
        return shift, where_above(rate, 0.0, square, more), share
    return shift, top / bottom, share
