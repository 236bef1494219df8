"""Distributed Fourier transforms of real fields on slabs and pencils: the pipeline that turbulence runs on.

The modes of a spectral field lie along y on *lines*, the points of a physical field along x in *rows*; which rank
owns which of them is in `decomposition`. A transform from modes to points takes these steps, and the way back takes
them in reverse:

    y       YStage.run        an operation fills a tile of lines; inverse transform in y; pack the arena
    column  Transpose         MPI_Alltoallv between lines (all y) and planes (all z)
    z       ZStage.inverse    unpack the arena into planes, zero what truncation leaves out; inverse transform in z
    row     RowExchange       only where P_r > 1: between planes (all z) and rows (all x)
    x       XStage.run        join pairs of rows; inverse transform in x; an operation reads them in physical space

`FourierTransform.lines` makes the step in y and the column exchange, `FourierTransform.planes` the others. The stages
are in `stages`, their packing kernels in `packing` and `real_pairs`. The plain path of the column exchange is in
`exchanges.plain_transpose`, beside its faster methods; that of the row exchange in `exchanges.row_exchange`.

Lines without retained modes are neither moved nor transformed. No whole physical field is stored: operations are
called with pieces while these are in the cache.

    # `load` fills tiles of lines with 3 variables, which go to planes.
    transform.lines(load, to_planes=3)
    # `multiply` makes 5 variables of 3 on rows in physical space, and `combine` makes 4 of these 5 on planes.
    transform.planes(multiply, combine, from_lines=3, from_points=5, to_lines=4)
    # `advance` has these 4 on lines, and writes the next 3.
    transform.lines(advance, from_planes=4, to_planes=3)

Source: Yeung et al. (GESTS), Sec. 2; the pruning and the fusion are ours.
"""

from __future__ import annotations

import itertools
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.fourier import packing, real_pairs
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.exchanges.row_exchange import PlanePass, RowExchange, SharedRows, shared_numbers
from ridgeline.fourier.exchanges.shared_memory import can_share
from ridgeline.fourier.exchanges.tuned_transpose import Transpose
from ridgeline.fourier.fft import Effort
from ridgeline.fourier.fft import describe as fft_library
from ridgeline.fourier.modes import Lengths, Modes
from ridgeline.fourier.packing import lines_from_modes, modes_from_lines
from ridgeline.fourier.planning import Planner, plan_on_all_ranks
from ridgeline.fourier.real_pairs import block_from_pairs, pairs_from_block
from ridgeline.fourier.stages import (
    LineOperation,
    PlaneOperation,
    RowBlock,
    RowOperation,
    Tile,
    XStage,
    YStage,
    ZStage,
    lines_per_tile,
    rows_per_block,
)
from ridgeline.fourier.tuning import Layout, TransformTuning
from ridgeline.fourier.workers import Clock, Workers
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.parallel.partition import split

if TYPE_CHECKING:
    from mpi4py import MPI


class FourierTransform:
    """Transform real fields between the points and the Fourier modes of this rank, with all buffers and plans.

    Parameters
    ----------
    grid : PencilGrid
        This rank's points and modes.
    lengths : tuple of three floats
        Edges (L_z, L_y, L_x) of the periodic box.
    comm : Comm
        All ranks, numbered as grid.rank is.
    dtype : dtype
        Of physical fields, float32 or float64.
    tuning : TransformTuning
        How transforms and exchanges are computed.
    from_lines, from_points, to_lines : int
        Most variables that go from lines to physical space, from points back to planes, and, combined there, from
        planes to lines.

    Attributes
    ----------
    modes : Modes
        The modes of this rank and their wavenumbers.
    real, complex : dtype
        Of physical fields, and of modes.
    column, row : Transpose, RowExchange
        The exchanges; row is None where P_r = 1.
    scale : float
        A transform to physical space and back multiplies modes by 1 / scale.

    Raises
    ------
    ConfigError
        If FFTW may not measure and has no wisdom.
    DecompositionError
        For too many numbers in an exchange.

    Notes
    -----
    Collective, as are all transforms. The kernels of `kernels_of_transforms` must be compiled before.

    Examples
    --------
    The derivative of sin(x) with two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.api import FourierTransform, PencilGrid, TransformTuning
    >>> comm = MPI.COMM_WORLD
    >>> grid = PencilGrid((4, 6, 8), "none", (1, comm.size), comm.rank)
    >>> tuning = TransformTuning(effort="estimate")
    >>> box = (2 * np.pi,) * 3
    >>> transform = FourierTransform(grid, box, comm, "float64", tuning, from_lines=1, from_points=1, to_lines=1)
    >>> x = 2 * np.pi / 8 * np.arange(8)
    >>> modes = transform.to_spectral(np.broadcast_to(np.sin(x), (1, *grid.block)).copy())
    >>> kz, ky, kx = transform.modes.expand()
    >>> (derivative,) = transform.to_physical(1j * kx * modes)
    >>> bool(np.allclose(derivative, np.cos(x)))
    True
    >>> transform.free()
    """

    def __init__(
        self,
        grid: PencilGrid,
        lengths: Lengths,
        comm: MPI.Comm,
        dtype: DTypeLike,
        tuning: TransformTuning,
        *,
        from_lines: int = 3,
        from_points: int = 5,
        to_lines: int = 4,
    ) -> None:
        self.grid, self.comm = grid, comm
        self.modes = Modes.of(grid, lengths)
        self.real: np.dtype[Any] = np.dtype(dtype)
        self.complex: np.dtype[Any] = np.result_type(self.real, np.complex64)
        self.workers = Workers(tuning.threads)
        nz, ny, nx = grid.shape
        # A pair of rows comes back times 2, three unnormalised transforms times all points.
        self.scale = 1.0 / (2.0 * nx * ny * nz)
        self._column_seconds = 0.0
        self._counts = from_lines, from_points, to_lines
        layouts: tuple[Layout, ...] = ("strided", "packed") if tuning.layout == "auto" else (tuning.layout,)
        self._make_exchanges(tuning, layouts)
        self._make_stages(tuning.effort, layouts)

    def _make_exchanges(self, tuning: TransformTuning, layouts: tuple[Layout, ...]) -> None:
        grid, ny = self.grid, self.grid.shape[1]
        from_lines, from_points, to_lines = self._counts
        rows, columns = grid.process_grid
        row_comm = self.comm.Split(grid.column, grid.row)
        column_comm = self.comm.Split(grid.row, grid.column)
        self._comms = row_comm, column_comm
        self._tile = lines_per_tile(ny, max(from_lines, to_lines), self.complex.itemsize)
        self.column = Transpose(
            column_comm,
            [split(ny, columns, c)[1] for c in range(columns)],
            [grid.line_range(grid.row, c)[1] for c in range(columns)],
            to_lines,
            from_lines,
            self.complex,
            tuning,
            tile=self._tile,
            agreement=self.comm,
        )
        self.row: RowExchange | SharedRows | None = None
        if rows > 1:
            itemsize, most = self.complex.itemsize, max(from_lines, from_points)
            planes = itemsize * shared_numbers(grid, most, itemsize, layouts)
            shares = tuning.method in ("auto", "shared") and rows <= (tuning.ranks_per_node or rows)
            if shares and can_share(row_comm, self.comm, planes):
                self.row = SharedRows(grid, row_comm, most, self.complex, layouts)
            else:
                self.row = RowExchange(
                    grid, row_comm, self.comm, from_lines, from_points, self.complex, tuning
                )

    def _make_stages(self, effort: Effort, layouts: tuple[Layout, ...]) -> None:
        grid, (nz, ny, nx), workers = self.grid, self.grid.shape, self.workers
        from_lines, from_points, to_lines = self._counts
        n_columns = grid.truncation.n_columns
        self._y_stage = YStage(
            self.column, ny, self._tile, workers, from_planes=to_lines, to_planes=from_lines
        )
        places, memory = len(workers), None
        if isinstance(self.row, SharedRows):
            places, memory = self.row.n_places, self.row.own
        candidates = {
            each: ZStage(grid, self.column, each, from_lines, from_points, places, memory) for each in layouts
        }
        first = candidates[layouts[0]]
        if self.row is None:
            segments, n_rows = np.array([[0, 1, n_columns]], np.int64), first.n_per_piece * nz
        else:
            segments, n_rows = self.row.segments(), self.row.n_planes * grid.z_range[1]
        block = rows_per_block(nx, n_rows, from_points, self.complex.itemsize)
        self._x_stage = XStage(
            nx, n_columns, segments, block, from_lines, from_points, self.complex, len(workers)
        )
        sizes = {n for group in self._groups() for _, n in first.pieces(*group)}

        def make(planner: Planner) -> None:
            self._y_stage.plan(planner)
            self._x_stage.plan(planner)
            for stage in candidates.values():
                stage.plan(planner, sizes)

        plan_on_all_ranks(self.comm, make, effort)
        self._y_stage.clear()
        self._x_stage.clear()
        for stage in candidates.values():
            stage.clear()
        self._choose_layout(candidates)

    def _choose_layout(self, candidates: dict[Layout, ZStage]) -> None:
        """Choose the layout in which a first piece of planes goes there and back faster; parts are as in Table 1."""
        from_lines, from_points, to_lines = self._counts
        nothing: Any = lambda *_: None  # noqa: E731

        def trial(stage: ZStage) -> dict[str, float]:
            self._use(stage)
            first, n = stage.pieces(*self._groups()[0])[0]
            there, back = Clock(), Clock()
            stage.inverse(0, there, first, n, from_lines)
            if self.row is None:
                self._rows_of_planes(0, first, n, nothing, from_lines, from_points)
            elif isinstance(self.row, SharedRows):
                piece = range(n * self.grid.z_range[1])
                step = PlanePass(nothing, None, from_lines, from_points)
                self.row.transform_rows(0, Clock(), stage, self._x_stage, first, piece, step)
            stage.forward(0, back, first, n, from_points, nothing)
            stage.forward(0, back, first, n, 1, None)
            return {"unpack": there.pack, "fft": there.fft + back.fft, "pack": back.pack}

        key = (
            f"planes {self.grid.shape} {self.grid.dealias} {self.complex} {self.grid.process_grid} "
            f"{from_lines} {from_points} {to_lines}{' shared' * isinstance(self.row, SharedRows)} {fft_library()}"
        )
        self._trial: TuningResult | None = None
        self._use(next(iter(candidates.values())))
        if len(candidates) > 1:
            trials = {str(name): partial(trial, stage) for name, stage in candidates.items()}
            self._trial = choose(trials, key, self.comm)
            self._use(next(stage for name, stage in candidates.items() if name == self._trial.taken))
        self._z_stage.clear()
        self._x_stage.clear()
        self.column.clear()
        self.reset_timings()

    def _use(self, stage: ZStage) -> None:
        self._z_stage = stage
        self._plane_rows = stage.row_places()
        if isinstance(self.row, SharedRows):
            self.row.use(stage.layout.layout)

    def _groups(self) -> list[tuple[int, int]]:
        """Return (first plane, end) of the parts that `planes` works through."""
        if self.row is None:
            cuts = self.column.forward.chunks.tolist()
        else:
            n_planes = self.grid.y_range[1]
            cuts = [*range(0, n_planes, self.row.n_planes), n_planes]
        return list(itertools.pairwise(cuts))

    @property
    def most_from_lines(self) -> int:
        """Most variables that may go from lines to physical space at a time. They may also go one by one."""
        return self._counts[0]

    @property
    def layout(self) -> Layout:
        """Layout of planes for the transforms in z."""
        return self._z_stage.layout.layout

    @property
    def plane_runs(self) -> tuple[NDArray[np.int64], int]:
        """Where retained modes lie in planes: runs and the step between their columns, see `fourier.packing`."""
        return self._z_stage.runs, self._z_stage.layout.step

    def lines(self, operation: LineOperation, *, from_planes: int = 0, to_planes: int = 0) -> None:
        """Call `operation` with every tile of lines, which come from planes, go there, or both. Collective.

        Parameters
        ----------
        operation : called with tiles of lines, which it reads from and writes to
        from_planes, to_planes : numbers of variables that come from planes and that go there: 1, or as many as
            planned (to_lines and from_lines of the transform), or 0
        """
        inverse = self.column.inverse
        if to_planes:
            inverse.open()
        for group in range(len(self._y_stage.tiles)):
            self._y_stage.run(group, operation, from_planes=from_planes, to_planes=to_planes)
            if to_planes:
                t0 = perf_counter()
                inverse.start(group, to_planes)
                self._column_seconds += perf_counter() - t0
        if to_planes:
            t0 = perf_counter()
            inverse.finish()
            self._column_seconds += perf_counter() - t0

    def planes(
        self,
        operation: RowOperation,
        pack: PlaneOperation | None = None,
        *,
        from_lines: int = 0,
        from_points: int = 0,
        to_lines: int = 0,
    ) -> None:
        """Call `operation` with rows in physical space, transform back, and hand planes over to lines. Collective.

        Parameters
        ----------
        operation : called with rows of points, which it reads from and writes to
        pack : combines the variables that come from points, and writes them into `column.arena`; None packs them as
            they are
        from_lines, from_points, to_lines : numbers of variables that come from lines, that go from points back to
            planes, and that go from planes to lines: 1, or as many as planned, or 0
        """
        forward = self.column.forward
        if to_lines:
            forward.open()
        step = PlanePass(operation, pack, from_lines, from_points)
        stage, clocks = self._z_stage, self.workers.clocks

        def slab_planes(worker: int, piece: tuple[int, int]) -> None:
            y, n = piece
            if from_lines:
                stage.inverse(worker, clocks[worker], y, n, from_lines)
            self._rows_of_planes(worker, y, n, operation, from_lines, from_points)
            if from_points:
                stage.forward(worker, clocks[worker], y, n, from_points, pack)
            if worker == 0:
                stage.progress()

        started = 0
        for first, end in self._groups():
            if self.row is None:
                self.workers.run(self._z_stage.pieces(first, end), slab_planes)
            else:
                self.row.planes(self._z_stage, self._x_stage, self.workers, (first, end), step)
            if to_lines:
                t0 = perf_counter()
                while started < len(forward.chunks) - 1 and forward.chunks[started + 1] <= end:
                    forward.start(started, to_lines)
                    started += 1
                self._column_seconds += perf_counter() - t0
        if to_lines:
            t0 = perf_counter()
            forward.finish()
            self._column_seconds += perf_counter() - t0

    def _rows_of_planes(
        self, worker: int, plane: int, n: int, operation: RowOperation, from_lines: int, from_points: int
    ) -> None:
        """Take the rows of n planes, which a slab has whole, through transforms in x and back."""
        stage = self._z_stage
        start = self._plane_rows
        self._x_stage.run(
            worker,
            self.workers.clocks[worker],
            stage.work[worker].flat,
            (start, start),
            stage.layout.step,
            plane,
            range(n * stage.layout.nz),
            operation,
            from_lines,
            from_points,
        )

    def to_physical(self, spectral: NDArray[Any]) -> NDArray[Any]:
        """Return the values at this rank's points, real [n, *grid.block], of modes [n, n_modes]. Collective."""
        values = np.empty((len(spectral), *self.grid.block), self.real)
        start, ny = self.modes.lines.start, self.grid.shape[1]
        for modes, block in zip(spectral, values):

            def load(tile: Tile, line: int, n: int, modes: NDArray[Any] = modes) -> None:
                lines_from_modes(modes, start, line, n, ny, tile.modes[0])

            def keep(rows: RowBlock, y: int, first: int, n: int, block: NDArray[Any] = block) -> None:
                block_from_pairs(rows.target[0], y, first, n, block)

            self.lines(load, to_planes=1)
            self.planes(keep, from_lines=1)
        return values

    def to_spectral(self, physical: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the retained modes [n, n_modes] of values [n, *grid.block], times 1/(N_x N_y N_z). Collective."""
        modes = np.empty((len(physical), self.modes.n_modes), self.complex) if out is None else out
        start, ny = self.modes.lines.start, self.grid.shape[1]
        scale = self.real.type(self.scale)
        for block, field in zip(physical, modes):

            def load(rows: RowBlock, y: int, first: int, n: int, block: NDArray[Any] = block) -> None:
                pairs_from_block(block, y, first, n, rows.source[0])

            def keep(tile: Tile, line: int, n: int, field: NDArray[Any] = field) -> None:
                modes_from_lines(tile.modes[0], start, line, n, ny, scale, field)

            self.planes(load, from_points=1, to_lines=1)
            self.lines(keep, from_planes=1)
        return modes

    @property
    def timings(self) -> dict[str, float]:
        """Seconds since `reset_timings` in transforms, packing and exchanges, the mean over threads."""
        clocks = self.workers.clocks
        return {
            "fft": sum(clock.fft for clock in clocks) / len(clocks),
            "pack": sum(clock.pack for clock in clocks) / len(clocks),
            "row all-to-all": 0.0 if self.row is None else self.row.seconds,
            "column all-to-all": self._column_seconds,
        }

    @property
    def under_way(self) -> dict[str, float]:
        """Seconds of wall time that "row" and "column" exchanges were under way so far.

        At least what `timings` has for them: work that is done between a start and its end counts too.
        """
        row = self.row.transpose.under_way if isinstance(self.row, RowExchange) else 0.0
        return {"row": row, "column": self.column.under_way}

    def reset_timings(self) -> None:
        """Set `timings` to zero."""
        self._column_seconds = 0.0
        if self.row is not None:
            self.row.seconds = 0.0
        for clock in self.workers.clocks:
            clock.fft = clock.pack = 0.0

    def memory(self) -> dict[str, int]:
        """Return the bytes of exchange buffers and of what all workers work in."""
        stages = (
            self._y_stage.memory() + self._z_stage.memory() + self._x_stage.memory() + self._plane_rows.nbytes
        )
        exchange = sum(each.memory() for each in self._exchanges().values())
        return {"exchange": exchange, "work": stages}

    def free(self) -> None:
        """Free communicators and threads; not usable afterwards. Collective."""
        for exchange in self._exchanges().values():
            exchange.free()
        for comm in self._comms:
            comm.Free()
        self.workers.close()

    def describe(self) -> dict[str, str]:
        """Return the methods in words."""
        exchanges = {name: each.describe() for name, each in self._exchanges().items()}
        return {"transforms in z": self.layout if self._trial is None else self._trial.words(), **exchanges}

    def trials(self) -> dict[str, TuningResult]:
        """Return what was timed to choose the fastest, by the names of `describe`; in z, one piece of planes."""
        exchanges = {
            name: each.trial for name, each in self._exchanges().items() if isinstance(each, Transpose)
        }
        trials = {"transforms in z": self._trial, **exchanges}
        return {name: trial for name, trial in trials.items() if trial is not None}

    def _exchanges(self) -> dict[str, Transpose | SharedRows]:
        exchanges: dict[str, Transpose | SharedRows] = {"column exchange": self.column}
        if self.row is not None:
            exchanges["row exchange"] = self.row.transpose if isinstance(self.row, RowExchange) else self.row
        return exchanges


def kernels_of_transforms(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels of a `FourierTransform` on any process grid.

    Making the transform calls them, to choose the layout of planes. They must be compiled before.

    Parameters
    ----------
    dtype : dtype
        Of physical fields, float32 or float64.

    Returns
    -------
    list of Specialisation
        What `compile_kernels` takes.

    Examples
    --------
    >>> from ridgeline.api import kernels_of_transforms
    >>> len(kernels_of_transforms("float64"))
    12
    """
    of_modes = [
        packing.gather_lines,
        packing.scatter_lines,
        packing.unpack_planes,
        packing.pack_planes,
        packing.planes_to_rows,
        packing.rows_to_planes,
        packing.lines_from_modes,
        packing.modes_from_lines,
    ]
    of_rows = [
        real_pairs.load_pairs,
        real_pairs.store_pairs,
        real_pairs.block_from_pairs,
        real_pairs.pairs_from_block,
    ]
    return specialise(of_modes, np.result_type(dtype, np.complex64)) + specialise(of_rows, dtype)
