"""Tests of the GPU engine and sweep in numba-cuda's simulator; test_cuda.py runs this file."""

from itertools import pairwise, product

import numpy as np
import pytest
from mpi4py import MPI
from numba import cuda

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.cuda_device import SIMULATED
from ridgeline.jit.cuda_random import device_key
from ridgeline.jit.random import PHILOX_7, PHILOX_10
from ridgeline.models.gray_scott.device import engine_cuda as engine_module
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.device.kernels_cuda import (
    Shape,
    device_coefficients,
    launch_shape,
    make_sweep,
)
from ridgeline.models.gray_scott.engine_cpu import CpuEngine
from ridgeline.models.gray_scott.estimate import PAD_ROWS, device_bytes
from ridgeline.models.gray_scott.physics import coefficients
from ridgeline.models.gray_scott.reference import advance
from ridgeline.runtime.context import Context
from ridgeline.runtime.devices import DeviceInfo
from ridgeline.runtime.errors import DeviceError
from simulator import DEVICE, ON_GPU

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"

SEED, STEPS = 2**40 + 7, 3
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


def coefficients_of(dtype, noise=0.0):
    return coefficients(0.2, 0.1, 0.02, 0.048, noise, 1.0, dtype)


def start_of(shape, dtype):
    rng = np.random.default_rng(1)
    return [rng.random(shape).astype(dtype) for _ in range(2)]


def make_engine(kind, shape, dtype, noise=0.0, periodic=True, generator=PHILOX_7):
    cartesian, block = decompose(MPI.COMM_SELF, shape, "auto", (periodic,) * 3)
    c = coefficients_of(dtype, noise)
    engine = kind(block, cartesian, c, (generator, SEED), dtype, Context(MPI.COMM_SELF))
    engine.compile()
    return engine


def run_engine(kind, start, *case, first_step=0, **more):
    engine = make_engine(kind, start[0].shape, start[0].dtype.type, *case, **more)
    for field, value in zip(engine.host(), start):
        field[:] = value
    engine.commit()
    for step in range(first_step, first_step + STEPS):
        assert engine.advance(step, 100) == 1
    return [field.copy() for field in engine.host()]


CASES = list(
    product([(5, 6, 7), (9, 4, 11), (3, 1, 2)], [np.float64, np.float32], [0.0, 0.1], ["periodic", "fixed"])
)


@pytest.mark.parametrize(("shape", "dtype", "noise", "boundary"), CASES)
def test_equals_the_reference(shape, dtype, noise, boundary) -> None:
    start = start_of(shape, dtype)
    found = run_engine(CudaEngine, start, noise, boundary == "periodic", first_step=11)
    expected = advance(*start, coefficients_of(dtype, noise), STEPS, boundary, SEED, first_step=11)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("shape", "dtype", "noise", "boundary"), CASES)
def test_equals_the_cpu_bit_for_bit(shape, dtype, noise, boundary) -> None:
    start = start_of(shape, dtype)
    case = noise, boundary == "periodic"
    np.testing.assert_array_equal(run_engine(CudaEngine, start, *case), run_engine(CpuEngine, start, *case))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_of_older_runs_are_those_of_the_cpu(dtype) -> None:
    start = start_of((3, 9, 5), dtype)
    found, expected, newer = (
        run_engine(kind, start, 0.1, generator=generator)
        for kind, generator in ((CudaEngine, PHILOX_10), (CpuEngine, PHILOX_10), (CpuEngine, PHILOX_7))
    )
    np.testing.assert_array_equal(found, expected)
    assert (found[0] != newer[0]).all()


# A block inside a 2 x 2 x 2 process grid, whose rows start in the middle of a group of four.
BLOCK = Block((9, 13, 85), (2, 2, 2), (1, 1, 1))


class Device:
    """Fields of BLOCK on the device, cut out of `start` on the whole grid; what is outside them NaN."""

    def __init__(self, dtype) -> None:
        self.layout = BlockArray.allocate(BLOCK, dtype)
        self.pad = PAD_ROWS * self.layout.row_pitch
        self.start = start_of(BLOCK.shape_global, dtype)
        places = [
            np.arange(first - 1, first + n + 1) % whole
            for first, n, whole in zip(BLOCK.offset_global, BLOCK.shape_local, BLOCK.shape_global)
        ]
        self.present = [self.upload(field[np.ix_(*places)]) for field in self.start]

    def upload(self, ghosted):
        field = BlockArray.allocate(BLOCK, self.layout.flat.dtype, np.nan)
        field.ghosted[:] = ghosted
        padding = np.full(self.pad, np.nan, field.flat.dtype)
        return cuda.to_device(np.concatenate([padding, field.flat, padding]))

    def sweep(self, boxes, key, noise, shape=None):
        """Sweep boxes into fields of NaN and return their ghosted cells."""
        dtype = self.layout.flat.dtype.type
        out = [self.upload(np.nan) for _ in range(2)]
        sweep = make_sweep(dtype, self.layout.row_pitch, shape)
        layout = self.layout.origin + self.pad, self.layout.plane_pitch
        c = device_coefficients(coefficients_of(dtype, noise))
        for box in boxes:
            launch = launch_shape(box, BLOCK.offset_global[1], Shape(64, 1), 1)
            sweep[launch.grid, launch.block](
                *self.present, layout, box, launch.planes, BLOCK.offset_global, (0, 0, 0), 5, key, c, *out,
            )  # fmt: skip
        results = []
        for field in out:
            self.layout.flat[:] = field.copy_to_host()[self.pad : -self.pad]
            results.append(self.layout.ghosted.copy())
        return results


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_any_boxes_make_the_same_bits_by_global_index_and_touch_nothing_else(dtype, noise) -> None:
    assert BLOCK.offset_global[1] % 4 == 3
    device = Device(dtype)
    key = device_key(SEED) if noise else ()
    nz, ny, nx = BLOCK.shape_local
    whole = device.sweep([(0, nz, 0, ny, 0, nx)], key, noise)
    expected = advance(*device.start, coefficients_of(dtype, noise), 1, "periodic", SEED, first_step=5)
    mine = tuple(slice(first, first + n) for first, n in zip(BLOCK.offset_global, BLOCK.shape_local))
    for field, on_whole_grid in zip(whole, expected):
        inner = field[1:-1, 1:-1, 1:-1]
        np.testing.assert_allclose(inner, on_whole_grid[mine], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        owned = np.zeros(field.shape, bool)
        owned[1:-1, 1:-1, 1:-1] = True
        np.testing.assert_array_equal(np.isfinite(field), owned)
    cuts = [[0, 1, nz - 1, nz], [0, 2, 3, ny], [0, 1, nx - 1, nx]]
    pairs = [list(pairwise(cut)) for cut in cuts]
    boxes = [(*z, *y, *x) for z, y, x in product(*pairs)]
    np.testing.assert_array_equal(device.sweep(boxes, key, noise), whole)
    part = device.sweep([(1, 3, 2, 5, 3, 9)], key, noise)
    inside = (slice(2, 4), slice(3, 6), slice(4, 10))
    for field, expected in zip(part, whole):
        np.testing.assert_array_equal(field[inside], expected[inside])
        assert np.isfinite(field).sum() == 2 * 3 * 6


def test_streaming_stores_store_the_same() -> None:
    device = Device(np.float64)
    nz, ny, nx = BLOCK.shape_local
    box = (0, nz, 0, ny, 0, nx)
    plain = device.sweep([box], (), 0.0)
    np.testing.assert_array_equal(device.sweep([box], (), 0.0, Shape(64, 1, streaming=True)), plain)


def test_other_launches_make_the_same_bits() -> None:
    results = []
    for shape in (None, Shape(64, 2), Shape(32, 1, waves=3)):
        engine = make_engine(CudaEngine, (5, 6, 7), np.float64, 0.1)
        for field, value in zip(engine.host(), start_of((5, 6, 7), np.float64)):
            field[:] = value
        engine.commit()
        if shape:
            engine.use(shape)
        engine.advance(0, 1)
        results.append([field.copy() for field in engine.host()])
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_noise_is_keyed_by_step_and_seed() -> None:
    start = start_of((4, 5, 6), np.float64)
    first = run_engine(CudaEngine, start, 0.1)
    assert (run_engine(CudaEngine, start, 0.1, first_step=1)[0] != first[0]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("periodic", [True, False])
def test_the_trivial_state_stays_put(dtype, periodic) -> None:
    start = [np.ones((4, 6, 5), dtype), np.zeros((4, 6, 5), dtype)]
    np.testing.assert_array_equal(run_engine(CudaEngine, start, 0.0, periodic), start)


def test_host_arrays_are_read_back_and_taken_over() -> None:
    engine = make_engine(CudaEngine, (4, 5, 6), np.float64)
    u, v = engine.host()
    u[:], v[:] = 0.5, 0.25
    engine.commit()
    engine.advance(0, 1)
    again = engine.host()
    assert np.shares_memory(u, again[0])
    assert (again[0] != 0.5).all()
    kept = again[0].copy(), again[1].copy()
    engine.commit()
    np.testing.assert_array_equal(engine.host(), kept)
    # What is written between two looks survives the first.
    u[1, 2, 3] = 7.0
    assert engine.host()[0][1, 2, 3] == 7.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cells_that_are_not_finite_are_counted_on_the_device(dtype) -> None:
    engine = make_engine(CudaEngine, (4, 5, 19), dtype)
    u, v = engine.host()
    u[:], v[:] = 1, np.finfo(dtype).max
    engine.commit()
    assert engine.nonfinite() == 0
    u[0, 0, 0], u[3, 4, 18], v[1, 2, 3] = np.nan, np.inf, -np.inf
    assert engine.nonfinite() == 0
    engine.commit()
    assert engine.nonfinite() == 3


def test_says_what_it_holds_and_sends() -> None:
    engine = make_engine(CudaEngine, (4, 5, 6), np.float32)
    assert engine.allocated() >= 4 * 6 * 7 * 8 * 4
    assert (engine.bytes_exchanged, engine.messages, engine.steps_per_sweep) == (0, 0, 1)
    assert DEVICE in engine.method


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_takes_the_memory_that_was_counted(dtype) -> None:
    engine = make_engine(CudaEngine, (4, 5, 6), dtype)
    assert 0 <= sum(device_bytes(engine._block, dtype, 2).values()) - engine.allocated() <= 4 * 64


def test_refuses_what_does_not_fit(monkeypatch) -> None:
    tiny = DeviceInfo(0, "Tiny GPU", (9, 0), 4096, 1)
    monkeypatch.setattr(engine_module, "select_device", lambda comm: tiny)
    with pytest.raises(
        DeviceError, match=r"GPU \(fields .* kB\), but 4\.096 kB of .* Tiny GPU are free\. Use more GPUs"
    ):
        make_engine(CudaEngine, (8, 8, 8), np.float64)
