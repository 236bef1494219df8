"""How HPCG scales: time of an iteration of preconditioned CG over ranks, for several local boxes.

Weak scaling keeps the box of a rank. Strong scaling keeps the global box, that of the largest number of ranks, and
divides it. All numbers of ranks run in one job, one after the other, on the first ranks of the job; the others sleep.
The implementations (plain CSR in natural order, and the optimised one) take turns.

Source: Rizvi and Hale, "A Look at Communication-Intensive Performance in Julia", Sec. IV.A, Fig. 10 (local boxes of
16^3, 32^3 and 64^3, 1 to 16 ranks a node).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpcg.declaration import IMPLEMENTATIONS, HpcgScalingOptions
from ridgeline.bench.hpcg.geometry import (
    LEAST_SIZE,
    MULTIPLE,
    HpcgGeometry,
    Triple,
    make_geometry,
    process_grid,
)
from ridgeline.bench.hpcg.implementation import CGResult, Implementation
from ridgeline.bench.hpcg.measure import compile_hpcg, require_room
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.problem import HpcgLevel, generate_problem, level_sizes
from ridgeline.bench.hpcg.rating import count_flops
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.bench.sleeping_wait import sleeping_barrier
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.errors import ConfigError, VerificationError
from ridgeline.runtime.progress import Phases, silent
from ridgeline.runtime.threads import cores_available

Mode = Literal["weak", "strong"]

_MAKERS: dict[str, Callable[[MPI.Comm, HpcgLevel], Implementation]] = {
    "reference": ReferenceImplementation,
    "optimised": OptimisedImplementation,
}
_REST = 0.05  # seconds that ranks of no part sleep: looking more often takes cores from those who measure
_COMPARED = 1e-6  # residuals above this, scaled, must agree: below, rounding has its say on thin boxes
_AGREEMENT = 1e-6  # relative

COLUMNS = (
    Column("local", "local box"),
    Column("ranks", "ranks"),
    Column("process_grid", "process grid"),
    Column("box", "box of a rank"),
    Column("path", "implementation"),
    Column("seconds", "ms/iteration", 1e-3, ".3f"),
    Column("flops", "GFLOP/s", 1e9),
    Column("efficiency", "efficiency"),
    Column("speedup", "over reference"),
    Column("residual", "residual", form=".2e"),
)


def measure_scaling(comm: MPI.Comm, options: HpcgScalingOptions, progress: Phases | None = None) -> Result:
    """Time CG on every local box and number of ranks, in each implementation. Collective over comm.

    local: edges of cubes, the box of a rank (strong scaling: at the largest number of ranks); sweep: numbers of
    ranks, each the first of comm; repeats: timed solves, after one to warm up. Raises ConfigError, on all ranks,
    before anything is timed, for what HPCG's rules or the job do not allow. Raises it too for a box that does not fit
    into memory, when it is its turn; VerificationError if the implementations' residuals differ by more than
    rounding.
    """
    mode, implementations, iterations, repeats = (
        options.mode,
        options.implementations,
        options.iterations,
        options.repeats,
    )
    counts = sorted(set(options.sweep)) or default_sweep(comm.size)
    _check_options(comm, counts, implementations)
    plan = [(edge, *division) for edge in options.local for division in divisions(edge, mode, counts)]
    layout = find_layout(comm)
    progress = progress or silent()
    progress.begin("compiling")
    compile_hpcg(comm, threads=1)
    rows: list[dict[str, Any]] = []
    for number, (edge, n_ranks, box, grid) in enumerate(plan, 1):
        progress.begin(f"{edge}^3 on {n_ranks} rank{'s' * (n_ranks != 1)} ({number} of {len(plan)})")
        part = comm.Split(comm.rank < n_ranks, comm.rank)
        if comm.rank < n_ranks:
            geometry = make_geometry(n_ranks, part.rank, *box, *grid)
            for name, figures in _measure(part, geometry, implementations, iterations, repeats).items():
                rows.append({"local": f"{edge}^3", "ranks": n_ranks, **figures, "path": name})
        sleeping_barrier(comm, _REST)
        part.Free()
    add_ratios(rows, mode)
    return _make_result(comm, rows, layout.n_nodes, mode, iterations, repeats)


def default_sweep(size: int) -> list[int]:
    """Return 1, 2, 4, ... and the number of all ranks."""
    return sorted({2**k for k in range(size.bit_length())} | {size})


def divisions(edge: int, mode: Mode, counts: Sequence[int]) -> list[tuple[int, Triple, Triple]]:
    """Return (ranks, box of a rank, process grid), [x, y, z] each, for every number of ranks.

    edge: of the cube that a rank has (strong scaling: that it has with max(counts) ranks).
    Raises ConfigError for a box that HPCG's rules do not allow.
    """
    cube = edge, edge, edge
    make_geometry(1, 0, *cube)
    if mode == "weak":
        return [(n_ranks, cube, process_grid(n_ranks)) for n_ranks in counts]
    px, py, pz = process_grid(max(counts))
    return [(n_ranks, *divide_box((edge * px, edge * py, edge * pz), n_ranks)) for n_ranks in counts]


def divide_box(whole: Triple, n_ranks: int) -> tuple[Triple, Triple]:
    """Return (box of a rank, process grid) with the least surface of a box, the most ranks in x if equal.

    whole: points of the global box [x, y, z]. Raises ConfigError if no process grid gives boxes that the rules allow.
    """
    found: list[tuple[int, Triple, Triple]] = []
    for px, py in itertools.product(range(n_ranks, 0, -1), repeat=2):
        grid = px, py, n_ranks // (px * py)
        if math.prod(grid) != n_ranks or any(points % parts for points, parts in zip(whole, grid)):
            continue
        x, y, z = (points // parts for points, parts in zip(whole, grid))
        try:
            make_geometry(n_ranks, 0, x, y, z, *grid)
        except ConfigError:
            continue
        found.append((x * y + y * z + z * x, (x, y, z), grid))
    if not found:
        raise ConfigError(
            f"a global box of {_by(whole)} cannot be divided over {n_ranks} ranks by HPCG's rules (edges of at least "
            f"{LEAST_SIZE}, multiples of {MULTIPLE}, at most 1:8); leave {n_ranks} out of --sweep or take --mode weak"
        )
    _, box, grid = min(found, key=lambda one: one[0])
    return box, grid


def add_ratios(rows: list[dict[str, Any]], mode: Mode) -> None:
    """Add efficiency (to the fewest ranks of the same box and implementation) and speedup (over the reference)."""
    for row in rows:
        same_box = [other for other in rows if other["local"] == row["local"]]
        first = min((o for o in same_box if o["path"] == row["path"]), key=lambda other: other["ranks"])
        gain = 1.0 if mode == "weak" else first["ranks"] / row["ranks"]
        row["efficiency"] = gain * first["seconds"] / row["seconds"]
        peers = [o for o in same_box if (o["ranks"], o["path"]) == (row["ranks"], "reference")]
        row["speedup"] = peers[0]["seconds"] / row["seconds"] if peers else None


def compare_histories(histories: dict[str, Sequence[float]], what: str) -> None:
    """Raise VerificationError unless all implementations' scaled residuals fall, and agree to rounding.

    histories: by implementation, one number an iteration, of solves of the same problem.
    """
    (first, expected), *others = histories.items()
    for name, found in histories.items():
        if not (math.isfinite(found[-1]) and found[-1] < 1.0):
            raise VerificationError(
                f"{what}: the residual of the {name} implementation went to {found[-1]:g} times the first; "
                "CG must lessen it"
            )
    for name, found in others:
        for k, (a, b) in enumerate(zip(expected, found, strict=True)):
            if a > _COMPARED and not abs(a - b) <= _AGREEMENT * a:
                raise VerificationError(
                    f"{what}: scaled residual {k} is {b:.9g} in the {name} implementation and "
                    f"{a:.9g} in the {first} implementation; they must agree to {_AGREEMENT:g}, for "
                    "the arithmetic is the same"
                )


def _check_options(comm: MPI.Comm, counts: Sequence[int], implementations: Sequence[str]) -> None:
    for name in implementations:
        if name not in IMPLEMENTATIONS:
            raise ConfigError(f"implementation {name!r} is unknown; choose from {', '.join(IMPLEMENTATIONS)}")
    for number in counts:
        if not 1 <= number <= comm.size:
            raise ConfigError(
                f"a sweep with {number} ranks: the job has {comm.size}; choose 1 to {comm.size}"
            )


def _measure(
    comm: MPI.Comm, geometry: HpcgGeometry, implementations: Sequence[str], iterations: int, repeats: int
) -> dict[str, dict[str, Any]]:
    """Return figures by implementation: seconds of an iteration (best solve, slowest rank) and the like."""
    require_room(comm, geometry)
    grid = geometry.npx, geometry.npy, geometry.npz
    level, right_side, _ = generate_problem(comm, geometry)
    work = count_flops(level_sizes(level), 1, iterations).total
    made = {name: _MAKERS[name](comm, level) for name in implementations}
    vectors = {
        name: (implementation.vector(right_side), implementation.vector())
        for name, implementation in made.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in implementations}
    solved: dict[str, CGResult] = {}
    for turn in range(repeats + 1):
        for name, implementation in made.items() if turn % 2 == 0 else reversed(made.items()):
            b, x = vectors[name]
            x.values.fill(0.0)
            comm.Barrier()
            start = time.perf_counter()
            solved[name] = implementation.cg(b, x, iterations, 0.0)
            mine = time.perf_counter() - start
            if turn:
                seconds[name].append(comm.allreduce(mine, MPI.MAX) / iterations)
    where = f"{_by(geometry.local)} on {geometry.size} ranks"
    compare_histories({name: result.history for name, result in solved.items()}, where)
    for pair in vectors.values():
        for vector in pair:
            vector.free()
    return {
        name: {
            "process_grid": _by(grid),
            "box": _by(geometry.local),
            "rows": geometry.total_rows,
            "seconds": min(times),
            "median": float(np.median(times)),
            "flops": work / iterations / min(times),
            "residual": solved[name].history[-1],
        }
        for name, times in seconds.items()
    }


def _by(numbers: Sequence[int]) -> str:
    return " x ".join(map(str, numbers))


def _make_result(
    comm: MPI.Comm, rows: list[dict[str, Any]], n_nodes: int, mode: Mode, iterations: int, repeats: int
) -> Result:
    kept = (
        "the box of a rank is kept"
        if mode == "weak"
        else "the global box is kept, that of the most ranks, and divided"
    )
    against = "t(fewest) / t" if mode == "weak" else "t(fewest) ranks(fewest) / (t ranks)"
    cores = cores_available()
    crowded = any(row["ranks"] > cores * n_nodes for row in rows)
    return Result(
        benchmark=f"HPCG, {mode} scaling",
        pattern=f"{iterations} iterations of CG preconditioned by a V-cycle of 4 levels; {kept}",
        formula="ms/iteration: of a solve over its iterations, t; GFLOP/s: operations counted as HPCG counts them, "
        f"of all ranks, over t; efficiency: {against}; residual: ||r|| / ||r0|| after the last iteration",
        statistic=f"slowest rank, best of {repeats} solves, the implementations in turn",
        ranks=comm.size,
        nodes=n_nodes,
        columns=COLUMNS,
        rows=rows,
        settings={"mode": mode, "iterations": iterations, "repeats": repeats},
        notes=[f"more ranks than {cores} cores a node wait for cores, not for the network"]
        if crowded
        else [],
        plot=Plot(
            "ranks",
            ("seconds",),
            ("path", "local"),
            x_label="ranks",
            y_label="ms per CG iteration",
            y_scale=1e-3,
        ),
    )
