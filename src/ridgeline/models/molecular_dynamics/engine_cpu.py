"""Molecular dynamics on CPUs: the atoms of one rank's box, their ghosts, neighbour lists and forces.

Read `CpuEngine.advance` first: a step of velocity Verlet, with the rebuild of the lists (`_rebuild`) and the forces
(`_compute_forces`). The loops over atoms are in kernels.py, and the sums over the neighbours of an atom in
kernels_pairs.py. Ghosts, lists, cells and migration are those of `particles/`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.jit.random import round_keys
from ridgeline.models.contract import Context
from ridgeline.models.molecular_dynamics import kernels
from ridgeline.models.molecular_dynamics.estimate import boxes_of
from ridgeline.models.molecular_dynamics.external_potential import ExternalPotential
from ridgeline.models.molecular_dynamics.initial import lattice_places
from ridgeline.models.molecular_dynamics.kernels_external import (
    MOST_FORCE,
    make_external_energies,
    make_external_forces,
)
from ridgeline.models.molecular_dynamics.kernels_pairs import (
    CLOSEST,
    COLUMNS,
    FORCE_UNIT,
    lanes_of_forces,
    lanes_of_mixed_forces,
)
from ridgeline.models.molecular_dynamics.problem import Langevin, Melt, Method
from ridgeline.parallel.allreduce import allreduce_max, kernels_of_sums
from ridgeline.parallel.partition import Triple
from ridgeline.particles.boxes import kernels_of_boxes
from ridgeline.particles.cells import Cells
from ridgeline.particles.ghosts import PROGRESS_CALLS, Ghosts, kernels_of_ghosts
from ridgeline.particles.identity_ranges import IdentityRanges
from ridgeline.particles.migration import Migration
from ridgeline.particles.neighbours import FAR, NeighbourList, kernels_of_neighbours
from ridgeline.particles.particles import POSITION, ParticleField, Particles, capacity_for
from ridgeline.runtime.errors import ParticleError

# The fields of an atom beside its position. held: its list position, where it was when lists were built last.
FIELDS = {
    "velocity": ParticleField(np.float64, 3),
    "held": ParticleField(np.float64, 3),
    "image": ParticleField(np.int32, 3),
}


class CpuEngine:
    """The atoms of this rank. Lists are built at steps that are multiples of `every`, see NeighbourSection.

    points: float64 [m, 4], x, y, z of the owned atoms, then of ghosts, then of a point far away; forces: int64 [m, 4]
    in units of FORCE_UNIT. langevin: the thermostat, None at constant energy; external: a potential of each atom,
    None without one. Built collectively.
    """

    def __init__(
        self,
        melt: Melt,
        process_grid: Triple,
        method: Method,
        context: Context,
        langevin: Langevin | None = None,
        external: ExternalPotential | None = None,
    ) -> None:
        self.melt, self._langevin, self.external = melt, langevin, external
        self._time = 0.0
        self._keys = round_keys(langevin.seed if langevin else 0)
        self._method = method
        self._comm, self._regions = context.comm, context.regions
        self._quantum = kernels.quantum_of(max(melt.lengths) + 2 * melt.reach)
        self.boxes = boxes_of(self.rounded(np.array(melt.lengths)).tolist(), process_grid)
        self.ranges = IdentityRanges(context.comm, melt.atoms)
        self.particles = Particles(FIELDS)
        self.ghosts = Ghosts(context.comm, self.boxes, melt.reach)
        self._cells = Cells(self.boxes.bounds(context.comm.rank), melt.reach)
        self.lists = NeighbourList(self._cells, melt.reach, self._method.newton, context.threads)
        self._closest = np.empty(context.threads)
        self.points = np.zeros((1, COLUMNS))
        self.forces = np.zeros((1, COLUMNS), np.int64)
        self._fixed_point_positions = np.zeros((1, COLUMNS), np.int32)
        edges = np.array(self.boxes.high[::-1])
        self._per_length, self._units = 2.0**32 / edges, (edges / 2.0**32).astype(np.float32)
        self._identities = np.zeros((1, 1), np.int64)
        self._scratch = np.zeros((0, 0, COLUMNS), np.int64)  # forces of each thread, zero between steps
        self._migration: Migration | None = None
        self._faults = np.zeros(context.threads, np.int64)
        if external is not None:
            self._external_forces = make_external_forces(external)
            self._external_energies = make_external_energies(external)

    def kernels(self) -> list[Specialisation]:
        """Return the kernels that an engine calls."""
        own = (
            kernels.forces_of_full_lists,
            kernels.forces_of_half_lists,
            kernels.forces_in_mixed_precision,
            kernels.sum_forces_of_threads,
            kernels.to_fixed_point,
            kernels.kick_and_drift,
            kernels.kick_velocity,
            kernels.pair_sums,
            kernels.thermalise,
            kernels.count_distances,
        )
        return [
            *specialise(own),
            *specialise([self._external_forces, self._external_energies] if self.external else []),
            *kernels_of_neighbours(),
            *kernels_of_ghosts((np.float64, np.int64, np.int32)),
            *kernels_of_boxes(),
            *kernels_of_sums(np.float64),
        ]

    @property
    def started(self) -> bool:
        """Whether there are atoms."""
        return self._migration is not None

    @property
    def method(self) -> str:
        """How forces are summed and when lists are built, in words."""
        lists = f"full lists, {lanes_of_forces()} at a time"
        if self._method.newton:
            lists = "half lists, Newton's third law"
        if self._method.mixed:
            lists = f"full lists in float32, {lanes_of_mixed_forces()} at a time"
        when = " if an atom has moved by half of the skin" if self._method.check else ""
        waits = "" if self._method.overlap else "; exchange of ghosts not overlapped"
        return f"{lists}; rebuilt every {self._method.every} steps{when}{waits}"

    @property
    def lengths(self) -> NDArray[np.float64]:
        """The edges of the box, (3,), x, y, z, as multiples of the quantum."""
        return np.array(self.boxes.high[::-1])

    def rounded(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return lengths as the nearest multiples of the quantum of positions."""
        return np.asarray(np.rint(lengths / self._quantum) * self._quantum)

    def start(self, fields: dict[str, NDArray[Any]], step: int, time: float) -> None:
        """Start at a step and its time from the atoms of this rank's range of identities. Collective.

        fields: position, velocity, image and `held`, the list positions. The lists are built from these and not from
        the present positions, so that they are the lists of the run that wrote these atoms, on any number of ranks.
        """
        # Both kinds of positions are exchanged while atoms are distributed and sorted and lists are built.
        renamed = {**fields, POSITION: fields["held"], "held": fields[POSITION]}
        self.ranges.scatter(renamed, self.boxes, self.particles)
        if self._migration is not None:
            self._migration.free()
        self._migration = Migration(self._comm, self.boxes, self.particles)
        self._sort()
        now = np.array(self.particles["held"])
        self._find_neighbours()
        self.particles["held"][...] = self.particles.position
        self.particles.position[...] = now
        self.points[: self.particles.n, :3] = now.T
        self._compute_forces(step, time)

    def _sort(self) -> None:
        """Sort the atoms by cells, so that neighbours are close in memory."""
        particles = self.particles
        self._reserve(particles.n)
        self.points[: particles.n, :3] = particles.position.T
        self._cells.fill(self.points, particles.n)
        particles.permute(self._cells.order[: particles.n].astype(np.int64))
        self.points[: particles.n, :3] = particles.position.T

    def _reserve(self, rows: int) -> None:
        """Make `points` at least one row longer than `rows`."""
        if len(self.points) <= rows:
            larger = np.zeros((capacity_for(rows) + 1, COLUMNS))
            larger[: len(self.points)] = self.points
            self.points = larger

    def _find_neighbours(self) -> None:
        """Find the ghosts and neighbours of the atoms at `points`. Communicates with neighbours."""
        particles, ghosts = self.particles, self.ghosts
        with self._regions("exchange"):
            self.points = ghosts.build(self.points, particles.n)
            self._reserve(ghosts.n_all)
            if len(self.forces) != len(self.points):
                self.forces = np.zeros(self.points.shape, np.int64)
                self._identities = np.zeros((len(self.points), 1), np.int64)
            self._identities[: particles.n, 0] = particles.identity
            ghosts.forward_values(self._identities)
        self.points[ghosts.n_all] = FAR
        if self._method.mixed:
            if len(self._fixed_point_positions) != len(self.points):
                self._fixed_point_positions = np.zeros(self.points.shape, np.int32)
            self._fixed_point_positions[ghosts.n_all] = 1
        if self._method.newton and self._scratch.shape[1] != len(self.points):
            self._scratch = np.zeros((len(self._closest), *self.points.shape), np.int64)
        with self._regions("neighbour"):
            self.lists.build(self.points, particles.n, ghosts.n_local, ghosts.n_all)

    def advance(self, step: int, dt: float, time: float) -> None:
        """Advance from `step` by one step of velocity Verlet, of length dt, to `time`.

        Communicates with neighbours; collective where lists are rebuilt. Raises ParticleError if atoms overlap, are
        not finite, or have moved farther than the lists reach.
        """
        particles, regions, kick = self.particles, self._regions, 0.5 * dt * FORCE_UNIT
        with regions("integrate"):
            kernels.kick_and_drift(
                self.forces,
                particles.n,
                kick,
                dt,
                self._quantum,
                particles.storage("velocity"),
                particles.storage(POSITION),
                self.points,
            )
        step += 1
        if step % self._method.every == 0 and self._lists_are_due(step):
            self._rebuild(step)
        self._compute_forces(step, time)
        with regions("integrate"):
            kernels.kick_velocity(self.forces, particles.n, kick, particles.storage("velocity"))
            if self._langevin is not None:
                damping = self._langevin.damping
                spread = math.sqrt(self._langevin.temperature * -math.expm1(-2 * dt / damping))
                kernels.thermalise(
                    particles.identity,
                    particles.n,
                    step,
                    self._keys,
                    math.exp(-dt / damping),
                    spread,
                    particles.storage("velocity"),
                )

    def _lists_are_due(self, step: int) -> bool:
        """Say whether lists must be rebuilt. Collective if it depends on how far atoms have moved."""
        particles = self.particles
        with self._regions("neighbour"):
            squares = ((particles.position - particles["held"]) ** 2).sum(0)
            farthest = float(np.sqrt(squares.max(initial=0.0)))
            if farthest > self.melt.reach:
                atom = particles.identity[np.argmax(squares)]
                raise ParticleError(
                    f"atom {atom} moved by {farthest:.3g} sigma in the last {self._method.every} steps or fewer "
                    f"before step {step}, which is farther than the neighbour lists reach "
                    f"({self.melt.reach:g} sigma). Try a smaller model.dt or neighbour.every."
                )
            if not self._method.check:
                return True
            return float(allreduce_max(self._comm, farthest)) > 0.5 * self.melt.skin

    def _rebuild(self, step: int) -> None:
        """Move atoms to their owners, then find ghosts and neighbours again. Collective."""
        assert self._migration is not None
        with self._regions("exchange"):
            self._migration(self.particles, step)
        with self._regions("neighbour"):
            self._sort()
            self.particles["held"][...] = self.particles.position
        self._find_neighbours()

    def _compute_forces(self, step: int, time: float) -> None:
        """Set the forces at the present points and at a time. Communicates with neighbours.

        With `overlap`, the forces on atoms without neighbours on other ranks are computed while the positions of
        ghosts travel. No force depends on when it is computed.
        """
        ghosts, lists, n = self.ghosts, self.lists, self.particles.n
        self._closest.fill(np.inf)
        if self._method.mixed:
            with self._regions("integrate"):
                kernels.to_fixed_point(
                    self.particles.storage(POSITION), n, self._per_length, self._fixed_point_positions
                )
            # The integers wrap as the box does, so that no shift is added to them.
            messages = ghosts.forward_overlapped(self._fixed_point_positions)
        else:
            messages = ghosts.forward_overlapped(self.points, shifted=True)
        done, inner = 0, lists.inner if self._method.overlap else 0
        piece = -(-inner // max(ghosts.stages * PROGRESS_CALLS, 1))
        with self._regions("exchange"):
            for _ in messages:
                if done < inner:
                    self._compute_forces_on(lists.order[done : min(done + piece, inner)])
                    done = min(done + piece, inner)
        self._compute_forces_on(lists.order[done:n])
        if self._method.newton:
            with self._regions("pair"):
                kernels.sum_forces_of_threads(self._scratch, ghosts.n_all, self.forces)
            with self._regions("exchange"):
                ghosts.reverse(self.forces)
        if self._closest.min() < CLOSEST**2:
            self._refuse_overlap(step)
        self._time = time
        if self.external is not None:
            with self._regions("integrate"):
                self._external_forces(self.points, n, self.lengths, time, self.forces, self._faults)
            if self._faults.max() >= 0:
                self._refuse_force(int(self._faults[self._faults >= 0][0]), step)

    def _compute_forces_on(self, atoms: NDArray[np.int64]) -> None:
        """Set the forces on some atoms or, by Newton's third law, add those of their pairs. No communication."""
        lists, square = self.lists, self.melt.cutoff**2
        rows, capacity, counts = lists.rows.reshape(-1), lists.rows.shape[1], lists.counts
        units, closest = self._units, self._closest
        with self._regions("pair"):
            if self._method.mixed:
                kernels.forces_in_mixed_precision(
                    self._fixed_point_positions,
                    atoms,
                    rows,
                    capacity,
                    counts,
                    square,
                    units,
                    closest,
                    self.forces,
                )
            elif self._method.newton:
                kernels.forces_of_half_lists(
                    self.points, atoms, rows, capacity, counts, square, units, closest, self._scratch
                )
            else:
                kernels.forces_of_full_lists(
                    self.points, atoms, rows, capacity, counts, square, units, closest, self.forces
                )

    def external_energies(self) -> NDArray[np.float64]:
        """Return the external potential of the owned atoms, (n,): zeros without one."""
        n = self.particles.n
        energies = np.zeros(n)
        if self.external is not None:
            self._external_energies(self.points, n, self.lengths, self._time, energies)
        return energies

    def _refuse_force(self, i: int, step: int) -> None:
        """Raise ParticleError for an atom whose external force is not finite or too large."""
        assert self.external is not None
        place = self.points[i, :3]
        fx, fy, fz = self.external.at(place[np.newaxis], self.lengths, self._time)[1][0]
        x, y, z = place - self.lengths * np.floor(place / self.lengths)
        raise ParticleError(
            f"the external potential {self.external.energy.text!r} gives the force [{fx:.3g}, {fy:.3g}, {fz:.3g}] on "
            f"atom {self.particles.identity[i]} in step {step}, at x = {x:g}, y = {y:g}, z = {z:g} and t = "
            f"{self._time:g}, but forces must be finite and below {MOST_FORCE:.3g} epsilon/sigma. Correct "
            f"model.external_potential, or try a smaller model.dt."
        )

    def _refuse_overlap(self, step: int) -> None:
        """Raise ParticleError for the two atoms that are nearest to each other."""
        nearest: tuple[float, int, int] = (np.inf, 0, 0)
        for i in range(self.particles.n):
            neighbours = self.lists.rows[i, : self.lists.counts[i]]
            squares = ((self.points[neighbours, :3] - self.points[i, :3]) ** 2).sum(1)
            k = int(np.argmin(squares)) if len(squares) else -1
            if k >= 0 and squares[k] < nearest[0]:
                nearest = float(squares[k]), i, int(neighbours[k])
        square, i, j = nearest
        first, second = sorted(int(self._identities[row, 0]) for row in (i, j))
        x, y, z = self.points[i, :3]
        raise ParticleError(
            f"atoms {first} and {second} overlap in step {step}. They are {np.sqrt(square):.3g} sigma apart at "
            f"x = {x:g}, y = {y:g}, z = {z:g}, but forces are computed only for distances of at least {CLOSEST} "
            f"sigma. Try a smaller model.dt, model.density or initial.temperature."
        )

    def _update_points(self) -> None:
        """Update the ghosts of `points`, if the forces do not. Communicates with neighbours."""
        if self._method.mixed:
            self.ghosts.forward(self.points)

    def pair_sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the shares of the owned atoms, (n,), in the sums over all pairs of u(r) and r.f."""
        self._update_points()
        n, lists = self.particles.n, self.lists
        energy, virial = np.empty((2, n))
        rows, capacity = lists.rows.reshape(-1), lists.rows.shape[1]
        kernels.pair_sums(self.points, n, rows, capacity, lists.counts, self.melt.cutoff**2, energy, virial)
        share = 1.0 if self._method.newton else 0.5  # full lists have every pair twice
        return share * energy, share * virial

    def distances(self, bins: int) -> NDArray[np.int64]:
        """Return the number of distances up to the cut-off in each bin, (bins,), every pair twice."""
        self._update_points()
        counts, lists = np.empty(bins, np.int64), self.lists
        rows, capacity = lists.rows.reshape(-1), lists.rows.shape[1]
        per_length = bins / self.melt.cutoff
        kernels.count_distances(
            self.points, self.particles.n, rows, capacity, lists.counts, per_length, counts
        )
        return counts * 2 if self._method.newton else counts

    def displacements(self) -> NDArray[np.float64]:
        """Return the displacement of each owned atom from its lattice place, (3, n), without jumps at sides."""
        particles = self.particles
        begin = self.rounded(lattice_places(self.melt, particles.identity).T)
        return np.asarray(particles.position + self.lengths[:, None] * particles["image"] - begin)

    def allocated(self) -> int:
        """Return the bytes of all arrays."""
        arrays = (
            self.points,
            self.forces,
            self._identities,
            self._scratch,
            self._fixed_point_positions,
            self.lists.rows,
            self.lists.counts,
            self.lists.order,
        )
        return sum(array.nbytes for array in arrays) + self.particles.n_bytes + self._cells.n_bytes
