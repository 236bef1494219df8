"""`ridgeline bench hpl`: its tests, performance over progress, the official check and the share of DGEMM."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.declaration import HplOptions
from ridgeline.bench.hpl.hpl_dat import HplTest
from ridgeline.bench.hpl.plan import HplPlan, make_plan
from ridgeline.bench.hpl.products import ORDER, product_rate
from ridgeline.bench.hpl.progress_figures import COLUMNS, TEST_COLUMN, progress_plot
from ridgeline.bench.hpl.record import BROADCASTS, HplRun, HplSample, HplSettings, operations
from ridgeline.bench.hpl.result_lines import HplOutcome, output_lines
from ridgeline.bench.hpl.sizes import require_time
from ridgeline.bench.hpl.solve import solve_system
from ridgeline.bench.hpl.who_multiplies import who_multiplies
from ridgeline.bench.result import Result
from ridgeline.io.previous import check_file
from ridgeline.jit.numba_threads import check_threads
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Memory
from ridgeline.parallel.reduce import together
from ridgeline.runtime.progress import Phases


def measure_hpl(comm: MPI.Comm, options: HplOptions, progress: Phases, memory: Memory = "host") -> Result:
    """Run HPL and return its figures. Collective over comm, the same on all ranks.

    memory: what messages of GPUs could lie in; they go through host memory whatever it is, and the result says so.
    All that is raised is raised before a matrix is allocated: ConfigError for settings, a damaged file, or too little
    memory or time; DecompositionError for a grid of other ranks; OutputError for a file.
    """
    check_threads(options.threads, f"HPL on {options.threads} threads")
    plan = make_plan(comm, options)
    with together(comm):
        if comm.rank == 0:
            check_file(plan.output, "output file of HPL.dat")
    notes = list(plan.notes)
    progress.begin("matrix products")
    rate = _product_rate(comm, options, plan.tests[0].nb)
    require_time(sum(operations(test.n) for test in plan.tests), rate, options.time_limit, notes)
    dgemm = _product_rate(comm, options) if options.dgemm else None
    runs: list[HplRun] = []
    outcomes = []
    for number, test in enumerate(plan.tests, 1):
        which = f"test {number} of {len(plan.tests)}, " if number > 1 else f"{notes[-1]}; "
        progress.begin(f"{which}N = {test.n}")
        outcome, run = run_test(comm, test, plan, options, progress)
        outcomes.append(outcome)
        runs += [] if run is None else [run]
    if dgemm is not None:  # again, for a machine whose clock has changed meanwhile
        progress.begin("DGEMM")
        dgemm = max(dgemm, _product_rate(comm, options))
    result = make_result(plan, outcomes, runs, dgemm, comm.size)
    result.notes.append(who_multiplies(comm, memory, "panels"))
    result.notes += notes
    result.extra["lines"] = output_lines(outcomes, notes)
    result.extra["output"] = plan.output
    result.nodes = find_layout(comm).n_nodes
    return result


def _product_rate(comm: MPI.Comm, options: HplOptions, width: int | None = None) -> float:
    """Return the FLOP/s of DGEMM of all ranks, or of products of this width. Collective over comm."""
    if options.device == "cpu":
        return product_rate(comm, np.float64, options.threads, width or ORDER)
    from ridgeline.bench.hpl.device.products_cuda import device_product_rate  # numba-cuda is only needed here

    return device_product_rate(comm, width)


def run_test(
    comm: MPI.Comm, test: HplTest, plan: HplPlan, options: HplOptions, progress: Phases
) -> tuple[HplOutcome, HplRun | None]:
    """Run one test on as many ranks as its grid has; the others wait. Collective over comm, the same on all ranks."""
    if test.n == 0:
        return HplOutcome(test, threshold=plan.threshold, skipped="N = 0 leaves nothing to solve"), None
    settings = plan.settings(test, options)

    def on_progress(sample: HplSample) -> None:
        progress.update(sample.columns, test.n)

    grid = comm.Split(0 if comm.rank < test.p * test.q else MPI.UNDEFINED, comm.rank)
    started, run = datetime.now(), None
    if grid != MPI.COMM_NULL:
        run = replace(solve_system(grid, settings, on_progress), solution=np.empty(0))
        grid.Free()
    run = comm.bcast(run)
    assert run is not None
    test = replace(test, broadcast=BROADCASTS.index(run.broadcast))
    times = comm.bcast((started, datetime.now()))
    return HplOutcome(test, run.seconds, run.flops_per_second, run.norms, plan.threshold, *times), run


def make_result(
    plan: HplPlan, outcomes: list[HplOutcome], runs: list[HplRun], dgemm: float | None, n_ranks: int
) -> Result:
    """Return the figures of all tests; dgemm: FLOP/s of all ranks and threads, if measured."""
    several = len(plan.tests) > 1
    labels = [f"{number}: {_sizes(run.settings)}" for number, run in enumerate(runs, 1)]
    rows = [
        ({"test": label} if several else {}) | vars(sample)
        for label, run in zip(labels, runs)
        for sample in run.samples
    ]
    notes = [] if several else [line for run in runs for line in _notes(run, dgemm)]
    failed = [one for one in outcomes if not one.skipped and not one.passed]
    first = plan.tests[0]
    return Result(
        benchmark="HPL",
        pattern=f"{len(plan.tests)} tests"
        if several
        else f"N = {first.n}, NB = {first.nb}, {first.p} x {first.q} ranks; progress of the factorisation",
        formula="GFLOP/s = (2/3 N^3 + 3/2 N^2) / t",
        statistic="one run of a test, the time of the slowest rank",
        ranks=n_ranks,
        columns=(TEST_COLUMN, *COLUMNS) if several else COLUMNS,
        rows=rows,
        verified=not failed,
        settings={"tests": [vars(run.settings) for run in runs]},
        extra={
            "dgemm_flops_per_second": dgemm,
            "solves": [_solve(outcome, run, dgemm) for outcome, run in zip(_ran(outcomes), runs)],
        },
        notes=notes,
        failures=[_failure(one) for one in failed],
        plot=progress_plot(("test",) if several else ()),
    )


def _ran(outcomes: list[HplOutcome]) -> list[HplOutcome]:
    return [one for one in outcomes if not one.skipped]


def _sizes(settings: HplSettings) -> str:
    return f"N = {settings.n}, NB = {settings.nb}, {settings.p} x {settings.q}"


def _notes(run: HplRun, dgemm: float | None) -> list[str]:
    rate = run.flops_per_second
    share = "" if dgemm is None else f", {rate / dgemm:.3f} of DGEMM ({dgemm / 1e9:.4g} GFLOP/s)"
    phases = ", ".join(f"{part} {seconds:.3g}" for part, seconds in run.phases.items())
    tried = "".join(f"; {one} took {time * 1e3:.3g} ms" for one, time in run.broadcast_seconds.items())
    return [
        f"{rate / 1e9:.4g} GFLOP/s in {run.seconds:.2f} s{share}",
        f"seconds of the slowest rank: {phases}",
        f"panels by {run.broadcast}{tried}",
    ]


def _failure(outcome: HplOutcome) -> str:
    return (
        f"HPL FAILED: the scaled residual of N = {outcome.test.n} is {outcome.residual:.6g}, allowed is "
        f"{outcome.threshold:g}; the matrix is singular, or memory, processor or network is at fault"
    )


def _solve(outcome: HplOutcome, run: HplRun, dgemm: float | None) -> dict[str, Any]:
    """Return what the JSON holds of a test, and studies read."""
    return {
        "n": run.settings.n,
        "code": outcome.test.code,
        "seconds": run.seconds,
        "flops_per_second": run.flops_per_second,
        "fraction_of_products": None if dgemm is None else run.flops_per_second / dgemm,
        "norms": vars(run.norms),
        "scaled_residual": outcome.residual,
        "passed": outcome.passed,
        "phases": run.phases,
        "broadcast": run.broadcast,
        "broadcast_seconds": run.broadcast_seconds,
    }
