"""Particles in the order of identities, spread evenly over ranks: what checkpoints and data sets hold.

Rank p has the p-th of equal ranges of 0 ... N - 1, wherever its particles are. So files do not depend on who owned
what, and any number of ranks reads what any other wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.parallel.counted_exchange import exchange_counted
from ridgeline.parallel.partition import DistributedArray, split
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.particles import IDENTITY, POSITION, ParticleField, Particles
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI


class _Arrangement(NamedTuple):
    """Of this rank's identities: their order by target, how many go to each rank, and where arrivals are put."""

    identity: NDArray[np.int64]
    order: NDArray[np.int64]
    counts: NDArray[np.int64]
    places: NDArray[np.int64]


class IdentityRanges:
    """This rank's range of the identities 0 ... n_global - 1: `n` of them from `first` on.

    together: so many consecutive identities are never cut apart, such as those of a pair; it divides n_global.
    """

    def __init__(self, comm: MPI.Comm, n_global: int, together: int = 1) -> None:
        if n_global % together:
            raise ValueError(f"{n_global} identities are no whole number of groups of {together}")
        self._comm, self.n_global = comm, n_global
        groups = [split(n_global // together, comm.size, rank) for rank in range(comm.size)]
        self.first, self.n = (together * number for number in groups[comm.rank])
        self._cuts = np.array([together * first for first, _ in groups])
        self._arranged: _Arrangement | None = None

    @property
    def identities(self) -> NDArray[np.int64]:
        """This rank's identities, int64 [n]."""
        return np.arange(self.first, self.first + self.n, dtype=np.int64)

    def array(self, name: str, field: ParticleField, values: NDArray[Any] | None = None) -> DistributedArray:
        """Return this rank's part of a field, [N] or [components, N] in the order of identities; None: undefined."""
        local = np.empty(field.shape(self.n), field.dtype) if values is None else values
        offset = (0, self.first) if field.components else (self.first,)
        return DistributedArray(name, field.shape(self.n_global), offset, local)

    def arrays(self, fields: dict[str, ParticleField], prefix: str = "") -> dict[str, DistributedArray]:
        """Return undefined arrays of fields, to be read into. Names begin with `prefix`."""
        return {prefix + name: self.array(prefix + name, field) for name, field in fields.items()}

    def gather(self, particles: Particles, name: str, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a field of this rank's range of identities, [n] or [components, n], in `out` if given. Collective.

        Raises VerificationError on all ranks if an identity is in no rank's particles, or in two.
        """
        field = particles.fields[name]
        if out is None:
            out = np.empty(field.shape(self.n), field.dtype)
        return self.send(particles.identity, particles[name], out)

    def send(self, identity: NDArray[np.int64], values: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Return out, into which values [m] or [components, m] of these identities [m] are put. Collective.

        Who sends what is agreed upon once for as long as the identities of all ranks stay in their order.
        """
        known = self._arranged
        same = known is not None and np.array_equal(known.identity, identity)
        if not self._comm.allreduce(same, mpi.LAND):
            known = self._arranged = self._arrange(identity)
        assert known is not None  # where the identities are the same
        for row, target in zip(np.atleast_2d(values), np.atleast_2d(out)):
            target[known.places] = exchange_counted(self._comm, row[known.order], known.counts)[0]
        return out

    def _arrange(self, identity: NDArray[np.int64]) -> _Arrangement:
        """Return how values of these identities go to the ranks that have them in their range. Collective."""
        owner = np.searchsorted(self._cuts, identity, side="right") - 1
        order = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=self._comm.size)
        places = exchange_counted(self._comm, identity[order], counts)[0] - self.first
        whole = len(places) == self.n and bool((np.bincount(places, minlength=self.n) == 1).all())
        if self._comm.allreduce(int(not whole)):
            raise VerificationError(
                f"the particles of all ranks are not those with the identities 0 to {self.n_global - 1}, each once"
            )
        return _Arrangement(identity.copy(), order, counts, places)

    def scatter(self, arrays: dict[str, NDArray[Any]], boxes: Boxes, particles: Particles) -> None:
        """Replace all particles by those of the arrays, each on the rank of the box that it is in. Collective.

        arrays: every field but the identity by name, this rank's range as `gather` returns it. Positions must be
        in the domain.
        """
        owner, _ = boxes.owners(arrays[POSITION], self._comm.rank)
        if self._comm.allreduce(int((owner < 0).any())):
            raise VerificationError("positions of particles that were read are not in the domain")
        order = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=self._comm.size)
        identity, _ = exchange_counted(self._comm, self.first + order, counts)
        particles.n = 0
        particles.resize(len(identity))
        particles[IDENTITY][:] = identity
        for name, array in arrays.items():
            for row, target in zip(np.atleast_2d(array), np.atleast_2d(particles[name])):
                target[:] = exchange_counted(self._comm, row[order], counts)[0]
