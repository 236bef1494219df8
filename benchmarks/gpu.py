"""The Gray-Scott sweep on a GPU: its fraction of copy bandwidth, as shipped and with other launches.

    python benchmarks/gpu.py [--sizes 256 512] [--dtypes float64 float32] [--seconds S] [--json FILE]

For one session on a machine with a GPU: is it right (bit for bit the CPU's), how fast is it, which launch is the
fastest there, what does one variable alone cost, and what do faces cost. `gray_scott.py --only gpu` measures whole
runs of the model instead.
With NUMBA_ENABLE_CUDASIM=1 and --sizes 8 it shows, without a GPU, that everything runs.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.device import measure_on_device, seconds_per_call
from harness.table import Row
from ridgeline.runtime.devices import DeviceInfo, simulated

NOISE = 0.01
CHECK_STEPS = 20
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


def fraction(engine: Any, n: int, dtype: Any, copy: float, seconds: float) -> tuple[float, str]:
    """Return least bytes of a step over its time, over the copy bandwidth, and both in words."""
    from numba import cuda

    step = seconds_per_call(lambda: engine.advance(0, 1), cuda.synchronize, seconds)
    rate = 4 * np.dtype(dtype).itemsize * n**3 / step
    return rate / copy, f"{rate / 1e9:.0f} of {copy / 1e9:.0f} GB/s, {n**3 / step / 1e9:.1f} G cells/s"


def correctness(dtypes: list[str]) -> Iterator[Row]:
    """Count the cells that differ from the CPU's after some steps of an odd grid."""
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
    from ridgeline.models.gray_scott.engine_cpu import CpuEngine

    n, steps = (7, 2) if simulated() else (61, CHECK_STEPS)
    for dtype in dtypes:
        for noise in (0.0, NOISE):
            found = []
            for kind in (CudaEngine, CpuEngine):
                engine = make_engine(kind, n, np.dtype(dtype).type, noise)
                for step in range(steps):
                    engine.advance(step, 1)
                found.append([field.copy() for field in engine.host()])
            wrong = sum(int((a != b).sum()) for a, b in zip(*found))
            name = f"cells unlike the CPU's after {steps} steps: {n}^3 {dtype}, noise {noise:g}"
            yield Row(name, float(wrong), "<= 0")


def speed(sizes: list[int], dtypes: list[str], copy: float, seconds: float) -> Iterator[Row]:
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
        engine = make_engine(CudaEngine, n, real, NOISE)
        for threads, blocks in ((512, 1), (512, 2), (256, 2), (256, 3), (256, 4), (1024, 1), (128, 4)):
            for streaming in (False, True):
                for waves in (1, 4, 16):
                    shape = Shape(threads, blocks, streaming, waves)
                    engine.use(shape)
                    figure, note = fraction(engine, n, real, copy, seconds)
                    yield Row(f"step over device copy: {n}^3 {dtype}, {shape}", figure, note=note)


def faces(n: int, dtypes: list[str], copy: float, seconds: float) -> Iterator[Row]:
    """Measure packing the two faces across each direction of u and v."""
    from numba import cuda

    from ridgeline.blocks.block import Block, BlockArray
    from ridgeline.blocks.halo_cuda import CudaPacker
    from ridgeline.blocks.halo_plan import HaloPlan
    from ridgeline.jit.cuda_device import make_stream

    for dtype in dtypes:
        for axis, name in enumerate("zyx"):
            grid, shape = [1, 1, 1], [n, n, n]
            grid[axis], shape[axis] = 3, 3 * n
            block = Block((shape[0], shape[1], shape[2]), (grid[0], grid[1], grid[2]), (0, 0, 0))
            plan = HaloPlan(block, 2, np.dtype(dtype).itemsize, wrap=(False,) * 3)
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
            yield Row(f"packing faces across {name} over device copy: {n}^3 {dtype}", rate / copy, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512], help="cells in each direction")
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), default=["float64", "float32"])
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="of a timed round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    arguments = parser.parse_args()

    def rows_of(copy: float, device: DeviceInfo) -> Iterator[Row]:
        from gpu_one_variable import one_variable

        sizes, dtypes, seconds = arguments.sizes, arguments.dtypes, arguments.seconds
        yield from correctness(dtypes)
        yield from speed(sizes, dtypes, copy, seconds)
        yield from one_variable(max(sizes), dtypes, copy, seconds, device.multiprocessors)
        yield from faces(max(sizes), dtypes, copy, seconds)

    measure_on_device("The Gray-Scott sweep on a GPU", "gpu.py", rows_of, arguments.json)


if __name__ == "__main__":
    main()
