"""N-body gravity on CPU cores: the particles of one rank, and a step of kicks and drifts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.contract import Context
from ridgeline.models.n_body import kernels
from ridgeline.models.n_body.force_law import force_law
from ridgeline.models.n_body.particle_mesh import ParticleMesh
from ridgeline.models.n_body.problem import Gravity, Stepping
from ridgeline.models.n_body.short_range import ShortRange
from ridgeline.models.pencil_boxes import boxes_of
from ridgeline.parallel.allreduce import kernels_of_sums
from ridgeline.particles.boxes import kernels_of_boxes
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.migration import Migration
from ridgeline.particles.particles import POSITION, ParticleField, Particles, morton_keys, sort_along_curve

MOMENTUM = "momentum"
FIELDS = {MOMENTUM: ParticleField(np.float64, 3)}  # the fields of a particle besides identity and position
SORT_EVERY = 8  # steps between two sorts of a rank's particles along Morton's curve
PHASES = ("deposit", "poisson", "interpolate", "short range", "migrate", "exchange", "integrate")


class CpuEngine:
    """Advances the particles of this rank. Creating it is collective.

    Attributes
    ----------
    particles : Particles
        The owned particles with their momenta. Once `start` was called, forces belong to their present positions.
    mesh : ParticleMesh
        The long-range force.
    near : ShortRange or None
        The short-range force, if there is one.
    ranges : IdentityRanges
        The identities whose particles this rank writes.
    boxes : Boxes
        The boxes of all ranks.
    """

    def __init__(
        self, gravity: Gravity, grid: PencilGrid, dtype: DTypeLike, tuning: TransformTuning, context: Context
    ) -> None:
        """grid: the mesh points of this rank; dtype: of forces on the mesh; tuning: of its transforms."""
        self.gravity = gravity
        self._comm, self._regions = context.comm, context.regions
        length = gravity.length
        self._quantum = kernels.quantum_of(2 * length)
        self.length = float(np.rint(length / self._quantum) * self._quantum)
        self.boxes = boxes_of(grid.shape, grid.process_grid, (self.length,) * 3)
        self.ranges = IdentityRanges(context.comm, gravity.n_global)
        self.particles = Particles(FIELDS)
        self.mesh = ParticleMesh(
            grid,
            self.length,
            context.comm,
            dtype,
            tuning,
            context.regions,
            source=gravity.source,
            n_global=gravity.n_global,
            filter=gravity.filter,
        )
        self.near: ShortRange | None = None
        if gravity.radius is not None:
            law = force_law(gravity.radius, gravity.softening, gravity.filter)
            self.near = ShortRange(
                context.comm,
                self.boxes,
                law,
                gravity.cell,
                gravity.strength,
                context.threads,
                context.regions,
            )
        self._mesh_force = np.empty((3, 0))
        self._migration: Migration | None = None

    @staticmethod
    def kernels(dtype: DTypeLike) -> list[Specialisation]:
        """Return the kernels that a run compiles beforehand. dtype: of the mesh."""
        return [
            *specialise([kernels.kick, kernels.drift, morton_keys]),
            *ParticleMesh.kernels(dtype),
            *ShortRange.kernels(),
            *kernels_of_boxes(),
            *kernels_of_sums(np.float64),
        ]

    @property
    def started(self) -> bool:
        """Whether there are particles."""
        return self._migration is not None

    def rounded(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return positions [3, n] rounded to multiples of the quantum and wrapped into the domain."""
        rounded = np.ascontiguousarray(np.rint(position / self._quantum) * self._quantum)
        self.boxes.wrap(rounded, self._comm.rank)
        return rounded

    def start(self, fields: dict[str, NDArray[Any]]) -> None:
        """Replace the particles, given in the order of identities, and compute the forces. Collective.

        fields: position, rounded already, and momentum, [3, n] each, for this rank's range of identities.
        """
        self.ranges.scatter(fields, self.boxes, self.particles)
        self._begin()

    def start_anywhere(
        self, position: NDArray[np.float64], momentum: NDArray[np.float64], identity: NDArray[np.int64]
    ) -> None:
        """Replace the particles by those given on any rank, and compute the forces. Collective.

        position, momentum: [3, n]; identity: [n]. Each of the identities 0 ... N - 1 is given exactly once.
        """
        self.particles.n = 0
        self.particles.add({"identity": identity, POSITION: self.rounded(position), MOMENTUM: momentum})
        self._begin()

    def _begin(self) -> None:
        """Bring the particles to their owners and compute all forces. Collective."""
        if self._migration is not None:
            self._migration.free()
        self._migration = Migration(self._comm, self.boxes, self.particles)
        self._migration(self.particles, 0)
        self._sort()
        self._update_near_forces()
        self._update_mesh_forces()

    def advance(self, schedule: Stepping, step: int, place: float, length: float) -> None:
        """Advance the particles from `step` to `step` + 1. Collective.

        place, length: of the step, as for `Stepping.mesh_kicks`.

        Raises ParticleError on all ranks if a particle is not finite.
        """
        first, second = schedule.mesh_kicks(place, length)
        self._kick_by_mesh(first)
        for number, substep in enumerate(schedule.substep_factors(place, length)):
            self._kick_by_near(substep.first_kick)
            self._drift_and_migrate(substep.drift, step + 1)
            if number == 0 and (step + 1) % SORT_EVERY == 0:
                self._sort()
            self._update_near_forces()
            self._kick_by_near(substep.second_kick)
        self._update_mesh_forces()
        self._kick_by_mesh(second)

    def _drift_and_migrate(self, factor: float, step: int) -> None:
        assert self._migration is not None  # `start` was called
        particles = self.particles
        with self._regions("integrate"):
            kernels.drift(
                particles.storage(MOMENTUM), particles.n, factor, self._quantum, particles.storage(POSITION)
            )
        with self._regions("migrate"):
            self._migration(particles, step)

    def _sort(self) -> None:
        with self._regions("migrate"):
            sort_along_curve(self.particles, np.zeros(3), np.full(3, self.gravity.cell))

    def _update_near_forces(self) -> None:
        if self.near is not None:
            self.near.update_ghosts(self.particles)
            self.near.compute(self.particles.n)

    def _update_mesh_forces(self) -> None:
        particles = self.particles
        if self._mesh_force.shape[1] < particles.n:
            self._mesh_force = np.empty((3, particles.capacity))
        self.mesh.deposit(particles.position)
        self.mesh.solve()
        self.mesh.interpolate(particles.position, self._mesh_force)

    def _kick_by_mesh(self, factor: float) -> None:
        particles = self.particles
        with self._regions("integrate"):
            kernels.kick(self._mesh_force, particles.n, factor, particles.storage(MOMENTUM))

    def _kick_by_near(self, factor: float) -> None:
        if self.near is None:
            return
        particles = self.particles
        with self._regions("integrate"):
            unit = self.near.unit
            kernels.kick_near(self.near.forces, particles.n, factor * unit, particles.storage(MOMENTUM))

    def forces(self) -> NDArray[np.float64]:
        """Return -grad(phi~) at the owned particles, float64 [3, n]. Local."""
        n = self.particles.n
        forces = np.array(self._mesh_force[:, :n])
        if self.near is not None:
            forces += self.near.forces[:n].T * self.near.unit
        return forces

    def potentials(self) -> NDArray[np.float64]:
        """Return phi~ at the owned particles, float64 [n]; it includes each particle's own cloud. Collective."""
        potentials = self.mesh.potential(self.particles.position)
        if self.near is not None:
            potentials += self.near.potentials(self.particles.n)
        return potentials

    def memory(self) -> dict[str, int]:
        """Return the bytes of memory on this rank by their purpose."""
        near = 0 if self.near is None else self.near.n_bytes
        return {
            "particles": self.particles.n_bytes + self._mesh_force.nbytes,
            "mesh": self.mesh.n_bytes,
            "short range": near,
        }
