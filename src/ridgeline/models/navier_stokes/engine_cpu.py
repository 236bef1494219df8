"""The fast solver on CPUs: fields in host memory, compiled passes, chunks of elements that stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.operator import ElementOperator
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.operator import InnerProduct, Jacobi, Preconditioner, Workspace
from ridgeline.krylov.projection import Projection
from ridgeline.models.navier_stokes.boundary_terms import DirichletValues
from ridgeline.models.navier_stokes.element_kernels import ElementKernels
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.helmholtz import DirichletLift, kernels_of_helmholtz
from ridgeline.models.navier_stokes.kernels import make_face_derivatives
from ridgeline.models.navier_stokes.pressure import kernels_of_pressure, schwarz_multigrid
from ridgeline.models.navier_stokes.problem import DIRICHLET, Array, FlowProblem, TransportedScalar
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class CpuEngine(SplittingEngine):
    """Velocity, pressure and scalars of this rank's elements in host memory. Built collectively.

    Raises ConfigError for sides that contradict each other on this mesh (see `Boundaries`).
    """

    kernels: ElementKernels
    gather: GatherScatter
    inner: InnerProduct

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        problem: FlowProblem,
        regions: Regions | None = None,
        geometry: ElementGeometry | None = None,
    ) -> None:
        super().__init__(comm, grid, problem, regions, geometry)
        self.kernels = in_turn_per_node(comm, self._compile)
        assembled, self.inner, self.boundaries = self._host_parts()
        self.gather = self.host_gather
        self.inverse_mass = 1.0 / assembled
        self._make_fields()
        self._workspace = Workspace()
        self._make_solves()

    def _compile(self) -> ElementKernels:
        """Compile, or load from the cache, what a step calls; operators and preconditioners compile theirs."""
        problem = self.problem
        if problem.sides_of(*DIRICHLET):
            make_face_derivatives()
        compile_kernels([*kernels_of_pressure(problem.pressure), *kernels_of_helmholtz(problem.velocity)])
        return ElementKernels(self.grid, self.geometry, problem)

    def _operator(self, h1: float, h2: float, constrained: Any, nullspace: bool = False) -> ElementOperator:
        return ElementOperator(
            self.grid, self.geometry, self.gather, h1, h2, constrained, inner=self.inner, nullspace=nullspace,
            regions=self.regions, products=PRODUCTS[self.problem.products],
        )  # fmt: skip

    def _lift(self, operator: ElementOperator, dirichlet: DirichletValues) -> DirichletLift:
        return DirichletLift(operator, dirichlet, self._workspace, self.regions)

    def _preconditioner(self, operator: ElementOperator) -> Preconditioner | None:
        kind = self.problem.pressure.preconditioner
        if kind == "schwarz":
            return schwarz_multigrid(self.comm, self.geometry, self.problem, self.regions)
        return Jacobi(operator.inverse_diagonal(), self.inner) if kind == "jacobi" else None

    @property
    def fields(self) -> Array:
        """Velocity and scalars, [3 + S, E, n, n, n]."""
        fields: Array = self.time_levels.fields[0]
        return fields

    @property
    def p(self) -> Array:
        """Pressure, [E, n, n, n]."""
        pressure: Array = self._p
        return pressure

    def host_levels(self) -> Sequence[Array]:
        """Return the fields of all levels, newest first."""
        return self.time_levels.fields

    def host_space(self, projection: Projection) -> dict[str, Array]:
        """Return the fields of a projection, by name, each [rows, E, n, n, n]."""
        return projection.fields()

    def describe(self) -> str:
        """Return how fields are computed, in words."""
        overlap = "overlap" if self.problem.overlap else "do not overlap"
        return f"{self.problem.products} products; messages {overlap} computing"

    def memory(self) -> dict[str, int]:
        """Return the bytes of fields and buffers of this rank, by what they are for."""
        levels = sum(array.nbytes for array in (*self.time_levels.fields, *self.time_levels.rates))
        mine = (self._p, self._right, self._vector, self._weak, self.inverse_mass)
        geometry = self.geometry
        shape = (geometry.coordinates, geometry.mass, geometry.metrics, geometry.factors)
        spaces = [self.pressure.projection, *(solve.projection for solve in (self.velocity, *self.scalars))]
        return {
            "fields": levels + sum(array.nbytes for array in mine),
            "geometry": sum(array.nbytes for array in shape),
            "projection": sum(p.basis.nbytes + p.applied.nbytes for p in spaces),
            "Krylov vectors": self._workspace.n_bytes,
            "gather-scatter": self.gather.memory(),
        }

    def _zeros(self, *leading: int) -> Array:
        return np.zeros((*leading, *self.grid.shape))

    def _numbers(self, values: Sequence[float]) -> Array:
        return np.array(values)

    def _put(self, values: Array, out: Array) -> None:
        out[...] = values

    def _average(self, fields: Array) -> None:
        self.gather.sum(fields)
        np.multiply(fields, self.inner.weights, out=fields)

    def _take_over(self) -> None:
        """Do nothing: the host's levels are the engine's."""

    def _gather_computed(self, weak: Array, compute: Callable[..., None]) -> None:
        self.gather.sum_computed(weak, lambda _, elements: compute(elements), len(weak))

    def _subtract_sources(self, fields: Array, time: float, rates: Array) -> None:
        for i, scalar in enumerate(self.problem.scalars, start=3):
            with self.regions("other"):
                self._subtract_source(scalar, fields[:3], time, rates[i])

    def _subtract_source(self, scalar: TransportedScalar, velocity: Array, time: float, rate: Array) -> None:
        """Subtract (v, s - u.G) from a scalar's weak rate."""
        mass = self.geometry.mass
        x, y, z = self.geometry.coordinates
        if scalar.source is not None:
            rate -= mass * scalar.source(x, y, z, time)
        for component, gradient in zip(velocity, scalar.mean_gradient):
            if gradient:
                rate += mass * (gradient * component)
