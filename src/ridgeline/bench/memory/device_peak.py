"""The rate of fused multiply-adds of a GPU: twin of `bench.memory.peak.MultiplyAdds`."""

from __future__ import annotations

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.bench.memory.cuda_peak import THREADS, expected_sums, multiply_add, operations
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import VerificationError

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
