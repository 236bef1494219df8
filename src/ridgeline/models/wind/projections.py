"""The linear solvers behind the projections and implicit diffusion, as the engine calls them.

A `BlockSolver` takes the right side and the solution as fields of one block, and returns its cycles. Two are here:
`DirectSolver`, which solves on one rank by diagonalisation (`direct_solvers`) and suits small grids, and the
multigrid solvers of `blocks.multigrid`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.models.wind.problem import FlowProblem
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI

Solve = Callable[[NDArray[Any]], NDArray[Any]]


class BlockSolver(Protocol):
    """Solves one linear problem whose fields are blocks of cells or nodes."""

    def solve(self, b: BlockArray, x: BlockArray, tolerance: float) -> int:
        """Solve to a residual of `tolerance` in the maximum norm, from the x that is given; return the cycles.

        The ghosts of x that other ranks or periodic directions have are filled. Collective.
        """


class DirectSolver:
    """Gathers the right side on rank 0, solves there, and scatters the solution. Collective when it is made.

    solve : of the whole problem, in float64; only rank 0 calls it
    """

    def __init__(self, cartesian: MPI.Cartcomm, x: BlockArray, solve: Solve) -> None:
        self._comm, self._solve = cartesian, solve
        block = x.block
        self._places = cartesian.allgather((block.offset_global, block.shape_local))
        self._halo = HaloExchange.of_fields(cartesian, [(x,)], corners=True, method="pack")

    def solve(self, b: BlockArray, x: BlockArray, tolerance: float) -> int:
        parts = self._comm.gather(np.ascontiguousarray(b.owned))
        pieces = None
        if parts is not None:
            whole = np.empty(b.block.shape_global)
            for place, part in zip(self._slices(), parts):
                whole[place] = part
            solved = self._solve(whole)
            pieces = [np.ascontiguousarray(solved[place]) for place in self._slices()]
        x.owned[...] = self._comm.scatter(pieces)
        self._halo.exchange()
        return 1

    def _slices(self) -> list[tuple[slice, ...]]:
        return [
            tuple(slice(first, first + n) for first, n in zip(offset, shape))
            for offset, shape in self._places
        ]


def node_block(block: Block, ghost: int = 1) -> Block:
    """Return the block of nodes of a block of cells: node i is the lower corner of cell i.

    In a direction that is not periodic the last block also owns the last node.
    """
    cuts, shape = [], []
    for n, parts, wraps in zip(block.shape_global, block.process_grid, block.periodic, strict=True):
        starts = [split(n, parts, part)[0] for part in range(parts)]
        shape.append(n + (not wraps))
        cuts.append((*starts, shape[-1]))
    z, y, x = shape
    return replace(block, shape_global=(z, y, x), ghost=ghost, cuts=(cuts[0], cuts[1], cuts[2]))


def touched_sides(problem: FlowProblem, block: Block) -> list[tuple[int, bool]]:
    """Return the sides that are not periodic and that a block touches, as (axis, whether it is the upper one)."""
    found = []
    for axis in range(3):
        if not problem.periodic[axis]:
            if block.coords[axis] == 0:
                found.append((axis, False))
            if block.coords[axis] == block.process_grid[axis] - 1:
                found.append((axis, True))
    return found


def layer_block(block: Block, axis: int) -> Block:
    """Return a block of one layer across an axis, with the cuts of a block of cells along the others."""
    shape, cuts = [], []
    for d, (n, parts) in enumerate(zip(block.shape_global, block.process_grid, strict=True)):
        starts = range(parts) if d == axis else [split(n, parts, part)[0] for part in range(parts)]
        shape.append(parts if d == axis else n)
        cuts.append((*starts, shape[-1]))
    z, y, x = shape
    return replace(block, shape_global=(z, y, x), cuts=(cuts[0], cuts[1], cuts[2]))
