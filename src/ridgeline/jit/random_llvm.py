"""Philox random numbers in vector registers: the LLVM side of `jit.random`, bit for bit the same.

A vector of consecutive x with one counter (x, y // R, z, step) yields one vector of words for each of four
rows, or of four and four. Words travel in the low halves of 64-bit lanes, as `random.philox4x32` expects: 32 x 32 ->
64-bit products are then one instruction (vpmuludq) each.

Cost: rounds of 2 products, 2 shifts and 4 exclusive-ors (2 three-input ones with AVX-512). Half of the first round
and a third of the second are the same for a whole row of blocks; LLVM moves them out of the loop over x.
"""

from llvmlite import ir

from ridgeline.jit.llvm import F64, I32, I64, Lanes, Vector
from ridgeline.jit.random import WORDS, Generator, philox4x32

UNIFORM_SCALE = 2.0**-31  # turns `unscaled_uniform` into a uniform number in [-1, 1)


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
    """Convert the 32-bit words of row y to floats in `lanes`: times UNIFORM_SCALE they are `uniform_reference`.

    y: a scalar 64-bit LLVM value. Both are exact, so that a factor may absorb the scale without a change of rounding.
    """
    if generator.parts == 2:
        builder = lanes.builder
        high = builder.icmp_unsigned("!=", builder.and_(y, ir.Constant(I64, WORDS)), ir.Constant(I64, 0))
        # A low half comes up, where the sign is; below a half there is half a unit of its last place. The mask is a
        # variable, since LLVM makes two instructions of a constant one and of what follows.
        shift, mask = (
            word.lanes.splat(builder.select(high, ir.Constant(I32, a), ir.Constant(I32, b)))
            for a, b in ((0, 16), (-0x10000, -1))
        )
        word = (word << shift) & mask | 0x8000
    elif lanes.element != F64:
        word = word & -256  # 24 bits are what a float32 holds
    return word.to_float(lanes)
