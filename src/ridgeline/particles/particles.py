"""The particles of one rank in structure-of-arrays, with room to grow.

Every particle has an identity, one of 0 ... N - 1 that no other has, and a position. Further fields have names. The
order of particles in memory means nothing: it changes when they move between ranks and when they are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

IDENTITY, POSITION = "identity", "position"
SPARE = 1.25  # how much larger than needed memory is allocated: arrivals then find room


@dataclass(frozen=True)
class ParticleField:
    """What each particle has under one name: components of a dtype of 4 or 8 bytes. components = 0: one number."""

    dtype: DTypeLike
    components: int = 0

    @property
    def rows(self) -> int:
        """Rows of memory."""
        return max(self.components, 1)

    def shape(self, n: int) -> tuple[int, ...]:
        """Return the shape of the field of n particles."""
        return (self.components, n) if self.components else (n,)


def bytes_of(fields: Mapping[str, ParticleField]) -> int:
    """Return the bytes that a particle has in these fields."""
    return sum(field.rows * np.dtype(field.dtype).itemsize for field in fields.values())


def room_for(n: int) -> int:
    """Return for how many particles memory is allocated where n are needed."""
    return int(n * SPARE) + 1


OF_ALL = {IDENTITY: ParticleField(np.int64), POSITION: ParticleField(np.float64, 3)}


class Particles:
    """The particles of one rank. No method communicates.

    fields: what a particle has beside identity (int64) and position (float64 [3], x, y, z, unit of length).

    `particles[name]` is a view [n], or [components, n], of which every row is contiguous, so that kernels take rows.
    It is valid until particles come or go.
    """

    def __init__(self, fields: Mapping[str, ParticleField] | None = None, capacity: int = 0) -> None:
        self.fields = {**OF_ALL, **(fields or {})}
        wrong = [name for name, f in self.fields.items() if np.dtype(f.dtype).itemsize not in (4, 8)]
        if wrong:
            raise ValueError(f"fields of particles have numbers of 4 or 8 bytes, unlike {', '.join(wrong)}")
        self._arrays = {name: np.empty((f.rows, capacity), f.dtype) for name, f in self.fields.items()}
        self.n = 0

    @property
    def capacity(self) -> int:
        """Particles that fit into the memory there is."""
        return int(self._arrays[IDENTITY].shape[1])

    @property
    def bytes_each(self) -> int:
        """Bytes of one particle."""
        return bytes_of(self.fields)

    @property
    def n_bytes(self) -> int:
        """Memory held."""
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

    def room(self, name: str) -> NDArray[Any]:
        """Return all memory of a field, [rows, capacity]: what lies beyond n, such as ghosts, is the caller's."""
        return self._arrays[name]

    def rows(self) -> Iterator[NDArray[Any]]:
        """Yield all rows, [n] each, those of 8 bytes before those of 4."""
        names = sorted(self.fields, key=lambda name: -np.dtype(self.fields[name].dtype).itemsize)
        for name in names:
            yield from self._arrays[name][:, : self.n]

    def resize(self, n: int) -> None:
        """Have n particles: the first ones stay, new ones at the end are undefined."""
        self.reserve(n)
        self.n = n

    def reserve(self, n: int) -> None:
        """Have memory for n particles at least, with spare room wherever it must grow."""
        if n <= self.capacity:
            return
        capacity = room_for(n)
        for name, old in self._arrays.items():
            new = np.empty((len(old), capacity), old.dtype)
            new[:, : self.n] = old[:, : self.n]
            self._arrays[name] = new

    def add(self, values: Mapping[str, ArrayLike]) -> None:
        """Append particles. values: of every field by name, shaped as `particles[name]`."""
        if values.keys() != self.fields.keys():
            raise ValueError(f"new particles need {', '.join(self.fields)}, got {', '.join(values)}")
        first, more = self.n, len(np.asarray(values[IDENTITY]))
        self.resize(first + more)
        for name, value in values.items():
            self[name][..., first:] = value

    def permute(self, order: NDArray[np.int64]) -> None:
        """Put the particle that is at order[i] to place i. order: int64 [n], a permutation."""
        for row in self.rows():
            row[...] = row[order]

    def replace(self, leave: NDArray[np.int64], n_come: int) -> NDArray[np.int64]:
        """Remove the particles at the places `leave`, increasing; make n_come new ones, and return their places.

        The new ones fill the gaps first. Gaps that remain are filled from the end.
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
