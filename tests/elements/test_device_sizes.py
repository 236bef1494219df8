"""Which sizes of elements the kernels of GPUs take, and how they are launched. Nothing is compiled."""

from itertools import product

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from ridgeline.elements.device.advection_cuda import MOST_FINE, require_dealiasing
from ridgeline.elements.device.device_bytes import CARRIER_BYTES, advection_bytes
from ridgeline.elements.device.schwarz_cuda import require_kernels
from ridgeline.elements.device.schwarz_kernels_cuda import STATIC_SHARED, sweep_layout
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS, layout_of, shared_box
from ridgeline.runtime.errors import DeviceError


def test_thread_blocks_are_full_warps_or_nearly() -> None:
    for n in range(LEAST_POINTS, MOST_POINTS + 1):
        layout = layout_of(n)
        assert 32 <= layout.threads <= 256
        assert layout.threads / (-(-layout.threads // 32) * 32) > 0.85
        assert layout.blocks(7 * layout.elements) == 7
        assert layout.blocks(7 * layout.elements + 1) == 8
        assert layout.pitch % 2 == 1


@pytest.mark.parametrize("n", [LEAST_POINTS - 1, MOST_POINTS + 1])
def test_other_sizes_are_refused(n) -> None:
    with pytest.raises(ValueError, match=f"n = {n} .* {LEAST_POINTS} to {MOST_POINTS}"):
        layout_of(n)


def test_dealiasing_that_fits_and_its_memory() -> None:
    for n, m in [*((n, -(-3 * n // 2)) for n in range(LEAST_POINTS, MOST_POINTS + 1)), (8, 8), (16, 0)]:
        require_dealiasing(n, m)
    for n, m in [(8, 7), (8, MOST_FINE + 1)]:
        with pytest.raises(DeviceError, match=f"dealiasing {n} points on {m} Gauss points"):
            require_dealiasing(n, m)
    assert advection_bytes(8, 0, 1000, axis_aligned=False) == 0
    assert advection_bytes(8, 12, 10, axis_aligned=True) == 8 * 3 * 10 * 12**3
    assert advection_bytes(8, 12, 10, axis_aligned=False) == 8 * 12 * 10 * 12**3
    assert 0.99 < advection_bytes(8, 12, 10**6, axis_aligned=True) / CARRIER_BYTES <= 1


def test_lines_of_schwarz_sweeps_meet_different_banks_and_warps_are_full() -> None:
    for n in range(4, 19):
        box = shared_box((n, n, n))
        assert box.pitch % 2 == 1
        assert box.threads % 32 == 0
        assert n * n <= 2 * box.threads < n * n + 64


def test_elements_without_a_schwarz_kernel_are_refused() -> None:
    for shape in product((2, 9, 14, 15, 16), repeat=3):
        require_kernels(shape)
        for dtype in ("float32", "float64"):
            assert sweep_layout(shape, dtype).bytes <= STATIC_SHARED
    for shape in ((17, 8, 8), (8, 1, 8)):
        with pytest.raises(DeviceError, match=rf'{shape[0]}, {shape[1]}, .*from 1 to 15.*device = "cpu"'):
            require_kernels(shape)


def test_eigenvectors_of_the_largest_elements_of_float64_stay_in_global_memory() -> None:
    for shape, in_shared_memory, pitch in (
        ((16, 16, 16), False, 18),
        ((15, 15, 15), True, 17),
        ((15, 16, 16), False, 19),
    ):
        layout = sweep_layout(shape, "float64")
        assert (bool(layout.tables), layout.box.pitch) == (in_shared_memory, pitch)
