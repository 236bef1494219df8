"""The particles of one rank as a structure of arrays, with spare memory for arrivals.

Every particle has a unique identity, one of 0 ... N - 1, and a position. Further fields have names. The order of
particles in memory carries no meaning: it changes when particles migrate between ranks, and when they are sorted
along Morton's curve so that particles that are close in space are close in memory.

Source of the curve: Morton, IBM (1966); its bits are spread by the usual shifts and masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import float64, uint64
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ridgeline.jit.kernel import kernel, subroutine

if TYPE_CHECKING:
    from mpi4py import MPI

IDENTITY, POSITION = "identity", "position"
SPARE = 1.25  # allocated memory over what is needed now, so that arrivals rarely make it grow
BITS = 21  # of each direction in a Morton key of 64 bits


@dataclass(frozen=True)
class ParticleField:
    """Describe a field of particles.

    Parameters
    ----------
    dtype : dtype
        Of 4 or 8 bytes.
    components : int
        Numbers of each particle; 0 means a scalar.

    Examples
    --------
    >>> from ridgeline.api import ParticleField
    >>> ParticleField("float64", 3).shape(10)
    (3, 10)
    """

    dtype: DTypeLike
    components: int = 0

    @property
    def rows(self) -> int:
        """Rows of memory that the field takes."""
        return max(self.components, 1)

    def shape(self, n: int) -> tuple[int, ...]:
        """Return the shape of the field for n particles."""
        return (self.components, n) if self.components else (n,)


def bytes_per_particle(fields: Mapping[str, ParticleField]) -> int:
    """Return the bytes that one particle takes in these fields."""
    return sum(field.rows * np.dtype(field.dtype).itemsize for field in fields.values())


def capacity_for(n: int) -> int:
    """Return the number of particles to allocate memory for when n are needed."""
    return int(n * SPARE) + 1


COMMON_FIELDS = {IDENTITY: ParticleField(np.int64), POSITION: ParticleField(np.float64, 3)}


class Particles:
    """Hold the particles of one rank. No method communicates.

    Parameters
    ----------
    fields : mapping of str to ParticleField, optional
        The fields of a particle besides its identity (int64) and its position (float64 [3]: x, y, z, in the model's
        unit of length).
    capacity : int
        Number of particles to allocate memory for.

    Notes
    -----
    `particles[name]` is a view of shape [n] or [components, n]. Each of its rows is contiguous and can be passed to
    a kernel. The view is valid until particles are added or removed.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.api import ParticleField, Particles
    >>> particles = Particles({"mass": ParticleField(np.float64)})
    >>> particles.add({"identity": [0, 1], "position": np.zeros((3, 2)), "mass": [1.0, 2.0]})
    >>> particles["mass"][:] *= 2
    >>> particles.n, particles["mass"].tolist()
    (2, [2.0, 4.0])
    """

    def __init__(self, fields: Mapping[str, ParticleField] | None = None, capacity: int = 0) -> None:
        self.fields = {**COMMON_FIELDS, **(fields or {})}
        wrong = [name for name, f in self.fields.items() if np.dtype(f.dtype).itemsize not in (4, 8)]
        if wrong:
            raise ValueError(
                f"Fields of particles must have numbers of 4 or 8 bytes, unlike {', '.join(wrong)}."
            )
        self._arrays = {name: np.empty((f.rows, capacity), f.dtype) for name, f in self.fields.items()}
        self.n = 0

    @property
    def capacity(self) -> int:
        """Number of particles that fit into the allocated memory."""
        return int(self._arrays[IDENTITY].shape[1])

    @property
    def bytes_each(self) -> int:
        """Bytes that one particle takes in all fields."""
        return bytes_per_particle(self.fields)

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that are allocated."""
        return sum(array.nbytes for array in self._arrays.values())

    @property
    def identity(self) -> NDArray[np.int64]:
        """Identities, int64 [n]."""
        return self[IDENTITY]

    @property
    def position(self) -> NDArray[np.float64]:
        """Positions, float64 [3, n]: x, y, z."""
        return self[POSITION]

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self._arrays[name]
        return array[:, : self.n] if self.fields[name].components else array[0, : self.n]

    def storage(self, name: str) -> NDArray[Any]:
        """Return all memory of a field, [rows, capacity]. The part beyond n is for the caller, such as for ghosts."""
        return self._arrays[name]

    def rows(self) -> Iterator[NDArray[Any]]:
        """Yield the rows of all fields, [n] each: those of 8 bytes before those of 4."""
        names = sorted(self.fields, key=lambda name: -np.dtype(self.fields[name].dtype).itemsize)
        for name in names:
            yield from self._arrays[name][:, : self.n]

    def resize(self, n: int) -> None:
        """Set the number of particles to n. The first ones keep their values; new ones at the end are undefined."""
        self.reserve(n)
        self.n = n

    def reserve(self, n: int) -> None:
        """Allocate memory for at least n particles, with some to spare if it must grow."""
        if n <= self.capacity:
            return
        capacity = capacity_for(n)
        for name, old in self._arrays.items():
            new = np.empty((len(old), capacity), old.dtype)
            new[:, : self.n] = old[:, : self.n]
            self._arrays[name] = new

    def add(self, values: Mapping[str, ArrayLike]) -> None:
        """Append particles. values: every field by name, with the shape of `particles[name]`."""
        if values.keys() != self.fields.keys():
            raise ValueError(
                f"New particles must have the fields {', '.join(self.fields)}, but have {', '.join(values)}."
            )
        first, more = self.n, len(np.asarray(values[IDENTITY]))
        self.resize(first + more)
        for name, value in values.items():
            self[name][..., first:] = value

    def permute(self, order: NDArray[np.int64]) -> None:
        """Move the particle at index order[i] to index i. order: int64 [n], a permutation."""
        for row in self.rows():
            row[...] = row[order]

    def replace(self, leave: NDArray[np.int64], n_come: int) -> NDArray[np.int64]:
        """Remove some particles, add n_come undefined ones, and return the indices of these, int64 [n_come].

        leave: int64 [m], increasing indices of the particles to remove. New particles fill the gaps first; gaps that
        remain are filled with particles from the end.
        """
        before, after = self.n, self.n - len(leave) + n_come
        if n_come >= len(leave):
            self.resize(after)
            return np.concatenate([leave, np.arange(before, after)])
        gaps = leave[n_come:]
        into = gaps[gaps < after]
        last = np.setdiff1d(np.arange(after, before), gaps, assume_unique=True)
        for row in self.rows():
            row[into] = row[last]
        self.n = after
        return leave[:n_come]


@subroutine(inline="always")
def _spread(bits):
    """Return 21 bits with two zeros between neighbours."""
    bits = (bits | (bits << uint64(32))) & uint64(0x1F00000000FFFF)
    bits = (bits | (bits << uint64(16))) & uint64(0x1F0000FF0000FF)
    bits = (bits | (bits << uint64(8))) & uint64(0x100F00F00F00F00F)
    bits = (bits | (bits << uint64(4))) & uint64(0x10C30C30C30C30C3)
    return (bits | (bits << uint64(2))) & uint64(0x1249249249249249)


@kernel(lambda: (*[float64[::1]] * 5, uint64[::1]), nogil=True)
def morton_keys(x, y, z, low, per_cell, out_keys):
    """Set out_keys to the positions on Morton's curve of the cells that contain the particles; x varies fastest.

    x, y, z : (n,) float64, finite; low : (3,) lower corner of the first cell, per_cell : (3,) cells per unit of
    length, both in the order x, y, z. Cells are numbered 0 ... 2^21 - 1 in each direction; particles beyond them
    count for the first or the last cell.
    """
    most = 2.0**BITS - 1.0
    for i in range(x.shape[0]):
        a = uint64(min(max((x[i] - low[0]) * per_cell[0], 0.0), most))
        b = uint64(min(max((y[i] - low[1]) * per_cell[1], 0.0), most))
        c = uint64(min(max((z[i] - low[2]) * per_cell[2], 0.0), most))
        out_keys[i] = _spread(a) | (_spread(b) << uint64(1)) | (_spread(c) << uint64(2))


def sort_along_curve(particles: Particles, low: NDArray[np.float64], cell: NDArray[np.float64]) -> None:
    """Sort this rank's particles by the cells of Morton's curve. The order within a cell is arbitrary. Local.

    low, cell: float64 [3] in the order x, y, z: the lower corner of the first cell, and the edges of a cell.
    """
    keys = np.empty(particles.n, np.uint64)
    morton_keys(*particles.position, np.asarray(low, float), 1.0 / np.asarray(cell, float), keys)
    particles.permute(np.argsort(keys))


def locate_nonfinite(comm: MPI.Comm, particles: Particles, names: Sequence[str], noun: str) -> str | None:
    """Describe the particle of least identity that is not finite in one of the fields `names`; None if there is none.

    noun: what a particle is called in the message. Collective: one allgather; all ranks return the same.
    """
    finite = np.ones(particles.n, bool)
    for name in names:
        finite &= np.isfinite(np.atleast_2d(particles[name])).all(0)
    bad = np.flatnonzero(~finite)
    local: tuple[int, list[float]] | None = None
    if len(bad):
        first = bad[np.argmin(particles.identity[bad])]
        local = int(particles.identity[first]), particles[POSITION][:, first].tolist()
    candidates = [candidate for candidate in comm.allgather(local) if candidate is not None]
    if not candidates:
        return None
    identity, (x, y, z) = min(candidates)
    return f"{noun} {identity} at x={x:g}, y={y:g}, z={z:g}"
