"""The short-range force on the particles of one rank: direct sums over near particles and ghosts in chaining cells.

For each particle, those within the matching radius are first listed, eight distances at a time, and then summed over.
A sum adds integers: the pair's force in units of a power of two. Its result therefore does not depend on the order of
the particles, and the forces of two particles on each other are opposite to the last bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numba
import numpy as np
from numba import boolean, float64, int32, int64, uint64
from numpy.typing import NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.models.n_body.force_law import ForceLaw
from ridgeline.models.n_body.kernels import kick_near
from ridgeline.particles.boxes import Boxes
from ridgeline.particles.cells import Cells, cell_along, kernels_of_cells
from ridgeline.particles.ghosts import Ghosts, kernels_of_ghosts
from ridgeline.particles.neighbours_llvm import LANES, append_near
from ridgeline.particles.particles import POSITION, Particles

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.regions import Regions

GRID = numba.types.Tuple((float64[::1], float64[::1], int64[::1]))
LAW = numba.types.UniTuple(float64, 10)
Law = tuple[float, ...]  # the argument `law` of `sum_near`
CHUNK = 2048  # candidates that are searched before the near ones among them are summed
ROOM = 2 * CHUNK + LANES  # capacity of a thread's list
MOST_NEAR = 2**22  # particles whose forces on one particle add up without overflow
SUM_BITS = 63  # of an integer, without its sign


class ShortRange:
    """Sums the forces of particles within the matching radius. Creating it is local.

    Parameters
    ----------
    comm, boxes
        The ranks, and the box of each.
    law : ForceLaw
        The short-range force, in cells.
    cell : float
        Edge of a cell of the mesh.
    strength : float
        g of Newton's force g / r^2 between two particles.
    threads, regions
        Threads of the sums, and where their time is counted.

    Attributes
    ----------
    forces : int64 [>= n, 3]
        Forces x, y, z on the owned particles, in multiples of `unit`.
    ghosts : Ghosts
        The particles of other ranks within the matching radius.

    Raises
    ------
    DecompositionError
        If a box is thinner than the matching radius.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        boxes: Boxes,
        law: ForceLaw,
        cell: float,
        strength: float,
        threads: int,
        regions: Regions,
    ) -> None:
        self._regions = regions
        reach = law.radius * cell
        self.ghosts = Ghosts(comm, boxes, reach)
        self._cells = Cells(boxes.bounds(comm.rank), reach)
        self._points = np.zeros((1, 3))
        self._places = np.zeros(0, np.int32)
        self._lists = np.zeros((threads, ROOM), np.int32)
        self.forces = np.zeros((1, 3), np.int64)
        # The force of a softened particle is largest at softening / sqrt(2): 2 / sqrt(27) softening^-2.
        force_bits = _bits(2 / math.sqrt(27) / law.softening**2)
        potential_bits = _bits(1 / law.softening)
        scale = np.array(law.coefficients) * cell ** (-3.0 - 2.0 * np.arange(len(law.coefficients)))
        edge, soft = reach**2, (law.softening * cell) ** 2
        self._force_coefficients = (edge, soft, 2.0**force_bits * cell**2, *scale.tolist(), 0.0)
        self.unit = strength / (2.0**force_bits * cell**2)
        integral = [0.5 * c / (k + 1) for k, c in enumerate(scale.tolist())]
        constant = (edge + soft) ** -0.5 + sum(w * edge ** (k + 1) for k, w in enumerate(integral))
        self._potential_coefficients = (edge, soft, 2.0**potential_bits * cell, *integral, constant)
        self._strength = strength

    @staticmethod
    def kernels() -> list[Specialisation]:
        """Return the kernels that a run compiles beforehand."""
        return [*specialise([sum_near, kick_near]), *kernels_of_cells(), *kernels_of_ghosts()]

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that are allocated."""
        arrays = (self._points, self._places, self._lists, self.forces)
        return sum(array.nbytes for array in arrays) + self._cells.n_bytes

    def update_ghosts(self, particles: Particles) -> None:
        """Update ghosts and cells for the present positions. Communicates with neighbours."""
        n = particles.n
        if len(self._points) < n:
            self._points = np.zeros((particles.capacity, 3))
        if len(self.forces) < n:
            self.forces = np.zeros((particles.capacity, 3), np.int64)
        with self._regions("exchange"):
            self._points[:n] = particles[POSITION].T
            self._points = self.ghosts.build(self._points, n)
        with self._regions("short range"):
            self._cells.fill(self._points, self.ghosts.n_all)

    def compute(self, n: int) -> None:
        """Set `forces` for the n owned particles at the positions of the last `update_ghosts`. Local."""
        with self._regions("short range"):
            self._sum(n, self._force_coefficients, False, self.forces)

    def potentials(self, n: int) -> NDArray[np.float64]:
        """Return the potentials [n] of the owned particles at the positions of the last `update_ghosts`. Local."""
        out = np.empty((n, 3), np.int64)
        self._sum(n, self._potential_coefficients, True, out)
        return np.asarray(out[:, 0] * (self._strength / self._potential_coefficients[2]))

    def _sum(self, n: int, law: Law, potentials: bool, out: NDArray[np.int64]) -> None:
        cells = self._cells
        if len(self._places) < len(cells.order):
            self._places = np.arange(len(cells.order), dtype=np.int32)
        grid = (cells.low, cells.per_length, cells.shape)
        sum_near(
            cells.sorted, n, grid, cells.starts, cells.order, self._places, law, potentials, self._lists, out
        )


def _bits(largest: float) -> int:
    """Return the bits after the point with which the sum of MOST_NEAR numbers of size `largest` fits an int64."""
    return SUM_BITS - int(math.log2(MOST_NEAR)) - math.ceil(math.log2(largest)) - 1


@subroutine(inline="always")
def _cell_of(x, y, z, grid):
    """Return the number of the cell of an owned particle: never one of the layer around the box."""
    low, per_length, shape = grid
    a = min(max(cell_along(x, low[0], per_length[0], shape[0]), 1), shape[0] - 2)
    b = min(max(cell_along(y, low[1], per_length[1], shape[1]), 1), shape[1] - 2)
    c = min(max(cell_along(z, low[2], per_length[2], shape[2]), 1), shape[2] - 2)
    return (c * shape[1] + b) * shape[0] + a


@subroutine(error_model="numpy")
def _sum_forces(columns, near, n_near, place, law, out):
    """Add the forces of the listed particles on a particle at `place` to out (3,), in integers."""
    x, y, z = columns
    x0, y0, z0 = place
    _, soft, scale, c0, c1, c2, c3, c4, c5, _ = law
    fx, fy, fz = int64(0), int64(0), int64(0)
    for k in range(n_near):
        j = uint64(near[k])
        dx, dy, dz = x[j] - x0, y[j] - y0, z[j] - z0
        s = (dx * dx + dy * dy) + dz * dz
        inverse = 1.0 / math.sqrt(s + soft)
        far = ((((c5 * s + c4) * s + c3) * s + c2) * s + c1) * s + c0
        f = (inverse * inverse * inverse - far) * scale
        fx += int64(f * dx)
        fy += int64(f * dy)
        fz += int64(f * dz)
    out[0] += fx
    out[1] += fy
    out[2] += fz


@subroutine(error_model="numpy")
def _sum_potentials(columns, near, n_near, place, law, out):
    """Add the potentials of the listed particles at `place` to out[0], in integers."""
    x, y, z = columns
    x0, y0, z0 = place
    _, soft, scale, c1, c2, c3, c4, c5, c6, constant = law
    total = int64(0)
    for k in range(n_near):
        j = uint64(near[k])
        dx, dy, dz = x[j] - x0, y[j] - y0, z[j] - z0
        s = (dx * dx + dy * dy) + dz * dz
        inner = (((((c6 * s + c5) * s + c4) * s + c3) * s + c2) * s + c1) * s
        total += int64((constant - inner - 1.0 / math.sqrt(s + soft)) * scale)
    out[0] += total


@subroutine
def _sum_list(columns, near, n_near, place, law, potentials, out):
    """Add the forces or the potentials of the listed particles to out (3,)."""
    if potentials:
        _sum_potentials(columns, near, n_near, place, law, out)
    else:
        _sum_forces(columns, near, n_near, place, law, out)


@kernel(
    lambda: (
        float64[:, ::1],
        int64,
        GRID,
        int64[::1],
        int32[::1],
        int32[::1],
        LAW,
        boolean,
        int32[:, ::1],
        int64[:, ::1],
    ),
    parallel=True,
    nogil=True,
)
def sum_near(positions, n, grid, starts, order, places, law, potentials, lists, out):
    """Set the short-range forces, or the potentials, of the first n particles.

    positions : (3, m) of owned particles and ghosts in the order of cells; grid : low, per_length and shape of
    `particles.cells.Cells`; starts, order : its attributes; places : (m,) 0, 1, 2, ...; law : the square of the
    matching radius, that of the softening, the number of integers in a unit, six coefficients and a constant (see
    `ShortRange`); lists : (threads, ROOM) scratch; out : (>= n, 3) integers, potentials in column 0.
    """
    x, y, z = positions[0], positions[1], positions[2]
    m = starts[starts.shape[0] - 1]
    shape, edge = grid[2], law[0]
    threads = lists.shape[0]
    for t in numba.prange(threads):
        near = lists[t]
        for k in range(m * t // threads, m * (t + 1) // threads):
            i = order[k]
            if i >= n:
                continue
            x0, y0, z0 = x[k], y[k], z[k]
            home = _cell_of(x0, y0, z0, grid)
            out[i, :] = 0
            found = 0
            for c in range(-1, 2):
                for b in range(-1, 2):
                    # Three neighbours in x follow each other; positions are in the order of cells.
                    run = home + (c * shape[1] + b) * shape[0]
                    end = starts[run + 2]
                    for first in range(starts[run - 1], end, CHUNK):
                        last = min(first + CHUNK, end)
                        found = append_near(
                            x,
                            y,
                            z,
                            places,
                            first,
                            last,
                            x0,
                            y0,
                            z0,
                            edge,
                            k,
                            False,
                            near,
                            found,
                            ROOM - LANES,
                        )
                        if found >= CHUNK:
                            _sum_list((x, y, z), near, found, (x0, y0, z0), law, potentials, out[i])
                            found = 0
            _sum_list((x, y, z), near, found, (x0, y0, z0), law, potentials, out[i])
