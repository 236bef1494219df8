"""Peak: the rate of fused multiply-adds that the arithmetic units of every rank reach, memory left aside.

Every thread runs independent chains of multiply-adds in vector registers (peak_kernels.py), and so do the threads of
a GPU (cuda_peak.py). An operation is an addition or a multiplication: 2 a multiply-add and lane. All ranks work at
the same time for the same seconds. So cores that share a clock limit, or ranks that share a core or a GPU, show the
rate that a run will have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.bench.memory import peak_kernels
from ridgeline.bench.memory.declaration import PeakOptions
from ridgeline.bench.numba_threads import check_threads, numba_threads
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.reduce import together
from ridgeline.runtime.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.payload import Memory

_COLUMNS = (
    Column("dtype", "numbers"),
    Column("threads", "threads"),
    Column("least", "min GFLOP/s", 1e9),
    Column("mean", "mean GFLOP/s", 1e9),
    Column("most", "max GFLOP/s", 1e9),
    Column("total", "all GFLOP/s", 1e9),
    Column("slowest_rank", "slowest rank"),
)


class PeakWork(Protocol):
    """Multiply-adds of this rank. operations: of a `run`; n_threads: of Numba's that it uses."""

    operations: int
    n_threads: int

    def run(self) -> None:
        """Do all operations once."""

    def check(self) -> None:
        """Raise VerificationError unless the last `run` was right."""


def rate(operations: int, calls: int, seconds: float) -> float:
    """Return FLOP/s of `calls` calls with so many operations each."""
    return operations * calls / seconds


class MultiplyAdds:
    """The chains of this process, allocated and compiled: `run` does one call, `check` its result.

    dtype: float64 or float32; steps: multiply-adds of every chain in a call, at most bench.memory.peak_kernels.STEPS.
    """

    def __init__(self, dtype: DTypeLike, n_threads: int, steps: int = peak_kernels.STEPS) -> None:
        self.steps = steps
        self.operations = peak_kernels.operations(dtype, steps, n_threads)
        self.n_threads = n_threads
        self._start, self._increment = peak_kernels.starting_values(dtype, n_threads)
        self._out = np.zeros_like(self._start)
        self._call(1)

    def _call(self, steps: int) -> None:
        peak_kernels.multiply_add(self._start, 1, self._increment, steps, self._out)

    def run(self) -> None:
        """Do all multiply-adds once."""
        self._call(self.steps)

    def check(self) -> None:
        """Raise VerificationError unless the last `run` gave the closed form in every lane."""
        expected = peak_kernels.expected_values(self._start, self._increment, self.steps)
        wrong = np.flatnonzero(self._out != expected)
        if wrong.size:
            raise VerificationError(
                f"{wrong.size} of {expected.size} chains of {self.steps} multiply-adds ended wrong, the first with "
                f"{self._out.flat[wrong[0]]} in place of {expected.flat[wrong[0]]}: "
                f"this core computes wrongly; do not use it"
            )


def compile_peak() -> None:
    """Compile the kernels, or load them from the cache."""
    for dtype in peak_kernels.DTYPES:
        compile_kernels(peak_kernels.kernels(dtype))


def _sustained(work: PeakWork, seconds: float) -> float:
    """Return FLOP/s of calls one after another, as many as begin within `seconds`."""
    now, run = time.perf_counter, work.run
    calls = 0
    start = now()
    end = start + seconds
    while calls == 0 or now() < end:
        run()
        calls += 1
    return rate(work.operations, calls, now() - start)


def measure_peak_here(seconds: float = 0.1, dtype: DTypeLike = np.float64, n_threads: int = 1) -> float:
    """Return the FLOP/s that this process sustains for some seconds on n_threads threads. No communication.

    One call is some milliseconds long; the kernel is compiled, or loaded from the cache, before (ranks of one node
    call `compile_peak` in turn first). A core that is shared with another process shows as a lower rate. Raises
    ConfigError for an argument out of range, VerificationError if the result is not the closed form.
    """
    _check(n_threads, [dtype], seconds)
    with numba_threads(n_threads):
        work = MultiplyAdds(dtype, n_threads)
        found = _sustained(work, seconds)
    work.check()
    return found


def _check(n_threads: int, dtypes: Sequence[DTypeLike], seconds: float) -> None:
    check_threads(n_threads, f"{n_threads} threads per rank")
    for dtype in dtypes:
        if np.dtype(dtype) not in peak_kernels.DTYPES:
            raise ConfigError(f"the peak rate has no kernel for {np.dtype(dtype)}; use float64 or float32")
    if not seconds > 0:
        raise ConfigError(f"the peak rate over {seconds} s: it must be more than 0")


def measure_peak(comm: MPI.Comm, options: PeakOptions, memory: Memory = "host") -> Result:
    """Measure the rate of every rank, all at the same time. Collective over comm, the same result everywhere.

    memory: other than "host" for the GPU of every rank. A rank's figure is the best of its repeats; `total` is the
    sum over ranks in one repeat, the best of them. Raises ConfigError for an argument out of range,
    VerificationError on all ranks if one computed wrongly.
    """
    threads, seconds, repeats = options.threads, options.seconds, options.repeats
    dtypes = ("float64", "float32") if options.dtype == "both" else (options.dtype,)
    _check(threads, dtypes, seconds)
    if memory == "host":
        in_turn_per_node(comm, compile_peak)
        works: list[PeakWork] = [MultiplyAdds(dtype, threads) for dtype in dtypes]
        formula = f"2 x {peak_kernels.chains()} chains x lanes x steps x threads / t"
    else:
        works = in_turn_per_node(comm, lambda: _on_gpu(dtypes))
        formula = "2 x chains x steps x threads of the GPU / t"
    rates = {dtype: _rates(comm, work, seconds, repeats) for dtype, work in zip(dtypes, works)}
    return Result(
        benchmark="peak",
        pattern="every rank runs chains of fused multiply-adds in registers, all at the same time",
        formula=formula,
        statistic=f"best of {repeats} repeats of {seconds:g} s by rank; all: best sum of one repeat",
        ranks=comm.size,
        columns=_COLUMNS,
        rows=[{"dtype": dtype, "threads": threads} | _figures(found) for dtype, found in rates.items()],
        settings={"threads": threads, "seconds": seconds, "repeats": repeats, "memory": memory},
        extra={
            "by_rank": {dtype: found.max(axis=1).tolist() for dtype, found in rates.items()},
            "by_repeat": {dtype: found.tolist() for dtype, found in rates.items()},
        },
        plot=Plot("dtype", ("mean",), kind="bars", y_label="GFLOP/s of a rank", y_scale=1e9),
    )


def _on_gpu(dtypes: Sequence[str]) -> list[PeakWork]:
    from ridgeline.bench.memory.device_peak import DeviceMultiplyAdds  # numba-cuda is only needed here

    return [DeviceMultiplyAdds(dtype) for dtype in dtypes]


def _figures(rates: NDArray[np.float64]) -> dict[str, Any]:
    """Return the figures of rates [rank, repeat]: of the best of each rank, and of all together."""
    best = rates.max(axis=1)
    return {
        "least": float(best.min()),
        "mean": float(best.mean()),
        "most": float(best.max()),
        "total": float(rates.sum(axis=0).max()),
        "slowest_rank": int(best.argmin()),
    }


def _rates(comm: MPI.Comm, work: PeakWork, seconds: float, repeats: int) -> NDArray[np.float64]:
    """Return FLOP/s [rank, repeat], ranks started together by a barrier each time. Collective."""
    mine = []
    with numba_threads(work.n_threads):
        for _ in range(repeats):
            comm.Barrier()
            mine.append(_sustained(work, seconds))
    with together(comm):
        work.check()
    return np.array(comm.allgather(mine))
