"""Fused multiply-adds in the registers of a GPU: the twin of peak.py."""

from typing import Any

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, fma, kernel, load, store

THREADS = 4 if SIMULATED else 256
CHAINS = (
    8  # of a thread: more than the cycles that a multiply-add takes over the issue rate of a warp scheduler
)
UNROLL = 8  # steps between two looks at the loop counter


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
