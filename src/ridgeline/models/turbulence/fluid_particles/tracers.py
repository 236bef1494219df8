"""Fluid particles, which move with the velocity at their place in the substeps of the flow's Runge-Kutta scheme.

With u_n the flow at the beginning of a step and u_(n+1) at its end,

    RK2 (Heun)  x* = x + dt u_n(x),   x_(n+1) = x + dt/2 (u_n(x) + u_(n+1)(x*)),
    RK4         the classical scheme with the velocities of the solver's own stages,

so that particles and flow are one system, advanced by one scheme. Every move is a sum of increments, after which each
particle migrates to the rank that has the points around it. Source: Yeung and Pope, J. Comput. Phys. 79 (1988) 373.

The start of a particle is a function of seed and identity, on any number of ranks. Random numbers are drawn for each
particle, each pair (identities 2 g and 2 g + 1) or each tetrad (4 g ... 4 g + 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.random_numbers import normal, uniform
from ridgeline.fourier.stages import RowOperation
from ridgeline.fourier.transform import FourierTransform
from ridgeline.models.pencil_boxes import boxes_of
from ridgeline.models.turbulence.fluid_particles.fields import CARRIED, MOVING, N_LOADED, SAVED
from ridgeline.models.turbulence.fluid_particles.interpolation import (
    NOWHERE,
    Floats,
    LineFactors,
    Operand,
    point_values,
    unchanged,
)
from ridgeline.models.turbulence.fluid_particles.kernels_points import add_two
from ridgeline.models.turbulence.particle_settings import GROUPS, ParticlesSection
from ridgeline.models.turbulence.random_numbers import Purpose
from ridgeline.parallel.partition import DistributedArray
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.migration import Migration
from ridgeline.particles.particles import IDENTITY, ParticleField, Particles, sort_along_curve
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


Fields = NDArray[Any]  # complex [3 + S, n_modes]

PREFIX = "particles_"  # of the arrays of a checkpoint
# Parts of the time that particles take.
PARTS = ("spline transform", "ghost planes", "interpolate", "migrate", "sort")
SORT_EVERY = 32  # steps, in which a particle moves a few cells
SORTED_CELLS = (32, 4, 4)  # (x, y, z) of a block whose coefficients fit a first-level cache, in long rows
# Corners of a regular tetrahedron around the origin whose edges have length 1: [corner, axis].
CORNERS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(8.0)


class Tracers:
    """The fluid particles of this rank. Creating it, and every method, is collective.

    settings, seed: of the case; transform: the engine's, whose exchange buffer is free between steps; comm: all
    ranks, numbered as transform.grid.rank.

    Attributes
    ----------
    particles : with position (in the box), image and velocity
    ranges : this rank's identities, which are whole pairs and tetrads
    start_place, start_velocity : of step 0, float64 [3, n] in the order of this rank's identities
    regions : seconds of `PARTS`
    """

    def __init__(
        self, settings: ParticlesSection, seed: int, transform: FourierTransform, comm: MPI.Comm
    ) -> None:
        self.settings, self._seed, self._comm = settings, seed, comm
        self._modes, grid = transform.modes, transform.grid
        self.lengths = self._modes.lengths
        self.boxes = boxes_of(grid.shape, grid.process_grid, self.lengths)
        self.regions = Regions()
        self._values = point_values(settings.interpolation, transform, comm, self.regions)
        self._same = unchanged(self._modes)
        self._loaded = False
        self.ranges = IdentityRanges(comm, settings.count, GROUPS[settings.placement])
        self.particles = Particles(CARRIED)
        self._migration: Migration | None = None
        self._restoring: dict[str, DistributedArray] = {}
        self.start_place, self.start_velocity = np.zeros((2, 3, 0))
        cell = [length / n for length, n in zip(self.lengths, grid.shape)]
        self._cell = np.array(cell[::-1]) * SORTED_CELLS

    def start(self, fields: Fields, shift: Floats = NOWHERE) -> None:
        """Place all particles of a new run. fields, shift: as for `advance`, of step 0. Raises ParticleError."""
        nothing = np.zeros((3, self.ranges.n))
        self._find_start()
        self.particles.n = 0
        self.particles.add(
            {
                IDENTITY: self.ranges.identities,
                "position": self.start_place,
                **dict.fromkeys(CARRIED, nothing),
            }
        )
        self._begin()
        self._migrate(0)
        self._sort()
        self._load(fields, shift)
        self._interpolate("velocity")
        self.start_velocity = self.ranges.gather(self.particles, "velocity")
        self.regions.reset()

    def _find_start(self) -> None:
        identities = self.ranges.identities
        self.start_place = start_positions(self.settings, self._seed, self.lengths, identities)

    def _begin(self) -> None:
        if self._migration is not None:
            self._migration.free()
        self._migration = Migration(self._comm, self.boxes, self.particles)

    def advance(
        self,
        fields: Fields,
        stages: Sequence[tuple[Fields, LineFactors]],
        dt: float,
        step: int,
        shift: Floats = NOWHERE,
    ) -> None:
        """Move all particles over a step that the flow has made, and set their velocities to those of the new flow.

        Parameters
        ----------
        fields : the flow at the end of the step
        stages : RK4: velocities of the flow's substeps 2, 3 and 4, with factors that undo the displacement of their
            grids; RK2: none
        dt : length of the step
        step : number of the step at its end, for messages
        shift : displacement of the grid on which the flow's next step needs its velocity, (x, y, z), fractions of the
            box

        Raises
        ------
        ParticleError
            If a particle is not finite.
        """
        if stages:
            # Each stage starts from the beginning of the step: the increment of the previous one is undone.
            self._keep("sum")
            self._move(dt / 2, "velocity", 0.0, "velocity", step)
            for (stage, factors), ahead, behind, weight in zip(
                stages, (dt / 2, dt, 0.0), (dt / 2, dt / 2, dt), (2.0, 2.0, 1.0), strict=True
            ):
                self._keep("before")
                self._values.load([(field, factors) for field in stage])
                self._interpolate("velocity")
                total = self.particles["sum"]
                total += weight * self.particles["velocity"]
                if ahead:
                    self._move(ahead, "velocity", -behind, "before", step)
                else:
                    self._move(dt / 6, "sum", -behind, "before", step)
            self._load(fields, shift)
            self._interpolate("velocity")
        else:
            self._load(fields, shift)
            self._move(dt, "velocity", 0.0, "velocity", step)
            self._correct(dt / 2, step)
        if step % SORT_EVERY == 0:
            self._sort()

    def _load(self, fields: Fields, shift: Floats) -> None:
        """Load the velocity of the flow on a displaced grid."""
        self._values.load([(field, self._same) for field in fields[:3]], shift)
        self._loaded = True

    def velocity_rows(self, fields: Fields, shift: Floats) -> RowOperation | None:
        """Return an operation that sets rows to the velocity on a displaced grid without a transform, or None.

        fields, shift: those of the last `start` or `advance`; loaded again after `values`, `state` or `restored`.
        """
        rows = self._values.rows()
        if rows is not None and not self._loaded:
            self._load(fields, shift)
        return rows

    def _correct(self, half: float, step: int) -> None:
        """Correct the positions that Heun's scheme predicted, and set the velocities there."""
        particles = self.particles
        with self.regions("interpolate"):
            away = self._values.correct(half, particles.position, particles["velocity"], particles["image"])
        # Ghost planes reach a cell. A particle that was moved farther needs the points of another rank.
        if self._comm.allreduce(away):
            self._migrate(step)
            self._interpolate("velocity")

    def _interpolate(self, name: str) -> None:
        """Set a field of the particles, of 3 components, to the loaded fields at the particles."""
        with self.regions("interpolate"):
            self._values.at(self.particles.position, self.particles[name])

    def _keep(self, name: str) -> None:
        with self.regions("interpolate"):
            self.particles[name][...] = self.particles["velocity"]

    def _move(self, a: float, first: str, b: float, second: str, step: int) -> None:
        """Add a first + b second to positions, and send particles to their owners."""
        with self.regions("interpolate"):
            rows = (self.particles[name] for name in ("position", first, second))
            for position, first_row, second_row in zip(*rows, strict=True):
                add_two(position, a, first_row, b, second_row)
        self._migrate(step)

    def _migrate(self, step: int) -> None:
        assert self._migration is not None  # `start` or `restored` came first
        with self.regions("migrate"):
            self._migration(self.particles, step)

    def _sort(self) -> None:
        with self.regions("sort"):
            sort_along_curve(self.particles, np.zeros(3), self._cell)

    def values(self, fields: Sequence[Operand]) -> NDArray[np.float64]:
        """Return fields at this rank's particles, float64 [number of fields, n]."""
        out = np.empty((-(-len(fields) // N_LOADED) * N_LOADED, self.particles.n))
        for first in range(0, len(fields), N_LOADED):
            part = slice(first, first + N_LOADED)
            self._loaded = False
            self._values.load(fields[part])
            self._values.at(self.particles.position, out[part])
        return out[: len(fields)]

    def state(self) -> dict[str, DistributedArray]:
        """Return the arrays of a checkpoint, in the order of identities; undefined before `start` or `restored`."""
        # A checkpoint changes the last bits of the flow's modes, to those that a resumed run reads.
        self._loaded = False
        arrays = self.ranges.arrays(SAVED, PREFIX)
        if self._migration is not None:
            for name in MOVING:
                self.ranges.gather(self.particles, name, arrays[PREFIX + name].local)
            arrays[PREFIX + "start_velocity"].local[...] = self.start_velocity
        self._restoring = arrays
        return arrays

    def restored(self) -> None:
        """Continue from what was read into the arrays of `state`."""
        read = {name: self._restoring[PREFIX + name].local for name in SAVED}
        self.start_velocity = read.pop("start_velocity")
        self._find_start()
        self.ranges.scatter(read, self.boxes, self.particles)
        self._restoring = {}
        self._loaded = False
        self._begin()
        self._sort()
        self.regions.reset()

    def memory(self) -> dict[str, int]:
        """Return the bytes that this rank holds, by purpose."""
        started = self.start_place.nbytes + self.start_velocity.nbytes
        return {"particles": self.particles.n_bytes + started, "points of particles": self._values.n_bytes}

    def paths(self) -> NDArray[np.float64]:
        """Return positions along the paths, without jumps at the box's sides, [3, n] in the order of identities."""
        box = np.array(self.lengths[::-1])[:, np.newaxis]
        position, image = (self.ranges.gather(self.particles, name) for name in ("position", "image"))
        return np.asarray(position + image * box)

    def in_order(self, values: NDArray[np.float64], field: ParticleField) -> NDArray[np.float64]:
        """Return values of particles, [n] or [components, n] of this rank's, for the identities of this rank."""
        return self.ranges.send(self.particles.identity, values, np.empty(field.shape(self.ranges.n)))


def start_positions(
    settings: ParticlesSection, seed: int, lengths: tuple[float, float, float], identity: NDArray[np.int64]
) -> Floats:
    """Return the positions of particles at step 0, float64 [3, n], x, y, z, which may lie outside of the box.

    seed: of the run, for particles without a seed; lengths: (L_z, L_y, L_x); identity: int64 [n]. No communication.
    """
    seed = seed if settings.seed is None else settings.seed
    box = np.array(lengths[::-1])[:, np.newaxis]
    if settings.placement == "lattice":
        edge = round(settings.count ** (1 / 3))
        numbers = np.stack([identity % edge, identity // edge % edge, identity // edge**2])
        return np.asarray((numbers + 0.5) * (box / edge))
    size = GROUPS[settings.placement]
    group, member = identity // size, identity % size
    place: Floats = uniform(seed, Purpose.PARTICLES, 0, 0, group >> 32, group, 3) * box
    if size > 1:
        assert settings.separation is not None  # the settings' own check
        place += settings.separation * _place_in_group(seed, size, group, member)
    return place


def _place_in_group(seed: int, size: int, group: NDArray[np.int64], member: NDArray[np.int64]) -> Floats:
    """Return the place of each member relative to its group's place, for edges of length 1: float64 [3, n]."""
    drawn = normal(seed, Purpose.PARTICLES, 1, 0, group >> 32, group, 2)
    four = np.concatenate([drawn.real, drawn.imag])
    if size == 2:
        direction = four[:3] / np.linalg.norm(four[:3], axis=0)
        return np.where(member == 1, direction, 0.0)
    a, b, c, d = four / np.linalg.norm(four, axis=0)
    turn = np.array(
        [
            [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d],
        ]
    )
    return np.asarray(np.einsum("ijn,nj->in", turn, CORNERS[member]))
