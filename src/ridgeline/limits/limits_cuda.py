"""The limits of a GPU: the copy bandwidth of its memory, and the rate of multiply-adds in its registers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.jit.cuda_device import SIMULATED, fma, kernel, load, store
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import VerificationError

COPY_THREADS = 8 if SIMULATED else 512
ITEMS_PER_THREAD = 4  # loads in flight before the first store
ITEMS = 2**25  # float64: 256 MiB in either array, several times the caches of any GPU
SIMULATED_ITEMS = 256
COPIES = 10  # between two looks at the clock
COPY_ROUNDS = 5

PEAK_THREADS = 4 if SIMULATED else 256
# Chains of a thread: more than the cycles of a multiply-add over the issue rate of a warp scheduler.
CHAINS = 8
UNROLL = 8  # steps between two tests of the loop counter
PEAK_ROUNDS = 4096  # in a launch: some milliseconds, and float32 still counts exactly
SIMULATED_PEAK_ROUNDS = 1
BLOCKS_PER_MULTIPROCESSOR = 8
_STARTS = 16  # different numbers that threads start from


def measure_device_copy() -> float:
    """Return the copy bandwidth of the current device in B/s, bytes read plus bytes written.

    It bounds a sweep there, as STREAM does on CPUs: the better of the driver's copy and of `copy`, each the best of
    COPY_ROUNDS.
    """
    n = SIMULATED_ITEMS if simulated() else ITEMS
    source, target = cuda.to_device(np.ones(n)), cuda.device_array(n)
    stream = cuda.stream()

    def by_driver() -> None:
        target.copy_to_device(source, stream=stream)

    def by_kernel() -> None:
        copy[grid_of(n), COPY_THREADS, stream](source, target)

    best = 0.0
    for copy_once in (by_driver, by_kernel):
        copy_once()
        stream.synchronize()
        for _ in range(1 if simulated() else COPY_ROUNDS):
            begin = time.perf_counter()
            for _ in range(COPIES):
                copy_once()
            stream.synchronize()
            best = max(best, 2 * source.nbytes * COPIES / (time.perf_counter() - begin))
    return best


@kernel(COPY_THREADS)
def copy(source, target):
    """Copy `source` to `target`: contiguous device arrays of one shape (n,) and dtype; launch `grid_of(n)`."""
    first = cuda.blockIdx.x * cuda.blockDim.x * ITEMS_PER_THREAD + cuda.threadIdx.x
    step = cuda.blockDim.x
    if first + (ITEMS_PER_THREAD - 1) * step < source.size:
        a, b = load(source, first), load(source, first + step)
        c, d = load(source, first + 2 * step), load(source, first + 3 * step)
        store(target, first, a)
        store(target, first + step, b)
        store(target, first + 2 * step, c)
        store(target, first + 3 * step, d)
    else:
        for i in range(first, source.size, step):
            store(target, i, load(source, i))


def grid_of(n: int) -> int:
    """Return the number of thread blocks of COPY_THREADS that copy n items."""
    return max(1, -(-n // (COPY_THREADS * ITEMS_PER_THREAD)))


class DeviceMultiplyAdds:
    """The chains of the current GPU, allocated and compiled: `run` does one launch, `check` verifies its result.

    dtype: float64 or float32. `limits.peak.MultiplyAdds` does the same on CPUs.
    """

    n_threads = 1  # of the host

    def __init__(self, dtype: DTypeLike) -> None:
        here = cuda.get_current_device()
        self._blocks = 2 if simulated() else BLOCKS_PER_MULTIPROCESSOR * here.MULTIPROCESSOR_COUNT
        self._rounds = SIMULATED_PEAK_ROUNDS if simulated() else PEAK_ROUNDS
        self._one = np.dtype(dtype).type(1)
        self._start = (np.arange(self._blocks * PEAK_THREADS) % _STARTS).astype(dtype)
        self._device_start = cuda.to_device(self._start)
        self._out = cuda.to_device(np.zeros_like(self._start))
        self._stream = cuda.stream()
        self.operations = operations(self._blocks, self._rounds)
        self.run()

    def run(self) -> None:
        """Do all multiply-adds once and wait for them."""
        launch = multiply_add[self._blocks, PEAK_THREADS, self._stream]
        launch(self._device_start, self._one, self._one, self._rounds, self._out)
        self._stream.synchronize()

    def check(self) -> None:
        """Raise VerificationError unless the last `run` gave the closed form in every thread."""
        sums = self._out.copy_to_host()
        expected = expected_sums(self._start, self._one, self._rounds)
        wrong = np.flatnonzero(sums != expected)
        if wrong.size:
            raise VerificationError(
                f"{wrong.size} of {sums.size} threads of the GPU ended their multiply-adds with a wrong result, the "
                f"first with {sums[wrong[0]]} instead of {expected[wrong[0]]}. "
                f"This GPU computes wrongly. Do not use it."
            )


@kernel(PEAK_THREADS)
def multiply_add(start, factor, increment, rounds, out):
    """Compute, UNROLL * rounds times, y = factor y + increment on chains y = start[thread] + 0 ... CHAINS - 1.

    start, out: [blocks * PEAK_THREADS], a number for each thread, float64 or float32, contiguous; out is the sum of
    a thread's chains. factor, increment: of the same type.
    """
    thread = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    a = load(start, thread)
    one = factor / factor
    b, c, d = a + one, a + one + one, a + one + one + one
    e, f, g, h = d + one, d + one + one, d + one + one + one, d + one + one + one + one
    for _ in range(rounds):
        for _ in range(UNROLL):
            a, b = fma(a, factor, increment), fma(b, factor, increment)
            c, d = fma(c, factor, increment), fma(d, factor, increment)
            e, f = fma(e, factor, increment), fma(f, factor, increment)
            g, h = fma(g, factor, increment), fma(h, factor, increment)
    store(out, thread, a + b + c + d + e + f + g + h)


def expected_sums(start: np.ndarray, increment: Any, rounds: int) -> np.ndarray:
    """Return the sums of `multiply_add` with factor 1, in closed form, of whole numbers that stay exact."""
    steps = rounds * UNROLL
    return (CHAINS * start + CHAINS * (CHAINS - 1) // 2 + CHAINS * steps * increment).astype(start.dtype)


def operations(blocks: int, rounds: int) -> int:
    """Return the floating-point operations of a launch: 2 a multiply-add."""
    return 2 * CHAINS * UNROLL * rounds * PEAK_THREADS * blocks
