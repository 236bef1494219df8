"""The rate of fused multiply-adds in the registers of a GPU: twin of `limits.peak.MultiplyAdds`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.jit.cuda_device import SIMULATED, fma, kernel, load, store
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import VerificationError

THREADS = 4 if SIMULATED else 256
CHAINS = (
    8  # of a thread: more than the cycles that a multiply-add takes over the issue rate of a warp scheduler
)
UNROLL = 8  # steps between two looks at the loop counter
ROUNDS = 4096  # of a launch: some milliseconds, and float32 still counts exactly
SIMULATED_ROUNDS = 1
BLOCKS_PER_MULTIPROCESSOR = 8
_STARTS = 16  # different numbers that threads start from


class DeviceMultiplyAdds:
    """The chains of the current GPU, allocated and compiled: `run` does one launch and waits, `check` its result.

    dtype: float64 or float32.
    """

    n_threads = 1  # of the host

    def __init__(self, dtype: DTypeLike) -> None:
        here = cuda.get_current_device()
        self._blocks = 2 if simulated() else BLOCKS_PER_MULTIPROCESSOR * here.MULTIPROCESSOR_COUNT
        self._rounds = SIMULATED_ROUNDS if simulated() else ROUNDS
        self._one = np.dtype(dtype).type(1)
        self._start = (np.arange(self._blocks * THREADS) % _STARTS).astype(dtype)
        self._device_start = cuda.to_device(self._start)
        self._out = cuda.to_device(np.zeros_like(self._start))
        self._stream = cuda.stream()
        self.operations = operations(self._blocks, self._rounds)
        self.run()

    def run(self) -> None:
        """Do all multiply-adds once and wait for them."""
        launch = multiply_add[self._blocks, THREADS, self._stream]
        launch(self._device_start, self._one, self._one, self._rounds, self._out)
        self._stream.synchronize()

    def check(self) -> None:
        """Raise VerificationError unless the last `run` gave the closed form in every thread."""
        found = self._out.copy_to_host()
        expected = expected_sums(self._start, self._one, self._rounds)
        wrong = np.flatnonzero(found != expected)
        if wrong.size:
            raise VerificationError(
                f"{wrong.size} of {found.size} threads of the GPU ended their multiply-adds wrong, the "
                f"first with {found[wrong[0]]} in place of {expected[wrong[0]]}: "
                f"this GPU computes wrongly; do not use it"
            )


@kernel(THREADS)
def multiply_add(start, factor, increment, rounds, out):
    """Compute, UNROLL * rounds times, y = factor y + increment on chains y = start[thread] + 0 ... CHAINS - 1.

    start, out: [blocks * THREADS], one number a thread, float64 or float32, contiguous; factor, increment: of the
    same type; out: the sum of a thread's chains.
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
    return 2 * CHAINS * UNROLL * rounds * THREADS * blocks
