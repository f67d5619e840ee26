"""Numbers read in kernels, against Python's own."""

import re
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit

from bayou.kernels.parse_text import (
    PADDING,
    address_of,
    digits,
    match_byte_mask,
    parse_number,
    short_decimal,
    short_number,
)


@njit
def _number(data):
    start = address_of(data)
    value, behind = parse_number(start)
    return value, behind - start


@njit
def _digits(data):
    return digits(address_of(data))


def padded(text: str) -> np.ndarray:
    data = np.full(len(text) + PADDING, 10, np.uint8)
    data[: len(text)] = np.frombuffer(text.encode(), np.uint8)
    return data


def assert_reads(text: str) -> None:
    value, length = _number(padded(text))
    assert length == len(text)
    assert struct.pack("d", value) == struct.pack("d", float(text))


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(2.2250738585072011e-308)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
def test_shortest_form_of_any_float(value: float) -> None:
    assert_reads(repr(value))


@given(st.integers(0, 10**19 - 1), st.integers(-360, 330))
def test_any_mantissa_and_exponent(mantissa: int, exponent: int) -> None:
    assert_reads(f"{mantissa}e{exponent}")


@given(st.integers(2**52, 2**53 - 1), st.integers(0, 9))
def test_half_way_between_two_floats_goes_to_the_even_one(mantissa: int, shift: int) -> None:
    text = str((2 * mantissa + 1) << shift)
    assert len(text) <= 19
    assert_reads(text)


@given(st.from_regex(r"[+-]?(\d{1,12}\.?\d{0,7}|\.\d{1,10})([eE][+-]?\d{1,3})?", fullmatch=True))
def test_the_grammar(text: str) -> None:
    if text.isascii():
        assert_reads(text)


@pytest.mark.parametrize("text", ["", "-", "+", ".", "-.", "e5", "nan", "inf", "-inf", " 1", "_1", "x"])
def test_what_is_no_number(text: str) -> None:
    assert _number(padded(text))[1] == 0


@pytest.mark.parametrize(
    ("text", "length"), [("1e", 1), ("1e+", 1), ("0x10", 1), ("1_0", 1), ("1.5.2", 3), ("7 8", 1), ("1e5e5", 3)]
)
def test_where_a_number_ends(text: str, length: int) -> None:
    assert _number(padded(text)) == (float(text[:length]), length)


def test_digits_beyond_the_nineteenth_are_zeros() -> None:
    assert _number(padded("0.00012345678901234567899999"))[0] == float("0.0001234567890123456789")
    assert _number(padded("123456789012345678999999"))[0] == float("123456789012345678900000")


@given(st.integers(0, 8), st.integers(0, 10**8 - 1), st.sampled_from(" :x.\n/\xff"[:6]))
def test_digits(count: int, value: int, stop: str) -> None:
    text = str(value).zfill(8)[8 - count :]
    assert _digits(padded(text + stop)) == (int(text or "0"), count)


@given(st.binary(min_size=8, max_size=8), st.integers(0, 126))
def test_finding_bytes_in_a_word(word: bytes, byte: int) -> None:
    value = np.uint64(int.from_bytes(word, "little"))

    def first(found) -> int:
        found = int(found)
        return ((found & -found).bit_length() - 1) // 8 if found else 8

    assert first(match_byte_mask(value, byte)) == next((k for k, b in enumerate(word) if b == byte), 8)


@njit
def _short(data, length):
    start = address_of(data)
    return short_number(start, length), short_decimal(start, length)


texts = st.text(alphabet="0123456789.", max_size=10).map(str.encode) | st.binary(max_size=10)


@given(texts | st.text(alphabet="09.+-e :/\n", max_size=9).map(str.encode), st.binary(max_size=3))
@example(b"1.", b"")
@example(b".5", b"9")
@example(b".", b"5")
@example(b"12345678", b"9")
@example(b"12345678", b".")
@example(b"12345678.", b"")
@example(b"1234567.", b"5")
@example(b"1.2345678", b"")
@example(b"1.2.3", b"")
@example(b"", b"1")
def test_short_numbers(text: bytes, behind: bytes) -> None:
    data = np.frombuffer(text + behind + b"\n" * PADDING, np.uint8)
    (whole, is_whole), (value, is_decimal) = _short(data, len(text))
    assert is_whole == (re.fullmatch(rb"[0-9]{1,8}", text) is not None)
    assert is_decimal == (len(text) <= 8 and re.fullmatch(rb"[0-9]+\.?[0-9]*|\.[0-9]+", text) is not None)
    if is_whole:
        assert whole == int(text)
    if is_decimal:
        assert struct.pack("d", value) == struct.pack("d", float(text))
