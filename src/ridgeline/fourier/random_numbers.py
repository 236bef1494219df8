"""Random numbers of Fourier modes and of steps: pure functions of (seed, purpose, step, mode).

They are drawn by Philox4x32-10 (jit/random.py) with the counter (j_x, j_y, j_z, step), where signed mode numbers are
32-bit two's complement. The key follows from the seed and from the purpose, a number that distinguishes the uses of
random numbers. A mode has the same numbers on any decomposition, on any grid that retains it, and after a restart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ridgeline.jit.random import WORDS, philox4x32, round_keys


def philox_words(counter: tuple[ArrayLike, ...], key: int) -> NDArray[np.uint32]:
    """Return the four words [4, ...] of the counters (four integers that broadcast, low 32 bits) under a key."""
    x, y, z, w = np.broadcast_arrays(*(np.asarray(part, np.int64).view(np.uint64) for part in counter))
    words = philox4x32(x, y, z, w, round_keys(key))  # type: ignore[no-untyped-call]
    return np.stack([np.asarray(word).astype(np.uint32) for word in words])


def purpose_key(seed: int, purpose: int, block: int) -> int:
    """Return the 64-bit key under which block `block` of a purpose's numbers is drawn."""
    low, high, _, _ = philox_words((purpose, block, 0, 0), seed)
    return int(low) | int(high) << 32


def uniform(
    seed: int, purpose: int, step: int, jz: ArrayLike, jy: ArrayLike, jx: ArrayLike, n: int
) -> NDArray[np.float64]:
    """Return n uniform numbers in (0, 1) for each mode, float64 [n, ...]: 2**-33 + word / 2**32.

    jz, jy, jx: global signed mode numbers, broadcast together. step: counted modulo 2**32.
    """
    blocks = [
        philox_words((jx, jy, jz, step), purpose_key(seed, purpose, block)) for block in range(-(-n // WORDS))
    ]
    numbers: NDArray[np.float64] = (np.concatenate(blocks)[:n].astype(np.float64) + 0.5) * 2.0**-32
    return numbers


def normal(
    seed: int, purpose: int, step: int, jz: ArrayLike, jy: ArrayLike, jx: ArrayLike, n: int
) -> NDArray[np.complex128]:
    """Return n complex numbers for each mode, [n, ...], real and imaginary parts independent and N(0, 1).

    Each is Box and Muller's transform of two uniform numbers. No number is larger than 6.8 in size.
    """
    radius, angle = np.split(uniform(seed, purpose, step, jz, jy, jx, 2 * n), 2)
    numbers: NDArray[np.complex128] = np.sqrt(-2.0 * np.log(radius)) * np.exp(2j * np.pi * angle)
    return numbers
