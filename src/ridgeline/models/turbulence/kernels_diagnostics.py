"""Kernels of diagnostics on CPUs: sums over modes and over points, histograms, and local operators.

Modes are stored as in `fourier.modes`: a field is (n_modes,), and line i has the places start[i] ... start[i + 1] -
1, whose j_y are 0 ... most, -most ... -1. Points are contiguous float32 or float64, seen as rows (n_rows, n) of
whole grid lines in x. All sums and powers are float64 whatever the precision of the fields. The sums of a line of
modes and of a row of points do not depend on how the box is cut among the ranks.
"""

import math

import numpy as np
from numba import complex128, float64, int64
from numpy.typing import NDArray

from ridgeline.fourier.modes import HALF
from ridgeline.jit.kernel import kernel

FLOW_SUMS = (
    "energy_x",  # |u_x|^2 / 2 of the modes with k != 0, and so on
    "energy_y",
    "energy_z",
    "mean_energy",  # |u|^2 / 2 of k = 0
    "enstrophy",  # |k x u|^2 / 2
    "gradient",  # k^2 |u|^2
    "divergence",  # |k . u|^2
    "helicity",  # u* . (i k x u)
    "energy_length",  # |u|^2 / (2 k)
)
SCALAR_SUMS = (
    "variance",  # |theta|^2 of the modes with k != 0
    "gradient",  # k^2 |theta|^2
    "flux_x",  # u_x* theta of the modes with k != 0, and so on
    "flux_y",
    "flux_z",
)


@kernel(
    lambda T: (T[:, ::1], int64[::1], *[float64[::1]] * 3, float64, float64, *[float64[:, ::1]] * 2),
    nogil=True,
)
def sum_modes(fields, start, kz, kx, weight, unit_y, shell_width, out_sums, out_shells):
    """Sum what `FLOW_SUMS` and `SCALAR_SUMS` name over each line, and spectra over shells.

    Parameters
    ----------
    fields : (3 + S, n_modes) complex, velocity components x, y, z and S scalars
    start : (n_lines + 1,) int64; kz, kx, weight : (n_lines,) float64; unit_y : 2 pi / L_y
    shell_width : a mode belongs to shell floor(k / shell_width + HALF)
    out_sums : (9 + 5 S, n_lines) float64, overwritten
    out_shells : (2 + S, n_shells) float64, added to: |u|^2 / 2, k^2 |u|^2 and |theta|^2 of each scalar

    Cost: reads each field once from memory; a line is read again from cache for each scalar.
    """
    n_scalars = fields.shape[0] - 3
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        x, z, w = kx[line], kz[line], weight[line]
        flat = x * x + z * z
        xx = yy = zz = mean = curl = gradient = divergence = helicity = length = 0.0
        for place in range(count):
            m = first + place
            y = unit_y * (place if place <= most else place - count)
            k2 = flat + y * y
            xr, xi = np.float64(fields[0, m].real), np.float64(fields[0, m].imag)
            yr, yi = np.float64(fields[1, m].real), np.float64(fields[1, m].imag)
            zr, zi = np.float64(fields[2, m].real), np.float64(fields[2, m].imag)
            ex, ey, ez = xr * xr + xi * xi, yr * yr + yi * yi, zr * zr + zi * zi
            square = ex + ey + ez
            if k2 > 0.0:
                k = math.sqrt(k2)
                xx += ex
                yy += ey
                zz += ez
                length += square / k
                shell = int(k / shell_width + HALF)
            else:
                mean += square
                shell = 0
            ar, ai = y * zr - z * yr, y * zi - z * yi
            br, bi = z * xr - x * zr, z * xi - x * zi
            cr, ci = x * yr - y * xr, x * yi - y * xi
            dr, di = x * xr + y * yr + z * zr, x * xi + y * yi + z * zi
            curl += ar * ar + ai * ai + br * br + bi * bi + cr * cr + ci * ci
            divergence += dr * dr + di * di
            gradient += k2 * square
            # Re(conj(u) . i (a, b, c)) = u_imag . c_real - u_real . c_imag
            helicity += xi * ar - xr * ai + yi * br - yr * bi + zi * cr - zr * ci
            out_shells[0, shell] += 0.5 * w * square
            out_shells[1, shell] += w * k2 * square
        out_sums[0, line] = 0.5 * w * xx
        out_sums[1, line] = 0.5 * w * yy
        out_sums[2, line] = 0.5 * w * zz
        out_sums[3, line] = 0.5 * w * mean
        out_sums[4, line] = 0.5 * w * curl
        out_sums[5, line] = w * gradient
        out_sums[6, line] = w * divergence
        out_sums[7, line] = w * helicity
        out_sums[8, line] = 0.5 * w * length
        for s in range(n_scalars):
            variance = slope = fx = fy = fz = 0.0
            for place in range(count):
                m = first + place
                y = unit_y * (place if place <= most else place - count)
                k2 = flat + y * y
                tr, ti = np.float64(fields[3 + s, m].real), np.float64(fields[3 + s, m].imag)
                square = tr * tr + ti * ti
                if k2 > 0.0:
                    variance += square
                    slope += k2 * square
                    fx += fields[0, m].real * tr + fields[0, m].imag * ti
                    fy += fields[1, m].real * tr + fields[1, m].imag * ti
                    fz += fields[2, m].real * tr + fields[2, m].imag * ti
                    shell = int(math.sqrt(k2) / shell_width + HALF)
                else:
                    shell = 0
                out_shells[2 + s, shell] += w * square
            base = 9 + 5 * s
            out_sums[base, line] = w * variance
            out_sums[base + 1, line] = w * slope
            out_sums[base + 2, line] = w * fx
            out_sums[base + 3, line] = w * fy
            out_sums[base + 4, line] = w * fz


@kernel(
    lambda T: (*[T[::1], int64, float64] * 2, int64[::1], *[float64[::1]] * 2, float64, T[::1]), nogil=True
)
def combine_derivatives(a, axis_a, scale_a, b, axis_b, scale_b, start, kz, kx, unit_y, out):
    """Set out = i (scale_a k[axis_a] a + scale_b k[axis_b] b): a sum of two derivatives.

    a, b, out : (n_modes,) complex of one dtype; out must be neither a nor b; axis 0, 1, 2 is x, y, z; scales float64
    """
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        flat_a = kx[line] if axis_a == 0 else (kz[line] if axis_a == 2 else 0.0)
        flat_b = kx[line] if axis_b == 0 else (kz[line] if axis_b == 2 else 0.0)
        tall_a = unit_y if axis_a == 1 else 0.0
        tall_b = unit_y if axis_b == 1 else 0.0
        for place in range(count):
            m = first + place
            j = place if place <= most else place - count
            p = scale_a * (flat_a + tall_a * j)
            q = scale_b * (flat_b + tall_b * j)
            out[m] = complex(-(p * a[m].imag + q * b[m].imag), p * a[m].real + q * b[m].real)


@kernel(lambda T: (T[::1], T[::1], int64, int64[::1], *[float64[::1]] * 2, float64, T[::1]), nogil=True)
def streamfunction_modes(second, third, axis, start, kz, kx, unit_y, out):
    """Set out to the modes of the streamfunction in planes across an axis: i (k_s u_t - k_t u_s)/(k_s^2 + k_t^2).

    second, third : (n_modes,) complex, u_s and u_t along the axes after `axis` in cyclic order; out is neither
    """
    along_s, along_t = (axis + 1) % 3, (axis + 2) % 3
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        for place in range(count):
            m = first + place
            ky = unit_y * (place if place <= most else place - count)
            s = kx[line] if along_s == 0 else (ky if along_s == 1 else kz[line])
            t = kx[line] if along_t == 0 else (ky if along_t == 1 else kz[line])
            square = s * s + t * t
            inverse = 1.0 / square if square > 0.0 else 0.0
            p, q = inverse * s, inverse * t
            a, b = third[m], second[m]
            out[m] = complex(q * b.imag - p * a.imag, p * a.real - q * b.real)


@kernel(lambda T: (T[::1], complex128[::1], complex128[::1], int64[::1], T[::1]), nogil=True)
def shift_modes(field, phase_y, phase_flat, start, out):
    """Set out = field exp(i k . d): the same field on a grid displaced by d. out may be field.

    phase_y : (N_y,) complex128, exp(i k_y d_y) at j_y modulo N_y
    phase_flat : (n_lines,) complex128, exp(i (k_x d_x + k_z d_z)); the conjugates of both undo the shift
    """
    ny = len(phase_y)
    for line in range(len(phase_flat)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        flat = phase_flat[line]
        for place in range(count):
            m = first + place
            j = place if place <= most else place - count + ny
            out[m] = field[m] * (flat * phase_y[j])


@kernel(
    lambda T: (
        T[::1],
        int64,
        int64,
        float64,
        T[:, ::1],
        int64[::1],
        *[float64[::1]] * 3,
        float64,
        float64,
        T[::1],
        float64[::1],
    ),
    nogil=True,
)
def add_stress(
    stress, i, j, scale, velocity, start, kz, kx, weight, unit_y, shell_width, out_pressure, out_shells
):
    """Add the contributions of the products u_i u_j and u_j u_i to the pressure and to the transfer spectrum.

    Parameters
    ----------
    stress : (n_modes,) complex, the modes of u_i u_j; i <= j : 0, 1, 2 is x, y, z
    scale : float64, 1 over the number of evaluations that are averaged
    velocity : (3, n_modes) complex
    out_pressure : (n_modes,) complex, added to: -k_i k_j / k^2 times stress, both orders (paper, Eq. 11)
    out_shells : (n_shells,) float64, added to: Re(u_j* (-i k_i stress)), both orders

    The other arguments are those of `sum_modes`. The nonlinear term need not be projected for the transfer, because u
    is solenoidal and the gradient part does no work on it in any mode.
    """
    both = 2.0 if i != j else 1.0
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        x, z, w = kx[line], kz[line], weight[line] * scale
        for place in range(count):
            m = first + place
            y = unit_y * (place if place <= most else place - count)
            k2 = x * x + z * z + y * y
            if k2 > 0.0:
                ki = x if i == 0 else (y if i == 1 else z)
                kj = x if j == 0 else (y if j == 1 else z)
                sr, si = np.float64(stress[m].real), np.float64(stress[m].imag)
                factor = -both * scale * ki * kj / k2
                out_pressure[m] += complex(factor * sr, factor * si)
                # Re(conj(u) (-i s)) = u_real s_imag - u_imag s_real
                work = ki * (velocity[j, m].real * si - velocity[j, m].imag * sr)
                if i != j:
                    work += kj * (velocity[i, m].real * si - velocity[i, m].imag * sr)
                out_shells[int(math.sqrt(k2) / shell_width + HALF)] += w * work


@kernel(lambda T: (T[::1], int64[::1], *[float64[::1]] * 3, float64, float64, float64[::1]), nogil=True)
def add_spectrum(field, start, kz, kx, weight, unit_y, shell_width, out_shells):
    """Add |field|^2 of each mode to its shell.

    field : (n_modes,) complex; out_shells : (n_shells,) float64, added to; the others are those of `sum_modes`
    """
    for line in range(len(kz)):
        first = start[line]
        count = start[line + 1] - first
        most = (count - 1) // 2
        flat, w = kx[line] * kx[line] + kz[line] * kz[line], weight[line]
        for place in range(count):
            y = unit_y * (place if place <= most else place - count)
            real, imag = np.float64(field[first + place].real), np.float64(field[first + place].imag)
            out_shells[int(math.sqrt(flat + y * y) / shell_width + HALF)] += w * (real * real + imag * imag)


@kernel(lambda T: (T[::1],), nogil=True)
def first_nonfinite(field):
    """Return the place of the first number that is not finite, -1 if there is none. field : (n,) complex."""
    for m in range(len(field)):
        if not (math.isfinite(field[m].real) and math.isfinite(field[m].imag)):
            return m
    return -1


POWERS = 4


@kernel(lambda T: (T[:, ::1], float64[:, ::1]), nogil=True)
def sum_powers(rows, out_sums):
    """Set out_sums[p - 1, row] to the sum of x^p over each row, p = 1 ... 4. out_sums : (4, n_rows) float64."""
    for row in range(rows.shape[0]):
        first = second = third = fourth = 0.0
        for x in rows[row]:
            value = np.float64(x)
            square = value * value
            first += value
            second += square
            third += square * value
            fourth += square * square
        out_sums[0, row] = first
        out_sums[1, row] = second
        out_sums[2, row] = third
        out_sums[3, row] = fourth


def octave_edges(lowest: int, highest: int, bits: int) -> NDArray[np.float64]:
    """Return the edges of the bins of `count_octaves`: 2^bits in each octave from 2^lowest to 2^highest."""
    steps = np.arange((highest - lowest) << bits)
    edges = np.ldexp(1.0 + (steps & ((1 << bits) - 1)) / (1 << bits), lowest + (steps >> bits))
    return np.append(edges, 2.0**highest)


@kernel(lambda T: (T[:, ::1], float64, int64, int64, int64[::1]), nogil=True)
def count_octaves(rows, inverse_unit, lowest, bits, out_counts):
    """Count x times inverse_unit in the bins of `octave_edges`, which are nearly equal in the logarithm.

    rows : (n_rows, n) values >= 0; inverse_unit : float64 > 0; lowest : exponent of the first octave
    out_counts : (n_bins + 2,) int64, added to: below the first bin, the bins, at or above the last edge

    The exponent and the leading bits of a float64 are the number of its bin, so that no logarithm is needed and no
    edge is rounded.
    """
    drop = 52 - bits
    first = (1023 + lowest) << bits
    last = len(out_counts) - 1
    for row in range(rows.shape[0]):
        for x in rows[row]:
            place = (np.float64(np.float64(x) * inverse_unit).view(np.int64) >> drop) - first + 1
            out_counts[min(max(place, 0), last)] += 1


@kernel(lambda T: (T[:, ::1], float64, int64, int64[::1]), nogil=True)
def count_evenly(rows, inverse_width, middle, out_counts):
    """Count values of either sign in bins of one width; an edge lies at zero, and belongs to the bin above it.

    rows : (n_rows, n) finite; inverse_width : float64, 1 / width; middle : bins below zero
    out_counts : (n_bins + 2,) int64, added to: below the first bin, the bins, at or above the last edge
    """
    last = len(out_counts) - 1
    for row in range(rows.shape[0]):
        for x in rows[row]:
            place = (
                math.floor(min(max(np.float64(x) * inverse_width, -middle - 1.0), 1.0 * last)) + middle + 1
            )
            out_counts[min(place, last)] += 1


@kernel(lambda T: (T[:, ::1], int64[::1], float64[:, ::1]), nogil=True)
def add_increments(rows, offsets, out_sums):
    """Add powers 2, 3, 4 of row[i + offset] - row[i] of all rows, which are periodic.

    rows : (n_rows, n) real; offsets : (n_offsets,) int64, 1 ... n; out_sums : (3, n_offsets) float64, added to
    """
    n = rows.shape[1]
    for row in range(rows.shape[0]):
        for o in range(len(offsets)):
            offset = offsets[o]
            second = third = fourth = 0.0
            for part in range(2):
                first, end, other = (0, n - offset, offset) if part == 0 else (n - offset, n, offset - n)
                for i in range(first, end):
                    step = np.float64(rows[row, i + other]) - np.float64(rows[row, i])
                    square = step * step
                    second += square
                    third += square * step
                    fourth += square * square
            out_sums[0, o] += second
            out_sums[1, o] += third
            out_sums[2, o] += fourth


@kernel(lambda T: (T[::1], T, T[::1]), nogil=True)
def add_squares(values, scale, out):
    """Add scale values^2 to out. (n,) each, one dtype; scale of that dtype."""
    for i in range(len(values)):
        out[i] += scale * values[i] * values[i]


@kernel(lambda T: (T[::1], T, T[::1]), nogil=True)
def add_magnitudes(values, scale, out):
    """Add scale |values| to out. (n,) each, one dtype; scale of that dtype."""
    for i in range(len(values)):
        out[i] += scale * abs(values[i])


@kernel(lambda T: (T[::1], T[::1], T[::1]), nogil=True)
def multiply(a, b, out):
    """Set out = a * b. (n,) each, one dtype."""
    for i in range(len(out)):
        out[i] = a[i] * b[i]


def offsets_along(n: int) -> NDArray[np.int64]:
    """Return separations in grid cells, int64, ascending: 2^m and 3 2^m up to n / 2, and n / 2 itself."""
    powers = 2 ** np.arange(n.bit_length())
    every = np.unique(np.concatenate([powers, 3 * powers, [n // 2]]))
    return every[every <= n // 2].astype(np.int64)
