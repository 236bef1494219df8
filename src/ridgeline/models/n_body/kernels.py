"""Compiled loops over particles: deposit on the mesh, forces from the mesh, kicks and drifts.

Positions are multiples of a quantum, a power of two far below any length that matters, so that differences of
positions, and shifts by the edge of the box, are exact. Weights on the mesh are integers, whose sum does not depend
on their order. The mesh, and the particles near a particle, are therefore the same on any number of ranks
(docs/n-body.md).
"""

import math

import numpy as np
from numba import float64, int64

from ridgeline.jit.kernel import kernel, subroutine

MASS_BITS = 42  # a particle has the mass 2^MASS_BITS on the mesh, so that one point can hold 2^21 particles
MASS_UNIT = 2.0**-MASS_BITS


def quantum_of(extent: float) -> float:
    """Return the power of two of which positions up to `extent` are multiples."""
    return math.ldexp(1.0, math.frexp(extent)[1] - 51)


@subroutine(inline="always")
def _corner(x, per_length, cells, offset):
    """Return the mesh point below x, counted from the rank's block, and the distance of x from it in cells."""
    place = x * per_length
    cell = min(math.floor(place), cells - 1.0)
    return int(cell) - offset, place - cell


@kernel(lambda: (*[float64[::1]] * 3, float64, int64[::1], int64[:, :, ::1]), nogil=True)
def deposit_clouds(x, y, z, per_length, offset, out_mass):
    """Add the clouds of particles to the corners of their cells, in units of MASS_UNIT (cloud in cell).

    x, y, z : (n,) float64, in this rank's box; per_length : cells per unit of length; offset : (3,) first point of
    this rank's block, x, y, z; out_mass : (n_z + 1, n_y + 1, n_x), with ghosts above in y and z.
    """
    n_x = out_mass.shape[2]
    cells = float64(n_x)  # in each direction, because the mesh is a cube
    for i in range(x.shape[0]):
        a, s = _corner(x[i], per_length, cells, offset[0])
        b, t = _corner(y[i], per_length, cells, offset[1])
        c, r = _corner(z[i], per_length, cells, offset[2])
        next_a = a + 1 if a + 1 < n_x else 0
        for k in range(2):
            in_z = r if k else 1.0 - r
            for j in range(2):
                in_yz = in_z * (t if j else 1.0 - t) * 2.0**MASS_BITS
                row = out_mass[c + k, b + j]
                upper = int64(np.rint(in_yz * s))
                row[next_a] += upper
                row[a] += int64(np.rint(in_yz)) - upper


@kernel(
    lambda T: (*[float64[::1]] * 3, float64, int64[::1], T[:, :, :, ::1], int64, float64[:, ::1]),
    nogil=True,
    fastmath={"contract"},
)
def interpolate_clouds(x, y, z, per_length, offset, fields, first, out):
    """Set out[v, first + i] to fields[v] at position i, by the weights of `deposit_clouds`.

    fields : (m, n_z + 1, n_y + 1, n_x) float32 or float64, with their ghosts filled; out : (m, >= first + n). The
    other arguments are those of `deposit_clouds`.
    """
    n_x = fields.shape[3]
    cells = float64(n_x)
    for i in range(x.shape[0]):
        a, s = _corner(x[i], per_length, cells, offset[0])
        b, t = _corner(y[i], per_length, cells, offset[1])
        c, r = _corner(z[i], per_length, cells, offset[2])
        next_a = a + 1 if a + 1 < n_x else 0
        for v in range(fields.shape[0]):
            total = 0.0
            for k in range(2):
                for j in range(2):
                    weight = (r if k else 1.0 - r) * (t if j else 1.0 - t)
                    row = fields[v, c + k, b + j]
                    total += weight * ((1.0 - s) * row[a] + s * row[next_a])
            out[v, first + i] = total


@kernel(
    lambda T: (
        T[::1],
        int64[::1],
        *[int64] * 3,
        T.underlying_float[::1],
        *[T.underlying_float[::1]] * 3,
        T[:, :, ::1],
    ),
    nogil=True,
)
def load_gradient(modes, start, first_line, n_lines, n_y, green, slope_x, slope_y, slope_z, out_lines):
    """Set lines of modes along y to -grad(phi), which is -i slope phi for each direction, with phi = green * modes.

    modes, green : (n_modes,), with line i at start[i] ... start[i + 1] - 1; slope_x, slope_z : (all lines,);
    slope_y : (n_y,) in the order j_y = 0, 1, ..., -1; out_lines : (3, >= n_lines, >= n_y), components x, y, z.
    """
    for l in range(n_lines):
        begin, end = start[first_line + l], start[first_line + l + 1]
        most = (end - begin) // 2
        x, y, z = out_lines[0, l], out_lines[1, l], out_lines[2, l]
        in_x, in_z = slope_x[first_line + l], slope_z[first_line + l]
        for j in range(2 * most + 1):
            place = j if j <= most else n_y - 2 * most - 1 + j
            real, imaginary = (
                modes[begin + j].real * green[begin + j],
                modes[begin + j].imag * green[begin + j],
            )
            x[place] = complex(in_x * imaginary, -in_x * real)
            y[place] = complex(slope_y[place] * imaginary, -slope_y[place] * real)
            z[place] = complex(in_z * imaginary, -in_z * real)
        for out in (x, y, z):
            out[most + 1 : n_y - most] = 0


@kernel(lambda T: (T[:, ::1], *[int64] * 4, T[:, :, ::1]), nogil=True)
def rows_from_pairs(pairs, plane, first_row, n_rows, n_z, out_padded):
    """Set rows of a padded block from pairs in physical space; see `fourier.real_pairs.block_from_pairs`.

    n_z : planes of the block; out_padded : (n_z + 1, n_y + 1, n_x), whose ghosts above in y and z are not set.
    """
    for i in range(n_rows):
        pair, part = pairs[i // 2], i % 2
        row = out_padded[(first_row + i) % n_z, plane + (first_row + i) // n_z]
        for x in range(row.shape[0]):
            row[x] = pair[2 * x + part]


@kernel(lambda: (float64[:, ::1], int64, float64, float64[:, ::1]), nogil=True)
def kick(force, n, factor, momentum):
    """Add factor * force to the momenta of the first n particles. force, momentum : (3, capacity)."""
    for c in range(3):
        f, p = force[c], momentum[c]
        for i in range(n):
            p[i] += factor * f[i]


@kernel(lambda: (int64[:, ::1], int64, float64, float64[:, ::1]), nogil=True)
def kick_near(force, n, factor, momentum):
    """Do the same as `kick` with forces that are integers, (capacity, 3); their unit is part of the factor."""
    for c in range(3):
        p = momentum[c]
        for i in range(n):
            p[i] += factor * force[i, c]


@kernel(lambda: (float64[:, ::1], int64, float64, float64, float64[:, ::1]), nogil=True)
def drift(momentum, n, factor, quantum, position):
    """Add factor * momentum to positions, rounded to multiples of the quantum. Both arrays : (3, capacity)."""
    for c in range(3):
        p, x = momentum[c], position[c]
        for i in range(n):
            x[i] = quantum * np.rint((x[i] + factor * p[i]) / quantum)
