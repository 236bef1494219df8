"""Thermodynamic figures of the present state: the same bits on any ranks, process grid and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.molecular_dynamics.initial import square_speeds
from ridgeline.models.molecular_dynamics.problem import Thermo, thermo_of
from ridgeline.parallel.allreduce import allreduce_sums
from ridgeline.particles.nonfinite import locate_nonfinite
from ridgeline.particles.particles import POSITION

BINS = 125  # of the radial distribution function

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.molecular_dynamics.engine_cpu import CpuEngine

Reals = NDArray[np.float64]


class Diagnostics:
    """Figures of an engine's atoms. Every method is collective."""

    def __init__(self, comm: MPI.Comm, engine: CpuEngine) -> None:
        self._comm, self._engine = comm, engine

    def thermo(self) -> Thermo:
        """Return temperature, energies per atom and pressure."""
        melt = self._engine.melt
        energy, virial = self._engine.pair_sums()
        squares = square_speeds(self._engine.particles["velocity"])
        sums = allreduce_sums(self._comm, [squares, energy, virial], melt.atoms)
        return thermo_of(melt.atoms, melt.volume, *(float(value) for value in sums))

    def square_displacement(self) -> float:
        """Return the mean square of the ways from the lattice."""
        (total,) = allreduce_sums(self._comm, [square_speeds(self._engine.paths())], self._engine.melt.atoms)
        return float(total) / self._engine.melt.atoms

    def radial(self) -> tuple[Reals, Reals]:
        """Return the middles of bins up to the cut-off and the radial distribution function g there, (BINS,) each.

        g is the density of atoms at a distance from one over that of the whole (Allen and Tildesley, "Computer
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
        """Return the figures by the names of LAMMPS' columns, in their order, then the mean square displacement."""
        found = self.thermo()
        return {
            "Temp": found.temperature,
            "E_pair": found.pair_energy,
            "KinEng": found.kinetic_energy,
            "TotEng": found.total_energy,
            "Press": found.pressure,
            "MSD": self.square_displacement(),
        }

    def momentum(self) -> tuple[float, float, float]:
        """Return the sum of the velocities, x, y, z."""
        velocity = self._engine.particles["velocity"]
        x, y, z = allreduce_sums(self._comm, list(velocity), self._engine.melt.atoms)
        return float(x), float(y), float(z)

    def locate_nonfinite(self) -> str | None:
        """Say which atom is not finite, the one of least identity; None if there is none."""
        return locate_nonfinite(self._comm, self._engine.particles, (POSITION, "velocity"), "atom")
