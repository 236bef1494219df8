"""Navier-Stokes on CPUs: fields in host memory, compiled passes, chunks of elements that stay in the caches.

`ElementKernels` binds the kernels of kernels.py and `elements/` to the geometry of this rank's elements; `CpuEngine`
gives them, and the operators made of them, to the steps of `engine.SplittingEngine`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import Formula
from ridgeline.elements.advection import fine_metrics, make_advection, make_advection_collocated
from ridgeline.elements.courant import inverse_spacing, make_courant
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.operator import ElementOperator
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation, gauss_lobatto
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.jit.formulas import FormulaLoop
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.operator import InnerProduct, Jacobi, Preconditioner, Workspace
from ridgeline.krylov.projection import Projection
from ridgeline.models.navier_stokes.boundary_terms import DirichletValues
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.kernels import (
    make_buoyancy,
    make_face_derivatives,
    make_force_divergence,
    make_momentum,
    make_source,
    make_weak_right_hand_side,
)
from ridgeline.models.navier_stokes.kernels_diffusion import faces_at_sides, make_variable_diffusion
from ridgeline.models.navier_stokes.problem import (
    DIRICHLET,
    Array,
    FlowProblem,
    bubble_filter,
)
from ridgeline.models.navier_stokes.solves import (
    DirichletLift,
    kernels_of_helmholtz,
    kernels_of_pressure,
    schwarz_multigrid,
)
from ridgeline.models.navier_stokes.sources import PLACES, field_symbols, kept_formulas
from ridgeline.models.navier_stokes.time_stepping import levels_of_kernel
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class ElementKernels:
    """The element operators of a step on this rank's elements. No communication.

    All results are those of each element by itself ("unassembled"). every: the numbers of all elements, int64.
    """

    def __init__(self, grid: ElementGrid, geometry: ElementGeometry, problem: FlowProblem) -> None:
        dealias_points = problem.dealias_points
        self.grid, self.geometry = grid, geometry
        n, aligned = grid.n, geometry.axis_aligned
        products = PRODUCTS[problem.products]
        self.elements = np.arange(grid.n_elements, dtype=np.int64)
        self.every = self.elements
        self._right_hand_side = make_weak_right_hand_side()
        self._force_divergence = make_force_divergence(n, aligned, products)
        self._momentum = make_momentum(n, aligned, products)
        g = geometry
        self._metric = (g.scale, g.volume, g.metrics, g.mass, g.derivative, g.weights)
        w = g.weights
        self._mass = (
            g.volume,
            np.einsum("k,j,i->kji", w, w, w).reshape(-1),
            np.empty((0, n**3)) if aligned else g.mass.reshape(grid.n_elements, n**3),
        )
        self._buoyancy: Any = make_buoyancy() if problem.buoyant else None
        self._factors = problem.buoyancy_factors()
        self._terms = [(term.field, *make_source(term)) for term in problem.source_terms]
        self.kept = {
            formula.text: formula.evaluate(dict(zip(PLACES, g.coordinates))).reshape(-1)
            for formula in kept_formulas(problem.source_terms)
        }
        coefficients = problem.variable_coefficients
        self._at_sides = faces_at_sides(geometry, problem.sides_of("periodic"))
        # What is steady is evaluated once; the others share one field.
        self._excess = np.empty(grid.shape if any(not each.steady for each in coefficients) else 0)
        self._steady_excess = {
            each.key: each.evaluate(g.coordinates, 0.0, np.empty((3, 0))) - each.reference
            for each in coefficients
            if each.steady
        }
        names = *PLACES, *field_symbols(len(problem.scalars))
        self._diffusion = [
            (
                each,
                None if each.steady else FormulaLoop(each.formula, names, ("t",)),
                make_variable_diffusion(n, aligned, each.count, products),
            )
            for each in coefficients
        ]
        points = gauss_lobatto(n)[0]
        self._courant = make_courant(n, aligned)
        self._inverse_spacing = inverse_spacing(points)
        self._filter = np.eye(n)
        if problem.filter_weight:
            self._filter = bubble_filter(points, problem.filter_weight, problem.filter_modes)
        if dealias_points:
            fine_points, fine_weights = gauss(dealias_points)
            to_fine = gauss_interpolation(n, dealias_points)
            fine = np.empty((0, 9, 1, 1, 1))
            if not aligned:
                fine = fine_metrics(g.metrics, g.mass, g.weights, to_fine, fine_weights)
            self._advection = make_advection(n, dealias_points, "float64", aligned, products)
            self._fine = (g.scale, g.volume, fine, to_fine, derivative_matrix(fine_points), fine_weights)
        else:
            self._advection = make_advection_collocated(n, "float64", aligned, products)
            self._fine = self._metric

    def advection(self, velocity: Array, fields: Array, out: Array) -> None:
        """Set out [c, E, n, n, n] to (v, u.grad f) of fields [c, ...]; velocity [3, ...] may be their first three."""
        self._advection(self.elements, velocity, fields, *self._fine, out)

    @property
    def bytes_of_formulas(self) -> int:
        """Bytes of the kept formulas, and of the field in which other variable coefficients are evaluated."""
        kept = (*self.kept.values(), *self._steady_excess.values(), self._excess)
        return sum(array.nbytes for array in kept)

    def right_hand_side(
        self,
        elements: NDArray[np.int64],
        coefficients: tuple[Array, Array],
        force: Array,
        fields: Sequence[Array],
        rates: Sequence[Array],
        out: Array,
    ) -> None:
        """Set some elements of out [c, E, n, n, n] to the known side of the step. One pass: 7 words per point.

        out = -a . rates - mass (b . fields - force). coefficients: a and b of `StepCoefficients`; force: [c]; fields,
        rates: of the existing levels, newest first, see `TimeLevels`. The rates hold advection less sources.
        """
        a, b = coefficients
        flat = [self._of_points(level) for levels in (fields, rates) for level in levels_of_kernel(levels)]
        self._right_hand_side(elements, -a, b, force, *flat, *self._mass, self._of_points(out))

    def _of_points(self, fields: Array) -> Array:
        return fields.reshape(*fields.shape[:2], -1)

    def subtract_buoyancy(self, fields: Array, rates: Array) -> None:
        """Subtract the weak buoyancy of the scalars from the rates [3 + S, E, n, n, n] of fields of the same shape.

        The rates hold advection less sources. Only for a problem with buoyancy.
        """
        scalars, out = self._of_points(fields)[3:], self._of_points(rates)[:3]
        self._buoyancy(*self._factors, scalars, *self._mass, out)

    def subtract_sources(self, fields: Array, time: float, rates: Array) -> None:
        """Subtract the weak source terms of a problem from the rates [3 + S, E, n, n, n] of fields of that shape."""
        values = dict(zip(PLACES, self.geometry.coordinates.reshape(3, -1)))
        values |= zip(field_symbols(len(fields) - 3), fields.reshape(len(fields), -1))
        values |= self.kept
        out = self._of_points(rates)
        for i, source, names in self._terms:
            source(tuple(values[name] for name in names), time, *self._mass, out[i])

    def subtract_variable_diffusion(self, fields: Array, time: float, rates: Array) -> None:
        """Subtract the diffusion beyond that of the reference coefficients from the rates of fields, as sources."""
        values: dict[str, Any] = dict(zip(PLACES, self.geometry.coordinates)) | {"t": time}
        values |= zip(field_symbols(len(fields) - 3), fields)
        for coefficient, evaluate, diffusion in self._diffusion:
            excess = self._excess if evaluate else self._steady_excess[coefficient.key]
            chosen = slice(coefficient.field, coefficient.field + coefficient.count)
            if evaluate:
                evaluate(values, excess)
                excess -= coefficient.reference
            diffusion(self.elements, excess, self._at_sides, fields[chosen], *self._metric, rates[chosen])

    def force_divergence(self, force: Array, inverse_mass: Array, out: Array) -> None:
        """Set out to (grad q, inverse_mass force); force: an assembled weak vector [3, E, n, n, n]."""
        self._force_divergence(self.elements, force, inverse_mass, *self._metric, out)

    def momentum(self, elements: NDArray[np.int64], p: Array, force: Array, share: Array, out: Array) -> None:
        """Set some elements of out [3, E, n, n, n] to share force - mass grad p."""
        self._momentum(elements, p, force, share, *self._metric, out)

    def courant(self, velocity: Array) -> float:
        """Return max(|u_r| / dr + |u_s| / ds + |u_t| / dt) over this rank's points: the Courant number over dt."""
        g = self.geometry
        return float(self._courant(self.elements, velocity, g.scale, g.metrics, self._inverse_spacing))

    def filter(self, fields: Array) -> None:
        """Apply the explicit filter in all directions, in place."""
        f = self._filter
        for field in fields:
            for element in field:
                along = f @ (element @ f.T)
                element[...] = (f @ along.reshape(len(f), -1)).reshape(element.shape)


class CpuEngine(SplittingEngine):
    """Velocity, pressure and scalars of this rank's elements in host memory. Built collectively.

    Raises ConfigError for sides that contradict each other on this mesh, see `Boundaries`.
    """

    kernels: ElementKernels
    gather: GatherScatter
    inner: InnerProduct
    _workspace: Workspace

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        problem: FlowProblem,
        regions: Regions | None = None,
        geometry: ElementGeometry | None = None,
    ) -> None:
        super().__init__(comm, grid, problem, regions, geometry)
        self.kernels = compile_on_nodes(comm, self._compile)
        assembled, self.inner, self.boundaries = self._host_parts()
        self.gather = self.host_gather
        self.inverse_mass = 1.0 / assembled
        self._make_fields()
        self._workspace = Workspace()
        self._make_solves()

    def _compile(self) -> ElementKernels:
        """Compile, or load from the cache, what a step calls; operators and preconditioners compile their own."""
        problem = self.problem
        if problem.sides_of(*DIRICHLET):
            make_face_derivatives()
        compile_kernels([*kernels_of_pressure(problem.pressure), *kernels_of_helmholtz(problem.velocity)])
        return ElementKernels(self.grid, self.geometry, problem)

    def _operator(self, h1: float, h2: float, constrained: Any, nullspace: bool = False) -> ElementOperator:
        return ElementOperator(
            self.grid,
            self.geometry,
            self.gather,
            h1,
            h2,
            constrained,
            inner=self.inner,
            nullspace=nullspace,
            regions=self.regions,
            products=PRODUCTS[self.problem.products],
        )

    def _lift(self, operator: ElementOperator, dirichlet: DirichletValues) -> DirichletLift:
        return DirichletLift(operator, dirichlet, self._workspace, self.regions)

    def _preconditioner(self, operator: ElementOperator) -> Preconditioner | None:
        kind = self.problem.pressure.preconditioner
        if kind == "schwarz":
            return schwarz_multigrid(self.comm, self.geometry, self.problem, self.regions)
        return Jacobi(operator.inverse_diagonal(), self.inner) if kind == "jacobi" else None

    @property
    def fields(self) -> Array:
        fields: Array = self.time_levels.fields[0]
        return fields

    @property
    def p(self) -> Array:
        pressure: Array = self._p
        return pressure

    def host_known_side(self) -> Array:
        known: Array = self._right
        return known

    def host_levels(self) -> Sequence[Array]:
        return self.time_levels.fields

    def host_space(self, projection: Projection) -> dict[str, Array]:
        return projection.fields()

    def describe(self) -> str:
        overlap = "overlap with" if self.problem.overlap else "do not overlap with"
        return f"{self.problem.products} products; messages {overlap} computation"

    def memory(self) -> dict[str, int]:
        levels = self.time_levels
        held = sum(array.nbytes for array in (*levels.fields, *levels.rates, *levels.spare))
        others = (self._p, self._right, self._vector, self._weak, self.inverse_mass)
        geometry = self.geometry
        shape = (geometry.coordinates, geometry.mass, geometry.metrics, geometry.factors)
        spaces = [self.pressure.projection, *(solve.projection for solve in (self.velocity, *self.scalars))]
        return {
            "fields": held + sum(array.nbytes for array in others),
            "geometry": sum(array.nbytes for array in shape),
            "sources": self.kernels.bytes_of_formulas,
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

    def _load_host(self) -> None:
        """Do nothing, because the host's levels are the engine's."""

    def _gather_computed(self, weak: Array, compute: Callable[[NDArray[np.int64]], None]) -> None:
        self.gather.sum_computed(weak, lambda _, elements: compute(elements), len(weak))

    def _subtract_sources(self, fields: Array, time: float, rates: Array) -> None:
        mass = self.geometry.mass
        x, y, z = self.geometry.coordinates
        with self.regions("other", *self.counted.sources()):
            self.kernels.subtract_sources(fields, time, rates)
        with self.regions("other", *self.counted.variable_diffusion()):
            self.kernels.subtract_variable_diffusion(fields, time, rates)
        for i, scalar in enumerate(self.problem.scalars, start=3):
            with self.regions("other"):
                if scalar.source is not None and not isinstance(scalar.source, Formula):
                    rates[i] -= mass * scalar.source(x, y, z, time)
                for component, gradient in zip(fields[:3], scalar.mean_gradient):
                    if gradient:
                        rates[i] += mass * (gradient * component)
