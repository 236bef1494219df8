"""Philox random numbers on GPUs: the device side of `jit.random`, bit for bit the same.

The words have 32 bits here, as the registers of a GPU have. A round is 2 products of 32 x 32 -> 64 bits and 2
three-input exclusive-ors: 40 instructions for four rows with 10 rounds, 28 with 7. The round keys are the same for
all threads; the compiler computes them once, into uniform registers.

Where eight rows share a block, a thread uses the halves of four rows, and another thread computes the block again.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.jit.cuda_device import device_function, wide_product
from ridgeline.jit.random import Generator, round_keys

_M0 = np.uint32(0xD2511F53)
_M1 = np.uint32(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_SHIFT = np.uint64(32)

SCALE = 2.0**-31  # turns `unscaled_uniform` into a uniform number in [-1, 1)


def device_key(seed: int) -> tuple[np.uint32, np.uint32]:
    """Return the first round's key, from which kernels get the others."""
    first = round_keys(seed)[0]
    return np.uint32(first[0]), np.uint32(first[1])


@device_function
def philox_words(x, row_group, z, step, key, rounds):
    """Return the four uint32 words of counter (x, row_group, z, step); rounds: a constant of the kernel."""
    c0, c1, c2, c3 = np.uint32(x), np.uint32(row_group), np.uint32(z), np.uint32(step)
    k0, k1 = key
    for _ in range(rounds):
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


class Bits(NamedTuple):
    """Which bits of a word make a number: `(word << shift) & mask | least`, a signed integer."""

    shift: np.uint32  # in rows with even y // 4; it is 0 in the others
    mask: np.uint32
    least: np.uint32


def significant_bits(dtype: DTypeLike, generator: Generator) -> Bits:
    """Return the bits of a word that a number of `dtype` holds exactly."""
    shift, mask, least = 0, 0xFFFFFFFF, 0
    if generator.parts == 2:
        shift, mask, least = 16, 0xFFFF0000, 0x8000
    elif np.dtype(dtype) == np.float32:
        mask = 0xFFFFFF00
    return Bits(np.uint32(shift), np.uint32(mask), np.uint32(least))


@device_function
def unscaled_uniform(word, shift, mask, least):
    """Return the int32 that, times SCALE, is the uniform number; the other arguments are those of `Bits`."""
    return np.int32(np.uint32(word << shift) & mask | least)


def how_drawn(dtype: DTypeLike, generator: Generator) -> tuple[Any, ...]:
    """Return `drawn` of `numbers`: plain numbers, because kernels that are cached close over nothing else."""
    return (generator.rounds, generator.parts, *significant_bits(dtype, generator))


@device_function
def numbers(x, group, z, step, key, drawn, real):
    """Return the random numbers of a group's four rows, None without noise; times SCALE they are uniform.

    x, group and z are global indices, real is the precision.
    """
    if len(key) == 0:
        return None, None, None, None
    rounds, parts, low_shift, mask, least = drawn
    shift = low_shift if group % parts == 0 else np.uint32(0)
    w0, w1, w2, w3 = philox_words(x, group // parts, z, step, key, rounds)
    return (
        real(unscaled_uniform(w0, shift, mask, least)),
        real(unscaled_uniform(w1, shift, mask, least)),
        real(unscaled_uniform(w2, shift, mask, least)),
        real(unscaled_uniform(w3, shift, mask, least)),
    )
