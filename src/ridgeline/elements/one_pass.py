"""The stiffness operator with a shift, fused with the iteration of conjugate gradients that applies it.

    A = M (Q Q^T K_L + shift) M,   M u = 0 at constrained points,

K_L is the stiffness matrix of each element, with six factors per point that are loaded from memory, and Q Q^T the
gather-scatter. An iteration (`krylov.cg.one_pass_cg`) makes one pass over memory, element by element: vectors are
updated before the operator and sums are formed after it, while an element is in cache. Copies of shared points in w
are summed every few elements, while they are in cache, and messages travel while elements in the interior of the
rank's part are computed.

The pass reads x, r, p, w and 6 factors, and writes x, r, p, w: 14 words = 112 bytes per point and iteration. The
lists of the gather-scatter (1 to 2 bytes) are not counted. The inverse multiplicity c is 0 at constrained points and
has few different patterns in an element; one copy of each stays in cache. p.w and r.w need no weights, because they
are formed before copies are summed. w.c.w counts each point once: where it has no copies, or where its copies are
summed.

Source: Kronbichler, Sashko, Munch, "Enhancing data locality of the conjugate gradient method for high-order
matrix-free finite-element implementations", IJHPCA 2022, Sec. 3.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ridgeline.elements.even_odd import (
    ODD,
    even_odd_parts,
    even_odd_product,
    parts_size,
    prefetching_even_odd_product,
)
from ridgeline.elements.gather_scatter import ADD, combine_local
from ridgeline.elements.point_loops import PointLoop, literal, prefetch_points, scratch, with_starts
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.elements.tensor import GENERATED, along_x
from ridgeline.jit.kernel import compile_kernels, kernel, specialise
from ridgeline.jit.llvm import Vector, host_vector_bytes
from ridgeline.krylov.cg import SUMS, HostStepLengths
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.aligned import aligned_empty, aligned_zeros

if TYPE_CHECKING:
    from ridgeline.elements.gather_scatter import GatherScatter

Array = NDArray[np.float64]

# Least words to and from memory per point and iteration: 6 factors and x, r, p, w are read, x, r, p, w are written.
WORDS = 14
BLOCK_POINTS = 2048  # computed between sums of copies: w is then still in the first- or second-level cache
HUGE_PAGE = 2**21  # bytes
_FIELD, _LIST = float64[:, :, :, ::1], types.Array(int64, 1, "C", readonly=True)


class ElementKinds(NamedTuple):
    """The few kinds of elements by the weights of their points, so that all weights stay in cache.

    of_element: int64 [E], the kind of each local element. weights: float64 [kinds, n, n, n], the inverse multiplicity
    of the points of a kind, 0 at constrained points.
    """

    of_element: NDArray[np.int64]
    weights: Array


def find_kinds(gather_scatter: GatherScatter, constrained: NDArray[np.bool_]) -> ElementKinds:
    """Return the kinds of this rank's elements. constrained: bool [E, n, n, n]. Collective."""
    weights = gather_scatter.inverse_multiplicity()
    weights[constrained] = 0.0
    rows = weights.reshape(len(weights), -1)
    kinds, of_element = np.unique(rows, axis=0, return_inverse=True)
    patterns = aligned_empty((len(kinds), *weights.shape[1:]), np.float64)
    patterns[...] = kinds.reshape(patterns.shape)
    return ElementKinds(of_element.reshape(-1).astype(np.int64), patterns)


class OnePassStiffness:
    """A on the cores of this rank, with x, r, p and w [E, n, n, n] float64: a `krylov.cg.OnePassOperator`.

    gather_scatter: of the points that are not constrained. factors: G_rr, G_rs, G_rt, G_ss, G_st, G_tt at the points
    of every element, float64 [E, 6, n, n, n], or [1, 6, n, n, n] if they are the same for all. Construction is
    collective.
    """

    def __init__(
        self, gather_scatter: GatherScatter, kinds: ElementKinds, factors: Array, shift: float
    ) -> None:
        self._shared, self._kinds, self.n = gather_scatter, kinds, gather_scatter.shape[-1]
        self._order = np.concatenate([gather_scatter.boundary_elements, gather_scatter.interior_elements])
        self._derivative = np.ascontiguousarray(gll_derivative(self.n))

        # Factors become [E, blocks, 6, lanes], with zeros beyond the last point of an element.
        blocks, lanes = blocks_of(self.n**3)
        padded = np.zeros((len(factors), 6, blocks * lanes))
        padded[..., : self.n**3] = factors.reshape(len(factors), 6, -1)
        self._factors = aligned_zeros((len(self._order), blocks, 6, lanes), np.float64, HUGE_PAGE)
        self._factors[...] = padded.reshape(len(factors), 6, blocks, lanes).transpose(0, 2, 1, 3)

        # One array, so that the vectors fill the huge pages that NumPy requests from 4 MiB on.
        self.x, self.r, self.p, self.w = aligned_zeros((4, *gather_scatter.shape), np.float64, HUGE_PAGE)
        # alpha and beta of the iteration before, and the shift.
        self._constants = np.array([0.0, 0.0, shift])
        self.steps = HostStepLengths(gather_scatter.comm, self._constants)
        self._sums = np.zeros(SUMS)
        self._passes = compile_on_nodes(gather_scatter.comm, self._compiled)

    def _compiled(self) -> tuple[Any, Any]:
        compile_kernels(specialise([shared_squares]))
        passes: tuple[Any, Any] = make_passes(self.n, max(1, BLOCK_POINTS // self.n**3))
        return passes

    def start(self, b: Array, iterations: int) -> None:
        """Prepare a solve with the right-hand side b [E, n, n, n], which is 0 at constrained points."""
        self.steps.reset(iterations)
        self.x.fill(0.0)
        self.p.fill(0.0)
        self.w.fill(0.0)
        self.r[...] = b

    def solution(self) -> Array:
        """Return x [E, n, n, n]."""
        return np.asarray(self.x)

    def iterate(self) -> Array:
        """Make the pass of one iteration and exchange w; return this rank's sums. Communication: neighbours."""
        n_boundary, shared = self._shared.boundary_elements.size, self._shared.plan.shared
        self._sums.fill(0.0)
        self._pass(0, n_boundary)
        self._shared.start(self.w)
        self._pass(n_boundary, self._order.size)
        self._shared.finish(self.w, local=False)
        self._sums[3] += shared_squares(shared.starts, shared.places, shared.source_starts, self.w)
        return self._sums

    def _pass(self, first: int, end: int) -> None:
        """Compute the elements at first ... end of the order."""
        iterate, _ = self._passes
        iterate(
            self._order,
            first,
            end,
            self._kinds.of_element,
            self._kinds.weights,
            self._constants,
            self._factors,
            self._derivative,
            *self._shared.local_lists,
            self.x,
            self.r,
            self.p,
            self.w,
            self._sums,
        )

    def update(self) -> Array:
        self._sums.fill(0.0)
        _, update = self._passes
        self._sums[0] = update(*self._kinds, self._constants, self.x, self.r, self.p, self.w)
        return self._sums

    def bytes_per_iteration(self) -> float:
        """Return the counted bytes to and from memory of an iteration on this rank."""
        return 8.0 * WORDS * self.x.size

    def free(self) -> None:
        """Free the requests of the gather-scatter; the object cannot be used afterwards."""
        self._shared.free()


@intrinsic(prefer_literal=True)
def advance(typing, count, constants, weight, weight_start, x, x_start, r, r_start, p, p_start, w, w_start):
    """x += alpha p; r -= alpha w, 0 where weight is 0; p = r + beta p; return the sum of weight r r.

    constants: alpha, beta, the shift of the operator.
    """
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", *with_starts("weight", "x", "r", "p", "w"))
        loop = PointLoop(context, builder, signature, args, names, p.dtype)
        alpha, beta = loop.splat("constants", 0), loop.splat("constants", 1)
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
    return types.float64(count, constants, weight, index, x, index, r, index, p, index, w, index), codegen


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
    """w += constants[2] weight p; return (p.w, r.w, w.w), the last over points of weight 1, without copies."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", *with_starts("weight", "r", "p", "w"))
        loop = PointLoop(context, builder, signature, args, names, p.dtype)
        shift, zero, one = loop.splat("constants", 2), loop.lanes.constant(0.0), loop.lanes.constant(1.0)
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
    update(patterns, weights, constants, x, r, p, w) -> r.c.r: x and r as in `iterate`; p is then meaningless.

    order, patterns: int64 [E]; weights [number of patterns, n, n, n]: inverse multiplicity, 0 on the boundary, few
    enough to stay in cache; constants: alpha, beta, the shift of the operator; factors [E, blocks, 6, lanes]
    (`blocks_of`); x, r, p, w [E, n, n, n], all float64; lists: as GatherScatter.local_lists, without points of the
    boundary.
    """
    return _make_iterate(n, block), _make_update(n)


def _make_iterate(n: int, block: int) -> Any:
    """Return `iterate`. It prefetches the next element between parts of the products.

    Prefetching all at once would fill the queue of requests to memory, and then computing waits.
    """
    rows, points = n * n, n**3
    size = 6 * math.prod(blocks_of(points))
    planes = n if n < 8 else 1  # of a part; several small planes fill the registers of a product
    part_rows, part = planes * n, planes * rows
    parts = parts_size(n, n)

    derivative = types.Array(float64, 2, "C", readonly=True)
    lists = (*[int32[:, ::1]] * 3, *[int32[::1]] * 2, int64[:, ::1])
    elements = (_LIST, int64, int64, _LIST, _FIELD)
    arguments = (*elements, float64[::1], _FIELD, derivative, *lists, *[_FIELD] * 4, float64[::1])

    @kernel(arguments, nogil=True, error_model="numpy")
    def iterate(
        order,
        first,
        end,
        patterns,
        weights,
        constants,
        factors,
        derivative,
        pairs,
        fours,
        eights,
        starts,
        others,
        bounds,
        x,
        r,
        p,
        w,
        sums,
    ):
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
                    prefetch_points(1, False, w, int64(pairs[g, 0]))
                for k in range(0, n, planes):
                    at = k * rows
                    along_x(GENERATED, n, n, part_rows, False, u_r, at, transposed, p, here + at)
                    prefetch_points(part, False, factors, g_rr + at)
                    prefetch_points(part, False, x, ahead + at)
                    even_odd_product(GENERATED, n, n, n, planes, False, ODD, u_s, at, forth, 0, p, here + at)
                    prefetch_points(part, False, factors, g_rs + at)
                    prefetch_points(part, False, r, ahead + at)
                prefetching_even_odd_product(
                    GENERATED,
                    n,
                    rows,
                    n,
                    1,
                    False,
                    ODD,
                    2,
                    u_t,
                    0,
                    forth,
                    0,
                    p,
                    here,
                    factors,
                    g_rt,
                    p,
                    ahead,
                )
                apply_blocks(points, factors, order[place] * size, u_r, u_s, u_t, 0)
                for k in range(0, n, planes):
                    at = k * rows
                    along_x(GENERATED, n, n, part_rows, False, w, here + at, derivative, u_r, at)
                    prefetch_points(part, False, factors, g_ss + at)
                    prefetch_points(part, False, w, ahead + at)
                    even_odd_product(GENERATED, n, n, n, planes, True, ODD, w, here + at, back, 0, u_s, at)
                    prefetch_points(part, False, factors, g_st + at)
                prefetching_even_odd_product(
                    GENERATED,
                    n,
                    rows,
                    n,
                    1,
                    True,
                    ODD,
                    1,
                    w,
                    here,
                    back,
                    0,
                    u_t,
                    0,
                    factors,
                    g_tt,
                    factors,
                    g_tt,
                )
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
