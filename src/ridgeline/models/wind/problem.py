"""What a flow is, as plain data: grid, sides, fields, constants and the scheme.

The reference and the engines read a `WindProblem`; the settings make one. Fields are numbered: 0, 1 and 2 are the
velocities u, v and w in x, y and z, and the transported scalars follow, the potential temperature first if there is
one. Axes are numbered as arrays are, z, y, x: the velocity across axis d is field 2 - d.

At a side that is not periodic each field has a `SideField`: its value at the side, or its flux into the domain.
Ghosts beyond the side hold 2 v - q for a value v, and q for a flux, of the cells mirrored at the side. The flux
itself enters the equations as a source in the cells at the side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.parallel.partition import Triple

Array = NDArray[Any]
# A number, or a function of x, y, z and t, which are numbers and arrays that broadcast.
SideValue = float | Callable[[Any, Any, Any, float], Any]

GHOST = 3  # layers of ghosts that piecewise parabolic states with transverse terms need
SIDES = ("z_min", "z_max", "y_min", "y_max", "x_min", "x_max")
VELOCITIES = ("u", "v", "w")
PPM, UNLIMITED, PLM = 0, 1, 2
RECONSTRUCTIONS = {"ppm": PPM, "ppm-unlimited": UNLIMITED, "plm": PLM}


def normal_field(axis: int) -> int:
    """Return the number of the velocity across an axis."""
    return 2 - axis


@dataclass(frozen=True)
class SideField:
    """What one field has at one side: a value, or a flux into the domain."""

    fixed: bool  # whether `value` is that of the field; otherwise it is the flux into the domain
    value: SideValue = 0.0


@dataclass(frozen=True)
class FlowSide:
    """One side of the domain that is not periodic: what each field has there, and whether fluid leaves freely."""

    fields: tuple[SideField, ...]
    outflow: bool = False  # the pressure is 0 there, and the normal velocity follows from continuity
    inflow: bool = False  # fluid crosses the side with the given normal velocity

    @classmethod
    def wall(
        cls, axis: int, scalars: tuple[SideField, ...] = (), velocity: tuple[float, ...] = (0.0,) * 3
    ) -> FlowSide:
        """Return a wall without slip, which may move along itself."""
        moving = tuple(SideField(True, 0.0 if c == normal_field(axis) else velocity[c]) for c in range(3))
        return cls((*moving, *scalars))

    @classmethod
    def slip(cls, axis: int, scalars: tuple[SideField, ...] = ()) -> FlowSide:
        """Return an impermeable side without shear stress."""
        return cls((*(SideField(c == normal_field(axis)) for c in range(3)), *scalars))

    @classmethod
    def open(cls, fields: int) -> FlowSide:
        """Return an outflow of so many fields: pressure 0, and no gradient."""
        return cls((SideField(False),) * fields, outflow=True)

    @classmethod
    def entry(cls, values: tuple[SideValue, ...]) -> FlowSide:
        """Return an inflow with given values of all fields."""
        return cls(tuple(SideField(True, value) for value in values), inflow=True)


@dataclass(frozen=True)
class WindProblem:
    """A flow to be computed.

    Attributes
    ----------
    shape : cells [nz, ny, nx], at least 4 each
    widths : of a cell in z, y and x
    sides : by the names of SIDES; both sides of a direction or none, which is then periodic
    scalars : names of the transported scalars, "theta" first if there is one
    viscosity, diffusivities : of momentum and of each scalar, constant
    forces : (6,) the numbers of `forcing.momentum_rates`: the Coriolis parameters 2 Omega_z and 2 Omega_y, a uniform
        force in x, y and z, and g/theta_0 of the first scalar, 0 without buoyancy
    theta_reference : the temperature without buoyancy, a number or one for each plane
    godunov : whether advection follows Godunov's method; otherwise it follows the method of lines with Heun's steps
    reconstruction : PPM, UNLIMITED or PLM
    implicit : whether diffusion is by Crank-Nicolson's scheme; otherwise it is explicit, of second order as well
    """

    shape: Triple
    widths: tuple[float, float, float]
    sides: dict[str, FlowSide] = field(default_factory=dict)
    scalars: tuple[str, ...] = ()
    viscosity: float = 0.0
    diffusivities: tuple[float, ...] = ()
    forces: tuple[float, ...] = (0.0,) * 6
    theta_reference: float | Array = 0.0
    godunov: bool = True
    reconstruction: int = PPM
    implicit: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all fields, in their order."""
        return (*VELOCITIES, *self.scalars)

    @cached_property
    def periodic(self) -> tuple[bool, bool, bool]:
        """Whether z, y and x are periodic."""
        z, y, x = (f"{axis}_min" not in self.sides for axis in "zyx")
        return z, y, x

    @cached_property
    def theta_profile(self) -> Array:
        """The temperature without buoyancy of each plane, (nz,)."""
        return np.array(np.broadcast_to(self.theta_reference, self.shape[0]), np.float64)

    @cached_property
    def is_closed(self) -> bool:
        """Whether the pressure is defined up to a constant only."""
        return not any(side.outflow for side in self.sides.values())

    def diffusivity(self, number: int) -> float:
        """Return the constant diffusivity of a field."""
        return self.viscosity if number < 3 else self.diffusivities[number - 3]

    def at(self, axis: int, last: bool) -> FlowSide | None:
        """Return the lower or the upper side of an axis, None if it is periodic."""
        return self.sides.get(SIDES[2 * axis + last])

    def centres(self, axis: int) -> Array:
        """Return the coordinates of the centres of all cells along an axis."""
        return (np.arange(self.shape[axis]) + 0.5) * self.widths[axis]


def evaluate_side(value: SideValue, places: dict[str, Any], time: float) -> Any:
    """Return a value at places of a side, which broadcast to two dimensions."""
    return value(places["x"], places["y"], places["z"], time) if callable(value) else value
