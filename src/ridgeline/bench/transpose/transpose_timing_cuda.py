"""The exchanges of a substep between GPUs: GPU MPI beside copies and CPU MPI, as in the paper's Tables 10 to 14.

A message has Q variables of one rank for another. It starts and ends in device memory. Two buffers serve all process
grids and Q: one for this rank's rows of all columns, one for all rows of its own columns. In each cycle all messages
of a direction are sent twice: by way of the host and, where MPI takes device memory, directly from there.
Source: Yeung et al. (GESTS), Sec. 5.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from mpi4py import MPI
from mpi4py.util.dtlib import from_numpy_dtype
from numpy.typing import DTypeLike

from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.transpose.transpose_options import TransposeOptions
from ridgeline.bench.transpose.transpose_timing import (
    COLUMN_FORWARD,
    INVERSE,
    ROW_FORWARD,
    DeviceFigures,
    TransposeFigures,
    chosen_grids,
    counts_of,
    time_exchanges,
)
from ridgeline.fourier.decomposition import ProcessGrid
from ridgeline.fourier.device.exchange_cuda import ExchangePieces
from ridgeline.fourier.exchanges.plain_transpose import check_limits
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.parallel.payload import Buffer, check, content

if TYPE_CHECKING:
    from ridgeline.runtime.console import Phases

_WORDS_OF_CHECK = 4  # arrays of the size of a message that `content` and `check` make together


class DeviceCall(NamedTuple):
    """One all-to-all of at most Q variables. host, device: the arguments of MPI_Alltoallv for either memory."""

    source: Buffer
    target: Buffer
    sent: ExchangePieces
    received: ExchangePieces
    host: tuple[Any, Any]
    device: tuple[Any, Any]


class DirectionCalls:
    """The calls of a substep in the row or the column exchange, forward and inverse. No communication when built.

    Parameters
    ----------
    comm : the ranks that exchange
    rows, columns : the numbers of rows and columns of every rank
    dtype : of complex numbers
    n_forward, batch : variables from rows to columns, and Q, the variables of a call
    row_buffer, column_buffer : device memory of this rank for Q variables
    """

    def __init__(
        self,
        comm: MPI.Comm,
        rows: Sequence[int],
        columns: Sequence[int],
        dtype: DTypeLike,
        n_forward: int,
        batch: int,
        row_buffer: Buffer,
        column_buffer: Buffer,
    ) -> None:
        self.comm, self._dtype = comm, np.dtype(dtype)
        # Numbers of one variable for each rank: sent forward and received inverse, and the other way around.
        self.row_counts = [rows[comm.rank] * n for n in columns]
        self.column_counts = [n * columns[comm.rank] for n in rows]
        self.n_forward, self.batch = n_forward, min(batch, n_forward)
        forward = (row_buffer, self.row_counts), (column_buffer, self.column_counts)
        self.calls = [self._call(n, *forward) for n in batches(n_forward, batch)]
        self.calls += [self._call(n, *forward[::-1]) for n in batches(INVERSE, batch)]

    def _call(self, n: int, source: tuple[Buffer, list[int]], target: tuple[Buffer, list[int]]) -> DeviceCall:
        sent, received = (
            ExchangePieces.of([n * count for count in counts]) for _, counts in (source, target)
        )
        kind = from_numpy_dtype(self._dtype)
        host, device = (
            (
                [source[0].array(on_device), sent.counts, sent.begins, kind],
                [target[0].array(on_device), received.counts, received.begins, kind],
            )
            for on_device in (False, True)
        )
        return DeviceCall(source[0], target[0], sent, received, host, device)

    def staged(self, call: DeviceCall) -> tuple[float, float, float]:
        """Exchange by way of the host; return the seconds of the copy out, of MPI, of the copy back. Collective."""
        now = time.perf_counter
        start = now()
        call.source.stage_out(call.sent.total * self._dtype.itemsize)
        copied = now()
        self.comm.Alltoallv(*call.host)
        exchanged = now()
        call.target.stage_in(call.received.total * self._dtype.itemsize)
        return copied - start, exchanged - copied, now() - exchanged

    def direct(self, call: DeviceCall) -> float:
        """Exchange from device memory; return the seconds. Collective."""
        start = time.perf_counter()
        self.comm.Alltoallv(*call.device)
        return time.perf_counter() - start

    def verify(self, direct: bool) -> None:
        """Make each call once. Raise VerificationError on all ranks if data arrive wrong. Collective."""
        me, size = self.comm.rank, self._dtype.itemsize
        for number, call in enumerate(self.calls):
            sequence = 2 * number + direct  # so that data of another call are wrong
            host = call.source.host
            for target, (n, begin) in enumerate(zip(call.sent.counts, call.sent.begins)):
                host[begin * size : (begin + n) * size] = content(n * size, me, target, sequence)
            call.source.write(host)
            host[:] = 0  # the copy from the device must restore it
            if direct:
                self.direct(call)
            else:
                self.staged(call)
            arrived = call.target.read(call.received.total * size)
            with errors_on_all_ranks(self.comm):
                for source, (n, begin) in enumerate(zip(call.received.counts, call.received.begins)):
                    check(arrived[begin * size : (begin + n) * size], source, me, sequence)

    def cycle(self, direct: bool) -> list[float]:
        """Make all calls by each path; return seconds to the host, of MPI there, to the device, and of GPU MPI."""
        seconds = np.sum([self.staged(call) for call in self.calls], axis=0).tolist()
        return [*seconds, sum(map(self.direct, self.calls)) if direct else 0.0]

    def bytes_held(self) -> int:
        """Return the bytes that this rank hands over in a substep, its own block included."""
        numbers = self.n_forward * sum(self.row_counts) + INVERSE * sum(self.column_counts)
        return numbers * self._dtype.itemsize

    def bytes_kept(self) -> int:
        """Return the bytes of this rank's own blocks among them."""
        return (self.n_forward + INVERSE) * self.row_counts[self.comm.rank] * self._dtype.itemsize


def batches(variables: int, batch: int) -> list[int]:
    """Return the number of variables of each call: Q, and the remainder in the last one."""
    return [min(batch, variables - first) for first in range(0, variables, batch)]


def time_on_devices(
    comm: MPI.Comm, options: TransposeOptions, direct: bool, progress: Phases | None = None
) -> tuple[str, list[TransposeFigures]]:
    """Time the exchanges between GPUs; return this rank's GPU in words, and the figures. Collective.

    direct: whether to time GPU MPI too. Raises what `time_exchanges` raises, and DeviceError without a GPU or with
    too little memory on it.
    """
    device = select_device(comm)
    largest, message = buffer_bytes(comm, options, chosen_grids(comm, options))
    check_limits(largest // np.dtype(options.dtype).itemsize, MPI.Get_version()[0])
    advice = "use a smaller --shape, fewer --variables or more GPUs (-n)"
    require_device_memory(comm, device, {"sent data": largest, "received data": largest}, advice)
    of_host = 2 * largest + _WORDS_OF_CHECK * message
    require_memory(comm, of_host, "the host copies of the exchanged data require", advice)
    buffers = Buffer(largest, "cuda"), Buffer(largest, "cuda")

    def measure(
        comm: MPI.Comm, options: TransposeOptions, process_grid: ProcessGrid, batch: int
    ) -> TransposeFigures:
        r, c = comm.rank % process_grid[0], comm.rank // process_grid[0]
        row_rows, row_columns, planes, lines = counts_of(options, process_grid, comm.rank)
        figures = []
        for group, cut_rows, cut_columns, n in (
            ((c, r), row_rows, row_columns, ROW_FORWARD),
            ((r, c), planes, lines, COLUMN_FORWARD),
        ):
            members = comm.Split(*group)
            try:
                calls = DirectionCalls(members, cut_rows, cut_columns, options.dtype, n, batch, *buffers)
                figures.append(_time_direction(comm, calls, options.cycles, direct))
            finally:
                members.Free()
        row, column = figures
        return TransposeFigures(process_grid, batch, row, column, row.seconds + column.seconds)

    return str(device), time_exchanges(comm, options, progress, measure)


def buffer_bytes(
    comm: MPI.Comm, options: TransposeOptions, process_grids: list[ProcessGrid]
) -> tuple[int, int]:
    """Return the bytes of the largest buffer and of the largest message of this rank, of all process grids and Q."""
    largest = message = 0
    item = np.dtype(options.dtype).itemsize
    for p_r, p_c in process_grids:
        r, c = comm.rank % p_r, comm.rank // p_r
        row_rows, row_columns, planes, lines = counts_of(options, (p_r, p_c), comm.rank)
        for rows, columns, me, n in (
            (row_rows, row_columns, r, ROW_FORWARD),
            (planes, lines, c, COLUMN_FORWARD),
        ):
            each = min(n, max(options.batches)) * item
            largest = max(largest, each * rows[me] * sum(columns), each * sum(rows) * columns[me])
            message = max(message, each * rows[me] * max(columns), each * max(rows) * columns[me])
    return largest, message


def _time_direction(comm: MPI.Comm, calls: DirectionCalls, cycles: int, direct: bool) -> DeviceFigures:
    """Verify, then time the exchanges of one direction. Collective over comm, all ranks."""
    calls.verify(direct=False)
    if direct:
        calls.verify(direct=True)
    timed = []
    for _ in range(cycles):
        comm.Barrier()
        timed.append(calls.cycle(direct))
    seconds = np.array(comm.allgather(timed))  # [rank, cycle, part]
    slowest = seconds[:, :, :3].sum(axis=2).argmax(axis=0)
    parts = seconds[slowest, np.arange(cycles), :3].mean(axis=0)
    to_host, mpi, to_device = parts.tolist()
    total = float(parts.sum())
    gpu = float(seconds[:, :, 3].max(axis=0).mean()) if direct else None
    size = calls.comm.size
    handed_over = comm.allreduce(calls.bytes_held()) / comm.size
    shown = size > 1
    return DeviceFigures(
        ranks=size,
        method="alltoallv",
        message=handed_over / size * calls.batch / (calls.n_forward + INVERSE),
        messages=(size - 1) * len(calls.calls),
        bytes_sent=comm.allreduce(calls.bytes_held() - calls.bytes_kept()),
        seconds=total if gpu is None else gpu,
        bandwidth=handed_over / (gpu or total) if shown else None,
        device_to_host_seconds=to_host,
        cpu_mpi_seconds=mpi,
        host_to_device_seconds=to_device,
        cpu_seconds=total,
        cpu_bandwidth=handed_over / total if shown else None,
        gpu_seconds=gpu,
        gpu_bandwidth=handed_over / gpu if shown and gpu else None,
    )
