"""Particles in the order of their identities, divided evenly among ranks: how checkpoints and data sets hold them.

Rank p holds the p-th of equal ranges of the identities 0 ... N - 1, wherever these particles are. Files therefore do
not depend on which rank owned which particle, and any number of ranks can read what any other number wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.parallel.counted_exchange import exchange_counted
from ridgeline.parallel.partition import DistributedArray, owner_of, split
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.particles import IDENTITY, POSITION, ParticleField, Particles
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI


class _SendPlan(NamedTuple):
    """How values travel to the ranks of their identities: sending order, counts per rank, target of what arrives."""

    identity: NDArray[np.int64]
    order: NDArray[np.int64]
    counts: NDArray[np.int64]
    places: NDArray[np.int64]


class IdentityRanges:
    """Give each rank a range of the identities 0 ... n_global - 1, in which files hold particles.

    Parameters
    ----------
    comm : Comm
        All ranks.
    n_global : int
        Number of particles of all ranks.
    group : int
        Size of the groups of consecutive identities that stay on one rank, such as 2 for pairs; divides n_global.

    Attributes
    ----------
    first, n : int
        This rank's first identity, and the number of its identities.

    Notes
    -----
    Collective: `gather` and `scatter`. Creating it does not communicate.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`:

    >>> from mpi4py import MPI
    >>> from ridgeline.api import IdentityRanges
    >>> ranges = IdentityRanges(MPI.COMM_WORLD, 6)
    >>> ranges.n, ranges.first == 3 * MPI.COMM_WORLD.rank
    (3, True)
    """

    def __init__(self, comm: MPI.Comm, n_global: int, group: int = 1) -> None:
        if n_global % group:
            raise ValueError(f"{n_global} identities cannot be divided into groups of {group}.")
        self._comm, self.n_global = comm, n_global
        self._groups, self._group = n_global // group, group
        self.first, self.n = (group * number for number in split(self._groups, comm.size, comm.rank))
        self._plan: _SendPlan | None = None

    @property
    def identities(self) -> NDArray[np.int64]:
        """This rank's identities, int64 [n]."""
        return np.arange(self.first, self.first + self.n, dtype=np.int64)

    def array(self, name: str, field: ParticleField, values: NDArray[Any] | None = None) -> DistributedArray:
        """Return a field [N] or [components, N] in the order of identities, with `values` as this rank's part.

        values: [n] or [components, n]; None leaves the part undefined, to be read into.
        """
        local = np.empty(field.shape(self.n), field.dtype) if values is None else values
        offset = (0, self.first) if field.components else (self.first,)
        return DistributedArray(name, field.shape(self.n_global), offset, local)

    def arrays(self, fields: dict[str, ParticleField], prefix: str = "") -> dict[str, DistributedArray]:
        """Return undefined arrays for several fields, to be read into. Their names begin with `prefix`."""
        return {prefix + name: self.array(prefix + name, field) for name, field in fields.items()}

    def gather(self, particles: Particles, name: str, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a field for this rank's range of identities, [n] or [components, n], in `out` if given. Collective.

        Raises VerificationError on all ranks unless each identity belongs to exactly one particle.
        """
        field = particles.fields[name]
        if out is None:
            out = np.empty(field.shape(self.n), field.dtype)
        return self.send(particles.identity, particles[name], out)

    def send(self, identity: NDArray[np.int64], values: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
        """Send each value to the rank whose range contains its identity, and return `out`. Collective.

        identity: [m]; values: [m] or [components, m]; out: [n] or [components, n], in the order of identities. The
        plan of the exchange is kept for as long as the identities of all ranks stay in their order.
        """
        plan = self._plan
        unchanged = plan is not None and np.array_equal(plan.identity, identity)
        if not self._comm.allreduce(unchanged, mpi.LAND):
            plan = self._plan = self._plan_exchange(identity)
        assert plan is not None
        for row, target in zip(np.atleast_2d(values), np.atleast_2d(out)):
            target[plan.places] = exchange_counted(self._comm, row[plan.order], plan.counts)[0]
        return out

    def _plan_exchange(self, identity: NDArray[np.int64]) -> _SendPlan:
        owner = owner_of(identity // self._group, self._groups, self._comm.size)
        order = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=self._comm.size)
        places = exchange_counted(self._comm, identity[order], counts)[0] - self.first
        whole = len(places) == self.n and bool((np.bincount(places, minlength=self.n) == 1).all())
        if self._comm.allreduce(int(not whole)):
            raise VerificationError(
                f"the particles of all ranks do not have the identities 0 to {self.n_global - 1}, each once."
            )
        return _SendPlan(identity.copy(), order, counts, places)

    def scatter(self, arrays: dict[str, NDArray[Any]], boxes: Boxes, particles: Particles) -> None:
        """Replace all particles by those of the arrays, each on the rank that owns its box. Collective.

        arrays: all fields except the identity by name, for this rank's range as `gather` returns them. Raises
        VerificationError on all ranks if a position is outside the domain.
        """
        owner, _ = boxes.owners(arrays[POSITION], self._comm.rank)
        if self._comm.allreduce(int((owner < 0).any())):
            raise VerificationError("particles that were read have positions outside the domain.")
        order = np.argsort(owner, kind="stable")
        counts = np.bincount(owner, minlength=self._comm.size)
        identity, _ = exchange_counted(self._comm, self.first + order, counts)
        particles.n = 0
        particles.resize(len(identity))
        particles[IDENTITY][:] = identity
        for name, array in arrays.items():
            for row, target in zip(np.atleast_2d(array), np.atleast_2d(particles[name])):
                target[:] = exchange_counted(self._comm, row[order], counts)[0]
