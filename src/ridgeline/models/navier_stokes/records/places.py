"""Values of element fields at single places: who holds a place, and the polynomial there.

    placed = PlacedPoints(comm, grid, places)        # [m, 3] of (x, y, z); collective, once
    placed.missing                                   # numbers of the places that lie in no element
    placed.values([field, ...]) -> [fields, m]       # equal on all ranks; collective

A place on faces that elements share belongs to the first of them in the order of the mesh. So each has one owner, and
its values do not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.inverse_map import at_points, places_inside
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto, interpolation_matrix
from ridgeline.parallel.allreduce import allreduce_min

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]


class PlacedPoints:
    """Places in space, float64 [m, 3] of (x, y, z), equal on all ranks. Made collectively.

    Cost: each rank compares the places with boxes around its elements, and inverts the maps of those near.
    """

    def __init__(self, comm: MPI.Comm, grid: ElementGrid, places: Array) -> None:
        self._comm = comm
        self._count = len(places)
        found = list(places_inside(grid.coordinates, places))
        owner = np.full(len(places), np.inf)
        for element, numbers, _ in reversed(found):  # the first element has the last word
            owner[numbers] = grid.first + element
        first = allreduce_min(comm, owner)
        self.missing = np.flatnonzero(~np.isfinite(first))
        self._parts = []
        points = gauss_lobatto(grid.n)[0]
        for element, numbers, reference in found:
            mine = first[numbers] == grid.first + element
            basis = [interpolation_matrix(points, xi) for xi in reference[:, mine]]
            self._parts.append((element, numbers[mine], basis))

    def values(self, fields: Sequence[Array]) -> Array:
        """Return fields [E, n, n, n] at the places, float64 [fields, m], on all ranks. Collective."""
        mine = np.zeros((len(fields), self._count))
        for row, field in zip(mine, fields):
            for element, numbers, basis in self._parts:
                row[numbers] = at_points(field[element], basis)
        found = np.empty_like(mine)
        self._comm.Allreduce(mine, found)
        return found
