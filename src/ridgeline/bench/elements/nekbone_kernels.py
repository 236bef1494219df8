"""The two passes over memory of one iteration of Nekbone's conjugate gradients.

Source of the benchmark: Fischer, Heisey, "NEKBONE: Thermal Hydraulics mini-application", release 2.1, 2013.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import float64, int32, int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.elements.gather_scatter_kernels import ADD, combine_local
from ridgeline.elements.points import LINE, PointLoop, add_mass, apply_factors, literal, scratch
from ridgeline.elements.tensor import GENERATED, along_x, along_y, along_z
from ridgeline.jit.kernel import kernel
from ridgeline.jit.llvm import I64, Vector, data_pointer, prefetch


@intrinsic(prefer_literal=True)
def _ask_for(typing, count, x, x_start):
    """Prefetch `count` numbers of x, a literal, into the second-level cache; beyond the array is harmless."""
    if literal(count) is None:
        return None
    line = LINE * 8 // x.dtype.bitwidth

    def codegen(context, builder, signature, args):
        pointer = data_pointer(context, builder, signature, args, 1)
        ends = (ir.Constant(I64, value) for value in (0, literal(count), line))
        with cgutils.for_range_slice(builder, *ends) as (index, _):
            prefetch(builder, pointer, builder.add(index, args[2]), locality=2)
        return context.get_dummy_value()

    return types.void(count, x, types.int64), codegen


@intrinsic(prefer_literal=True)
def advance(typing, count, constants, x, x_start, r, r_start, p, p_start):
    """x += constants[2] p; then p = r + constants[0] p."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", "x", "x_start", "r", "r_start", "p", "p_start")
        loop = PointLoop(context, builder, signature, args, names, p.dtype)
        beta, alpha = loop.splat("constants", 0), loop.splat("constants", 2)

        def body():
            last = loop.load("p")
            loop.store(loop.lanes.fma(alpha, last, loop.load("x")), "x")
            loop.store(loop.lanes.fma(beta, last, loop.load("r")), "p")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    index = types.int64
    return types.void(count, constants, x, index, r, index, p, index), codegen


@intrinsic(prefer_literal=True)
def subtract(typing, count, alpha, weight, weight_start, w, w_start, r, r_start):
    """r -= alpha w, 0 where weight is 0; return the sum of weight r r."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "alpha", "weight", "weight_start", "w", "w_start", "r", "r_start")
        loop = PointLoop(context, builder, signature, args, names, r.dtype)
        minus = -loop.splat("alpha")
        zero = loop.lanes.constant(0.0)
        loop.start_sum()

        def body():
            weight = loop.load("weight")
            free = builder.fcmp_unordered("!=", weight.value, zero.value)
            value = loop.lanes.fma(minus, loop.load("w"), loop.load("r"))
            value = Vector(loop.lanes, builder.select(free, value.value, zero.value))
            loop.store(value, "r")
            loop.add_to_sum(weight * value, value)

        loop.run(literal(count), body)
        return loop.total()

    index = types.int64
    return types.float64(count, types.float64, weight, index, w, index, r, index), codegen


@cache
def make_passes(n: int, block: int) -> Any:
    """Return the compiled (direction, residual) for n points per direction, elements in blocks of `block`.

    direction(order, first, end, patterns, weights, constants, factors, derivative, lists..., x, r, p, w) -> p.w of
        the elements order[first:end]: x += alpha p (of the last iteration), p = r + beta p, w = A p. Copies of
        points that are complete within these elements are summed block by block, while they are in cache.
        Reads x, r, p and 6 factors, writes x, p and w (which is read as well where a store needs its cache line).
    residual(patterns, weights, alpha, w, r) -> r.c.r: r -= alpha w, 0 on the boundary. Reads r and w, writes r.

    order, patterns: int64 [E]; weights [number of patterns, n, n, n]: inverse multiplicity, 0 on the boundary, few
    enough to stay in cache; constants: beta, the shift of the operator, alpha; factors [E, 6, n, n, n]; x, r, p, w
    [E, n, n, n], all float64; lists: as GatherScatter.local_lists.
    """
    rows, points = n * n, n**3
    share = -(-6 * points // 5)

    field, list_of = float64[:, :, :, ::1], types.Array(int64, 1, "C", readonly=True)
    lists = (*[int32[:, ::1]] * 3, *[int32[::1]] * 2, int64[:, ::1])
    derivative = types.Array(float64, 2, "C", readonly=True)

    @kernel(
        (
            list_of, int64, int64, list_of, field, float64[::1], float64[:, :, :, :, ::1], derivative,
            *lists, *[field] * 4,
        ),
        nogil=True,
        error_model="numpy",
    )  # fmt: skip
    def direction(
        order, first, end, patterns, weights, constants, factors, derivative,
        pairs, fours, eights, starts, others, bounds, x, r, p, w,
    ):  # fmt: skip
        x, r, p, w = x.reshape(-1), r.reshape(-1), p.reshape(-1), w.reshape(-1)
        factors, weights = factors.reshape(-1), weights.reshape(-1)
        transposed = np.empty((n, n), p.dtype)
        for i in range(n):
            for j in range(n):
                transposed[j, i] = derivative[i, j]
        u_r, u_s, u_t = scratch(points, p), scratch(points, p), scratch(points, p)
        total = 0.0
        last = order[max(end - 1, 0)]
        for begin in range(first, end, block):
            stop = min(begin + block, end)
            for place in range(begin, stop):
                here = order[place] * points
                following = (order[place + 1] if place + 1 < end else last) * points
                ahead = 6 * following
                advance(points, constants, x, here, r, here, p, here)
                along_x(GENERATED, n, n, rows, False, u_r, 0, transposed, p, here)
                _ask_for(share, factors, ahead)
                along_y(GENERATED, n, n, n, n, False, u_s, 0, derivative, p, here)
                _ask_for(share, factors, ahead + share)
                along_z(GENERATED, n, n, rows, False, u_t, 0, derivative, p, here)
                _ask_for(share, factors, ahead + 2 * share)
                apply_factors(points, points, factors, 6 * here, u_r, u_s, u_t, 0)
                along_x(GENERATED, n, n, rows, False, w, here, derivative, u_r, 0)
                _ask_for(share, factors, ahead + 3 * share)
                _ask_for(points, x, following)
                along_y(GENERATED, n, n, n, n, True, w, here, transposed, u_s, 0)
                _ask_for(share, factors, ahead + 4 * share)
                along_z(GENERATED, n, n, rows, True, w, here, transposed, u_t, 0)
                _ask_for(points, r, following)
                _ask_for(points, p, following)
                total += add_mass(
                    points, constants, weights, patterns[order[place]] * points, w, here, p, here
                )
            combine_local(ADD, pairs, fours, eights, starts, others, bounds, begin, stop, w)
        return total

    @kernel((list_of, field, float64, field, field), nogil=True, error_model="numpy")
    def residual(patterns, weights, alpha, w, r):
        w, r, weights = w.reshape(-1), r.reshape(-1), weights.reshape(-1)
        total = 0.0
        for e in range(patterns.size):
            here = e * points
            total += subtract(points, alpha, weights, patterns[e] * points, w, here, r, here)
        return total

    return direction, residual
