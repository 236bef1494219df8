"""The projections of a step of wind on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.projection import FlowSides, MacProjection, NodalProjection
from ridgeline.blocks.projection_cuda import DeviceMacProjection, DeviceNodalProjection
from ridgeline.blocks.rows_cuda import RowReductions, device_field, flat_launch, scale_flat
from ridgeline.models.wind.problem import WindProblem
from ridgeline.models.wind.projections import FlowProjections, RootSolver

if TYPE_CHECKING:
    from mpi4py import MPI


class DeviceFlowProjections(FlowProjections):
    """`FlowProjections` for fields in device memory, by multigrid alone and without implicit diffusion."""

    def __init__(
        self,
        problem: WindProblem,
        cartesian: MPI.Cartcomm,
        block: Block,
        tolerance: float,
        stream: Any,
        device_cells: int,
    ) -> None:
        self._stream, self._device_cells = stream, device_cells
        self._reductions = RowReductions(block.shape_local[0] * block.shape_local[1], stream)
        super().__init__(problem, cartesian, block, tolerance, False)

    def _make_nodal(self, sides: list[FlowSides]) -> NodalProjection:
        return DeviceNodalProjection(
            self._comm, self._block, self._problem.widths, sides, stream=self._stream,
            device_cells=self._device_cells,
        )  # fmt: skip

    def _make_mac(self, sides: list[FlowSides], solver: RootSolver | None) -> MacProjection:
        return DeviceMacProjection(
            self._comm, self._block, self._problem.widths, sides, stream=self._stream,
            device_cells=self._device_cells,
        )  # fmt: skip

    def _new_field(self) -> BlockArray:
        return device_field(self._block, "float64")

    def _scale(self, field: BlockArray, factor: float, out: BlockArray) -> None:
        scale_flat[(*flat_launch(out.flat.size), self._stream)](field.flat, factor, out.flat)

    def _largest(self, field: BlockArray) -> float:
        return self._reductions.largest(field)
