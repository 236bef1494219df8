"""Copy device memory: the kernel whose bandwidth others are measured against."""

from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, kernel, load, store

THREADS = 8 if SIMULATED else 512
ITEMS_PER_THREAD = 4  # loads in flight before the first store


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
