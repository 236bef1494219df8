"""What the solvers by multigrid return."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MultigridResult:
    """How a solve by multigrid ended. Residuals are max |b - A x|.

    Attributes
    ----------
    converged : bool
        Whether the residual is at most the tolerance times max |b|, or at most the absolute one. False if
        max_cycles were done, or if a number became NaN or infinite.
    cycles : int
        V-cycles done.
    residual, initial_residual : float
        At the end and at the start.
    factor : float
        The mean factor of the residual in a cycle; 0 without cycles.
    mean_removed : float
        The mean of b that was subtracted because the problem is singular; 0 for other problems.
    """

    converged: bool
    cycles: int
    residual: float
    initial_residual: float
    factor: float
    mean_removed: float = 0.0

    def __str__(self) -> str:
        end = "converged" if self.converged else "NOT converged"
        return (
            f"{end} after {self.cycles} V-cycles: residual {self.initial_residual:.3e} -> {self.residual:.3e}, "
            f"factor {self.factor:.3f} a cycle"
        )
