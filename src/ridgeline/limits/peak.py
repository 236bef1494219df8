"""Peak: the rate of fused multiply-adds in registers alone, which the arithmetic units of every rank can reach.

Every thread runs `chains()` vectors y at the same time, y <- factor y + increment, one instruction each, none of
which waits for another. They are few enough to stay in the registers, and enough to hide the latency of a
multiply-add on every unit of known CPUs: Haswell has 5 cycles on 2 units, Skylake-SP, Zen 4 and Sapphire Rapids have
4 on 2, and Neoverse V1 has 4 on 4. The threads of a GPU do the same (limits_cuda.py). With factor 1 and whole numbers
no step rounds, so y after k steps is exactly start + k increment, and a step that is left out, done twice or done
wrong in any lane is detected.

An operation is an addition or a multiplication, so there are 2 for each multiply-add and lane. All ranks work at the
same time for the same seconds, so cores that share a clock limit, or ranks that share a core or a GPU, show the rate
that a run will have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import int64, prange, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

from ridgeline.jit.kernel import (
    Specialisation,
    check_threads,
    compile_kernels,
    kernel,
    numba_threads,
    specialise,
)
from ridgeline.jit.llvm import Lanes, data_pointer, element_type, host_vector_bytes
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from mpi4py import MPI

DTYPES = ("float64", "float32")
KERNEL_DTYPES = (np.float64, np.float32)
Rates = NDArray[np.float64]  # FLOP/s [rank, repeat]
STEPS = 2**20  # multiply-adds of a chain in one call: some milliseconds, and float32 still counts exactly
_INCREMENTS = 8  # lanes add 1 ... 8


def chains() -> int:
    """Return the number of independent vectors of a thread: 24 with 32 vector registers, 12 with 16."""
    x86 = llvmlite.binding.get_process_triple().startswith(("x86_64", "i686"))
    return 12 if x86 and host_vector_bytes() < 64 else 24


def lanes_of(dtype: DTypeLike) -> int:
    """Return the numbers in a vector register."""
    return host_vector_bytes() // np.dtype(dtype).itemsize


def starting_values(dtype: DTypeLike, n_threads: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return start [n_threads, chains * lanes], all different, and increment [lanes]: whole numbers of dtype."""
    width = chains() * lanes_of(dtype)
    start = np.arange(n_threads * width, dtype=dtype).reshape(n_threads, width)
    return start, (1 + np.arange(lanes_of(dtype)) % _INCREMENTS).astype(dtype)


def expected_values(start: NDArray[Any], increment: NDArray[Any], steps: int) -> NDArray[Any]:
    """Return start + steps increment, the result of `multiply_add` with factor 1 in closed form."""
    return (start.astype(np.int64) + steps * np.tile(increment, chains()).astype(np.int64)).astype(
        start.dtype
    )


def operations(dtype: DTypeLike, steps: int, n_threads: int) -> int:
    """Return the floating-point operations of one call: 2 a multiply-add."""
    return 2 * chains() * lanes_of(dtype) * steps * n_threads


@intrinsic
def _run_chains(typing, start, factor, increment, steps, out, offset):
    """Emit out[offset:] = `steps` multiply-adds of start[offset:], all chains in registers."""

    def codegen(context, builder, signature, args):
        width = lanes_of(np.dtype(str(start.dtype)))
        lanes = Lanes(builder, element_type(start.dtype), width)
        source, increments, target = (data_pointer(context, builder, signature, args, n) for n in (0, 2, 4))
        _, factor, _, steps, _, offset = args
        places = [builder.add(offset, ir.Constant(offset.type, k * width)) for k in range(chains())]
        multiplier, summand = lanes.splat(factor), lanes.load(increments, ir.Constant(offset.type, 0))
        registers = []
        for place in places:
            registers.append(cgutils.alloca_once(builder, lanes.type))
            builder.store(lanes.load(source, place).value, registers[-1])
        with cgutils.for_range(builder, steps):
            for register in registers:
                y = lanes.vector(builder.load(register))
                builder.store(lanes.fma(multiplier, y, summand).value, register)
        for place, register in zip(places, registers):
            lanes.vector(builder.load(register)).store(target, place)
        return context.get_dummy_value()

    return types.void(start, start.dtype, increment, steps, out, offset), codegen


@kernel(lambda T: (T[:, ::1], T, T[::1], int64, T[:, ::1]), parallel=True, nogil=True)
def _multiply_add(start, factor, increment, steps, out):
    flat_start, flat_out = start.reshape(-1), out.reshape(-1)
    for thread in prange(start.shape[0]):
        _run_chains(flat_start, factor, increment, steps, flat_out, thread * start.shape[1])


def kernels(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernel that `multiply_add` calls for arrays of dtype."""
    return specialise([_multiply_add], dtype)


def multiply_add(
    start: NDArray[Any], factor: float, increment: NDArray[Any], steps: int, out: NDArray[Any]
) -> None:
    """Compute, `steps` times in registers, out = factor out + increment, from out = start.

    Parameters
    ----------
    start, out : [n_threads, chains() * lanes_of(dtype)], a row for each thread; float64 or float32, contiguous
    increment : [lanes_of(dtype)], the same for every chain

    Raises ValueError for other shapes or dtypes.
    """
    shape, dtype = (len(out), chains() * lanes_of(out.dtype)), out.dtype
    if dtype not in KERNEL_DTYPES:
        raise ValueError(f"There is no multiply-add kernel for dtype {dtype}. Use float64 or float32.")
    if start.shape != shape or out.shape != shape or increment.shape != (lanes_of(dtype),):
        raise ValueError(
            f"start and out have the shapes {start.shape} and {out.shape}, which must be {shape}, and increment has "
            f"the shape {increment.shape}, which must be ({lanes_of(dtype)},)."
        )
    if {start.dtype, increment.dtype} != {dtype}:
        raise ValueError(
            f"start has the dtype {start.dtype}, increment {increment.dtype} and out {dtype}. Use one dtype."
        )
    _multiply_add(start, dtype.type(factor), increment, steps, out)


class PeakWork(Protocol):
    """Multiply-adds of this rank. operations: in a `run`. n_threads: how many threads of Numba it uses."""

    operations: int
    n_threads: int

    def run(self) -> None:
        """Do all operations once."""

    def check(self) -> None:
        """Raise VerificationError unless the last `run` was right."""


def rate(operations: int, calls: int, seconds: float) -> float:
    """Return the FLOP/s of `calls` calls of `operations` operations each."""
    return operations * calls / seconds


class MultiplyAdds:
    """The chains of this process, allocated and compiled: `run` does one call, `check` verifies its result.

    dtype: float64 or float32. steps: multiply-adds of every chain in a call, at most STEPS.
    """

    def __init__(self, dtype: DTypeLike, n_threads: int, steps: int = STEPS) -> None:
        self.steps = steps
        self.operations = operations(dtype, steps, n_threads)
        self.n_threads = n_threads
        self._start, self._increment = starting_values(dtype, n_threads)
        self._out = np.zeros_like(self._start)
        self._call(1)

    def _call(self, steps: int) -> None:
        multiply_add(self._start, 1, self._increment, steps, self._out)

    def run(self) -> None:
        """Do all multiply-adds once."""
        self._call(self.steps)

    def check(self) -> None:
        """Raise VerificationError unless the last `run` gave the closed form in every lane."""
        expected = expected_values(self._start, self._increment, self.steps)
        wrong = np.flatnonzero(self._out != expected)
        if wrong.size:
            raise VerificationError(
                f"{wrong.size} of {expected.size} chains of {self.steps} multiply-adds ended with a wrong result, "
                f"the first with {self._out.flat[wrong[0]]} instead of {expected.flat[wrong[0]]}. "
                f"This core computes wrongly. Do not use it."
            )


def compile_peak() -> None:
    """Compile the kernels, or load them from the cache."""
    for dtype in KERNEL_DTYPES:
        compile_kernels(kernels(dtype))


def _sustained(work: PeakWork, seconds: float) -> float:
    """Return the FLOP/s of consecutive calls, as many as begin within `seconds`."""
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

    One call takes some milliseconds. The kernel is compiled, or loaded from the cache, before; the ranks of a node
    should call `compile_peak` in turn first. A core that is shared with another process shows as a lower rate. Raises
    ConfigError for an argument out of range, VerificationError if the result differs from the closed form.
    """
    _check_arguments(n_threads, [dtype], seconds)
    with numba_threads(n_threads):
        work = MultiplyAdds(dtype, n_threads)
        sustained = _sustained(work, seconds)
    work.check()
    return sustained


def _check_arguments(n_threads: int, dtypes: Sequence[DTypeLike], seconds: float) -> None:
    check_threads(n_threads, f"{n_threads} threads per rank")
    for dtype in dtypes:
        if np.dtype(dtype) not in KERNEL_DTYPES:
            raise ConfigError(f"the peak rate has no kernel for {np.dtype(dtype)}. Use float64 or float32.")
    if not seconds > 0:
        raise ConfigError(f"the time of the peak rate is {seconds} s, but it must be more than 0.")


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
    _check_arguments(n_threads, dtypes, seconds)
    if device == "cpu":
        compile_on_nodes(comm, compile_peak)
        works: list[PeakWork] = [MultiplyAdds(dtype, n_threads) for dtype in dtypes]
    else:
        from ridgeline.limits.limits_cuda import DeviceMultiplyAdds  # numba-cuda is only needed here

        works = compile_on_nodes(comm, lambda: [DeviceMultiplyAdds(dtype) for dtype in dtypes])
    return {dtype: _rates(comm, work, seconds, repeats) for dtype, work in zip(dtypes, works)}


def best_total(rates: Rates) -> float:
    """Return the FLOP/s of all ranks: the sum over ranks in one repeat, for the best repeat."""
    return float(rates.sum(axis=0).max())


def _rates(comm: MPI.Comm, work: PeakWork, seconds: float, repeats: int) -> Rates:
    """Return the rates of all ranks, which a barrier starts at the same time in each repeat. Collective."""
    mine = []
    with numba_threads(work.n_threads):
        for _ in range(repeats):
            comm.Barrier()
            mine.append(_sustained(work, seconds))
    with errors_on_all_ranks(comm):
        work.check()
    return np.array(comm.allgather(mine))
