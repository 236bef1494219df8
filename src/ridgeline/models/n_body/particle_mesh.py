"""The long-range force: particles on a mesh, Poisson's equation by Fourier transforms, forces back at the particles.

A particle is a cloud of one cell (cloud in cell; Hockney and Eastwood 1988, Sec. 5-3). `force_law` has the potential
of each mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.ghost_planes import CORNERS, GhostPlanes
from ridgeline.fourier.modes import mode_numbers
from ridgeline.fourier.packing import lines_from_modes
from ridgeline.fourier.stages import RowBlock, Tile
from ridgeline.fourier.transform import FourierTransform, kernels_of_transforms
from ridgeline.fourier.tuning import TransformTuning
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.n_body.force_law import Filter, filter_factor, influence, slope
from ridgeline.models.n_body.kernels import (
    MASS_UNIT,
    deposit_clouds,
    interpolate_clouds,
    load_gradient,
    rows_from_pairs,
)

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.runtime.regions import Regions

Reals = NDArray[np.float64]

PIECE = 4096  # particles that a thread interpolates to at a time


class ParticleMesh:
    """The mesh of one rank. Creating it is collective.

    Parameters
    ----------
    grid : PencilGrid
        The points of this rank.
    length : float
        Edge of the cubic box.
    comm, tuning, regions
        The ranks, the choices of the transforms, and where time is counted.
    dtype : dtype
        Type of the forces on the mesh, float32 or float64.
    source : float
        Factor of the density contrast in Poisson's equation.
    n_global : int
        Number of particles on all ranks.
    filter : Filter
        The filter of the density.

    Attributes
    ----------
    transform : FourierTransform
        The transforms of the mesh.
    mass : int64 [n_z + 1, n_y + 1, n_x]
        Mass in units of MASS_UNIT, with ghosts above in y and z.
    modes : complex [n_modes]
        Modes of the density contrast.
    forces : [3, n_z + 1, n_y + 1, n_x]
        Components x, y, z of -grad(phi), with ghosts above in y and z.
    """

    def __init__(
        self,
        grid: PencilGrid,
        length: float,
        comm: MPI.Comm,
        dtype: DTypeLike,
        tuning: TransformTuning,
        regions: Regions,
        *,
        source: float,
        n_global: int,
        filter: Filter,
    ) -> None:
        self.transform = FourierTransform(
            grid, (length,) * 3, comm, dtype, tuning, from_lines=3, from_points=1, to_lines=1
        )
        self._regions = regions
        cells = grid.shape[0]
        self._per_length = cells / length
        self._offset = np.array(grid.offset[::-1], np.int64)
        self._contrast = MASS_UNIT * cells**3 / n_global
        z, y, x = grid.block
        shape = z + 1, y + 1, x  # ghosts above in y and z
        self.mass = np.zeros(shape, np.int64)
        self.forces = np.zeros((3, *shape), self.transform.real)
        self.modes = np.zeros(self.transform.modes.n_modes, self.transform.complex)
        self._mass_ghosts = GhostPlanes(grid, comm, 1, np.int64, CORNERS)
        self._force_ghosts = GhostPlanes(grid, comm, 3, self.transform.real, CORNERS)
        # Tables of Green's function with the filter, and of the derivatives.
        modes, real = self.transform.modes, self.transform.real
        cell = length / modes.shape[0]
        kz, ky, kx = (cell * k for k in modes.expand())
        green = influence(kz, ky, kx) * filter_factor(kz * kz + ky * ky + kx * kx, filter)
        self._green = (source * cell**2 * green).astype(real)
        along = modes.unit[1] * mode_numbers(modes.shape[1]).astype(np.float64)
        self._slopes = [np.asarray(slope(cell * k) / cell, real) for k in (modes.kx, along, modes.kz)]

    @staticmethod
    def kernels(dtype: DTypeLike) -> list[Specialisation]:
        """Return the kernels that a run compiles beforehand. dtype: of the mesh."""
        return [
            *kernels_of_transforms(dtype),
            *specialise([deposit_clouds]),
            *specialise([load_gradient], np.result_type(dtype, np.complex64)),
            *specialise([rows_from_pairs, interpolate_clouds], dtype),
        ]

    @property
    def n_bytes(self) -> int:
        """Bytes of memory that are allocated."""
        arrays = (self.mass, self.forces, self.modes, self._green, *self._slopes)
        ghosts = self._mass_ghosts.n_bytes + self._force_ghosts.n_bytes
        return sum(array.nbytes for array in arrays) + ghosts + sum(self.transform.memory().values())

    def deposit(self, position: Reals) -> None:
        """Set `mass` and `modes` from particles at positions [3, n] in this rank's box. Collective.

        Masses are integers, so that they have the same bits on any number of ranks and in any order of particles.
        """
        block = self.transform.grid.block
        with self._regions("deposit"):
            self.mass[...] = 0
            deposit_clouds(*position, self._per_length, self._offset, self.mass)
        with self._regions("exchange"):
            self._mass_ghosts.add(self.mass[..., np.newaxis])
        with self._regions("poisson"):
            # The old forces are not needed any more: their memory holds the points.
            points = self.forces.reshape(-1)[: int(np.prod(block))].reshape(block)
            np.multiply(self.mass[: block[0], : block[1]], self._contrast, out=points, casting="unsafe")
            self.transform.to_spectral(points[np.newaxis], self.modes[np.newaxis])

    def solve(self) -> None:
        """Set `forces`, ghosts included, from `modes`. Collective."""
        transform = self.transform
        start, n_y = transform.modes.lines.start, transform.grid.shape[1]
        n_z = transform.grid.block[0]

        def load(tile: Tile, line: int, n: int) -> None:
            load_gradient(self.modes, start, line, n, n_y, self._green, *self._slopes, tile.modes)

        def keep(rows: RowBlock, y: int, first: int, n: int) -> None:
            for pairs, block in zip(rows.target, self.forces):
                rows_from_pairs(pairs, y, first, n, n_z, block)

        with self._regions("poisson"):
            transform.lines(load, to_planes=3)
            transform.planes(keep, from_lines=3)
        with self._regions("exchange"):
            self._force_ghosts.fill(np.moveaxis(self.forces, 0, -1))

    def interpolate(self, position: Reals, out: Reals) -> None:
        """Set out[:, i], float64 [3, >= n], to the force at position i of [3, n] in this rank's box. Local."""
        with self._regions("interpolate"):
            self._interpolate(position, self.forces, out)

    def _interpolate(self, position: Reals, fields: NDArray[Any], out: Reals) -> None:
        """Interpolate fields of the mesh to positions by all threads."""
        n = position.shape[1]
        pieces = [slice(first, min(first + PIECE, n)) for first in range(0, n, PIECE)]

        def work(_: int, piece: slice) -> None:
            rows = (row[piece] for row in position)
            interpolate_clouds(*rows, self._per_length, self._offset, fields, piece.start, out)

        self.transform.workers.run(pieces, work)

    def potential(self, position: Reals) -> Reals:
        """Return the potential of the mesh, float64 [n], at positions [3, n] in this rank's box. Collective.

        This overwrites `forces`: call `solve` before the next use of them.
        """
        transform = self.transform
        start, n_y = transform.modes.lines.start, transform.grid.shape[1]
        n_z = transform.grid.block[0]
        modes = self.modes * self._green

        def load(tile: Tile, line: int, n: int) -> None:
            lines_from_modes(modes, start, line, n, n_y, tile.modes[0])

        def keep(rows: RowBlock, y: int, first: int, n: int) -> None:
            rows_from_pairs(rows.target[0], y, first, n, n_z, self.forces[0])

        transform.lines(load, to_planes=1)
        transform.planes(keep, from_lines=1)
        self._force_ghosts.fill(np.moveaxis(self.forces[:1], 0, -1))
        out = np.empty((1, position.shape[1]))
        self._interpolate(position, self.forces[:1], out)
        return np.asarray(out[0])
