"""Fields taken from one set of points per element to another, each element alone.

out = (J (x) J (x) J) u. Interpolation between orders (J: `gll_interpolation`), its transpose (J transposed:
restriction of residuals), to Gauss or plotting points, and an explicit filter (J: the filter's matrix, n_to = n_from;
out may be u).
"""

from functools import cache
from typing import Any

import numpy as np

from ridgeline.elements.points import compiled, scratch
from ridgeline.elements.tensor import along_x, along_y, along_z


@cache
def make_interpolate(n_from: int, n_to: int, dtype_name: str, accumulate: bool = False) -> Any:
    """Return kernel(elements, u, matrix, out): out (+)= matrix in each direction of u.

    elements: int64, the local elements to work on. u: [E, n_from, n_from, n_from]; matrix: [n_to, n_from]; out:
    [E, n_to, n_to, n_to]; with `accumulate` the result is added. The transpose of kernel (n_from, n_to) is kernel
    (n_to, n_from) with the transposed matrix, contiguous. One pass: reads u, writes out.
    """
    rows, fast, points_from, points_to = n_from * n_from, n_to * n_to, n_from**3, n_to**3

    @compiled(dtype_name, "elements r4 r2 w4")
    def interpolate(elements, u, matrix, out):
        u, out = u.reshape(-1), out.reshape(-1)
        transposed = np.empty((n_from, n_to), out.dtype)
        for i in range(n_to):
            for j in range(n_from):
                transposed[j, i] = matrix[i, j]
        lines, planes = scratch(rows * n_to, out), scratch(n_from * fast, out)
        for e in elements:
            along_x(n_to, n_from, rows, False, lines, 0, transposed, u, e * points_from)
            along_y(n_to, n_from, n_from, n_to, False, planes, 0, matrix, lines, 0)
            along_z(n_to, n_from, fast, accumulate, out, e * points_to, matrix, planes, 0)

    return interpolate
