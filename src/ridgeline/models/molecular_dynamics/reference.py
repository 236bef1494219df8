"""The Lennard-Jones melt in plain NumPy, all atoms in one box: the oracle for the engine.

Written to be read: pairs from a tree of SciPy, minimum image, no ghosts, no cells, sums in any order.

    u(r) = 4 (r^-12 - r^-6) where r < r_c, 0 elsewhere;  f_i = sum_j (48 r^-14 - 24 r^-8) (x_i - x_j)
    with an external potential V, f_i has - grad V(x_i, t) as well, at the image of x_i in the box

    v' = v + dt/2 f(x);  x' = x + dt v';  v'' = v' + dt/2 f(x')                            (velocity Verlet)

Sources: Lennard-Jones 1924; Swope et al., J. Chem. Phys. 76 (1982) 637; LAMMPS bench/in.lj for published results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ridgeline.models.molecular_dynamics.external_potential import ExternalPotential
from ridgeline.models.molecular_dynamics.initial import lattice_places, uniform_by_place
from ridgeline.models.molecular_dynamics.problem import Melt, Thermo, thermo_of

Reals = NDArray[np.float64]
Pairs = NDArray[np.int64]


def neighbour_pairs(places: Reals, lengths: Reals, reach: float) -> Pairs:
    """Return all pairs (n, 2) whose nearest images are closer than `reach`, each pair once."""
    wrapped = places - lengths * np.floor(places / lengths)
    wrapped[wrapped >= lengths] = 0.0
    return np.asarray(cKDTree(wrapped, boxsize=lengths).query_pairs(reach, output_type="ndarray"), np.int64)


def pair_forces(places: Reals, lengths: Reals, pairs: Pairs, cutoff: float) -> tuple[Reals, float, float]:
    """Return forces (n, 3), the sum of pair energies and the sum of r.f over the pairs closer than the cut-off."""
    i, j = pairs.T
    apart = places[i] - places[j]
    apart -= lengths * np.round(apart / lengths)
    square = (apart**2).sum(1)
    near = square < cutoff**2
    i, j, apart, square = i[near], j[near], apart[near], square[near]
    sixth = square**-3
    over_distance = (48 * sixth**2 - 24 * sixth) / square
    force = over_distance[:, None] * apart
    forces = np.stack(
        [np.bincount(i, f, len(places)) - np.bincount(j, f, len(places)) for f in force.T], axis=1
    )
    return forces, float((4 * (sixth**2 - sixth)).sum()), float((over_distance * square).sum())


class ReferenceSolver:
    """A melt whose list of pairs is rebuilt every `rebuild_every` steps, however far atoms have moved."""

    def __init__(
        self, melt: Melt, rebuild_every: int = 20, external: ExternalPotential | None = None
    ) -> None:
        self.melt, self._rebuild_every, self._external = melt, rebuild_every, external
        self.lengths = np.array(melt.lengths)
        self.places = lattice_places(melt, np.arange(melt.atoms))
        self.velocities = uniform_by_place(melt.seed, self.places) - 0.5
        self.velocities -= self.velocities.mean(0)
        self.velocities *= np.sqrt(melt.temperature / self.temperature())
        self.step_number = 0
        self.rebuild()

    def temperature(self) -> float:
        """Return the temperature."""
        return float((self.velocities**2).sum()) / (3 * self.melt.atoms - 3)

    def rebuild(self) -> None:
        """Compute the list of pairs, and the forces."""
        self.pairs = neighbour_pairs(self.places, self.lengths, self.melt.cutoff + self.melt.skin)
        self.evaluate()

    def evaluate(self) -> None:
        """Compute forces, energies and virial of the present places."""
        self.forces, self.energy, self.virial = pair_forces(
            self.places, self.lengths, self.pairs, self.melt.cutoff
        )
        self.external_energy = 0.0
        if self._external is not None:
            time = self.step_number * self.melt.dt
            energies, forces = self._external.at(self.places, self.lengths, time)
            self.forces += forces
            self.external_energy = float(energies.sum())

    def step(self) -> None:
        """Advance by one step of velocity Verlet."""
        self.step_number += 1
        half = 0.5 * self.melt.dt
        self.velocities += half * self.forces
        self.places += self.melt.dt * self.velocities
        if self.step_number % self._rebuild_every == 0:
            self.rebuild()
        else:
            self.evaluate()
        self.velocities += half * self.forces

    def thermo(self) -> Thermo:
        """Return the thermodynamic quantities of the present state."""
        squares = float((self.velocities**2).sum())
        return thermo_of(
            self.melt.atoms, self.melt.volume, squares, self.energy, self.virial, self.external_energy
        )
