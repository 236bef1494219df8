"""One time step as named, timed stages on this rank's elements: what the engines of CPUs and GPUs share.

The method is that of reference.py. An engine holds fields in memory of its own kind, and gives the operators on
them: `engine_cpu.CpuEngine`, `device.engine_cuda.CudaEngine`.

A step has these stages, with the least passes over memory of each in fields [E, n, n, n] of float64; c = 3 + S
components. Advection reads velocity and scalars and writes c. Right-hand sides (6 c + c), assembly, pressure
right-hand side (4) and pressure solve follow. Then come the momentum right-hand side (1 + 3 + 1 + 3), the velocity
solve and the scalar solves. Axis-aligned elements read no array of the geometry but the inverse of the assembled mass
matrix and the inverse multiplicity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.krylov.operator import InnerProduct, Preconditioner, SolveResult, VectorPasses
from ridgeline.krylov.projection import Projection
from ridgeline.models.contract import SolveCount
from ridgeline.models.navier_stokes.boundary_terms import Boundaries, require_balance
from ridgeline.models.navier_stokes.convergence import require_converged
from ridgeline.models.navier_stokes.courant import CourantWatch
from ridgeline.models.navier_stokes.engine_protocols import CopySums, FlowBoundaries, FlowKernels
from ridgeline.models.navier_stokes.extrapolation import TIME_LEVELS, StepCoefficients, TimeLevels
from ridgeline.models.navier_stokes.flow_rate import HeldFlowRate
from ridgeline.models.navier_stokes.helmholtz import HelmholtzSolve
from ridgeline.models.navier_stokes.pressure import PressureSolve
from ridgeline.models.navier_stokes.problem import Array, FlowProblem
from ridgeline.models.navier_stokes.step_work import StepWork
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class SplittingEngine(ABC):
    """Velocity, pressure and scalars of this rank's elements, and what advances them. Built collectively.

    kernels, gather, inner, boundaries, time_levels and the solves work on fields in the engine's memory; they and
    `_make_fields` are the engine's to set. host_gather: of fields of the host, for outputs.
    """

    kernels: FlowKernels
    gather: CopySums
    host_gather: GatherScatter
    inner: VectorPasses
    inverse_mass: Any
    _workspace: Any
    boundaries: FlowBoundaries
    time_levels: TimeLevels
    pressure: PressureSolve
    velocity: HelmholtzSolve
    scalars: list[HelmholtzSolve]

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        problem: FlowProblem,
        regions: Regions | None,
        geometry: ElementGeometry | None,
    ) -> None:
        self.comm, self.grid, self.problem = comm, grid, problem
        self.regions = Regions() if regions is None else regions
        self.geometry = ElementGeometry(grid) if geometry is None else geometry
        self.n_fields = 3 + len(problem.scalars)
        self.time, self.step_index = 0.0, 0
        self.dt = problem.dt  # length of the next step
        self.solves: dict[str, SolveCount] = {}  # counts alone: memory must not grow with the steps
        self.last_iterations: dict[str, int] = {}  # of each kind's last solve
        self.counted = StepWork(self.geometry, problem)
        self.flow_rate: HeldFlowRate | None = None
        self._watch = CourantWatch(problem.control)

    def _host_parts(self) -> tuple[Array, InnerProduct, Boundaries]:
        """Make `host_gather`; return the assembled mass matrix, the inner product and the boundaries. Collective."""
        most = max(4, self.n_fields)
        self.host_gather = GatherScatter(self.comm, self.grid.ids, most, self.problem.overlap)
        assembled = self.geometry.mass.copy()
        self.host_gather.sum(assembled)
        inner = InnerProduct(self.comm, self.host_gather.inverse_multiplicity(), assembled)
        return assembled, inner, Boundaries(self.comm, self.grid, self.geometry, self.problem)

    def _make_solves(self) -> None:
        """Make the solves, once the fields are there. Collective."""
        problem, boundaries = self.problem, self.boundaries
        operator = self._operator(1.0, 0.0, boundaries.pressure_points, problem.level_is_free)
        self.pressure = PressureSolve(
            operator, self._preconditioner(operator), problem.pressure, self._workspace, self.regions
        )
        self.velocity = self._helmholtz("velocity", boundaries.velocity, problem.viscosity)
        self.scalars = [
            self._helmholtz(f"scalar {i}", dirichlet, scalar.diffusivity)
            for i, (scalar, dirichlet) in enumerate(zip(problem.scalars, boundaries.scalars))
        ]

    def _helmholtz(self, name: str, dirichlet: Any, diffusivity: float) -> HelmholtzSolve:
        work = self._workspace
        operator = self._operator(diffusivity, 1.0, dirichlet.points)
        lift = self._lift(operator, dirichlet)
        return HelmholtzSolve(name, operator, dirichlet, lift, self.problem.velocity, work, self.regions)

    def _make_fields(self) -> None:
        """Make the fields, once `inner` is there."""
        problem, c = self.problem, self.n_fields
        self.time_levels = TimeLevels(problem.time_order, lambda: self._zeros(c))
        self._p = self._zeros()
        self._right, self._vector, self._weak = self._zeros(c), self._zeros(3), self._zeros()
        self._force = self._numbers([*problem.force, *[0.0] * len(problem.scalars)])
        if problem.flow_rate is not None:
            self.flow_rate = HeldFlowRate(
                problem.flow_rate,
                self.inner,
                (self._zeros(3), self._zeros()),
                self.regions,
                self._step_from_rest,
            )

    @property
    @abstractmethod
    def fields(self) -> Array:
        """Velocity and scalars on the host, [3 + S, E, n, n, n]: those themselves, or the latest copy from a GPU."""

    @property
    def u(self) -> Array:
        """Velocity on the host, [3, E, n, n, n], as `fields`."""
        return self.fields[:3]

    @property
    @abstractmethod
    def p(self) -> Array:
        """Pressure on the host, [E, n, n, n], as `fields`."""

    @abstractmethod
    def host_levels(self) -> Sequence[Array]:
        """Return the fields of all levels on the host, newest first; what is written there counts after `resume`."""

    @abstractmethod
    def host_space(self, projection: Projection) -> dict[str, Array]:
        """Return the fields of a projection on the host, by name, as `host_levels`, each [rows, E, n, n, n]."""

    @abstractmethod
    def describe(self) -> str:
        """Return how fields are computed, in words."""

    @abstractmethod
    def memory(self) -> dict[str, int]:
        """Return the bytes of fields and buffers of this rank, by what they are for."""

    @abstractmethod
    def _operator(self, h1: float, h2: float, constrained: Any, nullspace: bool = False) -> Any:
        """Return h1 K + h2 B with points where the solution is given. Collective."""

    @abstractmethod
    def _preconditioner(self, operator: Any) -> Preconditioner | None:
        """Return that of the pressure, by the settings. Collective."""

    @abstractmethod
    def _lift(self, operator: Any, dirichlet: Any) -> Any:
        """Return what subtracts from right-hand sides what Dirichlet values do to them."""

    @abstractmethod
    def _zeros(self, *leading: int) -> Any:
        """Return new memory [*leading, E, n, n, n], all zero."""

    @abstractmethod
    def _numbers(self, values: Sequence[float]) -> Any:
        """Return numbers in the engine's memory, for kernels."""

    @abstractmethod
    def _put(self, values: Any, out: Any) -> None:
        """Set out to fields of its shape, of the host or in the engine's memory."""

    @abstractmethod
    def _average(self, fields: Any) -> None:
        """Give all copies of a point the mean of them, in fields [c, E, n, n, n]. Neighbours."""

    @abstractmethod
    def _take_over(self) -> None:
        """Take over what was written into the host's levels and pressure."""

    @abstractmethod
    def _subtract_sources(self, fields: Any, time: float, rates: Any) -> None:
        """Subtract (v, s - u.G) of the scalars from the weak rates of fields at a time."""

    @abstractmethod
    def _gather_computed(self, weak: Any, compute: Callable[..., None]) -> None:
        """Let compute(*part) set `weak` on parts of the elements, and sum its copies of points. Neighbours.

        part: as operators of `kernels` take it.
        """

    def _sum_computed(self, weak: Any, compute: Callable[..., None], work: tuple[float, float]) -> None:
        """Do what `_gather_computed` does, and charge it. work: flops and bytes of all elements."""

        def charged(*part: Any) -> None:
            with self.regions("other"):
                compute(*part)

        self.regions.count("other", *work)
        with self.regions("gather-scatter"):
            self._gather_computed(weak, charged)

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
            self._put(found, level)
            # Jumps between elements would stay for good: no assembled residual sees them.
            self._average(level)
        self.time_levels.begin(len(known), time, self.dt)
        self.inner.set_zero(self._p)
        self._refresh()
        self._refuse_leak()

    def restart(self, fields: Array) -> None:
        """Go on at the present time from other velocity and scalars, as `start` does. Collective. Raises as `start`.

        Where a side gives the value, it stays; a divergence is removed by the pressure of the next step.
        """
        step = self.step_index
        self.start(fields, self.time)
        self.step_index = step
        self.boundaries.update(self.time)
        self._write_dirichlet(self.time_levels.fields[0])
        self._refresh()

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
        self._take_over()
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
        require_balance(*self.boundaries.flux())

    def refuse_long_step(self, dt: float) -> None:
        """Raise DivergedError if the first step from a state, of dt, is beyond stability. Collective."""
        if not self._watch.begun:
            self._watch.see(
                self.step_index, self._first_courant_rate(self.time_levels.fields[0][:3]) * dt, dt
            )

    def advance(self, dt: float | None = None) -> None:
        """Advance by one time step, of the engine's dt if none is given. Collective.

        Raises DivergedError if a solve does not converge, or if the Courant number is beyond stability before the
        step or after it. The state is then not to be kept.
        """
        problem, levels = self.problem, self.time_levels
        dt = self.dt if dt is None else dt
        self.refuse_long_step(dt)
        self._rate(0)
        at = levels.coefficients(dt)
        self.time += dt
        self.step_index += 1
        levels.step(self.time, dt)
        right = self._right
        known_side = (at.a, at.b), self._force, levels.fields, levels.rates, right
        self._sum_computed(
            right[:3],
            lambda *part: self.kernels.right_hand_side(*part, *known_side),
            self.counted.right_hand_side(),
        )
        with self.regions("other"):
            self.boundaries.update(self.time)
            self.boundaries.add_scalar_fluxes(self.time, right)
        self._solve_pressure(right[:3], at)
        self._solve_velocity(right[:3], at)
        self._solve_scalars(right, at)
        if self.flow_rate is not None:
            self.flow_rate.correct(at.shift, levels.fields[0][:3], self._p)
        if problem.filter_weight:
            self._apply_filter(levels.fields[0])
        with self.regions("other"):
            self.boundaries.record(levels.fields[0][:3])
        rate = self.courant_rate()
        self._watch.see(self.step_index, rate * dt, dt)
        if problem.control is not None:
            self.dt = problem.control.after(dt, rate)

    def _rate(self, back: int) -> None:
        """Compute the weak rates (v, u.grad f) - (v, s) of the fields `back` levels ago as those of the newest.

        s: the sources of scalars; of the velocity, their buoyancy.
        """
        fields, rates = self.time_levels.fields[back], self.time_levels.oldest_rate()
        with self.regions("advection", *self.counted.advection()):
            self.kernels.advection(fields[:3], fields, rates)
        self._subtract_sources(fields, self.time_levels.times[back], rates)
        if self.problem.buoyant:
            with self.regions("other", *self.counted.buoyancy()):
                self.kernels.subtract_buoyancy(fields, rates)

    def assemble(self, weak: Any) -> None:
        """Sum the copies of shared points, in place. Neighbours."""
        with self.regions("gather-scatter"):
            self.gather.sum(weak)

    def _solve_pressure(self, right: Any, at: StepCoefficients) -> None:
        """Set p from the assembled weak right-hand side of the velocity, [3, E, n, n, n]."""
        b = self._weak
        with self.regions("other", *self.counted.divergence()):
            self.kernels.force_divergence(right, self.inverse_mass, b)
            self.boundaries.add_pressure_terms(at, b)
        self.assemble(b)
        self.note("pressure", self.pressure.solve(b, self._p))

    def _solve_velocity(self, right: Any, at: StepCoefficients) -> None:
        """Set the next level's velocity from the assembled weak right-hand side and the present pressure."""
        weak, levels = self._vector, self.time_levels
        self.velocity.prepare(at.shift, at.order)

        def momentum(*part: Any) -> None:
            self.kernels.momentum(*part, self._p, right, self.inner.weights, weak)

        if self.problem.sides_of("outflow") or self.velocity.dirichlet.nonzero:
            with self.regions("other", *self.counted.momentum()):
                momentum(*self.kernels.every)
                self.boundaries.add_backflow([(c, f[:3]) for c, f in zip(at.a, levels.fields)], weak)
            self.velocity.subtract_dirichlet(weak)
            self.assemble(weak)
        else:  # nothing is added at sides
            self._sum_computed(weak, momentum, self.counted.momentum())
        self.note("velocity", self.velocity.solve(weak, levels.oldest_fields()[:3]))

    def _solve_scalars(self, right: Any, at: StepCoefficients) -> None:
        """Set the next level's scalars from the unassembled weak right-hand sides [3 + S, E, n, n, n]."""
        for i, solve in enumerate(self.scalars, start=3):
            weak = right[i : i + 1]
            solve.prepare(at.shift, at.order)
            solve.subtract_dirichlet(weak)
            self.assemble(weak)
            self.note(solve.name, solve.solve(weak, self.time_levels.fields[0][i : i + 1]))

    def _step_from_rest(self, axis: int, velocity: Any, pressure: Any, known: bool) -> None:
        """Set velocity and pressure to what the present step makes of a unit force, as `StepFromRest` states."""
        levels, none = self.time_levels, np.zeros(TIME_LEVELS)
        unit = self._numbers([float(i == axis) for i in range(self.n_fields)])
        self.kernels.right_hand_side(
            *self.kernels.every, (none, none), unit, levels.fields, levels.rates, self._right
        )
        force, weak = self._right[:3], self._vector
        self.assemble(force)
        if not known:
            self.kernels.force_divergence(force, self.inverse_mass, self._weak)
            self.assemble(self._weak)
            require_converged(
                self.step_index, "pressure", self.pressure.solve(self._weak, pressure, remember=False)
            )
        self.kernels.momentum(*self.kernels.every, pressure, force, self.inner.weights, weak)
        self.assemble(weak)
        require_converged(self.step_index, "velocity", self.velocity.solve(weak, velocity, remember=False))

    def _apply_filter(self, fields: Any) -> None:
        """Take away part of the highest modes; Dirichlet values stay."""
        with self.regions("other"):
            self.kernels.filter(fields)
            if not self.grid.mesh.regular:  # turned elements round differently: copies of a point stay equal
                self._average(fields)
        self._write_dirichlet(fields)

    def _write_dirichlet(self, fields: Any) -> None:
        self.velocity.dirichlet.write(fields[:3])
        for i, solve in enumerate(self.scalars, start=3):
            solve.dirichlet.write(fields[i : i + 1])

    def note(self, name: str, result: SolveResult) -> None:
        """Count a solve of a step; raise DivergedError if it did not converge."""
        self.solves[name] = self.solves.get(name, SolveCount()).after(result.iterations)
        self.last_iterations[name] = result.iterations
        require_converged(self.step_index, name, result)

    def courant_rate(self) -> float:
        """Return the Courant number over dt, max(|u_r|/dr + |u_s|/ds + |u_t|/dt) of the velocity. Collective."""
        return self._courant_rate_of(self.time_levels.fields[0][:3])

    def _courant_rate_of(self, velocity: Any) -> float:
        with self.regions("other"):
            return float(allreduce_max(self.comm, self.kernels.courant(velocity)))

    def _first_courant_rate(self, velocity: Any) -> float:
        """Return the rate before the first step, with what the sides and a flow rate are about to give."""
        ahead, rate = self._vector, self.problem.flow_rate
        self._put(velocity, ahead)
        self.boundaries.update(self.time)
        self.velocity.dirichlet.write(ahead)
        number = self._courant_rate_of(ahead)
        if rate is not None:
            moving = np.zeros((3, *self.grid.shape))
            moving[rate.axis] = rate.bulk_velocity
            self._put(moving, ahead)
            number = max(number, self._courant_rate_of(ahead))
        return number
