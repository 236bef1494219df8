"""A probe of a core: the gradient on spectral elements, by generated matrix products, in and out of cache."""

from functools import cache
from typing import Any

from numba import float64, int64, types

from ridgeline.elements.tensor import GENERATED, along_x, along_y, along_z
from ridgeline.jit.kernel import kernel


@cache
def make_gradient_probe(n: int) -> Any:
    """Return the compiled kernel(u, derivative, transposed, repeats, out): reference derivatives of every element.

    u [s, n, n, n] -> out [s, 3, n, n, n] (d/dr, d/ds, d/dt), float64, `repeats` times over all elements; derivative
    and its transpose [n, n]. 6 n operations per point; reads 1 word per point, writes 3.
    """
    rows, points = n * n, n**3
    derivative = types.Array(float64, 2, "C", readonly=True)

    @kernel((float64[:, :, :, ::1], derivative, derivative, int64, float64[:, :, :, :, ::1]), nogil=True)
    def probe(u, derivative, transposed, repeats, out):
        u, out = u.reshape(-1), out.reshape(-1)
        for _ in range(repeats):
            for e in range(u.size // points):
                here, there = e * points, 3 * e * points
                along_x(GENERATED, n, n, rows, False, out, there, transposed, u, here)
                along_y(GENERATED, n, n, n, n, False, out, there + points, derivative, u, here)
                along_z(GENERATED, n, n, rows, False, out, there + 2 * points, derivative, u, here)

    return probe
