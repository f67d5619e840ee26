"""Reading text in kernels: bytes, words of eight bytes, digits and numbers, by address.

All functions take and return plain numbers. An address is a pointer to a byte as an integer: a function that took
the array itself would count references at every call, which costs more than reading a number. So there are no bounds
checks; callers read buffers that end in PADDING newlines (`blocks.TextBlock`), at which every scan stops.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from bayou.kernels.compiling import kernel
from bayou.kernels.instructions import instruction

# Number of newlines after the text of a block.
PADDING = 64
# Digits of a number that are read; later ones count as zeros. These fit in 64 bits.
SIGNIFICANT = 19
# Largest absolute value of a number in text: its squares and sums fit in a float32.
LARGEST_VALUE = 1e12
LARGEST_WEIGHT = 1e6

_WORD = ir.IntType(64)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x7676767676767676)
_PAIRS = np.uint64(0x000000FF000000FF)
_FOURS = np.uint64(100 + (1_000_000 << 32))
_EIGHTS = np.uint64(1 + (10_000 << 32))
_POWERS = np.array([10.0**k for k in range(9)])
_WHOLE_POWERS = np.array([10**k for k in range(9)], np.uint64)


# --- memory ---------------------------------------------------------------------------------------------------------


@instruction(lambda array: types.int64(array))
def address_of(context, builder, sig, args):
    """Return the address of an array's first byte. The array must be kept alive while the address is used."""
    return builder.ptrtoint(context.make_array(sig.args[0])(context, builder, args[0]).data, _WORD)


def _loaded(builder, address, bits):
    """Load `bits` bits from an address of any alignment."""
    loaded = builder.load(builder.inttoptr(address, ir.IntType(bits).as_pointer()))
    loaded.align = 1
    return loaded if bits == 64 else builder.zext(loaded, _WORD)


@instruction(lambda address: types.int64(types.int64))
def load_uint8(context, builder, sig, args):
    """Return the byte at an address, 0 to 255."""
    return _loaded(builder, args[0], 8)


@instruction(lambda address: types.uint64(types.int64))
def load_uint32(context, builder, sig, args):
    """Return the four bytes at an address as an unsigned integer, little-endian."""
    return _loaded(builder, args[0], 32)


@instruction(lambda address: types.uint64(types.int64))
def load_uint64(context, builder, sig, args):
    """Return the eight bytes at an address as an unsigned integer, little-endian."""
    return _loaded(builder, args[0], 64)


# --- bits of a word -------------------------------------------------------------------------------------------------


@instruction(lambda word: types.uint64(types.uint64))
def count_ones(context, builder, sig, args):
    """Return the number of bits that are 1."""
    return builder.ctpop(args[0])


@instruction(lambda word: types.int64(types.uint64))
def trailing_zeros(context, builder, sig, args):
    """Return the number of trailing zero bits; 64 for zero."""
    return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))


@instruction(lambda word: types.int64(types.uint64))
def leading_zeros(context, builder, sig, args):
    """Return the number of leading zero bits; 64 for zero."""
    return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))


@instruction(lambda a, b: types.uint64(types.uint64, types.uint64))
def high_product(context, builder, sig, args):
    """Return the upper 64 of the 128 bits of a product."""
    a, b = args
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _WORD)


@instruction(lambda bits: types.float64(types.uint64))
def _as_float(context, builder, sig, args):
    """Return the float64 with these bits."""
    return builder.bitcast(args[0], ir.DoubleType())


# --- bytes of a word ------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def match_byte_mask(word, byte):
    """Set the high bit of each byte of the word that equals `byte`; only the lowest bit set is reliable."""
    x = word ^ (_ONES * np.uint64(byte))
    return (x - _ONES) & ~x & _HIGH


@kernel(forceinline=True)
def line_ends(address):
    """Return whether a line ends at an address: with a newline, or a carriage return and a newline."""
    byte = load_uint8(address)
    return byte == 10 or (byte == 13 and load_uint8(address + 1) == 10)


# --- numbers --------------------------------------------------------------------------------------------------------


@kernel(forceinline=True)
def digits(address):
    """Return (number, number of digits) of the digits at an address, at most eight of them."""
    x = load_uint64(address) ^ _ZEROS
    count = trailing_zeros(((x + _ABOVE_NINE) | x) & _HIGH) >> 3
    if count == 0:
        return np.uint64(0), 0
    return _joined(_moved(load_uint64(address), count)), count


@kernel(forceinline=True)
def short_number(address, length):
    """Return (number, whether it is valid) of one to eight bytes that may be digits."""
    return _short(load_uint64(address), length)


@kernel(forceinline=True)
def short_decimal(address, length):
    """Return (number, whether it is valid) of up to eight bytes that may be digits and a point, as in `number`."""
    word = load_uint64(address)
    n_before_point = min(trailing_zeros(match_byte_mask(word, 46)) >> 3, length)
    point = n_before_point < length
    if point:  # remove it; the byte shifted in at the end is not a digit, so nine bytes are not valid
        low = (np.uint64(1) << np.uint64((8 * n_before_point) & 63)) - np.uint64(1)
        word = (word & low) | ((word >> np.uint64(8)) & ~low)
    digits_value, is_valid = _short(word, length - point)
    return np.float64(digits_value) / _POWERS[length - point - n_before_point if is_valid else 0], is_valid


@kernel(forceinline=True)
def _short(word, count):
    """Return (number, whether it is valid) of the first `count` bytes of a word."""
    x = _moved(word, count)
    is_valid = (np.uint64(count - 1) < np.uint64(8)) & ((((x + _ABOVE_NINE) | x) & _HIGH) == 0)
    return _joined(x), is_valid


@kernel(forceinline=True)
def _moved(word, count):
    """Return the first `count` digits of a word as bytes from 0 to 9, shifted to the top with leading zeros."""
    return (word ^ _ZEROS) << np.uint64((64 - 8 * count) & 63)


@kernel(forceinline=True)
def _joined(x):
    """Return the number given by eight digits, bytes from 0 to 9, by joining pairs, fours and eights."""
    x = x * np.uint64(10) + (x >> np.uint64(8))
    return ((x & _PAIRS) * _FOURS + ((x >> np.uint64(16)) & _PAIRS) * _EIGHTS) >> np.uint64(32)


@kernel(forceinline=True)
def parse_number(address):
    """Return (value, address after it) of the number at an address; the address itself if there is none.

    [+-]? (digits [. digits?] | . digits) ([eE] [+-]? digits)?, rounded as Python's float() does, of the first 19
    significant digits.
    """
    end = address
    sign = load_uint8(end)
    end += (sign == 43) | (sign == 45)
    mantissa, n_whole = digits(end)
    end += n_whole
    value = np.float64(mantissa)
    n_fraction = 0
    if load_uint8(end) == 46:
        fraction, n_fraction = digits(end + 1)
        end += 1 + n_fraction
        value = np.float64(mantissa * _WHOLE_POWERS[n_fraction] + fraction) / _POWERS[n_fraction]
    if n_whole == 8 or n_fraction == 8 or (load_uint8(end) | 32) == 101:
        return long_number(address)
    if n_whole + n_fraction == 0:
        return 0.0, address
    return -value if sign == 45 else value, end


@kernel
def long_number(address):
    """Return the same as `parse_number`, read digit by digit, for any length and exponent; it is not inlined."""
    end = address
    sign = load_uint8(end)
    end += (sign == 43) | (sign == 45)
    mantissa = np.uint64(0)
    exponent = 0
    n_kept = 0
    seen = 0
    point = False
    while True:
        byte = load_uint8(end)
        if byte == 46 and not point:
            point = True
            end += 1
            continue
        if byte < 48 or byte > 57:
            break
        seen += 1
        end += 1
        if n_kept < SIGNIFICANT:
            mantissa = mantissa * np.uint64(10) + np.uint64(byte - 48)
            n_kept += mantissa > 0
            exponent -= point
        else:
            exponent += not point
    if seen == 0:
        return 0.0, address
    if (load_uint8(end) | 32) == 101:
        mark = end + 1
        down = load_uint8(mark) == 45
        mark += (load_uint8(mark) == 43) | down
        power = 0
        start = mark
        while 48 <= load_uint8(mark) <= 57:
            power = min(power * 10 + load_uint8(mark) - 48, 100_000)
            mark += 1
        if mark > start:  # otherwise the e is not part of the number
            exponent += -power if down else power
            end = mark
    value = _rounded(mantissa, exponent)
    return -value if sign == 45 else value, end


# The top 128 bits of 5^q, for every exponent of a float64.
_LOWEST_POWER, _HIGHEST_POWER = -342, 308


def _power_of_five(q):
    if q >= 0:
        power = 5**q << 128
    else:
        # One above the truncated reciprocal, so that exact results are exact.
        wide = 5**-q
        shift = 127 if q >= -27 else 128 + wide.bit_length()
        power = (1 << wide.bit_length() + shift) // wide + 1
    bits = power >> (power.bit_length() - 128)
    return bits >> 64, bits & (2**64 - 1)


_FIVES = np.array([_power_of_five(q) for q in range(_LOWEST_POWER, _HIGHEST_POWER + 1)], np.uint64)


@kernel
def _rounded(mantissa, exponent):
    """Return mantissa * 10^exponent, rounded to the nearest float64, ties to even: the method of Eisel and Lemire.

    The mantissa times 128 bits of 5^exponent always determines the rounding of a float64 (Mushtak, Lemire 2023).
    """
    if mantissa == 0 or exponent < _LOWEST_POWER:
        return 0.0
    if exponent > _HIGHEST_POWER:
        return np.inf
    shift = leading_zeros(mantissa)
    mantissa <<= np.uint64(shift)
    first = _FIVES[exponent - _LOWEST_POWER, 0]
    high = high_product(mantissa, first)
    low = mantissa * first
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        low_product = high_product(mantissa, _FIVES[exponent - _LOWEST_POWER, 1])
        low += low_product
        high += np.uint64(low < low_product)
    upper = np.int64(high >> np.uint64(63))
    bits = high >> np.uint64(upper + 9)
    power = ((217706 * exponent) >> 16) + 1086 + upper - shift
    if power <= 0:  # below the normal numbers
        if power < -62:
            return 0.0
        bits >>= np.uint64(1 - power)
        bits = (bits + (bits & np.uint64(1))) >> np.uint64(1)
        return _as_float(bits)
    if low <= 1 and -4 <= exponent <= 23 and bits & np.uint64(3) == 1 and bits << np.uint64(upper + 9) == high:
        bits &= ~np.uint64(1)  # exactly half way: to even
    bits = (bits + (bits & np.uint64(1))) >> np.uint64(1)
    if bits >> np.uint64(53):
        bits >>= np.uint64(1)
        power += 1
    if power >= 0x7FF:
        return np.inf
    return _as_float((bits & np.uint64(2**52 - 1)) | np.uint64(power) << np.uint64(52))
