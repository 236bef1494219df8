"""How passes over vectors are launched, and sums of thread blocks' parts, brought to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.krylov.device.kernels_cuda import MOST_BLOCKS, THREADS, fold_sums


class BlockSums:
    """Launches over `points` points, and memory for the parts of sums and for sums; it grows with their number."""

    def __init__(self, points: int, stream: Any = 0) -> None:
        self.blocks = max(1, min(MOST_BLOCKS, -(-points // THREADS)))
        self.stream, self._most = stream, 0

    def on(self, fields: int, kernel: Any) -> Any:
        """Return a kernel to be called for `fields` fields, on the stream."""
        return kernel[fields * self.blocks, THREADS, self.stream]

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
