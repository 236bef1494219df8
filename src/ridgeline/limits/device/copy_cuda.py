"""Copy bandwidth of a GPU's memory: what bounds a sweep there, as STREAM does on CPUs."""

import time

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, kernel, load, store
from ridgeline.runtime.devices import simulated

THREADS = 8 if SIMULATED else 512
ITEMS_PER_THREAD = 4  # loads in flight before the first store
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


@kernel(THREADS)
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
    """Return the number of thread blocks of THREADS that copy n items."""
    return max(1, -(-n // (THREADS * ITEMS_PER_THREAD)))
