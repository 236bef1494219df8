"""Multigrid and a step of wind on a GPU: their passes over memory against copy bandwidth, and the CPU's numbers.

    python benchmarks/gpu_wind.py [--sizes 128 256] [--seconds S] [--json FILE]

For one session on a machine with a GPU: is it right (the numbers of the CPU to rounding), how many copies of a field
does a V-cycle take at cells and at nodes, which share of copy bandwidth has a smoothing step, and how long is a step
of wind. One rank, float64. With NUMBA_ENABLE_CUDASIM=1 and --sizes 8 it shows, without a GPU, that everything runs.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from harness.device import measure_on_device, seconds_per_call
from harness.table import Row
from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.runtime.devices import simulated

DEFAULT_SECONDS = 0.3  # of one timed round
LEAST_SHARE = ">= 0.7"  # of copy bandwidth that a smoothing step reaches
ROUNDING = "<= 1e-10"
PERIODIC = ("periodic",) * 3
DT = 1e-3


def seconds_of(call: Callable[[], object], wait: Callable[[], object], seconds: float) -> float:
    """Return the seconds of a call; a simulated one is made once, because it takes seconds and means nothing."""
    if not simulated():
        return seconds_per_call(call, wait, seconds)
    begin = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - begin


def cubes(n: int) -> tuple[Any, Any]:
    """Return one block of n^3 cells."""
    return decompose(MPI.COMM_SELF, (n, n, n), ghost=3)


def random_field(block: Any, seed: int) -> BlockArray:
    """Return random numbers with mean 0 on a block, on the host."""
    field = BlockArray.allocate(block, "float64")
    field.owned[...] = np.random.default_rng(seed).standard_normal(block.shape_local)
    field.owned[...] -= field.owned.mean()
    return field


def on_device(field: BlockArray) -> BlockArray:
    """Return a copy in device memory."""
    from ridgeline.blocks.rows_cuda import device_field

    copy = device_field(field.block, "float64")
    copy.flat.copy_to_device(field.flat)
    return copy


def cells(n: int, copy: float, seconds: float) -> Iterator[Row]:
    """Measure V-cycles at cells, and a smoothing step."""
    from ridgeline.blocks.multigrid.cells import CellMultigrid
    from ridgeline.blocks.multigrid.device.cell_kernels_cuda import relax_cells
    from ridgeline.blocks.multigrid.device.cells_cuda import DeviceCellMultigrid
    from ridgeline.blocks.rows_cuda import layout_of, rows_launch
    from ridgeline.parallel.devices import select_device

    select_device(MPI.COMM_SELF)
    cartesian, block = cubes(n)
    b = random_field(block, 1)
    device = DeviceCellMultigrid(cartesian, block, (1.0,) * 3, PERIODIC)
    if n <= 128:  # larger ones take the host too long
        x, found = random_field(block, 2), on_device(random_field(block, 2))
        CellMultigrid(cartesian, block, (1.0,) * 3, PERIODIC).solve(b, x, 0.0, 2)
        device.solve(on_device(b), found, 0.0, 2)
        values = BlockArray(block, found.flat.copy_to_host(), x.origin, x.row_pitch, x.plane_pitch)
        error = float(np.abs(values.owned - x.owned).max() / np.abs(x.owned).max())
        yield Row(f"largest difference from the CPU after 2 V-cycles at cells: {n}^3", error, ROUNDING)
    right, left = on_device(b), on_device(random_field(block, 2))
    cycle = seconds_of(lambda: device.cycle(right, left, False), device.stream.synchronize, seconds)
    words = cycle * copy / (8 * n**3)
    note = f"{1e3 * cycle:.3f} ms; the kernels on the finest level alone read or write at least 16"
    yield Row(f"V-cycle at cells: words for each cell at copy bandwidth, {n}^3", words, "<= 32", note=note)
    grid = device._device
    shape = block.shape_local
    launch = (*rows_launch(shape), device.stream)
    arguments = layout_of(grid.x), (0, 0, 0), grid.ghost, (0, 0, 0), shape, 0.5, 0, *grid._coefficients()
    step = seconds_of(
        lambda: relax_cells[launch](grid.x.flat, grid.b.flat, *arguments, grid.spare.flat),
        device.stream.synchronize,
        seconds,
    )
    share = 3 * 8 * n**3 / step / copy
    yield Row(
        f"smoothing step at cells over device copy: {n}^3", share, LEAST_SHARE, note=f"{1e3 * step:.3f} ms"
    )
    device.free()


def nodes(n: int, copy: float, seconds: float) -> Iterator[Row]:
    """Measure V-cycles at nodes: a solve of four cycles less one of two."""
    from ridgeline.blocks.multigrid.device.nodes_cuda import DeviceNodalMultigrid

    cartesian, block = cubes(n)
    device = DeviceNodalMultigrid(cartesian, block, (1.0,) * 3, PERIODIC)
    b = on_device(random_field(block, 3))
    times = [
        seconds_of(
            lambda cycles=cycles: device.solve(b, None, 0.0, cycles), device.stream.synchronize, seconds
        )
        for cycles in (2, 4)
    ]
    cycle = (times[1] - times[0]) / 2
    words = cycle * copy / (8 * n**3)
    yield Row(
        f"V-cycle at nodes: words for each node at copy bandwidth, {n}^3", words, "<= 32",
        note=f"{1e3 * cycle:.3f} ms; the kernels on the finest level alone read or write at least 12",
    )  # fmt: skip
    device.free()


def flow(n: int) -> Any:
    """Return a convecting flow in a periodic box of n^3 cells."""
    from ridgeline.models.wind.problem import WindProblem

    return WindProblem(
        (n, n, n), (1 / n,) * 3, viscosity=1e-4, scalars=("theta",), diffusivities=(1e-4,),
        forces=(0.1, 0.0, 0.0, 0.0, 0.0, 1.0),
    )  # fmt: skip


def engine_of(n: int, kind: str) -> Any:
    """Return an engine with waves at its first step."""
    from ridgeline.models.contract import Context

    problem = flow(n)
    cartesian, block = cubes(n)
    if kind == "cuda":
        from ridgeline.models.wind.device.engine_cuda import CudaEngine

        engine: Any = CudaEngine(problem, cartesian, block, Context(MPI.COMM_SELF), tolerance=1e-6)
    else:
        from ridgeline.models.wind.engine_cpu import CpuEngine

        engine = CpuEngine(problem, cartesian, block, Context(MPI.COMM_SELF), tolerance=1e-6)
    engine.compile()
    z, y, x = np.meshgrid(*[2 * np.pi * (np.arange(n) + 0.5) / n] * 3, indexing="ij")
    starts = np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y), 0.2 * np.sin(x + y), np.cos(z) * np.cos(x)
    for field, start in zip(engine.fields, starts, strict=True):
        field.owned[...] = start
    engine.start()
    engine.guess_pressure(DT)
    return engine


def steps(n: int, copy: float, seconds: float) -> Iterator[Row]:
    """Measure steps of wind with one scalar, and compare one with the CPU's."""
    if n <= 128:
        engines = [engine_of(n, kind) for kind in ("cpu", "cuda")]
        for engine in engines:
            engine.advance(DT)
        expected, found = (np.array([each.owned for each in engine.fields]) for engine in engines)
        error = float(np.abs(found - expected).max() / np.abs(expected).max())
        yield Row(f"largest difference from the CPU after a step of wind: {n}^3", error, "<= 1e-6")
    engine = engine_of(n, "cuda")
    before = dict(engine.solves)
    step = seconds_of(lambda: engine.advance(DT), engine.stream.synchronize, seconds)
    counts = {
        name: (count.iterations - before[name].iterations) / max(count.solves - before[name].solves, 1)
        for name, count in engine.solves.items()
    }
    words = step * copy / (8 * n**3)
    note = f"{words:.0f} words for each cell at copy bandwidth; V-cycles of a step: {counts['mac']:.1f} MAC, "
    note += f"{counts['nodal']:.1f} nodal"
    yield Row(f"step of wind with one scalar, {n}^3", n**3 / step / 1e6, unit="Mcells/s", note=note)


def rows_of(sizes: list[int], seconds: float, copy: float) -> Iterator[Row]:
    """Measure everything."""
    for n in sizes:
        yield from cells(n, copy, seconds)
        yield from nodes(n, copy, seconds)
        yield from steps(n, copy, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[128, 256], help="cells in each direction (128 256)"
    )
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help=f"length of a round ({DEFAULT_SECONDS:g})"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args()
    if simulated() and min(options.sizes) > 8:
        parser.error("Kernels are simulated. Use --sizes 8.")
    title = "Multigrid and wind on a GPU"
    measure_on_device(
        title, "gpu_wind.py", lambda copy, device: rows_of(options.sizes, options.seconds, copy), options.json
    )


if __name__ == "__main__":
    main()
