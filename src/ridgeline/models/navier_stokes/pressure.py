"""The pressure: K p = b, solved by GMRES or flexible CG from the space of the last solutions.

Preconditioned by hybrid Schwarz multigrid in single precision (Hadri et al., Secs. 2.2 and 2.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.multigrid.cycle import SchwarzMultigrid
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.jit.kernel import Specialisation
from ridgeline.krylov.flexible_cg import flexible_cg, kernels_of_flexible_cg
from ridgeline.krylov.gmres import gmres, kernels_of_gmres
from ridgeline.krylov.operator import Preconditioner, SolveResult, timed
from ridgeline.krylov.projection import Projection, kernels_of_projections
from ridgeline.models.navier_stokes.problem import FlowProblem, PressureSolver
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class PressureSolve:
    """The solver of one problem's pressure.

    operator: an `ElementOperator` of the stiffness matrix alone, or its twin on a GPU, where all fields lie then;
    preconditioner, work: of the same kind.
    """

    def __init__(
        self,
        operator: Any,
        preconditioner: Preconditioner | None,
        settings: PressureSolver,
        work: Any,
        regions: Regions | None,
    ) -> None:
        self.operator, self.settings = operator, settings
        self._preconditioner, self._work, self._regions = preconditioner, work, regions
        self.projection = Projection(operator, settings.projection, 1, regions)

    def prepare(self, b: Any) -> None:
        """Mask an assembled right-hand side in place, and take from it what has no solution if p has no level."""
        self.operator.mask(b)
        if self.operator.nullspace:
            with timed(self._regions, "other", 3.0 * b.size, 40.0 * b.size):
                self.operator.inner.make_consistent(b)

    def solve(self, b: Any, p: Any, remember: bool = True) -> SolveResult:
        """Solve for p with the assembled right-hand side b, which is prepared in place. Collective.

        p holds the last pressure before. remember: whether the guess comes from the past, and this solution joins it.
        """
        settings = self.settings
        self.prepare(b)
        method = gmres if settings.solver == "gmres" else flexible_cg
        arguments = (self._preconditioner, settings.restart, settings.tolerance, settings.max_iterations)
        options: dict[str, Any] = {"work": self._work, "regions": self._regions}
        if not remember or not settings.projection:
            return method(self.operator, b, p, *arguments, zero_guess=not remember, **options)
        residual, left, dx = (self._work(f"pressure {name}", b.shape) for name in ("residual", "left", "dx"))
        self.projection.guess(b, p, residual)
        result = method(self.operator, residual, dx, *arguments, zero_guess=True, residual=left, **options)
        if result.iterations:
            self.projection.update(dx, residual, left)
            with timed(self._regions, "other", float(dx.size), 24.0 * dx.size):
                self.operator.inner.add(dx, p)
        return result


def schwarz_multigrid(
    comm: MPI.Comm, geometry: ElementGeometry, problem: FlowProblem, regions: Regions
) -> SchwarzMultigrid:
    """Return the hybrid Schwarz multigrid that a problem asks for, of the host. Collective."""
    settings = problem.pressure
    return SchwarzMultigrid(
        geometry.grid,
        geometry,
        comm,
        problem.sides_of("outflow"),
        dtype=settings.precision,
        coarse=settings.coarse,
        regions=regions,
        products=PRODUCTS[problem.products],
        overlap=problem.overlap,
    )


def kernels_of_pressure(settings: PressureSolver) -> list[Specialisation]:
    """Return the kernels of the Krylov method and of the projection."""
    own = settings.precision if settings.preconditioner == "schwarz" else "float64"
    found = kernels_of_gmres(own) if settings.solver == "gmres" else kernels_of_flexible_cg(own)
    return [*found, *kernels_of_projections()] if settings.projection else found
