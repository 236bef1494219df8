"""Migration: every particle moves to the rank that owns the box it is in.

All fields of a particle travel in one message to each neighbouring rank, of which there are at most 26. If a particle
anywhere on the machine moves farther than that, all ranks exchange with all ranks. After each migration the number of
particles and the sum of their identities are compared with the initial ones, so that a lost particle is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.particles.boxes import NOT_FINITE, Boxes
from ridgeline.particles.particles import Particles
from ridgeline.runtime.errors import ParticleError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

IMAGE = "image"  # the field that counts how often a particle was wrapped into the periodic domain
WORD = 8  # bytes to which each part of a message is aligned

Integers = NDArray[np.int64]


class Migration:
    """Move particles to the ranks that own the boxes in which they are.

    Parameters
    ----------
    comm : Comm
        All ranks.
    boxes : Boxes
        The boxes of all ranks of `comm`, equal on all of them.
    particles : Particles
        The particles, which may be on any rank at first. Their number and identities are compared from then on.

    Attributes
    ----------
    moved : int
        The particles that this rank has sent so far.
    far : int
        The number of migrations in which all ranks exchanged with all ranks.

    Notes
    -----
    Collective, as are its calls. A call sends one message to each of at most 26 neighbours, and makes two allreduces
    of 16 bytes.

    Examples
    --------
    All particles are on rank 0 at first; with two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import Migration, Particles, even_boxes
    >>> comm = MPI.COMM_WORLD
    >>> boxes = even_boxes((0, 0, 0), (1, 1, 1), np.arange(comm.size).reshape(1, 1, -1), (True, True, True))
    >>> particles = Particles()
    >>> n = 4 if comm.rank == 0 else 0
    >>> places = np.zeros((3, n))
    >>> places[0] = np.arange(n) / 4
    >>> particles.add({"identity": np.arange(n), "position": places})
    >>> migration = Migration(comm, boxes, particles)
    >>> migration(particles, step=0)
    >>> particles.n
    2
    """

    def __init__(self, comm: MPI.Comm, boxes: Boxes, particles: Particles) -> None:
        self._comm, self._boxes = comm, boxes
        neighbours = boxes.neighbours(comm.rank)
        self._neighbours = np.array(neighbours, np.int64)
        self._graph = cast(mpi.Intracomm, comm).Create_dist_graph_adjacent(neighbours, neighbours)
        self.moved = self.far = 0
        self.n_global, self._identities = self._totals(particles)

    def free(self) -> None:
        """Free the communicator. Collective."""
        self._graph.Free()

    def __call__(self, particles: Particles, step: int) -> None:
        """Wrap positions into the periodic domain, and send every particle to the owner of its box. Collective.

        step: number of the time step, for error messages. If there is a field `image`, it counts the wraps.

        Raises
        ------
        ParticleError
            On all ranks, if a position is not finite, or is outside the domain in a direction that is not periodic.
        VerificationError
            On all ranks, if a particle was lost or duplicated.
        """
        image = particles[IMAGE] if IMAGE in particles.fields else None
        leave = self._boxes.wrap(particles.position, self._comm.rank, image)
        target, _ = self._boxes.owners(particles.position[:, leave], self._comm.rank)
        away = target != self._comm.rank
        leave, target = leave[away], target[away]
        bad = bool((target < 0).any())
        flags = np.array([bad, not bad and not np.isin(target, self._neighbours).all()], np.int64)
        self._comm.Allreduce(mpi.IN_PLACE, flags, mpi.MAX)
        if flags[0]:
            self._raise_outside(particles, leave, target, step)
        self._exchange(particles, leave, target, bool(flags[1]))
        self._check(particles, step)

    def _raise_outside(self, particles: Particles, leave: Integers, target: Integers, step: int) -> None:
        """Raise ParticleError about the particle of least identity that no rank owns. Collective."""
        nowhere = np.flatnonzero(target < 0)
        local: tuple[int, bool, list[float]] | None = None
        if len(nowhere):
            first = nowhere[np.argmin(particles.identity[leave[nowhere]])]
            place = leave[first]
            local = (
                int(particles.identity[place]),
                bool(target[first] == NOT_FINITE),
                particles.position[:, place].tolist(),
            )
        candidates = [candidate for candidate in self._comm.allgather(local) if candidate is not None]
        identity, not_finite, (x, y, z) = min(candidates, key=lambda candidate: candidate[0])
        if not_finite:
            what = "Its position is not finite. Try a shorter time step."
        else:
            low, high = (
                ", ".join(f"{v:g}" for v in reversed(corner))
                for corner in (self._boxes.low, self._boxes.high)
            )
            what = f"It left the domain from ({low}) to ({high}). Try a shorter time step or periodic sides."
        raise ParticleError(
            f"particle {identity} is at x = {x:g}, y = {y:g}, z = {z:g} in step {step}. {what}"
        )

    def _exchange(self, particles: Particles, leave: Integers, target: Integers, far: bool) -> None:
        """Send the particles at the indices `leave` to the ranks `target`, and receive arrivals. Collective."""
        partners = np.arange(self._comm.size) if far else self._neighbours
        self.moved += len(leave)
        self.far += far
        counts = np.bincount(np.searchsorted(partners, target), minlength=len(partners)).astype(np.int64)
        come = np.zeros_like(counts)
        if far:
            self._comm.Alltoall(counts, come)
        else:
            self._graph.Neighbor_alltoall(counts, come)
        size = -(-particles.bytes_each // WORD) * WORD
        ordered = leave[np.argsort(target, kind="stable")]
        sent = _packed(particles, ordered, counts, size)
        arrived = np.empty(int(come.sum()) * size, np.uint8)
        message = (
            [sent, (counts * size, _places(counts) * size)],
            [arrived, (come * size, _places(come) * size)],
        )
        if far:
            self._comm.Alltoallv(*message)
        else:
            self._graph.Neighbor_alltoallv(*message)
        _unpack(arrived, come, size, particles, particles.replace(leave, int(come.sum())))

    def _totals(self, particles: Particles) -> tuple[int, int]:
        """Return the number of particles on all ranks and the sum of their identities modulo 2^64. Collective."""
        totals = np.array([particles.n, particles.identity.sum()], np.int64)
        self._comm.Allreduce(mpi.IN_PLACE, totals)
        return int(totals[0]), int(totals[1])

    def _check(self, particles: Particles, step: int) -> None:
        n, identities = self._totals(particles)
        if (n, identities) != (self.n_global, self._identities):
            raise VerificationError(
                f"particles were lost or duplicated in step {step}: there are {n} particles whose identities add up "
                f"to {identities}, but there were {self.n_global} whose identities added up to {self._identities}. "
                f"Check the memory and the network with `ridgeline validate`."
            )


def _places(counts: Integers) -> Integers:
    return np.cumsum(counts) - counts


def _parts(buffer: NDArray[np.uint8], counts: Integers, size: int, rows: list[NDArray[Any]]) -> Any:
    """Yield (number of the row, first particle, part of the buffer) for each partner and row.

    The buffer holds one partner after the other, and each partner's part one row after the other.
    """
    for first, count in zip(_places(counts).tolist(), counts.tolist()):
        if not count:
            continue
        at = first * size
        for number, row in enumerate(rows):
            n_bytes = count * row.itemsize
            yield number, first, buffer[at : at + n_bytes].view(row.dtype)
            at += n_bytes


def _packed(particles: Particles, places: Integers, counts: Integers, size: int) -> NDArray[np.uint8]:
    """Return the bytes of the particles at the indices `places`, of which counts[r] go to partner r."""
    buffer = np.zeros(len(places) * size, np.uint8)
    rows = list(particles.rows())
    for number, first, part in _parts(buffer, counts, size, rows):
        np.take(rows[number], places[first : first + len(part)], out=part)
    return buffer


def _unpack(
    buffer: NDArray[np.uint8], counts: Integers, size: int, particles: Particles, places: Integers
) -> None:
    """Write the particles of a buffer that `_packed` made to the indices `places`."""
    rows = list(particles.rows())
    for number, first, part in _parts(buffer, counts, size, rows):
        rows[number][places[first : first + len(part)]] = part
