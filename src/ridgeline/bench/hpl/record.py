"""What a run of HPL is asked for, and what it found. Neither Numba, NumPy nor MPI is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Literal

from ridgeline.bench.shared_options import ComputeDevice
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ridgeline.bench.hpl.block_cyclic import Order

Broadcast = Literal["1ring", "1ringM", "2ring", "2ringM", "long", "longM"]
BROADCASTS: tuple[Broadcast, ...] = ("1ring", "1ringM", "2ring", "2ringM", "long", "longM")  # as BCAST 0 to 5
EPSILON = 2.0**-53  # of the official test: the relative error of one rounding
THRESHOLD = 16.0
SEED = 100  # of HPL 2.3's generator


def operations(n: int) -> float:
    """Return the floating-point operations that HPL counts for a system of n unknowns: 2/3 n^3 + 3/2 n^2."""
    return (2.0 / 3.0 * n + 1.5) * n * n


@dataclass(frozen=True)
class HplSettings:
    """One run. n: unknowns; nb: columns of a block; p, q: rows and columns of the process grid.

    threads: of a rank; order: how ranks are numbered in the grid; broadcast: of panels along rows, None for the one
    that is fastest when tried; nbmin: columns at which the recursion within a panel ends; ndiv: parts into which it
    divides; threshold: of the official test; seed: of the matrix; device: where it is factored. Raises ConfigError
    for a value out of range.
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
                raise ConfigError(f"{name} of HPL is {getattr(self, name)}; use 1 or more")
        if self.ndiv < 2:
            raise ConfigError(f"ndiv of HPL is {self.ndiv}; use 2 or more")
        if self.n >= 2**31:
            raise ConfigError(f"n of HPL is {self.n}; BLAS counts in 32 bits, so use less than {2**31}")


@dataclass(frozen=True)
class HplSample:
    """The state of a run after some columns. columns: factored; seconds: since the start.

    flops_per_second: from the start until now; flops_per_second_now: since the sample before.
    """

    columns: int
    seconds: float
    flops_per_second: float
    flops_per_second_now: float


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
        """Return ||Ax-b||_oo / (eps (||A||_oo ||x||_oo + ||b||_oo) n), NaN where a norm is infinite or no number."""
        scale = EPSILON * (self.a * self.x + self.b) * n
        if not (isfinite(scale) and isfinite(self.residual)):
            return nan
        if scale == 0.0:
            return 0.0 if self.residual == 0.0 else inf
        return self.residual / scale


@dataclass(frozen=True)
class HplRun:
    """A finished run.

    seconds: factorisation and solution, of the slowest rank; norms: of the official test; broadcast: that was used;
    phases: seconds by part, the largest of all ranks; samples: performance over progress, at most some hundred;
    broadcast_seconds: what each algorithm took when tried, empty if none was; solution: the part of x that belongs
    to this process's columns, float64, the one field that ranks have differently.
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
