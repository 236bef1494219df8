"""Compiled parts of Schwarz multigrid on spectral elements; each is one pass over the elements, an element in cache.

All arrays except `neighbours`, `index` and `faces` have one dtype, float32 or float64, and are flat unless said
otherwise. n: points (z, y, x) of an element; m = n + 2 with one layer of each face neighbour; f = points of the
largest face. Faces have the order x_min, x_max, y_min, y_max, z_min, z_max; a face's points are (z, y), (z, x) or
(y, x). neighbours: int64 [E, 6], the local element across a face; -1 for none; -2 - s for one on another rank, with
slot s. mine [s, f]: what this rank contributes to the shared face of a slot; total [s, f]: the sum of what both ranks
contribute.
products: GENERATED or PLAIN, the code of the small matrix products (`tensor`).

Source: Lottes and Fischer, J. Sci. Comput. 24 (2005) 45, Sec. 3. Oracle: elements/multigrid/schwarz_reference.py.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import int64, types

from ridgeline.elements.even_odd import EVEN, ODD, even_odd_parts, even_odd_product, parts_size
from ridgeline.elements.tensor import GENERATED, along_x, along_y, along_z
from ridgeline.jit.kernel import kernel


def face_strides(nz: int, ny: int, nx: int) -> Any:
    """Return where the points of the faces of an element [nz, ny, nx] lie: (counts, strides, layer, last)."""
    counts = ((nz, ny),) * 2 + ((nz, nx),) * 2 + ((ny, nx),) * 2
    strides = ((ny * nx, nx),) * 2 + ((ny * nx, 1),) * 2 + ((nx, 1),) * 2
    layer = (1, 1, nx, nx, ny * nx, ny * nx)
    last = ((nx - 1),) * 2 + ((ny - 1) * nx,) * 2 + ((nz - 1) * ny * nx,) * 2
    return counts, strides, layer, last


def _tables(nz: int, ny: int, nx: int) -> Any:
    """Return the flat tuples that the kernels close over: outer and inner numbers of points, strides, places."""
    counts, strides, layer, last = face_strides(nz, ny, nx)
    _, wide, _, _ = face_strides(nz + 2, ny + 2, nx + 2)
    outer, inner = tuple(c[0] for c in counts), tuple(c[1] for c in counts)
    slow, fast = tuple(s[0] for s in strides), tuple(s[1] for s in strides)
    wide_slow, wide_fast = tuple(s[0] for s in wide), tuple(s[1] for s in wide)
    # One layer inside a face; for lower faces that is layer 1.
    inside = tuple(last[f] - layer[f] if f % 2 else layer[f] for f in range(6))
    # The same layer seen from the element across the face, where it is at the opposite face.
    across = tuple(inside[f ^ 1] for f in range(6))
    # Where the first point of a face of [nz, ny, nx] lies on the shell of [mz, my, mx].
    mzyx = (nz + 2, ny + 2, nx + 2)
    steps = (mzyx[1] * mzyx[2], mzyx[2], 1)
    shell = []
    for f in range(6):
        axis = 2 - f // 2
        start = sum(steps[a] for a in range(3) if a != axis)
        shell.append(start + (steps[axis] * (mzyx[axis] - 1) if f % 2 else 0))
    return outer, inner, slow, fast, wide_slow, wide_fast, inside, across, tuple(shell)


def _six(T: Any) -> Any:
    """Return the type of a level's matrices: one for each direction, and their transposes."""
    return types.UniTuple(T[:, ::1], 6)


@cache
def make_sweep(nz: int, ny: int, nx: int, products: int = GENERATED) -> tuple[Any, Any, Any, Any]:
    """Return (pack_layers, sweep, pack_ghosts, collect): the parts of one additive Schwarz sweep.

    pack_layers(r, faces, mine, total): pack the layers of r that extended elements of other ranks need.
    sweep(r, neighbours, mine, total, index, vectors, transposed, values, work, z, ghosts): for every element, gather
        r on it and on its neighbours' layers, and compute z_ext = S (1/(l_z + l_y + l_x)) S^T r_ext. Its own points
        go to z, its shell goes to ghosts [E, 6, f]. vectors: [d, k, k] of any of the directions, k = m of the
        direction, flat; index [E, 6]: where an element's matrices begin along x, y, z, and then its eigenvalues.
        12 m^4 flops an element.
    pack_ghosts(ghosts, faces, mine, total): pack the shells that other ranks need.
    collect(neighbours, ghosts, mine, total, z): add to z the solutions of the neighbours' extended elements in this
        element's layers.
    """
    mz, my, mx = nz + 2, ny + 2, nx + 2
    points, wide, rows = nz * ny * nx, mz * my * mx, mz * my
    plane = my * mx
    face = max(nz * ny, nz * nx, ny * nx)
    outer, inner, slow, fast, wide_slow, wide_fast, inside, across, shell = _tables(nz, ny, nx)

    @kernel(lambda T: (T[::1], int64[:, ::1], T[:, ::1], T[:, ::1]))
    def pack_layers(r, faces, mine, total):
        for s in range(faces.shape[0]):
            f = faces[s, 1]
            start = faces[s, 0] * points + inside[f]
            for a in range(outer[f]):
                for b in range(inner[f]):
                    value = r[start + a * slow[f] + b * fast[f]]
                    mine[s, a * inner[f] + b] = value
                    total[s, a * inner[f] + b] = value

    @kernel(lambda T: (T[::1], int64[:, ::1], T[:, ::1], T[:, ::1]))
    def pack_ghosts(ghosts, faces, mine, total):
        for s in range(faces.shape[0]):
            start = (faces[s, 0] * 6 + faces[s, 1]) * face
            for p in range(outer[faces[s, 1]] * inner[faces[s, 1]]):
                mine[s, p] = ghosts[start + p]
                total[s, p] = ghosts[start + p]

    @kernel(
        lambda T: (
            T[::1],
            int64[:, ::1],
            T[:, ::1],
            T[:, ::1],
            int64[:, ::1],
            *[T[::1]] * 3,
            T[:, ::1],
            T[::1],
            T[::1],
        ),
        error_model="numpy",
    )
    def sweep(r, neighbours, mine, total, index, vectors, transposed, values, work, z, ghosts):
        a, b = work[0], work[1]
        zero = a[0] * 0
        for e in range(neighbours.shape[0]):
            for p in range(wide):
                a[p] = zero
            for k in range(nz):
                for j in range(ny):
                    to = (k + 1) * plane + (j + 1) * mx + 1
                    source = e * points + (k * ny + j) * nx
                    for i in range(nx):
                        a[to + i] = r[source + i]
            for f in range(6):
                there = neighbours[e, f]
                if there >= 0:
                    source = there * points + across[f]
                    for p in range(outer[f]):
                        for q in range(inner[f]):
                            a[shell[f] + p * wide_slow[f] + q * wide_fast[f]] = r[
                                source + p * slow[f] + q * fast[f]
                            ]
                elif there < -1:
                    s = -2 - there
                    for p in range(outer[f]):
                        for q in range(inner[f]):
                            t = p * inner[f] + q
                            a[shell[f] + p * wide_slow[f] + q * wide_fast[f]] = total[s, t] - mine[s, t]
            x, y, t = index[e, 0], index[e, 1], index[e, 2]
            along_x(products, mx, mx, rows, False, b, 0, vectors[x:], a, 0)
            along_y(products, my, my, mz, mx, False, a, 0, transposed[y:], b, 0)
            along_z(products, mz, mz, plane, False, b, 0, transposed[t:], a, 0)
            l_x, l_y, l_z = values[index[e, 3] :], values[index[e, 4] :], values[index[e, 5] :]
            for k in range(mz):
                for j in range(my):
                    base = l_z[k] + l_y[j]
                    row = k * plane + j * mx
                    if base > zero:
                        for i in range(mx):
                            b[row + i] = b[row + i] / (base + l_x[i])
                    else:
                        for i in range(mx):
                            b[row + i] = b[row + i] / l_x[i] if l_x[i] > zero else zero
            along_z(products, mz, mz, plane, False, a, 0, vectors[t:], b, 0)
            along_y(products, my, my, mz, mx, False, b, 0, vectors[y:], a, 0)
            along_x(products, mx, mx, rows, False, a, 0, transposed[x:], b, 0)
            for k in range(nz):
                for j in range(ny):
                    source = (k + 1) * plane + (j + 1) * mx + 1
                    to = e * points + (k * ny + j) * nx
                    for i in range(nx):
                        z[to + i] = a[source + i]
            for f in range(6):
                to = (e * 6 + f) * face
                for p in range(outer[f]):
                    for q in range(inner[f]):
                        ghosts[to + p * inner[f] + q] = a[shell[f] + p * wide_slow[f] + q * wide_fast[f]]

    @kernel(lambda T: (int64[:, ::1], T[::1], T[:, ::1], T[:, ::1], T[::1]))
    def collect(neighbours, ghosts, mine, total, z):
        for e in range(neighbours.shape[0]):
            for f in range(6):
                there = neighbours[e, f]
                to = e * points + inside[f]
                if there >= 0:
                    source = (there * 6 + (f ^ 1)) * face
                    for p in range(outer[f]):
                        for q in range(inner[f]):
                            z[to + p * slow[f] + q * fast[f]] += ghosts[source + p * inner[f] + q]
                elif there < -1:
                    s = -2 - there
                    for p in range(outer[f]):
                        for q in range(inner[f]):
                            t = p * inner[f] + q
                            z[to + p * slow[f] + q * fast[f]] += total[s, t] - mine[s, t]

    return pack_layers, sweep, pack_ghosts, collect


@cache
def make_residual(nz: int, ny: int, nx: int, axis_aligned: bool, products: int = GENERATED) -> Any:
    """Return residual(r, weight, share, factors, cube, lines, z, work, left): z *= weight, left = share r - K_e z.

    An empty weight leaves z as it is. `left` [E, n^3] is unassembled: share = inverse multiplicity gives each copy
    its part of r. lines: the matrices M of the directions z, y, x, then the M^T. For axis-aligned elements
    M = D^T W D, factors [E, 3] as in `PolynomialLevel.diagonal_factors`, and cube [3, n^3] are the weights of the
    other two directions for r, s, t; 6 n^4 + 11 n^3 flops an element. For curved elements M = D and factors
    [E, 6, n^3]; 12 n^4 + 17 n^3 flops.
    """
    return (_make_residual_of_boxes if axis_aligned else _make_residual_of_curved)(nz, ny, nx, products)


def _make_residual_of_boxes(nz: int, ny: int, nx: int, products: int) -> Any:
    points, rows, plane = nz * ny * nx, nz * ny, ny * nx
    size_y, size_z = parts_size(ny, ny), parts_size(nz, nz)

    @kernel(lambda T: (*[T[::1]] * 3, *[T[:, ::1]] * 2, _six(T), T[::1], T[:, ::1], T[::1]))
    def aligned(r, weight, share, factors, cube, lines, z, work, left):
        u, a, b, c = work[0], work[1], work[2], work[3]
        parts_y = even_odd_parts(lines[1], np.empty(size_y, z.dtype))
        parts_z = even_odd_parts(lines[0], np.empty(size_z, z.dtype))
        for e in range(factors.shape[0]):
            start = e * points
            if weight.size:
                for p in range(points):
                    z[start + p] *= weight[start + p]
            for p in range(points):
                u[p] = z[start + p]
            along_x(products, nx, nx, rows, False, a, 0, lines[2], u, 0)
            even_odd_product(products, ny, nx, ny, nz, False, EVEN, b, 0, parts_y, 0, u, 0)
            even_odd_product(products, nz, plane, nz, 1, False, EVEN, c, 0, parts_z, 0, u, 0)
            f, g, h = factors[e, 0], factors[e, 1], factors[e, 2]
            for p in range(points):
                force = f * cube[0, p] * a[p] + g * cube[1, p] * b[p] + h * cube[2, p] * c[p]
                left[start + p] = share[start + p] * r[start + p] - force

    return aligned


def _make_residual_of_curved(nz: int, ny: int, nx: int, products: int) -> Any:
    points, rows, plane = nz * ny * nx, nz * ny, ny * nx
    size_y, size_z = parts_size(ny, ny), parts_size(nz, nz)

    @kernel(lambda T: (*[T[::1]] * 3, T[:, :, ::1], T[:, ::1], _six(T), T[::1], T[:, ::1], T[::1]))
    def mapped(r, weight, share, factors, cube, lines, z, work, left):
        u, a, b, c = work[0], work[1], work[2], work[3]
        parts_y = even_odd_parts(lines[1], np.empty(size_y, z.dtype))
        parts_z = even_odd_parts(lines[0], np.empty(size_z, z.dtype))
        back_y = even_odd_parts(lines[4], np.empty(size_y, z.dtype))
        back_z = even_odd_parts(lines[3], np.empty(size_z, z.dtype))
        for e in range(factors.shape[0]):
            start = e * points
            if weight.size:
                for p in range(points):
                    z[start + p] *= weight[start + p]
            for p in range(points):
                u[p] = z[start + p]
            along_x(products, nx, nx, rows, False, a, 0, lines[5], u, 0)
            even_odd_product(products, ny, nx, ny, nz, False, ODD, b, 0, parts_y, 0, u, 0)
            even_odd_product(products, nz, plane, nz, 1, False, ODD, c, 0, parts_z, 0, u, 0)
            g = factors[e]
            for p in range(points):
                r_, s_, t_ = a[p], b[p], c[p]
                a[p] = g[0, p] * r_ + g[1, p] * s_ + g[2, p] * t_
                b[p] = g[1, p] * r_ + g[3, p] * s_ + g[4, p] * t_
                c[p] = g[2, p] * r_ + g[4, p] * s_ + g[5, p] * t_
            along_x(products, nx, nx, rows, False, u, 0, lines[2], a, 0)
            even_odd_product(products, ny, nx, ny, nz, True, ODD, u, 0, back_y, 0, b, 0)
            even_odd_product(products, nz, plane, nz, 1, True, ODD, u, 0, back_z, 0, c, 0)
            for p in range(points):
                left[start + p] = share[start + p] * r[start + p] - u[p]

    return mapped


@cache
def make_transfer(
    nz: int, ny: int, nx: int, cz: int, cy: int, cx: int, products: int = GENERATED
) -> tuple[Any, Any]:
    """Return (restrict, prolong) between n = (nz, ny, nx) and c = (cz, cy, cx) points an element.

    restrict(left, lines, work, below): below = J^T left, unassembled. prolong(below, lines, work, z): z += J below.
    lines: (J_z, J_y, J_x, J_z^T, J_y^T, J_x^T), J [n, c].
    """
    points, few = nz * ny * nx, cz * cy * cx
    fine_plane, few_rows = ny * nx, cz * cy
    size_y, size_z = parts_size(ny, cy), parts_size(nz, cz)

    @kernel(lambda T: (T[::1], _six(T), T[:, ::1], T[::1]))
    def restrict(left, lines, work, below):
        a, b = work[0], work[1]
        parts_y = even_odd_parts(lines[4], np.empty(size_y, below.dtype))
        parts_z = even_odd_parts(lines[3], np.empty(size_z, below.dtype))
        for e in range(left.size // points):
            even_odd_product(products, cz, fine_plane, nz, 1, False, EVEN, a, 0, parts_z, 0, left, e * points)
            even_odd_product(products, cy, nx, ny, cz, False, EVEN, b, 0, parts_y, 0, a, 0)
            along_x(products, cx, nx, few_rows, False, below, e * few, lines[2], b, 0)

    @kernel(lambda T: (T[::1], _six(T), T[:, ::1], T[::1]))
    def prolong(below, lines, work, z):
        # The whole matrices: their first and last rows are unit vectors, so that copies of points stay equal.
        a, b = work[0], work[1]
        for e in range(z.size // points):
            along_x(products, nx, cx, few_rows, False, a, 0, lines[5], below, e * few)
            along_y(products, ny, cy, cz, nx, False, b, 0, lines[1], a, 0)
            along_z(products, nz, cz, fine_plane, True, z, e * points, lines[0], b, 0)

    return restrict, prolong
