"""A run of HPCG 3.1 (`ridgeline bench hpcg`), phase by phase: what is timed, what is charged, what must hold.

    set_up             the problem and its halo                              timed, charged: a tenth a set
    reference_timing   product and V-cycle of the reference, ten times       timed, reported
    reference_cg       50 iterations of the reference: the residual to reach
    optimise           other order and storage of the same problem           timed, charged: a tenth a set
    validate           the tests of validity.py on the optimised version
    optimised_cg       as many iterations as that residual takes, at most 500
    timed_sets         as many of these, from zero, as fill the time         timed: the rating

A quick run (0 seconds) has one call of the reference kernels and one set. As in the official code, the time of a set
is that of `optimised_cg`, so that the first, cold run counts. Unlike there, a time is that of the slowest rank,
measured from a barrier, and every timed set must reach the residual too.

Sources: rules of HPCG 3.1; Dongarra, Heroux, Luszczek, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg import optimised, problem, reference
from ridgeline.bench.hpcg.geometry import HpcgGeometry, make_geometry
from ridgeline.bench.hpcg.hpcg_options import HPCG, HpcgOptions
from ridgeline.bench.hpcg.hpcg_report import (
    HpcgRecord,
    check_output,
    make_report,
    report_text,
    to_dict,
)
from ridgeline.bench.hpcg.hpcg_settings import HpcgSettings, choose_settings
from ridgeline.bench.hpcg.implementation import CGResult, Implementation, Times
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.optimised_matrix import bytes_per_iteration
from ridgeline.bench.hpcg.problem import HpcgLevel, generate_problem, level_sizes, levels_of
from ridgeline.bench.hpcg.rating import OFFICIAL_SECONDS, Charges, number_of_sets
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.bench.hpcg.validity import (
    AgreementTest,
    SpectralTest,
    SymmetryTest,
    agreement_test,
    random_values,
    spectral_test,
    symmetry_test,
)
from ridgeline.bench.node_memory import require_memory
from ridgeline.bench.result import Column, Plot, Result
from ridgeline.jit.kernel import check_threads, compile_kernels
from ridgeline.limits.stream import StreamLimits, measure_stream
from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.layout import find_layout
from ridgeline.runtime.console import Phases, silent
from ridgeline.runtime.regions import Regions

REFERENCE_ITERATIONS = 50
MOST_ITERATIONS = 10 * REFERENCE_ITERATIONS
_CALLS = 10  # timed calls of the reference's kernels
# Memory of a rank for each row of its finest grid: the matrix twice, coarser grids and vectors. At 104^3 it is about
# 900 bytes; the rest leaves room for a larger share of halo.
_BYTES_PER_ROW = 1100

_COLUMNS = (
    Column("part", "part"),
    Column("seconds", "s", form=".4f"),
    Column("share", "%", 0.01, ".1f"),
    Column("flops_per_second", "GFLOP/s", 1e9),
)

MakeImplementation = Callable[[MPI.Comm, HpcgLevel, int], Implementation]


def measure_hpcg(comm: MPI.Comm, options: HpcgOptions, progress: Phases | None = None) -> Result:
    """Run HPCG 3.1 and return its figures; extra holds the official report. Collective over comm.

    If the run is not valid, `verified` is False, `failures` says why and extra["failures"] names the tests.

    Raises
    ------
    ConfigError : on all ranks, for sizes, process grid, threads, seconds or too little memory
    OutputError : on all ranks, if the report cannot be written
    """
    settings = broadcast_decision(comm, lambda: choose_settings(options))
    with errors_on_all_ranks(comm):
        if comm.rank == 0:
            check_output(options)
    threads = options.threads
    check_threads(threads, f"--threads {threads}")
    geometry = make_geometry(comm.size, comm.rank, *settings.box, options.npx, options.npy, options.npz)
    require_memory_of_box(comm, geometry)
    progress = progress or silent()
    progress.begin("compiling")
    compile_hpcg(comm, threads)
    run = HpcgRun(comm, geometry, settings.seconds, threads, progress=progress)
    record = run.run()
    assert isinstance(run.implementation, optimised.OptimisedImplementation)  # the default
    moved = int(comm.allreduce(bytes_per_iteration(run.implementation.level)))
    del run
    limits = None
    if options.stream:
        progress.begin("memory bandwidth")
        limits = measure_stream(comm, threads)
    result = _result(record, moved, limits, settings, find_layout(comm).n_nodes)
    if not record.valid:
        result.failures.append(
            f"HPCG result is INVALID. Failed tests: {', '.join(record.failures)}. The report in {options.output} has "
            "the values. A wrong value means that memory, processor, network or the program is faulty."
        )
    return result


def compile_hpcg(comm: MPI.Comm, threads: int) -> None:
    """Compile the kernels of both implementations, or load them from the cache. Collective."""
    kernels = [*problem.kernels(), *reference.kernels(), *optimised.kernels(threads)]
    compile_on_nodes(comm, lambda: compile_kernels(kernels))


def require_memory_of_box(comm: MPI.Comm, geometry: HpcgGeometry) -> None:
    """Raise ConfigError on all ranks if a node has too little free memory for its boxes. Collective over comm."""
    advice = "Use a smaller box or fewer ranks"
    require_memory(comm, geometry.n_rows * _BYTES_PER_ROW, "the box of each rank requires", advice)


class HpcgRun:
    """One run on all ranks: call the phases in their order, or `run`. Every phase is collective over comm.

    Parameters
    ----------
    seconds : duration of the timed sets, 0 for the quick run
    n_threads : threads of each rank in the optimised version
    levels : levels of multigrid, 4 by the rules
    make_implementation : returns the optimised version
    progress : shows each phase, outside of what is timed
    """

    level: HpcgLevel
    b: NDArray[np.float64]
    exact: NDArray[np.float64]
    reference: ReferenceImplementation
    implementation: Implementation
    spectral: SpectralTest
    symmetry: SymmetryTest
    agreement: AgreementTest

    def __init__(
        self,
        comm: MPI.Comm,
        geometry: HpcgGeometry,
        seconds: float = 60.0,
        n_threads: int = 1,
        levels: int = 4,
        make_implementation: MakeImplementation = OptimisedImplementation,
        progress: Phases | None = None,
    ) -> None:
        self.comm, self.geometry, self.seconds = comm, geometry, seconds
        self.n_threads, self.levels, self.make_implementation = n_threads, levels, make_implementation
        self.quick = seconds == 0
        self.progress = progress or silent()
        self.phases, self.reference_regions, self.regions = Regions(), Regions(), Regions()
        self.residuals: list[float] = []

    def run(self) -> HpcgRecord:
        """Run all phases and return all figures."""
        for name, phase in (
            ("set-up", self.set_up),
            ("kernels of the reference", self.reference_timing),
            (f"{REFERENCE_ITERATIONS} iterations of the reference", self.reference_cg),
            ("optimisation", self.optimise),
            ("tests", self.validate),
            ("first optimised set", self.optimised_cg),
            ("timed sets", self.timed_sets),
        ):
            self.progress.begin(name)
            phase()
        return self.record()

    def set_up(self) -> None:
        """Generate the matrices of all levels and their halos."""
        with self._charged_to("set-up"):
            self.level, self.b, self.exact = generate_problem(self.comm, self.geometry, self.levels)
        self.reference = ReferenceImplementation(self.comm, self.level)

    def reference_timing(self) -> None:
        """Time the product and the V-cycle of the reference."""
        x = self.reference.vector(random_values(self.level.matrix.rows_global, 4))
        y = self.reference.vector()
        self.reference_calls = 1 if self.quick else _CALLS
        with self._charged_to("kernels of the reference"):
            for _ in range(self.reference_calls):
                self.reference.spmv(x, y)
                self.reference.precondition(y, x)

    def reference_cg(self) -> None:
        """Determine the residual that the optimised version must reach."""
        b, x = self.reference.vector(self.b), self.reference.vector()
        self.comm.Barrier()
        result = self.reference.cg(b, x, REFERENCE_ITERATIONS, 0.0, regions=self.reference_regions)
        self.reference_residual = result.scaled_residual

    def optimise(self) -> None:
        """Build the optimised version, and b and x in its order."""
        with self._charged_to("optimisation"):
            self.implementation = self.make_implementation(self.comm, self.level, self.n_threads)
            self._b, self._x = self.implementation.vector(self.b), self.implementation.vector()

    def validate(self) -> None:
        """Run the tests, whose results decide at the end whether the run is valid."""
        matrix = self.level.matrix
        # This test is the first, because the spectral test rewrites the diagonal and would hide that it was wrong.
        self.agreement = agreement_test(
            self.comm, self.reference, self.implementation, self.level, self.b, self.exact
        )
        self.symmetry = symmetry_test(self.implementation, matrix)
        self.spectral = spectral_test(self.implementation, matrix, self.b)

    def optimised_cg(self) -> None:
        """Count the iterations of a set, and time it to determine how many sets fill the time."""
        regions = Regions()
        result = self._solve(MOST_ITERATIONS, self.reference_residual, regions)
        self.iterations = result.iterations
        self.optimised_residual = result.scaled_residual
        self.sets = number_of_sets(self.seconds, self._slowest(regions.total()))

    def timed_sets(self) -> None:
        """Run the sets that are rated, from x = 0 and with tolerance 0, so that all do the same work."""
        for done in range(1, self.sets + 1):
            result = self._solve(self.iterations, 0.0, self.regions)
            self.residuals.append(result.scaled_residual)
            self.progress.update(done, self.sets)
            self.comm.Barrier()  # so that no rank waits, inside the next set, for the rank that shows the progress

    def record(self) -> HpcgRecord:
        """Return all figures, the same on all ranks."""
        matrices = levels_of(self.level)
        levels = [matrix.nbytes for matrix in matrices]
        optimised = not isinstance(self.implementation, ReferenceImplementation)
        memory = [
            *levels,
            self.b.nbytes + self.exact.nbytes + self._x.values.nbytes,
            self.implementation.memory() - (0 if optimised else sum(levels)),
        ]
        totals = self.comm.allreduce(np.array(memory, dtype=np.int64))
        charges = Charges(
            sets=self.sets,
            reference_iterations=REFERENCE_ITERATIONS,
            optimised_iterations=self.iterations,
            seconds=self._slowest(self.regions.total()),
            set_up=self._slowest(self.phases.seconds("set-up")),
            optimisation=self._slowest(self.phases.seconds("optimisation")),
        )
        geometry = self.geometry
        allreduce_seconds = self.comm.allgather(self.regions.seconds("allreduce"))
        return HpcgRecord(
            ranks=self.comm.size,
            threads=self.n_threads,
            local=(geometry.nx, geometry.ny, geometry.nz),
            process_grid=(geometry.npx, geometry.npy, geometry.npz),
            sizes=level_sizes(self.level),
            level_bytes=tuple(int(n) for n in totals[: len(matrices)]),
            vector_bytes=int(totals[-2]),
            implementation_bytes=int(totals[-1]),
            charges=charges,
            reference_kernels=self._slowest(self.phases.seconds("kernels of the reference"))
            / self.reference_calls,
            reference_times=self._slowest_times(self.reference_regions),
            times=self._slowest_times(self.regions),
            allreduce=(
                min(allreduce_seconds),
                max(allreduce_seconds),
                sum(allreduce_seconds) / self.comm.size,
            ),
            spectral=self.spectral,
            symmetry=self.symmetry,
            agreement=self.agreement,
            reference_residual=self.reference_residual,
            optimised_residual=self.optimised_residual,
            residuals=tuple(self.residuals),
            quick=self.quick,
            optimised=optimised,
        )

    def _solve(self, most: int, tolerance: float, regions: Regions) -> CGResult:
        self._x.values.fill(0.0)
        return self.implementation.cg(self._b, self._x, most, tolerance, regions=regions)

    @contextmanager
    def _charged_to(self, phase: str) -> Iterator[None]:
        """Charge the time of a `with` block to a phase, from a barrier on."""
        self.comm.Barrier()
        with self.phases(phase):
            yield

    def _slowest(self, seconds: float) -> float:
        return float(self.comm.allreduce(seconds, MPI.MAX))

    def _slowest_times(self, regions: Regions) -> Times:
        mine = Times.of(regions).to_dict()
        return Times(**{name: self._slowest(seconds) for name, seconds in mine.items()})


def _result(
    record: HpcgRecord, moved: int, limits: StreamLimits | None, settings: HpcgSettings, nodes: int
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
    verdict = [f"HPCG result is INVALID. Failed tests: {', '.join(record.failures)}"]
    if record.valid:
        verdict = [
            f"HPCG result is VALID with a rating of {record.rating:.4f} GFLOP/s "
            f"({record.flops.total / record.times.total / 1e9:.4f} without charges)",
            f"Charges: {charges.sets} x (set-up {charges.set_up:.3f} s + optimisation {charges.optimisation:.3f} s) "
            "/ 10",
        ]
    notes = [
        *verdict,
        f"Each iteration takes {iteration * 1e3:.4g} ms and moves {moved / record.sizes[0].rows:.0f} B per row: "
        f"{bandwidth / 1e9:.2f} GB/s"
        + ("" if limits is None else f", {limits.share(bandwidth):.2f} of STREAM ({limits.best_name})"),
        f"The reference reaches {record.reference_gflops:.3f} GFLOP/s, and a scaled residual of "
        f"{record.reference_residual:.6g} after {charges.reference_iterations} iterations. The optimised code takes "
        f"{charges.optimised_iterations} iterations.",
    ]
    if settings.source is not None:
        notes.append(f"Box and seconds are those of {settings.source}.")
    if record.times.total < OFFICIAL_SECONDS:
        notes.append(f"This is not an official run, which takes at least {OFFICIAL_SECONDS} s (--rt).")
    return Result(
        benchmark="HPCG 3.1",
        pattern=f"{sizes} points per rank on {grid} ranks, {record.threads} thread{'s' * (record.threads != 1)} "
        f"each; {charges.sets} set{'s' * (charges.sets != 1)} of {charges.optimised_iterations} iterations",
        formula=HPCG.formula.removesuffix("."),
        statistic="each time is that of the slowest rank; a pass that does two operations counts as the larger one",
        ranks=record.ranks,
        columns=_COLUMNS,
        rows=rows,
        nodes=nodes,
        verified=record.valid,
        settings={
            "box": settings.box,
            "process_grid": record.process_grid,
            "seconds": settings.seconds,
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
        plot=Plot("part", ("seconds",), kind="bars", y_label="seconds of all sets"),
    )
