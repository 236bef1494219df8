"""Wind turbines as actuator discs: a force against the wind on the cells around each rotor.

    U_d = sum w u.n dV,   T = 1/2 A C_T' U_d |U_d|,   f = -T w n,   P = T U_d

n is the axis of the rotor, A its area, and w [1/volume] the weight of a cell with sum w dV = 1: the same weights
average the velocity and distribute the force, so that the force does the work -P on the flow, and adds up to the
thrust to rounding (Meyers and Meneveau 2010, whose C_T' refers to the speed at the disc). Momentum theory relates it
to the undisturbed speed U:

    U_d = (1 - a) U,   C_T = 4 a (1 - a) = (1 - a)^2 C_T',   C_P = 4 a (1 - a)^2,   a = C_T'/(4 + C_T')

A wide kernel mixes faster air from outside of the disc into U_d, so that thrust and power are too large: choose a
width well below the diameter (Shapiro, Gayme and Meneveau 2019). A Gaussian of the width e around a lightly loaded
disc of the radius R loses about 1.2 e/R of the induction (tests/models/wind/test_turbines.py).

Thrust and power are per density inside this file, and with it in `DiscState`.

Sources: Meyers and Meneveau, AIAA 2010-827; Shapiro, Gayme and Meneveau, Wind Energy 22 (2019) 1414; Burton et al.,
Wind Energy Handbook, Sec. 3.2 (momentum theory).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise
from ridgeline.parallel.allreduce import allreduce_sums, kernels_of_sums

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.blocks.block import Block
    from ridgeline.models.wind.settings_physics import TurbineSection

Array = NDArray[np.float64]
Triple = tuple[float, float, float]

REACH = 5.0  # standard deviations of the Gaussian, beyond which weights are 0
_erfc = np.frompyfunc(math.erfc, 1, 1)


class DiscState(NamedTuple):
    """A turbine at present. speed: U_d along the axis; thrust and power with the density of air."""

    speed: float
    thrust: float
    power: float


def kernel_widths(turbine: TurbineSection, widths: Triple) -> tuple[float, float]:
    """Return the width of the kernel along the axis, and that of cells along it. widths: of cells in z, y and x."""
    _, dy, dx = widths
    x, y, _ = turbine.axis()
    along = dx * abs(x) + dy * abs(y)
    return turbine.width or (along if turbine.kernel == "gaussian" else 2 * along), along


def weight_shape(turbine: TurbineSection, widths: Triple, x: Array, y: Array, z: Array) -> Array:
    """Return the weights before they are normalised, at places relative to the centre of the rotor, which broadcast.

    Gaussian of the width e: exp(-s^2/(2 e^2)) erfc((r - R)/(sqrt(2) e))/2 with s along and r from the axis. Top hat:
    1 in the disc of that thickness; its faces and its edge fall linearly over a cell.
    """
    dz, dy, dx = widths
    axis_x, axis_y, _ = turbine.axis()
    width, cell = kernel_widths(turbine, widths)
    along = axis_x * x + axis_y * y
    across = axis_x * y - axis_y * x
    outside = np.sqrt(across**2 + z**2) - turbine.diameter / 2
    if turbine.kernel == "gaussian":
        edge = np.asarray(_erfc(outside / (math.sqrt(2) * width)), np.float64) / 2
        near = (np.abs(along) <= REACH * width) & (outside <= REACH * width)
        return np.where(near, np.exp(-0.5 * (along / width) ** 2) * edge, 0.0)
    side = (dx * abs(axis_y) + dy * abs(axis_x) + dz) / 2
    faces = np.clip((width / 2 - np.abs(along)) / cell + 0.5, 0.0, 1.0)
    return np.asarray(faces * np.clip(0.5 - outside / side, 0.0, 1.0))


@kernel(
    lambda field: (field, field, float64, float64, *[int64[::1]] * 3, *[float64[:, :, ::1]] * 2), nogil=True
)
def weigh_velocity(u, v, axis_x, axis_y, planes, rows, columns, weights, out):
    """Set out to weights times the velocity along the axis, in the cells of a disc.

    Parameters
    ----------
    u, v : (nz, ny, nx) float32 or float64, owned cells
    axis_x, axis_y : direction of the axis, float64
    planes, rows, columns : int64, local numbers of the cells of the disc along z, y and x
    weights, out : (planes, rows, columns) float64

    Communication: none.  Cost: 4 flops, 4 values of memory traffic per cell of the disc.
    """
    for k in range(planes.shape[0]):
        for j in range(rows.shape[0]):
            for i in range(columns.shape[0]):
                x = np.float64(u[planes[k], rows[j], columns[i]])
                y = np.float64(v[planes[k], rows[j], columns[i]])
                out[k, j, i] = weights[k, j, i] * (axis_x * x + axis_y * y)


@kernel(lambda field: (float64, float64, *[int64[::1]] * 3, float64[:, :, ::1], field, field), nogil=True)
def add_thrust(force_x, force_y, planes, rows, columns, weights, out_u, out_v):
    """Add weights times the force to the rates of u and v, owned cells; arguments as of `weigh_velocity`."""
    for k in range(planes.shape[0]):
        for j in range(rows.shape[0]):
            for i in range(columns.shape[0]):
                weight = weights[k, j, i]
                at = planes[k], rows[j], columns[i]
                out_u[at] = np.float64(out_u[at]) + weight * force_x
                out_v[at] = np.float64(out_v[at]) + weight * force_y


class ActuatorDisc:
    """One turbine on this rank's block: its cells there, and their weights.

    cells: local numbers of planes, rows and columns; weights: (planes, rows, columns), which `normalise` completes.
    """

    def __init__(
        self, turbine: TurbineSection, block: Block, widths: Triple, periodic: tuple[bool, bool, bool]
    ) -> None:
        self.settings = turbine
        self.axis = turbine.axis()
        self.area = math.pi * turbine.diameter**2 / 4
        self.coefficient = turbine.local_coefficient()
        width, cell = kernel_widths(turbine, widths)
        margin = REACH * width if turbine.kernel == "gaussian" else width / 2 + cell + max(widths)
        reach = turbine.diameter / 2 + margin
        cells, places = [], []
        for axis, centre in enumerate(reversed(turbine.position)):
            length = block.shape_global[axis] * widths[axis]
            numbers = block.offset_global[axis] + np.arange(block.shape_local[axis])
            place = (numbers + 0.5) * widths[axis] - centre
            if periodic[axis]:
                place -= length * np.round(place / length)
            near = np.abs(place) <= reach
            cells.append(np.flatnonzero(near).astype(np.int64))
            places.append(place[near])
        z, y, x = places
        shape = weight_shape(turbine, widths, x, y[:, np.newaxis], z[:, np.newaxis, np.newaxis])
        self.cells = tuple(cells)
        self.weights = np.ascontiguousarray(shape)
        self.products = np.empty_like(self.weights)

    def normalise(self, total: float, volume: float) -> None:
        """Divide the weights by their sum over all ranks and by the volume of a cell."""
        self.weights /= total * volume

    def weigh(self, u: NDArray[Any], v: NDArray[Any]) -> Array:
        """Return the weighted velocity along the axis in the cells of the disc. Local."""
        weigh_velocity(u, v, *self.axis[:2], *self.cells, self.weights, self.products)
        return self.products

    def thrust(self, speed: float) -> float:
        """Return the thrust over the density of air at a speed of the disc."""
        return 0.5 * self.area * self.coefficient * speed * abs(speed)

    def state(self, speed: float) -> DiscState:
        """Return speed, thrust and power at a speed of the disc."""
        thrust = self.settings.density * self.thrust(speed)
        return DiscState(speed, thrust, thrust * speed)

    def add(self, speed: float, out_u: NDArray[Any], out_v: NDArray[Any]) -> None:
        """Add the force on the air to the rates of u and v, owned cells. Local."""
        thrust = self.thrust(speed)
        x, y, _ = self.axis
        add_thrust(-thrust * x, -thrust * y, *self.cells, self.weights, out_u, out_v)


class Turbines:
    """All turbines of a case on this rank's block. Made collectively: two allreduces.

    Parameters
    ----------
    turbines : settings
    block : of this rank
    widths : of cells in z, y and x
    periodic : whether z, y and x are periodic
    comm : of all ranks
    """

    def __init__(
        self,
        turbines: Sequence[TurbineSection],
        block: Block,
        widths: Triple,
        periodic: tuple[bool, bool, bool],
        comm: MPI.Comm,
    ) -> None:
        self._comm = comm
        self._most = math.prod(block.shape_global)
        self._volume = math.prod(widths)
        self.discs = [ActuatorDisc(turbine, block, widths, periodic) for turbine in turbines]
        totals = self._sums([disc.weights for disc in self.discs])
        for disc, total in zip(self.discs, totals):
            disc.normalise(float(total), self._volume)
        self.states = [disc.state(0.0) for disc in self.discs]

    @staticmethod
    def kernels(field: Any) -> list[Specialisation]:
        """Return the kernels that it calls. field: Numba's type of the owned cells of a field."""
        return [*specialise([weigh_velocity, add_thrust], field), *kernels_of_sums("float64")]

    def _sums(self, arrays: list[Array]) -> Array:
        return allreduce_sums(self._comm, arrays, self._most) if arrays else np.empty(0)

    def update(self, u: NDArray[Any], v: NDArray[Any]) -> list[DiscState]:
        """Return speed, thrust and power of each turbine, and keep them for `add`. u, v: owned cells [nz, ny, nx].

        Collective: two allreduces, of 8 and 32 bytes for each turbine. The results are the same bits on any number of
        ranks.
        """
        speeds = self._sums([disc.weigh(u, v) for disc in self.discs]) * self._volume
        self.states = [disc.state(float(speed)) for disc, speed in zip(self.discs, speeds)]
        return self.states

    def add(self, out_u: NDArray[Any], out_v: NDArray[Any]) -> None:
        """Add the forces on the air to the rates of u and v, owned cells. Local."""
        for disc, state in zip(self.discs, self.states):
            disc.add(state.speed, out_u, out_v)

    def series(self) -> dict[str, float]:
        """Return the columns of the time series: speed at the disc, thrust and power of each turbine."""
        return {
            f"turbine_{n}_{name}": value
            for n, state in enumerate(self.states)
            for name, value in state._asdict().items()
        }


def discs_reference(
    turbines: Sequence[TurbineSection], widths: Triple, periodic: tuple[bool, bool, bool], u: Array, v: Array
) -> tuple[Array, Array, list[DiscState]]:
    """Return the rates of u and v on the whole grid, and the states, in plain NumPy: what `Turbines` is held to."""
    rates = np.zeros_like(u), np.zeros_like(v)
    states = []
    for turbine in turbines:
        places = []
        for n, h, wraps, centre in zip(u.shape, widths, periodic, reversed(turbine.position)):
            place = (np.arange(n) + 0.5) * h - centre
            places.append(place - n * h * np.round(place / (n * h)) if wraps else place)
        z, y, x = np.meshgrid(*places, indexing="ij")
        weights = weight_shape(turbine, widths, x, y, z)
        weights /= weights.sum() * math.prod(widths)
        axis_x, axis_y, _ = turbine.axis()
        speed = float((weights * (axis_x * u + axis_y * v)).sum() * math.prod(widths))
        area = math.pi * turbine.diameter**2 / 4
        thrust = 0.5 * area * turbine.local_coefficient() * speed * abs(speed)
        rates[0][...] -= thrust * axis_x * weights
        rates[1][...] -= thrust * axis_y * weights
        states.append(DiscState(speed, turbine.density * thrust, turbine.density * thrust * speed))
    return *rates, states
