"""`ridgeline bench hpl`: one run, its performance over progress, its official test and its share of DGEMM."""

from __future__ import annotations

from math import isqrt

from mpi4py import MPI

from ridgeline.bench.hpl.declaration import HplOptions
from ridgeline.bench.hpl.dgemm import measure_dgemm
from ridgeline.bench.hpl.record import HplRun, HplSample, HplSettings
from ridgeline.bench.hpl.solve import solve_system
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.parallel.layout import find_layout, place_on_node
from ridgeline.runtime.blas import blas_libraries
from ridgeline.runtime.progress import Phases
from ridgeline.runtime.threads import cores_available, oversubscription

_COLUMNS = (
    Column("columns", "columns"),
    Column("seconds", "s", form=".3f"),
    Column("flops_per_second", "GFLOP/s so far", 1e9),
    Column("flops_per_second_now", "GFLOP/s now", 1e9),
)


def measure_hpl(comm: MPI.Comm, options: HplOptions, progress: Phases) -> Result:
    """Run HPL once and return its figures. Collective over comm, the same on all ranks.

    Raises ConfigError for settings or too little memory, DecompositionError for a grid of other ranks.
    """
    settings = choose_settings(options, comm.size)
    cells = settings.n * (settings.n + 4 * settings.nb) // comm.size
    require_memory(comm, 8 * cells, f"HPL of {settings.n} unknowns needs", "use a smaller --n or more nodes")
    dgemm = None
    if options.dgemm:
        progress.begin("DGEMM")
        dgemm = measure_dgemm(comm, settings.threads)
    progress.begin(f"N = {settings.n}")

    def on_progress(sample: HplSample) -> None:
        progress.update(sample.columns, settings.n)

    run = solve_system(comm, settings, on_progress)
    if options.dgemm:  # again, for a machine whose clock has changed meanwhile
        progress.begin("DGEMM")
        dgemm = max(dgemm or 0.0, measure_dgemm(comm, settings.threads))
    result = make_result(run, dgemm, comm.size)
    result.nodes = find_layout(comm).n_nodes
    crowded = oversubscription(place_on_node(comm).ranks, settings.threads, cores_available())
    if crowded is not None:
        result.notes.append(crowded)
    return result


def choose_settings(options: HplOptions, n_ranks: int) -> HplSettings:
    """Return the settings of a run; a process grid that was not given is as near to a square as can be, P <= Q."""
    p, q = options.p, options.q
    if p == 0:
        p = n_ranks // q if q else max(d for d in range(1, isqrt(n_ranks) + 1) if n_ranks % d == 0)
    return HplSettings(
        n=options.n,
        nb=options.nb,
        p=p,
        q=q or n_ranks // p,
        threads=options.threads,
        order=options.order,
        broadcast=None if options.broadcast == "fastest" else options.broadcast,
        nbmin=options.nbmin,
        ndiv=options.ndiv,
        threshold=options.threshold,
        seed=options.seed,
    )


def make_result(run: HplRun, dgemm: float | None, n_ranks: int) -> Result:
    """Return the figures of a run; dgemm: FLOP/s of all ranks and threads, if measured."""
    settings = run.settings
    verdict = "PASSED" if run.passed else "FAILED"
    notes = [
        f"{run.gflops:.4g} GFLOP/s in {run.seconds:.2f} s"
        + (
            ""
            if dgemm is None
            else f", {run.flops_per_second / dgemm:.3f} of DGEMM ({dgemm / 1e9:.4g} GFLOP/s)"
        ),
        f"||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N) = {run.residual:.8g} ...... {verdict}",
        "seconds of the slowest rank: "
        + ", ".join(f"{part} {time:.3g}" for part, time in run.phases.items()),
        f"panels by {run.broadcast}"
        + "".join(f"; {one} took {time * 1e3:.3g} ms" for one, time in run.broadcast_seconds.items()),
        f"BLAS: {blas_libraries()[0]}, called by one thread each",
    ]
    failures = []
    if not run.passed:
        failures.append(
            f"HPL FAILED: the scaled residual is {run.residual:.6g}, allowed is {settings.threshold:g}; the matrix "
            f"is singular, or memory, processor or network is at fault"
        )
    return Result(
        benchmark="HPL",
        pattern=f"N = {settings.n}, NB = {settings.nb}, {settings.p} x {settings.q} ranks, "
        f"{settings.threads} thread{'s' * (settings.threads != 1)} each",
        formula="GFLOP/s = (2/3 N^3 + 3/2 N^2) / t",
        statistic="one run, the time of the slowest rank",
        ranks=n_ranks,
        columns=_COLUMNS,
        rows=[vars(sample) for sample in run.samples],
        verified=run.passed,
        settings=vars(settings),
        extra={
            "seconds": run.seconds,
            "flops_per_second": run.flops_per_second,
            "dgemm_flops_per_second": dgemm,
            "norms": vars(run.norms),
            "scaled_residual": run.residual,
            "passed": run.passed,
            "phases": run.phases,
            "broadcast": run.broadcast,
            "broadcast_seconds": run.broadcast_seconds,
        },
        notes=notes,
        failures=failures,
        plot=Plot(
            "columns",
            ("flops_per_second", "flops_per_second_now"),
            x_label="columns factored",
            y_label="GFLOP/s",
            y_scale=1e-9,
            log_x=False,
            log_y=False,
        ),
    )
