"""N-body gravity on CPU cores: the particles of one rank, kicked and drifted by the mesh and by near particles."""

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
from ridgeline.models.n_body.problem import Gravity
from ridgeline.models.n_body.short_range import ShortRange
from ridgeline.models.n_body.stepping import Stepping
from ridgeline.models.pencil_boxes import boxes_of
from ridgeline.parallel.allreduce import kernels_of_sums
from ridgeline.particles.boxes import kernels_of_boxes
from ridgeline.particles.by_identity import IdentityRanges
from ridgeline.particles.curve import morton_keys, sort_along_curve
from ridgeline.particles.migration import Migration
from ridgeline.particles.particles import POSITION, ParticleField, Particles

MOMENTUM = "momentum"
FIELDS = {MOMENTUM: ParticleField(np.float64, 3)}  # what a particle has beside identity and position
SORT_EVERY = 8  # steps between sorts of a rank's particles along Morton's curve
PHASES = ("deposit", "poisson", "interpolate", "short range", "migrate", "exchange", "integrate")


class CpuEngine:
    """The particles of this rank. Made collectively.

    Attributes: particles, with their momenta; mesh; near: the short-range force, None without; ranges: of identities;
    boxes: of ranks. Forces are those at the present positions, once there are particles.
    """

    def __init__(
        self, gravity: Gravity, grid: PencilGrid, dtype: DTypeLike, tuning: TransformTuning, context: Context
    ) -> None:
        """grid: points of this rank; dtype: of the mesh; tuning: of its transforms."""
        self.gravity = gravity
        self._comm, self._regions = context.comm, context.regions
        length = gravity.length
        self._quantum = kernels.quantum_of(2 * length)
        self.length = float(np.rint(length / self._quantum) * self._quantum)
        self.boxes = boxes_of(grid.shape, grid.process_grid, (self.length,) * 3)
        self.ranges = IdentityRanges(context.comm, gravity.n_global)
        self.particles = Particles(FIELDS)
        self.mesh = ParticleMesh(
            grid, self.length, context.comm, dtype, tuning, context.regions,
            source=gravity.source, n_global=gravity.n_global, of=gravity.of,
        )  # fmt: skip
        self.near: ShortRange | None = None
        if gravity.radius is not None:
            law = force_law(gravity.radius, gravity.softening, gravity.of)
            self.near = ShortRange(
                context.comm,
                self.boxes,
                law,
                gravity.cell,
                gravity.strength,
                context.threads,
                context.regions,
            )
        self._force = np.empty((3, 0))
        self._migration: Migration | None = None

    @staticmethod
    def kernels(dtype: DTypeLike) -> list[Specialisation]:
        """Return the kernels that are called. dtype: of the mesh."""
        own = specialise([kernels.kick, kernels.drift, morton_keys])
        return [
            *own, *ParticleMesh.kernels(dtype), *ShortRange.kernels(), *kernels_of_boxes(),
            *kernels_of_sums(np.float64),
        ]  # fmt: skip

    @property
    def started(self) -> bool:
        """Say whether there are particles."""
        return self._migration is not None

    def rounded(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return positions [3, n] as the nearest multiples of the quantum, in the box."""
        found = np.ascontiguousarray(np.rint(position / self._quantum) * self._quantum)
        self.boxes.settle(found, self._comm.rank)
        return found

    def start(self, fields: dict[str, NDArray[Any]]) -> None:
        """Take over the particles of this rank's range of identities, rounded before, and find forces. Collective.

        fields: position and momentum, [3, n] each.
        """
        self.ranges.scatter(fields, self.boxes, self.particles)
        self._begin()

    def start_anywhere(
        self, position: NDArray[np.float64], momentum: NDArray[np.float64], identity: NDArray[np.int64]
    ) -> None:
        """Take over particles that any rank has, each once, and find forces. Collective.

        position, momentum: [3, n]; identity: [n], of 0 ... N - 1.
        """
        self.particles.n = 0
        self.particles.add({"identity": identity, POSITION: self.rounded(position), MOMENTUM: momentum})
        self._begin()

    def _begin(self) -> None:
        if self._migration is not None:
            self._migration.free()
        self._migration = Migration(self._comm, self.boxes, self.particles)
        self._migration(self.particles, 0)
        self._sort()
        self._find_near_forces()
        self._find_mesh_forces()

    def advance(self, schedule: Stepping, step: int) -> None:
        """Advance from `step` by one step of the schedule. Collective.

        Raises ParticleError if a particle is not finite.
        """
        first, second = schedule.mesh_kicks(step)
        self._kick_by_mesh(first)
        for number, part in enumerate(schedule.of_substeps(step)):
            self._kick_by_near(part.first_kick)
            self._drift(part.drift, step + 1)
            if number == 0 and (step + 1) % SORT_EVERY == 0:
                self._sort()
            self._find_near_forces()
            self._kick_by_near(part.second_kick)
        self._find_mesh_forces()
        self._kick_by_mesh(second)

    def _drift(self, factor: float, step: int) -> None:
        assert self._migration is not None  # `start` came first
        particles = self.particles
        with self._regions("integrate"):
            kernels.drift(
                particles.room(MOMENTUM), particles.n, factor, self._quantum, particles.room(POSITION)
            )
        with self._regions("migrate"):
            self._migration(particles, step)

    def _sort(self) -> None:
        with self._regions("migrate"):
            sort_along_curve(self.particles, np.zeros(3), np.full(3, self.gravity.cell))

    def _find_near_forces(self) -> None:
        if self.near is not None:
            self.near.find(self.particles)
            self.near.compute(self.particles.n)

    def _find_mesh_forces(self) -> None:
        particles = self.particles
        if self._force.shape[1] < particles.n:
            self._force = np.empty((3, particles.capacity))
        self.mesh.deposit(particles.position)
        self.mesh.solve()
        self.mesh.interpolate(particles.position, self._force)

    def _kick_by_mesh(self, factor: float) -> None:
        particles = self.particles
        with self._regions("integrate"):
            kernels.kick(self._force, particles.n, factor, particles.room(MOMENTUM))

    def _kick_by_near(self, factor: float) -> None:
        if self.near is None:
            return
        particles = self.particles
        with self._regions("integrate"):
            unit = self.near.unit
            kernels.kick_near(self.near.forces, particles.n, factor * unit, particles.room(MOMENTUM))

    def forces(self) -> NDArray[np.float64]:
        """Return -grad(phi~) at the owned particles, [3, n]. No communication."""
        n = self.particles.n
        found = np.array(self._force[:, :n])
        if self.near is not None:
            found += self.near.forces[:n].T * self.near.unit
        return found

    def potentials(self) -> NDArray[np.float64]:
        """Return phi~ at the owned particles, [n], that of the particle itself on the mesh included. Collective."""
        found = self.mesh.potential(self.particles.position)
        if self.near is not None:
            found += self.near.potentials(self.particles.n)
        return found

    def memory(self) -> dict[str, int]:
        """Return the bytes that this rank holds, by what they are for."""
        near = 0 if self.near is None else self.near.n_bytes
        return {
            "particles": self.particles.n_bytes + self._force.nbytes,
            "mesh": self.mesh.n_bytes,
            "short range": near,
        }
