"""The contract that the reference and the optimised implementation of HPCG fulfil, so that one run drives either."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Protocol

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.runtime.regions import Regions
from ridgeline.sparse.halo import HaloVector

Array = NDArray[np.float64]

SLACK = 1e-6  # relative slack of a tolerance, as in the official code: residuals count to six digits


@dataclass(frozen=True)
class Times:
    """Seconds of all solves, divided as the official report divides them.

    A pass that does two things at once is charged to the one that reads more. The time of allreduce is part of dot.
    """

    total: float = 0.0
    dot: float = 0.0
    waxpby: float = 0.0
    spmv: float = 0.0
    allreduce: float = 0.0
    multigrid: float = 0.0

    @classmethod
    def of(cls, regions: Regions) -> Times:
        """Return this rank's seconds of the regions that `Implementation.cg` charges."""
        parts = {name: regions.seconds(name) for name in ("waxpby", "spmv", "allreduce", "multigrid")}
        return cls(total=regions.total(), dot=regions.seconds("dot") + parts["allreduce"], **parts)

    def to_dict(self) -> dict[str, float]:
        """Return the seconds by name."""
        return asdict(self)


@dataclass(frozen=True)
class CGResult:
    """The outcome of a solve. residual, initial_residual: ||r|| at the end and before the first iteration.

    history: scaled residual ||r|| / ||r0|| after each iteration.
    """

    iterations: int
    residual: float
    initial_residual: float
    history: list[float] = field(default_factory=list)

    @property
    def scaled_residual(self) -> float:
        """||r|| / ||r0||, which is 0 if the first guess was exact."""
        return self.residual / self.initial_residual if self.initial_residual > 0 else 0.0


class Implementation(Protocol):
    """The operations of one implementation, on vectors in its own order. All of them are collective over comm."""

    comm: MPI.Comm
    n_rows: int

    def vector(self, natural: Array | None = None) -> HaloVector:
        """Return a vector with the values natural [n_rows] (given in natural order), or zeros."""

    def natural(self, v: HaloVector) -> Array:
        """Return a copy of the owned values [n_rows] in natural order."""

    def spmv(self, x: HaloVector, y: HaloVector) -> None:
        """Set y = A x. Exchanges the halo of x."""

    def precondition(self, r: HaloVector, z: HaloVector) -> None:
        """Set z = M^-1 r by one multigrid cycle from z = 0. The owned part of r is restored bit for bit."""

    def dot(self, x: HaloVector, y: HaloVector) -> float:
        """Return x.y, the same on all ranks: one allreduce of 8 bytes."""

    def cg(
        self,
        b: HaloVector,
        x: HaloVector,
        max_iterations: int,
        tolerance: float,
        preconditioned: bool = True,
        regions: Regions | None = None,
    ) -> CGResult:
        """Solve A x = b by conjugate gradients, starting from the given x.

        The iteration ends at max_iterations, or once ||r|| / ||r0|| <= tolerance (1 + SLACK), or where r.z or p.Ap
        has become 0, so that there is no next step. The time is charged to the regions "dot" (local sums),
        "allreduce", "waxpby", "spmv" and "multigrid", and to "other" for the rest.
        """

    def replace_diagonal(self, natural: Array) -> None:
        """Set the diagonal of the finest matrix to natural [n_rows], given in natural order. No communication."""

    def memory(self) -> int:
        """Return the bytes of this implementation's structures and vectors on this rank."""
