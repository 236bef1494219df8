"""Fields of modes at the places of particles: through a grid with ghosts, or by exact Fourier sums.

Both kinds load fields of modes and then return values at positions in this rank's box. A value does not depend on the
decomposition, except through the rounding of the transforms. Fields may be multiplied by factors of their modes, such
as i k for a derivative; `LineFactors` are these factors as products of factors along directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.ghost_planes import GhostPlanes, padded_shape
from ridgeline.fourier.modes import Modes, mode_numbers
from ridgeline.fourier.stages import RowBlock, RowOperation, Tile
from ridgeline.fourier.transform import FourierTransform
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.pencil_boxes import boxes_of
from ridgeline.models.turbulence.fluid_particles.kernels_points import (
    add_two,
    correct,
    interpolate,
    load_scaled,
    pad_rows,
    sum_fourier,
    values_of_splines,
)
from ridgeline.models.turbulence.fluid_particles.stencil_llvm import BATCH, COMPONENTS, POINTS
from ridgeline.models.turbulence.kernels_diagnostics import count_evenly
from ridgeline.models.turbulence.particle_settings import Interpolation
from ridgeline.parallel.allreduce import kernels_of_sums
from ridgeline.particles.boxes import kernels_of_boxes
from ridgeline.particles.particles import morton_keys
from ridgeline.runtime.aligned import aligned_empty
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True, eq=False)
class LineFactors:
    """Factors of modes: of_line [n_lines] times along [N_y], which has the order j_y = 0, 1, ..., -1; complex."""

    of_line: NDArray[Any]
    along: NDArray[Any]

    def __mul__(self, other: LineFactors) -> LineFactors:
        return LineFactors(self.of_line * other.of_line, self.along * other.along)

    def applied(self, field: NDArray[Any], modes: Modes) -> NDArray[Any]:
        """Return the modes of a field, [n_modes], times their factors."""
        _, jy, _ = modes.lines.expand()
        counts = np.diff(modes.lines.start)
        return np.asarray(field * np.repeat(self.of_line, counts) * self.along[jy])


def unchanged(modes: Modes) -> LineFactors:
    """Return factors that are 1."""
    return LineFactors(np.ones(modes.lines.n_lines, complex), np.ones(modes.shape[1], complex))


def spline_filter(modes: Modes) -> LineFactors:
    """Return factors that turn the modes of values at the grid into those of cubic B-spline coefficients."""
    nz, ny, nx = modes.shape
    lines = modes.lines

    def response(j: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        return np.asarray((2.0 + np.cos(2 * np.pi * j / n)) / 3.0)

    of_line = 1.0 / (response(lines.jx, nx) * response(lines.jz, nz))
    return LineFactors(of_line.astype(complex), (1.0 / response(mode_numbers(ny), ny)).astype(complex))


def derivative(modes: Modes, axis: int) -> LineFactors:
    """Return i k along an axis; axis 0 is x."""
    same = unchanged(modes)
    if axis == 1:
        return LineFactors(same.of_line, 1j * modes.unit[1] * mode_numbers(modes.shape[1]))
    return LineFactors(1j * (modes.kx if axis == 0 else modes.kz), same.along)


def displacement(modes: Modes, shift: NDArray[np.float64]) -> LineFactors:
    """Return exp(-2 pi i shift.j), which undoes a displacement of the grid by `shift`, fractions of the box."""
    x, y, z = -2j * np.pi * shift
    lines = modes.lines
    return LineFactors(np.exp(x * lines.jx + z * lines.jz), np.exp(y * mode_numbers(modes.shape[1])))


Operand = tuple[NDArray[Any], LineFactors]  # a field, complex [n_modes], and its factors
Floats = NDArray[np.float64]
NOWHERE = np.zeros(3)
PIECES = 4  # pieces of each thread's particles; threads that are done take pieces of others


class PointValues(Protocol):
    """Values of fields at positions."""

    regions: Regions

    def load(self, fields: Sequence[Operand], shift: Floats = NOWHERE) -> None:
        """Load one to three fields. Collective. Seconds are charged to "spline transform" and "ghost planes".

        shift: displacement of the grid to interpolate from, less than a cell, (x, y, z) as fractions of the box.
        """

    def rows(self) -> RowOperation | None:
        """Return an operation that sets rows of the displaced grid to the three loaded fields, or None."""

    def at(self, position: Floats, out: Floats) -> None:
        """Set out[v, i], float64 [3, n], to field v at position i of position, [3, n] (x, y, z). No communication.

        Positions are in this rank's box, or up to a cell beyond. Rows of fields that are not loaded are undefined.
        """

    def correct(self, half: float, position: Floats, velocity: Floats, image: NDArray[np.int32]) -> int:
        """Add half (u(x) - v) to positions x in this rank's box, then set v = u(x). No communication.

        u: the three loaded components. Positions [3, n] are brought back into the periodic box, and image counts how
        often. Returns how many came farther than a cell beyond this rank's box; their velocities are undefined.
        """

    @property
    def n_bytes(self) -> int:
        """Bytes held."""


def point_values(
    kind: Interpolation, transform: FourierTransform, comm: MPI.Comm, regions: Regions
) -> PointValues:
    """Return the interpolation of a kind. transform: the flow's, whose buffer is free between steps. Collective."""
    if kind == "fourier":
        return FourierSums(transform.grid, transform, comm, regions)
    return GridValues(transform, comm, kind, regions)


class GridValues:
    """Interpolates from a rank's points and ghost planes around them: order 4 by splines, 2 trilinear."""

    def __init__(
        self,
        transform: FourierTransform,
        comm: MPI.Comm,
        kind: Literal["spline", "trilinear"],
        regions: Regions,
    ) -> None:
        grid, modes = transform.grid, transform.modes
        self._transform, self.regions = transform, regions
        self._linear = kind == "trilinear"
        self._filter = unchanged(modes) if self._linear else spline_filter(modes)
        self._values = aligned_empty((*padded_shape(grid.block), COMPONENTS), transform.real)
        self._values[...] = 0
        self._ghosts = GhostPlanes(grid, comm, COMPONENTS, transform.real)
        self._lengths = np.array(modes.lengths[::-1], float)
        cells = np.array(grid.shape[::-1], float)
        of_block = [grid.offset[::-1], grid.block[::-1]]
        self._geometry = np.array([cells / self._lengths, cells, *of_block, NOWHERE], float)
        self._scratch = [
            (np.empty(BATCH, np.int64), np.empty((3 * POINTS, BATCH))) for _ in range(len(transform.workers))
        ]
        self._row_scratch = np.empty(
            (len(transform.workers), self._values.shape[2] * COMPONENTS), transform.real
        )

    @property
    def n_bytes(self) -> int:
        return self._values.nbytes + self._ghosts.n_bytes

    def load(self, fields: Sequence[Operand], shift: Floats = NOWHERE) -> None:
        # Cost: an inverse transform for each field.
        transform, modes = self._transform, self._transform.modes
        # A transform takes one field, or as many as the flow has.
        size = transform.most_from_lines if len(fields) == transform.most_from_lines else 1
        with self.regions("spline transform"):
            self._geometry[4] = shift * self._geometry[1]
            ours = displacement(modes, -shift) * self._filter if shift.any() else self._filter
            for first in range(0, len(fields), size):
                part = [(field, factors * ours) for field, factors in fields[first : first + size]]
                self._transform_to(part, first)
        with self.regions("ghost planes"):
            self._ghosts.fill(self._values)

    def rows(self) -> RowOperation | None:
        # Only of splines, whose values at the points cost less than another transform.
        n_z = self._transform.grid.block[0]

        def values(rows: RowBlock, y: int, first: int, n: int) -> None:
            values_of_splines(self._values, y, first, n, n_z, self._row_scratch[rows.index], rows.target)

        return None if self._linear else values

    def _transform_to(self, fields: Sequence[Operand], component: int) -> None:
        """Transform fields to components of the padded block, from `component` on. Collective."""
        transform, complex_type = self._transform, self._transform.complex
        start, nz, ny = transform.modes.lines.start, transform.grid.block[0], transform.grid.shape[1]
        scaled = [
            (field, factors.of_line.astype(complex_type), factors.along.astype(complex_type))
            for field, factors in fields
        ]

        def load(tile: Tile, line: int, n: int) -> None:
            for (field, of_line, along), lines in zip(scaled, tile.modes):
                load_scaled(field, start, line, n, ny, of_line, along, lines)

        def keep(rows: RowBlock, y: int, first: int, n: int) -> None:
            pad_rows(rows.target[: len(fields)], component, y, first, n, nz, self._values)

        transform.lines(load, to_planes=len(fields))
        transform.planes(keep, from_lines=len(fields))

    def at(self, position: Floats, out: Floats) -> None:
        def work(worker: int, piece: slice) -> None:
            x, y, z = position[:, piece]
            u, v, w = out[:, piece]
            interpolate(x, y, z, self._values, self._geometry, self._linear, *self._scratch[worker], u, v, w)

        self._run(position.shape[1], work)

    def correct(self, half: float, position: Floats, velocity: Floats, image: NDArray[np.int32]) -> int:
        """See `PointValues`. Threads share the particles."""
        away = [0] * len(self._scratch)

        def work(worker: int, piece: slice) -> None:
            x, y, z = position[:, piece]
            u, v, w = velocity[:, piece]
            away[worker] += correct(
                x,
                y,
                z,
                u,
                v,
                w,
                half,
                self._values,
                self._geometry,
                self._linear,
                *self._scratch[worker],
                self._lengths,
                *image[:, piece],
            )

        self._run(position.shape[1], work)
        return sum(away)

    def _run(self, n: int, work: Callable[[int, slice], None]) -> None:
        size = max(-(-n // (PIECES * len(self._scratch))), 1)
        self._transform.workers.run([slice(i, min(i + size, n)) for i in range(0, n, size)], work)


class FourierSums:
    """Sums all modes at every particle: the oracle of the others. Every rank has the modes of all ranks."""

    def __init__(
        self, grid: PencilGrid, transform: FourierTransform, comm: MPI.Comm, regions: Regions
    ) -> None:
        self._comm, self._modes, self.regions = comm, transform.modes, regions
        self._boxes = boxes_of(grid.shape, grid.process_grid, self._modes.lengths)
        rows, columns = grid.process_grid
        shares = [grid.lines_of_rank(rank % rows, rank // rows) for rank in range(rows * columns)]
        self._counts = [share.n_modes for share in shares]
        first = np.concatenate([share.start_global for share in shares])
        self._order = np.argsort(first)  # the canonical order of the lines of all ranks
        jx, jz, most = (
            np.concatenate([getattr(share, name) for share in shares])[self._order]
            for name in ("jx", "jz", "most")
        )
        self._lines = jx, jz, most, np.ascontiguousarray(first[self._order])
        # Places of the modes, in canonical order, among the modes of all ranks one after the other.
        lengths = np.concatenate([np.diff(share.start) for share in shares])
        begins = np.cumsum(lengths) - lengths
        self._source = np.concatenate(
            [np.arange(begins[line], begins[line] + lengths[line]) for line in self._order]
        )
        nz, ny, nx = grid.shape
        self._work = [np.empty(n // 2 + 1, complex) for n in (nx, ny, nz)]
        self._unit = np.array(self._modes.unit[::-1])
        self._all = np.empty((0, 0), complex)

    @property
    def n_bytes(self) -> int:
        return self._all.nbytes + self._source.nbytes + sum(line.nbytes for line in self._lines)

    def rows(self) -> RowOperation | None:
        return None

    def load(self, fields: Sequence[Operand], shift: Floats = NOWHERE) -> None:
        # There is no grid to displace: all ranks get the modes of all.
        self._all = np.empty((len(fields), len(self._source)), complex)
        for (field, factors), row in zip(fields, self._all):
            mine = factors.applied(field, self._modes).astype(complex)
            of_ranks = np.empty(sum(self._counts), complex)
            self._comm.Allgatherv(mine, [of_ranks, self._counts])
            np.take(of_ranks, self._source, out=row)

    def at(self, position: Floats, out: Floats) -> None:
        sum_fourier(*position, self._unit, *self._lines, self._all, *self._work, out)

    def correct(self, half: float, position: Floats, velocity: Floats, image: NDArray[np.int32]) -> int:
        new = np.empty_like(position)
        self.at(position, new)
        position += half * (new - velocity)
        self._boxes.wrap(position, self._comm.rank, image)
        self.at(position, velocity)
        return 0


def kernels_of_points(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels of fluid particles in fields of dtype, float32 or float64."""
    complex_type = np.result_type(dtype, np.complex64)
    return [
        *specialise([load_scaled], complex_type),
        *specialise([pad_rows, interpolate, correct, values_of_splines], dtype),
        *specialise([sum_fourier], np.complex128),
        *specialise([add_two, morton_keys]),
        *specialise([count_evenly], np.float64),
        *kernels_of_sums(np.float64),
        *kernels_of_boxes(),
    ]
