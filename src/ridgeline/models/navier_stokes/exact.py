"""Exact solutions of the incompressible Navier-Stokes equations, as plain functions of space and time.

Each function returns a `Flow`: flow(x, y, z, t) -> (u, v, w, p) with arrays of x's shape, float64. Pressures are
known up to a constant. All flows fulfil u_t + (u . grad) u = - grad p + nu lap(u) and div u = 0 without a force.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = tuple[Array, Array, Array, Array]
Flow = Callable[[Array, Array, Array, float], Values]


def decay(exponent: float) -> float:
    """Return exp(exponent), limited to what a float holds, for times before step 0."""
    return math.exp(min(exponent, 700.0))


def uniform(velocity: Sequence[float]) -> Flow:
    """Return a uniform flow (u, v, w)."""
    u, v, w = velocity

    def flow(x: Array, y: Array, z: Array, t: float) -> Values:
        ones = np.ones_like(x)
        return u * ones, v * ones, w * ones, np.zeros_like(x)

    return flow


def taylor_green_2d(viscosity: float, speed: float = 1.0) -> Flow:
    """Return Taylor's decaying vortices, 2 pi periodic in x and y: V e (-cos x sin y, sin x cos y, 0).

    p = -V^2 e^2 (cos 2x + cos 2y)/4 with e = exp(-2 nu t). Source: Taylor, Phil. Mag. 46 (1923) 671.
    """

    def flow(x: Array, y: Array, z: Array, t: float) -> Values:
        e = speed * decay(-2 * viscosity * t)
        u, v = -e * np.cos(x) * np.sin(y), e * np.sin(x) * np.cos(y)
        return u, v, np.zeros_like(x), -e * e * (np.cos(2 * x) + np.cos(2 * y)) / 4

    return flow


def abc(viscosity: float, speed: float = 1.0) -> Flow:
    """Return the Beltrami flow of Arnold, Beltrami and Childress with A = B = C = V, 2 pi periodic; curl u = u.

    p = -|u|^2/2: the nonlinear term is a gradient, and the flow decays as exp(-nu t).
    """

    def flow(x: Array, y: Array, z: Array, t: float) -> Values:
        e = speed * decay(-viscosity * t)
        u = e * (np.sin(z) + np.cos(y))
        v = e * (np.sin(x) + np.cos(z))
        w = e * (np.sin(y) + np.cos(x))
        return u, v, w, -(u * u + v * v + w * w) / 2

    return flow


def walsh(viscosity: float, wind: Sequence[float] = (0.0, 0.0, 0.0)) -> Flow:
    """Return Walsh's eddies of wavenumber 5, 2 pi periodic in x and y, carried by a uniform wind (u0, v0, w0).

    The stream function -(cos 5 x + sin 5 y)/5 + sin(3 x) sin(4 y)/4 is an eigenfunction of the Laplacian with
    k^2 + l^2 = 25, so that the eddies decay as exp(-25 nu t). The flow of Nek5000's case eddy_uv.
    Source: Walsh, "Eddy solutions of the Navier-Stokes equations", 1992.
    """
    u0, v0, w0 = wind

    def flow(x: Array, y: Array, z: Array, t: float) -> Values:
        e = decay(-25 * viscosity * t)
        x, y = x - u0 * t, y - v0 * t
        u = -np.cos(5 * y) + np.sin(3 * x) * np.cos(4 * y)
        v = -np.sin(5 * x) - 0.75 * np.cos(3 * x) * np.sin(4 * y)
        # With lap(psi) = -25 psi the vorticity is 25 psi, and (u . grad) u = grad(|u|^2/2 + 25 psi^2/2).
        psi = -(np.cos(5 * x) + np.sin(5 * y)) / 5 + np.sin(3 * x) * np.sin(4 * y) / 4
        return u0 + e * u, v0 + e * v, np.full_like(x, w0), -e * e * (u * u + v * v + 25 * psi * psi) / 2

    return flow


def ethier_steinman(viscosity: float, a: float = math.pi / 4, d: float = math.pi / 2) -> Flow:
    """Return the fully three-dimensional flow of Ethier and Steinman, meant for the cube [-1, 1]^3.

    Source: Ethier and Steinman, Int. J. Numer. Meth. Fluids 19 (1994) 369, Eqs. 13-17.
    """

    def flow(x: Array, y: Array, z: Array, t: float) -> Values:
        e = decay(-viscosity * d * d * t)

        def component(x: Array, y: Array, z: Array) -> Array:
            terms = np.exp(a * x) * np.sin(a * y + d * z) + np.exp(a * z) * np.cos(a * x + d * y)
            return np.asarray(-a * e * terms)

        def part(x: Array, y: Array, z: Array) -> Array:
            pair = np.sin(a * x + d * y) * np.cos(a * z + d * x) * np.exp(a * (y + z))
            return np.asarray(np.exp(2 * a * x) + 2 * pair)

        p = -a * a / 2 * e * e * (part(x, y, z) + part(y, z, x) + part(z, x, y))
        return component(x, y, z), component(y, z, x), component(z, x, y), p

    return flow


def kovasznay(viscosity: float) -> Flow:
    """Return Kovasznay's steady flow behind a grid of period 1 in y, at Re = 1/nu.

    u = 1 - e^{k x} cos 2 pi y, v = k/(2 pi) e^{k x} sin 2 pi y, p = (1 - e^{2 k x})/2,
    k = Re/2 - sqrt(Re^2/4 + 4 pi^2). Source: Kovasznay, Proc. Camb. Phil. Soc. 44 (1948) 58.
    """
    reynolds = 1 / viscosity
    # The difference of two numbers of size Re, without cancellation.
    k = -4 * math.pi**2 / (reynolds / 2 + math.sqrt(reynolds**2 / 4 + 4 * math.pi**2))

    def flow(x: Array, y: Array, z: Array, t: float) -> Values:
        e, angle = np.exp(k * x), 2 * math.pi * y
        u, v = 1 - e * np.cos(angle), k / (2 * math.pi) * e * np.sin(angle)
        return u, v, np.zeros_like(x), (1 - e * e) / 2

    return flow
