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

import numpy as np
from numba import int64

from ridgeline.blocks.multigrid.cell_rows import (
    DIAGONAL,
    LO,
    ONE,
    UP,
    diagonal_of_row,
    prolong_rows,
    relax_plane,
    residual_of_rows,
    restrict_rows,
    solve_lines,
    sum_of_row,
)
from ridgeline.jit.kernel import kernel, subroutine


def _pass_types(T):
    """Types of the arguments of both passes."""
    cube, plane = T[:, :, ::1], T[:, ::1]
    return (
        *(cube, cube, int64, int64, T, cube, cube, cube, cube, cube),
        *(T[::1], T[:, :, :, ::1], int64, int64[:, ::1], int64),
        *(int64, cube, int64[:, ::1], int64[:, ::1], plane, int64),
        *(int64, cube, int64[:, ::1], plane, int64[:, ::1], int64),
    )


@subroutine(nogil=True)
def _part(axis, more, ghost, n, has_neighbour):
    """Return the first and last cell of an axis with `more` layers where there is a neighbour."""
    return ghost - has_neighbour[axis, 0] * more, ghost + n + has_neighbour[axis, 1] * more


@kernel(_pass_types, nogil=True, error_model="numpy")
def smooth_points(
    x,
    b,
    from_zero,
    variable,
    alpha,
    a,
    fz,
    fy,
    fx,
    factors,
    taus,
    ring,
    ghost,
    has_neighbour,
    layers,
    prolongs,
    correction,
    near,
    other,
    prolongation,
    correction_layers,
    restricts,
    restricted,
    maps,
    restriction,
    ranges,
    pairs,
):
    """Smooth by points in one pass: [x += P correction,] n steps, [restricted = R (b - A x)].

    Parameters
    ----------
    x, b : [nz+2g, ny+2g, nx+2g]; cells beyond a side that is not periodic hold 0
    from_zero : x is taken as 0 and not read
    variable, alpha, a, fz, fy, fx : the coefficients: alpha, or the field a and beta at lower faces
    factors : [3, 3, n]; for each axis lo, up and their sum, by local cells with ghosts
    taus : of the steps
    ring : [n - 1, 4, ny+2g, nx+2g], zero where it is never written; the last plane never is
    ghost, has_neighbour : layers; [3, 2] whether there are cells beyond each end of each axis
    layers : ghost layers of the last step
    prolongs, correction, near, other, prolongation, correction_layers : coarser values with ghosts; for each axis and
        cell the two coarser cells and the weight of the other one; layers to correct
    restricts, restricted, maps, restriction, ranges : coarser right-hand side, all set; for each axis and cell its
        aggregate and the cell's share of it; [3, 2] the first and last cells that are restricted
    pairs : aggregates of two cells along x; those after them have one

    Notes
    -----
    Reads x and b and writes x once, as far as three planes of every step fit into the caches.
    """
    n_steps = taus.shape[0]
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    sums, diagonal = np.empty(max(x.shape[2], correction.shape[2]), x.dtype), np.empty(x.shape[2], x.dtype)
    residual = np.empty((x.shape[1], x.shape[2]), x.dtype)
    if restricts:
        restricted[:, :, :] = 0
    behind = 1 if prolongs else 0  # the first step's distance from the correction
    first, last = _part(0, max(layers + n_steps - 1, correction_layers), ghost, nz, has_neighbour)
    for lead in range(first, last + behind + n_steps + 1):
        low, high = _part(0, correction_layers, ghost, nz, has_neighbour)
        if prolongs and low <= lead < high:
            prolong_rows(
                *(correction, (lead, lead + 1), _part(1, correction_layers, ghost, ny, has_neighbour)),
                *(_part(2, correction_layers, ghost, nx, has_neighbour), near, other, prolongation),
                *(ranges[2, 0], pairs, sums, x),
            )
        for step in range(n_steps):
            k = lead - behind - step
            more = layers + n_steps - 1 - step
            low, high = _part(0, more, ghost, nz, has_neighbour)
            if k < low or k >= high:
                continue
            starts = step == 0 and from_zero != 0
            source, below, here, above = x, k - 1, k, k + 1
            if step > 0:
                source, below, here, above = ring[step - 1], (k - 1) % 3, k % 3, (k + 1) % 3
                if k == ghost and not has_neighbour[0, 0]:
                    below = 3
                if k == ghost + nz - 1 and not has_neighbour[0, 1]:
                    above = 3
            target, place = x, k
            if step < n_steps - 1:
                target, place = ring[step], k % 3
            relax_plane(
                *(
                    np.uint64(k),
                    _part(1, more, ghost, ny, has_neighbour),
                    _part(2, more, ghost, nx, has_neighbour),
                ),
                *(b, source, np.uint64(below), np.uint64(here), np.uint64(above), taus[step]),
                *(starts, variable, alpha, a, fz, fy, fx, factors, sums, diagonal),
                *(target, np.uint64(place)),
            )
        k = lead - behind - n_steps
        if restricts and ranges[0, 0] <= k < ranges[0, 1]:
            rows, columns = (ranges[1, 0], ranges[1, 1]), (ranges[2, 0], ranges[2, 1])
            residual_of_rows(
                *((k, k + 1), rows, columns, b, x, variable, alpha, a, fz, fy, fx, factors),
                *(sums, diagonal, residual),
            )
            restrict_rows(residual, (k, k + 1), rows, columns, maps, restriction, pairs, restricted)


@kernel(_pass_types, nogil=True, error_model="numpy")
def smooth_lines(
    x,
    b,
    from_zero,
    variable,
    alpha,
    a,
    fz,
    fy,
    fx,
    factors,
    taus,
    ring,
    ghost,
    has_neighbour,
    layers,
    prolongs,
    correction,
    near,
    other,
    prolongation,
    correction_layers,
    restricts,
    restricted,
    maps,
    restriction,
    ranges,
    pairs,
):
    """Smooth by lines along z in one pass, as `smooth_points`; z is neither cut nor periodic.

    ring: [n - 1, 4, nz+2g, nx+2g]; planes of y instead of z
    """
    n_steps = taus.shape[0]
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    slab = (x.shape[0], x.shape[2])
    sums, diagonal, upper = np.zeros(slab, x.dtype), np.ones(slab, x.dtype), np.zeros(slab, x.dtype)
    wide = np.empty(max(x.shape[2], correction.shape[2]), x.dtype)
    residual = np.empty((x.shape[0], x.shape[2]), x.dtype)
    along, lo, up = factors[2, DIAGONAL], factors[2, LO], factors[2, UP]
    if restricts:
        restricted[:, :, :] = 0
    behind = 1 if prolongs else 0
    first, last = _part(1, max(layers + n_steps - 1, correction_layers), ghost, ny, has_neighbour)
    z_first, z_last = np.uint64(ghost), np.uint64(ghost + nz)
    for lead in range(first, last + behind + n_steps + 1):
        low, high = _part(1, correction_layers, ghost, ny, has_neighbour)
        if prolongs and low <= lead < high:
            prolong_rows(
                *(correction, (ghost, ghost + nz), (lead, lead + 1)),
                *(_part(2, correction_layers, ghost, nx, has_neighbour), near, other, prolongation),
                *(ranges[2, 0], pairs, wide, x),
            )
        for step in range(n_steps):
            j = lead - behind - step
            more = layers + n_steps - 1 - step
            low, high = _part(1, more, ghost, ny, has_neighbour)
            if j < low or j >= high:
                continue
            first_column, last_column = _part(2, more, ghost, nx, has_neighbour)
            start, end = np.uint64(first_column), np.uint64(last_column)
            # The step before: rows of y in x, or planes of y in the ring.
            source = ring[max(step - 1, 0)]
            below, here, above = np.uint64((j - 1) % 3), np.uint64(j % 3), np.uint64((j + 1) % 3)
            if j == ghost and not has_neighbour[1, 0]:
                below = np.uint64(3)
            if j == ghost + ny - 1 and not has_neighbour[1, 1]:
                above = np.uint64(3)
            row = np.uint64(j)
            ly, uy = factors[1, LO, row], factors[1, UP, row]
            starts = step == 0 and from_zero != 0
            for k in range(z_first, z_last):
                if variable:
                    diagonal_of_row(k, row, start, end, a, fz, fy, fx, factors, diagonal[k])
                else:
                    value = alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, row])
                    for i in range(start, end):
                        diagonal[k, i] = value + along[i]
                if starts:
                    for i in range(start, end):
                        sums[k, i] = b[k, row, i]
                elif step == 0 and variable:
                    sum_of_row(k, row, start, end, b, x, k, k, k, False, fz, fy, fx, factors, sums[k])
                elif step == 0:
                    for i in range(start, end):
                        total = b[k, row, i] + (ly * x[k, row - ONE, i] + uy * x[k, row + ONE, i])
                        sums[k, i] = total + (lo[i] * x[k, row, i - ONE] + up[i] * x[k, row, i + ONE])
                elif variable:
                    for i in range(start, end):
                        total = b[k, row, i] + (ly * fy[k, row, i]) * source[below, k, i]
                        sums[k, i] = total
                    for i in range(start, end):
                        sums[k, i] += (uy * fy[k, row + ONE, i]) * source[above, k, i]
                    for i in range(start, end):
                        sums[k, i] += (lo[i] * fx[k, row, i]) * source[here, k, i - ONE] + (
                            up[i] * fx[k, row, i + ONE]
                        ) * source[here, k, i + ONE]
                else:
                    for i in range(start, end):
                        total = b[k, row, i] + (ly * source[below, k, i] + uy * source[above, k, i])
                        sums[k, i] = total + (
                            lo[i] * source[here, k, i - ONE] + up[i] * source[here, k, i + ONE]
                        )
            solve_lines(sums, diagonal, upper, variable, row, fz, factors, z_first, z_last, start, end)
            tau = taus[step]
            for k in range(z_first, z_last):
                if starts:
                    for i in range(start, end):
                        sums[k, i] = tau * sums[k, i]
                elif step == 0:
                    for i in range(start, end):
                        sums[k, i] = x[k, row, i] + tau * (sums[k, i] - x[k, row, i])
                else:
                    for i in range(start, end):
                        sums[k, i] = source[here, k, i] + tau * (sums[k, i] - source[here, k, i])
                if step == n_steps - 1:
                    for i in range(start, end):
                        x[k, row, i] = sums[k, i]
                else:
                    for i in range(start, end):
                        ring[step, here, k, i] = sums[k, i]
        j = lead - behind - n_steps
        if restricts and ranges[1, 0] <= j < ranges[1, 1]:
            planes, columns = (ranges[0, 0], ranges[0, 1]), (ranges[2, 0], ranges[2, 1])
            residual_of_rows(
                *(planes, (j, j + 1), columns, b, x, variable, alpha, a, fz, fy, fx, factors),
                *(sums[0], diagonal[0], residual),
            )
            restrict_rows(residual, planes, (j, j + 1), columns, maps, restriction, pairs, restricted)


@kernel(
    lambda T: (
        *(T[:, :, ::1], T[:, :, ::1], int64, T, *[T[:, :, ::1]] * 4, T[:, :, ::1]),
        *(int64, int64, T[:, :, ::1], T[::1]),
    ),
    nogil=True,
    error_model="numpy",
)
def cell_residual(x, b, variable, alpha, a, fz, fy, fx, factors, ghost, keeps, out, out_largest):
    """Set out = b - A x of the owned cells if `keeps`, and out_largest[0] = max |b - A x|, NaN if one is NaN.

    x, b : [nz+2g, ny+2g, nx+2g], the ghosts of x filled
    out : [nz, ny, nx], or any array if it is not kept
    """
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    sums, diagonal = np.empty(x.shape[2], x.dtype), np.empty(x.shape[2], x.dtype)
    residual = np.zeros((x.shape[1], x.shape[2]), x.dtype)
    largest, bad = np.zeros(x.shape[2], x.dtype), np.zeros(x.shape[2], x.dtype)
    layers, start, end = np.uint64(ghost), np.uint64(ghost), np.uint64(ghost + nx)
    for k in range(np.uint64(ghost), np.uint64(ghost + nz)):
        residual_of_rows(
            *((k, k + ONE), (ghost, ghost + ny), (ghost, ghost + nx), b, x, variable, alpha, a, fz, fy, fx),
            *(factors, sums, diagonal, residual),
        )
        for j in range(np.uint64(ny)):
            for i in range(start, end):
                size = abs(residual[j, i])
                largest[i] = size if size > largest[i] else largest[i]
                bad[i] += residual[j, i] - residual[j, i]
            if keeps:
                for i in range(start, end):
                    out[k - layers, j, i - layers] = residual[j, i]
    result = largest.max()
    if np.isnan(bad.sum()):
        result = bad.sum()
    out_largest[0] = result


@kernel(lambda T: (T[:, ::1], T[::1], T[::1]), nogil=True)
def multiply_dense(matrix, values, out):
    """Set out = matrix values, each sum in the order of the columns."""
    for i in range(matrix.shape[0]):
        total = values.dtype.type(0)
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * values[j]
        out[i] = total
