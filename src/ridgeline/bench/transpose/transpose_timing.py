"""The all-to-all exchanges of a pseudo-spectral substep alone, on every process grid, between hosts.

In each substep of velocity alone, 3 variables go from modes to points (column exchange, then row exchange). 5
products come back (row exchange), of which 4 combinations go through the column exchange. Only retained columns and
lines are sent; with lines = "full" every exchange has the paper's counts, all N_x/2 columns and N_z N_x/2 lines.

Bandwidth is the paper's Eq. 13, P2P x R / t: what a rank hands over, its own block included, divided by the time of
the slowest rank, a mean over cycles. Source: Yeung et al. (GESTS), Sec. 5.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.transpose.transpose_options import TransposeOptions
from ridgeline.fourier.decomposition import PencilGrid, ProcessGrid, Truncation, check_process_grid
from ridgeline.fourier.exchanges.tuned_transpose import Transpose
from ridgeline.fourier.tuning import TransposeTuning
from ridgeline.parallel.partition import split
from ridgeline.runtime.aligned import aligned_zeros
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import DecompositionError

if TYPE_CHECKING:
    from mpi4py import MPI

INVERSE = 3  # variables from modes to points: the velocity, in both exchanges
ROW_FORWARD = 5  # products from points towards modes: T_xx, T_zz, T_xy, T_xz, T_yz
COLUMN_FORWARD = 4  # their combinations A_x, A_z and T_xy, T_yz


@dataclass(frozen=True)
class ExchangeFigures:
    """The figures of the row or the column exchanges of a substep, forward and inverse, of all variables.

    Attributes
    ----------
    ranks : R, the ranks of one communicator
    message : bytes of the mean message of Q variables between two ranks, P2P
    messages : messages that a rank sends
    bytes_sent : bytes that all ranks send to others
    seconds : of the slowest rank, mean over cycles
    bandwidth : Eq. 13 in B/s per rank, None where one rank has all
    """

    ranks: int
    method: str
    message: float
    messages: int
    bytes_sent: int
    seconds: float
    bandwidth: float | None


@dataclass(frozen=True)
class DeviceFigures(ExchangeFigures):
    """The figures of exchanges between GPUs.

    `seconds` and `bandwidth` are those of GPU MPI if it was timed, otherwise those of CPU total.

    Attributes
    ----------
    device_to_host_seconds, cpu_mpi_seconds, host_to_device_seconds : of the slowest rank by way of the host; their
        sum is cpu_seconds
    gpu_seconds : of MPI from device memory, None where MPI does not take device memory
    cpu_bandwidth, gpu_bandwidth : as `bandwidth`
    """

    device_to_host_seconds: float
    cpu_mpi_seconds: float
    host_to_device_seconds: float
    cpu_seconds: float
    cpu_bandwidth: float | None
    gpu_seconds: float | None
    gpu_bandwidth: float | None


@dataclass(frozen=True)
class TransposeFigures:
    """The figures of one process grid and Q. seconds: of all exchanges of a substep."""

    process_grid: ProcessGrid
    batch: int
    row: ExchangeFigures
    column: ExchangeFigures
    seconds: float


Measure = Callable[["MPI.Comm", TransposeOptions, ProcessGrid, int], TransposeFigures]


def counts_of(options: TransposeOptions, process_grid: ProcessGrid, rank: int) -> tuple[list[int], ...]:
    """Return (row exchange: rows, columns; column exchange: rows, columns) of the ranks that exchange with rank.

    In the row exchange rows are the (y, z) of a rank's planes, and columns are the wavenumbers j_x. In the column
    exchange rows are planes y, and columns are the lines (j_x, j_z) of one row index.
    """
    p_r, p_c = process_grid
    r, c = rank % p_r, rank // p_r
    nz, ny, nx = options.shape
    planes = [split(ny, p_c, i)[1] for i in range(p_c)]
    row_rows = [planes[c] * split(nz, p_r, i)[1] for i in range(p_r)]
    if options.lines == "full":
        row_columns = [split(nx // 2, p_r, i)[1] for i in range(p_r)]
        lines = [split(nz * row_columns[r], p_c, i)[1] for i in range(p_c)]
    else:
        grid = PencilGrid(options.shape, options.dealias, process_grid, rank)
        row_columns = [len(grid.columns_of(i)) for i in range(p_r)]
        lines = [grid.line_range(r, i)[1] for i in range(p_c)]
    return row_rows, row_columns, planes, lines


def fitting_grids(options: TransposeOptions, n_ranks: int) -> list[ProcessGrid]:
    """Return every P_r x P_c of n_ranks that gives each rank points and modes, slabs first.

    Raises DecompositionError if there is none.
    """
    truncation = Truncation(options.shape, options.dealias)
    fitting: list[ProcessGrid] = []
    problem: DecompositionError | None = None
    for rows in (d for d in range(1, n_ranks + 1) if n_ranks % d == 0):
        try:
            check_process_grid(truncation, (rows, n_ranks // rows))
            fitting.append((rows, n_ranks // rows))
        except DecompositionError as error:
            problem = problem or error
    if not fitting and problem is not None:
        raise problem
    return fitting


def chosen_grids(comm: MPI.Comm, options: TransposeOptions) -> list[ProcessGrid]:
    """Return the process grid of the options, or all that fit. Raises DecompositionError if it does not fit."""
    if options.process_grid is None:
        return fitting_grids(options, comm.size)
    p_r, p_c = options.process_grid
    if p_r * p_c != comm.size:
        raise DecompositionError(
            f"--process-grid {p_r} {p_c}: this grid requires {p_r * p_c} ranks, but the job has {comm.size}."
        )
    check_process_grid(Truncation(options.shape, options.dealias), (p_r, p_c))
    return [(p_r, p_c)]


def time_exchanges(
    comm: MPI.Comm,
    options: TransposeOptions,
    progress: Phases | None = None,
    measure: Measure | None = None,
) -> list[TransposeFigures]:
    """Time the exchanges for each process grid and Q. Collective, the same on all ranks.

    measure: times one process grid and Q; None: `measure_one`, between hosts.
    Raises DecompositionError for a process grid that does not fit, ConfigError if there is too little memory.
    """
    measure = measure or measure_one
    progress = progress or silent()
    figures = []
    for p_r, p_c in chosen_grids(comm, options):
        for batch in options.batches:
            progress.begin(f"{p_r} x {p_c} ranks, {batch} variable{'s' * (batch != 1)}")
            figures.append(measure(comm, options, (p_r, p_c), batch))
    return figures


def measure_one(
    comm: MPI.Comm, options: TransposeOptions, process_grid: ProcessGrid, batch: int
) -> TransposeFigures:
    """Time the exchanges of one process grid and Q. Collective."""
    p_r = process_grid[0]
    r, c = comm.rank % p_r, comm.rank // p_r
    row_rows, row_columns, planes, lines = counts_of(options, process_grid, comm.rank)
    dtype = np.dtype(options.dtype)
    numbers = ROW_FORWARD * (row_rows[r] * sum(row_columns) + sum(row_rows) * row_columns[r])
    numbers += COLUMN_FORWARD * (planes[c] * sum(lines) + sum(planes) * lines[c])
    needed = numbers * dtype.itemsize
    require_memory(comm, needed, "the exchanges of this shape require", "Use a smaller --shape or more nodes")
    row_comm, column_comm = comm.Split(c, r), comm.Split(r, c)
    try:
        tuning = TransposeTuning(options.method, batch)
        # Private memory for each exchange: memory shared with other plans would change what is timed.
        make = partial(
            Transpose, n_inverse=INVERSE, dtype=dtype, tuning=tuning, agreement=comm, allocate=aligned_zeros
        )
        row = make(row_comm, row_rows, row_columns, ROW_FORWARD)
        column = make(column_comm, planes, lines, COLUMN_FORWARD)
        _substep(row, column)  # touches the pages
        timed = []
        for _ in range(options.cycles):
            comm.Barrier()
            timed.append(_substep(row, column))
        seconds = np.array(comm.allgather(timed))  # [rank, cycle, (row, column)]
        row_seconds, column_seconds = seconds.max(axis=0).mean(axis=0).tolist()
        figures = TransposeFigures(
            process_grid,
            batch,
            _figures(comm, row, row_seconds),
            _figures(comm, column, column_seconds),
            float(seconds.sum(axis=2).max(axis=0).mean()),
        )
        row.free()
        column.free()
    finally:
        row_comm.Free()
        column_comm.Free()
    return figures


def _substep(row: Transpose, column: Transpose) -> tuple[float, float]:
    """Exchange as a substep does; return the seconds in row and column exchanges."""
    marks = [time.perf_counter()]
    for direction in (column.inverse, row.inverse, row.forward, column.forward):
        direction.exchange()
        marks.append(time.perf_counter())
    return marks[3] - marks[1], marks[1] - marks[0] + marks[4] - marks[3]


def _figures(comm: MPI.Comm, transpose: Transpose, seconds: float) -> ExchangeFigures:
    forward, inverse = transpose.forward, transpose.inverse
    size = transpose.comm.size
    handed_over = comm.allreduce(forward.bytes_held() + inverse.bytes_held()) / comm.size
    batch = min(transpose.plan.batch, forward.n_variables)
    variables = forward.n_variables + inverse.n_variables
    return ExchangeFigures(
        ranks=size,
        method=transpose.method,
        message=handed_over / size * batch / variables,
        messages=forward.messages() + inverse.messages(),
        bytes_sent=comm.allreduce(forward.bytes_sent() + inverse.bytes_sent()),
        seconds=seconds,
        bandwidth=handed_over / seconds if size > 1 else None,
    )
