"""The instructions of `cuda_device` in Python, for numba-cuda's simulator: slow, exact to the last bit."""

import math
import struct
import threading
from fractions import Fraction

import numpy as np


def fma(a, b, c):
    """Return a * b + c rounded once to the type of a, float64 or float32."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    try:
        nearest = float(exact)
    except OverflowError:
        return type(a)(math.inf if exact > 0 else -math.inf)
    if exact == 0:
        nearest = float(a) * float(b) + float(c)  # the sign of zero
    if isinstance(a, float):  # np.float64 is one, as is a number of a kernel's arguments
        return np.float64(nearest)
    # Rounding twice, to float64 and to float32, can differ from rounding once. Rounding to odd first cannot:
    # an inexact float64 whose last bit is 1 lies on the same side of every float32 midpoint as the exact one.
    if Fraction(nearest) != exact and _last_bit(nearest) == 0:
        nearest = math.nextafter(nearest, math.inf if exact > nearest else -math.inf)
    return np.float32(nearest)


def _last_bit(x):
    return struct.unpack("<q", struct.pack("<d", x))[0] & 1


def wide_product(a, b):
    """Return the 64-bit product of two uint32."""
    return np.uint64(a) * np.uint64(b)


def store_streaming(array, index, value):
    """Store into array[index]."""
    array[index] = value


def barrier():
    """Wait until all threads of the thread block are here. The simulator has a Python thread for each."""
    threading.current_thread().syncthreads()


def load_pair(array, index):
    """Return array[2 index] and array[2 index + 1]."""
    return array[2 * index], array[2 * index + 1]


def store_pair(array, index, first, second):
    """Set array[2 index] and array[2 index + 1], which keep their type."""
    assert type(first) is type(second) is array.dtype.type, "a kernel computed in another precision"
    array[2 * index], array[2 * index + 1] = first, second
