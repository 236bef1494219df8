"""What a turbulence run writes: fields in physical space by name, and the data set of fluid particles.

`output_names` are the fields that the setting output.variables may list. Positions of particles are written along
their paths, without jumps at the sides of the box, and in the order of identities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.check import did_you_mean
from ridgeline.io.bp_sums import fingerprint
from ridgeline.io.particle_output import ParticleWriter, particle_variables, rows_of
from ridgeline.models.contract import Record, Recorder
from ridgeline.models.recorders import View, WrittenSteps, viewer_recorder
from ridgeline.models.turbulence.engine import FlowEngine
from ridgeline.models.turbulence.fluid_particles.fields import VECTOR, sampled_fields
from ridgeline.models.turbulence.fluid_particles.samples import ParticleSamples
from ridgeline.models.turbulence.fluid_particles.tracers import Tracers
from ridgeline.models.turbulence.gradients import enstrophy_field, strain_square_field, vorticity
from ridgeline.models.turbulence.passes import Fields, FlowPasses
from ridgeline.models.turbulence.pressure import products
from ridgeline.models.turbulence.problem import FlowParameters
from ridgeline.particles.particles import POSITION
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI


VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
VORTICITY = ("vorticity_x", "vorticity_y", "vorticity_z")
PLANES = {"streamfunction": 2, "streamfunction_x": 0, "streamfunction_y": 1}  # the axes across which they are
DERIVED = (*VORTICITY, "vorticity_magnitude", "dissipation", "pressure", *PLANES)


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

    Parameters
    ----------
    name : velocity_x, velocity_y, velocity_z; vorticity_x, vorticity_y, vorticity_z of curl u; vorticity_magnitude
        |curl u|; dissipation 2 nu s_ij s_ij (paper, Eq. 10); pressure p/rho (Eq. 11), whose mean is zero;
        streamfunction, streamfunction_x, streamfunction_y of the flow in planes z, x, y = const, where lap psi in the
        plane is -w_z, -w_x, -w_y, periodic with the mean 0; scalar_0, scalar_1, ...
    fields : modes of the 3 + S fields, as `passes` takes them

    Raises
    ------
    ConfigError
        If there is no field of that name.
    """
    advanced = state_names(len(fields) - 3)
    if name in advanced:
        return passes.to_host(passes.to_points(fields[advanced.index(name)]))
    velocity = fields[:3]
    if name in VORTICITY:
        return passes.to_host(vorticity(velocity, VORTICITY.index(name), passes))
    if name in PLANES:
        return passes.to_host(passes.streamfunction_points(velocity, PLANES[name]))
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
        f"output.variables contains '{name}', which a run cannot write{did_you_mean(name, known)} The variables are "
        f"{', '.join(known)}."
    )


def particle_recorders(
    comm: MPI.Comm, tracers: Tracers, samples: ParticleSamples, engine: FlowEngine, viewer: str
) -> list[Recorder]:
    """Return the recorders that write particles at their interval, which must not be empty.

    Each output has the positions, the velocities and what the setting particles.sample lists. engine: of the flow,
    whose present state is sampled when an output is due. viewer: the setting output.viewer.
    """
    settings = tracers.settings
    sampled = sampled_fields(settings.sample, engine.n_scalars)
    fields = {POSITION: VECTOR, "velocity": VECTOR, **sampled}

    def time(_: int) -> float:
        return engine.time

    def present() -> dict[str, NDArray[Any]]:
        values = samples.sample(settings.sample, engine.fields, engine.forcing)
        return {
            POSITION: tracers.paths(),
            "velocity": tracers.ranges.gather(tracers.particles, "velocity"),
            **{name: tracers.in_order(value, sampled[name]) for name, value in values.items()},
        }

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        writer = ParticleWriter(
            settings.path, comm, tracers.ranges, fields, attributes, keep_steps=keep, setting="particles.path"
        )
        return WrittenSteps(settings.path, writer, time, present)

    def view() -> View:
        variables, nowhere = particle_variables(tracers.ranges, fields), (0.0, 0.0, 0.0)
        return View(variables, nowhere, nowhere, POSITION, time, lambda: rows_of(present(), fields))

    path, every = settings.path, settings.interval()
    recorders = [Recorder("particles", path, every, begin, fingerprint=fingerprint)]
    if viewer != "none":
        recorders.append(viewer_recorder("viewer files of particles", path, comm, every, True, view))
    return recorders
