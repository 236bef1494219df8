"""Compiled passes of cell-centred multigrid: smoothing fused with restriction, and prolongation fused with smoothing.

The equation of a cell, divided by its volume, is

    (a + sum_axes (lo f_lo + up f_up)) x - sum_axes (lo f_lo x_lo + up f_up x_up) = b

with the values x_lo, x_up of the neighbours, beta at the faces f, and factors lo = 1 / (width * distance of centres)
of each axis. Where beta is 1 everywhere, the faces are not read. Cells beyond a side hold 0, the value of a Dirichlet
side, which lies half a width away; lo or up is 0 at a Neumann side.

A smoothing is `n_steps` steps of Chebyshev's iteration for the Jacobi-preconditioned equation: step s takes
x + taus[s] (T^-1 (b + neighbours) - x), where T is the diagonal (by points) or the tridiagonal part along z (by
lines). A step uses values of the step before alone, so that the result depends neither on the order of cells nor on
the ranks.

All steps go over the grid in one pass over memory: step s follows one plane behind step s - 1, which keeps its last
three planes in `ring`; planes are of z for points, of y for lines. The last step writes into x. It is two planes
behind the first one's reads only if there are two steps, so n_steps >= 2. The residual of a plane follows the last
step and goes straight into the coarser right-hand side; the correction of a plane comes straight before the first
step.

Ghost layers are recomputed instead of exchanged between steps: step s also computes `layers[s]` layers where there is
a neighbour.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, types

from ridgeline.blocks.multigrid.cell_rows import (
    DIAGONAL,
    LANES,
    LO,
    UP,
    RowsAround,
    add_residual,
    blend_rows,
    check_row,
    eliminate_row,
    equation_type,
    relax_row,
    row_of_cells,
    start_row,
    substitute_row,
)
from ridgeline.jit.kernel import kernel, subroutine


class Smoothing(NamedTuple):
    """The steps of a pass and where they are done.

    taus : of the steps
    ring : [n - 1, 4, rows, nx+2g], zero where it is never written; the last plane never is
    ghost, layers : layers of ghosts, and those that the last step computes
    has_neighbour : [3, 2], whether there are cells beyond each end of each axis that must be computed
    wraps : whether rows are whole rings, whose ghosts next to the ends are copied
    """

    taus: Any
    ring: Any
    ghost: Any
    layers: Any
    has_neighbour: Any
    wraps: Any


class Prolongation(NamedTuple):
    """The interpolation of the correction, if `active`.

    correction : coarser values with ghosts
    near, other, weights : for each axis and cell the two coarser cells and the weight of the other one
    layers : layers of ghosts to correct
    first_pair, pairs : the first cell of the aggregates of two cells along x that follow each other, and their number
    """

    active: Any
    correction: Any
    near: Any
    other: Any
    weights: Any
    layers: Any
    first_pair: Any
    pairs: Any


class Restriction(NamedTuple):
    """The means of residuals over aggregates, if `active`.

    restricted : coarser right-hand side, all set
    maps, shares : for each axis and cell its aggregate, and the cell's share of it
    ranges : [3, 2], the first and last cells that are restricted
    pairs : aggregates of two cells along x; those after them have one
    """

    active: Any
    restricted: Any
    maps: Any
    shares: Any
    ranges: Any
    pairs: Any


def _pass_types(T):
    """Types of the arguments of both passes."""
    cube, table = T[:, :, ::1], T[:, ::1]
    places = int64[:, ::1]
    return (
        *(cube, cube, int64, equation_type(T)),
        types.NamedTuple((T[::1], T[:, :, :, ::1], int64, int64, places, int64), Smoothing),
        types.NamedTuple((int64, cube, places, places, table, int64, int64, int64), Prolongation),
        types.NamedTuple((int64, cube, places, table, places, int64), Restriction),
    )


@subroutine(nogil=True)
def _part(smoothing, axis, more, n):
    """Return the first and last cell of an axis of n cells with `more` layers where there is a neighbour."""
    has_neighbour, ghost = smoothing.has_neighbour, smoothing.ghost
    return ghost - has_neighbour[axis, 0] * more, ghost + n + has_neighbour[axis, 1] * more


@subroutine(nogil=True, inline="always")
def _around(place, plane, pitch):
    """Return the rows around that at a place of a field."""
    return RowsAround(place - plane, place + plane, place - pitch, place + pitch, place)


@subroutine(nogil=True, inline="always")
def _wrap_row(values, first, count):
    """Set the ghosts next to the ends of a row from its other end."""
    values[first - 1] = values[first + count - 1]
    values[first + count] = values[first]


@subroutine(nogil=True)
def prolong_rows(prolongation, wraps, planes, rows, columns, sums, out):
    """Add the interpolated coarser values to rows of out. sums: memory of a row"""
    coarse = prolongation.correction
    plane, pitch = coarse.shape[1] * coarse.shape[2], coarse.shape[2]
    near, other, weights = prolongation.near, prolongation.other, prolongation.weights
    a, b, w = near[2], other[2], weights[2]
    one = sums.dtype.type(1)
    first, n_pairs = np.uint64(prolongation.first_pair), np.uint64(prolongation.pairs)
    place, unit = np.uint64(near[2, prolongation.first_pair]), np.uint64(1)
    start, end = np.uint64(columns[0]), np.uint64(columns[1])
    for k in range(np.uint64(planes[0]), np.uint64(planes[1])):
        wz, nz, oz = weights[0, k], near[0, k] * plane, other[0, k] * plane
        for j in range(np.uint64(rows[0]), np.uint64(rows[1])):
            wy, ny, oy = weights[1, j], near[1, j] * pitch, other[1, j] * pitch
            blend_rows(
                pitch, coarse, nz + ny, nz + oy, oz + ny, oz + oy, (one - wz) * (one - wy), (one - wz) * wy,
                wz * (one - wy), wz * wy, sums,
            )  # fmt: skip
            # A pair lies between its own coarser cell and those on both sides; near a Neumann side the weight is 0.
            for pair in range(n_pairs):
                i, middle = first + pair + pair, sums[place + pair]
                out[k, j, i] += (one - w[i]) * middle + w[i] * sums[place + pair - unit]
                out[k, j, i + unit] += (one - w[i + unit]) * middle + w[i + unit] * sums[place + pair + unit]
            for i in range(start, first):
                out[k, j, i] += (one - w[i]) * sums[np.uint64(a[i])] + w[i] * sums[np.uint64(b[i])]
            for i in range(first + n_pairs + n_pairs, end):
                out[k, j, i] += (one - w[i]) * sums[np.uint64(a[i])] + w[i] * sums[np.uint64(b[i])]
            if wraps:
                out[k, j, start - unit] = out[k, j, end - unit]
                out[k, j, end] = out[k, j, start]


@subroutine(nogil=True)
def restrict_rows(restriction, planes, rows, x, b, equation, sums):
    """Add the shares of the residuals of rows to the means over aggregates. sums: zeros of a row, and so on return

    planes, rows : ranges of k and j; one of them is a single one
    """
    maps, shares, out = restriction.maps, restriction.shares, restriction.restricted
    share = shares[2]
    first, last = restriction.ranges[2, 0], restriction.ranges[2, 1]
    pitch, plane = x.shape[2], x.shape[1] * x.shape[2]
    start, end, n_pairs = np.uint64(first), np.uint64(last), np.uint64(restriction.pairs)
    place, unit = np.uint64(maps[2, first]), np.uint64(1)
    for k in range(planes[0], planes[1]):
        for j in range(rows[0], rows[1]):
            around = _around((k * x.shape[1] + j) * x.shape[2] + first, plane, pitch)
            row = row_of_cells(equation, x.shape, k, j, first)
            add_residual(last - first, equation, row, b, x, around, shares[0, k] * shares[1, j], sums)
            if j + 1 < rows[1] and maps[1, j + 1] == maps[1, j]:
                continue
            # All rows of a coarser row in this plane are summed.
            coarse_k, coarse_j = np.uint64(maps[0, k]), np.uint64(maps[1, j])
            for pair in range(n_pairs):
                i = start + pair + pair
                out[coarse_k, coarse_j, place + pair] += share[i] * sums[i] + share[i + unit] * sums[i + unit]
            for i in range(start + n_pairs + n_pairs, end):
                out[coarse_k, coarse_j, place + i - start - n_pairs] += share[i] * sums[i]
            for i in range(start, end):
                sums[i] = 0


@subroutine(nogil=True)
def _relax_plane(
    k, rows, columns, x, b, source, around, tau, starts, equation, wraps, steps, target, place
):  # fmt: skip
    """Do a step of points in plane k, from `source` into `target`; around, place: of row 0 and column 0 of planes."""
    start, count = columns[0], columns[1] - columns[0]
    pitch, known = x.shape[2], x.dtype.type(np.nan)
    along = equation.factors[2, DIAGONAL]
    for j in range(rows[0], rows[1]):
        row = row_of_cells(equation, x.shape, k, j, start)
        if equation.variable == 0 and row.diagonal != known:
            known = row.diagonal
            for i in range(start, columns[1]):
                steps[i] = tau / known if equation.uniform else tau / (known + along[i])
        at = j * pitch + start
        if starts:
            start_row(count, equation, row, b, steps, tau, target, place + at)
        else:
            here = around.here + at
            rows_around = RowsAround(around.below + at, around.above + at, here - pitch, here + pitch, here)
            relax_row(count, equation, row, b, source, rows_around, steps, tau, target, place + at)
        if wraps:
            _wrap_row(target, place + at, count)


@kernel(_pass_types, nogil=True, error_model="numpy")
def smooth_points(x, b, from_zero, equation, smoothing, prolongation, restriction):
    """Smooth by points in one pass: [x += P correction,] n steps, [restricted = R (b - A x)].

    Parameters
    ----------
    x, b : [nz+2g, ny+2g, nx+2g]; cells beyond a side that is not periodic hold 0
    from_zero : x is taken as 0 and not read
    equation, smoothing, prolongation, restriction : `CellEquation`, and the tuples of this file

    Notes
    -----
    Reads x and b and writes x once, as far as three planes of every step fit into the caches.
    """
    taus, ring, ghost = smoothing.taus, smoothing.ring, smoothing.ghost
    n_steps = taus.shape[0]
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    plane, pitch = x.shape[1] * x.shape[2], x.shape[2]
    sums, steps = np.zeros(max(pitch, prolongation.correction.shape[2]), x.dtype), np.empty(pitch, x.dtype)
    residuals = np.zeros(pitch, x.dtype)
    flat, flat_ring = x.reshape(-1), ring.reshape(-1)
    if restriction.active:
        restriction.restricted[:, :, :] = 0
    behind = 1 if prolongation.active else 0  # the first step's distance from the correction
    first, last = _part(smoothing, 0, max(smoothing.layers + n_steps - 1, prolongation.layers), nz)
    for lead in range(first, last + behind + n_steps + 1):
        low, high = _part(smoothing, 0, prolongation.layers, nz)
        if prolongation.active and low <= lead < high:
            prolong_rows(
                prolongation, smoothing.wraps, (lead, lead + 1), _part(smoothing, 1, prolongation.layers, ny),
                _part(smoothing, 2, prolongation.layers, nx), sums, x,
            )  # fmt: skip
        for step in range(n_steps):
            k = lead - behind - step
            more = smoothing.layers + n_steps - 1 - step
            low, high = _part(smoothing, 0, more, nz)
            if k < low or k >= high:
                continue
            starts = step == 0 and from_zero != 0
            source, around = flat, _around(k * plane, plane, pitch)
            if step > 0:
                below, above = (k - 1) % 3, (k + 1) % 3
                if k == ghost and not smoothing.has_neighbour[0, 0]:
                    below = 3
                if k == ghost + nz - 1 and not smoothing.has_neighbour[0, 1]:
                    above = 3
                at, here = 4 * (step - 1), (4 * (step - 1) + k % 3) * plane
                source = flat_ring
                around = RowsAround((at + below) * plane, (at + above) * plane, here, here, here)
            target, place = flat, k * plane
            if step < n_steps - 1:
                target, place = flat_ring, (4 * step + k % 3) * plane
            rows, columns = _part(smoothing, 1, more, ny), _part(smoothing, 2, more, nx)
            _relax_plane(
                k, rows, columns, x, b, source, around, taus[step], starts, equation, smoothing.wraps, steps, target,
                place,
            )  # fmt: skip
        k = lead - behind - n_steps
        if restriction.active and restriction.ranges[0, 0] <= k < restriction.ranges[0, 1]:
            rows = (restriction.ranges[1, 0], restriction.ranges[1, 1])
            restrict_rows(restriction, (k, k + 1), rows, x, b, equation, residuals)


@subroutine(nogil=True)
def _factorise_lines(equation, value, first, last, inverse, upper):
    """Set the elimination along z of a slab with constant coefficients, whose diagonal along y is `value`."""
    factors = equation.factors
    one, columns = inverse.dtype.type(1), inverse.shape[1]
    along = factors[2, DIAGONAL]
    for k in range(first, last):
        below = factors[0, LO, k] if k > first else inverse.dtype.type(0)
        above, diagonal = factors[0, UP, k], equation.alpha + (factors[0, DIAGONAL, k] + value)
        for i in range(columns):
            inverse[k, i] = one / (diagonal + along[i] - below * upper[k - 1, i])
            upper[k, i] = above * inverse[k, i]


@kernel(_pass_types, nogil=True, error_model="numpy")
def smooth_lines(x, b, from_zero, equation, smoothing, prolongation, restriction):
    """Smooth by lines along z in one pass, as `smooth_points`; z is neither cut nor periodic.

    smoothing.ring: [n - 1, 4, nz+2g, nx+2g]; planes of y instead of z
    """
    taus, ring, ghost = smoothing.taus, smoothing.ring, smoothing.ghost
    n_steps = taus.shape[0]
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    plane, pitch = x.shape[1] * x.shape[2], x.shape[2]
    slab = (x.shape[0], pitch)
    sums, inverse, upper = np.zeros(slab, x.dtype), np.zeros(slab, x.dtype), np.zeros(slab, x.dtype)
    wide, residuals = (
        np.zeros(max(pitch, prolongation.correction.shape[2]), x.dtype),
        np.zeros(pitch, x.dtype),
    )
    flat, flat_ring, size = x.reshape(-1), ring.reshape(-1), x.shape[0] * pitch
    known = x.dtype.type(np.nan)
    if restriction.active:
        restriction.restricted[:, :, :] = 0
    behind = 1 if prolongation.active else 0
    first, last = _part(smoothing, 1, max(smoothing.layers + n_steps - 1, prolongation.layers), ny)
    z_first, z_last = ghost, ghost + nz
    for lead in range(first, last + behind + n_steps + 1):
        low, high = _part(smoothing, 1, prolongation.layers, ny)
        if prolongation.active and low <= lead < high:
            prolong_rows(
                prolongation, smoothing.wraps, (z_first, z_last), (lead, lead + 1),
                _part(smoothing, 2, prolongation.layers, nx), wide, x,
            )  # fmt: skip
        for step in range(n_steps):
            j = lead - behind - step
            more = smoothing.layers + n_steps - 1 - step
            low, high = _part(smoothing, 1, more, ny)
            if j < low or j >= high:
                continue
            start, end = _part(smoothing, 2, more, nx)
            if equation.variable == 0 and equation.factors[1, DIAGONAL, j] != known:
                known = equation.factors[1, DIAGONAL, j]
                _factorise_lines(equation, known, z_first, z_last, inverse, upper)
            # The step before: rows of y in x, or planes of y in the ring.
            source, origin, before, after = flat, j * pitch, (j - 1) * pitch, (j + 1) * pitch
            source_pitch = plane
            if step > 0:
                slot, slot_before, slot_after = j % 3, (j - 1) % 3, (j + 1) % 3
                if j == ghost and not smoothing.has_neighbour[1, 0]:
                    slot_before = 3
                if j == ghost + ny - 1 and not smoothing.has_neighbour[1, 1]:
                    slot_after = 3
                at = 4 * (step - 1)
                source, source_pitch = flat_ring, pitch
                origin, before, after = (
                    (at + slot) * size,
                    (at + slot_before) * size,
                    (at + slot_after) * size,
                )
            starts = 1 if step == 0 and from_zero != 0 else 0
            for k in range(z_first, z_last):
                row, at = row_of_cells(equation, x.shape, k, j, start), k * source_pitch + start
                around = RowsAround(at, at, before + at, after + at, origin + at)
                below = row.lz if k > z_first else x.dtype.type(0)
                eliminate_row(
                    end - start, equation, row, b, source, around, starts, below, inverse, upper, sums,
                    k * pitch + start, pitch,
                )  # fmt: skip
            target, place, target_pitch = flat, j * pitch, plane
            if step < n_steps - 1:
                target, place, target_pitch = flat_ring, (4 * step + j % 3) * size, pitch
            for k in range(z_last - 1, z_first - 1, -1):
                substitute_row(
                    end - start, upper, sums, k * pitch + start, pitch, taus[step], starts, source,
                    origin + k * source_pitch + start, target, place + k * target_pitch + start,
                )  # fmt: skip
                if smoothing.wraps:
                    _wrap_row(target, place + k * target_pitch + start, end - start)
        j = lead - behind - n_steps
        if restriction.active and restriction.ranges[1, 0] <= j < restriction.ranges[1, 1]:
            restrict_rows(restriction, (z_first, z_last), (j, j + 1), x, b, equation, residuals)


@kernel(
    lambda T: (T[:, :, ::1], T[:, :, ::1], equation_type(T), int64, int64, T[:, :, ::1], T[::1]),
    nogil=True,
    error_model="numpy",
)
def cell_residual(x, b, equation, ghost, keeps, out, out_largest):
    """Set out = b - A x of the owned cells if `keeps`, and out_largest[0] = max |b - A x|, NaN if one is NaN.

    x, b : [nz+2g, ny+2g, nx+2g], the ghosts of x filled
    out : [nz, ny, nx], or any array if it is not kept
    """
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    largest, sums = np.zeros(LANES, x.dtype), np.zeros(x.shape[2], x.dtype)
    pitch, plane, one = x.shape[2], x.shape[1] * x.shape[2], x.dtype.type(1)
    for k in range(ghost, ghost + nz):
        for j in range(ghost, ghost + ny):
            around = _around((k * x.shape[1] + j) * pitch + ghost, plane, pitch)
            row = row_of_cells(equation, x.shape, k, j, ghost)
            check_row(nx, equation, row, b, x, around, largest)
            if keeps:
                sums[:] = 0
                add_residual(nx, equation, row, b, x, around, one, sums)
                for i in range(nx):
                    out[k - ghost, j - ghost, i] = sums[ghost + i]
    result = largest[0]
    for i in range(1, LANES):
        if largest[i] > result or np.isnan(largest[i]):
            result = largest[i]
    out_largest[0] = result


@kernel(lambda T: (T[:, ::1], T[::1], T[::1]), nogil=True)
def multiply_dense(matrix, values, out):
    """Set out = matrix values, each sum in the order of the columns."""
    for i in range(matrix.shape[0]):
        total = values.dtype.type(0)
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * values[j]
        out[i] = total
