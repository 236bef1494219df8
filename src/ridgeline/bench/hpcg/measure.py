"""`ridgeline bench hpcg`: one run of HPCG, its table, and its report."""

from __future__ import annotations

from mpi4py import MPI

from ridgeline.bench.hpcg import optimised, problem, reference
from ridgeline.bench.hpcg.geometry import HpcgGeometry, make_geometry
from ridgeline.bench.hpcg.hpcg_options import HpcgOptions
from ridgeline.bench.hpcg.phases import HpcgRun
from ridgeline.bench.hpcg.rating import OFFICIAL_SECONDS
from ridgeline.bench.hpcg.record import HpcgRecord
from ridgeline.bench.hpcg.report import make_report, report_text, to_dict
from ridgeline.bench.hpcg.settings import HpcgSettings, check_output, choose_settings
from ridgeline.bench.hpcg.traffic import bytes_per_iteration
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.jit.kernel import compile_kernels
from ridgeline.jit.numba_threads import check_threads
from ridgeline.limits.stream import StreamLimits, measure_stream
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.progress import Phases, silent

# Of a rank's finest grid: the matrix twice, coarser grids, vectors; some 900 at 104^3, and room for more halo.
_BYTES_PER_ROW = 1100

_COLUMNS = (
    Column("part", "part"),
    Column("seconds", "s", form=".4f"),
    Column("share", "%", 0.01, ".1f"),
    Column("flops_per_second", "GFLOP/s", 1e9),
)


def measure_hpcg(comm: MPI.Comm, options: HpcgOptions, progress: Phases | None = None) -> Result:
    """Run HPCG 3.1 and return its figures; extra holds the official report. Collective over comm.

    Not valid: `verified` is False, `failures` says so and extra["failures"] names the tests.
    Raises ConfigError for sizes, process grid, threads, seconds or too little memory, OutputError for a report that
    cannot be written, on all ranks.
    """
    chosen = broadcast_decision(comm, lambda: choose_settings(options))
    with errors_on_all_ranks(comm):
        if comm.rank == 0:
            check_output(options)
    threads = options.threads
    check_threads(threads, f"HPCG on {threads} threads")
    geometry = make_geometry(comm.size, comm.rank, *chosen.box, options.npx, options.npy, options.npz)
    require_room(comm, geometry)
    progress = progress or silent()
    progress.begin("compiling")
    compile_hpcg(comm, threads)
    benchmark = HpcgRun(comm, geometry, chosen.seconds, threads, progress=progress)
    record = benchmark.run()
    # It was not told to make another.
    assert isinstance(benchmark.implementation, optimised.OptimisedImplementation)
    moved = int(comm.allreduce(bytes_per_iteration(benchmark.implementation.level)))
    del benchmark
    limits = None
    if options.stream:
        progress.begin("bandwidth of memory")
        limits = measure_stream(comm, threads)
    result = _result(record, moved, limits, chosen, find_layout(comm).n_nodes)
    if not record.valid:
        result.failures.append(
            f"HPCG result is INVALID: {', '.join(record.failures)}; the report in {options.output} has the figures, "
            f"and a wrong one means a fault of memory, processor or network, or of the program"
        )
    return result


def compile_hpcg(comm: MPI.Comm, threads: int) -> None:
    """Compile the kernels of both implementations, or load them from the cache. Collective."""
    wanted = [*problem.kernels(), *reference.kernels(), *optimised.kernels(threads)]
    in_turn_per_node(comm, lambda: compile_kernels(wanted))


def require_room(comm: MPI.Comm, geometry: HpcgGeometry) -> None:
    """Raise ConfigError on all ranks if a node has too little free memory for both. Collective over comm."""
    advice = "use a smaller one or fewer ranks"
    require_memory(comm, geometry.n_rows * _BYTES_PER_ROW, "this box needs", advice)


def _result(
    record: HpcgRecord, moved: int, limits: StreamLimits | None, chosen: HpcgSettings, nodes: int
) -> Result:
    times, flops, charges = record.times, record.flops, record.charges
    parts = [
        ("MG", times.multigrid, flops.multigrid),
        ("SpMV", times.spmv, flops.spmv),
        ("DDOT", times.dot, flops.ddot),
        ("WAXPBY", times.waxpby, flops.waxpby),
        ("all sets", times.total, flops.total),
    ]
    rows = [
        {
            "part": name,
            "seconds": seconds,
            "share": seconds / times.total,
            "flops_per_second": work / seconds if seconds > 0 else None,
        }
        for name, seconds, work in parts
    ]
    iteration = times.total / (charges.sets * charges.optimised_iterations)
    bandwidth = moved / iteration
    report = make_report(record)
    sizes = " x ".join(map(str, record.local))
    grid = " x ".join(map(str, record.process_grid))
    notes = [
        *_verdict(record),
        f"per iteration {iteration * 1e3:.4g} ms and {moved / record.sizes[0].rows:.0f} B a row: "
        f"{bandwidth / 1e9:.2f} GB/s"
        + ("" if limits is None else f", {limits.share(bandwidth):.2f} of STREAM ({limits.best_name})"),
        f"reference {record.reference_gflops:.3f} GFLOP/s, scaled residual {record.reference_residual:.6g} after "
        f"{charges.reference_iterations} iterations; here {charges.optimised_iterations} iterations",
    ]
    if chosen.source is not None:
        notes.append(f"box and seconds from {chosen.source}")
    if record.times.total < OFFICIAL_SECONDS:
        notes.append(f"not an official run: those take at least {OFFICIAL_SECONDS} s (--rt)")
    return Result(
        benchmark="HPCG 3.1",
        pattern=f"{sizes} points a rank on {grid} ranks, {record.threads} thread{'s' * (record.threads != 1)} each; "
        f"{charges.sets} set{'s' * (charges.sets != 1)} of {charges.optimised_iterations} iterations",
        formula="rating = operations of the reference's iterations / (time of sets + sets x (set-up + optimisation) "
        "/ 10)",
        statistic="each time is that of its slowest rank; passes that do two things count as the larger",
        ranks=record.ranks,
        columns=_COLUMNS,
        rows=rows,
        nodes=nodes,
        verified=record.valid,
        settings={
            "box": chosen.box,
            "process_grid": record.process_grid,
            "seconds": chosen.seconds,
            "threads": record.threads,
        },
        extra={
            "valid": record.valid,
            "failures": record.failures,
            "rating": record.rating * 1e9,
            "reference": record.reference_gflops * 1e9,
            "set_up_seconds": charges.set_up,
            "optimisation_seconds": charges.optimisation,
            "seconds_per_iteration": iteration,
            "bytes_per_iteration": moved,
            "bandwidth": bandwidth,
            "stream": None if limits is None else limits.to_dict(),
            "fraction_of_stream": None if limits is None else limits.share(bandwidth),
            "report": to_dict(report),
            "text": report_text(report),
        },
        notes=notes,
        plot=Plot("part", ("seconds",), kind="bars", y_label="s of all sets"),
    )


def _verdict(record: HpcgRecord) -> list[str]:
    charges = record.charges
    if not record.valid:
        return [f"HPCG result is INVALID: {', '.join(record.failures)}"]
    return [
        f"HPCG result is VALID with a rating of {record.rating:.4f} GFLOP/s "
        f"({record.flops.total / record.times.total / 1e9:.4f} without charges)",
        f"charged: {charges.sets} x (set-up {charges.set_up:.3f} s + optimisation {charges.optimisation:.3f} s) / 10",
    ]
