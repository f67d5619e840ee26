"""Inlined functions answer as plain ones do, and leave the reference counts of their arrays alone."""

import sys
from typing import NamedTuple

import numpy as np
from numba import njit

from bayou.kernels.inlining import inlined


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


@inlined
def scaled(pair, k, by):
    """first[k] *= by; what stood there, and second[k]."""
    before = pair.first[k]
    pair.first[k] *= by
    return before, pair.second[k]


@inlined
def twice(pair, scratch, k):
    scratch[k], _ = scaled(pair, k, 2.0)
    return scaled(pair, k, 2.0)


@njit
def kernel(pair, out):
    scratch = np.zeros(len(out))
    for k in range(len(out)):
        before, other = twice(pair, scratch, k)
        out[k] = before + other + scratch[k]
    return scratch


def test_an_inlined_function_reads_and_writes_arrays_in_tuples():
    pair, out = Pair(np.arange(5.0), np.arange(5.0) * 10), np.zeros(5)
    scratch = kernel(pair, out)
    np.testing.assert_array_equal(pair.first, 4 * np.arange(5.0))
    np.testing.assert_array_equal(out, np.arange(5.0) * (2 + 10 + 1))
    np.testing.assert_array_equal(scratch, np.arange(5.0))  # made in the kernel, lent, and still there


def test_no_reference_is_lost_or_left():
    pair, out = Pair(np.arange(5.0), np.arange(5.0)), np.zeros(5)
    kernel(pair, out)
    before = [sys.getrefcount(array) for array in (*pair, out)]
    for _ in range(100):
        kernel(pair, out)
    assert [sys.getrefcount(array) for array in (*pair, out)] == before


def test_its_docstring_is_the_functions():
    assert "what stood there" in scaled.__doc__
