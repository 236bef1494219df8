"""Laminar flow and heat transfer in a rectangular duct: series solutions and the figures made of them.

The duct is -a < y < a, -b < z < b with the flow along x, nu lap(w) = -G, w = 0 at the walls. Figures refer to the
hydraulic diameter D = 4 a b/(a + b): the Darcy friction factor f = 2 G D/u_b^2, Re = u_b D/nu.
Sources: White, Viscous Fluid Flow, Sec. 3-3; Shah and London, Laminar Flow Forced Convection in Ducts, 1978, Ch. VII.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TERMS = (
    2000  # n = 1, 3, ...: the other terms are below 1e-9 of the maximum near the walls z = b, elsewhere zero
)
MODES = 4000  # of the double sums, whose terms fall as m^-6 along the axes


@dataclass(frozen=True)
class DuctFigures:
    """The dimensionless numbers of a laminar duct of one aspect ratio."""

    friction: float  # f Re, with the Darcy friction factor
    peak: float  # largest over mean velocity
    # h D/k with a uniform heating rate along the duct and one wall temperature in each section
    nusselt: float


def _odd(count: int) -> Array:
    return np.arange(1.0, 2 * count, 2.0)


def unit_bulk(a: float, b: float) -> float:
    """Return the mean velocity for G/nu = 1."""
    n = _odd(200)
    return a * a / 3 * (1 - 192 / math.pi**5 * a / b * math.fsum(np.tanh(n * math.pi * b / (2 * a)) / n**5))


def unit_velocity(y: Array, z: Array, a: float, b: float) -> Array:
    """Return the velocity for G/nu = 1 at points of equal shape, inside the duct; exactly 0 on its walls.

    It is the parabola (a^2 - y^2)/2 between two walls less the series that the other two walls subtract, in the
    direction in which that falls off faster. Points on few distinct y and z, such as those of the mesh of a box, cost
    a product of two matrices.
    """
    if a > b:
        y, z, a, b = z, y, b, a
    shape = np.shape(y)
    y, z = np.clip(np.ravel(y) / a, -1, 1), np.clip(np.ravel(z) / b, -1, 1)
    n = _odd(TERMS)
    sign = 1.0 - 2.0 * (np.arange(TERMS) % 2)
    weight = 16 / math.pi**3 * sign / n**3
    rate = n * math.pi * b / (2 * a)

    def along_y(y: Array) -> Array:
        return np.asarray(np.cos(n * math.pi / 2 * y[:, None]))

    def along_z(z: Array) -> Array:
        far = np.abs(z)[:, None]  # cosh(rate z)/cosh(rate), without overflow
        return np.asarray(np.exp(rate * (far - 1)) * (1 + np.exp(-2 * rate * far)) / (1 + np.exp(-2 * rate)))

    lines_y, place_y = np.unique(y, return_inverse=True)
    lines_z, place_z = np.unique(z, return_inverse=True)
    if len(lines_y) * len(lines_z) <= 4 * len(y):
        taken = ((along_y(lines_y) * weight) @ along_z(lines_z).T)[place_y, place_z]
    else:
        taken = np.concatenate(
            [(along_y(y[i : i + 1024]) * along_z(z[i : i + 1024])) @ weight for i in range(0, len(y), 1024)]
        )
    velocity = a * a * ((1 - y * y) / 2 - taken)
    velocity[(np.abs(y) > 1 - 1e-13) | (np.abs(z) > 1 - 1e-13)] = 0.0
    return np.asarray(velocity.reshape(shape))


def figures(ratio: float) -> DuctFigures:
    """Compute the dimensionless numbers of laminar flow and heat transfer in a rectangular duct.

    The Nusselt number: with w = sum w_mn sin sin, all sums over odd m and n, the temperature below that of the wall
    is sum w_mn/lambda_mn sin sin. This gives (sum s/lambda)^2 / (sum s/lambda^3) D^2/4 with s = 16^2/(pi^4 m^2 n^2)/4
    and the eigenvalues lambda_mn of minus the Laplacian. Source: Shah and London, Laminar Flow Forced Convection in
    Ducts, 1978, Ch. VII.

    Parameters
    ----------
    ratio : float
        The aspect ratio b/a of the sides.

    Returns
    -------
    DuctFigures
        f Re with the Darcy friction factor, the largest over the mean velocity, and the Nusselt number.

    Notes
    -----
    Local: series of some million terms, a few hundredths of a second.

    Examples
    --------
    >>> from ridgeline.models.navier_stokes.laminar_duct import figures
    >>> square = figures(1.0)
    >>> round(square.friction, 2), round(square.peak, 3), round(square.nusselt, 2)
    (56.91, 2.096, 3.61)
    """
    a, b = 1.0, ratio
    diameter = 4 * a * b / (a + b)
    bulk = unit_bulk(a, b)
    centre = float(unit_velocity(np.zeros(1), np.zeros(1), a, b)[0])
    m = _odd(MODES // 2)
    n = _odd(400)[:, None]
    eigenvalue = (math.pi / (2 * a) * m) ** 2 + (math.pi / (2 * b) * n) ** 2
    share = 64 / math.pi**4 / (m * n) ** 2
    heat = float((share / eigenvalue**3).sum())
    return DuctFigures(2 * diameter**2 / bulk, centre / bulk, bulk**2 * diameter**2 / (4 * heat))
