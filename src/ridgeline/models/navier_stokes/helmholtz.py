"""Implicit diffusion: (k K + b_0/dt B) u = f for the three velocities at once, or for one scalar.

Given values are lifted: u is zero at constrained points in the solve, and what their values do to the other points
goes to the right-hand side, of the elements at the sides alone. Initial guesses come from the space of the last
solutions; Jacobi-preconditioned conjugate gradients do the rest (Hadri et al., Sec. 2.2).
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
from ridgeline.models.navier_stokes.boundary_terms import GivenValues
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
        given: GivenValues,
        diffusivity: float,
        settings: HelmholtzSolver,
    ) -> None:
        self.name, self.given, self.diffusivity, self.settings = name, given, diffusivity, settings
        self._geometry, self._gather, self._inner = geometry, gather, inner
        self._work, self._regions = work, regions
        self.components = len(given.points)
        self.shift = 0.0
        self._operator = self._make_operator(1.0)
        self.projection = Projection(self._operator, settings.projection, self.components, regions)
        self._lift = np.zeros(0)
        self._lifted: Array | None = None

    def _make_operator(self, shift: float) -> ElementOperator:
        return ElementOperator(
            self._geometry.grid,
            self._geometry,
            self._gather,
            self.diffusivity,
            shift,
            self.given.points,
            inner=self._inner,
            nullspace=False,
            regions=self._regions,
        )

    def prepare(self, shift: float) -> None:
        """Take another b_0/dt: a new operator and diagonal, and no past solutions. Collective."""
        if shift == self.shift:
            return
        self.shift = shift
        self._operator = self._make_operator(shift)
        self._inverse_diagonal = self._operator.inverse_diagonal()
        self.projection.reset(self._operator)
        self._lifted = None

    def subtract_given(self, weak: Array) -> None:
        """Subtract from unassembled right-hand sides [c, E, n, n, n] what the given values do to them."""
        given = self.given
        if not given.nonzero:
            return
        if self._lifted is None or not given.steady:
            self._lifted = self._apply_to_given()
        weak[:, given.elements] -= self._lifted

    def _apply_to_given(self) -> Array:
        """Return (k K + b_0/dt B) of the given values, on the elements that have some, [c, m, n, n, n]."""
        grid, g, elements = self._geometry.grid, self._geometry, self.given.elements
        if not self._lift.size:
            self._lift = np.zeros((self.components, *grid.shape))
        self.given.write(self._lift)
        kernel = make_helmholtz(grid.n, "float64", g.axis_aligned)
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

        out holds the given values at constrained points. remember: whether guesses come from the past solutions, and
        this one joins them; else the guess is zero and so are the constrained points.
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
        self.given.write(out)
        return result


def kernels_of_helmholtz(settings: HelmholtzSolver) -> list[Specialisation]:
    """Return the kernels of conjugate gradients and of the projection."""
    return [*kernels_of_cg(), *kernels_of_projections()] if settings.projection else kernels_of_cg()
