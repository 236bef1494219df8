"""Philox random numbers in vector registers: the LLVM side of `kernels.random`, bit for bit the same.

A vector of consecutive x with one counter (x, y // 4, z, step) yields one vector of words for each of four
rows. Words travel in the low halves of 64-bit lanes, as `random.philox4x32` expects: 32 x 32 -> 64-bit
products are then one instruction (vpmuludq) each.

Cost: 10 rounds of 2 products, 2 shifts and 4 exclusive-ors (2 three-input ones with AVX-512) for 4 rows.
"""

from llvmlite import ir

from ridgeline.kernels.llvm import F64, I32, I64, Lanes, Vector, host_features
from ridgeline.kernels.random import ROUNDS, philox4x32


def load_keys(lanes: Lanes, keys) -> list[tuple[Vector, Vector]]:
    """Broadcast the key schedule at pointer `keys` (`random.round_keys`) to 64-bit `lanes`."""

    def key(n):
        return lanes.splat(lanes.builder.load(lanes.builder.gep(keys, [ir.Constant(I64, n)])))

    return [(key(2 * n), key(2 * n + 1)) for n in range(ROUNDS)]


def philox_words(x: Vector, row_group, z, step, keys: list[tuple[Vector, Vector]]) -> tuple[Vector, ...]:
    """Return the four words of counter (x, row_group, z, step); all but x are scalar 64-bit LLVM values.

    Word n (low half of each 64-bit lane) is for the row y = 4 * row_group + n.
    """
    return philox4x32(x, *(x.lanes.splat(scalar) for scalar in (row_group, z, step)), keys)


def _converts_wide_integers(lanes: Lanes) -> bool:
    return lanes.element == F64 and "avx512dq" in host_features()


def uniform_scale(lanes: Lanes) -> float:
    """Return the power of two that turns `unscaled_uniform` into a uniform number in [-1, 1)."""
    return 2.0**-63 if _converts_wide_integers(lanes) else 2.0**-31


def unscaled_uniform(word: Vector, lanes: Lanes) -> Vector:
    """Convert the words to floats in `lanes`: uniform_scale times the result is `random.uniform_reference`.

    Both are exact, so that a factor may absorb the scale without a change of rounding.
    """
    if _converts_wide_integers(lanes):
        return (word << 32).to_float(lanes)
    narrow = word.truncate(Lanes(lanes.builder, I32, lanes.count))
    if lanes.element != F64:
        narrow = narrow & -256  # 24 bits are what a float32 holds
    return narrow.to_float(lanes)
