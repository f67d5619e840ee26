"""Writing numbers as text in kernels, by address: the inverse of `parse_text`.

Functions that write numbers take the address to write to and return the address after the text. Eight digits are
computed and stored at a time, so up to WRITE_PADDING_BYTES bytes after the text are overwritten; callers leave room
for that.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from bayou.kernels.compiling import kernel
from bayou.kernels.instructions import instruction
from bayou.kernels.parse_text import leading_zeros, trailing_zeros
from bayou.kernels.vector import float_bits

# Bytes that may be overwritten after the text, and the longest text: "-1.23456789e-308", "-0.0000123456789".
WRITE_PADDING_BYTES = 16
MAX_NUMBER_BYTES = 16

_ZEROS = np.uint64(0x3030303030303030)
_NOUGHT_POINT = np.uint64(int.from_bytes(b"0.000000", "little"))
_POINT, _MINUS, _E, _ZERO = 46, 45, 101, 48
# 10^k from k = -_LAST on. Up to 10^22 they are exact.
_LAST = 308
_POWERS = np.array([float(f"1e{k}") for k in range(-_LAST, _LAST + 1)])
_EXACT = 22
# Numbers below this are multiplied by its inverse first, so that no power of ten is out of range.
_TINY, _TINY_POWER = 1e-200, -200
_TEN_DIGITS = np.uint64(1_000_000_000)
# Numbers from 1e-5 to 1e9 are written without an exponent.
_LEAST_PLAIN, _MOST_PLAIN = -5, 8


def _stored(builder, address, value, bits):
    """Store the lowest bits of a word at an address of any alignment."""
    value = value if bits == 64 else builder.trunc(value, ir.IntType(bits))
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 1


@instruction(lambda address, byte: types.void(types.int64, types.int64))
def put_byte(context, builder, sig, args):
    """Write one byte."""
    _stored(builder, *args, 8)


@instruction(lambda address, word: types.void(types.int64, types.uint64))
def put_half(context, builder, sig, args):
    """Write four bytes, the lower half of a word, the lowest first."""
    _stored(builder, *args, 32)


@instruction(lambda address, word: types.void(types.int64, types.uint64))
def put_word(context, builder, sig, args):
    """Write eight bytes, the lowest first."""
    _stored(builder, *args, 64)


@instruction(lambda address, wide, value: types.float64(types.int64, types.boolean, types.float64))
def put_value(context, builder, sig, args):
    """Write a float64 if wide, otherwise a float32; return the stored value."""
    address, wide, value = args
    narrow = builder.fptrunc(value, ir.FloatType())
    with builder.if_else(wide) as branches:
        for branch, stored in zip(branches, (value, narrow), strict=True):
            with branch:
                builder.store(stored, builder.inttoptr(address, stored.type.as_pointer()))
    return builder.select(wide, value, builder.fpext(narrow, value.type))


@kernel(forceinline=True)
def eight_digits(value):
    """Return the eight digits of a number below 10^8 as bytes of a word, the first digit in the lowest byte."""
    # Halves of four digits, then pairs, then digits; each step divides all parts at once.
    x = value // np.uint64(10_000)
    x |= (value - np.uint64(10_000) * x) << np.uint64(32)
    hundreds = ((x * np.uint64(10486)) >> np.uint64(20)) & np.uint64(0x7F0000007F)
    x = hundreds | ((x - np.uint64(100) * hundreds) << np.uint64(16))
    tens = ((x * np.uint64(103)) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)
    return tens | ((x - np.uint64(10) * tens) << np.uint64(8))


@kernel(forceinline=True)
def put_eight_digits(address, value):
    """Write the eight digits of a number below 10^8."""
    put_word(address, eight_digits(value) | _ZEROS)


@kernel(forceinline=True)
def put_whole(address, value):
    """Write a whole number from 0 to 10^16 - 1."""
    value = np.uint64(value)
    end = address
    if value >= np.uint64(100_000_000):
        upper = value // np.uint64(100_000_000)
        word = eight_digits(upper)
        first = trailing_zeros(word) >> 3
        put_word(end, (word | _ZEROS) >> np.uint64(8 * first))
        end += 8 - first
        put_eight_digits(end, value - upper * np.uint64(100_000_000))
        return end + 8
    word = eight_digits(value)
    first = min(trailing_zeros(word) >> 3, 7)  # one digit for 0
    put_word(end, (word | _ZEROS) >> np.uint64(8 * first))
    return end + 8 - first


@kernel(forceinline=True)
def _nine_digits(size):
    """Return (m, e) such that size > 0 is about m * 10^(e - 8), where m has nine digits."""
    lift = 0
    if size < _TINY:
        size *= 1e200
        lift = _TINY_POWER
    # log10(2) * the binary exponent: exact or one too low
    binary = np.int64(float_bits(size) >> np.uint64(52)) - 1023
    power = (binary * 78913) >> 18
    scaled = size * _POWERS[_LAST + 8 - power]
    if scaled >= 1e9 - 0.5:
        power += 1
        scaled = size * _POWERS[_LAST + 8 - power]
    mantissa = np.uint64(scaled + 0.5)
    return mantissa, power + lift


@kernel(forceinline=True)
def _put_nine(address, negative, mantissa, power):
    """Write mantissa * 10^(power - 8), where the mantissa has nine digits, without trailing zeros."""
    put_byte(address, _MINUS)
    end = address + negative  # no branch: signs are unpredictable
    upper = mantissa // np.uint64(10)
    last = np.int64(mantissa - upper * np.uint64(10))
    word = eight_digits(upper)
    count = 9 if last else 8 - (leading_zeros(word) >> 3)
    text = word | _ZEROS
    if _LEAST_PLAIN <= power < 0:
        put_word(end, _NOUGHT_POINT)
        end += 1 - power
        put_word(end, text)
        put_byte(end + 8, _ZERO + last)
        return end + count
    plain = 0 <= power <= _MOST_PLAIN
    n_before_point = power + 1 if plain else 1  # digits before the point
    put_word(end, text)
    if n_before_point < 8:
        put_word(end + n_before_point + 1, text >> np.uint64(8 * n_before_point))
    put_byte(end + (9 if n_before_point < 9 else 8), _ZERO + last)
    if n_before_point < 9:
        put_byte(end + n_before_point, _POINT)
    end += n_before_point if count <= n_before_point else count + 1
    if not plain:
        put_byte(end, _E)
        end += 1
        if power < 0:
            put_byte(end, _MINUS)
            end += 1
        end = put_whole(end, abs(power))
    return end


@kernel
def _put_zero_or_nothing(address, size):
    """Write 0 for 0, and nothing for a number that is not finite."""
    if size == 0.0:
        put_byte(address, _ZERO)
        return address + 1
    return address


@kernel
def put_number(address, value):
    """Write a number with nine significant digits; nothing for one that is not finite."""
    size = abs(value)
    if not 0.0 < size < np.inf:
        return _put_zero_or_nothing(address, size)
    mantissa, power = _nine_digits(size)
    return _put_nine(address, value < 0.0, mantissa, power)


@kernel
def put_float32(address, value):
    """Write the shortest of seven, eight or nine significant digits that read as the same float32."""
    size = abs(np.float64(value))
    if not 0.0 < size < np.inf:
        return _put_zero_or_nothing(address, size)
    mantissa, power = _nine_digits(size)
    down = 8 - power
    if 0 <= down <= _EXACT:  # quotients of exact numbers are rounded as by any reader
        seven = (mantissa + np.uint64(50)) // np.uint64(100) * np.uint64(100)
        eight = (mantissa + np.uint64(5)) // np.uint64(10) * np.uint64(10)
        unit = _POWERS[_LAST + down]
        if seven < _TEN_DIGITS and np.float32(np.float64(seven) / unit) == np.float32(size):
            mantissa = seven
        elif eight < _TEN_DIGITS and np.float32(np.float64(eight) / unit) == np.float32(size):
            mantissa = eight
    return _put_nine(address, value < 0.0, mantissa, power)
