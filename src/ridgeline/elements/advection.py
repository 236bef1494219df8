"""Advection on spectral elements, dealiased by integrating on more points than the fields have.

out_c = (v, U . grad f_c) for fields c, each element alone. The integrand is a polynomial of degree 3 p, integrated on
m Gauss points per direction. This is exact for m >= (3 p + 1) / 2 on axis-aligned elements (the 3/2 rule). Velocity
and field are interpolated to the fine points, where U is turned to the reference directions once for all fields. The
derivatives of f in the fine plane are taken from its fine values, the one across from values that are interpolated
only in the plane. The transposed interpolation takes the result back. If `fields` begins with the velocity itself
(the same memory), its interpolation is not repeated.

Source: Malm, Schlatter, Fischer, Henningson, J. Sci. Comput. 57 (2013) 254, Sec. 2; Fischer, Lottes, Tufo, Nek5000.
It is one pass over the elements: reads velocity and fields (and 9 (m / n)**3 words per point of fine metrics), writes
out.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.even_odd import EVEN, ODD, even_odd_parts, even_odd_product, parts_size
from ridgeline.elements.helmholtz import fill_cube
from ridgeline.elements.point_loops import advect_points, compiled, scratch, to_reference
from ridgeline.elements.tensor import GENERATED, along_x, along_y
from ridgeline.jit.kernel import subroutine


def fine_metrics(
    metrics: NDArray[Any],
    mass: NDArray[Any],
    weights: NDArray[Any],
    interpolation: NDArray[Any],
    fine_weights: NDArray[Any],
) -> NDArray[Any]:
    """Return fine quadrature weight times Jacobian times metrics on the fine points, [E, 9, m, m, m].

    metrics: [E, 9, n, n, n]; mass: [E, n, n, n]; weights: [n]; interpolation: [m, n] to the fine points;
    fine_weights: [m]. Jacobian times metrics is interpolated. This is set-up: NumPy, element by element.
    """
    n, m = len(weights), len(fine_weights)
    cube = np.einsum("k,j,i->kji", weights, weights, weights)
    fine_cube = np.einsum("k,j,i->kji", fine_weights, fine_weights, fine_weights)
    out = np.empty((len(metrics), 9, m, m, m), metrics.dtype)
    for e in range(len(metrics)):
        values = metrics[e] * (mass[e] / cube) @ interpolation.T
        values = (interpolation @ values).reshape(9, n, m * m)
        out[e] = fine_cube * (interpolation @ values).reshape(9, m, m, m)
    return out


@subroutine(inline="always")
def scaled(matrix, factor, transposed, out):
    """out = factor times matrix, or its transpose; returns out."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if transposed:
                out[j, i] = factor * matrix[i, j]
            else:
                out[i, j] = factor * matrix[i, j]
    return out


@subroutine(inline="always")
def _interpolate(
    products,
    n,
    m,
    rows,
    fine_rows,
    u,
    here,
    parts,
    forth_transposed,
    lines,
    planes,
    planes_start,
    fine,
    fine_start,
):
    """fine = u on the m**3 points; planes = u interpolated in x and y only, [n, m, m].

    parts: of the interpolation.
    """
    along_x(products, m, n, rows, False, lines, 0, forth_transposed, u, here)
    even_odd_product(products, m, m, n, n, False, EVEN, planes, planes_start, parts, 0, lines, 0)
    even_odd_product(
        products, m, fine_rows, n, 1, False, EVEN, fine, fine_start, parts, 0, planes, planes_start
    )


@cache
def make_advection(n: int, m: int, dtype_name: str, axis_aligned: bool, products: int = GENERATED) -> Any:
    """Return the kernel of dealiased advection from n Gauss-Lobatto to m >= n Gauss points per direction.

    kernel(elements, velocity, fields, scale, volume, fine, interpolation, fine_derivative, fine_weights, out)
    elements: int64, the local elements to compute. velocity: [3, E, n, n, n]. fields, out: [c, E, n, n, n]; fields
    may begin with velocity's memory. scale [E, 3], volume [E]: of axis-aligned elements, otherwise arbitrary. fine:
    [E, 9, m, m, m] of curved elements (`fine_metrics`), otherwise arbitrary. interpolation: [m, n]. fine_derivative:
    [m, m], of the fine points. fine_weights: [m]. products: GENERATED or PLAIN (`tensor`).
    """
    rows, points, fine_points, plane = n * n, n**3, m**3, m * m
    fine_rows, plane_points = m * m, n * m * m
    size, fine_size = parts_size(m, n), parts_size(m, m)

    @compiled(dtype_name, "elements r5 r5 r2 r1 r5 r2 r2 r1 w5")
    def advection(
        elements, velocity, fields, scale, volume, fine, interpolation, fine_derivative, fine_weights, out
    ):
        n_fields = fields.shape[0]
        field = velocity.size // 3
        n_shared = 3 if n_fields >= 3 and fields.ctypes.data == velocity.ctypes.data else 0
        velocity, fields, fine, out = (
            velocity.reshape(-1),
            fields.reshape(-1),
            fine.reshape(-1),
            out.reshape(-1),
        )
        transposed = scaled(interpolation, 1.0, True, np.empty((n, m), out.dtype))
        derivative_transposed = scaled(fine_derivative, 1.0, True, np.empty((m, m), out.dtype))
        across = np.empty((m, n), out.dtype)
        along_y(products, m, m, 1, n, False, across, 0, fine_derivative, interpolation, 0)
        forth = even_odd_parts(interpolation, np.empty(size, out.dtype))
        back = even_odd_parts(transposed, np.empty(size, out.dtype))
        across_parts = even_odd_parts(across, np.empty(size, out.dtype))
        derivative_parts = even_odd_parts(fine_derivative, np.empty(fine_size, out.dtype))
        constants = np.empty(3, out.dtype)
        lines = scratch(rows * m, out)
        planes, values = scratch(4 * plane_points, out), scratch(4 * fine_points, out)
        weights = scratch(fine_points, out)
        contravariant = values
        c_r, c_s, c_t = weights, weights, weights
        if axis_aligned:
            fill_cube(fine_weights, weights)
        else:
            contravariant = scratch(3 * fine_points, out)
            c_r, c_s = contravariant[:fine_points], contravariant[fine_points : 2 * fine_points]
            c_t = contravariant[2 * fine_points :]
        u_r, u_s, u_t = scratch(plane, out), scratch(plane, out), scratch(fine_points, out)
        for e in elements:
            for c in range(3):
                here = c * field + e * points
                _interpolate(
                    products,
                    n,
                    m,
                    rows,
                    fine_rows,
                    velocity,
                    here,
                    forth,
                    transposed,
                    lines,
                    planes,
                    c * plane_points,
                    values,
                    c * fine_points,
                )
            if axis_aligned:
                for c in range(3):
                    constants[c] = volume[e] * scale[e, c]
            else:
                to_reference(
                    fine_points,
                    fine,
                    9 * e * fine_points,
                    values,
                    0,
                    values,
                    fine_points,
                    values,
                    2 * fine_points,
                    c_r,
                    c_s,
                    c_t,
                )
            for c in range(n_fields):
                here = c * field + e * points
                place = c if c < n_shared else 3
                if place == 3:
                    _interpolate(
                        products,
                        n,
                        m,
                        rows,
                        fine_rows,
                        fields,
                        here,
                        forth,
                        transposed,
                        lines,
                        planes,
                        3 * plane_points,
                        values,
                        3 * fine_points,
                    )
                even_odd_product(
                    products,
                    m,
                    fine_rows,
                    n,
                    1,
                    False,
                    ODD,
                    u_t,
                    0,
                    across_parts,
                    0,
                    planes,
                    place * plane_points,
                )
                for k in range(m):
                    start = place * fine_points + k * plane
                    along_x(products, m, m, m, False, u_r, 0, derivative_transposed, values, start)
                    even_odd_product(
                        products, m, m, m, 1, False, ODD, u_s, 0, derivative_parts, 0, values, start
                    )
                    advect_points(
                        plane,
                        axis_aligned,
                        constants,
                        weights,
                        contravariant,
                        fine_points,
                        k * plane,
                        u_r,
                        u_s,
                        u_t,
                    )
                even_odd_product(
                    products, n, fine_rows, m, 1, False, EVEN, planes, 3 * plane_points, back, 0, u_t, 0
                )
                even_odd_product(
                    products, n, m, m, n, False, EVEN, lines, 0, back, 0, planes, 3 * plane_points
                )
                along_x(products, n, m, rows, False, out, here, interpolation, lines, 0)

    return advection


@cache
def make_advection_collocated(n: int, dtype_name: str, axis_aligned: bool, products: int = GENERATED) -> Any:
    """Return the kernel of advection at the Gauss-Lobatto points themselves: no dealiasing.

    kernel(elements, velocity, fields, scale, volume, metrics, mass, derivative, weights, out); the arguments are
    those of `make_advection`; metrics [E, 9, n, n, n], mass [E, n, n, n] of curved elements; derivative [n, n];
    weights [n].
    """
    rows, points, size = n * n, n**3, parts_size(n, n)

    @compiled(dtype_name, "elements r5 r5 r2 r1 r5 r4 r2 r1 w5")
    def advection(elements, velocity, fields, scale, volume, metrics, mass, derivative, weights, out):
        n_fields = fields.shape[0]
        field = velocity.size // 3
        velocity, fields, out = velocity.reshape(-1), fields.reshape(-1), out.reshape(-1)
        metrics, mass = metrics.reshape(-1), mass.reshape(-1)
        transposed = scaled(derivative, 1.0, True, np.empty((n, n), out.dtype))
        parts = even_odd_parts(derivative, np.empty(size, out.dtype))
        constants = np.ones(3, out.dtype)
        contravariant = scratch(3 * points, out)
        c_r, c_s = contravariant[:points], contravariant[points : 2 * points]
        c_t = contravariant[2 * points :]
        cube, u_r, u_s = scratch(points, out), scratch(points, out), scratch(points, out)
        u_t = scratch(points, out)
        fill_cube(weights, cube)
        for e in elements:
            here = e * points
            if axis_aligned:
                for c in range(3):
                    constants[c] = volume[e] * scale[e, c]
                    contravariant[c * points : (c + 1) * points] = velocity[
                        c * field + here : c * field + here + points
                    ]
            else:
                to_reference(
                    points,
                    metrics,
                    9 * here,
                    velocity,
                    here,
                    velocity,
                    field + here,
                    velocity,
                    2 * field + here,
                    c_r,
                    c_s,
                    c_t,
                )
            for c in range(n_fields):
                start = c * field + here
                along_x(products, n, n, rows, False, u_r, 0, transposed, fields, start)
                even_odd_product(products, n, n, n, n, False, ODD, u_s, 0, parts, 0, fields, start)
                even_odd_product(products, n, rows, n, 1, False, ODD, u_t, 0, parts, 0, fields, start)
                advect_points(points, axis_aligned, constants, cube, contravariant, points, 0, u_r, u_s, u_t)
                if axis_aligned:
                    out[start : start + points] = u_t
                else:
                    for i in range(points):
                        out[start + i] = mass[here + i] * u_t[i]

    return advection
