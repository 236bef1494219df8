"""The Helmholtz operator h1 K + h2 B on spectral elements, K the stiffness and B the mass matrix.

w = h1 (grad v, grad u) + h2 (v, u) of each element alone ("unassembled"). There are two forms:

- curved elements: gradient in the reference directions, six factors at each point, transposed gradient
  (Deville, Fischer, Mund 2002, Eq. 4.4.7). This takes 12 n + 15 operations per point and 8 words to and from memory;
- axis-aligned elements: (Hx (x) I (x) I) + (I (x) Hy (x) I) + (I (x) I (x) Hz) (Hutchinson et al. 2016, Eq. 6). The
  quadrature weights of the other directions are taken out: w = W (A_x + A_y + A_z) u, with A = 1 / w D^T w D scaled
  for the element. This takes 6 n + 1 operations per point and 2 words to and from memory. No array of the geometry
  is read.

An element's data is read from and written to memory once. While one element is computed, the next is prefetched, or
one farther ahead if elements are small.

Arguments common to the kernels made here; arrays are C-contiguous and of the dtype unless said otherwise:
elements: int64, the local elements to compute, in this order. u, w, p, r, ...: [E, n, n, n]. h1, h2: float64 scalars.
scale [E, 3], volume [E]: of axis-aligned elements, otherwise arbitrary. factors [E, 6, n, n, n], mass [E, n, n, n]:
of curved elements, otherwise arbitrary (mass is read if h2 is not 0). derivative [n, n]; weights [n]. products:
GENERATED or PLAIN, the code of the small matrix products (`tensor`).
"""

from functools import cache
from typing import Any

import numpy as np

from ridgeline.elements.even_odd import (
    EVEN,
    ODD,
    even_odd_parts,
    even_odd_product,
    parts_size,
    prefetching_even_odd_product,
)
from ridgeline.elements.point_loops import (
    add_mass,
    apply_factors,
    compiled,
    dot_points,
    prefetch_points,
    scale_points,
    scratch,
    search_direction,
)
from ridgeline.elements.tensor import GENERATED, along_x, prefetching_product
from ridgeline.jit.kernel import subroutine

AHEAD_BYTES = 16384  # of elements between the one that is computed and the one that is prefetched
SMALL = 8  # points in each direction below which one plane does not fill the registers of a product
GEOMETRY = "r2 r1 r5 r4 r2 r1"  # scale, volume, factors, mass, derivative, weights


@subroutine(inline="always")
def _line_operator(derivative, weights, out):
    """out = 1 / w D^T w D: the stiffness matrix of one direction without its weights."""
    n = weights.size
    for i in range(n):
        for j in range(n):
            total = 0.0
            for l in range(n):
                total += weights[l] * derivative[l, i] * derivative[l, j]
            out[i, j] = total / weights[i]


@subroutine(inline="always")
def _scaled_operators(line, line_parts, stretch, h1, h2, volume, along_x, parts):
    """along_x = h1 volume stretch**2 line, transposed, with the mass term; parts [2, ...]: the parts for y and z."""
    n = line.shape[0]
    x, y, z = h1 * volume * stretch[0] ** 2, h1 * volume * stretch[1] ** 2, h1 * volume * stretch[2] ** 2
    for i in range(n):
        for j in range(n):
            along_x[j, i] = x * line[i, j]
        along_x[i, i] += h2 * volume
    for place in range(line_parts.size):
        parts[0, place] = y * line_parts[place]
        parts[1, place] = z * line_parts[place]


@subroutine(inline="always")
def fill_cube(weights, out):
    """out[k, j, i] = w_k w_j w_i, flat."""
    n = weights.size
    for k in range(n):
        for j in range(n):
            for i in range(n):
                out[(k * n + j) * n + i] = weights[k] * weights[j] * weights[i]


@subroutine(inline="always")
def _separable(products, n, rows, matrix, parts, u, here, following, others, w):
    """w = (A_x + A_y + A_z) u of one element, while prefetching what the following element reads and writes.

    others: two arrays with one number per point that are read with an element besides u; they may be u itself.
    """
    for k in range(n):
        plane = k * rows
        along_x(products, n, n, n, False, w, here + plane, matrix, u, here + plane)
        prefetch_points(rows, False, others[0], following + plane)
        prefetch_points(rows, False, others[1], following + plane)
        even_odd_product(products, n, n, n, 1, True, EVEN, w, here + plane, parts[0], 0, u, here + plane)
        prefetch_points(rows, False, u, following + plane)
        prefetch_points(rows, True, w, following + plane)
    even_odd_product(products, n, rows, n, 1, True, EVEN, w, here, parts[1], 0, u, here)


@subroutine(inline="always")
def _scaled_derivatives(derivative, h1, matrices, parts):
    """matrices = D transposed, h1 D; parts: the parts of D and of h1 D transposed."""
    n = derivative.shape[0]
    transposed = np.empty((n, n), derivative.dtype)
    for i in range(n):
        for j in range(n):
            matrices[0, j, i] = derivative[i, j]
            matrices[1, i, j] = h1 * derivative[i, j]
            transposed[j, i] = h1 * derivative[i, j]
    even_odd_parts(derivative, parts[0])
    even_odd_parts(transposed, parts[1])


def _elements_ahead(n: int, dtype_name: str) -> int:
    """Return how many elements ahead are prefetched; small elements are done before the next comes from memory."""
    words = 8  # of a point: six factors, the field and the result
    return max(1, AHEAD_BYTES // (words * np.dtype(dtype_name).itemsize * n**3))


@subroutine(inline="always")
def _stiffness(
    products,
    n,
    rows,
    points,
    size,
    planes,
    part_rows,
    part,
    matrices,
    parts,
    factors,
    u,
    here,
    following,
    others,
    u_r,
    u_s,
    u_t,
    w,
):
    """w = h1 K u of one curved element, while prefetching what the following element reads and writes.

    rows, points, size: n**2, n**3, parts_size(n, n). planes, part_rows, part: `_batch_of_planes`. matrices and parts
    (`_scaled_derivatives`) are flat; u_r, u_s, u_t: flat, n**3 numbers. others: four arrays with one number per point
    that are read or written with an element; they may be the same.

    Each product prefetches a sixth of the factors, one line after another, so that the CPU's own prefetcher sees one
    stream.
    """
    first, second, third, fourth = others
    ahead = 6 * following
    prefetching_even_odd_product(
        products, n, rows, n, 1, False, ODD, 1, u_t, 0, parts, 0, u, here, factors, ahead, factors, ahead
    )
    for at in range(0, points, part):
        now, place, ahead = here + at, following + at, 6 * following + points + 4 * at
        prefetching_product(
            products, part_rows, n, n, 1, False, 2, u_r, 0, u, now, matrices, 0, factors, ahead, first, place
        )
        prefetching_even_odd_product(
            products,
            n,
            n,
            n,
            planes,
            False,
            ODD,
            2,
            u_s,
            0,
            parts,
            0,
            u,
            now,
            factors,
            ahead + part,
            second,
            place,
        )
        apply_factors(part, points, factors, 6 * here + at, u_r, u_s, u_t, at)
        prefetching_product(
            products,
            part_rows,
            n,
            n,
            1,
            False,
            2,
            w,
            now,
            u_r,
            0,
            matrices,
            rows,
            factors,
            ahead + 2 * part,
            third,
            place,
        )
        prefetching_even_odd_product(
            products,
            n,
            n,
            n,
            planes,
            True,
            ODD,
            2,
            w,
            now,
            parts,
            size,
            u_s,
            0,
            factors,
            ahead + 3 * part,
            fourth,
            place,
        )
    ahead = 6 * following + 5 * points
    prefetching_even_odd_product(
        products, n, rows, n, 1, True, ODD, 1, w, here, parts, size, u_t, 0, factors, ahead, factors, ahead
    )


def _batch_of_planes(n: int) -> tuple[int, int, int]:
    """Return how many planes of an element `_stiffness` computes at a time, and their rows and points."""
    planes = n if n < SMALL else 1
    return planes, planes * n, planes * n * n


@cache
def make_helmholtz(n: int, dtype_name: str, axis_aligned: bool, products: int = GENERATED) -> Any:
    """Return the kernel of w = h1 K u + h2 B u, unassembled.

    kernel(elements, u, h1, h2, scale, volume, factors, mass, derivative, weights, w)
    """
    rows, points, size = n * n, n**3, parts_size(n, n)
    ahead, (planes, part_rows, part) = _elements_ahead(n, dtype_name), _batch_of_planes(n)
    arguments = f"elements r4 h h {GEOMETRY} w4"

    if axis_aligned:

        @compiled(dtype_name, arguments)
        def helmholtz_of_boxes(elements, u, h1, h2, scale, volume, factors, mass, derivative, weights, w):
            u, w = u.reshape(-1), w.reshape(-1)
            line, matrix = np.empty((n, n), u.dtype), np.empty((n, n), u.dtype)
            line_parts, parts = np.empty(size, u.dtype), np.empty((2, size), u.dtype)
            cube = scratch(points, u)
            _line_operator(derivative, weights, line)
            even_odd_parts(line, line_parts)
            fill_cube(weights, cube)
            for place in range(elements.size):
                e = elements[place]
                here = e * points
                following = elements[min(place + ahead, elements.size - 1)] * points
                _scaled_operators(line, line_parts, scale[e], h1, h2, volume[e], matrix, parts)
                _separable(products, n, rows, matrix, parts, u, here, following, (u, u), w)
                scale_points(points, cube, 0, w, here, cube, 0)

        return helmholtz_of_boxes

    @compiled(dtype_name, arguments)
    def helmholtz(elements, u, h1, h2, scale, volume, factors, mass, derivative, weights, w):
        u, w = u.reshape(-1), w.reshape(-1)
        factors, mass = factors.reshape(-1), mass.reshape(-1)
        constants = np.empty(2, u.dtype)
        constants[1] = h2
        matrices, parts = np.empty((2, n, n), u.dtype), np.empty((2, size), u.dtype)
        _scaled_derivatives(derivative, h1, matrices, parts)
        matrices, parts = matrices.reshape(-1), parts.reshape(-1)
        u_r, u_s, u_t = scratch(points, u), scratch(points, u), scratch(points, u)
        others = (u, u, mass if h2 != 0.0 else u, w)
        for place in range(elements.size):
            here = elements[place] * points
            following = elements[min(place + ahead, elements.size - 1)] * points
            _stiffness(
                products,
                n,
                rows,
                points,
                size,
                planes,
                part_rows,
                part,
                matrices,
                parts,
                factors,
                u,
                here,
                following,
                others,
                u_r,
                u_s,
                u_t,
                w,
            )
            if h2 != 0.0:
                add_mass(points, constants, mass, here, w, here, u, here)

    return helmholtz


@cache
def make_helmholtz_cg(n: int, dtype_name: str, axis_aligned: bool, products: int = GENERATED) -> Any:
    """Return the kernel of one iteration's search direction and operator of preconditioned conjugate gradients.

    kernel(elements, r, inverse_diagonal, beta, p, h1, h2, scale, volume, factors, mass, derivative, weights, w)
    sets p = inverse_diagonal r + beta p and w = h1 K p + h2 B p, unassembled. It returns p.w summed over these
    elements in float64, which for a continuous p is the product of p with the assembled w. One pass: reads r,
    inverse_diagonal, p (and 6 factors, mass), writes p and w.
    """
    rows, points, size = n * n, n**3, parts_size(n, n)
    ahead, (planes, part_rows, part) = _elements_ahead(n, dtype_name), _batch_of_planes(n)
    arguments = f"elements r4 r4 h w4 h h {GEOMETRY} w4"

    if axis_aligned:

        @compiled(dtype_name, arguments)
        def helmholtz_cg_of_boxes(
            elements,
            r,
            inverse_diagonal,
            beta,
            p,
            h1,
            h2,
            scale,
            volume,
            factors,
            mass,
            derivative,
            weights,
            w,
        ):
            r, p, w = r.reshape(-1), p.reshape(-1), w.reshape(-1)
            inverse_diagonal = inverse_diagonal.reshape(-1)
            line, matrix = np.empty((n, n), p.dtype), np.empty((n, n), p.dtype)
            line_parts, parts = np.empty(size, p.dtype), np.empty((2, size), p.dtype)
            constants = np.empty(1, p.dtype)
            constants[0] = beta
            cube = scratch(points, p)
            _line_operator(derivative, weights, line)
            even_odd_parts(line, line_parts)
            fill_cube(weights, cube)
            total = 0.0
            for place in range(elements.size):
                e = elements[place]
                here = e * points
                following = elements[min(place + ahead, elements.size - 1)] * points
                _scaled_operators(line, line_parts, scale[e], h1, h2, volume[e], matrix, parts)
                search_direction(points, constants, inverse_diagonal, here, r, here, p, here)
                _separable(products, n, rows, matrix, parts, p, here, following, (r, inverse_diagonal), w)
                total += scale_points(points, cube, 0, w, here, p, here)
            return total

        return helmholtz_cg_of_boxes

    @compiled(dtype_name, arguments)
    def helmholtz_cg(
        elements, r, inverse_diagonal, beta, p, h1, h2, scale, volume, factors, mass, derivative, weights, w
    ):
        r, p, w = r.reshape(-1), p.reshape(-1), w.reshape(-1)
        inverse_diagonal = inverse_diagonal.reshape(-1)
        factors, mass = factors.reshape(-1), mass.reshape(-1)
        constants = np.empty(2, p.dtype)
        constants[0], constants[1] = beta, h2
        matrices, parts = np.empty((2, n, n), p.dtype), np.empty((2, size), p.dtype)
        _scaled_derivatives(derivative, h1, matrices, parts)
        matrices, parts = matrices.reshape(-1), parts.reshape(-1)
        u_r, u_s, u_t = scratch(points, p), scratch(points, p), scratch(points, p)
        others = (r, inverse_diagonal, p, mass if h2 != 0.0 else w)
        total = 0.0
        for place in range(elements.size):
            here = elements[place] * points
            following = elements[min(place + ahead, elements.size - 1)] * points
            search_direction(points, constants, inverse_diagonal, here, r, here, p, here)
            _stiffness(
                products,
                n,
                rows,
                points,
                size,
                planes,
                part_rows,
                part,
                matrices,
                parts,
                factors,
                p,
                here,
                following,
                others,
                u_r,
                u_s,
                u_t,
                w,
            )
            if h2 != 0.0:
                total += add_mass(points, constants, mass, here, w, here, p, here)
            else:
                total += dot_points(points, p, here, w, here)
        return total

    return helmholtz_cg


@cache
def make_diagonal(n: int, dtype_name: str, axis_aligned: bool) -> Any:
    """Return the kernel of the diagonal of h1 K + h2 B, unassembled.

    kernel(elements, h1, h2, scale, volume, factors, mass, derivative, weights, out); out: [E, n, n, n]. It is called
    rarely and has plain loops.
    """
    return (_make_diagonal_of_boxes if axis_aligned else _make_diagonal_of_curved)(n, dtype_name)


def _make_diagonal_of_boxes(n: int, dtype_name: str) -> Any:
    @compiled(dtype_name, f"elements h h {GEOMETRY} w4")
    def diagonal_of_boxes(elements, h1, h2, scale, volume, factors, mass, derivative, weights, out):
        line = np.empty((n, n), out.dtype)
        _line_operator(derivative, weights, line)
        for e in elements:
            x, y, z = scale[e]
            for k in range(n):
                for j in range(n):
                    for i in range(n):
                        weight = volume[e] * weights[k] * weights[j] * weights[i]
                        stiffness = x * x * line[i, i] + y * y * line[j, j] + z * z * line[k, k]
                        out[e, k, j, i] = weight * (h1 * stiffness + h2)

    return diagonal_of_boxes


def _make_diagonal_of_curved(n: int, dtype_name: str) -> Any:
    @compiled(dtype_name, f"elements h h {GEOMETRY} w4")
    def diagonal(elements, h1, h2, scale, volume, factors, mass, derivative, weights, out):
        for e in elements:
            g = factors[e]
            for k in range(n):
                for j in range(n):
                    for i in range(n):
                        r, s, t = derivative[i, i], derivative[j, j], derivative[k, k]
                        total = 2.0 * (g[1, k, j, i] * r * s + g[2, k, j, i] * r * t + g[4, k, j, i] * s * t)
                        for l in range(n):
                            total += derivative[l, i] ** 2 * g[0, k, j, l]
                            total += derivative[l, j] ** 2 * g[3, k, l, i]
                            total += derivative[l, k] ** 2 * g[5, l, j, i]
                        out[e, k, j, i] = h1 * total + h2 * mass[e, k, j, i]

    return diagonal
