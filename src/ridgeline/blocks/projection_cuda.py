"""The projections of projection.py for velocities in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.multigrid.device.cells_cuda import DEVICE_CELLS, DeviceCellMultigrid
from ridgeline.blocks.multigrid.device.nodes_cuda import DeviceNodalMultigrid
from ridgeline.blocks.multigrid.nodes import NodalMultigrid
from ridgeline.blocks.projection import (
    FlowSides,
    MacProjection,
    NodalProjection,
    Velocity,
    check_fields,
    multigrid_sides,
)
from ridgeline.blocks.projection_kernels_cuda import (
    add_gradient_at_cells,
    set_divergence_at_cells,
    set_divergence_at_nodes,
    subtract_gradient_at_faces,
)
from ridgeline.blocks.rows_cuda import device_field, fill_flat, flat_launch, layout_of, rows_launch
from ridgeline.jit.cuda_device import make_stream

if TYPE_CHECKING:
    from mpi4py import MPI

Widths = Sequence[float | NDArray[Any]]


class DeviceTables:
    """Tables of the three axes in device memory: flat arrays, and the lengths of their rows."""

    def __init__(self, tables: Sequence[NDArray[Any]]) -> None:
        self.flat = tuple(cuda.to_device(np.ascontiguousarray(table).reshape(-1)) for table in tables)
        self.widths = tuple(table.shape[1] for table in tables)


class DeviceNodalProjection(NodalProjection):
    """Make a cell-centred velocity in device memory approximately free of divergence.

    Parameters
    ----------
    comm, block, widths, sides, dtype
        As for `NodalProjection`.
    stream
        The CUDA stream of all kernels, or None for a new one.
    device_cells : int
        As for `DeviceNodalMultigrid`, whose errors are also those of this class.

    Notes
    -----
    Collective. All fields that are given to it lie in device memory.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Widths,
        sides: Sequence[FlowSides],
        *,
        dtype: DTypeLike = "float64",
        stream: Any = None,
        device_cells: int = DEVICE_CELLS,
    ) -> None:
        self.stream = make_stream() if stream is None else stream
        self._device_cells = device_cells
        super().__init__(comm, block, widths, sides, dtype=dtype)
        self._node_tables, self._cell_tables = DeviceTables(self._at_nodes), DeviceTables(self._at_cells)

    def _make_solver(
        self, comm: MPI.Comm, block: Block, widths: Widths, sides: Sequence[FlowSides], dtype: DTypeLike
    ) -> NodalMultigrid:
        return DeviceNodalMultigrid(
            comm, block, widths, multigrid_sides(sides), dtype=dtype, stream=self.stream,
            device_cells=self._device_cells,
        )  # fmt: skip

    def set_divergence(self, velocity: Velocity) -> None:
        check_fields(velocity, self._shape)
        b, tables, shape = self.solver.b, self._node_tables, self.solver.block.shape_local
        grid, threads = rows_launch(shape)
        set_divergence_at_nodes[grid, threads, self.stream](
            tuple(field.flat for field in velocity), layout_of(velocity[0]), tables.flat, tables.widths, shape,
            b.flat, layout_of(b),
        )  # fmt: skip

    def add_gradient(self, phi: BlockArray, factor: float, fields: Velocity) -> None:
        check_fields(fields, self._shape)
        tables, kind = self._cell_tables, self.solver.dtype
        quarter: Any = np.asarray(factor / 4, kind)[()]
        grid, threads = rows_launch(self._shape)
        add_gradient_at_cells[grid, threads, self.stream](
            phi.flat, layout_of(phi), tables.flat, tables.widths, self._shape, quarter,
            tuple(field.flat for field in fields), layout_of(fields[0]),
        )  # fmt: skip

    def _clear(self, field: BlockArray) -> None:
        clear(field, self.stream)


class DeviceMacProjection(MacProjection):
    """Make velocities at faces in device memory free of divergence.

    Parameters
    ----------
    comm, block, widths, sides, dtype
        As for `MacProjection`.
    stream
        The CUDA stream of all kernels, or None for a new one.
    device_cells : int
        As for `DeviceCellMultigrid`, whose errors are also those of this class.

    Notes
    -----
    Collective. All fields that are given to it lie in device memory.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Widths,
        sides: Sequence[FlowSides],
        *,
        dtype: DTypeLike = "float64",
        stream: Any = None,
        device_cells: int = DEVICE_CELLS,
    ) -> None:
        self.stream = make_stream() if stream is None else stream
        own = DeviceCellMultigrid(
            comm, block, widths, multigrid_sides(sides), dtype=dtype, stream=self.stream,
            device_cells=device_cells,
        )  # fmt: skip
        super().__init__(comm, block, widths, sides, own, dtype=dtype)
        self._own = own
        self.phi, self.b = (device_field(block, self._kind) for _ in range(2))
        self._device_tables = DeviceTables(self._tables)

    def set_divergence(self, faces: Velocity, out: BlockArray, factor: float = 1.0) -> None:
        check_fields(faces, self._shape)
        tables = self._device_tables
        grid, threads = rows_launch(self._shape)
        kind: Any = self._kind.type
        set_divergence_at_cells[grid, threads, self.stream](
            tuple(field.flat for field in faces), layout_of(faces[0]), tables.flat, tables.widths, self._shape,
            kind(factor), out.flat, layout_of(out),
        )  # fmt: skip

    def subtract_gradient(self, faces: Velocity) -> None:
        nz, ny, nx = self._shape
        grid, threads = rows_launch((nz + 1, ny + 1, nx + 1))
        tables = self._device_tables
        subtract_gradient_at_faces[grid, threads, self.stream](
            self.phi.flat, layout_of(self.phi), tables.flat, tables.widths, self._shape,
            tuple(field.flat for field in faces), layout_of(faces[0]),
        )  # fmt: skip

    def _clear(self, field: BlockArray) -> None:
        clear(field, self.stream)


def clear(field: BlockArray, stream: Any) -> None:
    """Set all numbers of a device field to zero."""
    zero: Any = field.flat.dtype.type(0)
    fill_flat[(*flat_launch(field.flat.size), stream)](field.flat, zero)
