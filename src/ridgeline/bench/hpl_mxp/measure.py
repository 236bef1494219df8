"""`ridgeline bench hpl-mxp`: one run, its performance over progress, and the test by the rules."""

from __future__ import annotations

from functools import partial

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.plan import memory_of
from ridgeline.bench.hpl.products import product_rate
from ridgeline.bench.hpl.progress_figures import COLUMNS, progress_plot
from ridgeline.bench.hpl.record import HplSample, HplSettings, operations
from ridgeline.bench.hpl.sizes import choose_sizes, require_time
from ridgeline.bench.hpl.who_multiplies import who_multiplies
from ridgeline.bench.hpl_mxp.declaration import HplMxpOptions
from ridgeline.bench.hpl_mxp.device.memory import device_bytes_of
from ridgeline.bench.hpl_mxp.refine import LIMIT, MOST_ITERATIONS
from ridgeline.bench.hpl_mxp.solve import MxpRun, bytes_of, solve_mixed
from ridgeline.bench.hpl_mxp.storage import Storage
from ridgeline.bench.result import Result
from ridgeline.jit.numba_threads import check_threads
from ridgeline.parallel.layout import find_layout
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.progress import Phases


def block_for(n: int) -> int:
    """Return NB for an order: wide blocks give the fastest products, narrow ones leave small systems more steps."""
    return 256 if n >= 4096 else 128 if n >= 1024 else 64


def block_on_device(n: int, storage: Storage) -> int:
    """Return NB for an order on GPUs: products have 2 NB operations on 8 bytes, so that wide blocks are faster."""
    return block_for(n) if n < 16384 else 512 if storage == "float32" else 1024


def measure_hpl_mxp(
    comm: MPI.Comm, options: HplMxpOptions, progress: Phases, memory: Memory = "host"
) -> Result:
    """Run HPL-MxP once and return its figures. Collective over comm, the same on all ranks.

    memory: what messages of GPUs could lie in; they go through host memory whatever it is, and the result says so.
    Raises ConfigError for sizes beyond the memory or the time limit, DecompositionError for a grid of other ranks.
    Raises DeviceError if a rank has no GPU, no cuBLAS, or too little memory on its GPU.
    """
    check_threads(options.threads, f"HPL-MxP on {options.threads} threads")
    storage = options.storage
    free = memory_of(comm, options.device, bytes_of, partial(device_bytes_of, storage=storage))
    on_cpu = options.device == "cpu"
    sizes = choose_sizes(
        comm, options, free, block_for if on_cpu else partial(block_on_device, storage=storage)
    )
    notes = list(sizes.notes)
    settings = HplSettings(sizes.n, sizes.nb, sizes.p, sizes.q, options.threads, device=options.device)
    progress.begin("matrix products")
    limit = _product_rate(comm, options, sizes.nb)
    require_time(operations(sizes.n), limit, options.time_limit, notes)
    progress.begin(f"{notes[-1]}; N = {sizes.n}")

    def on_progress(sample: HplSample) -> None:
        progress.update(sample.columns, settings.n)

    run = solve_mixed(comm, settings, options.storage, options.testing, on_progress)
    result = make_result(run, limit, comm.size, [])
    result.notes.append(who_multiplies(comm, memory, "diagonal blocks"))
    result.notes += notes
    result.nodes = find_layout(comm).n_nodes
    return result


def _product_rate(comm: MPI.Comm, options: HplMxpOptions, width: int) -> float:
    """Return the FLOP/s of products as the factorisation has them, of all ranks. Collective over comm."""
    if options.device == "cpu":
        return product_rate(comm, np.float32, options.threads, width)
    from ridgeline.bench.hpl.device.products_cuda import device_product_rate  # numba-cuda is only needed here

    return device_product_rate(comm, width, options.storage)


def make_result(run: MxpRun, limit: float, n_ranks: int, notes: list[str]) -> Result:
    """Return the figures of a run. limit: FLOP/s of products of all ranks and threads."""
    settings = run.settings
    verdict = "PASSED" if run.passed else "FAILED"
    phases = {
        "factorisation": run.factor_seconds,
        "solve": run.solve_seconds,
        "refinement": run.refine_seconds,
    }
    share = run.flops_per_second / limit
    matrix = "a strictly dominant diagonal, for tests alone" if run.testing else "a mildly scaled diagonal"
    factors = "float32" if settings.device == "cpu" else run.storage  # CPUs emulate the others
    told = [
        f"{run.flops_per_second / 1e9:.4g} GFLOP/s in {run.seconds:.3f} s, {share:.3f} of {factors} products "
        f"({limit / 1e9:.4g} GFLOP/s)",
        f"factorisation {run.factor_flops_per_second / 1e9:.4g} GFLOP/s in {run.factor_seconds:.3f} s, first solve "
        f"{run.solve_seconds:.3f} s, refinement {run.refine_seconds:.3f} s; no scaling is needed",
        f"||Ax-b||_oo/(||A||_oo*||x||_oo+||b||_oo)/(N*eps) = {run.scaled_residual:.8e} after {run.iterations} "
        f"iterations ...... {verdict}",
        f"matrix: random with {matrix}; factors stored in {run.storage}",
    ]
    failures = []
    if not run.passed:
        failures.append(
            f"HPL-MxP FAILED: the scaled backward error is {run.scaled_residual:.6g} after {run.iterations} "
            f"iterations, allowed are {LIMIT:g} and {MOST_ITERATIONS}; the factors are too coarse for the matrix, or "
            f"memory, processor or network is at fault"
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
        formula="GFLOP/s = (2/3 N^3 + 3/2 N^2) / (factorisation + first solve + refinement)",
        statistic="one run, the time of the slowest rank",
        ranks=n_ranks,
        columns=COLUMNS,
        rows=[vars(sample) for sample in run.samples],
        verified=run.passed,
        settings={**vars(settings), "storage": run.storage, "testing": run.testing},
        extra={"product_flops_per_second": limit, "solves": [solve]},
        notes=told + notes,
        failures=failures,
        plot=progress_plot(),
    )
