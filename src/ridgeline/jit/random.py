"""Counter-based random numbers: Philox4x32-10.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, Sec. 3.3 and Table 2.

A number is a pure function of seed, step and global cell. So it is the same on any rank count, process grid and
thread count, and after a restart. One Philox block gives four 32-bit words; they serve four rows of cells:

    counter = (x, y // 4, z, step),  key = (seed low, seed high),  cell (z, y, x) takes word y % 4.

Words belong to rows rather than to neighbours in x. So a vector of consecutive x needs no shuffle and may start at
any x, and an uneven decomposition costs nothing.

The round function is written once, on 64-bit values that hold 32-bit words in their low halves (the high
half may be junk): NumPy uint64 arrays, vectors of LLVM IR or CUDA scalars.
"""

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

ROUNDS = 10
WORDS = 4  # 32-bit words of one block: rows of cells that share it
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = 0x9E3779B9
_W1 = 0xBB67AE85


def round_keys(seed: int) -> np.ndarray:
    """Return the key schedule, shape (ROUNDS, 2), uint64, of a 64-bit seed."""
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    return np.array(
        [[(k0 + i * _W0) & 0xFFFFFFFF, (k1 + i * _W1) & 0xFFFFFFFF] for i in range(ROUNDS)], dtype=np.uint64
    )


def philox_round(x0, x1, x2, x3, k0, k1):
    """One Philox4x32 round on 64-bit carriers of 32-bit words."""
    p0 = (x0 & _MASK) * _M0
    p1 = (x2 & _MASK) * _M1
    return (p1 >> _SHIFT) ^ x1 ^ k0, p1, (p0 >> _SHIFT) ^ x3 ^ k1, p0


def philox4x32(x0, x1, x2, x3, keys):
    """Return the four words (low 32 bits of each result) of the block with this counter."""
    for i in range(ROUNDS):
        x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, keys[i][0], keys[i][1])
    return x0, x1, x2, x3


def uniform_reference(
    seed: int, step: int, z: ArrayLike, y: ArrayLike, x: ArrayLike, dtype: DTypeLike = np.float64
) -> np.ndarray:
    """Uniform numbers in [-1, 1) for the cells with global indices z, y, x (broadcast together).

    float64: the word as a signed integer times 2^-31. float32: its upper 24 bits times 2^-23. Both exact.
    """
    z, y, x = np.broadcast_arrays(*(np.asarray(i, dtype=np.uint64) for i in (z, y, x)))
    words = philox4x32(x, y // np.uint64(WORDS), z, np.full(x.shape, step, dtype=np.uint64), round_keys(seed))
    word = np.select([y % np.uint64(WORDS) == np.uint64(i) for i in range(WORDS)], words)
    signed = word.astype(np.uint32).view(np.int32)
    if np.dtype(dtype) == np.float32:
        return (signed >> 8).astype(np.float32) * np.float32(2.0**-23)
    return signed.astype(np.float64) * 2.0**-31
