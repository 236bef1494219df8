"""Kernels that make fields of Fourier modes solenoidal: k_x u_x + k_y u_y + k_z u_z = 0 in every mode.

Modes are stored line by line (of fixed k_x, k_z), in a line j_y = 0 ... most, -most ... -1 with k_y = j_y unit_y.
Arithmetic is float64 whatever the precision of the fields, and each mode is independent of the others, so that
results have the same bits on every rank.
"""

import numpy as np
from numba import float64, int64

from ridgeline.jit.kernel import kernel


@kernel(lambda T: (int64[::1], float64[::1], float64[::1], float64, *[T[::1]] * 3), nogil=True)
def recover_y(most, kx, kz, unit_y, ux, uz, out_uy):
    """Set u_y = -(k_x u_x + k_z u_z) / k_y wherever j_y != 0; modes with j_y = 0 do not change.

    most : (n_lines,) int64; kx, kz : (n_lines,) float64; ux, uz, out_uy : (n_modes,) complex
    Source: Yeung et al. (GESTS), Eq. 12. Cost: reads two fields and writes one; 2 divisions a mode.
    """
    first = 0
    for line in range(most.shape[0]):
        m = most[line]
        a, b = -kx[line], -kz[line]
        for j in range(1, 2 * m + 1):
            jy = j if j <= m else j - 2 * m - 1
            ky = unit_y * np.float64(jy)
            x, z = ux[first + j], uz[first + j]
            real = (a * np.float64(x.real) + b * np.float64(z.real)) / ky
            imag = (a * np.float64(x.imag) + b * np.float64(z.imag)) / ky
            out_uy[first + j] = complex(real, imag)
        first += 2 * m + 1


@kernel(
    lambda T: (int64[::1], float64[::1], float64[::1], float64, float64[::1], *[T[::1]] * 3, float64[::1]),
    nogil=True,
)
def project(most, kx, kz, unit_y, weight, ux, uy, uz, out_sums):
    """Remove the part along k from every mode: u -> u - k (k.u) / k^2; the mode k = 0 does not change.

    most : (n_lines,) int64; kx, kz, weight : (n_lines,) float64; ux, uy, uz : (n_modes,) complex, overwritten
    out_sums : (3,) float64: sums of weight |u|^2 before, of weight |u|^2 of what is removed, and of weight |k.u|^2
        before
    """
    before, removed, divergence = 0.0, 0.0, 0.0
    first = 0
    for line in range(most.shape[0]):
        m = most[line]
        w, a, c = weight[line], kx[line], kz[line]
        for j in range(2 * m + 1):
            b = unit_y * np.float64(j if j <= m else j - 2 * m - 1)
            x = np.complex128(ux[first + j])
            y = np.complex128(uy[first + j])
            z = np.complex128(uz[first + j])
            before += w * (x.real**2 + x.imag**2 + y.real**2 + y.imag**2 + z.real**2 + z.imag**2)
            square = a * a + b * b + c * c
            if square > 0.0:
                along = a * x + b * y + c * z
                size = along.real**2 + along.imag**2
                divergence += w * size
                removed += w * size / square
                along /= square
                ux[first + j] = x - a * along
                uy[first + j] = y - b * along
                uz[first + j] = z - c * along
        first += 2 * m + 1
    out_sums[0], out_sums[1], out_sums[2] = before, removed, divergence


@kernel(lambda T: (int64[::1], float64[::1], T[::1]), nogil=True)
def sum_of_squares(most, weight, values):
    """Return the sum over all modes of weight |value|^2, float64.

    most : (n_lines,) int64; weight : (n_lines,) float64, of each line; values : (n_modes,) complex
    """
    total = 0.0
    first = 0
    for line in range(most.shape[0]):
        end = first + 2 * most[line] + 1
        square = 0.0
        for i in range(first, end):
            real, imag = np.float64(values[i].real), np.float64(values[i].imag)
            square += real * real + imag * imag
        total += weight[line] * square
        first = end
    return total
