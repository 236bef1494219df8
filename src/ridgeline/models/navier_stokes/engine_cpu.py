"""The fast solver: one time step as named, timed stages on this rank's elements. The method is that of reference.py.

A step has these stages, with the least passes over memory of each in fields [E, n, n, n] of float64; c = 3 + S
components. Advection reads velocity and scalars and writes c. Right-hand sides (6 c + c), assembly, pressure
right-hand side (4) and pressure solve follow. Then come the momentum right-hand side (1 + 3 + 1 + 3), the velocity
solve and the scalar solves. Axis-aligned elements read no array of the geometry but the inverse of the assembled mass
matrix and the inverse multiplicity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.tensor import PRODUCTS
from ridgeline.jit.kernel import compile_kernels
from ridgeline.krylov.operator import InnerProduct, SolveResult, Workspace
from ridgeline.models.contract import SolveCount
from ridgeline.models.navier_stokes.boundary_terms import Boundaries
from ridgeline.models.navier_stokes.buoyancy import Buoyancy
from ridgeline.models.navier_stokes.courant import CourantWatch
from ridgeline.models.navier_stokes.element_kernels import ElementKernels
from ridgeline.models.navier_stokes.extrapolation import StepCoefficients, TimeLevels
from ridgeline.models.navier_stokes.flow_rate import HeldFlowRate
from ridgeline.models.navier_stokes.helmholtz import HelmholtzSolve, kernels_of_helmholtz
from ridgeline.models.navier_stokes.kernels import (
    make_buoyancy,
    make_face_derivatives,
    make_weak_right_hand_side,
)
from ridgeline.models.navier_stokes.pressure import PressureSolve, kernels_of_pressure
from ridgeline.models.navier_stokes.problem import DIRICHLET, LEAK, Array, FlowProblem, TransportedScalar
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.reduce import global_max
from ridgeline.runtime.errors import ConfigError, DivergedError
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class CpuEngine:
    """Velocity, pressure and scalars of this rank's elements, and what advances them. Built collectively.

    Raises ConfigError for sides that contradict each other on this mesh (see `Boundaries`).
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        problem: FlowProblem,
        regions: Regions | None = None,
        geometry: ElementGeometry | None = None,
    ) -> None:
        self.comm, self.grid, self.problem = comm, grid, problem
        self.regions = Regions() if regions is None else regions
        self.geometry = ElementGeometry(grid) if geometry is None else geometry
        n_fields = 3 + len(problem.scalars)
        self.kernels = in_turn_per_node(comm, self._compile)
        self.gather = GatherScatter(comm, grid.ids, max(4, n_fields), problem.overlap)
        assembled = self.geometry.mass.copy()
        self.gather.sum(assembled)
        self.inverse_mass = 1.0 / assembled
        self.inner = InnerProduct(comm, self.gather.inverse_multiplicity(), assembled)
        self.boundaries = Boundaries(comm, grid, self.geometry, problem)
        self.time_levels = TimeLevels(problem.time_order, n_fields, self.geometry)
        self.buoyancy = Buoyancy(problem, self.time_levels) if problem.buoyant else None
        self.p = np.zeros(grid.shape)
        self.time, self.step_index = 0.0, 0
        self.dt = problem.dt  # length of the next step
        self.solves: dict[str, SolveCount] = {}  # counts alone: memory must not grow with the steps
        self.last_iterations: dict[str, int] = {}  # of each kind's last solve
        self._right = np.zeros((n_fields, *grid.shape))
        self._vector = np.zeros((3, *grid.shape))
        self._weak = np.zeros(grid.shape)
        self._force = np.array([*problem.force, *[0.0] * len(problem.scalars)])
        self._watch = CourantWatch(problem.control)
        work = self._workspace = Workspace()
        shared = (self.geometry, self.gather, self.inner, work, self.regions)
        self.pressure = PressureSolve(comm, *shared, self.boundaries.pressure_points, problem)
        products = PRODUCTS[problem.products]
        self.velocity = HelmholtzSolve(
            "velocity", *shared, self.boundaries.velocity, problem.viscosity, problem.velocity, products
        )
        self.scalars = [
            HelmholtzSolve(f"scalar {i}", *shared, dirichlet, scalar.diffusivity, problem.velocity, products)
            for i, (scalar, dirichlet) in enumerate(zip(problem.scalars, self.boundaries.scalars))
        ]
        self.flow_rate = None
        if problem.flow_rate is not None:
            self.flow_rate = HeldFlowRate(
                problem.flow_rate, comm, self.geometry, self.inner, self.regions, self._step_from_rest
            )

    def _compile(self) -> ElementKernels:
        """Compile, or load from the cache, what a step calls; operators and preconditioners compile theirs."""
        problem = self.problem
        make_weak_right_hand_side()
        if problem.sides_of(*DIRICHLET):
            make_face_derivatives()
        if problem.buoyant:
            make_buoyancy()
        compile_kernels([*kernels_of_pressure(problem.pressure), *kernels_of_helmholtz(problem.velocity)])
        return ElementKernels(self.grid, self.geometry, problem, 3 + len(problem.scalars))

    @property
    def fields(self) -> Array:
        """Velocity and scalars, [3 + S, E, n, n, n]."""
        return self.time_levels.fields[0]

    @property
    def u(self) -> Array:
        """Velocity [3, E, n, n, n]."""
        return self.time_levels.fields[0][:3]

    def start(
        self, fields: Array, time: float = 0.0, history: Sequence[Array] = (), dt: float | None = None
    ) -> None:
        """Begin at `time` with velocity and scalars [3 + S, E, n, n, n], equal at shared points. Collective.

        history: the same at t - dt and t - 2 dt, as far as known; without it the first steps are of lower order.
        dt: of the first step, `first_dt` of the fields by default.
        Raises ConfigError for a start that is not finite, for Dirichlet velocities whose flux has no way out, and
        what `first_dt` does.
        """
        self.time, self.step_index = time, 0
        self.dt = self.first_dt(fields) if dt is None else dt
        known = [fields, *history][: self.time_levels.order]
        for level, found in zip(self.time_levels.fields, known):
            level[...] = found
            # Jumps between elements would stay for good: no assembled residual sees them.
            self.gather.sum(level)
            level *= self.inner.weights
        self.time_levels.begin(len(known), time, self.dt)
        self.p[...] = 0.0
        self._refresh()
        self._refuse_leak()

    def first_dt(self, fields: Array) -> float:
        """Return the length of the first step from velocity and scalars [3 + S, E, n, n, n]. Collective.

        Raises ConfigError if the Courant number gives none.
        """
        control = self.problem.control
        return self.problem.dt if control is None else control.first(self._first_courant_rate(fields[:3]))

    def resume(self, shift: float, order: int, force: float) -> None:
        """Continue from time, step, dt, levels of fields and a pressure that were put in place. Collective.

        shift, order: b_0/dt and order of the last step; force: of the flow rate.
        """
        self._refresh()
        self.boundaries.update(self.time)
        if shift:
            for solve in (self.velocity, *self.scalars):
                solve.prepare(shift, order)
        if self.flow_rate is not None:
            self.flow_rate.force = force

    def _refresh(self) -> None:
        """Compute what follows from the levels of fields: rates of the past, vorticity at sides. Collective."""
        known = self.time_levels.known
        for back in range(known - 1, 0, -1):
            self._rate(back)
        for level in reversed(self.time_levels.fields[:known]):
            self.boundaries.record(level[:3])
        self._watch.begin()

    def _refuse_leak(self) -> None:
        if not self.problem.level_is_free:
            return
        self.boundaries.update(self.time)
        net, size = self.boundaries.flux()
        if abs(net) > LEAK * size:
            raise ConfigError(
                f"the velocities given at the sides carry a volume flux of {net:.3g} out of the box and no side lets "
                f'it balance; need 0: make inflow and outflow equal, or give one side kind = "outflow"'
            )

    def advance(self, dt: float | None = None) -> None:
        """Advance by one time step, of the engine's dt if none is given. Collective.

        Raises DivergedError if a solve does not converge, or if the Courant number is beyond stability before the
        step or after it. The state is then not to be kept.
        """
        problem, levels, regions = self.problem, self.time_levels, self.regions
        dt = self.dt if dt is None else dt
        if not self._watch.begun:
            self._watch.see(self.step_index, self._first_courant_rate(self.u) * dt, dt)
        self._rate(0)
        at = levels.coefficients(dt)
        self.time += dt
        self.step_index += 1
        levels.step(self.time, dt)
        right = self._right
        self._assemble_computed(
            right[:3],
            lambda elements: levels.right_hand_side(elements, at, self._force, right),
            levels.work(),
        )
        with regions("other"):
            self.boundaries.update(self.time)
            self.boundaries.add_scalar_fluxes(self.time, right[3:])
        self._solve_pressure(right[:3], at)
        self._solve_velocity(right[:3], at)
        self._solve_scalars(right[3:], at)
        if self.flow_rate is not None:
            self.flow_rate.correct(at.shift, self.u, self.p)
        if problem.filter_weight:
            self._apply_filter()
        with regions("other"):
            self.boundaries.record(self.u)
        rate = self.courant_rate()
        self._watch.see(self.step_index, rate * dt, dt)
        if problem.control is not None:
            self.dt = problem.control.after(dt, rate)

    def _rate(self, back: int) -> None:
        """Compute the weak rates (v, u.grad f) - (v, s) of the fields `back` levels ago as those of the newest.

        s: the sources of scalars; of the velocity, their buoyancy.
        """
        fields, rates = self.time_levels.fields[back], self.time_levels.oldest_rate()
        with self.regions("advection", *self.kernels.advection_work()):
            self.kernels.advection(fields[:3], fields, rates)
        for i, scalar in enumerate(self.problem.scalars, start=3):
            with self.regions("other"):
                self._add_sources(scalar, fields[:3], self.time_levels.times[back], rates[i])
        if self.buoyancy is not None:
            with self.regions("other", *self.buoyancy.work()):
                self.buoyancy.subtract(fields, rates)

    def _add_sources(self, scalar: TransportedScalar, velocity: Array, time: float, rate: Array) -> None:
        """Subtract (v, s - u.G) from a scalar's weak rate."""
        mass = self.geometry.mass
        x, y, z = self.geometry.coordinates
        if scalar.source is not None:
            rate -= mass * scalar.source(x, y, z, time)
        for component, gradient in zip(velocity, scalar.mean_gradient):
            if gradient:
                rate += mass * (gradient * component)

    def assemble(self, weak: Array) -> None:
        """Sum the copies of shared points, in place. Neighbours."""
        with self.regions("gather-scatter"):
            self.gather.sum(weak)

    def _assemble_computed(
        self, weak: Array, compute: Callable[[NDArray[np.int64]], None], work: tuple[float, float]
    ) -> None:
        """Let compute(elements) set `weak`, with flops and bytes of all elements, and sum its copies. Neighbours."""
        regions = self.regions

        def chunk(_: range, elements: NDArray[np.int64]) -> None:
            with regions("other"):
                compute(elements)

        regions.count("other", *work)
        with regions("gather-scatter"):
            self.gather.sum_computed(weak, chunk, len(weak))

    def _solve_pressure(self, right: Array, at: StepCoefficients) -> None:
        """Set p from the assembled weak right-hand side of the velocity, [3, E, n, n, n]."""
        b = self._weak
        with self.regions("other", *self.kernels.divergence_work()):
            self.kernels.force_divergence(right, self.inverse_mass, b)
            self.boundaries.add_pressure_terms(at, b)
        self.assemble(b)
        self.note("pressure", self.pressure.solve(b, self.p))

    def _solve_velocity(self, right: Array, at: StepCoefficients) -> None:
        """Set the next level's velocity from the assembled weak right-hand side and the present pressure."""
        weak, levels = self._vector, self.time_levels
        self.velocity.prepare(at.shift, at.order)

        def momentum(elements: NDArray[np.int64]) -> None:
            self.kernels.momentum(elements, self.p, right, self.inner.weights, weak)

        if self.problem.sides_of("outflow") or self.velocity.dirichlet.nonzero:
            with self.regions("other", *self.kernels.momentum_work()):
                momentum(self.kernels.elements)
                self.boundaries.add_backflow([(c, f[:3]) for c, f in zip(at.a, levels.fields)], weak)
            self.velocity.subtract_dirichlet(weak)
            self.assemble(weak)
        else:  # nothing is added at sides
            self._assemble_computed(weak, momentum, self.kernels.momentum_work())
        self.note("velocity", self.velocity.solve(weak, levels.oldest_fields()[:3]))

    def _solve_scalars(self, right: Array, at: StepCoefficients) -> None:
        for i, solve in enumerate(self.scalars):
            weak = right[i]
            solve.prepare(at.shift, at.order)
            solve.subtract_dirichlet(weak[None])
            self.assemble(weak)
            self.note(solve.name, solve.solve(weak[None], self.fields[3 + i : 4 + i]))

    def _step_from_rest(self, force: Array, velocity: Array, pressure: Array, known: bool) -> None:
        """Set velocity and pressure to what the present step makes of a weak force, as `StepFromRest` states."""
        self.assemble(force)
        if not known:
            b = np.zeros(self.grid.shape)
            self.kernels.force_divergence(force, self.inverse_mass, b)
            self.assemble(b)
            self.require("pressure", self.pressure.solve(b, pressure, remember=False))
        weak = np.zeros_like(force)
        self.kernels.momentum(self.kernels.elements, pressure, force, self.inner.weights, weak)
        self.assemble(weak)
        self.require("velocity", self.velocity.solve(weak, velocity, remember=False))

    def _apply_filter(self) -> None:
        """Take away part of the highest modes; Dirichlet values stay."""
        with self.regions("other"):
            self.kernels.filter(self.fields)
            if not self.grid.mesh.regular:  # turned elements round differently: copies of a point stay equal
                self.gather.sum(self.fields)
                np.multiply(self.fields, self.inner.weights, out=self.fields)
        self.velocity.dirichlet.write(self.u)
        for i, solve in enumerate(self.scalars, start=3):
            solve.dirichlet.write(self.fields[i : i + 1])

    def note(self, name: str, result: SolveResult) -> None:
        """Count a solve of a step; raise DivergedError if it did not converge."""
        self.solves[name] = self.solves.get(name, SolveCount()).after(result.iterations)
        self.last_iterations[name] = result.iterations
        self.require(name, result)

    def require(self, name: str, result: SolveResult) -> None:
        """Raise DivergedError if a solve did not converge."""
        if result.converged:
            return
        count = f"{result.iterations} iteration{'s' * (result.iterations != 1)}"
        section = "pressure" if name == "pressure" else "velocity"
        raise DivergedError(
            f"the {name} solve of step {self.step_index} did not converge: residual {result.residual:.3g} after "
            f"{count} (from {result.initial_residual:.3g}); try a smaller model.dt or model.courant, or a larger "
            f"tolerance or max_iterations in [model.{section}]"
        )

    def courant_rate(self) -> float:
        """Return the Courant number over dt, max(|u_r|/dr + |u_s|/ds + |u_t|/dt) of the velocity. Collective."""
        return self._courant_rate_of(self.u)

    def _courant_rate_of(self, velocity: Array) -> float:
        with self.regions("other"):
            return float(global_max(self.comm, self.kernels.courant(velocity)))

    def _first_courant_rate(self, velocity: Array) -> float:
        """Return the rate before the first step, with what the sides and a flow rate are about to give."""
        ahead, rate = self._vector, self.problem.flow_rate
        ahead[...] = velocity
        self.boundaries.update(self.time)
        self.velocity.dirichlet.write(ahead)
        number = self._courant_rate_of(ahead)
        if rate is not None:
            ahead[...] = 0.0
            ahead[rate.axis] = rate.bulk_velocity
            number = max(number, self._courant_rate_of(ahead))
        return number

    def memory(self) -> dict[str, int]:
        """Return the bytes of fields and buffers of this rank, by what they are for."""
        levels = sum(array.nbytes for array in (*self.time_levels.fields, *self.time_levels.rates))
        mine = (self.p, self._right, self._vector, self._weak, self.inverse_mass)
        geometry = self.geometry
        shape = (geometry.coordinates, geometry.mass, geometry.metrics, geometry.factors)
        projections = [
            self.pressure.projection,
            self.velocity.projection,
            *(s.projection for s in self.scalars),
        ]
        return {
            "fields": levels + sum(array.nbytes for array in mine),
            "geometry": sum(array.nbytes for array in shape),
            "projection": sum(p.basis.nbytes + p.applied.nbytes for p in projections),
            "Krylov vectors": self._workspace.n_bytes,
            "gather-scatter": self.gather.memory(),
        }
