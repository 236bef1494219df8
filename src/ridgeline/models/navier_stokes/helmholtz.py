"""Implicit diffusion: (k K + b_0/dt B) u = f for the three velocities at once, or for one scalar.

Dirichlet values are lifted: the solve sees u = 0 at constrained points. The operator applied to their values goes to
the right-hand side, of the elements at the sides alone. Initial guesses come from the space of the last solutions;
Jacobi-preconditioned conjugate gradients solve for the correction (Hadri et al., Sec. 2.2).
"""

from __future__ import annotations

import numpy as np

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.helmholtz import make_helmholtz
from ridgeline.elements.operator import ElementOperator
from ridgeline.jit.kernel import Specialisation
from ridgeline.krylov.cg import cg, kernels_of_cg
from ridgeline.krylov.operator import InnerProduct, SolveResult, Workspace
from ridgeline.krylov.projection import Projection, kernels_of_projections
from ridgeline.models.navier_stokes.boundary_terms import DirichletValues
from ridgeline.models.navier_stokes.problem import Array, HelmholtzSolver
from ridgeline.runtime.regions import Regions


class HelmholtzSolve:
    """Solves for one group of components with one diffusivity. Its operator follows b_0/dt (`prepare`)."""

    def __init__(
        self,
        name: str,
        geometry: ElementGeometry,
        gather: GatherScatter,
        inner: InnerProduct,
        work: Workspace,
        regions: Regions,
        dirichlet: DirichletValues,
        diffusivity: float,
        settings: HelmholtzSolver,
        products: int,
    ) -> None:
        self.name, self.dirichlet, self.diffusivity, self.settings = name, dirichlet, diffusivity, settings
        self._geometry, self._work, self._regions, self._products = geometry, work, regions, products
        self.components = len(dirichlet.points)
        self.shift, self.order = 0.0, 0  # b_0/dt and order of the last step
        self._operator = ElementOperator(
            geometry.grid,
            geometry,
            gather,
            diffusivity,
            1.0,
            dirichlet.points,
            inner=inner,
            nullspace=False,
            regions=regions,
            products=products,
        )
        self.projection = Projection(self._operator, settings.projection, self.components, regions)
        self._lift = np.zeros(0)
        self._lifted: Array | None = None

    def prepare(self, shift: float, order: int) -> None:
        """Take the b_0/dt of the next step, which is of an order: another diagonal. Collective.

        The space of the last solutions is made orthogonal in the new operator where steps of one order change their
        length. It begins anew with the order, of which a run has few changes.
        """
        change, kept = shift - self.shift, order == self.order
        self.shift, self.order = shift, order
        if change == 0.0:
            return
        self._operator.h2 = shift
        self._inverse_diagonal = self._operator.inverse_diagonal()
        if kept:
            self.projection.shift(change)
        else:
            self.projection.reset()
        self._lifted = None

    def subtract_dirichlet(self, weak: Array) -> None:
        """Subtract from unassembled right-hand sides [c, E, n, n, n] what the Dirichlet values do to them."""
        dirichlet = self.dirichlet
        if not dirichlet.nonzero:
            return
        if self._lifted is None or not dirichlet.steady:
            self._lifted = self._apply_to_dirichlet()
        weak[:, dirichlet.elements] -= self._lifted

    def _apply_to_dirichlet(self) -> Array:
        """Return (k K + b_0/dt B) of the Dirichlet values, on the elements that have some, [c, m, n, n, n]."""
        grid, g, elements = self._geometry.grid, self._geometry, self.dirichlet.elements
        if not self._lift.size:
            self._lift = np.zeros((self.components, *grid.shape))
        self.dirichlet.write(self._lift)
        kernel = make_helmholtz(grid.n, "float64", g.axis_aligned, self._products)
        out = self._work("helmholtz lifted", grid.shape)
        result = np.empty((self.components, len(elements), grid.n, grid.n, grid.n))
        with self._regions("helmholtz"):
            for field, found in zip(self._lift, result):
                kernel(
                    elements, field, self.diffusivity, self.shift,
                    g.scale, g.volume, g.factors, g.mass, g.derivative, g.weights, out,
                )  # fmt: skip
                found[...] = out[elements]
        return result

    def solve(self, b: Array, out: Array, remember: bool = True) -> SolveResult:
        """Solve for out [c, E, n, n, n] with the assembled right-hand side b, which is masked in place. Collective.

        out holds the Dirichlet values at constrained points. remember: whether the guess comes from the past
        solutions and this one joins them; else the guess and the constrained points are zero.
        """
        settings = self.settings
        self._operator.mask(b)
        arguments = (self._inverse_diagonal, settings.tolerance, settings.max_iterations)
        options = {"work": self._work, "regions": self._regions}
        if not remember:
            return cg(self._operator, b, out, *arguments, zero_guess=True, **options)  # type: ignore[arg-type]
        if not settings.projection:
            self._operator.mask(out)
            result = cg(self._operator, b, out, *arguments, **options)  # type: ignore[arg-type]
        else:
            residual = self._work("helmholtz residual", b.shape)
            left = self._work("helmholtz left", b.shape)
            dx = self._work("helmholtz dx", b.shape)
            self.projection.guess(b, out, residual)
            result = cg(
                self._operator, residual, dx, *arguments, zero_guess=True, residual=left, **options,  # type: ignore[arg-type]
            )  # fmt: skip
            if result.iterations:
                self.projection.update(dx, residual, left)
                with self._regions("other", float(dx.size), 24.0 * dx.size):
                    np.add(out, dx, out=out)
        self.dirichlet.write(out)
        return result


def kernels_of_helmholtz(settings: HelmholtzSolver) -> list[Specialisation]:
    """Return the kernels of conjugate gradients and of the projection."""
    return [*kernels_of_cg(), *kernels_of_projections()] if settings.projection else kernels_of_cg()
