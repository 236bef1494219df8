"""Arrays that begin at a cache line, so that a core loads and stores whole vectors fastest."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

CACHE_LINE = 64  # bytes


def aligned_empty(
    shape: int | tuple[int, ...], dtype: DTypeLike, alignment: int = CACHE_LINE
) -> NDArray[Any]:
    """Return an uninitialised C-ordered array whose address is a multiple of `alignment` bytes."""
    return _within(np.empty(_bytes_of(shape, dtype) + alignment, np.uint8), shape, dtype, alignment)


def aligned_zeros(
    shape: int | tuple[int, ...], dtype: DTypeLike, alignment: int = CACHE_LINE
) -> NDArray[Any]:
    """Return a C-ordered array of zeros whose address is a multiple of `alignment` bytes.

    As with np.zeros, its pages are not touched yet.
    """
    return _within(np.zeros(_bytes_of(shape, dtype) + alignment, np.uint8), shape, dtype, alignment)


def _bytes_of(shape: int | tuple[int, ...], dtype: DTypeLike) -> int:
    numbers = shape if isinstance(shape, int) else prod(map(int, shape))
    return int(numbers) * np.dtype(dtype).itemsize


def _within(
    memory: NDArray[np.uint8], shape: int | tuple[int, ...], dtype: DTypeLike, alignment: int
) -> NDArray[Any]:
    """Return the array of this shape in `memory`, which has `alignment` bytes more than it needs."""
    start = -memory.ctypes.data % alignment
    return memory[start : memory.size - alignment + start].view(dtype).reshape(shape)
