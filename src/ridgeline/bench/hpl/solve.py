"""One run of HPL: generate, factor, solve, generate again, test."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl import generator
from ridgeline.bench.hpl.block_cyclic import check_grid
from ridgeline.bench.hpl.broadcast import PanelBroadcast
from ridgeline.bench.hpl.process_grid import GridPlace, make_grid
from ridgeline.bench.hpl.record import (
    BROADCASTS,
    Broadcast,
    HplRun,
    HplSample,
    HplSettings,
    operations,
)
from ridgeline.bench.hpl.residual import measure_norms
from ridgeline.bench.hpl.system import Fill, HostSystem, HplSystem, compile_hpl
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.parallel.reduce import global_max

MOST_SAMPLES = 200
_TRIALS = 3  # of each broadcast


def solve_system(
    comm: MPI.Comm,
    settings: HplSettings,
    on_progress: Callable[[HplSample], None] | None = None,
    fill: Fill = generator.fill_matrix,
) -> HplRun:
    """Solve one system and test the solution; all but x the same on all ranks. Collective over comm.

    on_progress: told on rank 0 while it factors, at most MOST_SAMPLES times. fill: writes the matrix of a host, twice
    the same. A singular or badly scaled matrix is no error: the official test fails.
    Raises DecompositionError if the grid is not one of comm's ranks. Raises DeviceError if there is no device, too
    little memory on it, or no cuBLAS.
    """
    check_grid(comm.size, settings.p, settings.q)
    compile_hpl(comm)
    with make_grid(comm, settings) as grid, TileTeam(settings.threads) as team:
        tried = _try_broadcasts(comm, grid.row_comm, settings) if settings.broadcast is None else {}
        broadcast = settings.broadcast or _fastest(tried)
        system = (
            HostSystem(settings, grid, broadcast, team, fill)
            if settings.device == "cpu"
            else _on_device(comm, settings, grid, broadcast)
        )
        log = ProgressLog(settings.n, settings.nb, on_progress if comm.rank == 0 else None)
        comm.Barrier()
        start = log.start = perf_counter()
        system.factor(log.told)
        x = system.substitute()
        seconds = perf_counter() - start
        norms = measure_norms(comm, grid, system.sums(x), x)
        regions = system.regions
        names = sorted({name for names in comm.allgather(list(regions.table)) for name in names})
        slowest = global_max(comm, [seconds, *(regions.seconds(name) for name in names)])
        samples = comm.bcast(log.samples)
    phases = dict(zip(names, slowest[1:].tolist()))
    return HplRun(settings, float(slowest[0]), norms, broadcast, x, phases, samples, tried)


def _on_device(comm: MPI.Comm, settings: HplSettings, grid: GridPlace, broadcast: Broadcast) -> HplSystem:
    from ridgeline.bench.hpl.device.system_cuda import DeviceSystem  # numba-cuda is only needed here

    return DeviceSystem(comm, settings, grid, broadcast)


class ProgressLog:
    """Takes the samples of performance over progress.

    start: when the solve began, to be set; on_progress: told of each sample, at most MOST_SAMPLES times.
    """

    def __init__(self, n: int, nb: int, on_progress: Callable[[HplSample], None] | None) -> None:
        self.samples: list[HplSample] = []
        self.start = 0.0
        self._n, self._on_progress = n, on_progress
        self._apart = -(-n // nb // MOST_SAMPLES) * nb

    def told(self, columns: int) -> None:
        """Take note that so many columns are factored."""
        last = self.samples[-1] if self.samples else HplSample(0, 0.0, 0.0, 0.0)
        if columns < min(last.columns + self._apart, self._n):
            return
        seconds = perf_counter() - self.start
        total = operations(self._n)
        done, before = (total - operations(self._n - one) for one in (columns, last.columns))
        sample = HplSample(
            columns, seconds, done / seconds, (done - before) / max(seconds - last.seconds, 1e-9)
        )
        self.samples.append(sample)
        if self._on_progress is not None:
            self._on_progress(sample)


def _fastest(tried: dict[str, float]) -> Broadcast:
    """Return the fastest of the broadcasts that were tried, the first one if none was."""

    def seconds(broadcast: Broadcast) -> float:
        return tried.get(broadcast, np.inf)

    return min(BROADCASTS, key=seconds)


def _try_broadcasts(comm: MPI.Comm, row_comm: MPI.Comm, settings: HplSettings) -> dict[str, float]:
    """Return the best seconds of each broadcast of the first panel: the slowest process of all rows. Collective."""
    if row_comm.size < 3:
        return {}  # they are all the same
    message = np.zeros((-(-settings.n // settings.p) + settings.nb + 1) * min(settings.nb, settings.n))
    found: dict[str, float] = {}
    for algorithm in BROADCASTS:
        broadcast, best = PanelBroadcast(row_comm, algorithm), np.inf
        for _ in range(_TRIALS):
            comm.Barrier()
            start = perf_counter()
            broadcast.start(0, message)
            broadcast.finish()
            best = min(best, float(global_max(comm, perf_counter() - start)))
        found[algorithm] = best
    return found
