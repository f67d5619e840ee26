"""Where the random numbers of an example start: a splitmix64 sequence for each."""

from __future__ import annotations

import numpy as np
from numba import njit

from bayou.kernels.random import GOLDEN, mix


@njit(cache=True, nogil=True)
def example_state(key, number):
    """Where the sequence of an example starts: hashed, else each would be its neighbour's, moved by one."""
    return mix(key + np.uint64(number) * GOLDEN)
