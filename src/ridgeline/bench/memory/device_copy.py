"""Copy bandwidth of a GPU's memory: what bounds a sweep there, as STREAM does on CPUs."""

import time

import numpy as np
from numba import cuda

from ridgeline.bench.memory.cuda_copy import THREADS, copy, grid_of
from ridgeline.runtime.devices import simulated

ITEMS = 2**25  # float64: 256 MiB in either array, several times the caches of any GPU
SIMULATED_ITEMS = 256
COPIES = 10  # between two looks at the clock
ROUNDS = 5


def measure_device_copy() -> float:
    """Return the copy bandwidth of the current device in B/s, bytes read plus bytes written.

    The better of the driver's copy and our kernel's, each the best of ROUNDS.
    """
    n = SIMULATED_ITEMS if simulated() else ITEMS
    source, target = cuda.to_device(np.ones(n)), cuda.device_array(n)
    stream = cuda.stream()

    def by_driver() -> None:
        target.copy_to_device(source, stream=stream)

    def by_kernel() -> None:
        copy[grid_of(n), THREADS, stream](source, target)

    best = 0.0
    for once in (by_driver, by_kernel):
        once()
        stream.synchronize()
        for _ in range(1 if simulated() else ROUNDS):
            begin = time.perf_counter()
            for _ in range(COPIES):
                once()
            stream.synchronize()
            best = max(best, 2 * source.nbytes * COPIES / (time.perf_counter() - begin))
    return best
