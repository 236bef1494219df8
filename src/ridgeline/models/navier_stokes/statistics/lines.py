"""Averages of element fields along lines of points, by the mesh's own quadrature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid, ElementMesh
from ridgeline.elements.quadrature import gauss_lobatto

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
AXES = ("z", "y", "x")


class AverageLines:
    """Averages along lines of points in homogeneous directions, onto the lattice of the others. Made collectively."""

    def __init__(
        self, comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, homogeneous: Sequence[str]
    ) -> None:
        self._comm, self._grid, self._geometry = comm, grid, geometry
        self._along = tuple(1 + AXES.index(name) for name in AXES if name in homogeneous)
        self._kept = tuple(a for a in range(3) if AXES[a] not in homogeneous)
        assert isinstance(grid.mesh, ElementMesh)  # settings.py: homogeneous directions are those of a box
        self._mesh = grid.mesh
        # Ends of a periodic direction stay apart: each point has one place.
        self._shape = tuple(grid.mesh.elements[a] * grid.order + 1 for a in self._kept) or (1,)
        index = np.zeros((grid.n_elements, *(grid.n,) * len(self._kept)), np.int64)
        for place, a in enumerate(self._kept):
            line = grid.positions[:, a, None] * grid.order + np.arange(grid.n)
            form = [grid.n_elements] + [grid.n if other == place else 1 for other in range(len(self._kept))]
            index = index * self._shape[place] + line.reshape(form)
        self._index = index.reshape(-1)
        self._weight = self._gather(np.ones(1))

    def _gather(self, values: Array) -> Array:
        """Return the integral of point values over each line, the same on all ranks."""
        mass = self._geometry.mass
        integral = np.empty(len(self._index)).reshape(len(mass), -1)
        for e in range(len(mass)):  # element by element, in the caches
            product = mass[e] * (values[e] if values.ndim == 4 else values)
            integral[e] = product.sum(axis=tuple(a - 1 for a in self._along)).reshape(-1)
        size = int(np.prod(self._shape, dtype=np.int64))
        mine = np.bincount(self._index, integral.reshape(-1), size)
        total = np.empty(size)
        self._comm.Allreduce(mine, total)
        return total.reshape(self._shape)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes of an average."""
        return tuple(self._name(a) for a in self._kept) or ("point",)

    def _name(self, axis: int) -> str:
        return AXES[axis] if self._grid.mesh.axis_aligned else "kji"[axis]

    def mean(self, values: Array) -> Array:
        """Return the mean of values [E, n, n, n] over each line, the same on all ranks. Collective."""
        return self._gather(values) / self._weight

    def places(self) -> Iterator[tuple[str, Array, tuple[str, ...], str]]:
        """Yield (name, values, dims, description) of the places of the lattice's points. Collective."""
        for a in self._kept:
            if self._grid.mesh.axis_aligned:
                yield AXES[a], self._places(a), (AXES[a],), f"place along {AXES[a]}"
            else:
                yield (
                    AXES[a],
                    self.mean(self._geometry.coordinates[2 - a]),
                    self.dims,
                    f"mean place along {AXES[a]}",
                )

    def _places(self, axis: int) -> Array:
        """Return the places of the lattice's points along an axis of a mesh without a map."""
        edges = self._mesh.edges[axis]
        xi = gauss_lobatto(self._grid.n)[0]
        inside = edges[:-1, None] * (1 - xi) / 2 + edges[1:, None] * (1 + xi) / 2
        return np.asarray(np.append(inside[:, :-1].reshape(-1), edges[-1]), np.float64)
