"""The data set of fluid particles: positions along paths, velocities and what was asked for, by identity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ridgeline.io.bp_sums import fingerprint
from ridgeline.io.particle_output import ParticleWriter
from ridgeline.models.contract import Record, Recorder
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
        return _ParticleRecorder(comm, tracers, samples, flow, attributes, keep)

    return Recorder(KIND, settings.path, settings.every, begin, fingerprint=fingerprint)


class _ParticleRecorder:
    """Writes the particles each time."""

    def __init__(
        self,
        comm: MPI.Comm,
        tracers: Tracers,
        samples: ParticleSamples,
        flow: Callable[[], PresentFlow],
        attributes: Mapping[str, Any],
        keep: int | None,
    ) -> None:
        self.path = tracers.settings.path
        self._tracers, self._samples, self._flow = tracers, samples, flow
        n_scalars = len(flow().fields) - 3
        self._sampled = sampled_fields(tracers.settings.sample, n_scalars)
        fields = {"position": VECTOR, "velocity": VECTOR, **self._sampled}
        self._writer = ParticleWriter(
            self.path, comm, tracers.ranges, fields, attributes, keep_steps=keep, setting="particles.path"
        )

    @property
    def count(self) -> int:
        return self._writer.steps

    @property
    def fingerprint(self) -> str:
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        flow, tracers = self._flow(), self._tracers
        found = self._samples.sample(tracers.settings.sample, flow.fields, flow.forcing)
        values = {
            "position": tracers.paths(),
            "velocity": tracers.ranges.gather(tracers.particles, "velocity"),
            **{
                name: tracers.in_order(name_values, self._sampled[name])
                for name, name_values in found.items()
            },
        }
        return self._writer.write(step, flow.time, values)

    def close(self) -> None:
        self._writer.close()
