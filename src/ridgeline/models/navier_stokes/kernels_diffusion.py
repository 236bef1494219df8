"""The compiled pass of a viscosity or diffusivity that varies: what it adds to the weak rates of its time level.

With the reference nu_0, which the scheme takes implicitly as nu_0 lap u, and nu(x, t, scalars) of a formula,

    div(nu (grad u + grad u^T)) = nu_0 lap u + div(tau),   tau = (nu - nu_0) (grad u + grad u^T - I div u),

as div u = 0, and div(tau) is extrapolated with the other rates, as is div((k - k_0) grad f) of a scalar. The last
term of tau makes div(tau) = (nu - nu_0) lap u for a constant nu, whatever remains of div u: without it, modes with a
divergence are diffused twice as fast, and limit the time step. The weak form of div(tau) is
-(grad v, tau) + <v, tau n>, with the integral over all sides of the domain: the force in the pressure equation must
be div(tau) up to the sides, and an outflow keeps its condition, p = 0 and du/dn = 0. A scalar has no such integral,
and so the flux that a side gives is k df/dn. `time_stepping.diffusion_limit` says which steps are stable.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.even_odd import ODD, even_odd_parts, even_odd_product, parts_size
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.helmholtz import fill_cube
from ridgeline.elements.point_loops import compiled, scratch, to_physical, to_reference
from ridgeline.elements.tensor import along_x
from ridgeline.jit.kernel import subroutine


def faces_at_sides(geometry: ElementGeometry, periodic: Collection[str]) -> NDArray[np.int64]:
    """Return 1 for the faces, 0 ... 5, of this rank's elements at a side of the domain, 0 for others, [E, 6].

    periodic: the sides of the box that are not sides of the domain.
    """
    flags = np.zeros((geometry.grid.n_elements, 6), np.int64)
    for name, side in geometry.sides.items():
        flags[side.elements, side.faces] = name not in periodic
    return flags


@subroutine
def _subtract_through(n, face, end, flux, out, here):
    """out -= the flux through a face of an element, 0 ... 5, over the end weight of the quadrature across it."""
    axis, upper = face // 2, face % 2
    across = n**axis
    first = (n - 1) * across * upper
    slow = n if axis == 2 else n * n
    fast = n if axis == 0 else 1
    factor = end if upper else -end
    for i in range(n):
        for j in range(n):
            p = first + i * slow + j * fast
            out[here + p] -= factor * flux[p]


@subroutine
def _flux(points, c, symmetric, factor, stretch, gradient, x, y, z):
    """(x, y, z) = factor times row c of the gradient, of a vector with its transpose and less its divergence."""
    for p in range(points):
        a = stretch[0] * gradient[3 * c * points + p]
        b = stretch[1] * gradient[(3 * c + 1) * points + p]
        d = stretch[2] * gradient[(3 * c + 2) * points + p]
        if symmetric:
            divergence = (
                stretch[0] * gradient[p]
                + stretch[1] * gradient[4 * points + p]
                + stretch[2] * gradient[8 * points + p]
            )
            a += stretch[c] * gradient[c * points + p]
            b += stretch[c] * gradient[(3 + c) * points + p]
            d += stretch[c] * gradient[(6 + c) * points + p]
            if c == 0:
                a -= divergence
            elif c == 1:
                b -= divergence
            else:
                d -= divergence
        x[p] = stretch[0] * factor[p] * a
        y[p] = stretch[1] * factor[p] * b
        z[p] = stretch[2] * factor[p] * d


@cache
def make_variable_diffusion(n: int, axis_aligned: bool, components: int, products: int) -> Any:
    """Return kernel(elements, excess, at_sides, fields, scale, volume, metrics, mass, derivative, weights, out).

    out += (grad v, tau) - <v, tau n>, tau = excess (grad u + grad u^T - I div u), of a velocity (components = 3), or
    out += (grad q, excess grad f) of a scalar (components = 1), unassembled. excess: [E, n, n, n], the coefficient
    beyond the implicit one; at_sides: [E, 6], the faces of the integral <., .> (`faces_at_sides`); fields, out:
    [components, E, n, n, n]. One pass: reads 1 + components words per point (and 10 of curved elements), reads and
    writes `components`.
    """
    rows, points, size = n * n, n**3, parts_size(n, n)
    symmetric = components == 3

    @compiled("float64", "elements r4 i2 r5 r2 r1 r5 r4 r2 r1 w5")
    def variable_diffusion(
        elements, excess, at_sides, fields, scale, volume, metrics, mass, derivative, weights, out
    ):
        field = excess.size
        excess, fields, metrics = excess.reshape(-1), fields.reshape(-1), metrics.reshape(-1)
        mass, out = mass.reshape(-1), out.reshape(-1)
        gradient, factor = scratch(3 * components * points, out), scratch(points, out)
        x, y, z = scratch(points, out), scratch(points, out), scratch(points, out)
        transposed = np.ascontiguousarray(derivative.T)
        forth = even_odd_parts(derivative, np.empty(size))
        back = even_odd_parts(transposed, np.empty(size))
        cube, stretch = np.empty(points), np.ones(3)
        fill_cube(weights, cube)
        end = 1.0 / weights[0]
        for e in elements:
            here = e * points
            for c in range(components):
                u, at = c * field + here, 3 * c * points
                along_x(products, n, n, rows, False, x, 0, transposed, fields, u)
                even_odd_product(products, n, n, n, n, False, ODD, y, 0, forth, 0, fields, u)
                even_odd_product(products, n, rows, n, 1, False, ODD, z, 0, forth, 0, fields, u)
                if not axis_aligned:
                    to_physical(points, metrics, 9 * here, x, y, z, x, 0, y, 0, z, 0)
                gradient[at : at + points] = x
                gradient[at + points : at + 2 * points] = y
                gradient[at + 2 * points : at + 3 * points] = z
            if axis_aligned:
                stretch[:] = scale[e]
                for p in range(points):
                    factor[p] = excess[here + p] * volume[e] * cube[p]
            else:
                for p in range(points):
                    factor[p] = excess[here + p] * mass[here + p]
            for c in range(components):
                _flux(points, c, symmetric, factor, stretch, gradient, x, y, z)
                if not axis_aligned:
                    to_reference(points, metrics, 9 * here, x, 0, y, 0, z, 0, x, y, z)
                target = c * field + here
                along_x(products, n, n, rows, True, out, target, derivative, x, 0)
                even_odd_product(products, n, n, n, n, True, ODD, out, target, back, 0, y, 0)
                even_odd_product(products, n, rows, n, 1, True, ODD, out, target, back, 0, z, 0)
                for face in range(6 if symmetric else 0):
                    if at_sides[e, face] == 1:
                        flux = x if face < 2 else (y if face < 4 else z)
                        _subtract_through(n, face, end, flux, out, target)

    return variable_diffusion
