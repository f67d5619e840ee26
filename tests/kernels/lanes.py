"""What tests of vectors share: both types, points to look at, and a function of vectors over an array."""

import numpy as np
import pytest
from numba import njit

from bayou.kernels import vector
from bayou.kernels.vector import LANES

both = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@njit
def each(function, xs, out):
    for k in range(0, xs.size, LANES):
        vector.store(out, k, function(vector.load(xs, k)))


def apply(function, xs: np.ndarray) -> np.ndarray:
    out = np.empty_like(xs)
    each(function, xs, out)
    return out


def points(low: float, high: float, dtype, n: int = 8000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([np.linspace(low, high, n), rng.uniform(low, high, n)]).astype(dtype)
