"""First derivatives on spectral elements: gradient, weak divergence, curl; each element alone.

Arguments common to the kernels made here, arrays C-contiguous, of the dtype unless said:
elements: int64, the local elements to work on. Scalars [E, n, n, n]; vectors [3, E, n, n, n], components x, y, z.
scale [E, 3], volume [E]: of axis-aligned elements, else any. metrics [E, 9, n, n, n]: of curved elements, else any.
derivative [n, n]; weights [n]; mass [E, n, n, n], read for curved elements only.

Source: Deville, Fischer, Mund, "High-Order Methods for Incompressible Fluid Flow", 2002, Secs. 4.3 and 6.3.
One pass: an element's data passes from and to memory once.
"""

from functools import cache

import numpy as np
from numba import njit

from ridgeline.elements.helmholtz import fill_cube
from ridgeline.elements.metrics import curl_points, multiply_three, to_physical, to_reference
from ridgeline.elements.points import compiled, scale_points, scratch
from ridgeline.elements.tensor import along_x, along_y, along_z


@njit(inline="always")
def scaled(matrix, factor, transposed, out):
    """out = factor times matrix, or its transpose; returns out."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if transposed:
                out[j, i] = factor * matrix[i, j]
            else:
                out[i, j] = factor * matrix[i, j]
    return out


@cache
def make_gradient(n: int, dtype_name: str, axis_aligned: bool):
    """Return kernel(elements, u, scale, metrics, derivative, out): out [3] = grad u at the points."""
    rows, points = n * n, n**3
    arguments = "elements r4 r2 r5 r2 w5"

    if axis_aligned:

        @compiled(dtype_name, arguments)
        def gradient(elements, u, scale, metrics, derivative, out):
            field = u.size
            u, out = u.reshape(-1), out.reshape(-1)
            matrices = np.empty((3, n, n), u.dtype)
            for e in elements:
                here = e * points
                for i in range(n):
                    for j in range(n):
                        matrices[0, j, i] = scale[e, 0] * derivative[i, j]
                        matrices[1, i, j] = scale[e, 1] * derivative[i, j]
                        matrices[2, i, j] = scale[e, 2] * derivative[i, j]
                along_x(n, n, rows, False, out, here, matrices[0], u, here)
                along_y(n, n, n, n, False, out, field + here, matrices[1], u, here)
                along_z(n, n, rows, False, out, 2 * field + here, matrices[2], u, here)

        return gradient

    @compiled(dtype_name, arguments)
    def gradient(elements, u, scale, metrics, derivative, out):
        field = u.size
        u, metrics, out = u.reshape(-1), metrics.reshape(-1), out.reshape(-1)
        transposed = scaled(derivative, 1.0, True, np.empty((n, n), u.dtype))
        r, s, t = scratch(points, u), scratch(points, u), scratch(points, u)
        for e in elements:
            here = e * points
            along_x(n, n, rows, False, r, 0, transposed, u, here)
            along_y(n, n, n, n, False, s, 0, derivative, u, here)
            along_z(n, n, rows, False, t, 0, derivative, u, here)
            to_physical(
                points, metrics, 9 * here, r, s, t, out, here, out, field + here, out, 2 * field + here
            )

    return gradient


@cache
def make_weak_divergence(n: int, dtype_name: str, axis_aligned: bool):
    """Return kernel(elements, f, scale, volume, metrics, mass, derivative, weights, out): out = (grad v, f).

    f: [3, E, n, n, n]. Axis-aligned elements take the weights out of the sum: w D^T w / w, so that f itself is
    multiplied and nothing is stored between.
    """
    rows, points = n * n, n**3
    arguments = "elements r5 r2 r1 r5 r4 r2 r1 w4"

    if axis_aligned:

        @compiled(dtype_name, arguments)
        def weak_divergence(elements, f, scale, volume, metrics, mass, derivative, weights, out):
            field = out.size
            f, out = f.reshape(-1), out.reshape(-1)
            matrices = np.empty((3, n, n), f.dtype)
            cube = scratch(points, f)
            fill_cube(weights, cube)
            for e in elements:
                here = e * points
                for i in range(n):
                    for j in range(n):
                        adjoint = volume[e] * derivative[j, i] * weights[j] / weights[i]
                        matrices[0, j, i] = scale[e, 0] * adjoint
                        matrices[1, i, j] = scale[e, 1] * adjoint
                        matrices[2, i, j] = scale[e, 2] * adjoint
                along_x(n, n, rows, False, out, here, matrices[0], f, here)
                along_y(n, n, n, n, True, out, here, matrices[1], f, field + here)
                along_z(n, n, rows, True, out, here, matrices[2], f, 2 * field + here)
                scale_points(points, cube, 0, out, here, cube, 0)

        return weak_divergence

    @compiled(dtype_name, arguments)
    def weak_divergence(elements, f, scale, volume, metrics, mass, derivative, weights, out):
        field = out.size
        f, metrics, mass, out = f.reshape(-1), metrics.reshape(-1), mass.reshape(-1), out.reshape(-1)
        transposed = scaled(derivative, 1.0, True, np.empty((n, n), f.dtype))
        r, s, t = scratch(points, f), scratch(points, f), scratch(points, f)
        for e in elements:
            here = e * points
            to_reference(points, metrics, 9 * here, f, here, f, field + here, f, 2 * field + here, r, s, t)
            multiply_three(points, mass, here, r, s, t)
            along_x(n, n, rows, False, out, here, derivative, r, 0)
            along_y(n, n, n, n, True, out, here, transposed, s, 0)
            along_z(n, n, rows, True, out, here, transposed, t, 0)

    return weak_divergence


@cache
def make_curl(n: int, dtype_name: str, axis_aligned: bool):
    """Return kernel(elements, u, scale, metrics, derivative, out): out = curl u; both [3, E, n, n, n]."""
    rows, points = n * n, n**3
    arguments = "elements r5 r2 r5 r2 w5"

    if axis_aligned:

        @compiled(dtype_name, arguments)
        def curl(elements, u, scale, metrics, derivative, out):
            field = u.size // 3
            u, out = u.reshape(-1), out.reshape(-1)
            matrix = np.empty((n, n), u.dtype)
            for e in elements:
                x, y, z = e * points, e * points + field, e * points + 2 * field
                along_y(n, n, n, n, False, out, x, scaled(derivative, scale[e, 1], False, matrix), u, z)
                along_z(n, n, rows, True, out, x, scaled(derivative, -scale[e, 2], False, matrix), u, y)
                along_z(n, n, rows, False, out, y, scaled(derivative, scale[e, 2], False, matrix), u, x)
                along_x(n, n, rows, True, out, y, scaled(derivative, -scale[e, 0], True, matrix), u, z)
                along_x(n, n, rows, False, out, z, scaled(derivative, scale[e, 0], True, matrix), u, y)
                along_y(n, n, n, n, True, out, z, scaled(derivative, -scale[e, 1], False, matrix), u, x)

        return curl

    @compiled(dtype_name, arguments)
    def curl(elements, u, scale, metrics, derivative, out):
        field = u.size // 3
        u, metrics, out = u.reshape(-1), metrics.reshape(-1), out.reshape(-1)
        transposed = scaled(derivative, 1.0, True, np.empty((n, n), u.dtype))
        parts = scratch(9 * points, u)
        for e in elements:
            x, y, z = e * points, e * points + field, e * points + 2 * field
            for component in range(3):
                here, part = e * points + component * field, 3 * component * points
                along_x(n, n, rows, False, parts, part, transposed, u, here)
                along_y(n, n, n, n, False, parts, part + points, derivative, u, here)
                along_z(n, n, rows, False, parts, part + 2 * points, derivative, u, here)
            curl_points(points, metrics, 9 * e * points, parts, out, x, out, y, out, z)

    return curl
