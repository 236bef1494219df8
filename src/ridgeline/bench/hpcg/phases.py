"""HPCG 3.1, phase by phase: what is timed, what is charged, what must hold.

    set_up             the problem and its halo                              timed, charged: a tenth a set
    reference_timing   product and V-cycle of the reference, ten times       timed, reported
    reference_cg       50 iterations of the reference: the residual to reach
    optimise           other order and storage of the same problem           timed, charged: a tenth a set
    validate           the tests of validity.py on the optimised version
    optimised_cg       as many iterations as that residual takes, at most 500
    timed_sets         so many of these, from zero, as fill the time         timed: the rating

A quick run (0 seconds) has one call of the reference kernels and one set. As in the official code the time of one set
is that of `optimised_cg`, so that the first, cold run counts. Unlike it, a time is the slowest rank's, from a barrier
on, and every timed set must reach the residual too.

Sources: rules of HPCG 3.1; Dongarra, Heroux, Luszczek, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.geometry import HpcgGeometry
from ridgeline.bench.hpcg.implementation import CGResult, Implementation, Times
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.problem import HpcgLevel, generate_problem, level_sizes, levels_of
from ridgeline.bench.hpcg.rating import Charges, number_of_sets
from ridgeline.bench.hpcg.record import AgreementTest, HpcgRecord, SpectralTest, SymmetryTest
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.bench.hpcg.validity import (
    agreement_test,
    random_values,
    spectral_test,
    symmetry_test,
)
from ridgeline.runtime.progress import Phases, silent
from ridgeline.runtime.regions import Regions

REFERENCE_ITERATIONS = 50
MOST_ITERATIONS = 10 * REFERENCE_ITERATIONS
_CALLS = 10  # of the reference's kernels

MakeImplementation = Callable[[MPI.Comm, HpcgLevel, int], Implementation]


class HpcgRun:
    """One run on all ranks: call the phases in their order, or `run`. Every phase is collective over comm.

    seconds: that the timed phase shall take, 0 for the quick run; n_threads: of the optimised version; levels: of
    multigrid, 4 by the rules; make_implementation: the optimised version; progress: told of each phase, untimed.
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
        """Run all phases."""
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
        """Make the matrices of all levels and their halos."""
        with self._together("set-up"):
            self.level, self.b, self.exact = generate_problem(self.comm, self.geometry, self.levels)
        self.reference = ReferenceImplementation(self.comm, self.level)

    def reference_timing(self) -> None:
        """Time product and V-cycle of the reference."""
        x = self.reference.vector(random_values(self.level.matrix.rows_global, 4))
        y = self.reference.vector()
        self.reference_calls = 1 if self.quick else _CALLS
        with self._together("kernels of the reference"):
            for _ in range(self.reference_calls):
                self.reference.spmv(x, y)
                self.reference.precondition(y, x)

    def reference_cg(self) -> None:
        """Find the residual that the optimised version must reach."""
        b, x = self.reference.vector(self.b), self.reference.vector()
        self.comm.Barrier()
        result = self.reference.cg(b, x, REFERENCE_ITERATIONS, 0.0, regions=self.reference_regions)
        self.reference_residual = result.scaled_residual

    def optimise(self) -> None:
        """Make the optimised version, and b and x in its order."""
        with self._together("optimisation"):
            self.implementation = self.make_implementation(self.comm, self.level, self.n_threads)
            self._b, self._x = self.implementation.vector(self.b), self.implementation.vector()

    def validate(self) -> None:
        """Run the tests; their results decide at the end."""
        matrix = self.level.matrix
        # First, because the spectral test writes the diagonal anew, which would hide that it was wrong.
        self.agreement = agreement_test(
            self.comm, self.reference, self.implementation, self.level, self.b, self.exact
        )
        self.symmetry = symmetry_test(self.implementation, matrix)
        self.spectral = spectral_test(self.implementation, matrix, self.b)

    def optimised_cg(self) -> None:
        """Count the iterations of a set, and time it to know how many sets fill the time."""
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
            self.comm.Barrier()  # whoever shows the progress keeps nobody waiting inside the next set

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
        every = self.comm.allgather(self.regions.seconds("allreduce"))
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
            allreduce=(min(every), max(every), sum(every) / len(every)),
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
    def _together(self, phase: str) -> Iterator[None]:
        """Charge the time of a `with` block to a phase, from when all ranks have come."""
        self.comm.Barrier()
        with self.phases(phase):
            yield

    def _slowest(self, seconds: float) -> float:
        return float(self.comm.allreduce(seconds, MPI.MAX))

    def _slowest_times(self, regions: Regions) -> Times:
        mine = Times.of(regions).to_dict()
        return Times(**{name: self._slowest(seconds) for name, seconds in mine.items()})
