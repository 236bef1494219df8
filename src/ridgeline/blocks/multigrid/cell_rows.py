"""Compiled pieces of the passes of cell-centred multigrid (cell_kernels.py): rows and planes of cells.

Arrays are indexed whole instead of cut into rows, because making a view costs as much as computing ten cells. Indices
are unsigned, because Numba tests a signed one for being negative at every access.
"""

import numpy as np

from ridgeline.jit.kernel import subroutine

LO, UP, DIAGONAL = 0, 1, 2  # rows of `factors`
ONE = np.uint64(1)


@subroutine(nogil=True, error_model="numpy")
def sum_of_row(k, j, start, end, b, source, below, here, above, along_z, fz, fy, fx, factors, out):
    """Set out = b + the neighbours of row (k, j), weighted by beta at faces; those along z only if `along_z`.

    source: [.., ny+2g, nx+2g]; planes below, here and above of it are k - 1, k and k + 1
    """
    lz, uz, ly, uy = factors[0, LO, k], factors[0, UP, k], factors[1, LO, j], factors[1, UP, j]
    lo, up = factors[2, LO], factors[2, UP]
    for i in range(start, end):
        out[i] = b[k, j, i] + (ly * fy[k, j, i]) * source[here, j - ONE, i]
    for i in range(start, end):
        out[i] += (uy * fy[k, j + ONE, i]) * source[here, j + ONE, i]
    if along_z:
        for i in range(start, end):
            out[i] += (lz * fz[k, j, i]) * source[below, j, i]
        for i in range(start, end):
            out[i] += (uz * fz[k + ONE, j, i]) * source[above, j, i]
    for i in range(start, end):
        out[i] += (lo[i] * fx[k, j, i]) * source[here, j, i - ONE] + (up[i] * fx[k, j, i + ONE]) * source[
            here, j, i + ONE
        ]


@subroutine(nogil=True, error_model="numpy")
def diagonal_of_row(k, j, start, end, a, fz, fy, fx, factors, out):
    """Set out to the diagonal of row (k, j) with beta at faces."""
    lz, uz, ly, uy = factors[0, LO, k], factors[0, UP, k], factors[1, LO, j], factors[1, UP, j]
    lo, up = factors[2, LO], factors[2, UP]
    for i in range(start, end):
        out[i] = a[k, j, i] + (lz * fz[k, j, i] + uz * fz[k + ONE, j, i])
    for i in range(start, end):
        out[i] += ly * fy[k, j, i] + uy * fy[k, j + ONE, i]
    for i in range(start, end):
        out[i] += lo[i] * fx[k, j, i] + up[i] * fx[k, j, i + ONE]


@subroutine(nogil=True, error_model="numpy")
def relax_plane(
    k,
    rows,
    columns,
    b,
    source,
    below,
    here,
    above,
    tau,
    from_zero,
    variable,
    alpha,
    a,
    fz,
    fy,
    fx,
    factors,
    sums,
    diagonal,
    target,
    place,
):
    """Do a step of points in plane k, from planes of `source` into plane `place` of `target`.

    sums, diagonal: memory of a row
    """
    start, end = np.uint64(columns[0]), np.uint64(columns[1])
    lo, up, along = factors[2, LO], factors[2, UP], factors[2, DIAGONAL]
    lz, uz = factors[0, LO, k], factors[0, UP, k]
    for j in range(np.uint64(rows[0]), np.uint64(rows[1])):
        if variable:
            diagonal_of_row(k, j, start, end, a, fz, fy, fx, factors, diagonal)
            if from_zero:
                for i in range(start, end):
                    target[place, j, i] = tau * (b[k, j, i] / diagonal[i])
                continue
            sum_of_row(k, j, start, end, b, source, below, here, above, True, fz, fy, fx, factors, sums)
            for i in range(start, end):
                row = source[here, j, i]
                target[place, j, i] = row + tau * (sums[i] / diagonal[i] - row)
            continue
        value = alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, j])
        ly, uy = factors[1, LO, j], factors[1, UP, j]
        if from_zero:
            for i in range(start, end):
                target[place, j, i] = tau * (b[k, j, i] / (value + along[i]))
            continue
        for i in range(start, end):
            total = b[k, j, i] + (lz * source[below, j, i] + uz * source[above, j, i])
            total += ly * source[here, j - ONE, i] + uy * source[here, j + ONE, i]
            total += lo[i] * source[here, j, i - ONE] + up[i] * source[here, j, i + ONE]
            row = source[here, j, i]
            target[place, j, i] = row + tau * (total / (value + along[i]) - row)


@subroutine(nogil=True, error_model="numpy")
def residual_of_rows(
    planes, rows, columns, b, x, variable, alpha, a, fz, fy, fx, factors, sums, diagonal, out
):
    """Set out = b - A x in the rows of a plane of z or of y.

    planes, rows, columns : ranges of k, j and i; one of the first two is a single one
    sums, diagonal : memory of a row
    out : [rows, nx+2g], one row after the other
    """
    start, end = np.uint64(columns[0]), np.uint64(columns[1])
    lo, up, along = factors[2, LO], factors[2, UP], factors[2, DIAGONAL]
    row = np.uint64(0)
    for k in range(np.uint64(planes[0]), np.uint64(planes[1])):
        lz, uz = factors[0, LO, k], factors[0, UP, k]
        for j in range(np.uint64(rows[0]), np.uint64(rows[1])):
            if variable:
                diagonal_of_row(k, j, start, end, a, fz, fy, fx, factors, diagonal)
                sum_of_row(k, j, start, end, b, x, k - ONE, k, k + ONE, True, fz, fy, fx, factors, sums)
                for i in range(start, end):
                    out[row, i] = sums[i] - diagonal[i] * x[k, j, i]
            else:
                ly, uy = factors[1, LO, j], factors[1, UP, j]
                value = alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, j])
                for i in range(start, end):
                    total = b[k, j, i] + (lz * x[k - ONE, j, i] + uz * x[k + ONE, j, i])
                    total += ly * x[k, j - ONE, i] + uy * x[k, j + ONE, i]
                    total += lo[i] * x[k, j, i - ONE] + up[i] * x[k, j, i + ONE]
                    out[row, i] = total - (value + along[i]) * x[k, j, i]
            row += ONE


@subroutine(nogil=True, error_model="numpy")
def restrict_rows(residual, planes, rows, columns, maps, shares, pairs, out):
    """Add the shares of rows to the means over aggregates, the coarser right-hand side.

    pairs: aggregates along the row that have two cells; those after them have one
    """
    start, end, n_pairs = np.uint64(columns[0]), np.uint64(columns[1]), np.uint64(pairs)
    place, share = np.uint64(maps[2, columns[0]]), shares[2]
    first_single = start + n_pairs + n_pairs
    row = np.uint64(0)
    for k in range(np.uint64(planes[0]), np.uint64(planes[1])):
        for j in range(np.uint64(rows[0]), np.uint64(rows[1])):
            place_z, place_y = np.uint64(maps[0, k]), np.uint64(maps[1, j])
            weight = shares[0, k] * shares[1, j]
            for pair in range(n_pairs):
                i = start + pair + pair
                two = share[i] * residual[row, i] + share[i + ONE] * residual[row, i + ONE]
                out[place_z, place_y, place + pair] += weight * two
            for i in range(first_single, end):
                single = place + n_pairs + (i - first_single)
                out[place_z, place_y, single] += weight * (share[i] * residual[row, i])
            row += ONE


@subroutine(nogil=True, error_model="numpy")
def prolong_rows(coarse, planes, rows, columns, near, other, weights, first_pair, pairs, sums, out):
    """Add the interpolated coarser values to rows of out.

    first_pair, pairs: the first cell of the aggregates of two cells that follow each other, and their number
    sums: memory of a row
    """
    start, end, n_coarse = np.uint64(columns[0]), np.uint64(columns[1]), np.uint64(coarse.shape[2])
    one = sums.dtype.type(1)
    a, b, w = near[2], other[2], weights[2]
    first, place, n_pairs = np.uint64(first_pair), np.uint64(near[2, first_pair]), np.uint64(pairs)
    for k in range(np.uint64(planes[0]), np.uint64(planes[1])):
        wz, nz, oz = weights[0, k], np.uint64(near[0, k]), np.uint64(other[0, k])
        for j in range(np.uint64(rows[0]), np.uint64(rows[1])):
            wy, ny, oy = weights[1, j], np.uint64(near[1, j]), np.uint64(other[1, j])
            for i in range(n_coarse):
                sums[i] = (one - wz) * ((one - wy) * coarse[nz, ny, i] + wy * coarse[nz, oy, i])
            for i in range(n_coarse):
                sums[i] += wz * ((one - wy) * coarse[oz, ny, i] + wy * coarse[oz, oy, i])
            # A pair lies between its own coarser cell and those on both sides; near a Neumann side the weight is 0.
            for pair in range(n_pairs):
                i, middle = first + pair + pair, sums[place + pair]
                out[k, j, i] += (one - w[i]) * middle + w[i] * sums[place + pair - ONE]
                out[k, j, i + ONE] += (one - w[i + ONE]) * middle + w[i + ONE] * sums[place + pair + ONE]
            for i in range(start, first):
                out[k, j, i] += (one - w[i]) * sums[np.uint64(a[i])] + w[i] * sums[np.uint64(b[i])]
            for i in range(first + n_pairs + n_pairs, end):
                out[k, j, i] += (one - w[i]) * sums[np.uint64(a[i])] + w[i] * sums[np.uint64(b[i])]


@subroutine(nogil=True, error_model="numpy")
def solve_lines(sums, diagonal, upper, variable, j, fz, factors, first, last, start, end):
    """Solve the tridiagonal systems along z of slab j by elimination, in place of `sums`, [nz+2g, nx+2g].

    upper: memory of the same shape
    """
    lo, up = factors[0, LO], factors[0, UP]
    one = sums.dtype.type(1)
    for k in range(first, last):
        below, above = lo[k], up[k]
        if k == first:
            below = sums.dtype.type(0)
        if variable:
            for i in range(start, end):
                lower = below * fz[k, j, i]
                inverse = one / (diagonal[k, i] - lower * upper[k - ONE, i])
                upper[k, i] = (above * fz[k + ONE, j, i]) * inverse
                sums[k, i] = (sums[k, i] + lower * sums[k - ONE, i]) * inverse
        else:
            for i in range(start, end):
                inverse = one / (diagonal[k, i] - below * upper[k - ONE, i])
                upper[k, i] = above * inverse
                sums[k, i] = (sums[k, i] + below * sums[k - ONE, i]) * inverse
    for k in range(first + ONE, last):
        row = last + first - ONE - k
        for i in range(start, end):
            sums[row, i] += upper[row, i] * sums[row + ONE, i]
