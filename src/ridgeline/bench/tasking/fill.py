"""Initialisation of an array by all threads."""

from numba import float64, prange

from ridgeline.jit.kernel import kernel


@kernel(lambda: (float64[::1], float64), parallel=True)
def fill(array, value):
    """Set array = value, any 1-D array, cut into as many parts as Numba has threads."""
    for i in prange(array.size):
        array[i] = value
