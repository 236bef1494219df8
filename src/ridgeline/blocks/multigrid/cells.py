"""Geometric multigrid for cell-centred Poisson and Helmholtz problems on blocks.

    alpha a x - div(beta grad x) = b

with periodic, Dirichlet and Neumann sides, cells of any widths along each axis, and coefficients that are constant or
vary. `CellMultigrid` is the solver, and `CellPreconditioner` (cell_preconditioner.py) one V-cycle as a preconditioner
of `krylov.cg.flexible_cg`.

Sources: Brandt, Multi-level adaptive solutions to boundary-value problems, Math. Comp. 31 (1977); Wesseling, An
Introduction to Multigrid Methods (1992), on cell-centred transfers; Trottenberg, Oosterlee and Schueller, Multigrid
(2001); Adams, Brezina, Hu and Tuminaro, Parallel multigrid smoothing: polynomial versus Gauss-Seidel, J. Comput.
Phys. 188 (2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.multigrid.agglomeration import Agglomeration, free_levels, split_levels
from ridgeline.blocks.multigrid.axis_tables import Sides, checked_sides
from ridgeline.blocks.multigrid.cell_coefficients import Mean, coefficient_error, faces_of_cells
from ridgeline.blocks.multigrid.cell_grid import CellGrid, contiguous_field, mirror_beyond_sides, towards
from ridgeline.blocks.multigrid.cell_kernels import cell_residual, multiply_dense, smooth_lines, smooth_points
from ridgeline.blocks.multigrid.levels import CELLS_PER_RANK, plan_levels
from ridgeline.blocks.multigrid.result import MultigridResult
from ridgeline.blocks.multigrid.smoothing import (
    LINE_EIGENVALUES,
    POINT_EIGENVALUES,
    STEPS,
    chebyshev_factors,
    choose_lines,
)
from ridgeline.jit.kernel import Specialisation, compile_kernels, specialise
from ridgeline.parallel.allreduce import allreduce_max, allreduce_sums, kernels_of_sums, raise_on_all_ranks
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.regions import Regions

Array = NDArray[Any]

PASSES_PER_CYCLE = 2  # over the finest level's data: down and up
PHASES = ("down", "up", "exchange", "check")  # columns of `CellMultigrid.seconds`


class CellMultigrid:
    """Solve alpha a x - div(beta grad x) = b at cell centres by V-cycles of geometric multigrid.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the blocks, numbered as the blocks, such as the Cartesian communicator of `decompose`.
    block : Block
        This rank's block, with at least one layer of ghosts. Its periodic axes are those of `sides`.
    widths : sequence of three floats or arrays
        Widths of all cells of the whole grid along (z, y, x): a number, or an array of as many as there are cells.
    sides : sequence of three
        For each axis "periodic", or a pair of "dirichlet" and "neumann" for its lower and upper end. Solutions are 0
        at a Dirichlet side and have no gradient at a Neumann side; `add_side_values` adds other values to b.
    dtype : dtype
        float64 or float32.
    lines : bool or "auto"
        Relax lines along z instead of points, and coarsen y and x alone. "auto" does so where the widths along z
        differ by more than a factor of 2.5, and z is neither cut nor periodic, and refuses cells that are stretched
        more than that along y or x. False accepts them, and cycles then converge slowly.
    steps : int
        Chebyshev steps of a smoothing, at least 2. More steps need more layers of ghosts, 2 for each step.
    cells_per_rank : int
        Coarse levels with fewer cells for each rank move onto fewer ranks.
    regions : Regions or None
        Cycles are charged to the region "multigrid" with their counted bytes.

    Attributes
    ----------
    levels : list of GridLevel
        The grids, from the finest to the coarsest.
    cycles, messages, bytes_sent : int
        Cycles done so far, and what this rank has sent in them.
    seconds : array [levels, 4]
        Seconds so far by level: in passes down and up, in exchanges with the moves to and from fewer ranks, and in
        checks of residuals. On the coarsest level, "down" is its solution.
    passes_per_cycle : int
        Passes over the finest level's data in a V-cycle, 2. The residual that `solve` checks is one more.

    Raises
    ------
    ValueError
        On all ranks, if widths, sides or options are wrong, or if lines are needed and z is cut.

    Notes
    -----
    Collective. The results are the same, bit for bit, on any number of ranks and process grid.

    The coefficients are 1 for beta and 0 for alpha until `set_coefficients` is called.

    Examples
    --------
    With one rank or two ranks (`mpiexec -n 2 python program.py`):

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import BlockArray, CellMultigrid, decompose
    >>> cartesian, block = decompose(MPI.COMM_WORLD, (32, 32, 32), periodic=(False, True, True))
    >>> multigrid = CellMultigrid(
    ...     cartesian, block, (1 / 32, 1 / 32, 1 / 32), (("dirichlet", "neumann"), "periodic", "periodic")
    ... )
    >>> b, x = (BlockArray.allocate(block, np.float64) for _ in range(2))
    >>> b.owned[...] = 1.0
    >>> result = multigrid.solve(b, x, tolerance=1e-8)
    >>> result.converged, result.cycles <= 12
    (True, True)
    >>> multigrid.free()
    >>> cartesian.Free()
    """

    def __init__(
        self,
        comm: MPI.Comm,
        block: Block,
        widths: Sequence[float | Array],
        sides: Sequence[str | Sequence[str]],
        *,
        dtype: DTypeLike = np.float64,
        lines: bool | Literal["auto"] = "auto",
        steps: int = STEPS,
        cells_per_rank: int = CELLS_PER_RANK,
        regions: Regions | None = None,
    ) -> None:
        self.comm, self._block, self.dtype, self._regions = comm, block, np.dtype(dtype), regions
        error: Exception | None = None
        try:
            if self.dtype not in (np.float32, np.float64):
                raise ValueError(f"dtype = {self.dtype} is not possible. Use float64 or float32.")
            if steps < 2:
                raise ValueError(f"steps = {steps} is too few. A smoothing has at least 2 steps.")
            if comm.size != block.n_ranks:
                raise ValueError(
                    f"The communicator has {comm.size} ranks, but there are {block.n_ranks} blocks."
                )
            self._sides: Sides = checked_sides(sides, block.periodic)
            self.lines = choose_lines(lines, widths, block)
            self.levels = plan_levels(
                block,
                widths,
                thickness=2 * steps,
                uncoarsened=(self.lines, False, False),
                cells_per_rank=cells_per_rank,
            )
        except ValueError as wrong:
            error = wrong
        raise_on_all_ranks(comm, error)
        taus = chebyshev_factors(steps, LINE_EIGENVALUES if self.lines else POINT_EIGENVALUES)
        self._comms = split_levels(comm, self.levels, block.coords)
        self._grids = [
            None if c is None else self._make_grid(index, c, taus) for index, c in enumerate(self._comms)
        ]
        for fine, grid, level in zip(self._grids, self._grids[1:], self.levels[1:]):
            if fine is not None:
                fine.join(level, grid)
        self._load_move: Agglomeration | None = None
        if self.levels[0].is_agglomerated:
            self._load_move = Agglomeration(comm, self.levels[0], block.coords, 2 * steps, self.dtype)
            self._load_nodes = Agglomeration(
                comm, self.levels[0], block.coords, steps, self.dtype, nodes=True
            )
            natural = self.levels[0].natural_block(block.coords, 2 * steps)
            assert natural is not None
            self._staging = contiguous_field(natural, self.dtype)
        compile_on_nodes(comm, lambda: compile_kernels(kernels_of_cells(self.dtype, self.lines)))
        self.cycles = self.messages = self.bytes_sent = 0
        self.seconds = np.zeros((len(self.levels), len(PHASES)))
        self.passes_per_cycle = PASSES_PER_CYCLE
        self._side_beta: dict[tuple[int, int], Any] = {}
        self.set_coefficients()

    def _make_grid(self, index: int, comm: MPI.Comm, taus: Array) -> CellGrid:
        """Return this rank's part of a level that it owns."""
        level, coords = self.levels[index], self._block.coords
        return CellGrid(comm, level, coords, self._sides, taus, self.lines, self.dtype)

    # ---- coefficients ----

    def set_coefficients(
        self,
        alpha: float = 0.0,
        a: BlockArray | Array | None = None,
        beta: float | BlockArray | Array = 1.0,
        faces: Sequence[Array] | None = None,
        mean: Mean = "harmonic",
    ) -> None:
        """Set the coefficients of alpha a x - div(beta grad x).

        Parameters
        ----------
        alpha : float
            At least 0.
        a : BlockArray or array [nz, ny, nx], or None
            Values at this rank's cells, at least 0; None for 1.
        beta : float, BlockArray or array [nz, ny, nx]
            A positive constant, or values at this rank's cells.
        faces : sequence of three arrays, or None
            Values of beta at this rank's faces instead: [nz+1, ny, nx], [nz, ny+1, nx] and [nz, ny, nx+1].
        mean : str
            How beta at a face follows from two cells: "harmonic", for jumps, or "arithmetic" (linear interpolation).

        Raises
        ------
        ValueError
            On all ranks, for values or shapes that are not possible.

        Notes
        -----
        Collective. It sets the coefficients of all levels and the inverse of the coarsest, and allocates memory only
        at the first call with coefficients that vary.
        """
        cells_a = a.owned if isinstance(a, BlockArray) else a
        cells_beta = beta.owned if isinstance(beta, BlockArray) else beta
        shape = self._block.shape_local
        error = coefficient_error(alpha, cells_a, cells_beta, faces, shape, mean)
        raise_on_all_ranks(self.comm, error)
        is_constant = np.ndim(cells_beta) == 0 and faces is None and (cells_a is None or alpha == 0)
        if is_constant:
            for grid in self._grids:
                if grid is not None:
                    grid.set_constant(alpha, float(np.asarray(cells_beta)))
            self._side_beta = {
                (axis, end): float(np.asarray(cells_beta)) for axis in range(3) for end in (0, 1)
            }
            has_reaction = alpha > 0
        else:
            reaction = alpha * np.broadcast_to(1.0 if cells_a is None else np.asarray(cells_a), shape)
            has_reaction = float(allreduce_max(self.comm, reaction.max())) > 0
            self._set_varying(reaction, np.broadcast_to(np.asarray(cells_beta), shape), faces, mean)
        open_sides = any(pair != "periodic" and "dirichlet" in pair for pair in self._sides)
        self.singular = not open_sides and not has_reaction
        last = self._grids[-1]
        if last is not None:
            matrix = last.dense_matrix()
            if self.singular:
                # Constants are the null space; the sum of all equations is removed with them.
                volume = np.einsum("i,j,k->ijk", *last.level.widths).ravel()
                scale = abs(matrix).max() or 1.0
                matrix += np.outer(volume, volume) * (scale / volume.max() ** 2 / len(volume))
            self._inverse = np.ascontiguousarray(np.linalg.inv(matrix)).astype(self.dtype)
            self._volume = np.einsum("i,j,k->ijk", *last.level.widths).astype(self.dtype)

    def _set_varying(self, reaction: Array, beta: Array, faces: Sequence[Array] | None, mean: Mean) -> None:
        grid = self._grids[0]
        if grid is not None:
            grid.allocate_coefficients()
        self._load(reaction, None if grid is None else grid.reaction)
        given = (
            faces
            if faces is not None
            else faces_of_cells(self.comm, self._block, self.levels[0].widths, beta, mean, self.dtype)
        )
        nodal = self.levels[0].natural_block(self._block.coords, 0, nodes=True)
        assert nodal is not None
        for axis in range(3):
            for end in (0, 1):
                self._side_beta[axis, end] = np.take(given[axis], [0 if end == 0 else -1], axis)
            owned = np.zeros(nodal.shape_local, self.dtype)
            part = tuple(slice(min(n, m)) for n, m in zip(nodal.shape_local, given[axis].shape))
            owned[part] = given[axis][part]
            target = None if grid is None or grid.faces is None else grid.faces[axis]
            if self._load_move is not None:
                self._load_nodes.gather(owned, target)
            else:
                assert target is not None
                target.owned[...] = owned
        if grid is not None:
            grid.finish_coefficients()
        for level in self._grids[:-1]:
            if level is not None:
                level.coarsen_coefficients()

    def add_side_values(self, b: BlockArray, axis: int, end: int, values: float | Array) -> None:
        """Add to b what given values at a side contribute, so that `solve` needs only homogeneous sides.

        Parameters
        ----------
        b : BlockArray
            The right-hand side.
        axis : int
            0, 1 or 2 for z, y or x.
        end : int
            0 for the lower end of the axis and 1 for the upper.
        values : float or array
            x at a Dirichlet side, or its derivative along the outward normal at a Neumann side, at the faces of this
            rank's cells: an array of b's owned shape without `axis`.

        Raises
        ------
        ValueError
            If the axis is periodic.

        Notes
        -----
        Local. Ranks that do not touch the side change nothing. Call it after `set_coefficients`.
        """
        pair = self._sides[axis]
        if pair == "periodic":
            raise ValueError(f"The axis {'zyx'[axis]} is periodic and has no sides.")
        if self._block.neighbour(towards(axis, 2 * end - 1)) is not None:
            return
        width = self.levels[0].widths[axis][0 if end == 0 else -1]
        factor = 2 / width**2 if pair[end] == "dirichlet" else 1 / width
        layer = np.moveaxis(b.owned, axis, 0)[0 if end == 0 else -1]
        beta = self._side_beta[axis, end]
        beta = beta if np.ndim(beta) == 0 else np.squeeze(beta, axis)
        layer += (factor * beta * np.asarray(values)).astype(layer.dtype)

    # ---- solve ----

    def solve(
        self,
        b: BlockArray,
        x: BlockArray,
        tolerance: float = 1e-10,
        max_cycles: int = 50,
        absolute: float = 0.0,
    ) -> MultigridResult:
        """Solve A x = b by V-cycles from the values that x has.

        Parameters
        ----------
        b : BlockArray
            The right-hand side; its ghosts are not read.
        x : BlockArray
            The first guess, and on return the solution, with as many ghost layers filled as it has, at most twice
            `steps`: by neighbours' cells, and beyond sides by the mirror image (Neumann) or its negative (Dirichlet).
        tolerance : float
            The solve ends when max |b - A x| <= tolerance * max |b|.
        max_cycles : int
            The most V-cycles.
        absolute : float
            The solve also ends when max |b - A x| <= absolute.

        Returns
        -------
        MultigridResult
            The same on all ranks. It says whether the tolerance was reached; nothing is raised if it was not.

        Raises
        ------
        ValueError
            If b or x does not lie on the block.

        Notes
        -----
        Collective. A problem is singular if all sides are periodic or Neumann and alpha a is 0. It has solutions only
        if the mean of b over the volume is 0: the mean is subtracted from b, and `mean_removed` returns it. The
        solution that is returned has mean 0. Both means are summed exactly, so that they do not depend on the ranks.
        """
        self._check_blocks(b, x)
        removed = 0.0
        values = b.owned
        if self.singular:
            removed = self._mean(values)
            values = np.asarray(values - np.asarray(removed, values.dtype))
        limit = max(tolerance * float(allreduce_max(self.comm, abs(values).max())), absolute)
        self._load(values, self._finest("b"))
        self._load(x.owned, self._finest("x"))
        result = self._iterate(limit, max_cycles, removed)
        self._unload_with_ghosts(x)
        if self.singular:
            mean = self._mean(x.owned)
            np.subtract(x.ghosted, np.asarray(mean, x.flat.dtype), out=x.ghosted)
        return result

    def _check_blocks(self, b: BlockArray, x: BlockArray) -> None:
        for name, field in (("b", b), ("x", x)):
            if field.block.shape_local != self._block.shape_local:
                raise ValueError(
                    f"{name} has {field.block.shape_local} cells, but the block has {self._block.shape_local}."
                )

    def _iterate(self, limit: float, max_cycles: int, removed: float) -> MultigridResult:
        """Do V-cycles until the residual is at most the limit. The finest level holds b and the first guess."""
        self._fill(0, 0)
        self._fill(0, 1)
        residual = initial = self._residual()
        cycles = 0
        while np.isfinite(residual) and residual > limit and cycles < max_cycles:
            self._cycle(0, False)
            cycles += 1
            residual = self._residual()
        factor = (residual / initial) ** (1 / cycles) if cycles and initial > 0 else 0.0
        converged = bool(np.isfinite(residual)) and residual <= limit
        return MultigridResult(converged, cycles, residual, initial, factor, removed)

    def cycle(self, b: Array, x: Array, from_zero: bool = True) -> None:
        """Do one V-cycle on contiguous arrays of this rank's cells.

        Parameters
        ----------
        b, x : arrays [nz, ny, nx]
            Right-hand side, and the result.
        from_zero : bool
            Start from zero; otherwise from the values of x.

        Notes
        -----
        Collective. Two passes over the finest level's data, besides the copies of b and x.
        """
        self._load(b, self._finest("b"))
        self._fill(0, 1)
        if not from_zero:
            self._load(x, self._finest("x"))
            self._fill(0, 0)
        self._cycle(0, from_zero)
        self._unload(x)

    def apply_operator(self, x: Array, out: Array) -> None:
        """Set out = A x for contiguous arrays [nz, ny, nx] of this rank's cells. Collective: ghosts are exchanged."""
        grid = self._grids[0]
        if grid is not None:
            grid.b.flat[:] = 0
        self._load(x, self._finest("x"))
        self._fill(0, 0)
        if self._load_move is None:
            assert grid is not None
            kept = np.empty(grid.block.shape_local, self.dtype)
            grid.residual(kept)
            np.negative(kept, out=out)
            return
        if grid is not None:
            kept = np.empty(grid.block.shape_local, self.dtype)
            grid.residual(kept)
            grid.x.owned[...] = -kept
            grid.fill.fill(0)
        self._unload(out)

    @property
    def bytes_per_cycle(self) -> int:
        """Bytes that the passes of a V-cycle over this rank's finest cells move at least, in closed form.

        Each pass reads x and b and writes x; with coefficients that vary it also reads four fields.
        """
        grid = self._grids[0]
        if grid is None:
            return 0
        words = PASSES_PER_CYCLE * (3 + 4 * grid.variable)
        return words * int(np.prod(grid.block.shape_local)) * self.dtype.itemsize

    def free(self) -> None:
        """Free communicators and requests. Collective. The solver cannot be used afterwards."""
        for grid in self._grids:
            if grid is not None:
                grid.free()
        free_levels(self.comm, self._comms)

    # ---- a cycle ----

    def _cycle(self, index: int, from_zero: bool) -> None:
        if index == 0 and self._regions is not None:
            with self._regions("multigrid", 0.0, float(self.bytes_per_cycle)):
                self._v_cycle(0, from_zero)
        else:
            self._v_cycle(index, from_zero)
        self.cycles += index == 0

    def _v_cycle(self, index: int, from_zero: bool) -> None:
        """Improve x of a level. The ghosts of b and, unless it is zero, of x are filled; those of x on return."""
        grid = self._grids[index]
        if grid is None:
            return
        start = perf_counter()
        if index == len(self.levels) - 1:
            self._solve_coarsest(grid, from_zero)
            self._clock(index, 0, start)
            self._fill(index, 0)
            return
        grid.smooth(from_zero, restricts=True, prolongs=False)
        start = self._clock(index, 0, start)
        target = grid.coarse_grid
        if grid.move is not None:
            grid.move.gather(grid.restricted.owned, None if target is None else target.b)
            self._count(grid.move.messages, grid.move.bytes_sent)
            self._clock(index, 2, start)
        if target is not None:
            self._fill(index + 1, 1)
            self._v_cycle(index + 1, True)
        start = perf_counter()
        if grid.move is not None:
            grid.move.scatter(None if target is None else target.x, grid.correction)
            start = self._clock(index, 2, start)
        grid.smooth(False, restricts=False, prolongs=True)
        self._clock(index, 1, start)
        self._fill(index, 0)

    def _clock(self, index: int, phase: int, start: float) -> float:
        """Charge the time since `start` to a phase of a level, and return the time now."""
        now = perf_counter()
        self.seconds[index, phase] += now - start
        return now

    def _solve_coarsest(self, grid: CellGrid, from_zero: bool) -> None:
        b: Array = grid.b.owned
        if not from_zero:
            kept = np.empty(grid.block.shape_local, self.dtype)
            grid.residual(kept)
            b = kept
        out = np.empty(b.size, self.dtype)
        multiply_dense(self._inverse, np.ascontiguousarray(b * self._volume).ravel(), out)
        if from_zero:
            grid.x.owned[...] = out.reshape(b.shape)
        else:
            np.add(grid.x.owned, out.reshape(b.shape), out=grid.x.owned)

    def _fill(self, index: int, which: int) -> None:
        grid = self._grids[index]
        if grid is not None:
            start = perf_counter()
            grid.fill.fill(which)
            self._count(grid.fill.messages, grid.fill.bytes_sent)
            self._clock(index, 2, start)

    def _count(self, messages: int, n_bytes: int) -> None:
        self.messages += messages
        self.bytes_sent += n_bytes

    def _residual(self) -> float:
        """Return max |b - A x| of all ranks. x has its ghosts."""
        grid = self._grids[0]
        mine = 0.0
        if grid is not None:
            start = perf_counter()
            mine = grid.residual()
            self._clock(0, 3, start)
        return float(allreduce_max(self.comm, mine))

    # ---- between the caller's fields and the finest level's ----

    def _finest(self, name: Literal["x", "b"]) -> BlockArray | None:
        grid = self._grids[0]
        return None if grid is None else grid.x if name == "x" else grid.b

    def _load(self, values: Array, target: BlockArray | None) -> None:
        if self._load_move is not None:
            self._load_move.gather(np.ascontiguousarray(values, self.dtype), target)
        else:
            assert target is not None
            target.owned[...] = values

    def _unload(self, out: Array) -> None:
        finest = self._finest("x")
        if self._load_move is not None:
            self._load_move.scatter(finest, self._staging)
            finest = self._staging
        assert finest is not None
        out[...] = finest.owned

    def _unload_with_ghosts(self, x: BlockArray) -> None:
        """Copy the solution with its ghosts, and mirror it beyond sides."""
        source = self._finest("x")
        if self._grids[0] is not None:
            self._grids[0].fill.complete(0)
        if self._load_move is not None:
            self._load_move.scatter(source, self._staging)
            source = self._staging
        assert source is not None
        layers = min(x.block.ghost, source.block.ghost)
        inner = [
            tuple(slice(g - layers, -(g - layers) or None) for _ in range(3))
            for g in (x.block.ghost, source.block.ghost)
        ]
        x.ghosted[inner[0]] = source.ghosted[inner[1]]
        mirror_beyond_sides(x, self._block, self._sides, layers)

    def volumes(self) -> Array:
        """Return the volumes of this rank's cells, float64 [nz, ny, nx]."""
        owned = zip(self.levels[0].widths, self._block.offset_global, self._block.shape_local)
        return np.asarray(
            np.einsum("i,j,k->ijk", *[widths[offset : offset + n] for widths, offset, n in owned])
        )

    def _mean(self, values: Array) -> float:
        """Return the mean over the volume, the same bits on any ranks. Collective: two allreduces."""
        total = float(np.prod([widths.sum() for widths in self.levels[0].widths]))
        return float(allreduce_sums(self.comm, [self.volumes() * values], self.levels[0].cells)[0]) / total


def kernels_of_cells(dtype: DTypeLike, lines: bool) -> list[Specialisation]:
    """Return the kernels that a `CellMultigrid` of dtype calls, with lines or points."""
    smooth = smooth_lines if lines else smooth_points
    return [*specialise([smooth, cell_residual, multiply_dense], dtype), *kernels_of_sums(np.float64)]
