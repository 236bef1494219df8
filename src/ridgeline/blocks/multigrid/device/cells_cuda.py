"""Cell-centred multigrid whose fine levels lie in the memory of a GPU.

The V-cycle, the plan of the levels, the coefficients and the coarsest solve are those of `CellMultigrid`; a
`DeviceCellGrid` does the passes of a level by kernels. From the first level on that moves onto fewer ranks, or has
fewer than `device_cells` cells for each rank, levels are `CellGrid`s on the host: their right-hand sides and
corrections are copied, once each in a cycle.

Coefficients that vary are averaged over the levels on the host, and copied to the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.ghosts_cuda import DeviceGhosts
from ridgeline.blocks.multigrid.cell_grid import CellGrid, towards
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.multigrid.device.cell_kernels_cuda import (
    add_correction,
    find_residual,
    relax_cells,
    restrict_residual,
)
from ridgeline.blocks.multigrid.levels import CELLS_PER_RANK, GridLevel
from ridgeline.blocks.multigrid.result import MultigridResult
from ridgeline.blocks.multigrid.smoothing import STEPS
from ridgeline.blocks.rows_cuda import (
    RowReductions,
    add_to_rows,
    copy_rows,
    device_field,
    download,
    fill_flat,
    flat_launch,
    layout_of,
    mirror_at,
    rows_launch,
    scale_flat,
    upload,
)
from ridgeline.jit.cuda_device import make_stream
from ridgeline.parallel.allreduce import allreduce_max, allreduce_sums, raise_on_all_ranks
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.regions import Regions

Array = NDArray[Any]

DEVICE_CELLS = 32**3  # of a rank; a smaller level takes less time on the host than its launches on a device
NO_LAYOUT = (0, 0, 0)


def copy_cells(source: BlockArray, target: BlockArray, layers: int, stream: Any) -> None:
    """Copy the owned cells and some layers of ghosts between fields in device memory."""
    shape = tuple(n + 2 * layers for n in source.block.shape_local)
    places = []
    for field in (source, target):
        first = field.origin - layers * (field.plane_pitch + field.row_pitch + 1)
        places.append((first, field.row_pitch, field.plane_pitch))
    grid, threads = rows_launch((shape[0], shape[1], shape[2]))
    copy_rows[grid, threads, stream](source.flat, places[0], target.flat, places[1], shape)


class DeviceCellGrid(CellGrid):
    """A level in device memory. It does what a `CellGrid` does; x, b and the memory of a step are device fields."""

    def __init__(self, stream: Any, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._stream = stream
        block, dtype = self.block, self.dtype
        self.x, self.b, self.spare = (device_field(block, dtype) for _ in range(3))
        self.fill.free()
        self.fill = DeviceGhosts(self.comm, [(self.x,), (self.b,)], stream)  # type: ignore[assignment]
        nz, ny, _ = block.shape_local
        self.reductions = RowReductions(nz * ny, stream)
        self._width = self.factors.shape[2]
        self._device_factors = cuda.to_device(self.factors.reshape(-1))
        nothing = cuda.to_device(np.zeros(1, dtype))
        self._fields = (nothing,) * 4
        self._face_layout = NO_LAYOUT
        self._volumes_x = cuda.to_device(self._owned_widths(2))

    def _owned_widths(self, axis: int) -> Array:
        first, n = self.block.offset_global[axis], self.block.shape_local[axis]
        return np.array(self.level.widths[axis][first : first + n])

    def join(self, coarse: GridLevel, coarse_grid: CellGrid | None) -> None:
        super().join(coarse, coarse_grid)
        self._on_device = isinstance(coarse_grid, DeviceCellGrid)
        if self._on_device:
            assert coarse_grid is not None
            self._coarse_b, self._coarse_x = coarse_grid.b, coarse_grid.x
        else:  # what the device writes and reads, and the host copies
            if coarse_grid is not None:
                coarse_grid.fill.along_x = None  # the device reads all ghosts of corrections
            self._coarse_b, self._coarse_x = (
                BlockArray(
                    field.block, cuda.to_device(field.flat), field.origin, field.row_pitch, field.plane_pitch
                )
                for field in (self.restricted, self.correction)
            )
        longest = max(self.natural.shape_local) + 1
        starts = np.zeros((3, longest), np.int64)
        for axis in range(3):
            begin, end = self._ranges[axis]
            cells, n = self._places[axis, begin:end] - self.ghost, self.natural.shape_local[axis]
            starts[axis, : n + 1] = np.searchsorted(cells, np.arange(n + 1)) + begin - self.ghost
        self._longest = longest
        self._starts, self._device_shares, self._device_near, self._device_other, self._device_weight = (
            cuda.to_device(np.ascontiguousarray(table).reshape(-1))
            for table in (starts, self._shares, self._near, self._other, self._weight)
        )

    # ---- coefficients ----

    def set_constant(self, alpha: float, beta: float) -> None:
        super().set_constant(alpha, beta)
        self._device_factors.copy_to_device(self.factors.reshape(-1))

    def finish_coefficients(self) -> None:
        super().finish_coefficients()
        self._device_factors.copy_to_device(self.factors.reshape(-1))
        assert self.reaction is not None
        assert self.faces is not None
        reaction = device_field(self.block, self.dtype)
        host = BlockArray.allocate(self.block, self.dtype)
        host.ghosted[...] = self.reaction.ghosted
        upload(host, reaction, self._stream)
        self._stream.synchronize()
        self._fields = (reaction.flat, *(cuda.to_device(face.flat) for face in self.faces))
        self._face_layout = layout_of(self.faces[0])

    def _coefficients(self) -> tuple[Any, ...]:
        """Return the arguments of kernels that are the equation."""
        alpha: Any = self.alpha
        return int(self.variable), alpha, self._fields, self._device_factors, self._width

    # ---- passes ----

    def _box(self, layers: int) -> tuple[Triple, Triple]:
        """Return the first cell and the shape of the owned cells with layers where there are neighbours."""
        low = [layers if has else 0 for has in self._has_neighbour[:, 0]]
        high = [layers if has else 0 for has in self._has_neighbour[:, 1]]
        first = (-low[0], -low[1], -low[2])
        nz, ny, nx = (n + a + b for n, a, b in zip(self.block.shape_local, low, high))
        return first, (nz, ny, nx)

    def smooth(self, from_zero: bool, restricts: bool, prolongs: bool) -> None:
        stream, layout, ghost = self._stream, layout_of(self.x), self.ghost
        if prolongs:
            if not self._on_device:
                upload(self.correction, self._coarse_x, stream)
            first, shape = self._box(self.steps)
            grid, threads = rows_launch(shape)
            one: Any = self.dtype.type(1)
            add_correction[grid, threads, stream](
                self.x.flat, layout, ghost, first, shape, one, self._coarse_x.flat, layout_of(self._coarse_x),
                self._coarse_x.block.ghost, self._device_near, self._device_other, self._device_weight,
                self._width,
            )  # fmt: skip
        layers = self.steps if restricts else 0
        source, target = self.x, self.spare
        for step, tau in enumerate(self.taus):
            first, shape = self._box(layers + self.steps - 1 - step)
            grid, threads = rows_launch(shape)
            relax_cells[grid, threads, stream](
                source.flat, self.b.flat, layout, self._face_layout, ghost, first, shape, tau,
                int(from_zero and step == 0), *self._coefficients(), target.flat,
            )  # fmt: skip
            source, target = target, source
        if source is not self.x:
            copy_cells(source, self.x, layers, stream)
        if restricts:
            shape = self.natural.shape_local
            grid, threads = rows_launch(shape)
            restrict_residual[grid, threads, stream](
                self.x.flat, self.b.flat, layout, self._face_layout, ghost, *self._coefficients(), self._starts,
                self._device_shares, self._longest, self._coarse_b.flat, layout_of(self._coarse_b), shape,
            )  # fmt: skip
            if not self._on_device:
                download(self._coarse_b, self.restricted, stream)

    def residual(self, out: Any = None) -> float:
        """Return max |b - A x| of this rank's cells, and set the device field `out` = b - A x if it is given."""
        shape = self.block.shape_local
        grid, threads = rows_launch(shape)
        keeps = out is not None
        find_residual[grid, threads, self._stream](
            self.x.flat, self.b.flat, layout_of(self.x), self._face_layout, self.ghost, shape,
            *self._coefficients(), int(keeps), (out or self.x).flat, self.reductions.rows,
        )  # fmt: skip
        return self.reductions.largest_row(shape[0] * shape[1])

    def shift(self, field: BlockArray, amount: float, layers: int = 0) -> None:
        """Add a number to the owned cells of a device field and to some layers of ghosts."""
        z, y, x = (n + 2 * layers for n in field.block.shape_local)
        first = field.origin - layers * (field.plane_pitch + field.row_pitch + 1)
        kind: Any = field.flat.dtype.type
        grid, threads = rows_launch((z, y, x))
        add_to_rows[grid, threads, self._stream](
            field.flat, (first, field.row_pitch, field.plane_pitch), (z, y, x), kind(amount)
        )

    def integral_of_rows(self, field: BlockArray) -> Array:
        """Return the integral of a device field over the cells of each row, float64 [nz, ny] on the host."""
        sums = self.reductions.sums(field, self._volumes_x)
        return np.asarray(sums * self._owned_widths(0)[:, None] * self._owned_widths(1))


class DeviceCellMultigrid(CellMultigrid):
    """Solve alpha a x - div(beta grad x) = b by multigrid on a GPU: `CellMultigrid` for fields in device memory.

    Parameters
    ----------
    comm, block, widths, sides, dtype, steps, cells_per_rank, regions
        As for `CellMultigrid`. Lines along z are not relaxed: cells whose widths along z differ by more than a
        factor of 2.5 are refused.
    stream
        The CUDA stream of all kernels, or None for a new one.
    device_cells : int
        Coarser levels with fewer cells for each rank are on the host.

    Raises
    ------
    ValueError
        On all ranks, as `CellMultigrid` does, and if lines are needed, or if the finest level is too small for the
        device or must move onto fewer ranks.

    Notes
    -----
    Collective. Each rank has chosen its device before (`parallel.devices.select_device`). The means of a singular
    problem are sums of rows in a fixed order, which the host adds exactly: the same bits on all process grids that
    do not cut x. Other results have the same bits on any ranks.

    A V-cycle reads and writes about 16 words for each finest cell, since every smoothing step is a launch, where
    the passes of `CellMultigrid` move 6.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | Array],
        sides: Sequence[str | Sequence[str]],
        *,
        dtype: DTypeLike = np.float64,
        steps: int = STEPS,
        cells_per_rank: int = CELLS_PER_RANK,
        regions: Regions | None = None,
        stream: Any = None,
        device_cells: int = DEVICE_CELLS,
    ) -> None:
        self.stream = make_stream() if stream is None else stream
        self._device_cells = device_cells
        super().__init__(
            comm,
            block,
            widths,
            sides,
            dtype=dtype,
            steps=steps,
            cells_per_rank=cells_per_rank,
            regions=regions,
        )
        first = self._grids[0]
        error = None
        if self.lines:
            error = ValueError(
                "The widths of the cells along z need relaxation by lines, which GPUs do not do yet. Use "
                "CellMultigrid on the host."
            )
        elif not self.is_on_device(0):
            error = ValueError(
                f"The grid of {block.shape_global} cells is too small for a GPU: multigrid would be on the host "
                f"alone. Use more cells, fewer ranks or CellMultigrid."
            )
        raise_on_all_ranks(comm, error)
        assert isinstance(first, DeviceCellGrid)
        self._device = first

    def is_on_device(self, index: int) -> bool:
        """Return whether a level is in device memory; the same on all ranks."""
        finer = self.levels[: index + 1]
        level = finer[-1]
        ranks = int(np.prod(level.process_grid))
        return (
            index + 1 < len(self.levels)
            and not any(each.is_agglomerated for each in finer)
            and (index == 0 or level.cells >= self._device_cells * ranks)
        )

    def _make_grid(self, index: int, comm: MPI.Comm, taus: Array) -> CellGrid:
        if self.lines or not self.is_on_device(index):
            return super()._make_grid(index, comm, taus)
        level, coords = self.levels[index], self._block.coords
        return DeviceCellGrid(self.stream, comm, level, coords, self._sides, taus, self.lines, self.dtype)

    def solve(
        self,
        b: BlockArray,
        x: BlockArray,
        tolerance: float = 1e-10,
        max_cycles: int = 50,
        absolute: float = 0.0,
    ) -> MultigridResult:
        """Solve A x = b by V-cycles from the values that x has. b and x are fields in device memory.

        The arguments, the result and the ghosts of x are those of `CellMultigrid.solve`. Work that others put on
        other streams must be finished.
        """
        grid, stream = self._device, self.stream
        self._check_blocks(b, x)
        copy_cells(b, grid.b, 0, stream)
        copy_cells(x, grid.x, 0, stream)
        removed = 0.0
        if self.singular:
            removed = self._mean_on_device(grid.b)
            grid.shift(grid.b, -removed)
        limit = max(tolerance * float(allreduce_max(self.comm, grid.reductions.largest(grid.b))), absolute)
        result = self._iterate(limit, max_cycles, removed)
        layers = min(x.block.ghost, grid.ghost)
        copy_cells(grid.x, x, layers, stream)
        self._mirror(x, layers)
        if self.singular:
            grid.shift(x, -self._mean_on_device(grid.x), layers)
        return result

    def _mirror(self, x: BlockArray, layers: int) -> None:
        for axis, pair in enumerate(self._sides):
            for end in (0, 1):
                if pair != "periodic" and self._block.neighbour(towards(axis, 2 * end - 1)) is None:
                    sign = -1.0 if pair[end] == "dirichlet" else 1.0
                    n = min(layers, self._block.shape_global[axis])
                    mirror_at(x, axis, end == 1, n, 0.0, sign, self.stream)

    def _mean_on_device(self, field: BlockArray) -> float:
        """Return the mean over the volume. Collective: two allreduces."""
        total = float(np.prod([widths.sum() for widths in self.levels[0].widths]))
        rows = self._device.integral_of_rows(field)
        return float(allreduce_sums(self.comm, [rows], self.levels[0].cells)[0]) / total

    def cycle(self, b: BlockArray, x: BlockArray, from_zero: bool = True) -> None:  # type: ignore[override]
        """Do one V-cycle on fields in device memory, whose ghosts are neither read nor written. Collective."""
        grid = self._device
        copy_cells(b, grid.b, 0, self.stream)
        self._fill(0, 1)
        if not from_zero:
            copy_cells(x, grid.x, 0, self.stream)
            self._fill(0, 0)
        self._cycle(0, from_zero)
        copy_cells(grid.x, x, 0, self.stream)

    def apply_operator(self, x: BlockArray, out: BlockArray) -> None:  # type: ignore[override]
        """Set the owned cells of `out` to A x, for fields in device memory. Collective: ghosts are exchanged."""
        grid, stream = self._device, self.stream
        launch = (*flat_launch(grid.b.flat.size), stream)
        zero: Any = self.dtype.type(0)
        fill_flat[launch](grid.b.flat, zero)
        copy_cells(x, grid.x, 0, stream)
        self._fill(0, 0)
        grid.residual(grid.spare)
        scale_flat[launch](grid.spare.flat, self.dtype.type(-1), grid.spare.flat)
        copy_cells(grid.spare, out, 0, stream)
