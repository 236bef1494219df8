"""Fields in physical space by name: what `output.variables` may list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.check import did_you_mean
from ridgeline.models.turbulence.gradients import enstrophy_field, strain_square_field
from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.models.turbulence.pressure import products
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
DERIVED = ("vorticity_magnitude", "dissipation", "pressure")


def output_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names of all fields that a run with n_scalars scalars can write."""
    return (*VELOCITY, *DERIVED, *(f"scalar_{s}" for s in range(n_scalars)))


def state_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names of the fields that are advanced, in the order of spectral fields."""
    return (*VELOCITY, *(f"scalar_{s}" for s in range(n_scalars)))


def output_field(
    name: str, comm: MPI.Comm, fields: Fields, passes: FlowPasses, flow: FlowParameters
) -> NDArray[Any]:
    """Return a field at this rank's points, real [z, y, x] in the precision of the run. Collective.

    name: velocity_x, velocity_y, velocity_z; vorticity_magnitude |curl u|; dissipation 2 nu s_ij s_ij (paper,
    Eq. 10); pressure p/rho (Eq. 11), of zero mean; scalar_0, scalar_1, ...
    fields: 3 + S.
    Raises ConfigError for another name.
    """
    advanced = state_names(len(fields) - 3)
    if name in advanced:
        return passes.to_host(passes.to_points(fields[advanced.index(name)]))
    velocity = fields[:3]
    if name == "vorticity_magnitude":
        squares = passes.to_host(enstrophy_field(velocity, passes))
        np.sqrt(squares, out=squares)
        return squares
    if name == "dissipation":
        squares = passes.to_host(strain_square_field(velocity, passes))
        squares *= 2 * flow.viscosity
        return squares
    if name == "pressure":
        pressure = products(comm, fields, passes, flow.waves).pressure
        return passes.to_host(passes.to_points(pressure))
    known = output_names(len(fields) - 3)
    raise ConfigError(
        f"output.variables names '{name}'; a run can write {', '.join(known)}{did_you_mean(name, known)}"
    )
