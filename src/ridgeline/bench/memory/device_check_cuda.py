"""Kernels that check a GPU: patterns in its memory, STREAM's triad, and products of matrices with a known result.

The patterns are those of `memory_check`. A pattern is written, then read and inverted, then read; the wrong words are
counted. Products of matrices of small whole numbers are exact in float64, in any order of summation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from ridgeline.bench.memory.memory_check import ALL_ONES, LAST, ODD, ONE, word_of
from ridgeline.jit.cuda_device import SIMULATED, barrier, device_function, kernel, load, store

THREADS = 8 if SIMULATED else 256
TILE = 4 if SIMULATED else 16
MOST_BLOCKS = 2 if SIMULATED else 16384
NO_WORD = 2**62  # the index of the first wrong word where none is wrong

if SIMULATED:

    def _word(kind, key, i):
        """Return word i of a pattern."""
        return np.uint64(word_of(int(kind), int(key), int(i), 0))

else:

    @device_function
    def _word(kind, key, i):
        """Return word i of a pattern, as `memory_check` defines it."""
        if kind == 0:
            return key
        if kind == 1:
            return ONE << ((np.uint64(i) + key) & LAST)
        return (np.uint64(i) + key) * ODD


def blocks_for(n: int) -> int:
    """Return the number of thread blocks of THREADS that go over n items, several for each thread if n is large."""
    return max(1, min(MOST_BLOCKS, -(-n // THREADS)))


@kernel(THREADS)
def fill(words, kind, key, mask):
    """Write the pattern, xor mask, to words, uint64 [n]."""
    for i in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        store(words, i, _word(kind, key, i) ^ mask)


@kernel(THREADS)
def verify(words, kind, key, mask, invert, wrong, first):
    """Count in wrong[0] the words that are not the pattern xor mask, and keep the first in first[0].

    With invert = 1, the complement of what each word should be is written in its place. wrong, first: int64 [1].
    """
    for i in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        expected = _word(kind, key, i) ^ mask
        if load(words, i) != expected:
            cuda.atomic.add(wrong, 0, 1)
            cuda.atomic.min(first, 0, i)
        if invert == 1:
            store(words, i, ~expected)


@kernel(THREADS)
def triad(a, b, c, scalar):
    """Compute a = b + scalar c, all float64 [n]."""
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        store(a, i, load(b, i) + scalar * load(c, i))


@kernel(THREADS)
def fill_factors(left, right, n):
    """Write left(i, k) = i mod 7 + k mod 3 and right(k, j) = j mod 5 - k mod 2, column-major [n, n]."""
    for at in range(cuda.grid(1), n * n, cuda.gridsize(1)):
        row, column = at % n, at // n
        store(left, at, float(row % 7 + column % 3))
        store(right, at, float(column % 5 - row % 2))


@kernel(TILE * TILE)
def multiply(left, right, out, n):
    """Compute out = left right, column-major [n, n], n a multiple of TILE; a thread block for each tile of out."""
    of_left = cuda.shared.array((TILE, TILE), np.float64)
    of_right = cuda.shared.array((TILE, TILE), np.float64)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.x * TILE + x
    column = cuda.blockIdx.y * TILE + y
    total = 0.0
    for begin in range(0, n, TILE):
        of_left[y, x] = load(left, (begin + y) * n + row)
        of_right[y, x] = load(right, column * n + begin + x)
        barrier()
        for k in range(TILE):
            total += of_left[k, x] * of_right[y, k]
        barrier()
    store(out, column * n + row, total)


@kernel(THREADS)
def count_wrong_products(out, n, sums, wrong):
    """Count in wrong[0] the numbers of out that are not the product of the factors of `fill_factors`.

    sums: float64 [3], the sums over k of k mod 2, of k mod 3 and of their product.
    """
    for at in range(cuda.grid(1), n * n, cuda.gridsize(1)):
        row, column = float(at % n % 7), float(at // n % 5)
        expected = n * row * column - row * load(sums, 0) + column * load(sums, 1) - load(sums, 2)
        if load(out, at) != expected:
            cuda.atomic.add(wrong, 0, 1)


def sums_of_factors(n: int) -> np.ndarray:
    """Return the sums that `count_wrong_products` takes."""
    k = np.arange(n)
    return np.array([(k % 2).sum(), (k % 3).sum(), ((k % 2) * (k % 3)).sum()], np.float64)


def check_pattern(words: Any, kind: int, key: int, stream: Any) -> tuple[int, int]:
    """Return the wrong words of one pattern on the current GPU and the index of the first, -1 for none.

    words: uint64 [n] on the GPU. The pattern is written, read and inverted, read and inverted back, and read.
    """
    number, ones = np.uint64(key), np.uint64(ALL_ONES)
    wrong = cuda.to_device(np.zeros(1, np.int64), stream=stream)
    first = cuda.to_device(np.full(1, NO_WORD, np.int64), stream=stream)
    blocks = blocks_for(words.size)
    fill[blocks, THREADS, stream](words, kind, number, np.uint64(0))
    for mask, invert in ((np.uint64(0), 1), (ones, 1), (np.uint64(0), 0)):
        verify[blocks, THREADS, stream](words, kind, number, mask, invert, wrong, first)
    stream.synchronize()
    count, place = int(wrong.copy_to_host()[0]), int(first.copy_to_host()[0])
    return count, place if count else -1
