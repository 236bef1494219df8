"""The projections of a step and the solves of implicit diffusion, by multigrid or by diagonalisation on one rank.

Both projections are those of `blocks.projection`. Their potentials start from what the state holds alone: zero for
the MAC projection, and the pressure of the last step for the nodal one, so that a resumed run has the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange
from ridgeline.blocks.multigrid.cells import CellMultigrid
from ridgeline.blocks.projection import FlowSides, MacProjection, NodalProjection
from ridgeline.models.contract import SolveCount
from ridgeline.models.wind.direct_solvers import cell_solver, helmholtz_solver, node_solver
from ridgeline.models.wind.problem import WindProblem
from ridgeline.parallel.partition import split
from ridgeline.runtime.errors import DivergedError

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_CYCLES = 60
TINY = 1e-300  # tolerances of a fluid at rest are not 0
Solve = Callable[[NDArray[Any]], NDArray[Any]]


class SolveEnd(NamedTuple):
    """How a solve ended."""

    cycles: int
    converged: bool


class RootSolver:
    """Gathers the right side on rank 0, solves there, and scatters the solution. Collective when it is made.

    block : of the solutions
    solve : of the whole problem, in float64; only rank 0 calls it
    outflows : the sides that are not periodic, as (axis, whether the upper one, whether the solution is 0 there)
    """

    def __init__(
        self,
        cartesian: MPI.Cartcomm,
        block: Block,
        solve: Solve,
        outflows: Sequence[tuple[int, bool, bool]] = (),
    ) -> None:
        self._comm, self._solve, self._outflows = cartesian, solve, outflows
        self._places = cartesian.allgather((block.offset_global, block.shape_local))
        self._x = BlockArray.allocate(block, np.float64)
        self._halo = HaloExchange.of_fields(cartesian, [(self._x,)], corners=True, method="pack")

    def solve(
        self,
        b: BlockArray,
        x: BlockArray,
        tolerance: float = 0.0,
        max_cycles: int = 1,
        *,
        absolute: float = 0.0,
    ) -> SolveEnd:
        """Solve A x = b, and fill the ghosts of x. Collective."""
        parts = self._comm.gather(np.ascontiguousarray(b.owned))
        pieces = None
        if parts is not None:
            whole = np.empty(b.block.shape_global)
            for place, part in zip(self._slices(), parts):
                whole[place] = part
            solved = self._solve(whole)
            pieces = [np.ascontiguousarray(solved[place]) for place in self._slices()]
        self._x.owned[...] = self._comm.scatter(pieces)
        self._halo.exchange()
        x.flat[:] = self._x.flat
        ghost = x.block.ghost
        for axis, last, vanishes in self._outflows:
            along: NDArray[Any] = np.moveaxis(x.ghosted, axis, 0)
            beyond, inside = (-ghost, -ghost - 1) if last else (ghost - 1, ghost)
            along[beyond] = -along[inside] if vanishes else along[inside]
        return SolveEnd(1, bool(np.isfinite(x.owned).all()))

    def _slices(self) -> list[tuple[slice, ...]]:
        return [
            tuple(slice(first, first + n) for first, n in zip(offset, shape))
            for offset, shape in self._places
        ]


class FlowProjections:
    """The projections of one block, and its solves for implicit diffusion. Collective when it is made.

    Parameters
    ----------
    problem, cartesian, block : what is computed, the ranks in their grid, and this rank's block
    tolerance : of both projections: the largest divergence left, over the largest rate at which fluid crosses a cell,
        or over the largest divergence before where that is larger, as in a fluid at rest
    direct : whether Poisson problems are solved on one rank by diagonalisation, otherwise by multigrid

    Attributes
    ----------
    nodes : the block of the nodes of this rank, on which pressures lie
    solves : counts of the solves by their names
    """

    def __init__(
        self, problem: WindProblem, cartesian: MPI.Cartcomm, block: Block, tolerance: float, direct: bool
    ) -> None:
        self._problem, self._comm, self._block, self._is_direct = problem, cartesian, block, direct
        self._tolerance = tolerance
        sides = flow_sides(problem)
        self._nodal = self._make_nodal(sides)
        self.nodes = self._nodal.solver.block
        mac = at_nodes = None
        if direct:
            vanishing = [
                (axis, last, bool(getattr(problem.at(axis, last), "outflow", False)))
                for axis, last in touched_sides(problem, block)
            ]
            mac = RootSolver(cartesian, block, cell_solver(problem).solve, vanishing)
            at_nodes = RootSolver(cartesian, self._nodal.phi.block, node_solver(problem).solve)
        self._mac = self._make_mac(sides, mac)
        self._at_nodes = at_nodes
        self._x = self._new_field()
        self._helmholtz: dict[tuple[Any, ...], tuple[float | NDArray[Any], Any]] = {}
        self.solves = {name: SolveCount() for name in ("mac", "nodal", "diffusion")}

    # What follows up to the next rule is of host memory: projections on another device have their own.

    def _make_nodal(self, sides: list[FlowSides]) -> NodalProjection:
        return NodalProjection(self._comm, self._block, self._problem.widths, sides)

    def _make_mac(self, sides: list[FlowSides], solver: RootSolver | None) -> MacProjection:
        return MacProjection(self._comm, self._block, self._problem.widths, sides, solver)

    def _new_field(self) -> BlockArray:
        return BlockArray.allocate(self._block, np.float64)

    def _scale(self, field: BlockArray, factor: float, out: BlockArray) -> None:
        np.multiply(field.flat, factor, out=out.flat)

    def _largest(self, field: BlockArray) -> float:
        return float(abs(field.owned).max())

    # ---- projections ----

    def project_faces(self, faces: Sequence[BlockArray], rate: float) -> None:
        """Make the velocities across the lower faces in z, y and x free of divergence, of owned cells and one beyond.

        rate: the largest at which fluid crosses a cell. Collective.
        """
        absolute = max(self._tolerance * rate, TINY)
        result = self._mac.project(faces, self._tolerance, MOST_CYCLES, absolute=absolute)
        self._count("mac", result.cycles, result.converged)

    def largest_divergence(self, faces: Sequence[BlockArray]) -> float:
        """Return the largest divergence of face velocities in this block."""
        self._mac.set_divergence(faces, self._x)
        return self._largest(self._x)

    def add_gradient(self, pressure: BlockArray, factor: float, velocity: Sequence[BlockArray]) -> None:
        """Add factor G p to the owned cells of u, v and w."""
        self._nodal.add_gradient(pressure, factor, velocity[::-1])

    def project_velocity(
        self, velocity: Sequence[BlockArray], pressure: BlockArray, dt: float, rate: float
    ) -> BlockArray:
        """Make u, v and w approximately free of divergence, and return the potential dt p. Collective.

        The ghosts of the velocity are filled; beyond inflows they hold the velocity across the side. rate: as for
        `project_faces`.
        """
        projection = self._nodal
        projection.set_divergence(velocity[::-1])
        phi, b = projection.phi, projection.solver.b
        volume = math.prod(self._problem.widths)
        if self._at_nodes is not None:
            np.divide(b.owned, volume, out=b.owned)
            result: Any = self._at_nodes.solve(b, phi)
        else:
            self._scale(pressure, dt, phi)
            absolute = max(self._tolerance * rate, TINY) * volume
            result = projection.solver.solve(None, None, self._tolerance, MOST_CYCLES, absolute=absolute)
        self._count("nodal", result.cycles, result.converged)
        projection.add_gradient(phi, -1.0, velocity[::-1])
        return phi

    def solve_diffusion(self, number: int, beta: float | NDArray[Any], b: BlockArray) -> NDArray[Any]:
        """Return x of x - div(beta grad x) = b in the owned cells, with homogeneous sides of a field. Collective.

        beta: a constant, or values at the owned cells, which only multigrid takes.
        """
        fixed = tuple(side.fields[number].fixed for _, side in sorted(self._problem.sides.items()))
        known, solver = self._helmholtz.get(fixed, (None, None))
        if known is None or not np.array_equal(known, beta):
            if self._is_direct:
                solver = RootSolver(
                    self._comm, self._block, helmholtz_solver(self._problem, number, float(beta)).solve
                )
            else:
                if solver is None:
                    sides = value_sides(self._problem, number)
                    solver = CellMultigrid(self._comm, self._block, self._problem.widths, sides)
                solver.set_coefficients(alpha=1.0, beta=beta, mean="arithmetic")
            self._helmholtz[fixed] = beta, solver
        assert solver is not None
        self._x.owned[...] = b.owned
        result = solver.solve(b, self._x, self._tolerance, MOST_CYCLES, absolute=TINY)
        self._count("diffusion", result.cycles, result.converged)
        return self._x.owned

    def _count(self, name: str, cycles: int, converged: bool) -> None:
        self.solves[name] = self.solves[name].after(cycles)
        if not converged:
            raise DivergedError(
                f"The solve {name} did not reach model.tolerance in {cycles} cycles. Set a smaller model.dt or "
                "model.courant if the flow diverges, and otherwise a larger model.tolerance."
            )


def flow_sides(problem: WindProblem) -> list[FlowSides]:
    """Return the sides of a flow as projections name them."""
    found: list[FlowSides] = []
    for axis in range(3):
        pair: list[Any] = []
        for last in (False, True):
            side = problem.at(axis, last)
            pair.append("outflow" if side and side.outflow else "inflow" if side and side.inflow else "wall")
        found.append("periodic" if problem.periodic[axis] else (pair[0], pair[1]))
    return found


def value_sides(problem: WindProblem, number: int) -> list[Any]:
    """Return the sides of a field for multigrid at cells: whether it has a value or no gradient there."""
    found: list[Any] = []
    for axis in range(3):
        pair = [problem.at(axis, last) for last in (False, True)]
        kinds = tuple("dirichlet" if side and side.fields[number].fixed else "neumann" for side in pair)
        found.append("periodic" if problem.periodic[axis] else kinds)
    return found


def touched_sides(problem: WindProblem, block: Block) -> list[tuple[int, bool]]:
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
