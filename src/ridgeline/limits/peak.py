"""Peak: the rate of fused multiply-adds that the arithmetic units of every rank reach, memory left aside.

Every thread runs independent chains of multiply-adds in vector registers (peak_kernels.py), and so do the threads of
a GPU (device/peak_cuda.py). An operation is an addition or a multiplication: 2 a multiply-add and lane. All ranks
work at the same time for the same seconds. So cores that share a clock limit, or ranks that share a core or a GPU,
show the rate that a run will have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import compile_kernels
from ridgeline.jit.numba_threads import check_threads, numba_threads
from ridgeline.limits import peak_kernels
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

DTYPES = ("float64", "float32")
Rates = NDArray[np.float64]  # FLOP/s [rank, repeat]


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

    dtype: float64 or float32; steps: multiply-adds of every chain in a call, at most limits.peak_kernels.STEPS.
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


def measure_peak_rates(
    comm: MPI.Comm,
    n_threads: int,
    seconds: float,
    repeats: int,
    dtypes: Sequence[str] = DTYPES,
    device: str = "cpu",
) -> dict[str, Rates]:
    """Measure the rate of every rank for each dtype, all ranks at the same time. Collective, the same everywhere.

    device: "cpu" for n_threads threads of every rank, "cuda" for its GPU. seconds: of each repeat. Raises ConfigError
    for an argument out of range, VerificationError on all ranks if one computed wrongly.
    """
    _check(n_threads, dtypes, seconds)
    if device == "cpu":
        in_turn_per_node(comm, compile_peak)
        works: list[PeakWork] = [MultiplyAdds(dtype, n_threads) for dtype in dtypes]
    else:
        works = in_turn_per_node(comm, lambda: _on_gpu(dtypes))
    return {dtype: _rates(comm, work, seconds, repeats) for dtype, work in zip(dtypes, works)}


def best_total(rates: Rates) -> float:
    """Return the FLOP/s of all ranks together: the sum over ranks in one repeat, the best of them."""
    return float(rates.sum(axis=0).max())


def _on_gpu(dtypes: Sequence[str]) -> list[PeakWork]:
    from ridgeline.limits.device.peak_cuda import DeviceMultiplyAdds  # numba-cuda is only needed here

    return [DeviceMultiplyAdds(dtype) for dtype in dtypes]


def _rates(comm: MPI.Comm, work: PeakWork, seconds: float, repeats: int) -> Rates:
    """Return the rates, ranks started together by a barrier each time. Collective."""
    mine = []
    with numba_threads(work.n_threads):
        for _ in range(repeats):
            comm.Barrier()
            mine.append(_sustained(work, seconds))
    with errors_on_all_ranks(comm):
        work.check()
    return np.array(comm.allgather(mine))
