"""Nodal multigrid whose fine levels lie in the memory of a GPU.

The V-cycle, the plan of the levels and the coarsest solve are those of `NodalMultigrid`; a `DeviceNodalLevel` does
the passes of a level by kernels. From the first level on that moves onto fewer ranks, or has fewer than
`device_cells` cells for each rank, levels are on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.ghosts_cuda import DeviceGhosts
from ridgeline.blocks.multigrid.axis_tables import AxisSides
from ridgeline.blocks.multigrid.device.cells_cuda import DEVICE_CELLS, copy_cells
from ridgeline.blocks.multigrid.device.nodal_kernels_cuda import (
    interpolate_nodes,
    relax_nodes,
    restrict_nodes,
    set_residual,
)
from ridgeline.blocks.multigrid.levels import CELLS_PER_RANK, COARSEST_CELLS, GridLevel
from ridgeline.blocks.multigrid.nodal_levels import NodalLevel
from ridgeline.blocks.multigrid.nodal_tables import GHOST, AxisTransfer, Fixed, restriction_weights
from ridgeline.blocks.multigrid.nodes import NodalMultigrid
from ridgeline.blocks.rows_cuda import (
    RowReductions,
    device_field,
    download,
    fill_layer,
    fill_layer_launch,
    layer_inside,
    layout_of,
    rows_launch,
    upload,
)
from ridgeline.jit.cuda_device import make_stream
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.parallel.partition import Triple

Array = NDArray[Any]


class DeviceNodalLevel(NodalLevel):
    """A level in device memory. It does what a `NodalLevel` does; its fields are device fields."""

    def __init__(
        self,
        stream: Any,
        comm: MPI.Comm,
        level: GridLevel,
        coarser: GridLevel,
        coords: Triple,
        fixed: Sequence[Fixed],
        dtype: np.dtype[Any],
    ) -> None:
        self._stream = stream
        super().__init__(comm, level, coarser, coords, fixed, dtype)
        super().free()
        block = self.block
        self.fields = device_field(block, dtype), device_field(block, dtype)
        self.b, self._between = device_field(block, dtype), device_field(block, dtype)
        sets = [(field,) for field in self.fields]
        self.exchange_b: Any = DeviceGhosts(comm, [(self.b,)], stream, GHOST - 1)
        self.exchange_deep: Any = DeviceGhosts(comm, sets, stream, GHOST)
        self.exchange_shallow: Any = DeviceGhosts(comm, sets, stream, 1)
        nz, ny, _ = block.shape_local
        self._reductions = RowReductions((nz + 2 * GHOST) * (ny + 2 * GHOST), stream)
        self._place = layout_of(self.b)
        self._wants_largest = False
        self._mirrors: dict[int, BlockArray] = {}

    def _set_transfer(self, axes: Sequence[AxisTransfer], coarse_block: Block) -> None:
        super()._set_transfer(axes, coarse_block)
        longest = max(coarse_block.shape_local)
        centres, weights = np.zeros((3, longest), np.int64), np.zeros((3, 3, longest))
        width = max(len(axis.lower) for axis in axes)
        lower, parts = np.zeros((3, width), np.int64), np.zeros((3, 2, width))
        for number, axis in enumerate(axes):
            n = coarse_block.shape_local[number]
            places, found = restriction_weights(axis, n)
            centres[number, :n], weights[number, :, :n] = places - 1 + axis.first, found
            lower[number, : len(axis.lower)], parts[number, :, : len(axis.lower)] = axis.lower, axis.parts
        self._longest, self._transfer_width = longest, width
        self._device_centres, self._device_lower = (cuda.to_device(t.reshape(-1)) for t in (centres, lower))
        self._device_weights, self._device_parts = (
            cuda.to_device(table.astype(self.dtype).reshape(-1)) for table in (weights, parts)
        )

    def set_sigma(self, sigma: float | BlockArray) -> None:
        super().set_sigma(sigma)
        self._device_tables = tuple(cuda.to_device(table.reshape(-1)) for table in self._scaled)
        self._table_widths = tuple(table.shape[1] for table in self._scaled)

    def _clear_fixed(self, axis: int, last: bool) -> None:
        begin, steps, counts = layer_inside(self.b, axis, last)
        zero: Any = self.dtype.type(0)
        fill_layer[(*fill_layer_launch(counts), self._stream)](self.b.flat, begin, steps, counts, zero)

    def largest_b(self) -> float:
        return self._reductions.largest(self.b)

    def keep_first_field(self) -> None:
        upload(self.fields[1], self.fields[0], self._stream)

    def first_step(self, zero_guess: bool, restricted: BlockArray) -> float:
        self._wants_largest = not zero_guess
        largest = super().first_step(zero_guess, restricted)
        self._wants_largest = False
        return largest

    def _smooth(
        self, weight: float, box: Array, residual_box: Array, restricted: BlockArray, zero_guess: bool
    ) -> float:
        source, target = self.fields[self.current], self.fields[1 - self.current]
        wants = self._wants_largest
        rows = self._relax(source, target, weight, box, zero_guess, wants)
        self.current = 1 - self.current
        if residual_box[1] > residual_box[0]:
            self._restrict(target, residual_box, restricted)
        return self._reductions.largest_row(rows) if wants else 0.0

    def _relax(
        self, source: BlockArray, target: BlockArray, weight: float, box: Array, zero_guess: bool, wants: bool
    ) -> int:
        """Take a Jacobi step in a box, and return its number of rows."""
        first, shape = corner_and_shape(box)
        grid, threads = rows_launch(shape)
        step: Any = self.dtype.type(weight)
        relax_nodes[grid, threads, self._stream](
            source.flat, self.b.flat, self._place, first, shape, step, self._device_tables, self._table_widths,
            int(zero_guess), int(wants), target.flat, self._reductions.rows,
        )  # fmt: skip
        return shape[0] * shape[1]

    def _restrict(self, u: BlockArray, box: Array, restricted: BlockArray) -> None:
        first, shape = corner_and_shape(box)
        zero: Any = self.dtype.type(0)
        grid, threads = rows_launch(shape)
        set_residual[grid, threads, self._stream](
            u.flat, self.b.flat, self._place, first, shape, zero, self._device_tables, self._table_widths,
            self._between.flat,
        )  # fmt: skip
        target = self._on_device(restricted)
        shape = restricted.block.shape_local
        grid, threads = rows_launch(shape)
        restrict_nodes[grid, threads, self._stream](
            self._between.flat, self._place, self._device_centres, self._device_weights, self._longest, zero,
            target.flat, layout_of(target), shape,
        )  # fmt: skip
        if target is not restricted:
            download(target, restricted, self._stream)

    def _correct_and_smooth(self, correction: BlockArray) -> None:
        source, target = self.fields[self.current], self.fields[1 - self.current]
        coarse = self._on_device(correction)
        if coarse is not correction:
            upload(correction, coarse, self._stream)
        first, shape = corner_and_shape(self._corrected_box)
        grid, threads = rows_launch(shape)
        interpolate_nodes[grid, threads, self._stream](
            source.flat, self._place, first, shape, coarse.flat, layout_of(coarse), self._device_lower,
            self._device_parts, self._transfer_width, self._between.flat,
        )  # fmt: skip
        self._relax(self._between, target, self.after[0], self._box, False, False)
        self.current = 1 - self.current

    def _on_device(self, field: BlockArray) -> BlockArray:
        """Return a field of the coarser level, or what holds a host's field on the device."""
        if not isinstance(field.flat, np.ndarray):
            return field
        if id(field) not in self._mirrors:
            copy = cuda.to_device(field.flat)
            self._mirrors[id(field)] = BlockArray(
                field.block, copy, field.origin, field.row_pitch, field.plane_pitch
            )
        return self._mirrors[id(field)]


class DeviceNodalMultigrid(NodalMultigrid):
    """Solve -div(sigma grad x) = b at nodes by multigrid on a GPU: `NodalMultigrid` for fields in device memory.

    Parameters
    ----------
    comm, block, widths, sides, sigma, dtype, cells_per_rank, coarsest_cells
        As for `NodalMultigrid`; sigma is one number.
    stream
        The CUDA stream of all kernels, or None for a new one.
    device_cells : int
        Coarser levels with fewer cells for each rank are on the host.

    Raises
    ------
    ValueError
        On all ranks, as `NodalMultigrid` does, and if the finest level is too small for the device or must move onto
        fewer ranks, or if sigma is a field.

    Notes
    -----
    Collective. Each rank has chosen its device before (`parallel.devices.select_device`). The results have the same
    bits on any ranks.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | NDArray[Any]],
        sides: Sequence[AxisSides],
        *,
        sigma: float = 1.0,
        dtype: DTypeLike = "float64",
        cells_per_rank: int = CELLS_PER_RANK,
        coarsest_cells: int = COARSEST_CELLS,
        stream: Any = None,
        device_cells: int = DEVICE_CELLS,
    ) -> None:
        self.stream = make_stream() if stream is None else stream
        self._device_cells = device_cells
        super().__init__(
            comm, block, widths, sides, sigma=sigma, dtype=dtype, cells_per_rank=cells_per_rank,
            coarsest_cells=coarsest_cells,
        )  # fmt: skip
        error = None
        if not self.is_on_device(0):
            error = ValueError(
                f"The grid of {block.shape_global} cells is too small for a GPU: multigrid would be on the host "
                f"alone. Use more cells, fewer ranks or NodalMultigrid."
            )
        raise_on_all_ranks(comm, error)

    def is_on_device(self, number: int) -> bool:
        """Return whether a level is in device memory; the same on all ranks."""
        finer = self.levels[: number + 1]
        return (
            number + 1 < len(self.levels)
            and not any(each.is_agglomerated for each in finer)
            and (number == 0 or finer[-1].cells >= self._device_cells * prod(finer[-1].process_grid))
        )

    def _make_level(self, number: int, comm: MPI.Comm) -> NodalLevel:
        if not self.is_on_device(number):
            return super()._make_level(number, comm)
        fine, coarser = self.levels[number], self.levels[number + 1]
        return DeviceNodalLevel(self.stream, comm, fine, coarser, self._coords, self._fixed, self.dtype)

    def set_sigma(self, sigma: float | BlockArray) -> None:
        """Change the coefficient, one number. Collective."""
        error = None
        if isinstance(sigma, BlockArray):
            error = ValueError(
                "A field sigma is not possible on GPUs yet. Use one number, or NodalMultigrid."
            )
        raise_on_all_ranks(self.comm, error)
        super().set_sigma(sigma)

    def apply(self, r: NDArray[Any], z: NDArray[Any]) -> None:
        """Set z to one cycle from zero for r, arrays of owned nodes on the host. Collective."""
        host = BlockArray.allocate(self.block, self.dtype)
        host.owned[...] = r
        upload(host, self.b, self.stream)
        self._parts[0].b_is_ready()
        self._visit(0)
        self._give(None)
        download(self.x, host, self.stream)
        z[...] = host.owned

    def _take(self, b: BlockArray | None, x: BlockArray | None) -> None:
        for given, own in ((b, self.b), (x, self.x)):
            if given is not None and given is not own:
                copy_cells(given, own, 0, self.stream)
        self._parts[0].current = 0

    def _give(self, x: BlockArray | None) -> None:
        part = self._parts[0]
        if part.current == 1:
            part.keep_first_field()
            part.current = 0
        part.exchange_shallow(0)
        if x is not None and x is not self.x:
            copy_cells(self.x, x, 1, self.stream)


def corner_and_shape(box: Array) -> tuple[Triple, Triple]:
    """Return the first node and the shape of a box, as kernels take them."""
    z0, z1, y0, y1, x0, x1 = (int(place) for place in box)
    return (z0, y0, x0), (z1 - z0, y1 - y0, x1 - x0)
