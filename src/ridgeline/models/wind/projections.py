"""The linear solvers behind the projections and implicit diffusion, as the engine calls them.

A `BlockSolver` takes the right side and the solution as fields of one block, and returns its cycles. Two are here:
`DirectSolver`, which solves on one rank by diagonalisation (`direct_solvers`) and suits small grids, and the
multigrid solvers of `blocks.multigrid`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.multigrid.nodes import NodalMultigrid
from ridgeline.models.wind.direct_solvers import helmholtz_solver
from ridgeline.models.wind.problem import FlowProblem
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.partition import split
from ridgeline.runtime.errors import DivergedError

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_CYCLES = 60
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


def side_names(problem: FlowProblem, number: int | None) -> list[Any]:
    """Return the sides of a problem at cells as multigrid names them.

    number: of the field whose values are given at sides; None for the projections, whose unknown is 0 at outflows.
    """
    names: list[Any] = []
    for axis in range(3):
        pair = [problem.at(axis, last) for last in (False, True)]
        fixed = [
            side is not None and (side.outflow if number is None else side.fields[number].fixed)
            for side in pair
        ]
        kinds = tuple("dirichlet" if each else "neumann" for each in fixed)
        names.append("periodic" if problem.periodic[axis] else kinds)
    return names


class CellSolver:
    """Multigrid for -div(grad x) = b at cells, or for x - factor lap x = b after `use`. Collective when it is made."""

    def __init__(
        self, cartesian: MPI.Cartcomm, block: Block, problem: FlowProblem, number: int | None
    ) -> None:
        self._comm = cartesian
        self._multigrid = CellMultigrid(cartesian, block, problem.widths, side_names(problem, number))

    def use(self, factor: float) -> None:
        """Let the equation be x - factor lap x = b. Collective."""
        self._multigrid.set_coefficients(alpha=1.0, beta=factor)

    def solve(self, b: BlockArray, x: BlockArray, tolerance: float) -> int:
        largest = float(allreduce_max(self._comm, abs(b.owned).max()))
        if largest <= tolerance:
            x.flat[:] = 0.0
            return 0
        result = self._multigrid.solve(b, x, tolerance / largest, MOST_CYCLES)
        return check_solve(result.cycles, result.converged, "solve at cells")


class NodeSolver:
    """Multigrid for the trilinear finite elements at nodes, with the right side over the volume of a cell."""

    def __init__(self, cartesian: MPI.Cartcomm, block: Block, problem: FlowProblem) -> None:
        self._volume = math.prod(problem.widths)
        self._multigrid = NodalMultigrid(cartesian, block, problem.widths, side_names(problem, None))

    def solve(self, b: BlockArray, x: BlockArray, tolerance: float) -> int:
        np.multiply(b.owned, self._volume, out=b.owned)
        result = self._multigrid.solve(b, x, tolerance=tolerance * self._volume, max_cycles=MOST_CYCLES)
        return check_solve(result.cycles, result.converged, "nodal projection")


class HelmholtzSolver:
    """Solves x - factor lap x = b with the sides of a field, for implicit diffusion. Collective when it is made."""

    def __init__(
        self, cartesian: MPI.Cartcomm, x: BlockArray, problem: FlowProblem, number: int, direct: bool
    ) -> None:
        self._factor, self._comm = math.nan, cartesian
        self._solver: Any = None if direct else CellSolver(cartesian, x.block, problem, number)
        self._direct = (cartesian, x, problem, number) if direct else None

    def use(self, factor: float) -> None:
        """Set the factor. Collective."""
        if factor == self._factor:
            return
        self._factor = factor
        if self._direct is None:
            self._solver.use(factor)
        else:
            cartesian, x, problem, number = self._direct
            self._solver = DirectSolver(cartesian, x, helmholtz_solver(problem, number, factor).solve)

    def solve(self, b: BlockArray, x: BlockArray, tolerance: float) -> int:
        """Solve to a residual of `tolerance` over the largest b. Collective."""
        largest = float(allreduce_max(self._comm, abs(b.owned).max()))
        return int(self._solver.solve(b, x, tolerance * largest))


def check_solve(cycles: int, converged: bool, what: str) -> int:
    """Return the cycles of a solve. Raises DivergedError if it did not converge."""
    if not converged:
        raise DivergedError(
            f"The {what} did not reach model.tolerance in {cycles} V-cycles. Set a larger model.tolerance, or a "
            f"smaller model.dt or model.courant if the flow diverges."
        )
    return cycles


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
