"""The state of step 0, a function of the identity of an atom: the same for any number of ranks.

Lattice and velocities are those of LAMMPS (`create_atoms` on `lattice fcc`, `velocity all create T seed loop geom`),
so that its published results are met. Sources: LAMMPS documentation, pages "lattice" and "velocity"; Park and
Miller, Comm. ACM 31 (1988) 1192, the minimal standard generator; Jenkins' one-at-a-time hash.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.molecular_dynamics.problem import ATOMS_PER_CELL, Melt, thermo_of
from ridgeline.parallel.allreduce import allreduce_sums

if TYPE_CHECKING:
    from mpi4py import MPI

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]

# Places of the atoms of a lattice cell, in its edges, x, y, z.
BASIS = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])

MULTIPLIER, MODULUS = 16807, 2**31 - 1
SEED_BITS = 0x7FFFFFF
WARM_UP = 5  # first numbers of a generator, which are not used


def lattice_places(melt: Melt, identities: Integers) -> Reals:
    """Return the places (n, 3), x, y, z, of the atoms with these identities on the lattice. No communication.

    Identities count the atoms of a cell first, then cells, x fastest.
    """
    cell, atom = np.divmod(identities, ATOMS_PER_CELL)
    _, ny, nx = melt.cells
    corner = np.stack([cell % nx, cell // nx % ny, cell // nx // ny], axis=1)
    return np.asarray((corner + BASIS[atom]) * melt.spacing)


def _hash(words: NDArray[np.int8]) -> NDArray[np.uint32]:
    """Return Jenkins' one-at-a-time hash of each row of signed bytes (n, bytes)."""
    state = np.zeros(len(words), np.uint32)
    for column in words.T:
        state += column.astype(np.uint32)
        state += state << np.uint32(10)
        state ^= state >> np.uint32(6)
    state += state << np.uint32(3)
    state ^= state >> np.uint32(11)
    return state + (state << np.uint32(15))


def uniform_by_place(seed: int, places: Reals) -> Reals:
    """Return three uniform numbers in (0, 1) for each place (n, 3), from a generator seeded by the place.

    seed: of 31 bits, as the settings require. No communication.
    """
    head = np.broadcast_to(np.array([seed], "<i4").view(np.int8), (len(places), 4))
    body = np.ascontiguousarray(places, "<f8").view(np.int8).reshape(len(places), 24)
    state = (_hash(np.concatenate([head, body], axis=1)) & np.uint32(SEED_BITS)).astype(np.int64)
    state[state == 0] = 1
    numbers = np.empty((len(places), 3))
    for draw in range(WARM_UP + 3):
        state = state * MULTIPLIER % MODULUS
        if draw >= WARM_UP:
            numbers[:, draw - WARM_UP] = state * (1.0 / MODULUS)
    return numbers


def initial_velocities(comm: MPI.Comm, melt: Melt, places: Reals) -> Reals:
    """Return velocities (n, 3) of this rank's share of the atoms, by their lattice places. Collective.

    They are uniform numbers less their mean, scaled to the temperature: the same bits for any number of ranks.
    """
    velocities = uniform_by_place(melt.seed, places) - 0.5
    columns = np.ascontiguousarray(velocities.T)
    velocities -= allreduce_sums(comm, list(columns), melt.atoms) / melt.atoms
    (squares,) = allreduce_sums(comm, [square_speeds(np.ascontiguousarray(velocities.T))], melt.atoms)
    now = thermo_of(melt.atoms, melt.volume, float(squares), 0.0, 0.0).temperature
    return np.asarray(velocities * (math.sqrt(melt.temperature / now) if now else 0.0))


def square_speeds(velocity: Reals) -> Reals:
    """Return v^2 of each atom, (n,), of velocities (3, n)."""
    x, y, z = velocity
    return np.asarray((x * x + y * y) + z * z)
