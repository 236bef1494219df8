"""What a rank of the bulk-synchronous ring computes: loads, stores and a chain of floating-point operations.

These are the loops of bench/c/mpi_patterns.c, with the same results to the last bit. They use integers, and products
with 0.5, which are exact whether or not they are fused with the addition.

Source: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia", Sec. IV.
"""

import numpy as np
from numba import float64, int64, uint64

from ridgeline.jit.kernel import kernel


@kernel(lambda: (uint64[::1], int64, int64))
def read_words(words, mask, reads):
    """Return the sum modulo 2**64 of words[i & mask], i < reads. words: uint64 [mask + 1]."""
    seen = np.uint64(0)
    for i in range(reads):
        seen += words[i & mask]
    return seen


@kernel(lambda: (uint64[::1], int64, int64, uint64))
def write_words(words, mask, writes, value):
    """Set words[i & mask] = value + i, i < writes. value: uint64."""
    for i in range(writes):
        words[i & mask] = value + np.uint64(i)


@kernel(lambda: (float64, int64), fastmath={"contract"})
def compute(x, flops):
    """Return x after flops / 2 times x = x / 2 + 1: multiplications and additions that wait for each other."""
    for _ in range(flops // 2):
        x = 0.5 * x + 1.0
    return x
