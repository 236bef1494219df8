"""The Gray-Scott sweep on a GPU: its fraction of copy bandwidth, as shipped and with other launches.

    python benchmarks/gpu.py [--sizes 256 512] [--dtypes float64 float32] [--seconds S] [--json FILE]

For one session on a machine with a GPU: is it right (bit for bit the CPU's), how fast is it, which launch is the
fastest there, are two steps a launch faster than one, what does one variable alone cost, and what do faces and
launches cost. `gray_scott.py --only gpu` measures whole
runs of the model instead.
With NUMBA_ENABLE_CUDASIM=1 and --sizes 8 it shows, without a GPU, that everything runs.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from harness.device import measure_on_device, seconds_per_call
from harness.table import Row
from ridgeline.runtime.devices import DeviceInfo, simulated

NOISE = 0.01
CHECK_STEPS = 21
TURNS = 5  # of one and of two steps a launch
TILES = (
    (32, 8, 2),
    (32, 6, 2),
    (32, 10, 2),
    (32, 12, 2),
    (64, 4, 2),
    (64, 5, 1),
    (64, 8, 1),
)
DEFAULT_SECONDS = 0.3  # of one timed round


def make_engine(kind: Any, n: int, dtype: Any, noise: float) -> Any:
    """Return an engine for n^3 cells that holds a random state between 0 and 1, the same for the same n."""
    from mpi4py import MPI

    from ridgeline.blocks.cartesian import decompose
    from ridgeline.jit.random import PHILOX_7
    from ridgeline.models.gray_scott.physics import coefficients
    from ridgeline.runtime.context import Context

    cartesian, block = decompose(MPI.COMM_SELF, (n, n, n), "auto", (True,) * 3)
    c = coefficients(0.2, 0.1, 0.02, 0.048, noise, 1.0, dtype)
    engine = kind(block, cartesian, c, (PHILOX_7, 42), dtype, Context(MPI.COMM_SELF))
    engine.compile()
    rng = np.random.default_rng(7)
    for field in engine.host():
        for plane in field:
            plane[:] = rng.random(plane.shape, dtype=dtype)
    engine.commit()
    return engine


def seconds_of_step(engine: Any, steps: int, seconds: float) -> float:
    """Return the seconds of a step of an engine that takes so many a launch."""
    from numba import cuda

    return seconds_per_call(lambda: engine.advance(0, steps), cuda.synchronize, seconds) / steps


def fraction(engine: Any, n: int, dtype: Any, copy: float, seconds: float) -> tuple[float, str]:
    """Return least bytes of a step over its time, over the copy bandwidth, and both in words."""
    step = seconds_of_step(engine, 1, seconds)
    rate = 4 * np.dtype(dtype).itemsize * n**3 / step
    return rate / copy, f"{rate / 1e9:.0f} of {copy / 1e9:.0f} GB/s, {n**3 / step / 1e9:.1f} G cells/s"


def correctness(dtypes: list[str]) -> Iterator[Row]:
    """Count the cells that differ from the CPU's after some steps of an odd grid."""
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
    from ridgeline.models.gray_scott.engine_cpu import CpuEngine

    n, steps = (7, 3) if simulated() else (61, CHECK_STEPS)
    for dtype in dtypes:
        for noise in (0.0, NOISE):
            found = []
            for kind, of_launch in ((CudaEngine, 1), (CudaEngine, 2), (CpuEngine, 1)):
                engine = make_engine(kind, n, np.dtype(dtype).type, noise)
                if of_launch == 2:
                    engine.set_steps_per_sweep(2)
                    engine.compile()
                step = 0
                while step < steps:
                    step += engine.advance(step, min(of_launch, steps - step))
                found.append([field.copy() for field in engine.host()])
            for of_launch, fields in enumerate(found[:2], 1):
                wrong = sum(int((a != b).sum()) for a, b in zip(fields, found[2]))
                name = f"cells unlike the CPU's after {steps} steps, {of_launch} a launch: {n}^3 {dtype}"
                yield Row(f"{name}, noise {noise:g}", float(wrong), "<= 0")


def speed(
    sizes: list[int], dtypes: list[str], copy: float, seconds: float, multiprocessors: int
) -> Iterator[Row]:
    """Measure steps as shipped, then with each other launch at the largest size."""
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
    from ridgeline.models.gray_scott.device.kernels_cuda import Shape

    for dtype in dtypes:
        real = np.dtype(dtype).type
        for n in sizes:
            for noise in (0.0, NOISE):
                engine = make_engine(CudaEngine, n, real, noise)
                figure, note = fraction(engine, n, real, copy, seconds)
                yield Row(
                    f"step over device copy: {n}^3 {dtype}, noise {noise:g}", figure, ">= 0.92", note=note
                )
                del engine
        n = max(sizes)
        yield from two_steps(sizes, dtype, copy, seconds, multiprocessors)
        engine = make_engine(CudaEngine, n, real, NOISE)
        for threads, blocks in ((512, 1), (512, 2), (256, 2), (256, 3), (256, 4), (1024, 1), (128, 4)):
            for streaming in (False, True):
                for march in (4, 8, 16, n):
                    shape = Shape(threads, blocks, streaming, march=march)
                    engine.use(shape)
                    figure, note = fraction(engine, n, real, copy, seconds)
                    yield Row(f"step over device copy: {n}^3 {dtype}, {shape}", figure, note=note)


def two_steps(
    sizes: list[int], dtype: str, copy: float, seconds: float, multiprocessors: int
) -> Iterator[Row]:
    """Measure two steps a launch against one, by turns on the same fields; then other tiles at the largest size."""
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
    from ridgeline.models.gray_scott.device.kernels_two_cuda import (
        SHARED_BYTES,
        TwoStepTile,
        bytes_per_cell,
        default_tile,
        two_step_launch,
    )

    real = np.dtype(dtype).type
    for n in sizes:
        tile = default_tile(dtype, (n, n, n))
        planes = two_step_launch((0, n, 0, n, 0, n), 0, tile, multiprocessors).planes
        moved = bytes_per_cell(tile, planes, dtype)
        for noise in (0.0, NOISE):
            engine = make_engine(CudaEngine, n, real, noise)
            engine.set_steps_per_sweep(2)
            engine.compile()
            of_launch: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(TURNS):
                for steps, found in of_launch.items():
                    engine.set_steps_per_sweep(steps)
                    found.append(seconds_of_step(engine, steps, seconds))
            one, two = min(of_launch[1]), min(of_launch[2])
            name = f"{n}^3 {dtype}, noise {noise:g}"
            ratios = sorted(a / b for a, b in zip(of_launch[1], of_launch[2]))
            note = f"{one * 1e6:.1f} and {two * 1e6:.1f} us a step"
            median = ratios[len(ratios) // 2]
            yield Row(f"one step a launch over two: {name}", one / two, median=median, note=note)
            note = f"{moved:.1f} B a cell and launch, if no cell is found in a cache twice"
            yield Row(
                f"two steps a launch over device copy: {name}", moved * n**3 / 2 / two / copy, note=note
            )
            del engine
    n = max(sizes)
    engine = make_engine(CudaEngine, n, real, NOISE)
    for threads in TILES[:1] if simulated() else TILES:
        tile = TwoStepTile(*threads)
        if tile.shared_bytes(dtype) > SHARED_BYTES:
            continue
        engine.set_steps_per_sweep(2, tile)
        engine.compile()
        step = seconds_of_step(engine, 2, seconds)
        yield Row(f"two steps a launch: {n}^3 {dtype}, {tile}", n**3 / step / 1e9, unit="G cells/s")


def launch_cost(dtype: str, seconds: float) -> Iterator[Row]:
    """Measure steps of a grid so small that only its launches take time: what a CUDA graph could save at most."""
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine

    n = 8
    engine = make_engine(CudaEngine, n, np.dtype(dtype).type, NOISE)
    step = seconds_of_step(engine, 1, seconds)
    yield Row(f"a launch, nearly alone: step of {n}^3 {dtype}", step * 1e6, unit="us")


def faces(n: int, dtypes: list[str], copy: float, seconds: float) -> Iterator[Row]:
    """Measure packing the two faces across each direction of u and v, in two layers with edges as well."""
    from numba import cuda

    from ridgeline.blocks.block import Block, BlockArray
    from ridgeline.blocks.halo_cuda import CudaPacker
    from ridgeline.jit.cuda_device import make_stream
    from ridgeline.models.gray_scott.estimate import exchange_plan

    for dtype in dtypes:
        for axis, layers in product(range(3), (1, 2)):
            grid, shape = [1, 1, 1], [n, n, n]
            grid[axis], shape[axis] = 3, 3 * n
            block = Block(
                (shape[0], shape[1], shape[2]), (grid[0], grid[1], grid[2]), (0, 0, 0), ghost=layers
            )
            plan = exchange_plan(block, dtype, 2, layers)
            host = BlockArray.allocate(block, dtype, 1.0)
            fields = [
                BlockArray(block, cuda.to_device(host.flat), host.origin, host.row_pitch, host.plane_pitch)
                for _ in range(2)
            ]
            stream = make_stream()
            packer = CudaPacker(plan, [fields], stream, device_buffers=True)
            packer.compile()
            took = seconds_per_call(partial(packer.pack, 0), stream.synchronize, seconds)
            rate = 2 * plan.bytes_sent / took
            note = f"{rate / 1e9:.0f} GB/s, {took * 1e6:.0f} us, launch and wait included"
            what = f"faces{' of two layers, and edges,' * (layers > 1)} across {'zyx'[axis]}"
            yield Row(f"packing {what} over device copy: {n}^3 {dtype}", rate / copy, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512], help="cells in each direction")
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), default=["float64", "float32"])
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="duration of a timed round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    def rows_of(copy: float, device: DeviceInfo) -> Iterator[Row]:
        from gpu_one_variable import one_variable

        sizes, dtypes, seconds = arguments.sizes, arguments.dtypes, arguments.seconds
        yield from correctness(dtypes)
        yield from speed(sizes, dtypes, copy, seconds, device.multiprocessors)
        yield from launch_cost(dtypes[0], seconds)
        yield from one_variable(max(sizes), dtypes, copy, seconds, device.multiprocessors)
        yield from faces(max(sizes), dtypes, copy, seconds)

    measure_on_device("The Gray-Scott sweep on a GPU", "gpu.py", rows_of, arguments.json)


if __name__ == "__main__":
    main()
