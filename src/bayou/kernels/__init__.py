"""Building blocks of the jitted kernels: vectors, gathers, rounding, exponentials, random draws, text by address."""
