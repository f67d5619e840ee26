"""Writing float64 in kernels with the fewest digits that read back as the same number, for JSON.

The method is Schubfach (Giulietti 2020). All numbers between (c -+ 1/2) 2^q round to c 2^q; with 10^k slightly below
the width of that interval, it contains at most two multiples of 10^(k + 1) and some of 10^k to choose from. Four times
the number and its two bounds, in units of 10^k, are needed as integers whose last bit is set if there is a remainder;
128 bits of the power of ten are enough for that.
"""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.format_numbers import eight_digits, put_byte, put_half, put_whole, put_word
from bayou.kernels.parse_text import high_product, leading_zeros
from bayou.kernels.vector import float_bits

# The longest text: "-1.2345678901234567e-308", "-0.000012345678901234567".
LONGEST_SHORTEST = 24
# Numbers from 1e-5 to 1e16 are written without an exponent.
_LEAST_PLAIN, _MOST_PLAIN = -5, 15
_LOWEST_POWER, _HIGHEST_POWER = -292, 324
_BIAS, _HIDDEN = 1075, np.uint64(1 << 52)
_ZEROS = np.uint64(0x3030303030303030)
_NOUGHT_POINT = np.uint64(int.from_bytes(b"0.000000", "little"))
_NULL = np.uint64(int.from_bytes(b"null", "little"))
_NOUGHT = np.uint64(int.from_bytes(b"0.0", "little"))
_POINT, _MINUS, _E, _ZERO = b".-e0"
_WHOLE_POWERS = np.array([10**k for k in range(18)], np.uint64)
_EIGHT, _SIXTEEN = np.uint64(10**8), np.uint64(10**16)


def _power_of_ten(k: int) -> tuple[int, int]:
    """Return the top 128 bits of 10^k, rounded up, as two words."""
    above, below = (10**k, 1) if k >= 0 else (1, 10**-k)
    shift = 127 - ((k * 1741647) >> 19)
    found = -(-(above << max(shift, 0)) // (below << max(-shift, 0)))
    return found >> 64, found & (2**64 - 1)


_TENS = np.array([_power_of_ten(k) for k in range(_LOWEST_POWER, _HIGHEST_POWER + 1)], np.uint64)


@kernel(forceinline=True)
def _times(upper, lower, number):
    """Return the upper 64 of 192 bits of a product, the last of them set if there is a remainder below."""
    carried = high_product(lower, number)
    middle = upper * number + carried
    high = high_product(upper, number) + np.uint64(middle < carried)
    return high | np.uint64(middle > np.uint64(1))


@kernel
def _shortest(bits):
    """Return (m, k) such that m * 10^k reads back as the number with these bits; m may end in zeros."""
    fraction, exponent = bits & np.uint64(2**52 - 1), np.int64(bits >> np.uint64(52)) & 0x7FF
    c = fraction | _HIDDEN if exponent else fraction
    q = max(exponent, 1) - _BIAS
    if -53 < q <= 0 and not c & ((np.uint64(1) << np.uint64(-q)) - np.uint64(1)):
        return c >> np.uint64(-q), 0  # a whole number
    narrow = np.int64(fraction == np.uint64(0) and exponent > 1)  # numbers below are twice as close
    k = (q * 1262611 - narrow * 524031) >> 22
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    upper, lower = _TENS[-k - _LOWEST_POWER, 0], _TENS[-k - _LOWEST_POWER, 1]
    odd, four = c & np.uint64(1), c << np.uint64(2)
    value = _times(upper, lower, four << shift)
    least = _times(upper, lower, (four - np.uint64(2) + np.uint64(narrow)) << shift) + odd
    most = _times(upper, lower, (four + np.uint64(2)) << shift) - odd
    s = value >> np.uint64(2)
    if s >= np.uint64(10):
        tens = s // np.uint64(10)
        below, above = least <= np.uint64(40) * tens, np.uint64(40) * tens + np.uint64(40) <= most
        if below != above:
            return tens + np.uint64(above), k + 1
    below, above = least <= np.uint64(4) * s, np.uint64(4) * s + np.uint64(4) <= most
    if below != above:
        return s + np.uint64(above), k
    half = np.uint64(4) * s + np.uint64(2)
    return s + np.uint64(value > half or (value == half and s & np.uint64(1) == np.uint64(1))), k


@kernel
def put_shortest(address, value):
    """Write the fewest digits that read back as the same number; "null" for one that is not finite."""
    size = abs(value)
    if not size < np.inf:
        put_half(address, _NULL)
        return address + 4
    bits = float_bits(value)
    negative = np.int64(bits >> np.uint64(63))
    put_byte(address, _MINUS)
    at = address + negative
    if size == 0.0:
        put_half(at, _NOUGHT)
        return at + 3
    mantissa, power = _shortest(bits)
    length = 17 if mantissa >= _SIXTEEN else 16
    while mantissa < _WHOLE_POWERS[length - 1]:
        length -= 1
    power += length - 1
    # Seventeen digits, possibly with trailing zeros: one, eight, and eight.
    mantissa *= _WHOLE_POWERS[17 - length]
    first = mantissa // _SIXTEEN
    mantissa -= first * _SIXTEEN
    upper = mantissa // _EIGHT
    word, last = eight_digits(upper), eight_digits(mantissa - upper * _EIGHT)
    count = 17 - (leading_zeros(last) >> 3) if last else 9 - (leading_zeros(word) >> 3) if word else 1
    word, last, first = word | _ZEROS, last | _ZEROS, np.int64(first) + _ZERO
    if _LEAST_PLAIN <= power < 0:
        put_word(at, _NOUGHT_POINT)
        at += 1 - power
        put_byte(at, first)
        put_word(at + 1, word)
        put_word(at + 9, last)
        return at + count
    put_byte(at, first)
    if 0 <= power <= _MOST_PLAIN:
        put_word(at + 1, word)
        put_word(at + 9, last)
        return _put_point(at + 1 + power, power, word, last, count - 1 - power)
    put_byte(at + 1, _POINT)
    put_word(at + 2, word)
    put_word(at + 10, last)
    at += count + 1 if count > 1 else 1
    put_byte(at, _E)
    put_byte(at + 1, _MINUS)
    return put_whole(at + 1 + (power < 0), abs(power))


@kernel(forceinline=True)
def _put_point(at, before, word, last, behind):
    """Write a point and the digits of two words from `before` on; return the address after `behind` of them, or one."""
    put_byte(at, _POINT)
    moved = np.uint64(8 * (before & 7))
    if before >= 8:
        put_word(at + 1, last >> moved)
    elif before:
        put_word(at + 1, word >> moved | last << (np.uint64(64) - moved))
        put_word(at + 9, last >> moved)
    else:
        put_word(at + 1, word)
        put_word(at + 9, last)
    return at + 1 + max(behind, 1)
