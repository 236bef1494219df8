"""Vector code for the weighted sum over the 4 x 4 x 4 points around a place, of three adjacent components.

A row of four points is 12 consecutive numbers, a vector of eight and a vector of four. They are first multiplied by
the weights in y and z, which all points of a row share, and at the end by those in x.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.llvm import F64, I32, Lanes, Vector, constant, data_pointer, element_type, prefetch
from ridgeline.runtime.aligned import CACHE_LINE

POINTS = 4  # of the stencil, in each direction
COMPONENTS = 3
BATCH = 128  # particles whose weights are computed together, and stay in the first-level cache
AHEAD = 8  # particles by which the prefetch of points is ahead


@intrinsic
def stencil_sum(typing, values, at, pitch_y, pitch_z, weights, i):
    """Return the three sums of wz[k] wy[j] wx[l] values[at + k pitch_z + j pitch_y + 3 l + component]; float64.

    values : (n,) float32 or float64, contiguous; at, pitch_y, pitch_z : int64; weights : (3 POINTS, BATCH) float64,
    contiguous, whose column i has wx, wy and wz. Rounding is the same on every machine with fused multiply-adds.
    """

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        lanes = [Lanes(builder, F64, count) for count in (8, 4)]
        stored = [Lanes(builder, element_type(signature.args[0].dtype), each.count) for each in lanes]
        pointer, table = (data_pointer(context, builder, signature, args, n) for n in (0, 4))

        def sum_of(index: ir.Value, value: int) -> ir.Value:
            return builder.add(index, ir.Constant(index.type, value))

        def weight(axis: int, point: int) -> ir.Value:
            place = sum_of(args[5], (POINTS * axis + point) * BATCH)
            return builder.load(builder.gep(table, [place]))

        wx, wy, wz = ([weight(axis, point) for point in range(POINTS)] for axis in range(3))

        def row(k: int, j: int) -> list[Vector]:
            index = args[1]
            for pitch, times in ((args[3], k), (args[2], j)):
                index = builder.add(index, builder.mul(pitch, ir.Constant(pitch.type, times)))
            numbers = [each.load(pointer, sum_of(index, first)) for each, first in zip(stored, (0, 8))]
            if stored[0].type == lanes[0].type:
                return numbers
            return [each.vector(builder.fpext(part.value, each.type)) for each, part in zip(lanes, numbers)]

        def add(weight: ir.Value, parts: list[Vector], to: list[Vector]) -> list[Vector]:
            return [each.fma(each.splat(weight), part, old) for each, part, old in zip(lanes, parts, to)]

        nothing = [each.constant(0.0) for each in lanes]
        total = nothing
        for k in range(POINTS):
            plane = nothing
            for j in range(POINTS):
                plane = add(wy[j], row(k, j), plane)
            total = add(wz[k], plane, total)
        return cgutils.pack_array(builder, _by_component(total, wx))

    if weights.ndim != 2 or weights.dtype != types.float64:
        return None
    return types.UniTuple(types.float64, COMPONENTS)(values, at, pitch_y, pitch_z, weights, i), codegen


@intrinsic
def fetch_stencil(typing, values, at, pitch_y, pitch_z):
    """Prefetch the cache lines that `stencil_sum` will load, whose rows are too far apart for the hardware."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = data_pointer(context, builder, signature, args, 0)
        in_line = CACHE_LINE * 8 // signature.args[0].dtype.bitwidth
        last = POINTS * COMPONENTS - 1
        for k in range(POINTS):
            for j in range(POINTS):
                index = args[1]
                for pitch, times in ((args[3], k), (args[2], j)):
                    index = builder.add(index, builder.mul(pitch, ir.Constant(pitch.type, times)))
                for place in (*range(0, last, in_line), last):
                    prefetch(builder, pointer, builder.add(index, ir.Constant(index.type, place)))
        return context.get_dummy_value()

    return types.void(values, at, pitch_y, pitch_z), codegen


def _by_component(total: list[Vector], weights: list[ir.Value]) -> list[ir.Value]:
    """Return the sum over points in x, of each component; total: the 12 numbers of a row as vectors of 8 and 4."""
    eight, four = (each.lanes for each in total)
    builder = eight.builder
    undefined = ir.Constant(four.type, ir.Undefined)
    widened = builder.shuffle_vector(
        total[1].value, undefined, constant(ir.VectorType(I32, 8), [*range(4), *range(4)])
    )
    sums = four.constant(0.0)
    for point, weight in enumerate(weights):
        first = COMPONENTS * point
        picks = constant(ir.VectorType(I32, 4), [first, first + 1, first + 2, first])
        part = four.vector(builder.shuffle_vector(total[0].value, widened, picks))
        sums = four.fma(four.splat(weight), part, sums)
    return [builder.extract_element(sums.value, ir.Constant(I32, n)) for n in range(COMPONENTS)]
