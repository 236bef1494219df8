"""The Lennard-Jones melt in plain values: what settings, engine and reference share.

All values are in reduced units: lengths in sigma, energies in epsilon, masses in that of an atom, with Boltzmann's
constant 1. Time is then in sigma sqrt(m / epsilon), and pressure in epsilon / sigma^3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ridgeline.parallel.partition import Triple

ATOMS_PER_CELL = 4  # of a face-centred cubic lattice


@dataclass(frozen=True)
class Melt:
    """A periodic box filled by a face-centred cubic lattice, its atoms and their potential.

    cells: of the lattice, [nz, ny, nx]; density: atoms per volume; seed: of the initial velocities; cutoff: of the
    potential, which is neither shifted nor corrected for its tail; skin: length by which neighbour lists reach beyond
    the cut-off.
    """

    cells: Triple = (20, 20, 20)
    density: float = 0.8442
    temperature: float = 1.44
    seed: int = 87287
    cutoff: float = 2.5
    skin: float = 0.3
    dt: float = 0.005

    @property
    def spacing(self) -> float:
        """The edge of a lattice cell: (4 / density)^(1/3)."""
        return float(math.pow(ATOMS_PER_CELL / self.density, 1 / 3))

    @property
    def lengths(self) -> tuple[float, float, float]:
        """The edges of the box, x, y, z."""
        nz, ny, nx = self.cells
        return nx * self.spacing, ny * self.spacing, nz * self.spacing

    @property
    def reach(self) -> float:
        """The distance up to which atoms are in the list of neighbours."""
        return self.cutoff + self.skin

    @property
    def volume(self) -> float:
        """The volume of the box."""
        return math.prod(self.lengths)

    @property
    def atoms(self) -> int:
        """The number of atoms."""
        return ATOMS_PER_CELL * math.prod(self.cells)


@dataclass(frozen=True)
class Method:
    """How forces are computed, see NeighbourSection. mixed: pairs in float32, everything else in float64."""

    every: int = 20
    check: bool = False
    newton: bool = False
    mixed: bool = False
    overlap: bool = True


@dataclass(frozen=True)
class Langevin:
    """A thermostat: friction 1 / damping, and the noise that keeps the temperature. seed: key of the noise."""

    temperature: float
    damping: float
    seed: int = 0


@dataclass(frozen=True)
class Thermo:
    """The thermodynamic quantities of a state, as LAMMPS prints them: energies per atom, pressure from the virial."""

    temperature: float
    pair_energy: float
    kinetic_energy: float
    total_energy: float
    pressure: float
    external_energy: float = 0.0


def thermo_of(
    atoms: int, volume: float, square_speeds: float, energy: float, virial: float, external: float = 0.0
) -> Thermo:
    """Return the thermodynamic quantities of a state.

    square_speeds: sum of v^2 over all atoms; energy: sum of u(r) over all pairs; virial: sum of r.f over all pairs.
    The temperature counts 3 atoms - 3 degrees of freedom, as the momentum is fixed (LAMMPS, compute temp):
    T = sum v^2 / (3N - 3), P = ((3N - 3) T + sum r.f) / (3V). external: sum of an external potential over all atoms,
    which the total energy includes. It fixes no momentum, but the degrees of freedom stay the same, as in LAMMPS.
    """
    freedom = 3 * atoms - 3
    temperature = square_speeds / freedom if freedom else 0.0
    kinetic = 0.5 * freedom * temperature / atoms
    return Thermo(
        temperature,
        energy / atoms,
        kinetic,
        (energy + external) / atoms + kinetic,
        (square_speeds + virial) / (3 * volume),
        external / atoms,
    )
