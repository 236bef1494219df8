"""Eddy viscosities of the motions that the grid does not resolve, at cells.

Smagorinsky (1963), with the correction of Lilly (1962) for stratification and the wall damping of Mason and Thomson
(1992); and the equation for the subgrid kinetic energy e of Deardorff (1980) as Moeng (1984) has it:

    de/dt + d_j(u_j e) = d_j[2 nu_t d_j e] + nu_t |S|^2 - kappa_t N^2 - c_eps e^(3/2)/l
    nu_t = C_k l sqrt(e),   kappa_t = (1 + 2 l/Delta) nu_t,   c_eps = 0.19 + 0.74 l/Delta
    l = Delta, and where N^2 > 0 at most 0.76 sqrt(e)/N

with |S|^2 = 2 S_ij S_ij, N^2 = (g/theta_0) d theta/dz and Delta = (dx dy dz)^(1/3). Derivatives at cells are central
differences over two cells; in the lowest cells over a surface, those in z are one-sided, over the two lowest cells.

All arithmetic is in float64, in one order, so that kernels and the plain version have the same bits.

Sources: Smagorinsky, Mon. Weather Rev. 91 (1963) 99; Lilly, Tellus 14 (1962) 148; Mason and Thomson, J. Fluid Mech.
242 (1992) 51; Deardorff, Boundary-Layer Meteorol. 18 (1980) 495; Moeng, J. Atmos. Sci. 41 (1984) 2052.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import float64, int64, prange, types
from numpy.typing import NDArray

from ridgeline.jit.kernel import kernel, subroutine

if TYPE_CHECKING:
    from ridgeline.models.wind.settings_physics import SubgridSection, TemperatureSection

Array = NDArray[np.float64]

LAYOUT = types.UniTuple(int64, 3)
STABLE_LENGTH = 0.76  # l = 0.76 sqrt(e)/N: Deardorff (1980)
DISSIPATION = (0.19, 0.74)  # c_eps = 0.19 + 0.74 l/Delta: Moeng (1984)
SURFACE_DISSIPATION = 3.9  # c_eps in the lowest cells over a surface: Moeng (1984)
TINY = 1e-300  # in place of N^2 where it is not positive
LEAST_LENGTH = 1e-6  # of l/Delta, where e vanishes in a stable layer
# Places in the numbers that kernels read.
HALF_PER_X, HALF_PER_Y, HALF_PER_Z, BUOYANCY, FILTER, COEFFICIENT, PER_PRANDTL = range(7)


class Closure(NamedTuple):
    """What the closures need beside the fields.

    widths: of cells, (dz, dy, dx); coefficient: C_s or C_k; buoyancy: g/theta_0, 0 where the stratification has no
    effect; prandtl: of Smagorinsky.
    """

    widths: tuple[float, float, float]
    coefficient: float
    buoyancy: float = 0.0
    prandtl: float = 1 / 3

    @property
    def filter_width(self) -> float:
        """The width Delta of the filter."""
        return float(np.cbrt(math.prod(self.widths)))

    def numbers(self) -> Array:
        """Return what the kernels read."""
        dz, dy, dx = self.widths
        per_prandtl = 1 / self.prandtl
        return np.array(
            [0.5 / dx, 0.5 / dy, 0.5 / dz, self.buoyancy, self.filter_width, self.coefficient, per_prandtl]
        )


def make_closure(
    subgrid: SubgridSection, temperature: TemperatureSection, widths: tuple[float, float, float]
) -> Closure:
    """Return the closure of the settings. widths: of cells, (dz, dy, dx)."""
    stratified = temperature.enabled and (subgrid.kind == "one-equation" or subgrid.stratification)
    buoyancy = temperature.gravity / temperature.reference if stratified else 0.0
    return Closure(widths, subgrid.constant(), buoyancy, subgrid.prandtl)


def initial_energy(subgrid: SubgridSection, heights: Array) -> Array:
    """Return the subgrid kinetic energy of step 0 at some heights."""
    top = subgrid.initial_height
    shape = np.ones(len(heights)) if top is None else np.clip(1 - heights / top, 0.0, 1.0) ** 3
    return subgrid.initial_energy * shape


def squared_lengths(
    closure: Closure,
    heights: Array,
    wall_damping: bool = False,
    roughness: float = 0.0,
    von_karman: float = 0.4,
) -> Array:
    """Return the square of the mixing length of Smagorinsky at some heights above the surface.

    It is (C_s Delta)^2, or with damping 1/l^2 = 1/(C_s Delta)^2 + 1/(kappa (z + z_0))^2 (Mason and Thomson 1992).
    heights: of the planes of cells, ghosts included, float64.
    """
    free = (closure.coefficient * closure.filter_width) ** 2
    if not wall_damping:
        return np.full(len(heights), free)
    near = (von_karman * (np.abs(heights) + roughness)) ** 2
    return np.asarray(1 / (1 / free + 1 / near))


def difference(high, low, factor):
    """Return (high - low) * factor in float64."""
    return (np.float64(high) - np.float64(low)) * factor


def strain_squared(ux, uy, uz, vx, vy, vz, wx, wy, wz):
    """Return |S|^2 = 2 S_ij S_ij of the gradient of the velocity."""
    diagonal = ux * ux + vy * vy + wz * wz
    xy, xz, yz = uy + vx, uz + wx, vz + wy
    return (diagonal + diagonal) + (xy * xy + xz * xz + yz * yz)


def smagorinsky_viscosity(strain, stability, squared_length):
    """Return nu_t = l^2 sqrt(|S|^2 - N^2/Pr_t), 0 where that is not positive. stability: N^2/Pr_t."""
    return squared_length * math.sqrt(max(strain - stability, 0.0))


def mixing_length(energy, stability, width):
    """Return the length l of the one-equation closure. stability: N^2."""
    stable = min(width, STABLE_LENGTH * math.sqrt(energy / max(stability, TINY)))
    return max(stable if stability > 0.0 else width, LEAST_LENGTH * width)


def energy_viscosity(energy, length, coefficient):
    """Return nu_t = C_k l sqrt(e)."""
    return coefficient * length * math.sqrt(energy)


def energy_source(energy, length, width, viscosity, diffusivity, strain, stability, over_surface):
    """Return production by shear and buoyancy less dissipation. over_surface: whether the cell lies on a surface."""
    dissipation = DISSIPATION[0] + DISSIPATION[1] * (length / width)
    if over_surface:
        dissipation = SURFACE_DISSIPATION
    production = viscosity * strain - diffusivity * stability
    return production - dissipation * energy * math.sqrt(energy) / length


_difference = subroutine(error_model="numpy")(difference)
_strain_squared = subroutine(error_model="numpy")(strain_squared)
_smagorinsky_viscosity = subroutine(error_model="numpy")(smagorinsky_viscosity)
_mixing_length = subroutine(error_model="numpy")(mixing_length)
_energy_viscosity = subroutine(error_model="numpy")(energy_viscosity)
_energy_source = subroutine(error_model="numpy")(energy_source)


@subroutine
def _around(q, at, n, row, plane, below):
    """Return the rows of a field beside the cells at, ..., at + n - 1: west, east, south, north, below, above.

    below: distance to the lower plane of derivatives in z.
    """
    return (
        q[at - 1 : at - 1 + n],
        q[at + 1 : at + 1 + n],
        q[at - row : at - row + n],
        q[at + row : at + row + n],
        q[at - below : at - below + n],
        q[at + plane : at + plane + n],
    )


@subroutine
def _strain(u, v, w, i, x, y, z):
    """Return |S|^2 at cell i of rows as `_around` returns them. x, y, z: factors of differences."""
    return _strain_squared(
        _difference(u[1][i], u[0][i], x),
        _difference(u[3][i], u[2][i], y),
        _difference(u[5][i], u[4][i], z),
        _difference(v[1][i], v[0][i], x),
        _difference(v[3][i], v[2][i], y),
        _difference(v[5][i], v[4][i], z),
        _difference(w[1][i], w[0][i], x),
        _difference(w[3][i], w[2][i], y),
        _difference(w[5][i], w[4][i], z),
    )


@kernel(
    lambda T: (*[T[::1]] * 4, *[LAYOUT] * 2, float64[::1], float64[::1], int64, int64, T[::1], T[::1]),
    parallel=True,
    nogil=True,
    error_model="numpy",
)
def set_smagorinsky(
    u, v, w, theta, layout, shape, numbers, squared_length, surface, reach, out_nu, out_kappa
):
    """Set nu_t and kappa_t = nu_t/Pr_t of Smagorinsky.

    Parameters
    ----------
    u, v, w, theta : flat fields, float32 or float64, with reach + 1 layers of ghosts filled; u in place of theta
        without a temperature
    layout, shape : origin, row and plane pitch of all fields; owned cells in z, y and x
    numbers : `Closure.numbers`
    squared_length : (nz + 2 reach,) float64 [length^2], `squared_lengths` of the planes with results
    surface : 1 where the lowest owned cells lie on a surface, otherwise 0
    reach : layers of ghosts in which results are set, int64
    out_nu, out_kappa : like u [length^2/time]

    Communication: none.  Cost: about 50 flops, 6 values of memory traffic per cell.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    n = nx + 2 * reach
    x, y = numbers[HALF_PER_X], numbers[HALF_PER_Y]
    per_prandtl = numbers[PER_PRANDTL]
    for k in prange(-reach, nz + reach):
        on_surface = surface == 1 and k == 0
        below = 0 if on_surface else plane
        z = numbers[HALF_PER_Z] + (numbers[HALF_PER_Z] if on_surface else 0.0)
        length = squared_length[k + reach]
        for j in range(-reach, ny + reach):
            at = origin + k * plane + j * row - reach
            us, vs, ws = (
                _around(u, at, n, row, plane, below),
                _around(v, at, n, row, plane, below),
                _around(w, at, n, row, plane, below),
            )
            low, high = theta[at - below : at - below + n], theta[at + plane : at + plane + n]
            nus, kappas = out_nu[at : at + n], out_kappa[at : at + n]
            for i in range(n):
                stability = numbers[BUOYANCY] * _difference(high[i], low[i], z) * per_prandtl
                nu = _smagorinsky_viscosity(_strain(us, vs, ws, i, x, y, z), stability, length)
                nus[i] = nu
                kappas[i] = nu * per_prandtl


@kernel(
    lambda T: (*[T[::1]] * 5, *[LAYOUT] * 2, float64[::1], int64, int64, *[T[::1]] * 3),
    parallel=True,
    nogil=True,
    error_model="numpy",
)
def set_one_equation(
    u, v, w, theta, energy, layout, shape, numbers, surface, reach, out_nu, out_kappa, out_source
):
    """Set nu_t, kappa_t and the source of the subgrid kinetic energy, without its transport.

    Parameters
    ----------
    u, v, w, theta, energy : flat fields, float32 or float64, with reach + 1 layers of ghosts filled; u in place of
        theta without a temperature
    layout, shape, numbers, surface, reach : as of `set_smagorinsky`
    out_nu, out_kappa : like u [length^2/time]
    out_source : like u [length^2/time^3]

    Communication: none.  Cost: about 70 flops, 8 values of memory traffic per cell.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    n = nx + 2 * reach
    x, y = numbers[HALF_PER_X], numbers[HALF_PER_Y]
    width, buoyancy, coefficient = numbers[FILTER], numbers[BUOYANCY], numbers[COEFFICIENT]
    for k in prange(-reach, nz + reach):
        on_surface = surface == 1 and k == 0
        below = 0 if on_surface else plane
        z = numbers[HALF_PER_Z] + (numbers[HALF_PER_Z] if on_surface else 0.0)
        for j in range(-reach, ny + reach):
            at = origin + k * plane + j * row - reach
            us, vs, ws = (
                _around(u, at, n, row, plane, below),
                _around(v, at, n, row, plane, below),
                _around(w, at, n, row, plane, below),
            )
            low, high = theta[at - below : at - below + n], theta[at + plane : at + plane + n]
            es = energy[at : at + n]
            nus, kappas, sources = out_nu[at : at + n], out_kappa[at : at + n], out_source[at : at + n]
            for i in range(n):
                stability = buoyancy * _difference(high[i], low[i], z)
                strain = _strain(us, vs, ws, i, x, y, z)
                e = max(np.float64(es[i]), 0.0)
                length = _mixing_length(e, stability, width)
                nu = _energy_viscosity(e, length, coefficient)
                share = length / width
                kappa = (1.0 + (share + share)) * nu
                nus[i] = nu
                kappas[i] = kappa
                sources[i] = _energy_source(e, length, width, nu, kappa, strain, stability, on_surface)


def gradient_reference(field: Array, closure: Closure, over_surface: bool) -> tuple[Array, Array, Array]:
    """Return d/dx, d/dy and d/dz of a field with one layer of ghosts, at the cells inside, in plain NumPy.

    over_surface: whether the lowest cells lie on a surface.
    """
    x, y, z = closure.numbers()[:3]
    f = np.asarray(field, np.float64)
    along_z = (f[2:, 1:-1, 1:-1] - f[:-2, 1:-1, 1:-1]) * z
    if over_surface:
        along_z[0] = (f[2, 1:-1, 1:-1] - f[1, 1:-1, 1:-1]) * (z + z)
    return (
        (f[1:-1, 1:-1, 2:] - f[1:-1, 1:-1, :-2]) * x,
        (f[1:-1, 2:, 1:-1] - f[1:-1, :-2, 1:-1]) * y,
        along_z,
    )


def strain_reference(u: Array, v: Array, w: Array, closure: Closure, over_surface: bool) -> Array:
    """Return |S|^2 at the cells inside of fields with one layer of ghosts, in plain NumPy."""
    gradients = [part for field in (u, v, w) for part in gradient_reference(field, closure, over_surface)]
    return np.asarray(strain_squared(*gradients))


def smagorinsky_reference(
    u: Array,
    v: Array,
    w: Array,
    theta: Array,
    closure: Closure,
    squared_length: Array,
    over_surface: bool = False,
) -> tuple[Array, Array]:
    """Return nu_t and kappa_t of Smagorinsky on the whole grid: what `set_smagorinsky` is held to.

    Fields have one layer of ghosts; squared_length: of the planes inside.
    """
    stability = closure.buoyancy * gradient_reference(theta, closure, over_surface)[2] * (1 / closure.prandtl)
    strain = strain_reference(u, v, w, closure, over_surface)
    nu = squared_length[:, np.newaxis, np.newaxis] * np.sqrt(np.maximum(strain - stability, 0.0))
    return nu, nu * (1 / closure.prandtl)


def one_equation_reference(
    u: Array, v: Array, w: Array, theta: Array, energy: Array, closure: Closure, over_surface: bool
) -> tuple[Array, Array, Array]:
    """Return nu_t, kappa_t and the source of e on the whole grid: what `set_one_equation` is held to.

    Fields have one layer of ghosts. over_surface: whether the lowest cells lie on a surface.
    """
    width = closure.filter_width
    stability = closure.buoyancy * gradient_reference(theta, closure, over_surface)[2]
    strain = strain_reference(u, v, w, closure, over_surface)
    e = np.maximum(np.asarray(energy, np.float64)[1:-1, 1:-1, 1:-1], 0.0)
    stable = stability > 0
    length = np.full_like(e, width)
    length[stable] = np.minimum(width, STABLE_LENGTH * np.sqrt(e[stable] / stability[stable]))
    length = np.maximum(length, LEAST_LENGTH * width)
    nu = closure.coefficient * length * np.sqrt(e)
    share = length / width
    kappa = (1.0 + (share + share)) * nu
    dissipation = DISSIPATION[0] + DISSIPATION[1] * share
    if over_surface:
        dissipation[0] = SURFACE_DISSIPATION
    source = nu * strain - kappa * stability - dissipation * e * np.sqrt(e) / length
    return nu, kappa, source
