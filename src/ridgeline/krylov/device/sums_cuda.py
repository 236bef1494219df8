"""Sums of thread blocks' parts, brought to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.krylov.device.kernels_cuda import THREADS, fold_sums


class BlockSums:
    """Memory for sums, and for the parts of each that `blocks` thread blocks leave; it grows with their number."""

    def __init__(self, blocks: int, stream: Any = 0) -> None:
        self.blocks, self.stream, self._most = blocks, stream, 0

    def parts(self, count: int) -> Any:
        """Return the memory for the parts of `count` sums."""
        if count > self._most:
            self._most = count
            self._parts = cuda.device_array(count * self.blocks, np.float64)
            self._sums = cuda.device_array(count, np.float64)
            self._found = cuda.pinned_array(count, np.float64)
        return self._parts

    def folded(self, count: int) -> NDArray[np.float64]:
        """Return `count` sums of the parts, in one order; the host waits for them."""
        fold_sums[count, THREADS, self.stream](self._parts, self.blocks, self._sums)
        self._sums[:count].copy_to_host(self._found[:count], stream=self.stream)
        if self.stream:
            self.stream.synchronize()
        return np.array(self._found[:count])
