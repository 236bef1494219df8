"""Geometric multigrid for -div(sigma grad phi) = b at nodes, by trilinear finite elements.

    solver = NodalMultigrid(cartesian, block, (dz, dy, dx), ("periodic", "periodic", ("neumann", "dirichlet")))
    solver.b.owned[...] = ...                     # the weak form: the integral of b times each node's function
    result = solver.solve()
    ...                                           # solver.x holds phi, one layer of ghosts filled

A cycle goes down through the levels (smoothing, residual and restriction in one pass), solves the coarsest one
directly, and comes back up (interpolation, correction and smoothing in one pass). On cubes each level takes one
Jacobi step on either way, so that a cycle reads and writes the finest data twice: 6 words a node, and 1/4 for the
next level.

Read nodal_tables.py for the mathematics, nodal_kernels.py for the passes, nodal_levels.py for one level, and this
file for the cycle. Sources: Brandt, "Multi-level adaptive solutions to boundary-value problems", Mathematics of
Computation 31 (1977) 333; Trottenberg, Oosterlee and Schueller, Multigrid, 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.multigrid.agglomeration import Agglomeration, free_levels, split_levels
from ridgeline.blocks.multigrid.axis_tables import AxisSides, checked_sides
from ridgeline.blocks.multigrid.cell_kernels import multiply_dense
from ridgeline.blocks.multigrid.levels import CELLS_PER_RANK, COARSEST_CELLS, GridLevel, plan_levels
from ridgeline.blocks.multigrid.nodal_kernels import correct_and_smooth, smooth_and_restrict
from ridgeline.blocks.multigrid.nodal_levels import GhostExchange, NodalLevel
from ridgeline.blocks.multigrid.nodal_tables import GHOST, dense_inverse, is_singular
from ridgeline.blocks.multigrid.result import MultigridResult
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.partition import Triple

LEAST_CELLS = 3  # that an axis keeps: fewer cannot fill their ghosts by one exchange


class CycleWork(NamedTuple):
    """The work of a cycle on one rank: passes over the finest data, bytes of memory, messages and their bytes."""

    passes: float
    bytes: float
    messages: int
    bytes_sent: int


class NodalMultigrid:
    """Solve -div(sigma grad phi) = b at the nodes of a tensor-product grid of cells.

    The operator is the stencil of 27 points of trilinear finite elements: (A phi)_n is the integral of
    sigma grad phi . grad w_n, where w_n is 1 at node n and 0 at the others. b is the integral of the right-hand side
    times w_n, for a smooth f about f times the volume of a node. Node i lies at the low side of cell i and belongs to
    its owner; the last node of an axis that is not periodic belongs to the last block.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the blocks (`blocks.cartesian.decompose`).
    block : Block
        The cells of this rank.
    widths : sequence of three floats or arrays
        Widths of the cells of the whole grid along (z, y, x).
    sides : sequence of three
        For each axis "periodic" or the pair of its lower and upper side: "dirichlet" (phi = 0) or "neumann" (no flux,
        unless b contains one).
    sigma : float or BlockArray
        The coefficient: one number, or a field of the cells, of which the owned ones are read.
    dtype : dtype
        float64 or float32.
    cells_per_rank, coarsest_cells : int
        When coarse levels move onto fewer ranks, and which one is solved directly (`plan_levels`).

    Attributes
    ----------
    block : Block
        The nodes of this rank.
    x, b : BlockArray
        phi and the right-hand side, on `block`. Write into their owned nodes.
    is_singular : bool
        Whether constants solve the problem without b. b must then sum to zero; the mean is removed on the coarsest
        level alone, so that phi is found up to a constant.

    Raises
    ------
    ValueError
        For sides or widths that do not fit the block, or a coefficient that is not positive.

    Notes
    -----
    Collective. The result has the same bits on any ranks: each node is computed from the same numbers in the same
    order, wherever the blocks are cut, and the residual is a maximum.

    On each level a cycle takes a message to each neighbour before it and one after it, and one more for every
    Jacobi step beyond two. It reads and writes 3 s words a node for s steps of the finest level, and as much for
    the coarser ones as they have fewer nodes (`work_of_cycle`). s is 2 on cubes and an even number of cells, 3
    where cells have sides of 1 : 2, 5 for 1 : 4 and 6 for 1 : 10. It is 1 more where an aggregate has three cells,
    and 9 for widths between 0.3 and 1.4 along z on cells that are 1 wide. The factor of convergence is at most 0.15
    in all these cases.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import NodalMultigrid, decompose
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (32, 32, 32))
    >>> solver = NodalMultigrid(cartesian, block, (1.0, 1.0, 1.0), ("periodic", "periodic", "periodic"))
    >>> x = np.arange(32) + 0.5
    >>> solver.b.owned[...] = np.cos(2 * np.pi * x / 32)
    >>> result = solver.solve()
    >>> result.converged, result.cycles < 20
    (True, True)
    >>> solver.free()
    >>> cartesian.Free()
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | NDArray[Any]],
        sides: Sequence[AxisSides],
        *,
        sigma: float | BlockArray = 1.0,
        dtype: DTypeLike = "float64",
        cells_per_rank: int = CELLS_PER_RANK,
        coarsest_cells: int = COARSEST_CELLS,
    ) -> None:
        self._fixed = [
            (False, False) if pair == "periodic" else (pair[0] == "dirichlet", pair[1] == "dirichlet")
            for pair in checked_sides(sides, block.periodic)
        ]
        self._periodic, self._coords, self.comm = block.periodic, block.coords, comm
        self.dtype = np.dtype(dtype)
        self.is_singular = is_singular(block.periodic, self._fixed)
        self.levels = nodal_levels(block, widths, cells_per_rank, coarsest_cells)
        self._comms = split_levels(comm, self.levels, block.coords)
        kernels = specialise([smooth_and_restrict, correct_and_smooth], self.dtype) + specialise(
            [multiply_dense], "float64"
        )
        compile_on_nodes(comm, lambda: compile_kernels(kernels))

        self._parts: list[NodalLevel] = []  # of the levels of which this rank owns something
        self._moves: list[Agglomeration | None] = []
        above: MPI.Comm | None = comm
        for number, level in enumerate(self.levels):
            move = None
            if above is not None and level.is_agglomerated:
                move = Agglomeration(above, level, block.coords, 1, self.dtype, nodes=True)
            self._moves.append(move)
            above = self._comms[number]
            if above is None:
                break
            self._parts.append(self._make_level(number, above))

        if self.levels[0].is_agglomerated:
            natural = self.levels[0].natural_block(block.coords, GHOST, nodes=True)
            assert natural is not None
            self.x, self.b = (BlockArray.allocate(natural, self.dtype) for _ in range(2))
        else:
            self.x, self.b = self._parts[0].fields[0], self._parts[0].b
        self.block = self.x.block
        self._inverse: NDArray[np.float64] | None = None
        self.set_sigma(sigma)

    def _make_level(self, number: int, comm: MPI.Comm) -> NodalLevel:
        """Return this rank's part of a level that it owns."""
        coarser = self.levels[number + 1] if number + 1 < len(self.levels) else None
        return NodalLevel(comm, self.levels[number], coarser, self._coords, self._fixed, self.dtype)

    def set_sigma(self, sigma: float | BlockArray) -> None:
        """Change the coefficient.

        Parameters
        ----------
        sigma : float or BlockArray
            One number, or a field of the cells, of which the owned ones are read and copied. A coarse cell has the
            mean of the coefficient over its volume, so that jumps by orders of magnitude converge more slowly.

        Notes
        -----
        Collective. The inverse of the coarsest level is computed anew, on the rank that owns it.
        """
        smallest = float(sigma.owned.min()) if isinstance(sigma, BlockArray) else float(sigma)
        smallest = -float(allreduce_max(self.comm, [-smallest])[0])
        if not smallest > 0:
            raise ValueError(
                f"The coefficient sigma is {smallest:g} somewhere. It must be positive everywhere."
            )
        if isinstance(sigma, BlockArray):
            cells = self._set_sigma_of_cells(sigma)
        else:
            cells = np.full(self.levels[-1].shape_global, float(sigma))
            for part in self._parts:
                part.set_sigma(float(sigma))
        if len(self._parts) == len(self.levels):
            widths = self.levels[-1].widths
            self._inverse = dense_inverse(widths, self._periodic, self._fixed, cells)

    def _set_sigma_of_cells(self, sigma: BlockArray) -> NDArray[np.float64]:
        """Give every level its coefficient; return that of the last level on which this rank has cells."""
        values: NDArray[Any] = sigma.owned
        for number, level in enumerate(self.levels[: len(self._moves)]):
            is_owner = number < len(self._parts)
            field = BlockArray.allocate(self._parts[number].cells, self.dtype) if is_owner else None
            if self._moves[number] is not None:
                above = self.comm if number == 0 else self._comms[number - 1]
                assert above is not None
                move = Agglomeration(above, level, self._coords, 0, self.dtype)
                move.gather(np.ascontiguousarray(values, self.dtype), field)
            elif field is not None:
                field.owned[...] = values
            if field is None:
                break
            exchange = GhostExchange(self._parts[number].comm, [field], GHOST)
            exchange(0)
            exchange.free()
            self._parts[number].set_sigma(field)
            values = field.owned
            if number + 1 < len(self.levels):
                values = mean_over_aggregates(field, level, self.levels[number + 1], self._coords)
        return np.asarray(values, np.float64)

    def solve(
        self,
        b: BlockArray | None = None,
        x: BlockArray | None = None,
        tolerance: float = 1e-10,
        max_cycles: int = 50,
        *,
        absolute: float = 0.0,
    ) -> MultigridResult:
        """Solve A x = b by V-cycles from the guess in x.

        Parameters
        ----------
        b, x : BlockArray or None
            Right-hand side, and guess and result, on the nodes of `block`, with any ghosts. By default they are
            `self.b` and `self.x`, of which nothing is copied.
        tolerance, absolute : float
            The solve ends when max |b - A x| <= max(tolerance * max |b|, absolute), over all nodes.
        max_cycles : int
            Cycles at most.

        Returns
        -------
        MultigridResult
            `converged` is False if the tolerance was not reached, or if the residual is not a number.

        Raises
        ------
        ValueError
            If b or x does not lie on the nodes of the block.

        Notes
        -----
        Collective: besides the messages of the cycles, an allreduce of 8 bytes for each cycle and two more. The first
        smoothing step of a cycle computes the residual of the cycle before, so that the last cycle costs one step
        more. The ghosts of x are filled, one layer at least. If b is `self.b`, it is set to zero at fixed nodes.
        """
        for name, field in (("b", b), ("x", x)):
            if field is not None and field.block.shape_local != self.block.shape_local:
                raise ValueError(
                    f"{name} has {field.block.shape_local} nodes, but the block has {self.block.shape_local}."
                )
        self._take(b, x)
        result = self._iterate(tolerance, max_cycles, absolute)
        self._give(x)
        return result

    def apply(self, r: NDArray[Any], z: NDArray[Any]) -> None:
        """Set z to one cycle from zero for r: a `krylov.operator.Preconditioner` of contiguous owned nodes."""
        self.b.owned[...] = r
        self._take(None, None)
        if self._parts:
            self._parts[0].b_is_ready()
            self._visit(0)
        self._give(None)
        z[...] = self.x.owned

    def _take(self, b: BlockArray | None, x: BlockArray | None) -> None:
        """Bring b and the guess into the memory of the finest level."""
        for given, own in ((b, self.b), (x, self.x)):
            if given is not None and given is not own:
                own.owned[...] = given.owned
        move = self._moves[0]
        if move is not None:
            part = self._parts[0] if self._parts else None
            move.gather(np.ascontiguousarray(self.b.owned), part.b if part else None)
            move.gather(np.ascontiguousarray(self.x.owned), part.fields[0] if part else None)
        if self._parts:
            self._parts[0].current = 0

    def _give(self, x: BlockArray | None) -> None:
        """Bring the solution from the finest level to where it belongs, with a layer of ghosts."""
        part = self._parts[0] if self._parts else None
        if part and part.current == 1:
            part.keep_first_field()
            part.current = 0
        if part:
            part.exchange_shallow(0)
        move = self._moves[0]
        if move is not None:
            move.scatter(part.fields[0] if part else None, self.x)
        if x is not None and x is not self.x:
            inner, outer = self.x.block.ghost - 1, x.block.ghost - 1
            target, source = x.ghosted, self.x.ghosted
            shape = [n + 2 for n in self.block.shape_local]
            into = tuple(slice(outer, outer + n) for n in shape)
            target[into] = source[tuple(slice(inner, inner + n) for n in shape)]

    def _iterate(self, tolerance: float, max_cycles: int, absolute: float) -> MultigridResult:
        part = self._parts[0] if self._parts else None
        largest = 0.0
        if part:
            part.b_is_ready()
            largest = part.largest_b()
        limit = max(tolerance * float(allreduce_max(self.comm, [largest])[0]), absolute)
        initial = 0.0
        for cycle in range(max_cycles + 1):
            mine = 0.0
            if part:
                part.exchange_deep(part.current)
                mine = part.first_step(False, self._below(0)[0])
            residual = float(allreduce_max(self.comm, [mine])[0])
            initial = residual if cycle == 0 else initial
            if residual <= limit or cycle == max_cycles or not np.isfinite(residual):
                if part:
                    part.undo_step()
                factor = (residual / initial) ** (1 / cycle) if cycle and initial > 0 else 0.0
                return MultigridResult(residual <= limit, cycle, residual, initial, factor)
            if part:
                self._finish_visit(0)
        raise AssertionError("unreachable")

    def _visit(self, number: int) -> None:
        """Set the solution of a level, from zero, to one cycle for its b, and fill one layer of its ghosts."""
        part = self._parts[number]
        part.current = 0
        if number + 1 < len(self.levels):
            if number > 0:
                part.exchange_b(0)
            part.first_step(True, self._below(number)[0])
        self._finish_visit(number)
        part.exchange_shallow(part.current)

    def _finish_visit(self, number: int) -> None:
        """Do what follows the first smoothing step of a level."""
        part = self._parts[number]
        if number + 1 == len(self.levels):
            assert self._inverse is not None
            result = np.empty(len(self._inverse))
            multiply_dense(self._inverse, np.ascontiguousarray(part.b.owned, np.float64).reshape(-1), result)
            part.current = 0
            part.fields[0].owned[...] = result.reshape(part.block.shape_local)
            return
        restricted, natural = self._below(number)
        part.further_steps(restricted)
        move, is_owner = self._moves[number + 1], number + 1 < len(self._parts)
        below = self._parts[number + 1] if is_owner else None
        if move is not None:
            move.gather(np.ascontiguousarray(restricted.owned), below.b if below else None)
        if below:
            self._visit(number + 1)
        correction = natural if below is None or natural is not None else below.fields[below.current]
        if move is not None:
            assert natural is not None
            move.scatter(below.fields[below.current] if below else None, natural)
        assert correction is not None
        part.smooth_after(correction)

    def _below(self, number: int) -> tuple[BlockArray, BlockArray | None]:
        """Return where a level restricts to, and the natural block of the next level if that moves to other ranks."""
        natural = self._parts[number].natural
        if natural is not None or number + 1 == len(self.levels):
            return natural or self._parts[number].b, natural
        return self._parts[number + 1].b, None

    def work_of_cycle(self) -> CycleWork:
        """Return the least work of one cycle on this rank, in closed form.

        Returns
        -------
        CycleWork
            A smoothing step of s steps reads the solution and b and writes the solution: 3 words a node. The coarser
            level adds the field that is restricted and interpolated. A pass is 3 words for each finest node, so that
            passes = sum over levels of (3 s_l N_l + 2 N_{l+1}) / (3 N_0), less what the zero guesses spare.
        """
        words, messages, n_bytes = 0.0, 0, 0
        for number, part in enumerate(self._parts):
            if number + 1 < len(self.levels):
                words += part.words_of_cycle(number > 0)
                exchanges = part.exchanges_of_cycle(number > 0)
                messages += sum(exchange.messages for exchange in exchanges)
                n_bytes += sum(exchange.bytes_sent for exchange in exchanges)
        for move in self._moves:
            if move is not None:
                messages, n_bytes = messages + 2 * move.messages, n_bytes + 2 * move.bytes_sent
        return CycleWork(
            words / (3 * prod(self.block.shape_local)), words * self.dtype.itemsize, messages, n_bytes
        )

    def free(self) -> None:
        """Free requests and communicators. Collective; the solver cannot be used afterwards."""
        for part in self._parts:
            part.free()
        free_levels(self.comm, self._comms)


def nodal_levels(
    block: Block, widths: Sequence[float | NDArray[Any]], cells_per_rank: int, coarsest_cells: int
) -> list[GridLevel]:
    """Return the levels of a solver at nodes, whose blocks are as thick as the ghosts that neighbours need."""
    return plan_levels(
        block,
        widths,
        thickness=GHOST,
        least=LEAST_CELLS,
        cells_per_rank=cells_per_rank,
        coarsest_cells=coarsest_cells,
    )


def mean_over_aggregates(
    field: BlockArray, fine: GridLevel, coarse: GridLevel, coords: Triple
) -> NDArray[Any]:
    """Return the mean over the volume of each cell of the natural coarse block; the ghosts of `field` are filled."""
    natural = coarse.natural_block(coords, 0)
    assert natural is not None
    assert coarse.aggregates is not None
    values: NDArray[Any] = np.asarray(field.ghosted, np.float64)
    for axis in range(3):
        first, n = natural.offset_global[axis], natural.shape_local[axis]
        starts = coarse.aggregates[axis][first : first + n + 1]
        place = field.block.ghost - field.block.offset_global[axis]
        values = np.moveaxis(values, axis, 0)[starts[0] + place : starts[-1] + place]
        widths = fine.widths[axis][starts[0] : starts[-1]]
        weighted = np.add.reduceat(values * widths[:, None, None], starts[:-1] - starts[0], axis=0)
        totals = np.add.reduceat(widths, starts[:-1] - starts[0])
        values = np.moveaxis(weighted / totals[:, None, None], 0, axis)
    return values
