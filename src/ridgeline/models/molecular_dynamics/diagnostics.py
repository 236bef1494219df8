"""Thermodynamic quantities of the present state: the same bits for any number of ranks and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.molecular_dynamics.initial import square_speeds
from ridgeline.models.molecular_dynamics.problem import Thermo, thermo_of
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.particles.particles import POSITION, locate_nonfinite

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.molecular_dynamics.engine_cpu import CpuEngine

BINS = 125  # of the radial distribution function
Reals = NDArray[np.float64]


class Diagnostics:
    """Computes thermodynamic quantities of an engine's atoms. Every method is collective."""

    def __init__(self, comm: MPI.Comm, engine: CpuEngine) -> None:
        self._comm, self._engine = comm, engine

    def thermo(self) -> Thermo:
        """Return temperature, energies per atom and pressure."""
        melt = self._engine.melt
        energy, virial = self._engine.pair_sums()
        squares = square_speeds(self._engine.particles["velocity"])
        terms = [squares, energy, virial, self._engine.external_energies()]
        sums = allreduce_sums(self._comm, terms, melt.atoms)
        return thermo_of(melt.atoms, melt.volume, *map(float, sums))

    def square_displacement(self) -> float:
        """Return the mean square displacement of the atoms from their places on the lattice."""
        (total,) = allreduce_sums(
            self._comm, [square_speeds(self._engine.displacements())], self._engine.melt.atoms
        )
        return float(total) / self._engine.melt.atoms

    def radial(self) -> tuple[Reals, Reals]:
        """Return the middles of bins up to the cut-off and the radial distribution function g there, (BINS,) each.

        g is the density of atoms at a distance from an atom over the mean density (Allen and Tildesley, "Computer
        Simulation of Liquids", Sec. 2.6).
        """
        melt = self._engine.melt
        counts = np.empty(BINS, np.int64)
        self._comm.Allreduce(self._engine.distances(BINS), counts)
        edges = np.linspace(0.0, melt.cutoff, BINS + 1)
        shells = 4 / 3 * np.pi * np.diff(edges**3)
        density = melt.atoms / melt.volume
        return 0.5 * (edges[1:] + edges[:-1]), counts / (melt.atoms * density * shells)

    def row(self) -> dict[str, float]:
        """Return the columns of LAMMPS' thermo output by name, in its order, then the mean square displacement.

        With an external potential its energy per atom, E_external, follows that of pairs; the total includes it.
        """
        thermo = self.thermo()
        external = {} if self._engine.external is None else {"E_external": thermo.external_energy}
        return {
            "Temp": thermo.temperature,
            "E_pair": thermo.pair_energy,
            **external,
            "KinEng": thermo.kinetic_energy,
            "TotEng": thermo.total_energy,
            "Press": thermo.pressure,
            "MSD": self.square_displacement(),
        }

    def momentum(self) -> tuple[float, float, float]:
        """Return the sum of the velocities, x, y, z."""
        velocity = self._engine.particles["velocity"]
        x, y, z = allreduce_sums(self._comm, list(velocity), self._engine.melt.atoms)
        return float(x), float(y), float(z)

    def locate_nonfinite(self) -> str | None:
        """Say which atom is not finite, that of the least identity; None if all are finite."""
        return locate_nonfinite(self._comm, self._engine.particles, (POSITION, "velocity"), "atom")
