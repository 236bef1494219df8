"""The fluid particles of a run, as the model sees them: they start, move, are sampled, written and restored.

A run without fluid particles has `NoParticles`, whose methods do nothing, so that the model never asks which it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.stages import RowOperation
from ridgeline.fourier.transform import FourierTransform
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.contract import Context, DistributedArray, Metric, Profile, Recorder
from ridgeline.models.turbulence.engine import FlowEngine
from ridgeline.models.turbulence.fluid_particles.fields import SAMPLED_AT_START
from ridgeline.models.turbulence.fluid_particles.interpolation import displacement, kernels_of_points
from ridgeline.models.turbulence.fluid_particles.lagrangian import (
    StartSamples,
    acceleration_density,
    lagrangian_figures,
    sampled_figures,
)
from ridgeline.models.turbulence.fluid_particles.samples import ParticleSamples
from ridgeline.models.turbulence.fluid_particles.tracers import PARTS, Tracers
from ridgeline.models.turbulence.recorders import particle_recorders
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import compile_on_nodes

if TYPE_CHECKING:
    from ridgeline.models.turbulence.settings import TurbulenceCase


class NoParticles:
    """The tracking of a run without fluid particles. All methods are collective."""

    phases: tuple[str, ...] = ()

    def start(self) -> None:
        """Place the particles of a new run, whose flow is at step 0."""

    def forget_samples(self) -> None:
        """Drop what was sampled, because the flow has changed. No communication."""

    def state(self) -> Mapping[str, DistributedArray]:
        """Return the arrays that a checkpoint holds of the particles."""
        return {}

    def restored(self) -> None:
        """Continue from what was read into the arrays of `state`."""

    def velocity_rows(self) -> RowOperation | None:
        """Return an operation that sets rows to the velocity on the next step's grid, or None if there is none.

        The flow's next step then needs no transform of its own for the velocity.
        """
        return None

    def advance(self) -> None:
        """Move the particles over the step that the flow has just made."""

    def series(self) -> dict[str, float]:
        """Return the columns that particles add to the time series."""
        return {}

    def profiles(self) -> dict[str, Profile]:
        """Return the profiles that particles add."""
        return {}

    def recorders(self) -> list[Recorder]:
        """Return the recorders of the particles, if they are to be written."""
        return []

    def memory(self) -> dict[str, int]:
        """Return the bytes that this rank holds for particles, by purpose."""
        return {}

    def speed(self, steps: int) -> dict[str, Metric]:
        """Return the seconds that a particle takes in a step, by part, of the slowest rank. steps: made so far."""
        return {}


class ParticleTracking(NoParticles):
    """The tracking of a run with fluid particles. Creating it is collective.

    engine : the flow, on CPUs; its transform is shared, and is free between steps
    context : communicator, and the regions to which seconds are charged as "particles"
    """

    phases = ("particles",)

    def __init__(self, case: TurbulenceCase, engine: FlowEngine, context: Context) -> None:
        comm, transform = context.comm, engine.transform
        assert isinstance(transform, FourierTransform), "the settings allow fluid particles on CPUs only"
        compile_on_nodes(comm, lambda: compile_kernels(kernels_of_points(case.run.precision)))
        self._settings, self._engine, self._comm, self._regions = (
            case.particles,
            engine,
            comm,
            context.regions,
        )
        self._viewer = case.output.viewer
        self.tracers = Tracers(case.particles, case.run.seed, transform, comm)
        self._samples = ParticleSamples(self.tracers, transform, comm, case.model.viscosity, case.damping)
        self._start_samples = StartSamples(self.tracers)
        if case.model.scheme != "rk2":
            engine.keep_stages()

    def start(self) -> None:
        engine = self._engine
        self.forget_samples()
        self.tracers.start(engine.fields, engine.next_shift)
        self._start_samples.keep(self._samples.sample(tuple(SAMPLED_AT_START), engine.fields, engine.forcing))

    def forget_samples(self) -> None:
        self._samples.forget()

    def state(self) -> Mapping[str, DistributedArray]:
        return {**self.tracers.state(), **self._start_samples.state()}

    def restored(self) -> None:
        self.forget_samples()
        self.tracers.restored()

    def velocity_rows(self) -> RowOperation | None:
        engine = self._engine
        if engine.n_scalars:
            return None
        with self._regions("particles"):
            return self.tracers.velocity_rows(engine.fields, engine.next_shift)

    def advance(self) -> None:
        engine = self._engine
        self.forget_samples()
        with self._regions("particles"):
            stages = [(stage, displacement(engine.modes, shift)) for stage, shift in engine.stages()]
            self.tracers.advance(engine.fields, stages, engine.last_dt, engine.step_index, engine.next_shift)

    def sample(self, names: Sequence[str]) -> Mapping[str, NDArray[np.float64]]:
        """Sample those of the names that the settings ask for, at this rank's particles. Collective."""
        requested = [name for name in names if name in self._settings.sample]
        return self._samples.sample(requested, self._engine.fields, self._engine.forcing)

    def series(self) -> dict[str, float]:
        values = self.sample(("dissipation", "enstrophy", "acceleration"))
        correlations = self._start_samples.correlations(self._comm, values)
        return {
            **lagrangian_figures(self._comm, self.tracers),
            **sampled_figures(self._comm, values, self.tracers.ranges.n_global),
            **correlations,
        }

    def profiles(self) -> dict[str, Profile]:
        if "acceleration" not in self._settings.sample:
            return {}
        acceleration = self.sample(("acceleration",))["acceleration"]
        density = acceleration_density(self._comm, acceleration, self.tracers.ranges.n_global)
        words = "probability density of a component, at particles"
        return {"acceleration_density": Profile(density, ("deviation",), description=words)}

    def recorders(self) -> list[Recorder]:
        if not self._settings.interval():
            return []
        return particle_recorders(self._comm, self.tracers, self._samples, self._engine, self._viewer)

    def memory(self) -> dict[str, int]:
        by_purpose = self.tracers.memory()
        by_purpose["particles"] += self._start_samples.n_bytes()
        return by_purpose

    def speed(self, steps: int) -> dict[str, Metric]:
        if not steps:
            return {}
        regions = self.tracers.regions
        each = max(self.tracers.ranges.n_global / self._comm.size, 1.0) * steps
        seconds = allreduce_max(self._comm, [regions.seconds(name) for name in PARTS])
        return {
            f"particle_{name.replace(' ', '_')}": Metric(float(part) / each, "s")
            for name, part in zip(PARTS, seconds)
        }


def track_particles(case: TurbulenceCase, engine: FlowEngine, context: Context) -> NoParticles:
    """Return the tracking of a case, with or without particles. Collective."""
    return ParticleTracking(case, engine, context) if case.particles.count else NoParticles()
