"""The pressure: K p = b, solved by GMRES or flexible CG from the space of the last solutions.

Preconditioned by hybrid Schwarz multigrid in single precision (Hadri et al., Secs. 2.2 and 2.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.multigrid.cycle import SchwarzMultigrid
from ridgeline.elements.operator import ElementOperator
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.jit.kernel import Specialisation
from ridgeline.krylov.flexible_cg import flexible_cg, kernels_of_flexible_cg
from ridgeline.krylov.gmres import gmres, kernels_of_gmres
from ridgeline.krylov.operator import InnerProduct, Jacobi, Preconditioner, SolveResult, Workspace
from ridgeline.krylov.projection import Projection, kernels_of_projections
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, PressureSolver
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class PressureSolve:
    """The solver of one problem's pressure. Built collectively."""

    def __init__(
        self,
        comm: MPI.Comm,
        geometry: ElementGeometry,
        gather: GatherScatter,
        inner: InnerProduct,
        work: Workspace,
        regions: Regions,
        constrained: NDArray[np.int64],
        problem: FlowProblem,
    ) -> None:
        self.settings = problem.pressure
        self._inner, self._work, self._regions = inner, work, regions
        self.free_level = problem.level_is_free
        self.operator = ElementOperator(
            geometry.grid, geometry, gather, 1.0, 0.0, constrained,
            inner=inner, nullspace=self.free_level, regions=regions, products=PRODUCTS[problem.products],
        )  # fmt: skip
        self.projection = Projection(self.operator, self.settings.projection, 1, regions)
        self._preconditioner: Preconditioner | None = None
        if self.settings.preconditioner == "schwarz":
            self._preconditioner = SchwarzMultigrid(
                geometry.grid,
                geometry,
                comm,
                problem.sides_of("outflow"),
                dtype=self.settings.precision,
                coarse=self.settings.coarse,
                regions=regions,
                products=PRODUCTS[problem.products],
                overlap=problem.overlap,
            )
        elif self.settings.preconditioner == "jacobi":
            self._preconditioner = Jacobi(self.operator.inverse_diagonal())

    def prepare(self, b: Array) -> None:
        """Mask an assembled right-hand side in place, and take from it what has no solution if p has no level."""
        self.operator.mask(b)
        if self.free_level:
            with self._regions("other", 3.0 * b.size, 40.0 * b.size):
                self._inner.make_consistent(b)

    def solve(self, b: Array, p: Array, remember: bool = True) -> SolveResult:
        """Solve for p with the assembled right-hand side b, which is prepared in place. Collective.

        p holds the last pressure before. remember: whether the guess comes from the past, and this solution joins it.
        """
        settings = self.settings
        self.prepare(b)
        method = gmres if settings.solver == "gmres" else flexible_cg
        arguments = (self._preconditioner, settings.restart, settings.tolerance, settings.max_iterations)
        options = {"work": self._work, "regions": self._regions}
        if not remember or not settings.projection:
            return method(self.operator, b, p, *arguments, zero_guess=not remember, **options)  # type: ignore[arg-type]
        residual, left, dx = (self._work(f"pressure {name}", b.shape) for name in ("residual", "left", "dx"))
        self.projection.guess(b, p, residual)
        result = method(
            self.operator, residual, dx, *arguments, zero_guess=True, residual=left, **options,  # type: ignore[arg-type]
        )  # fmt: skip
        if result.iterations:
            self.projection.update(dx, residual, left)
            with self._regions("other", float(dx.size), 24.0 * dx.size):
                np.add(p, dx, out=p)
        return result


def kernels_of_pressure(settings: PressureSolver) -> list[Specialisation]:
    """Return the kernels of the Krylov method and of the projection."""
    own = settings.precision if settings.preconditioner == "schwarz" else "float64"
    found = kernels_of_gmres(own) if settings.solver == "gmres" else kernels_of_flexible_cg(own)
    return [*found, *kernels_of_projections()] if settings.projection else found
