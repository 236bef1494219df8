"""How transforms within thread blocks lie on threads."""

import math

import numpy as np
import pytest

from ridgeline.fourier.device.block_plans import block_transform, column_shape, row_shape


def test_sizes_are_powers_of_two_times_eight_or_twelve() -> None:
    taken = [n for n in range(2, 1025) if block_transform(n) is not None]
    assert taken == sorted([8 * 2**a for a in range(8)] + [12 * 2**a for a in range(7)])
    for n in taken:
        plan = block_transform(n)
        assert math.prod(plan.radices) == n == plan.threads * plan.held
        assert all(plan.held % radix == 0 for radix in plan.radices)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_thread_blocks_have_room(dtype) -> None:
    itemsize = np.dtype(dtype).itemsize
    for n in (8, 12, 64, 256, 512, 768, 1024):
        for shape in (column_shape(n, dtype), column_shape(n, dtype, True), row_shape(n, dtype, 2)):
            assert shape.threads <= 1024
            assert shape.blocks * shape.threads <= 2048 or n < 64
        assert row_shape(n, dtype, 2).room * itemsize <= 48 * 1024
    assert row_shape(4096, dtype, 2) is None
    assert column_shape(10, dtype) is None
