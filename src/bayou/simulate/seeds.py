"""Where the random numbers of an example start: a splitmix64 sequence for each."""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix


@kernel
def example_state(key, number):
    """Where the sequence of an example starts: hashed, else each would be its neighbour's, moved by one."""
    return mix(key + np.uint64(number) * GOLDEN)
