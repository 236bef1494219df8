"""Nekbone on a GPU: is it right, its unknowns per second, its share of copy bandwidth, and what its parts take.

    python benchmarks/gpu_nekbone.py [--nx1 4 8 12 16] [--points P] [--seconds S] [--json FILE]

For one session on a machine with a GPU. The goal is that of issue "GPUs for every engine": 8e9 unknowns x
iterations / s at nx1 = 8 on an H100 or H200. Unknowns are points of the brick, copies counted once (CEED's BP5).
With NUMBA_ENABLE_CUDASIM=1 and --nx1 3 it shows, without a GPU, that everything runs.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.device import measure_on_device, seconds_per_call
from harness.table import Row
from ridgeline.runtime.devices import DeviceInfo, simulated

GOAL, GOAL_POINTS = 8e9, 8
DEFAULT_POINTS = 3e7  # of all elements: twenty times the second-level cache of an H200
ITERATIONS = 100
CHECK_POINTS, CHECK_ITERATIONS = 2e5, 50
REGISTERS = (64, 80, 96, 128, 168, 255)


def cube_of(points: float, n: int) -> int:
    """Return how many elements of n^3 points make a cube of about so many points.

    A number without factors would make a rod of one by one by all, most of whose points are shared by fewer elements.
    """
    return max(2, round((points / n**3) ** (1 / 3))) ** 3


def correctness(sizes: list[int]) -> Iterator[Row]:
    """Compare residuals and solution with the CPU's."""
    from mpi4py import MPI

    from ridgeline.bench.elements.nekbone import Nekbone

    for n in sizes:
        elements, iterations = (
            (4, 2) if simulated() else (max(8, round(CHECK_POINTS / n**3)), CHECK_ITERATIONS)
        )
        device = Nekbone(MPI.COMM_SELF, n, elements, "cuda-staged")
        host = Nekbone(MPI.COMM_SELF, n, elements)
        found, expected = (np.array(problem.solve(iterations)[1]) for problem in (device, host))
        wrong = abs(found - expected).max() / expected[0]
        yield Row(f"residuals unlike the CPU's, over the first one: nx1 = {n}", wrong, "<= 1e-9")
        wrong = abs(device.solution() - host.solution()).max() / abs(host.solution()).max()
        yield Row(f"solution unlike the CPU's: nx1 = {n}", wrong, "<= 1e-9")


def whole_runs(sizes: list[int], points: float, copy: float) -> Iterator[Row]:
    """Measure whole solves, as `ridgeline bench nekbone --device cuda` does."""
    from mpi4py import MPI

    from ridgeline.bench.elements.nekbone import run_nekbone

    for n in sizes:
        elements, iterations = (4, 1) if simulated() else (cube_of(points, n), ITERATIONS)
        figures = run_nekbone(MPI.COMM_SELF, n, elements, iterations, memory="cuda-staged")
        note = f"{elements} elements, {figures.rate / 1e9:.0f} GFLOP/s by Nekbone's count"
        goal = f">= {GOAL / 1e9:g}" if n == GOAL_POINTS else ""
        rate = figures.unknowns_rate / 1e9
        yield Row(f"unknowns x iterations: nx1 = {n}", rate, goal, unit="1e9/s", note=note)
        yield Row(f"Nekbone over device copy: nx1 = {n}", figures.bandwidth / copy)


def parts(n: int, points: float, copy: float, seconds: float) -> Iterator[Row]:
    """Measure the parts of an iteration, and the pass with other bounds of registers."""
    from mpi4py import MPI
    from numba import cuda

    from ridgeline.bench.elements.nekbone import Nekbone
    from ridgeline.elements.device.one_pass_cuda import make_iterate

    elements = 4 if simulated() else cube_of(points, n)
    problem = Nekbone(MPI.COMM_SELF, n, elements, "cuda-staged")
    problem.solve(1)
    points, operator = problem.ids.size, problem.operator

    def iteration() -> None:
        operator.steps._taken = 0  # there is room for the residuals of one iteration
        operator.steps.allreduce(operator.iterate())

    whole = seconds_per_call(iteration, cuda.synchronize, seconds)
    begin = time.perf_counter()
    for _ in range(5):
        iteration()
    launching = (time.perf_counter() - begin) / 5
    cuda.synchronize()
    yield Row(f"an iteration: nx1 = {n}", whole * 1e6, unit="us", note=f"{elements} elements")
    yield Row(f"launching an iteration over its time: nx1 = {n}", launching / whole, "<= 0.5")

    def combine() -> None:
        operator._shared.combine(operator._w, operator._rest, operator._combined)

    took = seconds_per_call(combine, cuda.synchronize, seconds)
    copies = (operator.bytes_per_iteration() - 112 * points) / took
    yield Row(f"sums of copies over device copy: nx1 = {n}", copies / copy, note=f"{took * 1e6:.0f} us")
    layout = operator._layout
    grid, block = layout.blocks(operator._count), (n, n, layout.elements)
    for registers in REGISTERS[-1:] if simulated() else REGISTERS:
        kernel = make_iterate(n, registers)

        def once(kernel=kernel) -> None:
            kernel[grid, block, operator._rest](
                operator._elements, 0, operator._count, operator._weights, operator._constants,
                operator._factors, operator._tables, operator._fields, operator._sums, 0,
            )  # fmt: skip

        took = seconds_per_call(once, cuda.synchronize, seconds)
        note = f"{took * 1e6:.0f} us"
        name = f"pass over device copy: nx1 = {n}, at most {registers} registers"
        yield Row(name, 112 * points / took / copy, note=note)


def operator(n: int, points: float, copy: float, seconds: float) -> Iterator[Row]:
    """Measure the stiffness operator alone (CEED's BK5)."""
    from numba import cuda

    from ridgeline.elements.device.tensor_cuda import derivative_tables, layout_of, make_stiffness_kernel
    from ridgeline.elements.quadrature import gll_derivative

    count = 4 if simulated() else cube_of(points, n)
    layout = layout_of(n)
    for dtype in (np.float64, np.float32):
        u, factors = (cuda.to_device(np.zeros(count * n**3 * words, dtype)) for words in (1, 6))
        out = cuda.device_array(count * n**3, dtype)
        tables = cuda.to_device(derivative_tables(gll_derivative(n)).astype(dtype).reshape(-1))
        kernel = make_stiffness_kernel(n, dtype)[layout.blocks(count), (n, n, layout.elements)]

        def once(kernel=kernel, arrays=(u, factors, tables, count, out)) -> None:
            kernel(*arrays)

        took = seconds_per_call(once, cuda.synchronize, seconds)
        rate = 8 * u.nbytes / took
        name = f"stiffness operator over device copy: nx1 = {n}, {np.dtype(dtype).name}"
        yield Row(name, rate / copy, note=f"{rate / 1e9:.0f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nx1", type=int, nargs="+", default=[4, 6, 8, 10, 12, 16])
    parser.add_argument(
        "--points", type=float, default=DEFAULT_POINTS, help="number of points of all elements together"
    )
    parser.add_argument("--seconds", type=float, default=0.3, help="duration of a timed round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    def rows_of(copy: float, device: DeviceInfo) -> Iterator[Row]:
        del device
        yield from correctness(arguments.nx1)
        yield from whole_runs(arguments.nx1, arguments.points, copy)
        for measure in (parts, operator):
            for n in arguments.nx1:
                yield from measure(n, arguments.points, copy, arguments.seconds)

    measure_on_device("Nekbone on a GPU", "gpu_nekbone.py", rows_of, arguments.json)


if __name__ == "__main__":
    main()
