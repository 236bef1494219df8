"""What ends a run whose solve did not converge."""

from __future__ import annotations

from ridgeline.krylov.operator import SolveResult
from ridgeline.runtime.errors import DivergedError


def require_converged(step: int, name: str, result: SolveResult) -> None:
    """Raise DivergedError, with what to try, if a solve of a step did not converge."""
    if result.converged:
        return
    count = f"{result.iterations} iteration{'s' * (result.iterations != 1)}"
    section = "pressure" if name == "pressure" else "velocity"
    raise DivergedError(
        f"the {name} solve of step {step} did not converge: residual {result.residual:.3g} after "
        f"{count} (from {result.initial_residual:.3g}); try a smaller model.dt or model.courant, or a larger "
        f"tolerance or max_iterations in [model.{section}]"
    )
