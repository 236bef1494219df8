"""Philox random numbers in vector registers: the LLVM side of `jit.random`, bit for bit the same.

A vector of consecutive x with one counter (x, y // 4, z, step) yields one vector of words for each of four
rows. Words travel in the low halves of 64-bit lanes, as `random.philox4x32` expects: 32 x 32 -> 64-bit
products are then one instruction (vpmuludq) each.

Cost: 10 rounds of 2 products, 2 shifts and 4 exclusive-ors (2 three-input ones with AVX-512) for 4 rows.
"""

from llvmlite import ir

from ridgeline.jit.llvm import F64, I64, Lanes, Vector
from ridgeline.jit.random import ROUNDS, philox4x32

UNIFORM_SCALE = 2.0**-31  # turns `unscaled_uniform` into a uniform number in [-1, 1)


def load_keys(lanes: Lanes, keys: ir.Value) -> list[tuple[Vector, Vector]]:
    """Broadcast the key schedule at pointer `keys` (`random.round_keys`) to 64-bit `lanes`."""

    def key(n):
        return lanes.splat(lanes.builder.load(lanes.builder.gep(keys, [ir.Constant(I64, n)])))

    return [(key(2 * n), key(2 * n + 1)) for n in range(ROUNDS)]


def philox_words(
    x: Vector, row_group: ir.Value, z: ir.Value, step: ir.Value, keys: list[tuple[Vector, Vector]]
) -> tuple[Vector, ...]:
    """Return the four words of counter (x, row_group, z, step); all but x are scalar 64-bit LLVM values.

    Word n (low half of each 64-bit lane) is for the row y = 4 * row_group + n.
    """
    group, plane, time = (x.lanes.splat(scalar) for scalar in (row_group, z, step))
    words: tuple[Vector, ...] = philox4x32(x, group, plane, time, keys)
    return words


def unscaled_uniform(word: Vector, lanes: Lanes) -> Vector:
    """Convert 32-bit words to floats in `lanes`: times UNIFORM_SCALE they are `random.uniform_reference`.

    Both are exact, so that a factor may absorb the scale without a change of rounding.
    """
    if lanes.element != F64:
        word = word & -256  # 24 bits are what a float32 holds
    return word.to_float(lanes)
