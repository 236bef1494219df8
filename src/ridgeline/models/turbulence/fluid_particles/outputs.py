"""The data set of fluid particles: positions along paths, velocities and what was asked for, by identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ridgeline.io.bp_sums import fingerprint
from ridgeline.io.particle_output import ParticleWriter
from ridgeline.models.contract import Record, Recorder
from ridgeline.models.recorders import WrittenSteps
from ridgeline.models.turbulence.fluid_particles.fields import VECTOR, sampled_fields
from ridgeline.models.turbulence.fluid_particles.samples import ParticleSamples
from ridgeline.models.turbulence.fluid_particles.tracers import Tracers
from ridgeline.models.turbulence.forcing import Forcing

if TYPE_CHECKING:
    from mpi4py import MPI

KIND = "particles"


@dataclass(frozen=True, eq=False)
class PresentFlow:
    """The present state: time, spectral fields [3 + S, n_modes] and the forcing."""

    time: float
    fields: NDArray[Any]
    forcing: Forcing


def particle_recorder(
    comm: MPI.Comm, tracers: Tracers, samples: ParticleSamples, flow: Callable[[], PresentFlow]
) -> Recorder:
    """Return the recorder of particles every `particles.every` steps, which is not 0. flow: asked when it is due."""
    settings = tracers.settings

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        sampled = sampled_fields(settings.sample, len(flow().fields) - 3)
        fields = {"position": VECTOR, "velocity": VECTOR, **sampled}
        writer = ParticleWriter(
            settings.path, comm, tracers.ranges, fields, attributes, keep_steps=keep, setting="particles.path"
        )

        def present() -> dict[str, NDArray[Any]]:
            now = flow()
            found = samples.sample(settings.sample, now.fields, now.forcing)
            return {
                "position": tracers.paths(),
                "velocity": tracers.ranges.gather(tracers.particles, "velocity"),
                **{name: tracers.in_order(values, sampled[name]) for name, values in found.items()},
            }

        return WrittenSteps(settings.path, writer, lambda _: flow().time, present)

    return Recorder(KIND, settings.path, settings.every, begin, fingerprint=fingerprint)
