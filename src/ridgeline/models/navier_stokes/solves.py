"""The linear solves of a step: the pressure, and the implicit diffusion of velocity and scalars.

Both take their initial guess from the space of the last solutions, and solve for the correction (Hadri et al.,
Sec. 2.2).

    K p = b                      `PressureSolve`: GMRES or flexible CG, preconditioned by hybrid Schwarz multigrid in
                                 single precision (Sec. 2.4)
    (k K + b_0/dt B) u = f       `HelmholtzSolve`: conjugate gradients with the diagonal as preconditioner, for the
                                 three velocities at once or for one scalar

Dirichlet values are lifted: the solve sees u = 0 at constrained points, and the operator applied to the given values
goes to the right-hand side, on the elements that have such points (`DirichletLift`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.multigrid.cycle import SchwarzMultigrid
from ridgeline.elements.operator import ElementOperator
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.jit.kernel import Specialisation
from ridgeline.krylov.cg import cg, flexible_cg, kernels_of_cg, kernels_of_flexible_cg
from ridgeline.krylov.gmres import gmres, kernels_of_gmres
from ridgeline.krylov.operator import Operator, Preconditioner, SolveResult, Workspace, timed
from ridgeline.krylov.projection import Projection, kernels_of_projections
from ridgeline.models.navier_stokes.boundary_terms import DirichletValues
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, HelmholtzSolver, PressureSolver
from ridgeline.runtime.errors import DivergedError
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class Buffers(Protocol):
    """Memory for the vectors of a solve, by name: `Workspace`, or `CudaWorkspace` on a GPU."""

    def __call__(self, name: str, shape: Sequence[int], dtype: DTypeLike = np.float64) -> Any:
        """Return a buffer of undefined content; the same memory each time for a name."""


class ShiftedOperator(Operator, Protocol):
    """h1 K + h2 B with points where the solution is given: `ElementOperator`, or `CudaElementOperator` on a GPU."""

    h2: float

    def mask(self, u: Any) -> None:
        """Set u to 0 at constrained points."""

    def inverse_diagonal(self) -> Any:
        """Return the inverse of the assembled diagonal, for the present h1 and h2. Collective."""


class ConstrainedValues(Protocol):
    """Values at constrained points, where the fields are: `DirichletValues`, or `CudaDirichletValues` on a GPU."""

    points: list[NDArray[np.int64]]
    nonzero: bool

    def write(self, fields: Any) -> None:
        """Write the values into fields [c, E, n, n, n]."""


class DirichletTerms(Protocol):
    """What given values add to right-hand sides: `DirichletLift`, or `CudaDirichletLift` on a GPU."""

    def subtract(self, weak: Any) -> None:
        """Subtract the operator applied to the given values from unassembled right-hand sides [c, E, n, n, n]."""


class PressureSolve:
    """The solver of one problem's pressure.

    operator: an `ElementOperator` of the stiffness matrix alone, or its twin on a GPU, where all fields lie then;
    preconditioner, work: of the same kind.
    """

    def __init__(
        self,
        operator: ShiftedOperator,
        preconditioner: Preconditioner | None,
        settings: PressureSolver,
        work: Buffers,
        regions: Regions | None,
    ) -> None:
        self.operator, self.settings = operator, settings
        self._preconditioner, self._work, self._regions = preconditioner, work, regions
        self.projection = Projection(operator, settings.projection, 1, regions)

    def solve(self, b: Any, p: Any, remember: bool = True) -> SolveResult:
        """Solve for p with the assembled right-hand side b, which is changed in place. Collective.

        p holds the last pressure before. remember: whether the guess comes from the last solutions, and this solution
        joins them.
        """
        settings = self.settings
        self.operator.mask(b)
        if self.operator.nullspace:  # p has no level: take from b what has no solution
            with timed(self._regions, "other", 3.0 * b.size, 40.0 * b.size):
                self.operator.inner.make_consistent(b)

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
    """Return the hybrid Schwarz multigrid of a problem's pressure, on the host. Collective."""
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
    kernels = kernels_of_gmres(own) if settings.solver == "gmres" else kernels_of_flexible_cg(own)
    return [*kernels, *kernels_of_projections()] if settings.projection else kernels


class DirichletLift:
    """k K + b_0/dt B applied to the Dirichlet values of a group of components, on the elements that have some."""

    def __init__(
        self, operator: ElementOperator, dirichlet: DirichletValues, work: Workspace, regions: Regions
    ) -> None:
        self._operator, self._dirichlet, self._work, self._regions = operator, dirichlet, work, regions
        self._values = np.zeros(0)
        self._lifted = np.zeros(0)
        self._shift = 0.0  # b_0/dt for which `_lifted` was computed

    def subtract(self, weak: Array) -> None:
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
        operator: ShiftedOperator,
        dirichlet: ConstrainedValues,
        lift: DirichletTerms,
        settings: HelmholtzSolver,
        work: Buffers,
        regions: Regions | None,
    ) -> None:
        self.name, self.dirichlet, self.settings = name, dirichlet, settings
        self._operator, self._lift, self._work, self._regions = operator, lift, work, regions
        self.shift, self.order = 0.0, 0  # b_0/dt and order of the last step
        self.projection = Projection(operator, settings.projection, len(dirichlet.points), regions)

    def prepare(self, shift: float, order: int) -> None:
        """Set the operator's b_0/dt to that of the next step, which has the given order. Collective.

        Nothing is done while steps keep their length. Otherwise the diagonal of the operator is computed anew. On a
        CPU this allocates a field, sums it with neighbours and splits a communicator by nodes, and the first time it
        compiles the kernel.

        The space of the last solutions is made orthogonal in the new operator when steps of one order change their
        length. It is emptied when the order changes, which happens a few times in a run.
        """
        change, same_order = shift - self.shift, order == self.order
        self.shift, self.order = shift, order
        if change == 0.0:
            return
        self._operator.h2 = shift
        self._inverse_diagonal = self._operator.inverse_diagonal()
        if same_order:
            self.projection.shift(change)
        else:
            self.projection.reset()

    def subtract_dirichlet(self, weak: Any) -> None:
        """Subtract the operator applied to the Dirichlet values from unassembled right-hand sides [c, E, n, n, n]."""
        self._lift.subtract(weak)

    def solve(self, b: Any, out: Any, remember: bool = True) -> SolveResult:
        """Solve for out [c, E, n, n, n] with the assembled right-hand side b, which is masked in place. Collective.

        out holds the Dirichlet values at constrained points. remember: whether the guess comes from the last
        solutions and this solution joins them; otherwise the guess and the constrained points are zero.
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


def require_converged(step: int, name: str, result: SolveResult) -> None:
    """Raise DivergedError, with advice, if a solve of a step did not converge."""
    if result.converged:
        return
    count = f"{result.iterations} iteration{'s' * (result.iterations != 1)}"
    section = "pressure" if name == "pressure" else "velocity"
    raise DivergedError(
        f"the {name} solve of step {step} did not converge. Its residual is {result.residual:.3g} after {count} "
        f"(from {result.initial_residual:.3g}). Try a smaller model.dt or model.courant, or a larger tolerance or "
        f"max_iterations in [model.{section}]."
    )
