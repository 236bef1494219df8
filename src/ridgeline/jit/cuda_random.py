"""Philox random numbers on GPUs: the device side of `jit.random`, bit for bit the same.

The words are 32-bit here, because a GPU's registers are. A round is 2 products of 32 x 32 -> 64 bits and 2
three-input exclusive-ors, 40 instructions for the four rows that share a block. The round keys are the same for all
threads; the compiler computes them once, into uniform registers.
"""

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.jit.cuda_device import device_function, wide_product
from ridgeline.jit.random import ROUNDS, round_keys

_M0 = np.uint32(0xD2511F53)
_M1 = np.uint32(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_SHIFT = np.uint64(32)

SCALE = 2.0**-31  # times `unscaled_uniform` is the uniform number


def device_key(seed: int) -> tuple[np.uint32, np.uint32]:
    """Return the first round's key, from which kernels get the others."""
    first = round_keys(seed)[0]
    return np.uint32(first[0]), np.uint32(first[1])


@device_function
def philox_words(x, row_group, z, step, key):
    """Return the four uint32 words of counter (x, row_group, z, step); word n is for y = 4 * row_group + n."""
    c0, c1, c2, c3 = np.uint32(x), np.uint32(row_group), np.uint32(z), np.uint32(step)
    k0, k1 = key
    for _ in range(ROUNDS):
        p0 = wide_product(c0, _M0)
        p1 = wide_product(c2, _M1)
        c0, c1, c2, c3 = (
            np.uint32(p1 >> _SHIFT) ^ c1 ^ k0,
            np.uint32(p1),
            np.uint32(p0 >> _SHIFT) ^ c3 ^ k1,
            np.uint32(p0),
        )
        k0, k1 = np.uint32(np.uint64(k0) + _W0), np.uint32(np.uint64(k1) + _W1)
    return c0, c1, c2, c3


def significant_bits(dtype: DTypeLike) -> np.uint32:
    """Return the mask of the bits of a word that a number of `dtype` holds exactly."""
    return np.uint32(0xFFFFFF00 if np.dtype(dtype) == np.float32 else 0xFFFFFFFF)
