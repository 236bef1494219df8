"""The one pass over memory of an iteration of Nekbone's conjugate gradients.

Vectors are updated before the operator, sums are taken after it, while an element is in cache.

Sources: Fischer, Heisey, "NEKBONE: Thermal Hydraulics mini-application", release 2.1, 2013 (the problem).
Kronbichler, Sashko, Munch, "Enhancing data locality of the conjugate gradient method for high-order matrix-free
finite-element implementations", IJHPCA 2022, Sec. 3.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import float64, int32, int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.elements.even_odd import (
    ODD,
    asking_even_odd_product,
    even_odd_parts,
    even_odd_product,
    parts_size,
)
from ridgeline.elements.gather_scatter_kernels import ADD, combine_local
from ridgeline.elements.points import LINE, PointLoop, literal, scratch
from ridgeline.elements.tensor import GENERATED, along_x
from ridgeline.jit.kernel import kernel
from ridgeline.jit.llvm import I64, Vector, data_pointer, host_vector_bytes, prefetch

_FIELD, _LIST = float64[:, :, :, ::1], types.Array(int64, 1, "C", readonly=True)
SUMS = 4  # of an iteration: r.c.r, p.w, r.w, w.c.w


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


def _with_starts(*arrays: str) -> list[str]:
    return [name for array in arrays for name in (array, f"{array}_start")]


@intrinsic(prefer_literal=True)
def advance(typing, count, constants, weight, weight_start, x, x_start, r, r_start, p, p_start, w, w_start):
    """x += alpha p; r -= alpha w, 0 where weight is 0; p = r + beta p; return the sum of weight r r.

    constants: beta, the shift of the operator, alpha.
    """
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", *_with_starts("weight", "x", "r", "p", "w"))
        loop = PointLoop(context, builder, signature, args, names, p.dtype)
        beta, alpha = loop.splat("constants", 0), loop.splat("constants", 2)
        minus, zero = -alpha, loop.lanes.constant(0.0)
        loop.start_sum()

        def body():
            last, weight = loop.load("p"), loop.load("weight")
            loop.store(loop.lanes.fma(alpha, last, loop.load("x")), "x")
            free = builder.fcmp_unordered("!=", weight.value, zero.value)
            value = loop.lanes.fma(minus, loop.load("w"), loop.load("r"))
            value = Vector(loop.lanes, builder.select(free, value.value, zero.value))
            loop.store(value, "r")
            loop.store(loop.lanes.fma(beta, last, value), "p")
            loop.add_to_sum(weight * value, value)

        loop.run(literal(count), body)
        return loop.total()

    index = types.int64
    return types.float64(
        count, constants, weight, index, x, index, r, index, p, index, w, index
    ), codegen  # fmt: skip


def blocks_of(points: int) -> tuple[int, int]:
    """Return (blocks, lanes): how many vectors of this machine `points` numbers fill, and the float64 of a vector."""
    lanes = host_vector_bytes() // 8
    return -(-points // lanes), lanes


@intrinsic(prefer_literal=True)
def apply_blocks(typing, count, factors, factors_start, u_r, u_s, u_t, u_t_start):
    """(u_r, u_s, u_t) = G (u_r, u_s, u_t) in place; factors [blocks, 6, lanes], so that they are one stream."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "factors", "factors_start", "u_r", "u_s", "u_t", "u_t_start")
        loop = PointLoop(context, builder, signature, args, names, u_r.dtype)

        def body():
            fma = loop.lanes.fma
            r, s, t = loop.load("u_r"), loop.load("u_s"), loop.load("u_t")
            rr, rs, rt, ss, st, tt = (loop.load_block("factors", part, 6) for part in range(6))
            loop.store(fma(rr, r, fma(rs, s, rt * t)), "u_r")
            loop.store(fma(rs, r, fma(ss, s, st * t)), "u_s")
            loop.store(fma(rt, r, fma(st, s, tt * t)), "u_t")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    return types.void(count, factors, types.int64, u_r, u_s, u_t, types.int64), codegen


@intrinsic(prefer_literal=True)
def shift_and_sum(typing, count, constants, weight, weight_start, r, r_start, p, p_start, w, w_start):
    """w += constants[1] weight p; return (p.w, r.w, w.w), the last over points whose weight is 1: without copies."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", *_with_starts("weight", "r", "p", "w"))
        loop = PointLoop(context, builder, signature, args, names, p.dtype)
        shift, zero, one = loop.splat("constants", 1), loop.lanes.constant(0.0), loop.lanes.constant(1.0)
        loop.start_sum(3)

        def body():
            weight, direction = loop.load("weight"), loop.load("p")
            value = loop.lanes.fma(shift * weight, direction, loop.load("w"))
            loop.store(value, "w")
            loop.add_to_sum(direction, value, 0)
            loop.add_to_sum(loop.load("r"), value, 1)
            alone = builder.fcmp_ordered("==", weight.value, one.value)
            value = Vector(loop.lanes, builder.select(alone, value.value, zero.value))
            loop.add_to_sum(value, value, 2)

        loop.run(literal(count), body)
        return context.make_tuple(builder, signature.return_type, [loop.total(which) for which in range(3)])

    index = types.int64
    sums = types.UniTuple(types.float64, 3)
    return sums(count, constants, weight, index, r, index, p, index, w, index), codegen


@cache
def make_passes(n: int, block: int) -> Any:
    """Return the compiled (iterate, update) for n points per direction.

    iterate(order, first, end, patterns, weights, constants, factors, derivative, lists..., x, r, p, w, sums):
        of the elements order[first:end]: x += alpha p, r -= alpha w (both of the last iteration), p = r + beta p,
        w = A p. Adds to sums (float64 [4]) r.c.r, p.w, r.w and w.c.w of points without copies on other ranks. Copies
        of points that are complete within these elements are summed every `block` elements, while they are in cache.
        Reads x, r, p, w and 6 factors, writes x, r, p, w.
    update(patterns, weights, constants, x, r, p, w) -> r.c.r: x and r as in `iterate`; p is of no use afterwards.

    order, patterns: int64 [E]; weights [number of patterns, n, n, n]: inverse multiplicity, 0 on the boundary, few
    enough to stay in cache; constants: beta, the shift of the operator, alpha; factors [E, blocks, 6, lanes]
    (`blocks_of`); x, r, p, w [E, n, n, n], all float64; lists: as GatherScatter.local_lists, without points of the
    boundary.
    """
    return _make_iterate(n, block), _make_update(n)


def _make_iterate(n: int, block: int) -> Any:
    """Return `iterate`. It asks for the next element between parts of the products.

    All at once would fill the queue of requests to memory, and then computing waits.
    """
    rows, points = n * n, n**3
    size = 6 * math.prod(blocks_of(points))
    planes = n if n < 8 else 1  # of a part; small planes together fill the registers of a product
    part_rows, part = planes * n, planes * rows
    parts = parts_size(n, n)

    lists = (*[int32[:, ::1]] * 3, *[int32[::1]] * 2, int64[:, ::1])
    derivative = types.Array(float64, 2, "C", readonly=True)

    @kernel(
        (
            _LIST, int64, int64, _LIST, _FIELD, float64[::1], _FIELD, derivative,
            *lists, *[_FIELD] * 4, float64[::1],
        ),
        nogil=True,
        error_model="numpy",
    )  # fmt: skip
    def iterate(
        order, first, end, patterns, weights, constants, factors, derivative,
        pairs, fours, eights, starts, others, bounds, x, r, p, w, sums,
    ):  # fmt: skip
        x, r, p, w = x.reshape(-1), r.reshape(-1), p.reshape(-1), w.reshape(-1)
        factors, weights = factors.reshape(-1), weights.reshape(-1)
        transposed = np.ascontiguousarray(derivative.T)
        forth = even_odd_parts(derivative, np.empty(parts))
        back = even_odd_parts(transposed, np.empty(parts))
        u_r, u_s, u_t = scratch(points, p), scratch(points, p), scratch(points, p)
        rcr, pw, rw, wcw = 0.0, 0.0, 0.0, 0.0
        last = order[max(end - 1, 0)]
        for begin in range(first, end, block):
            stop = min(begin + block, end)
            for place in range(begin, stop):
                here = order[place] * points
                weight = patterns[order[place]] * points
                following = order[place + 1] if place + 1 < end else last
                ahead = following * points
                g = following * size
                g_rr, g_rs, g_rt = g, g + points, g + 2 * points  # sixths of it, whatever they hold
                g_ss, g_st, g_tt = g + 3 * points, g + 4 * points, g + 5 * points
                rcr += advance(points, constants, weights, weight, x, here, r, here, p, here, w, here)
                for g in range(bounds[0, place], bounds[0, place + 1]):
                    _ask_for(1, w, int64(pairs[g, 0]))
                for k in range(0, n, planes):
                    at = k * rows
                    along_x(GENERATED, n, n, part_rows, False, u_r, at, transposed, p, here + at)
                    _ask_for(part, factors, g_rr + at)
                    _ask_for(part, x, ahead + at)
                    even_odd_product(GENERATED, n, n, n, planes, False, ODD, u_s, at, forth, 0, p, here + at)
                    _ask_for(part, factors, g_rs + at)
                    _ask_for(part, r, ahead + at)
                asking_even_odd_product(
                    GENERATED, n, rows, n, 1, False, ODD, 2,
                    u_t, 0, forth, 0, p, here, factors, g_rt, p, ahead,
                )  # fmt: skip
                apply_blocks(points, factors, order[place] * size, u_r, u_s, u_t, 0)
                for k in range(0, n, planes):
                    at = k * rows
                    along_x(GENERATED, n, n, part_rows, False, w, here + at, derivative, u_r, at)
                    _ask_for(part, factors, g_ss + at)
                    _ask_for(part, w, ahead + at)
                    even_odd_product(GENERATED, n, n, n, planes, True, ODD, w, here + at, back, 0, u_s, at)
                    _ask_for(part, factors, g_st + at)
                asking_even_odd_product(
                    GENERATED, n, rows, n, 1, True, ODD, 1,
                    w, here, back, 0, u_t, 0, factors, g_tt, factors, g_tt,
                )  # fmt: skip
                of_p, of_r, alone = shift_and_sum(
                    points, constants, weights, weight, r, here, p, here, w, here
                )
                pw += of_p
                rw += of_r
                wcw += alone
            wcw += combine_local(ADD, pairs, fours, eights, starts, others, bounds, begin, stop, w)
        sums[0] += rcr
        sums[1] += pw
        sums[2] += rw
        sums[3] += wcw

    return iterate


def _make_update(n: int) -> Any:
    points = n**3

    @kernel((_LIST, _FIELD, float64[::1], *[_FIELD] * 4), nogil=True, error_model="numpy")
    def update(patterns, weights, constants, x, r, p, w):
        x, r, p, w, weights = x.reshape(-1), r.reshape(-1), p.reshape(-1), w.reshape(-1), weights.reshape(-1)
        total = 0.0
        for e in range(patterns.size):
            here = e * points
            total += advance(
                points, constants, weights, patterns[e] * points, x, here, r, here, p, here, w, here
            )
        return total

    return update


@kernel(lambda: (*[int32[::1]] * 3, _FIELD), nogil=True, error_model="numpy")
def shared_squares(starts, places, source_starts, w):
    """Return this rank's part of w.w over the points that ranks share.

    starts, places, source_starts: int32, as SharedPoints has them; w: float64 [E, n, n, n], assembled.
    """
    w = w.reshape(-1)
    total = 0.0
    for k in range(starts.size - 1):
        value = w[places[starts[k]]]
        total += value * value / (source_starts[k + 1] - source_starts[k])
    return total
