"""What a run of HPCG leaves: every figure of its phases, before they are written down."""

from __future__ import annotations

from dataclasses import dataclass

from ridgeline.bench.hpcg.implementation import SLACK, Times
from ridgeline.bench.hpcg.rating import Charges, HpcgWork, LevelSize, Norms, count_flops, norms

EXPECTED_PLAIN, EXPECTED_PRECONDITIONED = 12, 2  # iterations that the rules allow on the spectral problem
# Relative to the largest value; rounding in other orders of summation is a hundred times less.
AGREEMENT = 1e-12


def reaches(residual: float, goal: float) -> bool:
    """Say whether a scaled residual is as small as the goal, up to the slack of the rules (a NaN is not)."""
    return residual <= goal * (1.0 + SLACK)


@dataclass(frozen=True)
class SpectralTest:
    """Most iterations of CG on the problem with the dominant diagonal, without and with the preconditioner."""

    plain: int
    preconditioned: int

    @property
    def passed(self) -> bool:
        """Say whether both are within the rules."""
        return self.plain <= EXPECTED_PLAIN and self.preconditioned <= EXPECTED_PRECONDITIONED


@dataclass(frozen=True)
class SymmetryTest:
    """|x'Ay - y'Ax| / (2 |x| |A| |y| eps), as the rules scale it, of the product and of the preconditioner."""

    spmv: float
    multigrid: float

    @property
    def passed(self) -> bool:
        """Say whether both are at most 1 (a NaN is not)."""
        return self.spmv <= 1.0 and self.multigrid <= 1.0


@dataclass(frozen=True)
class AgreementTest:
    """What the rules do not ask: largest differences from the reference, relative to the largest value.

    spmv, multigrid: the optimised product and V-cycle against the reference's on the same vector. solution: of A x
    and b for the exact solution. misplaced: entries of all levels' matrices whose column, after an exchange of the
    halo, is not the one that the matrix names.
    """

    spmv: float
    multigrid: float
    solution: float
    misplaced: int

    @property
    def passed(self) -> bool:
        """Say whether all differences are rounding."""
        differences = self.spmv, self.multigrid, self.solution
        return all(value <= AGREEMENT for value in differences) and self.misplaced == 0  # a NaN is not


@dataclass(frozen=True)
class HpcgRecord:
    """One run, the same on all ranks. Times in seconds of the slowest rank, memory in bytes of all ranks.

    sizes: of the levels, finest first; level_bytes: memory of each; vector_bytes: of CG; implementation_bytes: of
    what the optimisation made. reference_kernels: one product and one V-cycle of the reference, mean of the calls.
    reference_times, times: of the reference's iterations and of all timed sets; allreduce: least, most and mean over
    ranks. reference_residual, optimised_residual: scaled residuals that both reached; residuals: of each timed set.
    optimised: False where the reference implementation takes the place of the optimised one.
    """

    ranks: int
    threads: int
    local: tuple[int, int, int]
    process_grid: tuple[int, int, int]
    sizes: tuple[LevelSize, ...]
    level_bytes: tuple[int, ...]
    vector_bytes: int
    implementation_bytes: int
    charges: Charges
    reference_kernels: float
    reference_times: Times
    times: Times
    allreduce: tuple[float, float, float]
    spectral: SpectralTest
    symmetry: SymmetryTest
    agreement: AgreementTest
    reference_residual: float
    optimised_residual: float
    residuals: tuple[float, ...]
    quick: bool
    optimised: bool = True

    @property
    def norms(self) -> Norms:
        """Mean and variance of the scaled residuals of all sets."""
        return norms(self.residuals)

    @property
    def converged(self) -> bool:
        """Say whether the optimised iteration, and every timed set, reached the reference's residual."""
        return all(
            reaches(value, self.reference_residual) for value in (self.optimised_residual, *self.residuals)
        )

    @property
    def failures(self) -> list[str]:
        """Name the tests that failed; none: the result is valid."""
        results = {
            "spectral convergence": self.spectral.passed,
            "symmetry": self.symmetry.passed,
            "agreement with the reference": self.agreement.passed,
            "residual of the reference": self.converged,
            "equal norms of all sets": self.norms.passed,
        }
        return [name for name, passed in results.items() if not passed]

    @property
    def valid(self) -> bool:
        """Say whether every test passed."""
        return not self.failures

    @property
    def flops(self) -> HpcgWork:
        """Operations of all sets, as the specification counts them."""
        return count_flops(self.sizes, self.charges.sets, self.charges.optimised_iterations)

    @property
    def rating(self) -> float:
        """The official figure, GFLOP/s."""
        return self.charges.rating(self.flops.total)

    @property
    def reference_gflops(self) -> float:
        """Rate of the reference's own iterations, GFLOP/s, nothing charged."""
        work = count_flops(self.sizes, 1, self.charges.reference_iterations)
        return work.total / self.reference_times.total / 1e9
