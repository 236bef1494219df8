"""Arrays that begin at a cache line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ridgeline.runtime.aligned import CACHE_LINE, aligned_empty, aligned_zeros


@pytest.mark.parametrize("make", [aligned_empty, aligned_zeros])
@pytest.mark.parametrize("shape", [5, (3, 7), 0, (2, 0)])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_aligned_arrays(make: Callable[..., Any], shape: int | tuple[int, ...], dtype: str) -> None:
    array = make(shape, dtype)
    assert array.shape == np.empty(shape).shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.size == 0 or array.ctypes.data % CACHE_LINE == 0


def test_zeros_are_zero_and_other_alignments_are_kept() -> None:
    assert not aligned_zeros(1000, np.float64, 4096).any()
    assert aligned_zeros(1000, np.float64, 4096).ctypes.data % 4096 == 0
