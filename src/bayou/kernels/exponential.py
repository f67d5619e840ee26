"""Powers and logarithms of vectors, by polynomials that are accurate to the rounding of float32 or float64."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import overload

from bayou.kernels.compiling import kernel
from bayou.kernels.instructions import instruction
from bayou.kernels.numba_private import cgutils
from bayou.kernels.vector import FUSE, LANES, Vec, broadcast, magnitude, nearest, splat

LN2, LOG2E = math.log(2.0), 1.0 / math.log(2.0)


@instruction(lambda vec, exponent: vec(vec, exponent))
def _times_power_of_two(context, builder, sig, args):
    """Return vec * 2^exponent for integer exponents that keep the result normal, by adding to the exponent bits."""
    bits, mantissa = (32, 23) if sig.args[0].scalar == types.float32 else (64, 52)
    integers = ir.VectorType(ir.IntType(bits), LANES)
    shift = builder.shl(builder.fptosi(args[1], integers), ir.Constant(integers, [mantissa] * LANES))
    return builder.bitcast(builder.add(builder.bitcast(args[0], integers), shift), args[0].type)


def _series(function, degree, low, high):
    """Return the coefficients of the polynomial that interpolates `function` at the Chebyshev points of [low, high]."""
    fit = np.polynomial.Chebyshev.interpolate(function, degree, domain=[low, high])
    return tuple(float(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef)


@instruction(lambda x, coefficients: x(x, coefficients))
def polynomial(context, builder, sig, args):
    """Return c[0] + c[1] x + c[2] x^2 + ... of a vector, by a tree (Estrin) instead of Horner's chain."""
    constants = cgutils.unpack_tuple(builder, args[1])
    terms = [splat(context, builder, n, kind, sig.args[0]) for n, kind in zip(constants, sig.args[1], strict=True)]
    power = args[0]
    while len(terms) > 1:
        odd_terms = [builder.fmul(term, power, flags=FUSE) for term in terms[1::2]]
        alone = terms[::2][len(odd_terms) :]
        terms = [builder.fadd(*pair, flags=FUSE) for pair in zip(odd_terms, terms[::2], strict=False)] + alone
        power = builder.fmul(power, power, flags=FUSE)
    return terms[0]


# 2^x = 1 + x (2^x - 1)/x, so that 2^0 is exactly 1; relative error 1e-8, less than a float32's rounding.
_SERIES_32 = (1.0, *_series(lambda x: np.expm1(x * math.log(2.0)) / x, 5, -0.5, 0.5))

# In float64 interpolation would suffer from rounding; Taylor's series of this length is accurate to 4e-18.
_SERIES_64 = tuple(math.log(2.0) ** k / math.factorial(k) for k in range(14))

# The smallest powers keep 2^x normal, the largest keep (1 + 2^x)^2 finite.
POWERS_32 = (-126.0, 62.0)

POWERS_64 = (-1022.0, 510.0)


@kernel(forceinline=True)
def _exp2_32(x):
    n = nearest(x)
    f = x - n
    f2 = f * f
    c = _SERIES_32
    # A tree (Estrin) instead of Horner's chain: the next row waits for this one.
    high = (f * c[5] + c[4]) + f2 * c[6]
    return _times_power_of_two((f * c[1] + c[0]) + f2 * ((f * c[3] + c[2]) + f2 * high), n)


@kernel(forceinline=True)
def _exp2_64(x):
    n = nearest(x)
    f = x - n
    f2 = f * f
    f4 = f2 * f2
    c = _SERIES_64
    low = (f * c[1] + c[0]) + f2 * (f * c[3] + c[2])
    middle = (f * c[5] + c[4]) + f2 * (f * c[7] + c[6])
    high = (f * c[9] + c[8]) + f2 * (f * c[11] + c[10]) + f4 * (f * c[13] + c[12])
    return _times_power_of_two(low + f4 * (middle + f4 * high), n)


@kernel(forceinline=True)
def expm1(x):
    """Return e^x - 1 of a vector of float64, to full precision near 0; x is clipped so that e^x is within 2^POWERS."""
    power = min(max(x * LOG2E, POWERS_64[0]), POWERS_64[1])
    n = nearest(power)
    f = power - n
    power_of_two = _times_power_of_two(broadcast(x, 1.0), n)
    return power_of_two * (f * polynomial(f, _SERIES_64[1:])) + (power_of_two - 1.0)


@kernel(forceinline=True)
def _clipped_exp2_32(x):
    return _exp2_32(min(max(x, POWERS_32[0]), POWERS_32[1]))


@kernel(forceinline=True)
def _clipped_exp2_64(x):
    return _exp2_64(min(max(x, POWERS_64[0]), POWERS_64[1]))


_EXP_UNIT = _series(np.exp, 6, 0.0, 1.0)  # relative error 7e-8


@kernel(forceinline=True)
def _exp_unit_32(t):
    t2 = t * t
    c = _EXP_UNIT
    return (t * c[1] + c[0]) + t2 * ((t * c[3] + c[2]) + t2 * ((t * c[5] + c[4]) + t2 * c[6]))


@kernel(forceinline=True)
def _exp_unit_64(t):
    return _exp2_64(t * 1.4426950408889634)


def _by_type(for_32, for_64):
    """Return a function for kernels that calls one of two, by the type of its vector."""

    def function(vec):
        raise NotImplementedError("this function works inside jitted code only")

    @overload(function, inline="always")
    def choose(vec):
        if not isinstance(vec, Vec):
            return None
        implementation = for_32 if vec.scalar == types.float32 else for_64
        return lambda vec: implementation(vec)

    return function


# 2^x for x within POWERS of its type, without a check.
exp2_within = _by_type(_exp2_32, _exp2_64)
# 2^x for any x, clipped to POWERS of its type.
exp2 = _by_type(_clipped_exp2_32, _clipped_exp2_64)
# e^t for t in [0, 1]: without rounding to powers of two, so faster than exp2 in float32.
exp_unit = _by_type(_exp_unit_32, _exp_unit_64)


# ln(1 + t) = t * (a polynomial of t), so that it is exactly 0 at 0; relative error 4e-15.
_LOG_UNIT = _series(lambda t: np.log1p(t) / t, 17, 0.0, 1.0)


@kernel(forceinline=True)
def log1p_unit(t):
    """Return ln(1 + t) of a vector of float64, for t in [0, 1]."""
    c = _LOG_UNIT
    t2 = t * t
    t4 = t2 * t2
    t8 = t4 * t4
    first = (t * c[1] + c[0]) + t2 * (t * c[3] + c[2]) + t4 * ((t * c[5] + c[4]) + t2 * (t * c[7] + c[6]))
    second = (t * c[9] + c[8]) + t2 * (t * c[11] + c[10]) + t4 * ((t * c[13] + c[12]) + t2 * (t * c[15] + c[14]))
    return t * (first + t8 * (second + t8 * (t * c[17] + c[16])))


@kernel(forceinline=True)
def log_sigmoid(z):
    """Return ln(1/(1 + e^-z)) of a vector of float64, for |z| of at most 708."""
    return min(z, 0.0) - log1p_unit(exp2_within(magnitude(z) * -LOG2E))


@instruction(lambda vec: types.UniTuple(vec, 2)(vec))
def _parts(context, builder, sig, args):
    """Return (e, m) with x = 2^e m and m in [sqrt(1/2), sqrt(2)), of a vector of positive, normal float64."""
    integers = ir.VectorType(ir.IntType(64), LANES)
    bits = builder.bitcast(args[0], integers)
    root_half = ir.Constant(integers, [0x3FE6A09E667F3BCD] * LANES)
    mantissa = ir.Constant(integers, [52] * LANES)
    exponent = builder.ashr(builder.sub(bits, root_half), mantissa)
    scaled = builder.bitcast(builder.sub(bits, builder.shl(exponent, mantissa)), args[0].type)
    return context.make_tuple(builder, sig.return_type, [builder.sitofp(exponent, args[0].type), scaled])


_ARTANH = tuple(1.0 / (2 * k + 3) for k in range(10))  # after the first term; the next one is 2e-18 of it


@kernel(forceinline=True)
def log(x):
    """Return ln x of a vector of positive, normal float64: 2 artanh((m - 1)/(m + 1)), by its series."""
    exponent, m = _parts(x)
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    s4 = s2 * s2
    c = _ARTANH
    low = (s2 * c[1] + c[0]) + s4 * (s2 * c[3] + c[2])
    high = (s2 * c[5] + c[4]) + s4 * ((s2 * c[7] + c[6]) + s4 * (s2 * c[9] + c[8]))
    return exponent * LN2 + (s + s * s2 * (low + s4 * s4 * high)) * 2.0
