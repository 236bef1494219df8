"""The ground below z_min: fluxes of momentum and heat by Monin-Obukhov similarity.

Between the roughness length and the centre z of the lowest cells, with zeta = z/L:

    M = (u*/kappa) F_m,           F_m = ln(z/z_0)  - psi_m(zeta) + psi_m(zeta z_0/z)
    theta - theta_s = (theta*/kappa) F_h,  F_h = ln(z/z_0h) - psi_h(zeta) + psi_h(zeta z_0h/z)
    L = -u*^3/(kappa (g/theta_0) q),       q = -u* theta*

with psi = -b zeta where the layer is stable, and the functions of Paulson (1970) for phi_m = (1 - g zeta)^(-1/4) and
phi_h = (1 - g zeta)^(-1/2) where it is unstable (Businger et al. 1971; Dyer 1974).

Each problem has one unknown, which is found by bisection between bounds that always hold: a fixed number of
halvings, no divergence. The bounds are the limits of the similarity:

- free convection: zeta >= FREE_CONVECTION, and the speed M is at least surface.least_speed;
- strong stability with a given temperature: zeta <= STRONG_STABILITY. Near the critical Richardson number, about
  b_h/b_m^2, zeta grows without bound and the turbulence dies; the fluxes are then those of the bound;
- strong stability with a given flux: a wind carries no more than a largest flux down, at which u* is two thirds of
  its neutral value. For larger ones u* stays there.

The fluxes of a cell follow from those of the plane means, by default as Moeng (1984) distributes them.

Sources: Paulson, J. Appl. Meteorol. 9 (1970) 857; Businger et al., J. Atmos. Sci. 28 (1971) 181; Dyer,
Boundary-Layer Meteorol. 7 (1974) 363; Moeng, J. Atmos. Sci. 41 (1984) 2052; van de Wiel et al., Flow Turbul. Combust.
79 (2007) 251 (the largest flux).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.parallel.allreduce import allreduce_sums, kernels_of_sums

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.blocks.block import Block
    from ridgeline.models.wind.settings_physics import SurfaceSection, TemperatureSection

Array = NDArray[np.float64]

FREE_CONVECTION = -100.0  # least zeta
STRONG_STABILITY = 10.0  # largest zeta
HALVINGS = 60
NEUTRAL, GIVEN_FLUX, GIVEN_TEMPERATURE = range(3)
HEATS = ("none", "flux", "temperature")
MOENG, LOCAL, UNIFORM = range(3)
DISTRIBUTIONS = ("moeng", "local", "uniform")
# Places in the numbers that describe the layer, see `similarity_numbers`.
HEIGHT, ROUGHNESS, ROUGHNESS_HEAT, KARMAN, BUOYANCY, STABLE_M, STABLE_H, UNSTABLE_M, UNSTABLE_H, LEAST = (
    range(10)
)
# Places in the plane means.
MEAN_U, MEAN_V, MEAN_SPEED, MEAN_THETA = range(4)


def similarity_numbers(surface: SurfaceSection, temperature: TemperatureSection, height: float) -> Array:
    """Return what describes the layer below the height of the centres of the lowest cells."""
    rough = surface.roughness
    return np.array(
        [
            height,
            rough,
            surface.roughness_heat or rough,
            surface.von_karman,
            temperature.gravity / temperature.reference if temperature.enabled else 0.0,
            *surface.stable,
            *surface.unstable,
            surface.least_speed,
        ]
    )


@subroutine
def psi_momentum(zeta, stable, unstable):
    """Return psi_m of z/L."""
    if zeta >= 0.0:
        return -stable * zeta
    x = math.sqrt(math.sqrt(1.0 - unstable * zeta))
    return (
        2.0 * math.log((1.0 + x) / 2.0) + math.log((1.0 + x * x) / 2.0) - 2.0 * math.atan(x) + math.pi / 2.0
    )


@subroutine
def psi_heat(zeta, stable, unstable):
    """Return psi_h of z/L."""
    if zeta >= 0.0:
        return -stable * zeta
    return 2.0 * math.log((1.0 + math.sqrt(1.0 - unstable * zeta)) / 2.0)


@subroutine
def resistance_momentum(zeta, s):
    """Return F_m. s: `similarity_numbers`."""
    ratio = s[ROUGHNESS] / s[HEIGHT]
    below = psi_momentum(zeta * ratio, s[STABLE_M], s[UNSTABLE_M])
    return -math.log(ratio) - psi_momentum(zeta, s[STABLE_M], s[UNSTABLE_M]) + below


@subroutine
def resistance_heat(zeta, s):
    """Return F_h. s: `similarity_numbers`."""
    ratio = s[ROUGHNESS_HEAT] / s[HEIGHT]
    below = psi_heat(zeta * ratio, s[STABLE_H], s[UNSTABLE_H])
    return -math.log(ratio) - psi_heat(zeta, s[STABLE_H], s[UNSTABLE_H]) + below


@subroutine
def zeta_of_temperature(speed, excess, s):
    """Return z/L for a speed and for theta - theta_s: the root of zeta F_h/F_m^2 = g z excess/(theta_0 M^2)."""
    richardson = s[BUOYANCY] * s[HEIGHT] * excess / (speed * speed)
    if richardson == 0.0:
        return 0.0
    low, high = (0.0, STRONG_STABILITY) if richardson > 0.0 else (FREE_CONVECTION, 0.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        momentum = resistance_momentum(middle, s)
        if middle * resistance_heat(middle, s) < richardson * momentum * momentum:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@subroutine
def friction_of_flux(speed, flux, s):
    """Return u* for a speed and a heat flux q from the ground.

    It is the root of u* F_m(zeta) = kappa M with zeta = -kappa g z q/(theta_0 u*^3).
    """
    wanted = s[KARMAN] * speed
    neutral = wanted / resistance_momentum(0.0, s)
    strength = -s[KARMAN] * s[BUOYANCY] * s[HEIGHT] * flux  # zeta u*^3
    if strength == 0.0:
        return neutral
    if strength > 0.0:
        low, high = neutral * (2.0 / 3.0), neutral
    else:
        low, high = neutral, wanted / resistance_momentum(FREE_CONVECTION, s)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        zeta = max(strength / (middle * middle * middle), FREE_CONVECTION)
        if middle * resistance_momentum(zeta, s) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@subroutine
def similarity(heat, speed, excess, flux, s):
    """Return u*, the heat flux q and z/L.

    heat: NEUTRAL, GIVEN_FLUX (flux counts) or GIVEN_TEMPERATURE (excess, theta - theta_s, counts).
    """
    speed = max(speed, s[LEAST])
    if heat == NEUTRAL:
        return s[KARMAN] * speed / resistance_momentum(0.0, s), 0.0, 0.0
    if heat == GIVEN_FLUX:
        friction = friction_of_flux(speed, flux, s)
        zeta = -s[KARMAN] * s[BUOYANCY] * s[HEIGHT] * flux / (friction * friction * friction)
        return friction, flux, max(zeta, FREE_CONVECTION)
    zeta = zeta_of_temperature(speed, excess, s)
    friction = s[KARMAN] * speed / resistance_momentum(zeta, s)
    return friction, -friction * s[KARMAN] * excess / resistance_heat(zeta, s), zeta


@kernel(lambda: (int64, float64, float64, float64, float64[::1], float64[::1]))
def solve_similarity(heat, speed, excess, flux, numbers, out):
    """Set out to u*, q and z/L, as `similarity` returns them. out: (3,) float64."""
    out[0], out[1], out[2] = similarity(heat, speed, excess, flux, numbers)


@kernel(lambda plane: (plane, plane, float64[:, ::1]), nogil=True)
def set_speeds(u, v, out):
    """Set the wind speed in a plane. u, v : (ny, nx) float32 or float64; out : (ny, nx) float64."""
    for j in range(u.shape[0]):
        for i in range(u.shape[1]):
            x, y = np.float64(u[j, i]), np.float64(v[j, i])
            out[j, i] = math.sqrt(x * x + y * y)


@kernel(
    lambda plane: (
        *(plane, plane, plane, int64, int64, float64[::1], float64[::1], float64, float64[::1]),
        *[float64[:, ::1]] * 3,
    ),
    nogil=True,
)
def set_surface_fluxes(
    u, v, theta, distribution, heat, means, state, surface_value, numbers, out_u, out_v, out_theta
):
    """Set the upward kinematic fluxes of u, v and theta at the ground.

    Parameters
    ----------
    u, v, theta : (ny, nx) float32 or float64, at the centres of the lowest cells
    distribution, heat : MOENG, LOCAL or UNIFORM; NEUTRAL, GIVEN_FLUX or GIVEN_TEMPERATURE, int64
    means : (4,) float64, plane means of u, v, the speed and theta
    state : (3,) float64, u*, q and z/L of the plane means
    surface_value : theta_s, or the given heat flux, float64
    numbers : (10,) float64, `similarity_numbers`
    out_u, out_v, out_theta : (ny, nx) float64 [length^2/time^2; temperature length/time]

    Communication: none.  Cost: one pass over a plane; the local distribution solves the similarity in each cell.
    """
    least = numbers[LEAST]
    mean_u, mean_v, mean_speed = means[MEAN_U], means[MEAN_V], max(means[MEAN_SPEED], least)
    wind = max(math.sqrt(mean_u * mean_u + mean_v * mean_v), least)
    mean_excess = means[MEAN_THETA] - surface_value
    stress, flux = state[0] * state[0] / wind, state[1]
    for j in range(u.shape[0]):
        for i in range(u.shape[1]):
            x, y = np.float64(u[j, i]), np.float64(v[j, i])
            speed = math.sqrt(x * x + y * y)
            if distribution == LOCAL:
                excess = np.float64(theta[j, i]) - surface_value
                friction, flux, _ = similarity(heat, speed, excess, surface_value, numbers)
                stress = friction * friction / max(speed, least)
                out_u[j, i] = -stress * x
                out_v[j, i] = -stress * y
                out_theta[j, i] = flux
            elif distribution == MOENG:
                share = speed / mean_speed
                out_u[j, i] = -stress * (share * mean_u + (x - mean_u))
                out_v[j, i] = -stress * (share * mean_v + (y - mean_v))
                local = flux
                if heat == GIVEN_TEMPERATURE and mean_excess != 0.0:
                    local = flux * (share + (np.float64(theta[j, i]) - means[MEAN_THETA]) / mean_excess)
                out_theta[j, i] = local
            else:
                out_u[j, i] = -stress * mean_u
                out_v[j, i] = -stress * mean_v
                out_theta[j, i] = flux


@kernel(lambda plane: (float64[:, ::1], float64, plane), nogil=True)
def add_from_below(flux, per_height, out):
    """Add the divergence of the flux through the ground to the rates in the lowest cells: out += flux/dz.

    flux : (ny, nx) float64, upward; per_height : 1/dz; out : (ny, nx) float32 or float64.
    """
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[j, i] = np.float64(out[j, i]) + flux[j, i] * per_height


class SurfaceState(NamedTuple):
    """The surface layer of the plane means, equal on all ranks.

    friction_velocity: u*; heat_flux: q from the ground into the air; zeta: z/L; obukhov_length: L, infinite where the
    layer is neutral; wind, theta: the mean wind speed |<u>| and temperature of the lowest cells.
    """

    friction_velocity: float
    heat_flux: float
    zeta: float
    obukhov_length: float
    wind: float
    theta: float


class SurfaceLayer:
    """The fluxes at the ground below this rank's block, updated before each step or stage.

    Ranks whose blocks do not lie on the ground take part in the means and have no fluxes.

    Parameters
    ----------
    surface, temperature : settings
    width : dz, height of the cells
    block : of this rank
    comm : of all ranks
    """

    def __init__(
        self,
        surface: SurfaceSection,
        temperature: TemperatureSection,
        width: float,
        block: Block,
        comm: MPI.Comm,
    ) -> None:
        self._surface, self._comm = surface, comm
        self._numbers = similarity_numbers(surface, temperature, width / 2)
        self._per_height = 1 / width
        self._cells = block.shape_global[1] * block.shape_global[2]
        self.touches = block.offset_global[0] == 0
        shape = block.shape_local[1:] if self.touches else (0, 0)
        self.fluxes = tuple(np.zeros(shape) for _ in range(3))  # of u, v and theta, upward
        self._speeds = np.zeros(shape)
        self._heat = HEATS.index(surface.heat)
        self._distribution = DISTRIBUTIONS.index(surface.distribution)
        self._solution = np.zeros(3)
        self.state = SurfaceState(0.0, 0.0, 0.0, math.inf, 0.0, 0.0)

    @staticmethod
    def kernels(plane: Any) -> list[Specialisation]:
        """Return the kernels that it calls. plane: Numba's type of the planes that `update` gets."""
        return [
            *specialise([solve_similarity]),
            *specialise([set_speeds, set_surface_fluxes, add_from_below], plane),
            *kernels_of_sums("float64"),
            *kernels_of_sums(np.dtype(plane.dtype.name)),
        ]

    def surface_value(self, time: float) -> float:
        """Return the temperature of the ground at a time, or the given heat flux, or 0."""
        s = self._surface
        if s.heat == "temperature":
            return (s.temperature or 0.0) + s.temperature_rate * time
        return s.heat_flux if s.heat == "flux" else 0.0

    def update(
        self, u: NDArray[Any], v: NDArray[Any], theta: NDArray[Any] | None, time: float
    ) -> SurfaceState:
        """Set the fluxes for the present fields, and return the layer of the plane means.

        u, v, theta: (ny, nx), the owned cells of the lowest plane, of any values on ranks that do not touch the
        ground; theta is None without a temperature.
        Collective: two allreduces, of 32 and 128 bytes. The means are the same bits on any number of ranks.
        """
        theta = u if theta is None else theta  # of a neutral layer, which does not read it
        planes = [u, v, self._speeds, theta]
        if self.touches:
            set_speeds(u, v, self._speeds)
        else:
            planes = [self._speeds] * 4
        means = allreduce_sums(self._comm, planes, self._cells) / self._cells
        value, out = self.surface_value(time), self._solution
        wind = math.hypot(means[MEAN_U], means[MEAN_V])
        given = value if self._heat == GIVEN_FLUX else 0.0
        solve_similarity(self._heat, wind, float(means[MEAN_THETA] - value), given, self._numbers, out)
        if self.touches:
            what = self._distribution, self._heat, means, out, value, self._numbers
            set_surface_fluxes(u, v, theta, *what, *self.fluxes)
        zeta = float(out[2])
        length = float(self._numbers[HEIGHT] / zeta) if zeta else math.inf
        self.state = SurfaceState(float(out[0]), float(out[1]), zeta, length, wind, float(means[MEAN_THETA]))
        return self.state

    def add(self, out_u: NDArray[Any], out_v: NDArray[Any], out_theta: NDArray[Any] | None) -> None:
        """Add the fluxes to the rates of change in the lowest cells, (ny, nx) of each field. Local."""
        if self.touches:
            for flux, out in zip(self.fluxes, (out_u, out_v, out_theta)):
                if out is not None:
                    add_from_below(flux, self._per_height, out)


def surface_reference(
    surface: SurfaceSection, numbers: Array, u: Array, v: Array, theta: Array, value: float
) -> tuple[Array, Array, Array]:
    """Return the upward fluxes of u, v and theta on the whole ground in plain NumPy.

    numbers: `similarity_numbers`; value: theta_s or the given flux. The fluxes of SurfaceLayer are held to these.
    """
    least = numbers[LEAST]
    speed = np.hypot(u, v)
    if surface.distribution == "local":
        friction, flux, _ = similarity_reference(surface, numbers, speed, theta - value, value)
        stress = friction**2 / np.maximum(speed, least)
        return -stress * u, -stress * v, flux
    wind = max(float(np.hypot(u.mean(), v.mean())), least)
    friction, flux, _ = similarity_reference(
        surface, numbers, np.array(wind), np.array(theta.mean() - value), value
    )
    one = np.ones_like(u)
    if surface.distribution == "uniform":
        return -(friction**2) * u.mean() / wind * one, -(friction**2) * v.mean() / wind * one, flux * one
    mean_speed = max(float(speed.mean()), least)
    # Moeng (1984): <S u> becomes <u> S + <S> (u - <u>), whose plane mean is <S> <u>.
    flux_u, flux_v = (
        -(friction**2) * (speed * c.mean() + mean_speed * (c - c.mean())) / (mean_speed * wind)
        for c in (u, v)
    )
    if surface.heat != "temperature":
        return flux_u, flux_v, flux * one
    excess = theta.mean() - value
    return (
        flux_u,
        flux_v,
        flux * (speed * excess + mean_speed * (theta - theta.mean())) / (mean_speed * excess),
    )


def similarity_reference(
    surface: SurfaceSection, s: Array, speed: Array, excess: Array, flux: float
) -> tuple[Array, Array, Array]:
    """Return u*, q and z/L for arrays of speeds and of theta - theta_s, or for a given flux, in plain NumPy."""

    def psi(zeta: Array, stable: float, unstable: float, heat: bool) -> Array:
        x = (1 - unstable * np.minimum(zeta, 0)) ** 0.25
        if heat:
            below = 2 * np.log((1 + x**2) / 2)
        else:
            below = 2 * np.log((1 + x) / 2) + np.log((1 + x**2) / 2) - 2 * np.arctan(x) + np.pi / 2
        return np.where(zeta < 0, below, -stable * zeta)

    def resistance(zeta: Array, heat: bool) -> Array:
        ratio = s[ROUGHNESS + heat] / s[HEIGHT]
        b, g = s[STABLE_M + heat], s[UNSTABLE_M + heat]
        return np.asarray(-np.log(ratio) - psi(zeta, b, g, heat) + psi(zeta * ratio, b, g, heat))

    def root(rises: Any, low: Array, high: Array) -> Array:
        for _ in range(200):
            middle = (low + high) / 2
            below = rises(middle) < 0
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    speed = np.maximum(speed, s[LEAST])
    zero = np.zeros_like(speed)
    neutral = s[KARMAN] * speed / resistance(zero, False)
    if surface.heat == "none":
        return neutral, zero, zero
    if surface.heat == "temperature":
        richardson = s[BUOYANCY] * s[HEIGHT] * excess / speed**2
        zeta = root(
            lambda each: each * resistance(each, True) / resistance(each, False) ** 2 - richardson,
            np.where(richardson > 0, 0.0, FREE_CONVECTION),
            np.where(richardson > 0, STRONG_STABILITY, 0.0),
        )
        friction = s[KARMAN] * speed / resistance(zeta, False)
        return friction, -friction * s[KARMAN] * excess / resistance(zeta, True), zeta
    strength = -s[KARMAN] * s[BUOYANCY] * s[HEIGHT] * flux
    free = s[KARMAN] * speed / resistance(zero + FREE_CONVECTION, False)
    friction = root(
        lambda each: (
            each * resistance(np.maximum(strength / each**3, FREE_CONVECTION), False) - s[KARMAN] * speed
        ),
        np.where(strength > 0, neutral * 2 / 3, neutral),
        np.where(strength > 0, neutral, free),
    )
    return friction, zero + flux, np.maximum(strength / friction**3, FREE_CONVECTION)
