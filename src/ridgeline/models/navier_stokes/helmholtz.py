"""Implicit diffusion: (k K + b_0/dt B) u = f for the three velocities at once, or for one scalar.

Dirichlet values are lifted: the solve sees u = 0 at constrained points. The operator applied to their values goes to
the right-hand side, of the elements at the sides alone. Initial guesses come from the space of the last solutions;
Jacobi-preconditioned conjugate gradients solve for the correction (Hadri et al., Sec. 2.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeline.elements.operator import ElementOperator
from ridgeline.jit.kernel import Specialisation
from ridgeline.krylov.cg import cg, kernels_of_cg
from ridgeline.krylov.operator import SolveResult, Workspace, timed
from ridgeline.krylov.projection import Projection, kernels_of_projections
from ridgeline.models.navier_stokes.boundary_terms import DirichletValues
from ridgeline.models.navier_stokes.problem import Array, HelmholtzSolver
from ridgeline.runtime.regions import Regions


class DirichletLift:
    """k K + b_0/dt B of the Dirichlet values of a group of components, on the elements that have some."""

    def __init__(
        self, operator: ElementOperator, dirichlet: DirichletValues, work: Workspace, regions: Regions
    ) -> None:
        self._operator, self._dirichlet, self._work, self._regions = operator, dirichlet, work, regions
        self._values = np.zeros(0)
        self._lifted = np.zeros(0)
        self._shift = 0.0  # of what is there

    def subtract(self, weak: Array) -> None:
        """Subtract from unassembled right-hand sides [c, E, n, n, n] what the Dirichlet values do to them."""
        dirichlet, shift = self._dirichlet, self._operator.h2
        if not dirichlet.nonzero:
            return
        if shift != self._shift or not dirichlet.steady:
            self._lifted, self._shift = self._apply(), shift
        weak[:, dirichlet.elements] -= self._lifted

    def _apply(self) -> Array:
        """Return the operator applied to the values, [c, m, n, n, n]."""
        grid, elements = self._operator.grid, self._dirichlet.elements
        components = len(self._dirichlet.points)
        if not self._values.size:
            self._values = np.zeros((components, *grid.shape))
        self._dirichlet.write(self._values)
        out = self._work("helmholtz lifted", grid.shape)
        result = np.empty((components, len(elements), grid.n, grid.n, grid.n))
        with self._regions("helmholtz"):
            for c in range(components):
                self._operator.apply_elements(elements, self._values[c], out)
                result[c] = out[elements]
        return result


class HelmholtzSolve:
    """Solves for one group of components with one diffusivity. Its operator follows b_0/dt (`prepare`).

    operator: an `ElementOperator` with that diffusivity, or its twin on a GPU, where all fields lie then; dirichlet,
    lift, work: of the same kind. name: of the solve. Built collectively.
    """

    def __init__(
        self,
        name: str,
        operator: Any,
        dirichlet: Any,
        lift: Any,
        settings: HelmholtzSolver,
        work: Any,
        regions: Regions | None,
    ) -> None:
        self.name, self.dirichlet, self.settings = name, dirichlet, settings
        self._operator, self._lift, self._work, self._regions = operator, lift, work, regions
        self.shift, self.order = 0.0, 0  # b_0/dt and order of the last step
        self.projection = Projection(operator, settings.projection, len(dirichlet.points), regions)

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

    def subtract_dirichlet(self, weak: Any) -> None:
        """Subtract from unassembled right-hand sides [c, E, n, n, n] what the Dirichlet values do to them."""
        self._lift.subtract(weak)

    def solve(self, b: Any, out: Any, remember: bool = True) -> SolveResult:
        """Solve for out [c, E, n, n, n] with the assembled right-hand side b, which is masked in place. Collective.

        out holds the Dirichlet values at constrained points. remember: whether the guess comes from the past
        solutions and this one joins them; else the guess and the constrained points are zero.
        """
        settings = self.settings
        self._operator.mask(b)
        arguments = (self._inverse_diagonal, settings.tolerance, settings.max_iterations)
        options: dict[str, Any] = {"work": self._work, "regions": self._regions}
        if not remember:
            return cg(self._operator, b, out, *arguments, zero_guess=True, **options)
        if not settings.projection:
            self._operator.mask(out)
            result = cg(self._operator, b, out, *arguments, **options)
        else:
            residual = self._work("helmholtz residual", b.shape)
            left = self._work("helmholtz left", b.shape)
            dx = self._work("helmholtz dx", b.shape)
            self.projection.guess(b, out, residual)
            result = cg(self._operator, residual, dx, *arguments, zero_guess=True, residual=left, **options)
            if result.iterations:
                self.projection.update(dx, residual, left)
                with timed(self._regions, "other", float(dx.size), 24.0 * dx.size):
                    self._operator.inner.add(dx, out)
        self.dirichlet.write(out)
        return result


def kernels_of_helmholtz(settings: HelmholtzSolver) -> list[Specialisation]:
    """Return the kernels of conjugate gradients and of the projection."""
    return [*kernels_of_cg(), *kernels_of_projections()] if settings.projection else kernels_of_cg()
