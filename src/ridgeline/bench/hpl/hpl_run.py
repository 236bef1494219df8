"""`ridgeline bench hpl` and `hpl-mxp`: performance over progress, the official checks, shares of matrix products."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike

from ridgeline.bench.hpl.blas import subtract_product
from ridgeline.bench.hpl.hpl_dat import HplPlan, HplTest, make_plan
from ridgeline.bench.hpl.hpl_options import HPL, HPL_MXP, HplMxpOptions, HplOptions
from ridgeline.bench.hpl.hpl_output import HplOutcome, output_lines
from ridgeline.bench.hpl.hpl_solve import solve_mixed, solve_system
from ridgeline.bench.hpl.record import (
    BROADCASTS,
    MXP_ITERATIONS,
    MXP_LIMIT,
    HplRun,
    HplSample,
    HplSettings,
    MxpRun,
    Numbers,
    operations,
)
from ridgeline.bench.hpl.sizes import (
    choose_sizes,
    free_memory,
    mxp_block,
    mxp_bytes,
    mxp_device_parts,
    require_time,
)
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.config.machine_file import MachineFile
from ridgeline.io.machine_file import read_named_machine
from ridgeline.io.output_files import check_writable
from ridgeline.jit.kernel import check_threads
from ridgeline.parallel.allreduce import allreduce_max, errors_on_all_ranks
from ridgeline.parallel.devices import select_device
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.blas import blas_libraries
from ridgeline.runtime.console import Phases
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import counted

ORDER = 2048  # order of the matrices of each thread: a product takes tenths of a second in float64
REPEATS = 5
COLUMNS = (
    Column("columns", "columns"),
    Column("seconds", "s", form=".3f"),
    Column("flops_per_second", "GFLOP/s so far", 1e9),
    Column("flops_per_second_now", "GFLOP/s now", 1e9),
)
TEST_COLUMN = Column("test", "test")  # for a run of several tests


def _progress_plot(by: tuple[str, ...] = ()) -> Plot:
    """Return the plot of rates over the factorised columns: Ibeid et al. (MPI on Aurora), Fig. 15."""
    rates = ("flops_per_second", "flops_per_second_now")
    return Plot(
        "columns",
        rates,
        by,
        x_label="columns factorised",
        y_label="GFLOP/s",
        y_scale=1e9,
        log_x=False,
        log_y=False,
    )


def measure_hpl(comm: MPI.Comm, options: HplOptions, progress: Phases, memory: Memory = "host") -> Result:
    """Run HPL and return its figures. Collective over comm, the same on all ranks.

    memory: the memory that MPI could send from on GPUs. Messages go through host memory in any case, and the result
    says so.

    Raises
    ------
    ConfigError : before a matrix is allocated, for settings, a damaged file, or too little memory or time
    DecompositionError : before a matrix is allocated, for a grid that does not have the ranks of comm
    OutputError : before a matrix is allocated, for a file
    """
    check_threads(options.threads, f"--threads {options.threads}")
    peak = None
    if options.machine is not None:
        peak = peak_of_node(read_named_machine(options.machine), options.device)
    plan = make_plan(comm, options)
    with errors_on_all_ranks(comm):
        if comm.rank == 0:
            check_writable(plan.output, "output file of HPL.dat")
    notes = list(plan.notes)
    progress.begin("matrix products")
    rate = _rate(comm, options, "float64", plan.tests[0].nb)
    require_time(sum(operations(test.n) for test in plan.tests), rate, options.time_limit, notes)
    dgemm = _rate(comm, options, "float64") if options.dgemm else None
    runs: list[HplRun] = []
    outcomes = []
    for number, test in enumerate(plan.tests, 1):
        which = f"test {number} of {len(plan.tests)}, " if number > 1 else f"{notes[-1]} "
        progress.begin(f"{which}N = {test.n}")
        outcome, run = run_test(comm, test, plan, options, progress)
        outcomes.append(outcome)
        runs += [] if run is None else [run]
    if dgemm is not None:  # measured again, because the clock of the machine may have changed
        progress.begin("DGEMM")
        dgemm = max(dgemm, _rate(comm, options, "float64"))
    result = make_result(plan, outcomes, runs, dgemm, comm.size)
    result.notes.append(describe_library(comm, memory, "panels"))
    result.notes += notes
    result.extra["lines"] = output_lines(outcomes, notes)
    result.extra["output"] = plan.output
    result.nodes = find_layout(comm).n_nodes
    if peak is not None:
        add_share_of_peak(result, peak)
    return result


def peak_of_node(machine: MachineFile, device: str) -> float:
    """Return the FLOP/s that a machine file states for a node, or for its devices. Raises ConfigError without it."""
    devices = machine.device.peak, machine.device.count
    if device != "cpu" and devices[0] is not None and devices[1] is not None:
        return float(devices[0].value * devices[1].value)
    if device == "cpu" and machine.node.peak is not None:
        return float(machine.node.peak.value)
    section = "[node] has no peak" if device == "cpu" else "[device] has no peak and count"
    raise ConfigError(
        f"--machine: {section} in the machine file of {machine.machine.name}. Add it with its source."
    )


def add_share_of_peak(result: Result, peak: float) -> None:
    """Add each solve's share of the peak of all nodes: the scaling efficiency of Ibeid et al., Table 2.

    peak: FLOP/s of a node.
    """
    for solve in result.extra["solves"]:
        share = solve["fraction_of_peak"] = solve["flops_per_second"] / (peak * result.nodes)
        result.notes.append(
            f"N = {solve['n']}: {100 * share:.2f} % of the peak of {counted(result.nodes, 'node')} in the machine "
            f"file ({peak / 1e12:.4g} TFLOP/s a node)"
        )


def product_rate(
    comm: MPI.Comm, dtype: DTypeLike, threads: int, width: int = ORDER, order: int = ORDER
) -> float:
    """Return the FLOP/s of matrix products on all ranks, the best of the repeats. Collective over comm.

    Each thread subtracts products of [order, width] by [width, order] from its own matrix. The time of a repeat is
    that of its slowest rank. With the default width, and in float64, the result is the rate of DGEMM. It is the same
    on all ranks.
    """
    random = np.random.default_rng(0).random((order, width)).astype(dtype)
    left, right = np.asfortranarray(random), np.asfortranarray(random.T)
    out = [np.zeros((order, order), dtype, order="F") for _ in range(threads)]

    def product(start: int, stop: int) -> None:
        for matrix in out[start:stop]:
            subtract_product(left, right, matrix)

    best = np.inf
    with TileTeam(threads) as team:
        for _ in range(REPEATS):
            comm.Barrier()
            start = perf_counter()
            team.start(product, [(thread, thread + 1) for thread in range(threads)])
            team.finish()
            best = min(best, float(allreduce_max(comm, perf_counter() - start)))
    return 2.0 * order * order * width * threads * comm.size / best


def describe_library(comm: MPI.Comm, memory: Memory, on_host: str) -> str:
    """Return a sentence on the library that computes. Collective. on_host: what hosts factor where GPUs multiply."""
    host = str(blas_libraries()[0])
    if memory == "host":
        return f"BLAS: {host}, with one thread in each call"
    device = comm.bcast(str(select_device(comm)))
    aware = ", although MPI accepts device memory" if memory == "cuda" else ""
    return (
        f"Each rank has a GPU ({device}), which multiplies with cuBLAS. Hosts factor the {on_host} with {host}. "
        f"Messages go through host memory{aware}."
    )


def _rate(
    comm: MPI.Comm,
    options: HplOptions | HplMxpOptions,
    numbers: Numbers,
    width: int | None = None,
) -> float:
    """Return the FLOP/s of products of this width, by default of square ones, on all ranks. Collective over comm."""
    if options.device == "cpu":  # 16-bit formats are emulated there
        return product_rate(
            comm, np.float64 if numbers == "float64" else np.float32, options.threads, width or ORDER
        )
    from ridgeline.bench.hpl.device.blas_cuda import device_product_rate  # only here is numba-cuda needed

    return device_product_rate(comm, width, numbers)


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
    solved = [outcome for outcome in outcomes if not outcome.skipped]
    failed = [outcome for outcome in solved if not outcome.passed]
    first = plan.tests[0]
    return Result(
        benchmark="HPL",
        pattern=f"{len(plan.tests)} tests"
        if several
        else f"N = {first.n}, NB = {first.nb}, {first.p} x {first.q} ranks; progress of the factorisation",
        formula=HPL.formula.removesuffix("."),
        statistic="one run of each test, with the time of the slowest rank",
        ranks=n_ranks,
        columns=(TEST_COLUMN, *COLUMNS) if several else COLUMNS,
        rows=rows,
        verified=not failed,
        settings={"tests": [vars(run.settings) for run in runs]},
        extra={
            "dgemm_flops_per_second": dgemm,
            "solves": [_solve(outcome, run, dgemm) for outcome, run in zip(solved, runs)],
        },
        notes=notes,
        failures=[
            f"HPL FAILED: the scaled residual of N = {outcome.test.n} is {outcome.residual:.6g}, but it must be less "
            f"than {outcome.threshold:g}. The matrix is singular, or memory, processor or network is faulty."
            for outcome in failed
        ],
        plot=_progress_plot(("test",) if several else ()),
    )


def _sizes(settings: HplSettings) -> str:
    return f"N = {settings.n}, NB = {settings.nb}, {settings.p} x {settings.q}"


def _notes(run: HplRun, dgemm: float | None) -> list[str]:
    rate = run.flops_per_second
    share = "" if dgemm is None else f", {rate / dgemm:.3f} of DGEMM ({dgemm / 1e9:.4g} GFLOP/s)"
    phases = ", ".join(f"{part} {seconds:.3g}" for part, seconds in run.phases.items())
    tried = "".join(f"; {name} took {time * 1e3:.3g} ms" for name, time in run.broadcast_seconds.items())
    return [
        f"{rate / 1e9:.4g} GFLOP/s in {run.seconds:.2f} s{share}",
        f"Seconds of the slowest rank: {phases}",
        f"Panel broadcast: {run.broadcast}{tried}",
    ]


def _solve(outcome: HplOutcome, run: HplRun, dgemm: float | None) -> dict[str, Any]:
    """Return the part of the JSON on one test, which studies read."""
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


def measure_hpl_mxp(
    comm: MPI.Comm, options: HplMxpOptions, progress: Phases, memory: Memory = "host"
) -> Result:
    """Run HPL-MxP once and return its figures. Collective over comm, the same on all ranks.

    memory: as for `measure_hpl`.

    Raises
    ------
    ConfigError : for sizes beyond the memory or the time limit
    DecompositionError : for a grid that does not have the ranks of comm
    DeviceError : if a rank has no GPU, no cuBLAS, or too little memory on its GPU
    """
    check_threads(options.threads, f"--threads {options.threads}")
    storage = options.storage
    free = free_memory(
        comm,
        options.device,
        mxp_bytes,
        lambda n, nb, p, q: int(sum(mxp_device_parts(n, nb, p, q, storage).values())),
    )
    block = partial(mxp_block, storage=storage, on_device=options.device == "cuda")
    sizes = choose_sizes(comm, options, free, block)
    notes = list(sizes.notes)
    settings = HplSettings(sizes.n, sizes.nb, sizes.p, sizes.q, options.threads, device=options.device)
    progress.begin("matrix products")
    limit = _rate(comm, options, storage, sizes.nb)
    require_time(operations(sizes.n), limit, options.time_limit, notes)
    progress.begin(f"{notes[-1]} N = {sizes.n}")

    def on_progress(sample: HplSample) -> None:
        progress.update(sample.columns, settings.n)

    run = solve_mixed(comm, settings, options.storage, options.testing, on_progress)
    result = make_mxp_result(run, limit, comm.size, [])
    result.notes.append(describe_library(comm, memory, "diagonal blocks"))
    result.notes += notes
    result.nodes = find_layout(comm).n_nodes
    return result


def make_mxp_result(run: MxpRun, limit: float, n_ranks: int, notes: list[str]) -> Result:
    """Return the figures of a run. limit: FLOP/s of products of all ranks and threads."""
    settings = run.settings
    verdict = "PASSED" if run.passed else "FAILED"
    phases = {
        "factorisation": run.factor_seconds,
        "solve": run.solve_seconds,
        "refinement": run.refine_seconds,
    }
    share = run.flops_per_second / limit
    matrix = "a strictly dominant diagonal, only for tests" if run.testing else "a mildly scaled diagonal"
    factors = "float32" if settings.device == "cpu" else run.storage  # CPUs emulate the others
    summary = [
        f"{run.flops_per_second / 1e9:.4g} GFLOP/s in {run.seconds:.3f} s, {share:.3f} of {factors} products "
        f"({limit / 1e9:.4g} GFLOP/s)",
        f"Factorisation: {run.factor_flops_per_second / 1e9:.4g} GFLOP/s in {run.factor_seconds:.3f} s; first solve "
        f"{run.solve_seconds:.3f} s; refinement {run.refine_seconds:.3f} s; no scaling is required",
        f"||Ax-b||_oo/(||A||_oo*||x||_oo+||b||_oo)/(N*eps) = {run.scaled_residual:.8e} after {run.iterations} "
        f"iterations ...... {verdict}",
        f"Matrix: random with {matrix}; the factors are stored in {run.storage}",
    ]
    failures = []
    if not run.passed:
        failures.append(
            f"HPL-MxP FAILED: the scaled backward error is {run.scaled_residual:.6g} after {run.iterations} "
            f"iterations, but it must be at most {MXP_LIMIT:g} after at most {MXP_ITERATIONS}. The factors are too "
            "coarse for the matrix, or memory, processor or network is faulty."
        )
    solve = {
        "n": settings.n,
        "seconds": run.seconds,
        "flops_per_second": run.flops_per_second,
        "factor_flops_per_second": run.factor_flops_per_second,
        "fraction_of_products": share,
        "storage": run.storage,
        "phases": phases,
        "iterations": run.iterations,
        "converged": run.converged,
        "scaled_residual": run.scaled_residual,
        "passed": run.passed,
    }
    return Result(
        benchmark="HPL-MxP",
        pattern=f"N = {settings.n}, NB = {settings.nb}, {settings.p} x {settings.q} ranks, "
        f"{settings.threads} thread{'s' * (settings.threads != 1)} each; progress of the factorisation",
        formula=HPL_MXP.formula.removesuffix("."),
        statistic="one run, with the time of the slowest rank",
        ranks=n_ranks,
        columns=COLUMNS,
        rows=[vars(sample) for sample in run.samples],
        verified=run.passed,
        settings={**vars(settings), "storage": run.storage, "testing": run.testing},
        extra={"product_flops_per_second": limit, "solves": [solve]},
        notes=summary + notes,
        failures=failures,
        plot=_progress_plot(),
    )
