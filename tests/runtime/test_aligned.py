"""Arrays that begin at a cache line."""

from itertools import product

import numpy as np

from ridgeline.runtime.aligned import CACHE_LINE, aligned_empty, aligned_zeros


def test_aligned_arrays() -> None:
    for make, shape, dtype in product([aligned_empty, aligned_zeros], [5, (3, 7), 0, (2, 0)], ["f4", "c16"]):
        case = f"{make.__name__}, {shape=}, {dtype=}"
        array = make(shape, dtype)
        assert array.shape == np.empty(shape).shape, case
        assert array.dtype == dtype, case
        assert array.flags.c_contiguous, case
        assert array.flags.writeable, case
        assert array.size == 0 or array.ctypes.data % CACHE_LINE == 0, case


def test_zeros_are_zero_and_other_alignments_are_kept() -> None:
    assert not aligned_zeros(1000, np.float64, 4096).any()
    assert aligned_zeros(1000, np.float64, 4096).ctypes.data % 4096 == 0
