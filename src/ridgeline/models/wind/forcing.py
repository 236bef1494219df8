"""Forces on the air: Coriolis, buoyancy, a driving force, and a damping layer below the top.

    du/dt = 2 Omega_z (v - v_g) - 2 Omega_y w + F_x           2 Omega_z = 2 Omega sin(latitude)
    dv/dt = -2 Omega_z (u - u_g) + F_y                        2 Omega_y = 2 Omega cos(latitude)
    dw/dt = 2 Omega_y u + g (theta - theta_ref(z))/theta_0 + F_z

and in the damping layer -r(z) (a - a_ref) for w (a_ref = 0) and, as the settings say, u, v and theta. Here x is east,
y north and z up. F is uniform: given, or found by a controller that brings the mean wind at hub height to a target.

The damping is exact in time: the rate over a step dt is (1 - exp(-r dt))/dt (a - a_ref), which never overshoots, so
that the layer does not limit the time step.

All arithmetic is in float64, in one order, so that kernels and the plain version have the same bits.

Sources: Klemp and Lilly, J. Atmos. Sci. 35 (1978) 78 (damping layers); the controller follows ABLForcing of
AMR-Wind (https://github.com/Exawind/amr-wind).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import float64, int64, prange, types
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.parallel.allreduce import allreduce_sums, kernels_of_sums

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.blocks.block import Block
    from ridgeline.models.wind.settings_physics import (
        DampingSection,
        DrivingSection,
        RotationSection,
        TemperatureSection,
    )

Array = NDArray[np.float64]

# Places in the numbers that kernels read.
CORIOLIS, CORIOLIS_Y, FORCE_X, FORCE_Y, FORCE_Z, BUOYANCY = range(6)


class Profiles(NamedTuple):
    """What forces depend on in height, float64, for some planes.

    theta: theta_ref that the buoyancy subtracts; damped_theta: the initial profile; rate: r [1/time] of the damping;
    wind: (u, v) towards which the layer damps; damps_wind, damps_theta: whether it does.
    """

    theta: Array
    damped_theta: Array
    rate: Array
    wind: tuple[float, float]
    damps_wind: bool
    damps_theta: bool


def theta_profile(temperature: TemperatureSection, heights: Array) -> Array:
    """Return the initial potential temperature at some heights: straight lines between the given values."""
    if not temperature.heights:
        return np.full(len(heights), temperature.reference)
    return np.interp(heights, temperature.heights, temperature.values)


def damping_rates(damping: DampingSection, heights: Array, top: float) -> Array:
    """Return r = sin^2(pi/2 (z - z_0)/depth)/time above z_0 = top - depth, 0 below it."""
    if not damping.depth or damping.time is None:
        return np.zeros(len(heights))
    place = np.clip((heights - (top - damping.depth)) / damping.depth, 0.0, 1.0)
    return np.asarray(np.sin(np.pi / 2 * place) ** 2 / damping.time)


def make_profiles(
    temperature: TemperatureSection,
    damping: DampingSection,
    driving: DrivingSection,
    heights: Array,
    top: float,
) -> Profiles:
    """Return the profiles at the heights of planes. top: of the domain."""
    initial = theta_profile(temperature, heights)
    constant = temperature.subtracted == "constant"
    wind = {"geostrophic": driving.geostrophic_wind, "hub-height": driving.target}.get(
        driving.kind, (0.0, 0.0)
    )
    return Profiles(
        np.full(len(heights), temperature.reference) if constant else initial,
        initial,
        damping_rates(damping, heights, top),
        wind,
        damping.velocity == "all",
        temperature.enabled and damping.temperature,
    )


def force_numbers(
    rotation: RotationSection,
    driving: DrivingSection,
    temperature: TemperatureSection,
    control: tuple[float, float] = (0.0, 0.0),
) -> Array:
    """Return the numbers of the forces. control: force of the controller of the wind at hub height.

    The pressure gradient of the geostrophic wind is the uniform force that balances the Coriolis force on it.
    """
    f, f_y = rotation.coriolis()
    force = (*control, 0.0)
    if driving.kind == "force":
        force = driving.force
    elif driving.kind == "geostrophic":
        u, v = driving.geostrophic_wind
        force = -f * v, f * u, -f_y * u
    buoyancy = temperature.gravity / temperature.reference if temperature.enabled else 0.0
    return np.array([f, f_y, *force, buoyancy])


def momentum_rates(u, v, w, theta, theta_ref, numbers):
    """Return the rates of u, v and w at a point, for NumPy and for compiled kernels. numbers: `force_numbers`."""
    rate_u = numbers[CORIOLIS] * v - numbers[CORIOLIS_Y] * w + numbers[FORCE_X]
    rate_v = numbers[FORCE_Y] - numbers[CORIOLIS] * u
    rate_w = numbers[CORIOLIS_Y] * u + numbers[BUOYANCY] * (theta - theta_ref) + numbers[FORCE_Z]
    return rate_u, rate_v, rate_w


@kernel(
    lambda T: (T[::1], *[types.UniTuple(int64, 3)] * 2, float64[::1], float64[::1], T[::1]),
    parallel=True,
    nogil=True,
)
def add_damping(q, layout, shape, target, rate, out):
    """Add rate (target - q) to the rate of change of the owned cells, in planes where the rate is not 0.

    Parameters
    ----------
    q : flat field, float32 or float64; layout : its origin, row and plane pitch; shape : owned cells in z, y and x
    target, rate : (nz,) float64, of the owned planes; rate: `step_rates`
    out : like q, per time, read and written

    Communication: none.  Cost: 3 flops, 3 values of memory traffic per cell of the layer.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    for k in prange(nz):
        if rate[k] != 0.0:
            for j in range(ny):
                at = origin + k * plane + j * row
                values, to = q[at : at + nx], out[at : at + nx]
                for i in range(nx):
                    to[i] = np.float64(to[i]) + rate[k] * (target[k] - np.float64(values[i]))


def step_rates(rate: Array, dt: float) -> Array:
    """Return the rates (1 - exp(-r dt))/dt with which a step of length dt damps exactly."""
    return np.asarray(-np.expm1(-rate * dt) / dt)


def kernels(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels of damping layers and of the controller. dtype: of the fields."""
    return [*specialise([add_damping], dtype), *kernels_of_sums(dtype)]


def forces_reference(
    u: Array, v: Array, w: Array, theta: Array, theta_ref: Array, numbers: Array
) -> tuple[Array, Array, Array]:
    """Return the rates of u, v and w on the whole grid in plain NumPy.

    theta_ref: of the planes.
    """
    rates = momentum_rates(u, v, w, theta, theta_ref[:, np.newaxis, np.newaxis], numbers)
    rate_u, rate_v, rate_w = (np.asarray(rate) for rate in rates)
    return rate_u, rate_v, rate_w


class HubHeightControl:
    """The uniform force that brings the mean wind at a height to a target.

    As in AMR-Wind, F = (target - <u>)/time with the plane mean <u> at the height, between two planes by a straight
    line. With a Coriolis force the balance of -f x <u> at the height is added, so that the target is met exactly in
    a steady state. The controller has no memory: a restart continues it.

    Parameters
    ----------
    driving : settings, of the kind "hub-height"
    coriolis : f
    width : dz, height of the cells
    block : of this rank
    comm : of all ranks
    """

    def __init__(
        self, driving: DrivingSection, coriolis: float, width: float, block: Block, comm: MPI.Comm
    ) -> None:
        assert driving.height is not None  # by the rules of [driving]
        self._target, self._coriolis = driving.target, coriolis
        self._time = driving.relaxation_time or 0.0
        self._comm = comm
        nz, ny, nx = block.shape_global
        self._cells = ny * nx
        place = min(max(driving.height / width - 0.5, 0.0), nz - 1.0)
        low = min(int(place), max(nz - 2, 0))
        self._share = place - low
        first, planes = block.offset_global[0], block.shape_local[0]
        # Local numbers of the two planes, None where another rank owns them.
        here = [low - first, min(low + 1, nz - 1) - first]
        self._planes = [k if 0 <= k < planes else None for k in here]
        self.mean = (math.nan, math.nan)

    def force(self, u: NDArray[Any], v: NDArray[Any], dt: float) -> tuple[float, float]:
        """Return the force (x, y) per mass for a step dt, and keep the mean wind. u, v: owned cells [nz, ny, nx].

        Collective: two allreduces, of 32 and 128 bytes. The means are the same bits on any number of ranks.
        """
        nothing = u[:0, 0]
        planes = [nothing if k is None else field[k] for field in (u, v) for k in self._planes]
        low_u, high_u, low_v, high_v = allreduce_sums(self._comm, planes, self._cells) / self._cells
        share = self._share
        self.mean = (
            float((1 - share) * low_u + share * high_u),
            float((1 - share) * low_v + share * high_v),
        )
        return control_force(self.mean, self._target, max(self._time, dt), self._coriolis)


def control_force(
    mean: tuple[float, float], target: tuple[float, float], time: float, coriolis: float
) -> tuple[float, float]:
    """Return the force (x, y) that takes a mean wind to its target in a time, against the Coriolis force on it."""
    return (
        (target[0] - mean[0]) / time - coriolis * mean[1],
        (target[1] - mean[1]) / time + coriolis * mean[0],
    )


def ekman_profile(
    heights: Array, viscosity: float, coriolis: float, wind: tuple[float, float]
) -> tuple[Array, Array]:
    """Return the steady wind (u, v) of a laminar Ekman layer over a wall at z = 0: an exact solution.

    u + iv = G (1 - exp(-(1 + i) z/d)) with d = sqrt(2 nu/f), f > 0 and the geostrophic wind G = u_g + i v_g (Ekman
    1905); for f < 0 its conjugate.
    """
    depth = math.sqrt(2 * viscosity / abs(coriolis))
    turn = 1j if coriolis > 0 else -1j
    solution = complex(*wind) * (1 - np.exp(-(1 + turn) * heights / depth))
    return solution.real, solution.imag
