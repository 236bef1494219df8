"""Nekbone's problem on one rank: a brick of elements, its points, its right side; solved on CPUs and on GPUs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.node_memory import require_memory
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.mesh import SIDES, ElementGrid, ElementMesh, side_axis
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.runtime.aligned import aligned_empty

Array = NDArray[np.float64]

SHIFT = 0.1  # of the operator, as in Nekbone
WORDS = 14  # to and from memory per point and iteration, at the least: 6 factors, x, r, p, w; x, r, p, w


def brick(count: int) -> tuple[int, int, int]:
    """Return the three factors (z, y, x) of count, ascending, that lie closest together."""
    best = (1, 1, count)
    for a in range(1, round(count ** (1 / 3)) + 1):
        if count % a == 0:
            rest = count // a
            b = next(b for b in range(math.isqrt(rest), 0, -1) if rest % b == 0)
            low, middle, high = sorted((a, b, rest // b))
            best = min(best, (low, middle, high), key=sum)
    return best


class NekboneProblem(ABC):
    """The problem on this rank, without fields: numbers [E, n, n, n], weights, gather-scatter. Built collectively.

    n: GLL points per direction, nx1. elements: per rank, on the average; all ranks together make the brick.
    Raises ConfigError for too little memory, DecompositionError for too few elements.
    """

    host_words: ClassVar[int]  # held per point in host memory, the start's temporaries included
    device_name = "cpu"

    def __init__(self, comm: MPI.Comm, n: int, elements: int) -> None:
        self.comm, self.n = comm, n
        self.brick = brick(elements * comm.size)
        needed = elements * n**3 * self.host_words * 8
        require_memory(comm, needed, "these elements need", "use fewer --elements")
        mesh = ElementMesh.box(self.brick, (1.0, 1.0, 1.0))
        self.grid = ElementGrid(mesh, n - 1, comm.size, comm.rank)
        # Row by row, a neighbour in x is still in cache: its face has as many cache lines as it has points.
        rows = np.argsort(self.grid.ids[:, 0, 0, 0])
        self.ids = self.grid.ids[rows]
        self._on_boundary = self._boundary()[rows]
        # r and p are 0 on the boundary: w needs no sums there.
        self.gather_scatter = GatherScatter(comm, np.where(self._on_boundary, -1, self.ids), max_fields=1)
        boundary, interior = self.gather_scatter.boundary_elements, self.gather_scatter.interior_elements
        self._order = np.concatenate([boundary, interior])
        self._first_interior = boundary.size
        self._patterns, self._weights = self._kinds_of_elements()

    @abstractmethod
    def solve(self, iterations: int) -> tuple[float, list[float]]:
        """Run conjugate gradients from x = 0; return seconds on this rank, and the residuals. Collective.

        residuals: sqrt(r.c.r) before the first iteration and after each.
        """

    @abstractmethod
    def solution(self) -> Array:
        """Return x [E, n, n, n] of the last `solve`."""

    def bytes_per_iteration(self) -> float:
        """Return the counted bytes to and from memory of an iteration on this rank."""
        return 8.0 * WORDS * self.ids.size

    @property
    def unique_points(self) -> int:
        """Points of all ranks, copies counted once, those on the boundary included."""
        return math.prod(count * (self.n - 1) + 1 for count in self.brick)

    def free(self) -> None:
        """Free what MPI holds; the object is of no use afterwards."""
        self.gather_scatter.free()

    def _boundary(self) -> NDArray[np.bool_]:
        """Return which points [E, n, n, n] lie on the boundary of the brick."""
        on = np.zeros(self.grid.ids.shape, bool)
        for side in SIDES:
            axis, upper = side_axis(side)
            index: list[Any] = [self.grid.side_elements(side), slice(None), slice(None), slice(None)]
            index[1 + axis] = -1 if upper else 0
            on[tuple(index)] = True
        return on

    def _kinds_of_elements(self) -> tuple[NDArray[np.int64], Array]:
        """Return the kind of each element, and per kind the inverse multiplicity, 0 on the boundary."""
        weights = self.gather_scatter.inverse_multiplicity()
        weights[self._on_boundary] = 0.0
        rows = weights.reshape(len(weights), self.n**3)
        kinds, of_element = np.unique(rows, axis=0, return_inverse=True)
        patterns = aligned_empty((len(kinds), self.n, self.n, self.n), np.float64)
        patterns[...] = kinds.reshape(patterns.shape)
        return of_element.reshape(-1).astype(np.int64), patterns

    def cube_weights(self) -> Array:
        """Return the product of the quadrature weights at each point of a reference element, flat [n^3]."""
        _, weights = gauss_lobatto(self.n)
        return np.asarray((weights[:, None, None] * weights[:, None] * weights).reshape(-1))

    def right_side(self) -> Array:
        """Return f [E, n, n, n]: numbers in [-1, 1) made from the points' numbers, 0 on the boundary."""
        bits = (self.ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        noise = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
        return np.asarray(np.where(self._weights[self._patterns] > 0, noise, 0.0))
