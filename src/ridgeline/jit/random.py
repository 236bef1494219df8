"""Counter-based random numbers: Philox4x32, of 10 or of 7 rounds.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, Sec. 3.3 and Table 2.
There 7 rounds are the fewest that pass all of BigCrush, and 10 leave a margin.

A number is a pure function of seed, step and global cell. So it is the same on any rank count, process grid and
thread count, and after a restart. One Philox block gives four 32-bit words. They serve R rows of cells, R = 4 if a
number takes a word, R = 8 if it takes half of one (see `Generator`):

    counter = (x, y // R, z, step),  key = (seed low, seed high),
    cell (z, y, x) takes word y % 4, of halves half (y // 4) % 2, the low one first.

Words belong to rows rather than to neighbours in x. So a vector of consecutive x needs no shuffle and may start at
any x, and an uneven decomposition costs nothing.

The round function is written once, on 64-bit values that hold 32-bit words in their low halves (the high
half may be junk): NumPy uint64 arrays, vectors of LLVM IR or CUDA scalars.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

ROUNDS = 10  # of all sequences but those of a `Generator` that says otherwise
WORDS = 4  # 32-bit words of one block
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = 0x9E3779B9
_W1 = 0xBB67AE85


class Generator(NamedTuple):
    """How the numbers of cells are made; a run that is continued keeps it.

    parts: numbers that a 32-bit word holds.
    1: the word as a signed integer times 2^-31; in float32 its upper 24 bits times 2^-23.
    2: each half as a signed integer, plus 1/2, times 2^-15. Both precisions then draw the same numbers, of mean 0.
    All lie in [-1, 1) and are exact.
    """

    name: str
    rounds: int
    parts: int

    @property
    def rows(self) -> int:
        """Rows of cells that share a block."""
        return WORDS * self.parts


PHILOX_7 = Generator("philox4x32-7", 7, 2)
PHILOX_10 = Generator("philox4x32-10", ROUNDS, 1)
GENERATORS = {generator.name: generator for generator in (PHILOX_7, PHILOX_10)}


def round_keys(seed: int, rounds: int = ROUNDS) -> np.ndarray:
    """Return the key schedule, shape (rounds, 2), uint64, of a 64-bit seed."""
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    return np.array(
        [[(k0 + i * _W0) & 0xFFFFFFFF, (k1 + i * _W1) & 0xFFFFFFFF] for i in range(rounds)], dtype=np.uint64
    )


def philox_round(x0, x1, x2, x3, k0, k1):
    """One Philox4x32 round on 64-bit carriers of 32-bit words."""
    p0 = (x0 & _MASK) * _M0
    p1 = (x2 & _MASK) * _M1
    return (p1 >> _SHIFT) ^ x1 ^ k0, p1, (p0 >> _SHIFT) ^ x3 ^ k1, p0


def philox4x32(x0, x1, x2, x3, keys):
    """Return the four words (low 32 bits of each result) of the block with this counter; a round for each key."""
    for k0, k1 in keys:
        x0, x1, x2, x3 = philox_round(x0, x1, x2, x3, k0, k1)
    return x0, x1, x2, x3


def uniform_reference(
    seed: int,
    step: int,
    z: ArrayLike,
    y: ArrayLike,
    x: ArrayLike,
    dtype: DTypeLike = np.float64,
    generator: Generator = PHILOX_10,
) -> np.ndarray:
    """Uniform numbers in [-1, 1) for the cells with global indices z, y, x (broadcast together)."""
    z, y, x = np.broadcast_arrays(*(np.asarray(i, dtype=np.uint64) for i in (z, y, x)))
    time = np.full(x.shape, step, dtype=np.uint64)
    words = philox4x32(x, y // np.uint64(generator.rows), z, time, round_keys(seed, generator.rounds))
    word = np.select([y % np.uint64(WORDS) == np.uint64(i) for i in range(WORDS)], words).astype(np.uint32)
    if generator.parts == 2:
        high = y // np.uint64(WORDS) % np.uint64(2) == 1
        half = np.where(high, word >> np.uint32(16), word).astype(np.uint16)
        return ((half.view(np.int16) + 0.5) * 2.0**-15).astype(dtype)
    signed = word.view(np.int32)
    if np.dtype(dtype) == np.float32:
        return (signed >> 8).astype(np.float32) * np.float32(2.0**-23)
    return signed.astype(np.float64) * 2.0**-31
