"""Kernels that interpolate fields at particles: by cubic B-splines, trilinearly, and by exact Fourier sums.

A cubic B-spline through values u_i of a periodic grid has coefficients c_i with u_i = (c_(i-1) + 4 c_i + c_(i+1))/6.
In Fourier space c_i follows from u_i by a division by (2 + cos(2 pi j / N)) / 3 in each direction. Source: Yeung and
Pope, J. Comput. Phys. 79 (1988) 373, whose splines these are; the division solves their tridiagonal systems.
"""

import math

import numpy as np
from numba import boolean, float64, int32, int64

from ridgeline.fourier.ghost_planes import ABOVE, BEHIND, BELOW, BEYOND, PADDING
from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.models.turbulence.fluid_particles.stencil_llvm import (
    AHEAD,
    BATCH,
    COMPONENTS,
    fetch_stencil,
    stencil_sum,
)
from ridgeline.particles.boxes import wrap_periodic

SIXTH = 1 / 6
OF_POSITIONS = [float64[::1]] * 3


@kernel(lambda C: (C[::1], int64[::1], *[int64] * 3, C[::1], C[::1], C[:, ::1]), nogil=True)
def load_scaled(modes, start, first_line, n_lines, n_y, of_line, along, out_lines):
    """Set lines to modes times of_line[line] along[j_y], and to zero where no mode is retained.

    modes : (n_modes,), of which line i has start[i] ... start[i + 1] - 1; of_line : (all lines,); along : (n_y,) in
    the order j_y = 0, 1, ..., -1; out_lines : (>= n_lines, >= n_y)
    """
    for l in range(n_lines):
        begin, end = start[first_line + l], start[first_line + l + 1]
        most = (end - begin) // 2
        line, factor = out_lines[l], of_line[first_line + l]
        for j in range(most + 1):
            line[j] = modes[begin + j] * (factor * along[j])
        line[most + 1 : n_y - most] = 0
        for j in range(most):
            line[n_y - most + j] = modes[begin + most + 1 + j] * (factor * along[n_y - most + j])


@kernel(lambda T: (T[:, :, ::1], *[int64] * 5, T[:, :, :, ::1]), nogil=True)
def pad_rows(pairs, component, plane, first_row, n_rows, n_z, out_padded):
    """Set rows of a padded block, with their ghosts in x, from pairs of rows in physical space.

    pairs : (m, >= (n_rows + 1) // 2, 2 n_x or more) real view; its variables become the components from `component`
    on. Row r has z = r mod n_z and y = plane + r div n_z.
    out_padded : see `fourier.ghost_planes`
    """
    n_x = out_padded.shape[2] - PADDING
    for i in range(n_rows):
        part = i % 2
        row = out_padded[BELOW + (first_row + i) % n_z, BELOW + plane + (first_row + i) // n_z]
        for v in range(pairs.shape[0]):
            pair = pairs[v, i // 2]
            for x in range(n_x):
                row[BELOW + x, component + v] = pair[2 * x + part]
            for x in range(BELOW):
                row[x, component + v] = pair[2 * ((x - BELOW) % n_x) + part]
            for x in range(ABOVE):
                row[BELOW + n_x + x, component + v] = pair[2 * (x % n_x) + part]


@subroutine(inline="always")
def _weights(t, linear):
    """Return the weights of the points -1, 0, 1 and 2 of a cell, for a place t between its points 0 and 1.

    They are those of the trilinear interpolant if linear, otherwise those of a cubic B-spline.
    """
    s = 1.0 - t
    a, d = s * s * s, t * t * t
    if linear:
        return 0.0, s, t, 0.0
    return SIXTH * a, 2 / 3 - t * t + 0.5 * d, 2 / 3 - s * s + 0.5 * a, SIXTH * d


@subroutine(inline="always")
def _local_cell(place, cells, first, block):
    """Return the cell of a place, both counted in cells, relative to the first cell of this rank's block.

    If one of the periodic images of the cell lies between -BEHIND and block - 1 + BEYOND, that one is returned.
    """
    cell = np.floor(place) - first
    cell = cell + cells if cell < -BEHIND else cell
    return cell - cells if cell > block - 1 + BEYOND else cell


@subroutine
def _prepare(x, y, z, geometry, pitch_y, pitch_z, linear, at, weights):
    """Set weights and places of the stencils of at most BATCH positions; return how many are not near the block.

    at : (BATCH,) place of the stencil's first point, 0 for positions that are not near; weights : (3 POINTS, BATCH),
    x, y, z
    """
    # Plain rows and scalars, without index wrap-around, so that the compiler vectorises over particles.
    scale_x, scale_y, scale_z = geometry[0, 0], geometry[0, 1], geometry[0, 2]
    cells_x, cells_y, cells_z = geometry[1, 0], geometry[1, 1], geometry[1, 2]
    first_x, first_y, first_z = geometry[2, 0], geometry[2, 1], geometry[2, 2]
    block_x, block_y, block_z = geometry[3, 0], geometry[3, 1], geometry[3, 2]
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    w4, w5, w6, w7 = weights[4], weights[5], weights[6], weights[7]
    w8, w9, w10, w11 = weights[8], weights[9], weights[10], weights[11]
    moved_x, moved_y, moved_z = geometry[4, 0], geometry[4, 1], geometry[4, 2]
    away = 0
    for i in range(x.shape[0]):
        px, py, pz = x[i] * scale_x - moved_x, y[i] * scale_y - moved_y, z[i] * scale_z - moved_z
        a = _local_cell(px, cells_x, first_x, block_x)
        b = _local_cell(py, cells_y, first_y, block_y)
        c = _local_cell(pz, cells_z, first_z, block_z)
        near = (
            (a >= -BEHIND)
            & (b >= -BEHIND)
            & (c >= -BEHIND)
            & (a < block_x + BEYOND)
            & (b < block_y + BEYOND)
            & (c < block_z + BEYOND)
        )
        place = (c + BEHIND) * pitch_z + (b + BEHIND) * pitch_y + (a + BEHIND) * COMPONENTS
        at[i] = int64(place if near else 0.0)
        away += 0 if near else 1
        w0[i], w1[i], w2[i], w3[i] = _weights(px - np.floor(px), linear)
        w4[i], w5[i], w6[i], w7[i] = _weights(py - np.floor(py), linear)
        w8[i], w9[i], w10[i], w11[i] = _weights(pz - np.floor(pz), linear)
    return away


OF_GRID = [float64[:, ::1], boolean, int64[::1], float64[:, ::1]]


@kernel(lambda T: (*OF_POSITIONS, T[:, :, :, ::1], *OF_GRID, *OF_POSITIONS), nogil=True)
def interpolate(x, y, z, values, geometry, linear, at, weights, out_u, out_v, out_w):
    """Set out to the interpolants of the three components at positions, cubic B-splines or trilinear.

    x, y, z : (n,) float64, in this rank's block or a cell beyond, also as periodic images; values : coefficients of
    the splines, or values, as a padded block; geometry : (5, 3) float64, see below; linear : whether trilinear;
    at : (BATCH,) int64 and weights : (3 POINTS, BATCH) float64, overwritten; out : (n,) float64. The rows of geometry
    are, for x, y and z: points per length, points of the grid, offset and points of this rank's block, and the
    displacement of the grid in cells, 0 to 1.
    Returns how many positions are farther away; their values are undefined. Cost: 64 products for each value.
    """
    pitch_y = values.shape[2] * values.shape[3]
    pitch_z = values.shape[1] * pitch_y
    flat = values.ravel()
    away = 0
    for first in range(0, x.shape[0], BATCH):
        part = slice(first, min(first + BATCH, x.shape[0]))
        away += _prepare(x[part], y[part], z[part], geometry, pitch_y, pitch_z, linear, at, weights)
        u, v, w = out_u[part], out_v[part], out_w[part]
        for i in range(u.shape[0]):
            fetch_stencil(flat, at[min(i + AHEAD, u.shape[0] - 1)], pitch_y, pitch_z)
            u[i], v[i], w[i] = stencil_sum(flat, at[i], pitch_y, pitch_z, weights, i)
    return away


@kernel(
    lambda T: (*[float64[::1]] * 6, float64, T[:, :, :, ::1], *OF_GRID, float64[::1], *[int32[::1]] * 3),
    nogil=True,
)
def correct(x, y, z, u, v, w, half, values, geometry, linear, at, weights, lengths, out_i, out_j, out_k):
    """Correct positions as Heun's scheme does, and set velocities to those at the corrected positions.

    half (u_new(x) - u), with half of a step, is added to x, which is brought back into the periodic box from 0 to
    `lengths` (3,); then u = u_new(x). out_i, out_j, out_k : (n,) int32, to which the crossed lengths are added. The
    other arguments are those of `interpolate`. Returns how many particles move farther than a cell from this rank's
    block; their velocities are undefined.
    """
    pitch_y = values.shape[2] * values.shape[3]
    pitch_z = values.shape[1] * pitch_y
    flat = values.ravel()
    away = 0
    for first in range(0, x.shape[0], BATCH):
        part = slice(first, min(first + BATCH, x.shape[0]))
        px, py, pz, pu, pv, pw = x[part], y[part], z[part], u[part], v[part], w[part]
        away += _prepare(px, py, pz, geometry, pitch_y, pitch_z, linear, at, weights)
        for i in range(px.shape[0]):
            fetch_stencil(flat, at[min(i + AHEAD, px.shape[0] - 1)], pitch_y, pitch_z)
            a, b, c = stencil_sum(flat, at[i], pitch_y, pitch_z, weights, i)
            px[i] += half * (a - pu[i])
            py[i] += half * (b - pv[i])
            pz[i] += half * (c - pw[i])
        for i in range(px.shape[0]):
            px[i], turns_x = wrap_periodic(px[i], 0.0, lengths[0])
            py[i], turns_y = wrap_periodic(py[i], 0.0, lengths[1])
            pz[i], turns_z = wrap_periodic(pz[i], 0.0, lengths[2])
            if turns_x != 0 or turns_y != 0 or turns_z != 0:
                out_i[first + i] += turns_x
                out_j[first + i] += turns_y
                out_k[first + i] += turns_z
        away += _prepare(px, py, pz, geometry, pitch_y, pitch_z, linear, at, weights)
        for i in range(px.shape[0]):
            pu[i], pv[i], pw[i] = stencil_sum(flat, at[i], pitch_y, pitch_z, weights, i)
    return away


@subroutine
def _turns(angle, out):
    """Set out[j] to exp(i j angle)."""
    for j in range(out.shape[0]):
        out[j] = complex(math.cos(j * angle), math.sin(j * angle))


@kernel(
    lambda C: (*OF_POSITIONS, float64[::1], *[int64[::1]] * 4, C[:, ::1], *[C[::1]] * 3, float64[:, ::1]),
    nogil=True,
)
def sum_fourier(x, y, z, unit, jx, jz, most, start, modes, turns_x, turns_y, turns_z, out):
    """Set out[v, i] to the sum of all modes of field v at position i, exact to rounding.

    unit : (3,) smallest wavenumbers, x, y, z; jx, jz, most, start : of all lines of all ranks; modes : (m, n_modes);
    turns_x, turns_y, turns_z : scratch, one longer than the largest |j| of a direction. Cost: one product for each
    mode of each particle.
    """
    for i in range(x.shape[0]):
        _turns(x[i] * unit[0], turns_x)
        _turns(y[i] * unit[1], turns_y)
        _turns(z[i] * unit[2], turns_z)
        for v in range(modes.shape[0]):
            total = 0.0
            for l in range(jx.shape[0]):
                begin = start[l]
                line = modes[v, begin]
                for j in range(1, most[l] + 1):
                    line += modes[v, begin + j] * turns_y[j]
                    line += modes[v, begin + 2 * most[l] + 1 - j] * np.conj(turns_y[j])
                in_z = turns_z[jz[l]] if jz[l] >= 0 else np.conj(turns_z[-jz[l]])
                part = (line * in_z * turns_x[jx[l]]).real
                total += part if jx[l] == 0 else 2.0 * part
            out[v, i] = total


@kernel(lambda T: (T[:, :, :, ::1], *[int64] * 4, T[::1], T[:, :, ::1]), nogil=True)
def values_of_splines(coefficients, plane, first_row, n_rows, n_z, scratch, out_pairs):
    """Set pairs of rows in physical space to the values of splines at the points, the inverse of the spline filter.

    coefficients : padded block with its ghosts; rows as in `pad_rows`, where an odd last row is paired with zeros;
    scratch : (3 (n_x + 6),), overwritten; out_pairs : (>= 3, >= (n_rows + 1) // 2, 2 n_x or more). In each direction
    a value is (c_(i-1) + 4 c_i + c_(i+1)) / 6.
    """
    n_y, n_x = coefficients.shape[1], coefficients.shape[2] - PADDING
    pitch = coefficients.shape[2] * COMPONENTS
    flat = coefficients.ravel()
    four, whole = coefficients.dtype.type(4), coefficients.dtype.type(1 / 216)
    for i in range(n_rows):
        row = (BELOW + (first_row + i) % n_z) * n_y + BELOW + plane + (first_row + i) // n_z
        below, own, above = (row - n_y) * pitch, row * pitch, (row + n_y) * pitch
        a, b, c = flat[below - pitch :], flat[below:], flat[below + pitch :]
        d, e, f = flat[own - pitch :], flat[own:], flat[own + pitch :]
        g, h, k = flat[above - pitch :], flat[above:], flat[above + pitch :]
        for x in range(scratch.shape[0]):
            side = (b[x] + d[x]) + (f[x] + h[x])
            corner = (a[x] + c[x]) + (g[x] + k[x])
            scratch[x] = four * (four * e[x] + side) + corner
        first = COMPONENTS * (BELOW - 1)
        before, here, after = (
            scratch[first:],
            scratch[first + COMPONENTS :],
            scratch[first + 2 * COMPONENTS :],
        )
        part = i % 2
        u, v, w = out_pairs[0, i // 2, part:], out_pairs[1, i // 2, part:], out_pairs[2, i // 2, part:]
        for x in range(n_x):
            m = COMPONENTS * x
            u[2 * x] = whole * (four * here[m] + (before[m] + after[m]))
            v[2 * x] = whole * (four * here[m + 1] + (before[m + 1] + after[m + 1]))
            w[2 * x] = whole * (four * here[m + 2] + (before[m + 2] + after[m + 2]))
    if n_rows % 2:
        for component in range(COMPONENTS):
            for x in range(n_x):
                out_pairs[component, n_rows // 2, 2 * x + 1] = 0


@kernel(lambda: (float64[::1], float64, float64[::1], float64, float64[::1]), nogil=True)
def add_two(out_x, a, first, b, second):
    """Add a first + b second to out_x. (n,) float64 each."""
    for i in range(out_x.shape[0]):
        out_x[i] += a * first[i] + b * second[i]
