"""One level of nodal multigrid: its fields, tables and exchanges, and the passes over it.

A level may live twice on a rank: as the *natural* block, into which the finer level restricts, and as the block of
its owner after agglomeration (levels.py). `NodalLevel` is the owner's. Ghosts are deep enough that smoothing,
residual and restriction need no exchange in between: neighbours compute the same values of these nodes from the
same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange, HaloPlan, HostPacker
from ridgeline.blocks.multigrid.levels import GridLevel
from ridgeline.blocks.multigrid.nodal_kernels import correct_and_smooth, smooth_and_restrict
from ridgeline.blocks.multigrid.nodal_rows import LANES, MARGIN, MASS, STIFFNESS, WORK_ROWS
from ridgeline.blocks.multigrid.nodal_tables import (
    GHOST,
    AxisTransfer,
    Fixed,
    axis_table,
    axis_transfer,
    restriction_weights,
    smoothing_weights,
)
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.aligned import aligned_zeros

Array = NDArray[Any]
NO_BOX = np.zeros(6, np.int64)


def layout_of(field: BlockArray) -> Array:
    """Return origin, plane pitch and row pitch of a field, as kernels take them."""
    return np.array([field.origin, field.plane_pitch, field.row_pitch], np.int64)


class GhostExchange:
    """Fills the ghosts of one of several fields, with corners, also along periodic axes thinner than the ghosts."""

    def __init__(self, comm: MPI.Comm, fields: Sequence[BlockArray], layers: int) -> None:
        block = fields[0].block
        self._fields, self._layers = fields, layers
        self._thin = [
            axis
            for axis in range(3)
            if block.periodic[axis] and block.process_grid[axis] == 1 and block.shape_local[axis] < layers
        ]
        z, y, x = (axis not in self._thin for axis in range(3))
        plan = HaloPlan(block, 1, fields[0].flat.itemsize, corners=True, wrap=(z, y, x), layers=layers)
        packer = HostPacker(plan, [(field,) for field in fields])
        compile_on_nodes(comm, packer.compile)
        self._exchange = HaloExchange(comm, packer, "pack")
        self.messages, self.bytes_sent = plan.messages_sent, plan.bytes_sent

    def __call__(self, number: int) -> None:
        """Exchange field `number`. Collective: messages to neighbours."""
        self._exchange.exchange(number)
        ghost = self._fields[number].block.ghost
        for axis in self._thin:
            values = np.moveaxis(self._fields[number].ghosted, axis, 0)
            n = self._fields[number].block.shape_local[axis]
            for layer in range(1, self._layers + 1):
                values[ghost - layer] = values[ghost + -layer % n]
                values[ghost + n - 1 + layer] = values[ghost + (layer - 1) % n]

    def free(self) -> None:
        """Free the requests."""
        self._exchange.free()


class NodalLevel:
    """The owner's part of one level.

    Attributes
    ----------
    block : Block
        The owned nodes.
    fields : two BlockArrays
        The solution and the other field of a smoothing step, which writes one from the other.
    b : BlockArray
        The right-hand side.
    current : int
        Which of the fields holds the solution.
    before, after : arrays
        Weights of the Jacobi steps before and after the coarser level.
    natural : BlockArray or None
        The next level's values on this rank's natural block, if that level moves onto fewer ranks.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        level: GridLevel,
        coarser: GridLevel | None,
        coords: Triple,
        fixed: Sequence[Fixed],
        dtype: np.dtype[Any],
    ) -> None:
        block, cells = level.block(coords, GHOST, nodes=True), level.block(coords, GHOST)
        assert block is not None
        assert cells is not None
        self.comm, self.level, self.block, self.cells, self.dtype = comm, level, block, cells, dtype
        self.fields = (BlockArray.allocate(block, dtype), BlockArray.allocate(block, dtype))
        self.b = BlockArray.allocate(block, dtype)
        self.current = 0
        self._fixed = fixed
        self._tables = [
            axis_table(
                level.widths[a], level.periodic[a], fixed[a], block.offset_global[a], block.shape_local[a]
            )
            for a in range(3)
        ]
        self._by_cells, self._sigma = False, np.zeros(1, dtype)
        self._sigma_layout = np.zeros(3, np.int64)
        self.exchange_b = GhostExchange(comm, [self.b], GHOST - 1)
        self.exchange_deep = GhostExchange(comm, self.fields, GHOST)
        self.exchange_shallow = GhostExchange(comm, self.fields, 1)
        self._layout = layout_of(self.b)
        shape = block.shape_local
        self._box = np.array([0, shape[0], 0, shape[1], 0, shape[2]], np.int64)
        self.before = self.after = np.zeros(0)
        self.natural: BlockArray | None = None
        coarse_block = self.block if coarser is None else coarser.natural_block(coords, 1, nodes=True)
        assert coarse_block is not None
        self._coarse_shape = np.array(coarse_block.shape_local, np.int64)
        self._prepare(coarser, coarse_block)

    def _prepare(self, coarser: GridLevel | None, coarse_block: Block) -> None:
        """Plan the passes: interpolation, boxes, scratch memory."""
        _, ny, nx = self.block.shape_local
        length = -(-(max(nx, coarse_block.shape_local[2]) + 2 * MARGIN + LANES) // LANES) * LANES
        self._work = aligned_zeros((WORK_ROWS, length), self.dtype)
        self._planes = aligned_zeros((3, self.b.row_pitch * (ny + 2 * GHOST) + 2 * MARGIN), self.dtype)
        self._expanded = aligned_zeros((2, coarse_block.shape_local[1] + 3, length), self.dtype)
        if coarser is None:
            places = [n + 2 * MARGIN for n in self.block.shape_local]
            axes = [AxisTransfer(np.zeros(n, np.int64), np.zeros((2, n)), 0, 0) for n in places]
        else:
            self.before, self.after = smoothing_weights(self.level, coarser)
            axes = [
                axis_transfer(self.level, coarser, a, self._tables[a], self.block, coarse_block)
                for a in range(3)
            ]
            if coarser.is_agglomerated:
                self.natural = BlockArray.allocate(coarse_block, self.dtype)
        self._set_transfer(axes, coarse_block)
        self._lower = tuple(axis.lower for axis in axes)
        self._parts = tuple(np.ascontiguousarray(axis.parts, self.dtype) for axis in axes)
        box = np.array([[axis.first, axis.end] for axis in axes], np.int64).reshape(-1)
        self._residual_box, self._smooth_box = box, self._widened(box, 1)
        self._centres, weights = np.zeros(0, np.int64), np.zeros((3, 0))
        if coarser is not None:
            self._centres, weights = restriction_weights(axes[2], coarse_block.shape_local[2])
        self._restriction = np.ascontiguousarray(weights, self.dtype)
        self._corrected_box = self._widened(self._box, 1)
        self._sums = np.zeros((2, coarse_block.shape_local[1], int(box[5] - box[4]) + 2), self.dtype)

    def _set_transfer(self, axes: Sequence[AxisTransfer], coarse_block: Block) -> None:
        """Take over the interpolation along the axes; a device copies it."""

    def _widened(self, box: Array, layers: int) -> Array:
        """Return a box with more layers of nodes, as far as there are nodes."""
        wider = box.copy()
        for axis in range(3):
            first, n = self.block.offset_global[axis], self.block.shape_global[axis]
            wider[2 * axis] -= layers
            wider[2 * axis + 1] += layers
            if not self.level.periodic[axis]:
                wider[2 * axis] = max(wider[2 * axis], -first)
                wider[2 * axis + 1] = min(wider[2 * axis + 1], n - first)
        return wider

    def set_sigma(self, sigma: float | BlockArray) -> None:
        """Take the coefficient: one number, or a field of the level's cells whose ghosts are filled."""
        factor = 1.0
        if isinstance(sigma, BlockArray):
            self._by_cells, self._sigma = True, sigma.flat
            first = sigma.origin - MARGIN * (sigma.plane_pitch + sigma.row_pitch + 1)
            self._sigma_layout = np.array([first, sigma.plane_pitch, sigma.row_pitch], np.int64)
        else:
            self._by_cells, self._sigma, factor = False, np.zeros(1, self.dtype), sigma
        self._scaled = tuple(aligned_zeros(table.shape, self.dtype) for table in self._tables)
        for scaled, table in zip(self._scaled, self._tables):
            scaled[...] = table
        self._scaled[0][MASS : STIFFNESS + 3] = self._tables[0][MASS : STIFFNESS + 3] * factor

    def b_is_ready(self) -> None:
        """Set b to zero at the fixed nodes, and fill its ghosts."""
        for axis in range(3):
            first, n = self.block.offset_global[axis], self.block.shape_global[axis]
            if self._fixed[axis][0] and first == 0:
                self._clear_fixed(axis, False)
            if self._fixed[axis][1] and first + self.block.shape_local[axis] == n:
                self._clear_fixed(axis, True)
        self.exchange_b(0)

    def _clear_fixed(self, axis: int, last: bool) -> None:
        np.moveaxis(self.b.owned, axis, 0)[-1 if last else 0] = 0

    def largest_b(self) -> float:
        """Return the largest |b| of this rank's nodes."""
        return float(np.abs(self.b.owned).max())

    def keep_first_field(self) -> None:
        """Copy the second field to the first."""
        self.fields[0].flat[:] = self.fields[1].flat

    def _smooth(
        self, weight: float, box: Array, residual_box: Array, restricted: BlockArray, zero_guess: bool
    ) -> float:
        source, target = self.fields[self.current], self.fields[1 - self.current]
        largest = smooth_and_restrict(
            source.flat, self.b.flat, target.flat, self._layout, box, self.dtype.type(weight),
            self._scaled, self._by_cells, self._sigma, self._sigma_layout, self._work, zero_guess, residual_box,
            self._lower, self._parts, restricted.flat, layout_of(restricted), self._coarse_shape,
            self._centres, self._restriction, self._sums,
        )  # fmt: skip
        self.current = 1 - self.current
        return float(largest)

    def first_step(self, zero_guess: bool, restricted: BlockArray) -> float:
        """Take the first smoothing step; return the largest residual on this rank before it.

        The ghosts of b must be filled, and those of the solution in full depth unless it is zero. If this is the only
        step before the coarser level, the residual after it is restricted to `restricted`.
        """
        if not len(self.before):
            return self._smooth(0.0, self._box, NO_BOX, restricted, zero_guess)
        box = self._residual_box if len(self.before) == 1 else NO_BOX
        return self._smooth(self.before[0], self._smooth_box, box, restricted, zero_guess)

    def undo_step(self) -> None:
        """Return to the solution before the first step."""
        self.current = 1 - self.current

    def further_steps(self, restricted: BlockArray) -> None:
        """Take the other steps before the coarser level, the last of which restricts the residual."""
        for n, weight in enumerate(self.before[1:], 2):
            self.exchange_deep(self.current)
            box = self._residual_box if n == len(self.before) else NO_BOX
            self._smooth(weight, self._smooth_box, box, restricted, False)

    def smooth_after(self, correction: BlockArray) -> None:
        """Correct the solution by the coarser level's, whose first ghosts are filled, and take the last steps."""
        self._correct_and_smooth(correction)
        for weight in self.after[1:]:
            self.exchange_shallow(self.current)
            self._smooth(weight, self._box, NO_BOX, correction, False)

    def _correct_and_smooth(self, correction: BlockArray) -> None:
        source, target = self.fields[self.current], self.fields[1 - self.current]
        correct_and_smooth(
            source.flat, self.b.flat, target.flat, self._layout, self._box,
            self.dtype.type(self.after[0]), self._scaled, self._by_cells, self._sigma, self._sigma_layout, self._work,
            self._corrected_box, self._lower, self._parts, correction.flat, layout_of(correction),
            self._coarse_shape, self._planes,
            self._expanded,
        )  # fmt: skip
        self.current = 1 - self.current

    def words_of_cycle(self, zero_guess: bool) -> int:
        """Return the numbers that one cycle reads and writes on this rank, each pass reading a number once."""
        steps, coarse = len(self.before) + len(self.after), int(self._coarse_shape.prod())
        return (3 * steps - (1 if zero_guess else 0)) * prod(self.block.shape_local) + 2 * coarse

    def exchanges_of_cycle(self, zero_guess: bool) -> list[GhostExchange]:
        """Return the exchanges of one cycle, one for each time that it is done."""
        deep = [self.exchange_deep] * (len(self.before) - (1 if zero_guess else 0))
        shallow = [self.exchange_shallow] * (len(self.after) - (0 if zero_guess else 1))
        return deep + shallow + [self.exchange_b] * zero_guess

    def free(self) -> None:
        """Free the requests of the exchanges."""
        for exchange in (self.exchange_b, self.exchange_deep, self.exchange_shallow):
            exchange.free()
