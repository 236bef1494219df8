"""The settings of a run of HPL or HPL-MxP, and its results. Neither Numba, NumPy nor MPI is imported here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Order = Literal["row", "column"]
Broadcast = Literal["1ring", "1ringM", "2ring", "2ringM", "long", "longM"]
BROADCASTS: tuple[Broadcast, ...] = ("1ring", "1ringM", "2ring", "2ringM", "long", "longM")  # as BCAST 0 to 5
Storage = Literal["float32", "float16", "bfloat16"]  # of the factors of HPL-MxP
Numbers = Literal[Storage, "float64"]  # number formats of matrix products
EPSILON = 2.0**-53  # of the official test: the relative error of one rounding
THRESHOLD = 16.0
SEED = 100  # of HPL 2.3's generator
MXP_LIMIT, MXP_ITERATIONS = 16.0, 50  # of HPL-MxP's rules: the scaled residual, iterations of the refinement
MXP_BASIS = 20  # iterations of a cycle of the refinement: vectors of the whole order, on every rank
MOST_SAMPLES = 200


def operations(n: int) -> float:
    """Return the floating-point operations that HPL counts for a system of n unknowns: 2/3 n^3 + 3/2 n^2."""
    return (2.0 / 3.0 * n + 1.5) * n * n


@dataclass(frozen=True)
class HplSettings:
    """The settings of one run. Raises ConfigError for a value out of range.

    Attributes
    ----------
    n, nb : unknowns, and columns of a block
    p, q : rows and columns of the process grid
    threads : of a rank
    order : how ranks are numbered in the grid
    broadcast : algorithm of the broadcast of panels along rows, None for the fastest one in a trial
    nbmin, ndiv : columns at which the recursion within a panel ends, and parts into which it divides
    threshold : of the official test
    seed : of the matrix
    device : where the matrix is factored
    """

    n: int
    nb: int
    p: int = 1
    q: int = 1
    threads: int = 1
    order: Order = "row"
    broadcast: Broadcast | None = None
    nbmin: int = 8
    ndiv: int = 2
    threshold: float = THRESHOLD
    seed: int = SEED
    device: ComputeDevice = "cpu"

    def __post_init__(self) -> None:
        for name in ("n", "nb", "p", "q", "threads", "nbmin"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} of HPL is {getattr(self, name)}, but it must be 1 or more.")
        if self.ndiv < 2:
            raise ConfigError(f"ndiv of HPL is {self.ndiv}, but it must be 2 or more.")
        if self.n >= 2**31:
            raise ConfigError(
                f"n of HPL is {self.n}, but it must be less than {2**31}, because BLAS counts in 32 bits."
            )


@dataclass(frozen=True)
class HplSample:
    """The state of a run after some columns. columns: factored; seconds: since the start.

    flops_per_second: from the start until now; flops_per_second_now: since the sample before.
    """

    columns: int
    seconds: float
    flops_per_second: float
    flops_per_second_now: float


class ProgressLog:
    """Records samples of performance over progress.

    start: the time at which the solve began, set by the caller; on_progress: called with each sample, at most
    MOST_SAMPLES times.
    """

    def __init__(self, n: int, nb: int, on_progress: Callable[[HplSample], None] | None) -> None:
        self.samples: list[HplSample] = []
        self.start = 0.0
        self._n, self._on_progress = n, on_progress
        self._apart = -(-n // nb // MOST_SAMPLES) * nb

    def update(self, columns: int) -> None:
        """Record the number of columns that are factored, if the last sample is long enough ago."""
        last = self.samples[-1] if self.samples else HplSample(0, 0.0, 0.0, 0.0)
        if columns < min(last.columns + self._apart, self._n):
            return
        seconds = perf_counter() - self.start
        total = operations(self._n)
        done, before = (total - operations(self._n - count) for count in (columns, last.columns))
        sample = HplSample(
            columns, seconds, done / seconds, (done - before) / max(seconds - last.seconds, 1e-9)
        )
        self.samples.append(sample)
        if self._on_progress is not None:
            self._on_progress(sample)


@dataclass(frozen=True)
class HplNorms:
    """Norms of the official test: infinity norms of A x - b, A, x and b, and one-norms of A and x."""

    residual: float
    a: float
    x: float
    b: float
    a_one: float
    x_one: float

    def scaled_residual(self, n: int) -> float:
        """Return ||Ax-b||_oo / (eps (||A||_oo ||x||_oo + ||b||_oo) n), NaN where a norm is not a finite number."""
        scale = EPSILON * (self.a * self.x + self.b) * n
        if not (isfinite(scale) and isfinite(self.residual)):
            return nan
        if scale == 0.0:
            return 0.0 if self.residual == 0.0 else inf
        return self.residual / scale


@dataclass(frozen=True)
class HplRun:
    """The results of a run of HPL.

    Attributes
    ----------
    seconds : factorisation and solution, of the slowest rank
    norms : of the official test
    broadcast : the algorithm that was used
    solution : the part of x of this process's columns, float64, the only field that differs between ranks
    phases : seconds by part, the largest of all ranks
    samples : performance over progress
    broadcast_seconds : seconds of each algorithm in the trial, now or in an earlier run, empty without a trial
    """

    settings: HplSettings
    seconds: float
    norms: HplNorms
    broadcast: Broadcast
    solution: NDArray[np.float64] = field(repr=False)
    phases: dict[str, float] = field(default_factory=dict)
    samples: list[HplSample] = field(default_factory=list)
    broadcast_seconds: dict[str, float] = field(default_factory=dict)

    @property
    def flops_per_second(self) -> float:
        """The official rate: operations(n) / seconds."""
        return operations(self.settings.n) / self.seconds

    @property
    def gflops(self) -> float:
        """The official rate in GFLOP/s."""
        return self.flops_per_second / 1e9

    @property
    def residual(self) -> float:
        """The scaled residual of the official test."""
        return self.norms.scaled_residual(self.settings.n)

    @property
    def passed(self) -> bool:
        """Whether the official test passes: the scaled residual is a number below the threshold."""
        return self.residual < self.settings.threshold


@dataclass(frozen=True)
class MxpRun:
    """The results of a run of HPL-MxP.

    Attributes
    ----------
    factor_seconds, solve_seconds, refine_seconds : of factorisation, first solve and refinement, of the slowest rank
    iterations, converged : of GMRES, and whether its own tolerance was met, which is tighter than that of the rules
    scaled_residual : the backward error over N 2^-53
    x : the solution, float64 [n]
    samples : performance of the factorisation over progress
    """

    settings: HplSettings
    storage: Storage
    testing: bool
    factor_seconds: float
    solve_seconds: float
    refine_seconds: float
    iterations: int
    converged: bool
    scaled_residual: float
    x: NDArray[np.float64] = field(repr=False)
    samples: list[HplSample]

    @property
    def seconds(self) -> float:
        """The seconds that the official formula counts."""
        return self.factor_seconds + self.solve_seconds + self.refine_seconds

    @property
    def flops_per_second(self) -> float:
        """The official rate."""
        return operations(self.settings.n) / self.seconds

    @property
    def factor_flops_per_second(self) -> float:
        """The rate of the factorisation alone: 2/3 N^3 over its time."""
        return 2.0 / 3.0 * self.settings.n**3 / self.factor_seconds

    @property
    def passed(self) -> bool:
        """Whether the scaled residual is a number of at most 16, after at most 50 iterations."""
        return self.scaled_residual <= MXP_LIMIT and self.iterations <= MXP_ITERATIONS
