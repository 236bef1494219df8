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

from ridgeline.jit.kernel import kernel, subroutine

LO, UP, DIAGONAL = 0, 1, 2  # rows of `factors`
ONE = np.uint64(
    1
)  # indices are unsigned, because Numba tests a signed one for being negative at every access


@subroutine(nogil=True, error_model="numpy")
def _start_row(b, lower, upper, lower_factor, upper_factor, start, end, out):
    """Set out = b + the neighbours along an axis whose factors are the same in the row."""
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] = b[i] + (lower_factor * lower[i] + upper_factor * upper[i])


@subroutine(nogil=True, error_model="numpy")
def _add_row(lower, upper, lower_factor, upper_factor, start, end, out):
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += lower_factor * lower[i] + upper_factor * upper[i]


@subroutine(nogil=True, error_model="numpy")
def _add_along(row, factors, start, end, out):
    """Add the neighbours in the row itself."""
    lo, up = factors[LO], factors[UP]
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += lo[i] * row[i - ONE] + up[i] * row[i + ONE]


@subroutine(nogil=True, error_model="numpy")
def _add_weighted_row(lower, upper, lower_face, upper_face, lower_factor, upper_factor, start, end, out):
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += (lower_factor * lower_face[i]) * lower[i] + (upper_factor * upper_face[i]) * upper[i]


@subroutine(nogil=True, error_model="numpy")
def _add_faces(lower_face, upper_face, lower_factor, upper_factor, start, end, out):
    """Add the part of the diagonal of an axis."""
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += lower_factor * lower_face[i] + upper_factor * upper_face[i]


@subroutine(nogil=True, error_model="numpy")
def _add_weighted_along(row, face, factors, start, end, out):
    lo, up = factors[LO], factors[UP]
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += (lo[i] * face[i]) * row[i - ONE] + (up[i] * face[i + ONE]) * row[i + ONE]


@subroutine(nogil=True, error_model="numpy")
def _add_faces_along(face, factors, start, end, out):
    lo, up = factors[LO], factors[UP]
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += lo[i] * face[i] + up[i] * face[i + ONE]


@subroutine(nogil=True, error_model="numpy")
def _constant_diagonal(value, factors, start, end, out):
    diagonal = factors[DIAGONAL]
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] = value + diagonal[i]


@subroutine(nogil=True, error_model="numpy")
def _copy_row(row, start, end, out):
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] = row[i]


@subroutine(nogil=True, error_model="numpy")
def _neighbours(k, j, start, end, b, zm, zp, ym, yp, row, along_z, variable, fz, fy, fx, factors, out):
    """Set out = b + all neighbours of a row, those along z only if `along_z`."""
    lz, uz, ly, uy = factors[0, LO, k], factors[0, UP, k], factors[1, LO, j], factors[1, UP, j]
    if variable:
        _copy_row(b, start, end, out)
        if along_z:
            _add_weighted_row(zm, zp, fz[k, j], fz[k + 1, j], lz, uz, start, end, out)
        _add_weighted_row(ym, yp, fy[k, j], fy[k, j + 1], ly, uy, start, end, out)
        _add_weighted_along(row, fx[k, j], factors[2], start, end, out)
    else:
        _start_row(b, ym, yp, ly, uy, start, end, out)
        if along_z:
            _add_row(zm, zp, lz, uz, start, end, out)
        _add_along(row, factors[2], start, end, out)


@subroutine(nogil=True, error_model="numpy")
def _diagonal(k, j, start, end, variable, alpha, a, fz, fy, fx, factors, out):
    """Set out to the diagonal of a row."""
    if variable:
        _copy_row(a[k, j], start, end, out)
        _add_faces(fz[k, j], fz[k + 1, j], factors[0, LO, k], factors[0, UP, k], start, end, out)
        _add_faces(fy[k, j], fy[k, j + 1], factors[1, LO, j], factors[1, UP, j], start, end, out)
        _add_faces_along(fx[k, j], factors[2], start, end, out)
    else:
        _constant_diagonal(
            alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, j]), factors[2], start, end, out
        )


@subroutine(nogil=True, error_model="numpy")
def _relax_row(row, sums, diagonal, tau, start, end, out):
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] = row[i] + tau * (sums[i] / diagonal[i] - row[i])


@subroutine(nogil=True, error_model="numpy")
def _relax_row_from_zero(sums, diagonal, tau, start, end, out):
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] = tau * (sums[i] / diagonal[i])


@subroutine(nogil=True, error_model="numpy")
def _residual_row(row, sums, diagonal, start, end, out):
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] = sums[i] - diagonal[i] * row[i]


@subroutine(nogil=True, error_model="numpy")
def _relax_constant(b, zm, zp, ym, yp, row, along, lz, uz, ly, uy, value, tau, start, end, out):
    """Do a step in a row with constant coefficients; value: the diagonal's part of z, y and alpha."""
    lo, up, diagonal = along[LO], along[UP], along[DIAGONAL]
    for i in range(np.uint64(start), np.uint64(end)):
        total = b[i] + (lz * zm[i] + uz * zp[i]) + (ly * ym[i] + uy * yp[i])
        total += lo[i] * row[i - ONE] + up[i] * row[i + ONE]
        out[i] = row[i] + tau * (total / (value + diagonal[i]) - row[i])


@subroutine(nogil=True, error_model="numpy")
def _residual_constant(b, zm, zp, ym, yp, row, along, lz, uz, ly, uy, value, start, end, out):
    lo, up, diagonal = along[LO], along[UP], along[DIAGONAL]
    for i in range(np.uint64(start), np.uint64(end)):
        total = b[i] + (lz * zm[i] + uz * zp[i]) + (ly * ym[i] + uy * yp[i])
        total += lo[i] * row[i - ONE] + up[i] * row[i + ONE]
        out[i] = total - (value + diagonal[i]) * row[i]


@subroutine(nogil=True, error_model="numpy")
def _relax(
    k,
    j,
    start,
    end,
    b,
    zm,
    zp,
    ym,
    yp,
    row,
    tau,
    variable,
    alpha,
    a,
    fz,
    fy,
    fx,
    factors,
    sums,
    diagonal,
    out,
):
    """Do a step of points in a row. sums, diagonal: memory of rows."""
    if variable:
        _diagonal(k, j, start, end, variable, alpha, a, fz, fy, fx, factors, diagonal)
        _neighbours(k, j, start, end, b, zm, zp, ym, yp, row, 1, variable, fz, fy, fx, factors, sums)
        _relax_row(row, sums, diagonal, tau, start, end, out)
    else:
        value = alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, j])
        lz, uz, ly, uy = factors[0, LO, k], factors[0, UP, k], factors[1, LO, j], factors[1, UP, j]
        _relax_constant(b, zm, zp, ym, yp, row, factors[2], lz, uz, ly, uy, value, tau, start, end, out)


@subroutine(nogil=True, error_model="numpy")
def _residual(k, j, start, end, b, x, variable, alpha, a, fz, fy, fx, factors, sums, diagonal, out):
    """Set out = b - A x in a row."""
    row, zm, zp, ym, yp = x[k, j], x[k - 1, j], x[k + 1, j], x[k, j - 1], x[k, j + 1]
    if variable:
        _diagonal(k, j, start, end, variable, alpha, a, fz, fy, fx, factors, diagonal)
        _neighbours(k, j, start, end, b, zm, zp, ym, yp, row, 1, variable, fz, fy, fx, factors, sums)
        _residual_row(row, sums, diagonal, start, end, out)
    else:
        value = alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, j])
        lz, uz, ly, uy = factors[0, LO, k], factors[0, UP, k], factors[1, LO, j], factors[1, UP, j]
        _residual_constant(b, zm, zp, ym, yp, row, factors[2], lz, uz, ly, uy, value, start, end, out)


@subroutine(nogil=True, error_model="numpy")
def _restrict_row(residual, k, j, maps, weights, first, last, out):
    """Add a row's share of the means over aggregates to the coarser right-hand side."""
    target = out[maps[0, k], maps[1, j]]
    weight = weights[0, k] * weights[1, j]
    places, shares = maps[2], weights[2]
    for i in range(first, last):
        target[places[i]] += weight * (shares[i] * residual[i])


@subroutine(nogil=True, error_model="numpy")
def _prolong_row(coarse, k, j, near, other, weights, start, end, sums, out):
    """Add the interpolated coarser values to a row."""
    wz, wy = weights[0, k], weights[1, j]
    one = sums.dtype.type(1)
    nn, no = coarse[near[0, k], near[1, j]], coarse[near[0, k], other[1, j]]
    on, oo = coarse[other[0, k], near[1, j]], coarse[other[0, k], other[1, j]]
    for i in range(np.uint64(coarse.shape[2])):
        sums[i] = (one - wz) * ((one - wy) * nn[i] + wy * no[i]) + wz * ((one - wy) * on[i] + wy * oo[i])
    a, b, w = near[2], other[2], weights[2]
    for i in range(np.uint64(start), np.uint64(end)):
        out[i] += (one - w[i]) * sums[a[i]] + w[i] * sums[b[i]]


@subroutine(nogil=True, error_model="numpy")
def _solve_lines(sums, diagonal, upper, variable, j, fz, factors, nz, ghost, start, end):
    """Solve the tridiagonal systems along z of a slab by elimination, in place of `sums`, [nz+2g, nx+2g].

    upper: memory of the same shape.
    """
    lo, up = factors[0, LO], factors[0, UP]
    for k in range(ghost, ghost + nz):
        s, d, u = sums[k], diagonal[k], upper[k]
        below, s_below, d_above = upper[k - 1], sums[k - 1], up[k]
        if k == ghost:
            for i in range(np.uint64(start), np.uint64(end)):
                face = fz[k + 1, j, i] * d_above if variable else d_above
                u[i] = face / d[i]
                s[i] = s[i] / d[i]
        else:
            for i in range(np.uint64(start), np.uint64(end)):
                face = fz[k + 1, j, i] * d_above if variable else d_above
                lower = fz[k, j, i] * lo[k] if variable else lo[k]
                pivot = d[i] - lower * below[i]
                u[i] = face / pivot
                s[i] = (s[i] + lower * s_below[i]) / pivot
    for k in range(ghost + nz - 2, ghost - 1, -1):
        s, u, above = sums[k], upper[k], sums[k + 1]
        for i in range(np.uint64(start), np.uint64(end)):
            s[i] += u[i] * above[i]


def _pass_types(T):
    """Types of the arguments of both passes."""
    cube, plane = T[:, :, ::1], T[:, ::1]
    return (
        *(cube, cube, int64, int64, T, cube, cube, cube, cube, cube),
        *(T[::1], T[:, :, :, ::1], int64, int64[:, ::1], int64),
        *(int64, cube, int64[:, ::1], int64[:, ::1], plane, int64),
        *(int64, cube, int64[:, ::1], plane, int64[:, ::1]),
    )


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
):
    """Smooth by points in one pass: [x += P correction,] n steps, [restricted = R (b - A x)].

    Parameters
    ----------
    x, b : [nz+2g, ny+2g, nx+2g]; cells beyond a side that is not periodic hold 0
    from_zero : x is taken as 0 and not read
    variable, alpha, a, fz, fy, fx : the coefficients: alpha, or the field a and beta at lower faces
    factors : [3, 3, n]; for each axis lo, up and their sum, by local cells with ghosts
    taus : of the steps
    ring : [n - 1, 3, ny+2g, nx+2g], zero where it is never written
    ghost, has_neighbour : layers; [3, 2] whether there are cells beyond each end of each axis
    layers : ghost layers of the last step
    prolongs, correction, near, other, prolongation, correction_layers : coarser values with ghosts; for each axis and
        cell the two coarser cells and the weight of the other one; layers to correct
    restricts, restricted, maps, restriction, ranges : coarser right-hand side, all set; for each axis and cell its
        aggregate and the cell's share of it; [3, 2] the first and last cells that are restricted

    Notes
    -----
    Reads x and b and writes x once, as far as three planes of every step fit into the caches.
    """
    n_steps = taus.shape[0]
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    sums = np.empty(max(x.shape[2], correction.shape[2]), x.dtype)
    diagonal, zero_row, residual = (
        np.empty(x.shape[2], x.dtype),
        np.zeros(x.shape[2], x.dtype),
        np.empty(x.shape[2], x.dtype),
    )
    if restricts:
        restricted[:, :, :] = 0
    widest = layers + n_steps - 1
    if prolongs:
        widest = max(widest, correction_layers)
    behind = 0  # the first step's distance from the correction
    if prolongs:
        behind = 1
    first, last = ghost - has_neighbour[0, 0] * widest, ghost + nz + has_neighbour[0, 1] * widest
    for lead in range(first, last + behind + n_steps + 1):
        if prolongs:
            more = correction_layers
            if ghost - has_neighbour[0, 0] * more <= lead < ghost + nz + has_neighbour[0, 1] * more:
                start, end = ghost - has_neighbour[2, 0] * more, ghost + nx + has_neighbour[2, 1] * more
                for j in range(ghost - has_neighbour[1, 0] * more, ghost + ny + has_neighbour[1, 1] * more):
                    _prolong_row(correction, lead, j, near, other, prolongation, start, end, sums, x[lead, j])
        for step in range(n_steps):
            k = lead - behind - step
            more = layers + n_steps - 1 - step
            if k < ghost - has_neighbour[0, 0] * more or k >= ghost + nz + has_neighbour[0, 1] * more:
                continue
            below = k > ghost or has_neighbour[0, 0] == 1
            above = k < ghost + nz - 1 or has_neighbour[0, 1] == 1
            start, end = ghost - has_neighbour[2, 0] * more, ghost + nx + has_neighbour[2, 1] * more
            for j in range(ghost - has_neighbour[1, 0] * more, ghost + ny + has_neighbour[1, 1] * more):
                target = x[k, j] if step == n_steps - 1 else ring[step, k % 3, j]
                if step == 0 and from_zero:
                    _diagonal(k, j, start, end, variable, alpha, a, fz, fy, fx, factors, diagonal)
                    _relax_row_from_zero(b[k, j], diagonal, taus[0], start, end, target)
                    continue
                if step == 0:
                    row, ym, yp = x[k, j], x[k, j - 1], x[k, j + 1]
                    zm, zp = x[k - 1, j], x[k + 1, j]
                else:
                    before, plane = ring[step - 1], k % 3
                    row, ym, yp = before[plane, j], before[plane, j - 1], before[plane, j + 1]
                    zm = before[(k - 1) % 3, j] if below else zero_row
                    zp = before[(k + 1) % 3, j] if above else zero_row
                _relax(
                    *(k, j, start, end, b[k, j], zm, zp, ym, yp, row, taus[step]),
                    *(variable, alpha, a, fz, fy, fx, factors, sums, diagonal, target),
                )
        k = lead - behind - n_steps
        if restricts and ranges[0, 0] <= k < ranges[0, 1]:
            start, end = ranges[2, 0], ranges[2, 1]
            for j in range(ranges[1, 0], ranges[1, 1]):
                _residual(
                    k,
                    j,
                    start,
                    end,
                    b[k, j],
                    x,
                    variable,
                    alpha,
                    a,
                    fz,
                    fy,
                    fx,
                    factors,
                    sums,
                    diagonal,
                    residual,
                )
                _restrict_row(residual, k, j, maps, restriction, start, end, restricted)


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
):
    """Smooth by lines along z in one pass, as `smooth_points`; z is neither cut nor periodic.

    ring: [n - 1, 3, nz+2g, nx+2g]; planes of y instead of z.
    """
    n_steps = taus.shape[0]
    nz, ny, nx = x.shape[0] - 2 * ghost, x.shape[1] - 2 * ghost, x.shape[2] - 2 * ghost
    slab = (x.shape[0], x.shape[2])
    sums, diagonal, upper = np.zeros(slab, x.dtype), np.ones(slab, x.dtype), np.zeros(slab, x.dtype)
    wide = np.empty(max(x.shape[2], correction.shape[2]), x.dtype)
    zero_row, residual = np.zeros(x.shape[2], x.dtype), np.empty(x.shape[2], x.dtype)
    if restricts:
        restricted[:, :, :] = 0
    widest = layers + n_steps - 1
    if prolongs:
        widest = max(widest, correction_layers)
    behind = 0
    if prolongs:
        behind = 1
    first, last = ghost - has_neighbour[1, 0] * widest, ghost + ny + has_neighbour[1, 1] * widest
    for lead in range(first, last + behind + n_steps + 1):
        if prolongs:
            more = correction_layers
            if ghost - has_neighbour[1, 0] * more <= lead < ghost + ny + has_neighbour[1, 1] * more:
                start, end = ghost - has_neighbour[2, 0] * more, ghost + nx + has_neighbour[2, 1] * more
                for k in range(ghost, ghost + nz):
                    _prolong_row(correction, k, lead, near, other, prolongation, start, end, wide, x[k, lead])
        for step in range(n_steps):
            j = lead - behind - step
            more = layers + n_steps - 1 - step
            if j < ghost - has_neighbour[1, 0] * more or j >= ghost + ny + has_neighbour[1, 1] * more:
                continue
            before = j > ghost or has_neighbour[1, 0] == 1
            after = j < ghost + ny - 1 or has_neighbour[1, 1] == 1
            start, end = ghost - has_neighbour[2, 0] * more, ghost + nx + has_neighbour[2, 1] * more
            for k in range(ghost, ghost + nz):
                _diagonal(k, j, start, end, variable, alpha, a, fz, fy, fx, factors, diagonal[k])
                if step == 0 and from_zero:
                    _copy_row(b[k, j], start, end, sums[k])
                    continue
                if step == 0:
                    row, ym, yp = x[k, j], x[k, j - 1], x[k, j + 1]
                else:
                    row = ring[step - 1, j % 3, k]
                    ym = ring[step - 1, (j - 1) % 3, k] if before else zero_row
                    yp = ring[step - 1, (j + 1) % 3, k] if after else zero_row
                _neighbours(
                    k,
                    j,
                    start,
                    end,
                    b[k, j],
                    zero_row,
                    zero_row,
                    ym,
                    yp,
                    row,
                    0,
                    variable,
                    fz,
                    fy,
                    fx,
                    factors,
                    sums[k],
                )
            _solve_lines(sums, diagonal, upper, variable, j, fz, factors, nz, ghost, start, end)
            for k in range(ghost, ghost + nz):
                target = x[k, j] if step == n_steps - 1 else ring[step, j % 3, k]
                if step == 0 and from_zero:
                    for i in range(np.uint64(start), np.uint64(end)):
                        target[i] = taus[0] * sums[k, i]
                else:
                    row = x[k, j] if step == 0 else ring[step - 1, j % 3, k]
                    s = sums[k]
                    for i in range(np.uint64(start), np.uint64(end)):
                        target[i] = row[i] + taus[step] * (s[i] - row[i])
        j = lead - behind - n_steps
        if restricts and ranges[1, 0] <= j < ranges[1, 1]:
            start, end = ranges[2, 0], ranges[2, 1]
            for k in range(ranges[0, 0], ranges[0, 1]):
                _residual(
                    k,
                    j,
                    start,
                    end,
                    b[k, j],
                    x,
                    variable,
                    alpha,
                    a,
                    fz,
                    fy,
                    fx,
                    factors,
                    sums[0],
                    diagonal[0],
                    residual,
                )
                _restrict_row(residual, k, j, maps, restriction, start, end, restricted)


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
    sums, diagonal, residual = (
        np.empty(x.shape[2], x.dtype),
        np.empty(x.shape[2], x.dtype),
        np.zeros(x.shape[2], x.dtype),
    )
    largest, bad = np.zeros(x.shape[2], x.dtype), np.zeros(x.shape[2], x.dtype)
    start, end = ghost, ghost + nx
    for k in range(ghost, ghost + nz):
        for j in range(ghost, ghost + ny):
            _residual(
                k,
                j,
                start,
                end,
                b[k, j],
                x,
                variable,
                alpha,
                a,
                fz,
                fy,
                fx,
                factors,
                sums,
                diagonal,
                residual,
            )
            for i in range(np.uint64(start), np.uint64(end)):
                size = abs(residual[i])
                largest[i] = size if size > largest[i] else largest[i]
                bad[i] += residual[i] - residual[i]
            if keeps:
                target = out[k - ghost, j - ghost]
                for i in range(nx):
                    target[i] = residual[i + ghost]
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
