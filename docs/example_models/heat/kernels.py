"""The compiled sweep of the heat model."""

import numba

from ridgeline.api import kernel


@kernel(lambda field: (field, field.dtype, field), parallel=True)
def advance_heat(t, factor, out):
    """One forward Euler step: out = t + factor * (sum of the 6 neighbours - 6 t).

    Parameters
    ----------
    t, out : (nz+2, ny+2, nx+2) float32 or float64 [temperature]; ghosts of t filled, those of out left alone
    factor : dt * D, same type

    Communication: none.  Cost: 9 flops, 2 values of memory traffic per cell.
    """
    nz, ny, nx = t.shape[0] - 2, t.shape[1] - 2, t.shape[2] - 2
    for k in numba.prange(1, nz + 1):
        for j in range(1, ny + 1):
            for i in range(1, nx + 1):
                x = t[k, j, i - 1] + t[k, j, i + 1]
                y = t[k, j - 1, i] + t[k, j + 1, i]
                z = t[k - 1, j, i] + t[k + 1, j, i]
                out[k, j, i] = t[k, j, i] + factor * (((x + y) + z) - 6 * t[k, j, i])
