"""Values of element fields anywhere in space: on a lattice of points, such as an image, and at single places.

    lattice = image_lattice(comm, grid, (nz, ny, nx))     # uniform in space, cell centres; or Lattice(z, y, x)
    sampler = Sampler(comm, grid, lattice)                # plan: collective, once
    sampler.sample(field) -> this rank's planes of z      # [E, n, n, n] -> [nz here, ny, nx], collective

    placed = PlacedPoints(comm, grid, places)             # [m, 3] of (x, y, z); collective, once
    placed.missing                                        # numbers of the places that lie in no element
    placed.values([field, ...]) -> [fields, m]            # equal on all ranks; collective

Each rank evaluates the polynomials of its elements at the points that lie in them. In axis-aligned elements that is a
product with a small matrix along each direction; in curved elements, the map x(r, s, t) is inverted by Newton's
method. A point that several elements share gets the value of the first of them in the order of the mesh, so that the
result does not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.inverse_map import INSIDE, at_points, lattice_inside, places_inside, values_at
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto, interpolation_matrix
from ridgeline.parallel.allreduce import allreduce_max, allreduce_min
from ridgeline.parallel.partition import Triple, owner_of, split

if TYPE_CHECKING:
    from mpi4py import MPI


Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lattice:
    """Points (z[k], y[j], x[i]) in space: three float64 arrays, ascending, of any spacing.

    depth: (z, y, x), size of the cell around a point along a direction with one point, where there are cells.
    """

    z: Array
    y: Array
    x: Array
    depth: tuple[float, float, float] = (1.0, 1.0, 1.0)

    @property
    def shape(self) -> Triple:
        """Points (nz, ny, nx)."""
        return len(self.z), len(self.y), len(self.x)

    @property
    def origin(self) -> tuple[float, float, float]:
        """Position of point [0, 0, 0], (z, y, x)."""
        return float(self.z[0]), float(self.y[0]), float(self.x[0])

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Distance of the first points along (z, y, x); the depth along a direction of one point."""
        dz, dy, dx = (
            float(a[1] - a[0]) if len(a) > 1 else depth
            for a, depth in zip((self.z, self.y, self.x), self.depth)
        )
        return dz, dy, dx


def image_lattice(comm: MPI.Comm, grid: ElementGrid, shape: Triple) -> Lattice:
    """Return the centres of nz x ny x nx equal cells that fill the box around the domain. Collective."""
    places = grid.coordinates.reshape(3, -1)
    low, high = allreduce_min(comm, places.min(axis=1)), allreduce_max(comm, places.max(axis=1))
    z, y, x = (
        low[axis] + (high[axis] - low[axis]) * (np.arange(n) + 0.5) / n for axis, n in zip((2, 1, 0), shape)
    )
    dx, dy, dz = (high - low).tolist()
    return Lattice(z, y, x, (dz, dy, dx))


class Sampler:
    """The plan of one lattice: the points that this rank evaluates, and the ranks that get them. Made collectively.

    shape_global: of the lattice; offset_global, shape_local: of this rank's planes of z.
    """

    def __init__(self, comm: MPI.Comm, grid: ElementGrid, lattice: Lattice) -> None:
        self.lattice = lattice
        self.shape_global = lattice.shape
        nz, ny, nx = lattice.shape
        first, planes = split(nz, comm.size, comm.rank)
        self.offset_global = (first, 0, 0)
        self.shape_local = (planes, ny, nx)
        self._comm, self._grid = comm, grid
        self._points = gauss_lobatto(grid.n)[0]
        find = _BoxPoints if grid.mesh.axis_aligned else _CurvedPoints
        self._evaluator = find(grid, lattice)
        places = self._evaluator.places
        # Each owner of planes is sent their points, in the order in which they are evaluated.
        owner = owner_of(places // (ny * nx), nz, comm.size)
        self._order = np.argsort(owner, kind="stable")
        self._sent = np.bincount(owner, minlength=comm.size).astype(np.int64)
        self._received = np.empty_like(self._sent)
        comm.Alltoall(self._sent, self._received)
        # Values arrive in the order of the ranks, and from each in that of its elements, which is the order of the
        # mesh. The first of several values of a point is kept.
        arrived = self._exchange(places[self._order].astype(np.int64)) - first * ny * nx
        self._kept, self._first = np.unique(arrived, return_index=True)

    def _exchange(self, values: NDArray[Any]) -> NDArray[Any]:
        received = np.empty(int(self._received.sum()), values.dtype)
        sent, into = ((counts, np.cumsum(counts) - counts) for counts in (self._sent, self._received))
        self._comm.Alltoallv([np.ascontiguousarray(values), sent], [received, into])
        return received

    def sample(self, field: NDArray[Any]) -> Array:
        """Return the values of a field [n_elements, n, n, n] on this rank's planes, float64. Collective."""
        arrived = self._exchange(self._evaluator.evaluate(field)[self._order])
        image = np.full(self.shape_local, np.nan)
        image.reshape(-1)[self._kept] = arrived[self._first]
        return image

    @property
    def missing(self) -> int:
        """Points of this rank's planes that lie in no element."""
        return int(np.prod(self.shape_local)) - len(self._kept)


class _BoxPoints:
    """Points in axis-aligned elements: for each element a box of the lattice and a matrix along each axis.

    places: int64 [m], flat numbers of the points in the lattice, one element after the other.
    """

    def __init__(self, grid: ElementGrid, lattice: Lattice) -> None:
        assert isinstance(grid.mesh, BoxMesh)  # every axis-aligned mesh is a box
        self._n = grid.n
        self._positions = grid.positions
        self._parts = [
            _intervals(edges, at, grid.n)
            for edges, at in zip(grid.mesh.edges, (lattice.z, lattice.y, lattice.x))
        ]
        _, ny, nx = lattice.shape
        places = [np.empty(0, np.int64)]
        for position in grid.positions:
            k, j, i = (part[e][0] for part, e in zip(self._parts, position))
            places.append(((k[:, None, None] * ny + j[:, None]) * nx + i).reshape(-1))
        self.places = np.concatenate(places)

    def evaluate(self, field: NDArray[Any]) -> Array:
        values, end = np.empty(len(self.places)), 0
        for u, position in zip(field, self._positions):
            mz, my, mx = (part[e][1] for part, e in zip(self._parts, position))
            if not (len(mz) and len(my) and len(mx)):
                continue
            along_z = (mz @ u.reshape(self._n, -1)).reshape(-1, self._n, self._n)
            box = my @ along_z @ mx.T
            values[end : end + box.size] = box.reshape(-1)
            end += box.size
        return values


def _intervals(edges: Array, at: Array, n: int) -> list[tuple[Integers, Array]]:
    """Return, for each interval between edges, the numbers of the points in it and the matrix that evaluates them.

    A point on an inner edge belongs to the interval before it.
    """
    slack = INSIDE * (edges[-1] - edges[0])
    inside = (at >= edges[0] - slack) & (at <= edges[-1] + slack)
    interval = np.clip(np.searchsorted(edges, at, side="left") - 1, 0, len(edges) - 2)
    parts = []
    for e, (low, high) in enumerate(pairwise(edges)):
        numbers = np.flatnonzero(inside & (interval == e))
        xi = np.clip((2.0 * at[numbers] - low - high) / (high - low), -1.0, 1.0)
        parts.append((numbers, interpolation_matrix(gauss_lobatto(n)[0], xi)))
    return parts


class _CurvedPoints:
    """Points in curved elements: the reference coordinates of each, found by Newton's method.

    places: int64 [m], flat numbers of the points in the lattice, one element after the other.
    """

    def __init__(self, grid: ElementGrid, lattice: Lattice) -> None:
        places, reference = [np.empty(0, np.int64)], [np.empty((3, 0))]
        self._ends = [0]
        for e in range(grid.n_elements):
            numbers, rst = lattice_inside(grid.coordinates[:, e], (lattice.z, lattice.y, lattice.x))
            places.append(numbers)
            reference.append(rst)
            self._ends.append(self._ends[-1] + len(numbers))
        self.places = np.concatenate(places)
        self._reference = np.concatenate(reference, axis=1)

    def evaluate(self, field: NDArray[Any]) -> Array:
        values = np.empty(len(self.places))
        for u, low, high in zip(field, self._ends, self._ends[1:]):
            values[low:high] = values_at(u, self._reference[:, low:high])
        return values


class PlacedPoints:
    """Places in space, float64 [m, 3] of (x, y, z), equal on all ranks. Made collectively.

    Cost: each rank compares the places with boxes around its elements, and inverts the maps of those near.
    """

    def __init__(self, comm: MPI.Comm, grid: ElementGrid, places: Array) -> None:
        self._comm = comm
        self._count = len(places)
        inside = list(places_inside(grid.coordinates, places))
        owner = np.full(len(places), np.inf)
        for element, numbers, _ in reversed(inside):  # the first element overwrites the others
            owner[numbers] = grid.first + element
        first = allreduce_min(comm, owner)
        self.missing = np.flatnonzero(~np.isfinite(first))
        self._parts = []
        points = gauss_lobatto(grid.n)[0]
        for element, numbers, reference in inside:
            mine = first[numbers] == grid.first + element
            basis = [interpolation_matrix(points, xi) for xi in reference[:, mine]]
            self._parts.append((element, numbers[mine], basis))

    def values(self, fields: Sequence[Array]) -> Array:
        """Return fields [E, n, n, n] at the places, float64 [fields, m], on all ranks. Collective."""
        mine = np.zeros((len(fields), self._count))
        for row, field in zip(mine, fields):
            for element, numbers, basis in self._parts:
                row[numbers] = at_points(field[element], basis)
        total = np.empty_like(mine)
        self._comm.Allreduce(mine, total)
        return total
