"""Seeds of examples: each has a splitmix64 sequence of its own."""

from __future__ import annotations

import numpy as np

from bayou.kernels.compiling import kernel
from bayou.kernels.random import GOLDEN, mix


@kernel
def example_state(key, example):
    """Return the start of an example's sequence, hashed so that it is not its neighbor's sequence shifted by one."""
    return mix(key + np.uint64(example) * GOLDEN)
