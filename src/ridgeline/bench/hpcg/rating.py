"""What HPCG 3.1 counts: operations, bytes, and the rating, from sizes and times alone.

The counts are those of the specification, whatever the implementation does. An iteration of conjugate gradients has
three dot products, three vector updates, one sparse product and one V-cycle. Before the first iteration there is one
of each except the V-cycle. A multigrid level has a pre-smoothing sweep (two products with the matrix), a residual
(one) and a post-smoothing sweep (two); the coarsest has one sweep. The rating charges each set of iterations with a
tenth of the set-up and of the optimisation. It counts only as many iterations as the reference needs.

Sources: Dongarra, Heroux, Luszczek, "HPCG benchmark: a new metric for ranking high performance computing systems",
2015; rules of version 3.1.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

VALUE, INDEX = 8, 4  # bytes of a float64 and of a local column number
MAX_VARIANCE = 1e-6  # of the scaled residuals of all sets
CHARGED = 10  # sets of iterations over which set-up and optimisation are spread
OFFICIAL_SECONDS = 1800  # that an official run takes at least


@dataclass(frozen=True)
class LevelSize:
    """Rows and non-zeros of one multigrid level, on all ranks."""

    rows: int
    nonzeros: int


@dataclass(frozen=True)
class HpcgWork:
    """Operations or bytes of all sets on all ranks, by kernel."""

    ddot: float
    waxpby: float
    spmv: float
    multigrid: float

    @property
    def total(self) -> float:
        """The sum over all kernels."""
        return self.ddot + self.waxpby + self.spmv + self.multigrid


def count_flops(levels: Sequence[LevelSize], sets: int, iterations: int) -> HpcgWork:
    """Return the floating-point operations of `sets` sets of `iterations` iterations. levels: finest first."""
    done = float(sets * iterations)
    finest = levels[0]
    vectors = (3.0 * done + sets) * 2.0 * finest.rows
    # Pre-smoother 4, residual 2, post-smoother 4.
    smoothed = sum(10.0 * level.nonzeros for level in levels[:-1])
    return HpcgWork(
        ddot=vectors,
        waxpby=vectors,
        spmv=(done + sets) * 2.0 * finest.nonzeros,
        multigrid=done * (smoothed + 4.0 * levels[-1].nonzeros),
    )


def count_reads(levels: Sequence[LevelSize], sets: int, iterations: int) -> HpcgWork:
    """Return the bytes that the specification counts as read."""
    done = float(sets * iterations)
    finest = levels[0]
    vectors = (3.0 * done + sets) * 2.0 * finest.rows * VALUE
    multigrid = sum(5.0 * _matrix(level) + 3.0 * VALUE * level.rows for level in levels[:-1])
    multigrid += 2.0 * _matrix(levels[-1]) + VALUE * levels[-1].rows
    spmv = (done + sets) * (_matrix(finest) + VALUE * finest.rows)
    return HpcgWork(ddot=vectors, waxpby=vectors, spmv=spmv, multigrid=done * multigrid)


def count_writes(levels: Sequence[LevelSize], sets: int, iterations: int) -> HpcgWork:
    """Return the bytes that the specification counts as written.

    For the residual and the post-smoother it counts a number per non-zero, not per row; the rules do, so do we.
    """
    done = float(sets * iterations)
    finest = levels[0]
    multigrid = sum(VALUE * (level.rows + 2.0 * level.nonzeros) for level in levels[:-1])
    return HpcgWork(
        ddot=(3.0 * done + sets) * VALUE,
        waxpby=(3.0 * done + sets) * finest.rows * VALUE,
        spmv=(done + sets) * finest.rows * VALUE,
        multigrid=done * (multigrid + VALUE * levels[-1].rows),
    )


def _matrix(level: LevelSize) -> float:
    return float(level.nonzeros * (VALUE + INDEX))


@dataclass(frozen=True)
class Charges:
    """The times and iterations that make up the rating.

    Attributes
    ----------
    reference_iterations, optimised_iterations : iterations of a set; the optimised version takes as many as it needs
        to reach the residual of the reference
    seconds : of all sets
    set_up, optimisation : seconds of each phase, once
    """

    sets: int
    reference_iterations: int
    optimised_iterations: int
    seconds: float
    set_up: float
    optimisation: float

    def paid(self, work: float) -> float:
        """Return the part of the operations or bytes that counts: iterations beyond the reference's do not."""
        return work * self.reference_iterations / self.optimised_iterations

    @property
    def charged_seconds(self) -> float:
        """The seconds that the rating divides by."""
        return self.seconds + self.sets * (self.optimisation + self.set_up) / CHARGED

    def rating(self, flops: float) -> float:
        """Return the official figure in GFLOP/s. flops: total of `count_flops`."""
        return self.paid(flops) / self.charged_seconds / 1e9

    def rating_without_set_up(self, flops: float) -> float:
        """Return the figure as HPCG 2.4 defined it, in GFLOP/s: the set-up is free."""
        return self.paid(flops) / (self.seconds + self.sets * self.optimisation / CHARGED) / 1e9


def number_of_sets(seconds: float, worst: float) -> int:
    """Return how many sets, at least 1, fill `seconds` if a set takes `worst` seconds."""
    return int(seconds / worst) + 1


@dataclass(frozen=True)
class Norms:
    """Mean and variance of the scaled residuals of all sets, which agree because the arithmetic is the same."""

    mean: float
    variance: float

    @property
    def passed(self) -> bool:
        """Whether the variance is within the rule, which a NaN is not."""
        return self.variance < MAX_VARIANCE


def norms(residuals: Sequence[float]) -> Norms:
    """Return mean and (population) variance of the scaled residuals, at least one."""
    mean = statistics.fmean(residuals)
    return Norms(mean, statistics.fmean((value - mean) ** 2 for value in residuals))
