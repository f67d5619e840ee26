"""Room within a kernel is what NumPy gives."""

import numpy as np
import pytest

from bayou.kernels.allocate import LINE, aligned_zeros_1d, empty, zeros
from bayou.kernels.compiling import kernel


@kernel
def made(n, like):
    line, plane = zeros(n, np.int64), zeros((n, 3), like.dtype)
    full = empty((np.uint32(2), n), np.bool_)
    full[:] = True
    line[0] = plane[n - 1, 2] = 7
    return line, plane, full


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_as_numpy_s(dtype):
    for _ in range(50):  # also where freed memory is not zero
        line, plane, full = made(5, np.empty(1, dtype))
        assert line.tolist() == [7, 0, 0, 0, 0]
        assert (plane.dtype, plane.shape, plane.sum(), plane[4, 2]) == (dtype, (5, 3), 7, 7)
        assert (full.dtype, full.shape, full.all()) == (bool, (2, 5), True)
        line[:] = plane[:] = 9


@kernel
def made_aligned(n, like):
    return aligned_zeros_1d(n, like.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_aligned_zeros_begin_with_a_cache_line(dtype):
    for n in range(1, 60):
        found = made_aligned(n, np.empty(1, dtype))
        assert (found.dtype, found.shape, found.any(), found.ctypes.data % LINE) == (dtype, (n,), False, 0)
        found[:] = 9


def test_nothing_is_kept():
    resource = pytest.importorskip("resource")  # of POSIX
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        made(100_000, np.empty(1))  # 3 MB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
