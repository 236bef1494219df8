"""Turbulence on a GPU: each pass over memory against copy bandwidth, and a step against its transforms.

    python benchmarks/gpu_turbulence.py [--sizes 256 512] [--dtypes float64 float32] [--seconds S] [--json FILE]

For one session on a machine with a GPU: is it right (the CPU engine's numbers to rounding), what share of copy
bandwidth has each transform and each kernel, and how much longer than its calls of cuFFT is a step, with passes apart
and fused. One rank. With NUMBA_ENABLE_CUDASIM=1 and --sizes 8 it shows, without a GPU, that everything runs.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.device import measure_on_device, seconds_per_call
from harness.table import Row
from ridgeline.runtime.devices import DeviceInfo, simulated

if TYPE_CHECKING:
    from ridgeline.models.turbulence.device.device_estimate import Passes

DEFAULT_SECONDS = 0.3  # of one timed round
LEAST_SHARE, MOST_TIME = ">= 0.85", "<= 1.25"
DT = 1e-4
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


class Pass(NamedTuple):
    """One pass over memory: what puts it on the stream, and the bytes that it must read and write."""

    name: str
    call: Callable[[], object]
    n_bytes: int


def make_engine(
    n: int, dtype: str, scheme: str, dealias: str, passes: "Passes | None" = "apart", rotation: float = 0.0
) -> Any:
    """Return an engine of n^3 points with a random solenoidal start, the same for the same n.

    passes: over memory of the GPU; None for an engine on the CPU. rotation: the rate, about z.
    """
    from mpi4py import MPI

    from ridgeline.fourier.decomposition import PencilGrid
    from ridgeline.fourier.tuning import TransformTuning
    from ridgeline.models.turbulence.engine_cpu import CpuEngine
    from ridgeline.models.turbulence.problem import FlowParameters
    from ridgeline.models.turbulence.waves import Waves

    grid = PencilGrid((n, n, n), dealias, (1, 1), 0)
    flow = FlowParameters(0.01, scheme, waves=Waves((0.0, 0.0, rotation)))
    arguments = grid, (2 * np.pi,) * 3, MPI.COMM_SELF, dtype, flow
    if passes:
        from ridgeline.models.turbulence.device.engine_cuda import CudaEngine

        engine: Any = CudaEngine(*arguments)
        engine.products.choose(passes, engine.device.name)
    else:
        engine = CpuEngine(*arguments, TransformTuning(effort="estimate"))
    engine.compile()
    fill(engine.fields, engine.modes)
    engine.commit()
    return engine


def fill(fields: Any, modes: Any) -> None:
    """Set a solenoidal field of random modes that are those of a real one: u_z = 0, k_x u_x + k_y u_y = 0."""
    jz, jy, jx = modes.lines.expand()
    rng = np.random.default_rng(7)
    amplitude = rng.standard_normal(modes.n_modes) / (1.0 + jx * jx + jy * jy + jz * jz) ** 1.5
    amplitude[jx == 0] = 0  # there both modes of a pair are stored, which must be conjugate
    fields[0], fields[1], fields[2] = jy * amplitude, -jx * amplitude, 0


def correctness(dtypes: list[str]) -> Iterator[Row]:
    """Compare some steps with the CPU engine's."""
    n, steps = (8, 1) if simulated() else (48, 20)
    for dtype in dtypes:
        for scheme, dealias in (("rk2", "phase-shift"), ("rk4", "two-thirds")):
            engines = [make_engine(n, dtype, scheme, dealias, passes) for passes in (None, "apart", "fused")]
            for engine in engines:
                for _ in range(steps):
                    engine.advance(DT)
            expected, *others = (engine.fields for engine in engines)
            for passes, found in zip(("apart", "fused"), others):
                error = float(np.abs(found - expected).max() / np.abs(expected).max())
                case = f"{n}^3 {dtype}, {scheme}, {dealias}, passes {passes}"
                name = f"largest difference from the CPU's fields after {steps} steps: {case}"
                yield Row(name, error, f"<= {TOLERANCE[dtype]:g}")


def passes(engine: Any) -> Iterator[Pass]:
    """Yield the passes of a step: transforms of one variable, then kernels as a step launches them."""
    from ridgeline.fourier.device.kernels_cuda import collect_lines, collect_sums, spread_lines
    from ridgeline.fourier.device.layout import VariableBatch
    from ridgeline.models.turbulence.device.kernels_cuda import PHASES, PRODUCT_BLOCKS, PRODUCT_THREADS

    slabs, real = engine.slabs, engine._real.type
    layout, stream = slabs.layout, slabs.stream
    line, plane, lines = slabs.lines(0), slabs.planes(0), slabs.all_lines
    number = 2 * engine._real.itemsize
    kept = engine.modes.n_modes * number
    for name, plan, array in (
        ("transform in y", slabs.in_y, line),
        ("transform in z", slabs.in_z, plane),
        ("transform in x to points", slabs.rows_to_points, plane),
        ("transform in x to modes", slabs.rows_to_modes, plane),
    ):
        yield Pass(name, partial(plan.run, array, array, stream), 2 * array.nbytes)
    table = slabs.table(VariableBatch(0, 1))
    (kx, kz), launch = engine.products._k, slabs.launch
    second = slabs.planes(1)
    yield Pass(
        "lines to planes", lambda: spread_lines[launch](line, *table, plane), line.nbytes + plane.nbytes
    )
    yield Pass("planes to lines", lambda: collect_lines[launch](plane, *table, line), 2 * line.nbytes)
    yield Pass(
        "sums of planes to lines",
        lambda: collect_sums[launch](plane, second, kx, kz, *table, line),
        3 * line.nbytes,
    )
    nz, _, nx = engine.modes.shape
    n_rows = nz * layout.ny_local
    points = n_rows * nx * engine._real.itemsize
    per_cell = (real(1.0),) * 3
    for rated in (True, False):
        grid = min(n_rows, PRODUCT_BLOCKS), PRODUCT_THREADS, stream
        call = partial(
            engine.products._apart[rated][grid], nx, 2 * layout.pitch, n_rows, 2 * layout.plane_numbers, per_cell,
            engine.products._rates, slabs.all_planes,
        )  # fmt: skip
        yield Pass(f"products{', and rates' if rated else ''}", call, 8 * points)
    yield Pass("fields to lines", engine._load, 3 * (kept + line.nbytes))
    common = engine._sizes, engine._of_line, *engine._tables.device, PHASES
    c = (real(0.0),) * 6 + (real(1.0),) + (real(0.0),) * 5  # keeps the fields as they are
    state = engine._state
    for last in (False, True):
        call = partial(
            engine._advance_lines[last, False][engine._line_launch()],
            *common,
            c,
            real(0.0),
            lines,
            state,
            state,
            state,
        )
        moved = 4 * kept + 6 * kept + (0 if last else 3 * line.nbytes)
        yield Pass(f"{'last' if last else 'first'} substep of RK2", call, moved)


def transforms_of_a_step(engine: Any) -> None:
    """Put the transforms of an RK2 step on the stream, and nothing else."""
    slabs = engine.slabs
    line, plane, stream = slabs.lines(0), slabs.planes(0), slabs.stream
    for _ in range(2):
        for _ in range(3):
            slabs.in_y.run(line, line, stream, inverse=True)
            slabs.in_z.run(plane, plane, stream, inverse=True)
            slabs.rows_to_points.run(plane, plane, stream)
        for _ in range(5):
            slabs.rows_to_modes.run(plane, plane, stream)
            slabs.in_z.run(plane, plane, stream)
        for _ in range(4):
            slabs.in_y.run(line, line, stream)


def fused_passes(engine: Any) -> Iterator[Pass]:
    """Yield the passes that transform and do more, of an engine whose passes are fused."""
    from ridgeline.fourier.device.layout import VariableBatch

    slabs, products, real = engine.slabs, engine.products, engine._real
    layout, line, table = slabs.layout, slabs.lines(0), slabs.table(VariableBatch(0, 1))
    n_rows = engine.modes.shape[0] * layout.ny_local
    columns = n_rows * slabs.grid.truncation.n_columns * 2 * real.itemsize  # of planes, those that have modes
    z = slabs.z
    if products.fused.in_z:
        spread = partial(z.spread, line, table, 0, whole=not products.fused.in_x)
        yield Pass("lines to planes, with z", spread, line.nbytes + columns)
        yield Pass("planes to lines, with z", partial(z.collect, 0, table, line), columns + line.nbytes)
        sums = partial(z.collect_sum, (0, 1), products._k, table, line)
        yield Pass("sums of planes to lines, with z", sums, 2 * columns + line.nbytes)
    if products.fused.in_x:
        for rated in (True, False):
            rows = partial(products._multiply, rated, n_rows)
            yield Pass(f"products, with x{', and rates' if rated else ''}", rows, 8 * columns)


def quiet(engine: Any) -> None:
    """Set arrays to zero: they grow by repeated transforms, from zero they stay zero, and a device is as fast."""
    for array in (engine.slabs.all_lines, engine.slabs.all_planes):
        array.copy_to_device(np.zeros(array.shape, array.dtype))


def speed(n: int, dtype: str, copy: float, seconds: float) -> Iterator[Row]:
    """Measure a step over its transforms, and each pass: apart, fused, and with waves."""
    case = f"{n}^3 {dtype}"

    def rows_of(passes: Iterator[Pass], wait: Callable[[], object]) -> Iterator[Row]:
        for each in passes:
            rate = each.n_bytes / seconds_per_call(each.call, wait, seconds)
            note = f"{rate / 1e9:.0f} of {copy / 1e9:.0f} GB/s"
            yield Row(f"{each.name} over device copy: {case}", rate / copy, LEAST_SHARE, note=note)

    def step_of(engine: Any) -> float:
        return seconds_per_call(partial(engine.advance, DT), engine.slabs.stream.synchronize, seconds)

    engine = make_engine(n, dtype, "rk2", "phase-shift")
    wait = engine.slabs.stream.synchronize
    steps = {"apart": step_of(engine)}
    quiet(engine)
    transforms = seconds_per_call(partial(transforms_of_a_step, engine), wait, seconds)
    apart = list(rows_of(passes(engine), wait))
    del engine  # before there is another one on the device
    engine = make_engine(n, dtype, "rk2", "phase-shift", rotation=1.0)
    waves = step_of(engine) / steps["apart"]
    del engine
    engine = make_engine(n, dtype, "rk2", "phase-shift", "fused")
    wait = engine.slabs.stream.synchronize
    steps["fused"] = step_of(engine)
    quiet(engine)
    for name, step in steps.items():
        note = f"step {step * 1e3:.2f} ms, {n**3 / step / 1e9:.2f} G points/s"
        yield Row(
            f"RK2 step, passes {name}, over its transforms by cuFFT: {case}",
            step / transforms,
            MOST_TIME,
            note=note,
        )
    yield Row(f"RK2 step with rotation over one without: {case}", waves)
    yield from apart
    yield from rows_of(fused_passes(engine), wait)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512], help="points in each direction")
    parser.add_argument("--dtypes", nargs="+", choices=("float64", "float32"), default=["float64", "float32"])
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="duration of a timed round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    def rows_of(copy: float, device: DeviceInfo) -> Iterator[Row]:
        del device
        yield from correctness(arguments.dtypes)
        for dtype in arguments.dtypes:
            for n in arguments.sizes:
                yield from speed(n, dtype, copy, arguments.seconds)

    measure_on_device("Turbulence on a GPU", "gpu_turbulence.py", rows_of, arguments.json)


if __name__ == "__main__":
    main()
