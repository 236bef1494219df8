"""Counter-based random numbers: Philox4x32 with 10 or 7 rounds, in NumPy and in vector registers.

A number is a pure function of seed, step and global cell. It is therefore the same on any number of ranks and
threads, on any process grid, and after a restart. One Philox block gives four 32-bit words. They serve R rows of
cells: R = 4 if a number takes a word, R = 8 if it takes half of one (see `Generator`):

    counter = (x, y // R, z, step),  key = (seed low, seed high),
    cell (z, y, x) takes word y % 4, of halves half (y // 4) % 2, the low one first.

Words belong to rows rather than to neighbours in x, so a vector of consecutive x needs no shuffle and may start at
any x, and an uneven decomposition costs nothing.

The round function is written once, on 64-bit values that hold 32-bit words in their low halves (the high half may
hold anything): NumPy uint64 arrays in `uniform_reference`, vectors of LLVM IR in `philox_words`. In registers, 32 x
32 -> 64-bit products are then one instruction (vpmuludq) each. A round costs 2 products, 2 shifts and 4 exclusive-ors
(2 three-input ones with AVX-512). Half of the first round and a third of the second are the same for a whole row of
blocks; LLVM moves them out of the loop over x. `jit.cuda_random` has the same numbers, bit for bit, on GPUs.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, Sec. 3.3 and Table 2.
There 7 rounds are the fewest that pass all of BigCrush, and 10 leave a margin.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numpy.typing import ArrayLike, DTypeLike

from ridgeline.jit.llvm import F64, I32, I64, Lanes, Vector

ROUNDS = 10  # unless a `Generator` says otherwise
WORDS = 4  # 32-bit words of one block
UNIFORM_SCALE = 2.0**-31  # turns `unscaled_uniform` into a uniform number in [-1, 1)
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = 0x9E3779B9
_W1 = 0xBB67AE85


class Generator(NamedTuple):
    """How the numbers of cells are computed. A run that is continued keeps its generator.

    parts: how many numbers a 32-bit word holds.
    1: the word as a signed integer, times 2^-31; in float32 its upper 24 bits, times 2^-23.
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
    """Return the words after one Philox4x32 round, 32-bit words in 64-bit values."""
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
    """Return uniform numbers in [-1, 1) for the cells with global indices z, y, x, which are broadcast together."""
    indices = [np.asarray(index, dtype=np.uint64) for index in (z, y, x)]
    z, y, x = np.broadcast_arrays(*indices)
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


def load_keys(lanes: Lanes, keys: ir.Value, generator: Generator) -> list[tuple[Vector, Vector]]:
    """Broadcast the key schedule at pointer `keys` (`random.round_keys`) to 64-bit `lanes`."""

    def key(n):
        return lanes.splat(lanes.builder.load(lanes.builder.gep(keys, [ir.Constant(I64, n)])))

    return [(key(2 * n), key(2 * n + 1)) for n in range(generator.rounds)]


def philox_words(
    x: Vector, row_group: ir.Value, z: ir.Value, step: ir.Value, keys: list[tuple[Vector, Vector]]
) -> tuple[Vector, ...]:
    """Return the four words of counter (x, row_group, z, step); all but x are scalar 64-bit LLVM values.

    Word n (low half of each 64-bit lane) is for the row y = R * row_group + n, its other half for y + 4.
    """
    group, plane, time = (x.lanes.splat(scalar) for scalar in (row_group, z, step))
    words: tuple[Vector, ...] = philox4x32(x, group, plane, time, keys)
    return words


def unscaled_uniform(word: Vector, y: ir.Value, lanes: Lanes, generator: Generator) -> Vector:
    """Convert the 32-bit words of row y to floats in `lanes`, which times UNIFORM_SCALE equal `uniform_reference`.

    y: a scalar 64-bit LLVM value. The conversion and the scale are exact, so a factor may absorb the scale without a
    change of rounding.
    """
    if generator.parts == 2:
        builder = lanes.builder
        high = builder.icmp_unsigned("!=", builder.and_(y, ir.Constant(I64, WORDS)), ir.Constant(I64, 0))
        # A low half is shifted up, to where the sign is; below it comes half a unit of its last place. The mask is a
        # variable, because LLVM makes two instructions of a constant mask and what follows.
        shift, mask = (
            word.lanes.splat(builder.select(high, ir.Constant(I32, a), ir.Constant(I32, b)))
            for a, b in ((0, 16), (-0x10000, -1))
        )
        word = (word << shift) & mask | 0x8000
    elif lanes.element != F64:
        word = word & -256  # 24 bits are what a float32 holds
    return word.to_float(lanes)
