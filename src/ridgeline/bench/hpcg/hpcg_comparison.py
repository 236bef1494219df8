"""`ridgeline bench hpcg-iteration`: three implementations of HPCG compared by the time of an iteration of CG.

The implementations are the reference (plain CSR in natural order), the optimised one, and plain C laid out as the
official code. A study of it over ranks and boxes is Fig. 10 of Rizvi and Hale, "A Look at Communication-Intensive
Performance in Julia", Sec. IV.A, whose local boxes have 16^3, 32^3 and 64^3 points, with 1 to 16 ranks a node.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.geometry import HpcgGeometry, make_geometry
from ridgeline.bench.hpcg.hpcg_options import HpcgIterationOptions
from ridgeline.bench.hpcg.hpcg_run import compile_hpcg, require_memory_of_box
from ridgeline.bench.hpcg.hpcg_settings import box_of
from ridgeline.bench.hpcg.implementation import Implementation
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.plain_c import PlainC, PlainCUnavailable
from ridgeline.bench.hpcg.problem import HpcgLevel, generate_problem, level_sizes
from ridgeline.bench.hpcg.rating import count_flops
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.errors import VerificationError

PLAIN_C = "c"
_MAKERS: dict[str, Callable[[MPI.Comm, HpcgLevel], Implementation]] = {
    "reference": ReferenceImplementation,
    "optimised": OptimisedImplementation,
}
_COMPARED = 1e-6  # scaled residuals above this must agree; below it, rounding differs on thin boxes
_AGREEMENT = 1e-6  # largest relative difference

Solve = Callable[[], list[float]]  # solves from zero and returns the scaled residual after each iteration

COLUMNS = (
    Column("implementation", "implementation"),
    Column("process_grid", "process grid"),
    Column("box", "box per rank"),
    Column("seconds", "ms/iteration", 1e-3, ".3f"),
    Column("median", "median ms", 1e-3, ".3f"),
    Column("flops", "GFLOP/s", 1e9),
    Column("speedup", "over reference"),
    Column("residual", "residual", form=".2e"),
)


def measure_iteration(
    comm: MPI.Comm, options: HpcgIterationOptions, progress: Phases | None = None
) -> Result:
    """Time CG in each implementation on all ranks. Collective over comm.

    Plain C is left out, with a note, where there is no compiler.

    Raises
    ------
    ConfigError : on all ranks, for what HPCG's rules or the memory do not allow
    VerificationError : if the residuals of the implementations differ by more than rounding
    """
    geometry = make_geometry(comm.size, comm.rank, *box_of(options), options.npx, options.npy, options.npz)
    require_memory_of_box(comm, geometry)
    progress = progress or silent()
    progress.begin("compiling")
    compile_hpcg(comm, threads=1)
    progress.begin("set-up")
    level, right_side, _ = generate_problem(comm, geometry)
    solves: dict[str, Solve] = {}
    notes = []
    for name in options.implementations:
        if name == PLAIN_C:
            try:
                solves[name] = _solve_in_c(comm, geometry, options.iterations)
            except PlainCUnavailable as reason:
                notes.append(f"Plain C is left out: {reason}.")
        else:
            solves[name] = _solve(_MAKERS[name](comm, level), right_side, options.iterations)
    progress.begin(f"{len(solves)} implementations, {options.repeats} solves each")
    seconds, histories = _take_turns(comm, solves, options.repeats)
    where = f"{_by(geometry.local)} on {geometry.size} ranks"
    compare_histories(histories, where)
    work = count_flops(level_sizes(level), 1, options.iterations).total / options.iterations
    rows: list[dict[str, Any]] = []
    for implementation, solve_seconds in seconds.items():
        times = [one_solve / options.iterations for one_solve in solve_seconds]
        rows.append(
            {
                "implementation": implementation,
                "process_grid": _by((geometry.npx, geometry.npy, geometry.npz)),
                "box": _by(geometry.local),
                "rows": geometry.total_rows,
                "seconds": min(times),
                "median": float(np.median(times)),
                "flops": work / min(times),
                "residual": histories[implementation][-1],
            }
        )
    reference = next((row["seconds"] for row in rows if row["implementation"] == "reference"), None)
    for row in rows:
        row["speedup"] = reference / row["seconds"] if reference else None
    return _make_result(comm, options, rows, notes)


def compare_histories(histories: dict[str, list[float]], what: str) -> None:
    """Raise VerificationError unless the scaled residuals of all implementations decrease and agree to rounding.

    histories: for each implementation, the scaled residual after each iteration of a solve of the same problem.
    """
    for name, residuals in histories.items():
        if not (math.isfinite(residuals[-1]) and residuals[-1] < 1.0):
            raise VerificationError(
                f"{what}: the residual of the {name} implementation became {residuals[-1]:g} times the first one, "
                "but CG must reduce it."
            )
    (first, expected), *others = histories.items()
    for name, residuals in others:
        for k, (a, b) in enumerate(zip(expected, residuals, strict=True)):
            if a > _COMPARED and not abs(a - b) <= _AGREEMENT * a:
                raise VerificationError(
                    f"{what}: scaled residual {k} is {b:.9g} in the {name} implementation and "
                    f"{a:.9g} in the {first} implementation. They must agree to {_AGREEMENT:g}, because the "
                    "arithmetic is the same."
                )


def _solve_in_c(comm: MPI.Comm, geometry: HpcgGeometry, iterations: int) -> Solve:
    peer = PlainC(comm, geometry.local, (geometry.npx, geometry.npy, geometry.npz))
    return lambda: peer.cg(iterations, 0.0)[0][1:]


def _solve(implementation: Implementation, right_side: NDArray[np.float64], iterations: int) -> Solve:
    b, x = implementation.vector(right_side), implementation.vector()

    def solve() -> list[float]:
        x.values.fill(0.0)
        return implementation.cg(b, x, iterations, 0.0).history

    return solve


def _take_turns(
    comm: MPI.Comm, solves: dict[str, Solve], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the seconds of each solve on its slowest rank, one for warm-up left out, and the last residuals."""
    seconds: dict[str, list[float]] = {name: [] for name in solves}
    histories: dict[str, list[float]] = {}
    for turn in range(repeats + 1):
        names = list(solves)
        for name in names if turn % 2 == 0 else reversed(names):
            comm.Barrier()
            start = time.perf_counter()
            histories[name] = solves[name]()
            mine = time.perf_counter() - start
            if turn:
                seconds[name].append(comm.allreduce(mine, MPI.MAX))
    return seconds, {name: histories[name] for name in solves}


def _by(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))


def _make_result(
    comm: MPI.Comm, options: HpcgIterationOptions, rows: list[dict[str, Any]], notes: list[str]
) -> Result:
    layout = find_layout(comm)
    return Result(
        benchmark="HPCG, one iteration",
        pattern=f"{options.iterations} iterations of CG preconditioned by a V-cycle of 4 levels",
        formula="ms/iteration: t = time of a solve / its iterations; GFLOP/s = operations of all ranks, as HPCG "
        "counts them, / t; residual = ||r|| / ||r0|| after the last iteration",
        statistic=f"t of the slowest rank, best of {options.repeats} solves; the implementations take turns",
        ranks=comm.size,
        nodes=layout.n_nodes,
        columns=COLUMNS,
        rows=rows,
        settings={"iterations": options.iterations, "repeats": options.repeats},
        notes=notes,
        plot=Plot("implementation", ("seconds",), kind="bars", y_label="ms per CG iteration", y_scale=1e-3),
    )
