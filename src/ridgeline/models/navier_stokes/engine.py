"""One time step of the method in reference.py, as named and timed stages on this rank's elements.

`SplittingEngine` is what the engines of CPUs and GPUs share. Each holds its fields in memory of its own kind and
gives the operators on them: `engine_cpu.CpuEngine`, `device.engine_cuda.CudaEngine`. Read `advance` first.

The stages of a step, with the least passes of each over memory, counted in fields [E, n, n, n] of float64, for
c = 3 + S components:

    advection                      reads velocity and scalars, writes c
    known side of all equations    6 c + c, then assembly
    pressure                       right-hand side (4), solve
    velocity                       right-hand side (1 + 3 + 1 + 3), solve
    scalars                        solve, one by one

Axis-aligned elements read no array of the geometry but the inverse of the assembled mass matrix and the inverse
multiplicity.
"""

from __future__ import annotations

import math
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
from ridgeline.models.navier_stokes.engine_protocols import CopySums, FlowBoundaries, FlowKernels, Part
from ridgeline.models.navier_stokes.flow_rate import FlowRateForce
from ridgeline.models.navier_stokes.problem import Array, FlowProblem
from ridgeline.models.navier_stokes.side_fluxes import KnownSide
from ridgeline.models.navier_stokes.solves import (
    Buffers,
    ConstrainedValues,
    DirichletTerms,
    HelmholtzSolve,
    PressureSolve,
    ShiftedOperator,
    require_converged,
)
from ridgeline.models.navier_stokes.sources import blame
from ridgeline.models.navier_stokes.step_work import StepWork
from ridgeline.models.navier_stokes.time_stepping import (
    JUMP,
    MOST_CHANGE,
    MOST_REPEATED,
    STABLE_COURANT,
    TIME_LEVELS,
    CourantWatch,
    StepCoefficients,
    TimeLevels,
)
from ridgeline.models.time_steps import next_step
from ridgeline.parallel.allreduce import allreduce_max, broadcast_first
from ridgeline.runtime.errors import DivergedError
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class SplittingEngine(ABC):
    """Velocity, pressure and scalars of this rank's elements, and the steps that advance them. Built collectively.

    kernels, gather, inner, boundaries, time_levels and the solves work on fields in the engine's memory. A subclass
    sets the first four, and then calls `_make_fields` and `_make_solves`. host_gather: sums the copies of points in
    fields of the host, for outputs.
    """

    kernels: FlowKernels
    gather: CopySums
    host_gather: GatherScatter
    inner: VectorPasses
    inverse_mass: Any
    _workspace: Buffers
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
        self.solves: dict[str, SolveCount] = {}  # counts alone, because memory must not grow with the steps
        self.last_iterations: dict[str, int] = {}  # of the last solve of each kind
        self.repeated = 0  # steps that were too long; their work is counted too
        self.counted = StepWork(self.geometry, problem)
        self.flow_rate: FlowRateForce | None = None
        # Whether a step led to the present state, so that its known side is there: of the velocity, of the scalars.
        self.stepped = self.scalars_stepped = False
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
        """Make the solves; the fields must exist. Collective."""
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

    def _helmholtz(self, name: str, dirichlet: ConstrainedValues, diffusivity: float) -> HelmholtzSolve:
        work = self._workspace
        operator = self._operator(diffusivity, 1.0, dirichlet.points)
        lift = self._lift(operator, dirichlet)
        return HelmholtzSolve(name, operator, dirichlet, lift, self.problem.velocity, work, self.regions)

    def _make_fields(self) -> None:
        """Make the fields; `inner` must exist."""
        problem, c = self.problem, self.n_fields
        self.time_levels = TimeLevels(
            problem.time_order, lambda: self._zeros(c), repeatable=problem.control is not None
        )
        self._p = self._zeros()
        self._right, self._vector, self._weak = self._zeros(c), self._zeros(3), self._zeros()
        self._force = self._numbers([*problem.force, *[0.0] * len(problem.scalars)])
        if problem.flow_rate is not None:
            self.flow_rate = FlowRateForce(
                problem.flow_rate,
                self.inner,
                (self._zeros(3), self._zeros()),
                self.regions,
                self._step_from_rest,
            )

    @property
    @abstractmethod
    def fields(self) -> Array:
        """Velocity and scalars on the host, [3 + S, E, n, n, n]: the fields themselves, or a copy from the GPU."""

    @property
    def u(self) -> Array:
        """Velocity on the host, [3, E, n, n, n], like `fields`."""
        return self.fields[:3]

    @property
    @abstractmethod
    def p(self) -> Array:
        """Pressure on the host, [E, n, n, n], like `fields`."""

    @abstractmethod
    def host_known_side(self) -> Array:
        """Return the known sides of the last step on the host, [3 + S, E, n, n, n], like `host_levels`.

        Those of the velocity are assembled, those of scalars are not. They are those of `KnownSide`.
        """

    @abstractmethod
    def host_levels(self) -> Sequence[Array]:
        """Return the fields of all levels on the host, newest first; `resume` uses what was written into them."""

    @abstractmethod
    def host_space(self, projection: Projection) -> dict[str, Array]:
        """Return the fields of a projection on the host by name, each [rows, E, n, n, n], like `host_levels`."""

    def last_step(self) -> KnownSide | None:
        """Return the known side of the step that led to the present flow, None if no step did."""
        if not self.stepped:
            return None
        force = [0.0, 0.0, 0.0]
        if self.flow_rate is not None:
            force[self.flow_rate.target.axis] = self.flow_rate.force
        known = self.host_known_side()
        scalars = known[3:] if self.scalars_stepped else None
        return KnownSide(known[:3], scalars, self.velocity.shift, (force[0], force[1], force[2]))

    @abstractmethod
    def describe(self) -> str:
        """Return how fields are computed, in words."""

    @abstractmethod
    def memory(self) -> dict[str, int]:
        """Return the bytes of fields and buffers of this rank, by what they are for."""

    @abstractmethod
    def _operator(self, h1: float, h2: float, constrained: Any, nullspace: bool = False) -> ShiftedOperator:
        """Return the operator h1 K + h2 B with the points where the solution is given. Collective."""

    @abstractmethod
    def _preconditioner(self, operator: Any) -> Preconditioner | None:
        """Return the preconditioner of the pressure that the settings name. Collective."""

    @abstractmethod
    def _lift(self, operator: Any, dirichlet: Any) -> DirichletTerms:
        """Return the terms that Dirichlet values add to the right-hand sides of an operator."""

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
        """Set all copies of a point to their mean, in fields [c, E, n, n, n]. Communicates with neighbours."""

    @abstractmethod
    def _load_host(self) -> None:
        """Copy the host's levels and pressure, which were written into, to the engine's memory."""

    @abstractmethod
    def _subtract_sources(self, fields: Any, time: float, rates: Any) -> None:
        """Subtract the source terms, and (v, -u.G) of the scalars, from the weak rates of fields at a time."""

    @abstractmethod
    def _gather_computed(self, weak: Any, compute: Callable[[Part], None]) -> None:
        """Call compute(part) for parts of the elements, which sets `weak` there, and sum its copies of points.

        Communicates with neighbours, while elements without shared points are computed.
        """

    def _sum_computed(self, weak: Any, compute: Callable[[Part], None], work: tuple[float, float]) -> None:
        """Call `_gather_computed` within regions. work: flops and bytes of all elements."""

        def charged(part: Part) -> None:
            with self.regions("other"):
                compute(part)

        self.regions.count("other", *work)
        with self.regions("gather-scatter"):
            self._gather_computed(weak, charged)

    def start(
        self, fields: Array, time: float = 0.0, history: Sequence[Array] = (), dt: float | None = None
    ) -> None:
        """Begin at `time` with velocity and scalars [3 + S, E, n, n, n], equal at shared points. Collective.

        history: the fields at t - dt and t - 2 dt, as far as they are known; without them the first steps are of
        lower order. dt: of the first step, `first_dt` of the fields by default.

        Raises ConfigError for Dirichlet velocities whose net flux cannot leave the domain, and where `first_dt` does.
        """
        self.time, self.step_index = time, 0
        self.stepped = self.scalars_stepped = False
        self.dt = self.first_dt(fields) if dt is None else dt
        known = [fields, *history][: self.time_levels.order]
        for level, values in zip(self.time_levels.fields, known):
            self._put(values, level)
            # Jumps between elements would stay forever, because no assembled residual sees them.
            self._average(level)
        self.time_levels.begin(len(known), time, self.dt)
        self.inner.set_zero(self._p)
        self._refresh()
        if self.problem.level_is_free:
            self.boundaries.update(self.time)
            require_balance(*self.boundaries.flux())

    def restart(self, fields: Array) -> None:
        """Continue at the present time from another velocity and other scalars. Collective. Raises as `start`.

        Values that a side gives are kept. The pressure of the next step removes a divergence.
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
        control, velocity = self.problem.control, fields[:3]
        if control is None:
            return self.problem.dt
        return control.first(self._first_courant_rate(velocity), self._starts_suddenly(velocity))

    def resume(self, shift: float, order: int, force: float, stepped: bool, scalars_stepped: bool) -> None:
        """Continue from a time, step, dt, levels of fields and pressure that the caller has set. Collective.

        shift, order: b_0/dt and order of the last step; force: the force that holds the flow rate; stepped,
        scalars_stepped: whether the caller has also set the known sides of the last step, of velocity and scalars.
        """
        self._load_host()
        self.stepped, self.scalars_stepped = bool(stepped), bool(scalars_stepped)
        self._refresh()
        self.boundaries.update(self.time)
        if shift:
            for solve in (self.velocity, *self.scalars):
                solve.prepare(shift, order)
        if self.flow_rate is not None:
            self.flow_rate.force = force

    def _refresh(self) -> None:
        """Compute what follows from the levels of fields: past rates and the vorticity at sides. Collective."""
        known = self.time_levels.known
        for back in range(known - 1, 0, -1):
            self._compute_rates(back)
        for level in reversed(self.time_levels.fields[:known]):
            self.boundaries.record(level[:3])
        self._watch.begin()

    def refuse_long_step(self, dt: float) -> None:
        """Raise DivergedError if the first step from a state, of length dt, is beyond stability. Collective."""
        if not self._watch.begun:
            self._watch.see(
                self.step_index, self._first_courant_rate(self.time_levels.fields[0][:3]) * dt, dt
            )

    def advance(self, dt: float | None = None, until: float = math.inf) -> None:
        """Advance by one time step, of the engine's dt if none is given. Collective.

        A step whose length the Courant number chooses is repeated, shorter, if that is beyond stability after it.
        The flow, its time and its earlier levels are then those before the step; the spaces of the last solutions,
        which only give initial guesses, keep those of the step.

        until: the next time that is to be met exactly, for which the step may be shorter (`models.time_steps`).

        Raises DivergedError if a solve does not converge, or if the Courant number is beyond stability before the
        step or after the last attempt. The state must then be discarded.
        """
        levels, control = self.time_levels, self.problem.control if dt is None else None
        planned = self.dt if dt is None else dt
        wanted, last = planned, levels.steps[0]
        if dt is None and last > 0.0:
            # After a step that was shortened for a time; otherwise `planned` is within these limits.
            wanted = min(planned, last * (MOST_CHANGE if control is None else control.change))
        length, after = next_step(self.time, wanted, until, last)
        self.refuse_long_step(length)
        self._compute_rates(0)
        before = self.time, self.step_index, levels.clock()
        for _ in range(MOST_REPEATED):
            try:
                rate = self._try_step(length, after)
            except DivergedError:
                self._blame_sources()
                raise
            shorter = None if control is None else control.instead(length, rate)
            if shorter is None:
                break
            self.repeated += 1
            self.time, self.step_index, clock = before
            levels.go_back(clock)
            planned = shorter
            length, after = next_step(self.time, shorter, until)
        if not rate * length <= STABLE_COURANT:
            self._blame_sources()
        self._watch.see(self.step_index, rate * length, length)
        with self.regions("other"):
            self.boundaries.record(levels.fields[0][:3])
        self.stepped = self.scalars_stepped = True
        if self.problem.control is not None:
            self.dt = self.problem.control.after(planned, rate)

    def _blame_sources(self) -> None:
        """Raise DivergedError if a source is not finite in a flow that is, and say where. Collective."""
        problem, levels, found = self.problem, self.time_levels, ""
        known = list(zip(self.host_levels(), levels.times))[: levels.known]
        for fields, time in reversed(known):  # the first fault is the reason
            found = found or blame(
                problem.source_terms, problem.variable_coefficients, self.geometry.coordinates, time, fields
            )
        message = broadcast_first(self.comm, found or None)
        if message is not None:
            raise DivergedError(f"step {self.step_index} failed, because {message} Correct the formula.")

    def _try_step(self, dt: float, after: float) -> float:
        """Add the level of the next step, of length dt to the time `after`; return its Courant number over dt."""
        problem, levels = self.problem, self.time_levels
        at = levels.coefficients(dt)
        self.time = after
        self.step_index += 1
        levels.begin_step(self.time, dt)
        self.velocity.prepare(at.shift, at.order)
        if self.flow_rate is not None:
            self.flow_rate.prepare(at.shift)
        right = self._right

        def known_side(part: Part) -> None:
            self.kernels.right_hand_side(part, (at.a, at.b), self._force, levels.fields, levels.rates, right)

        # Scalars stay unassembled, because their Dirichlet terms come first.
        self._sum_computed(right[:3], known_side, self.counted.right_hand_side())
        with self.regions("other"):
            self.boundaries.update(self.time)
            self.boundaries.add_scalar_fluxes(self.time, list(zip(at.a.tolist(), levels.fields)), right)

        self._solve_pressure(right[:3], at)
        self._solve_velocity(right[:3], at)
        self._solve_scalars(right, at)
        if self.flow_rate is not None:
            self.flow_rate.correct(levels.fields[0][:3], self._p)
        if problem.filter_weight:
            with self.regions("other"):
                self.kernels.filter(levels.fields[0])
                if not self.grid.mesh.regular:
                    # Elements of different orientations round differently: make the copies of a point equal.
                    self._average(levels.fields[0])
            self._write_dirichlet(levels.fields[0])
        return self.courant_rate()

    def _compute_rates(self, back: int) -> None:
        """Add a level of weak rates (v, u.grad f) - (v, s): those of the fields `back` levels before the newest ones.

        s: the sources of the scalars, and their buoyancy as a source of the velocity.
        """
        fields = self.time_levels.fields[back]
        rates = self.time_levels.begin_rates()
        with self.regions("advection", *self.counted.advection()):
            self.kernels.advection(fields[:3], fields, rates)
        self._subtract_sources(fields, self.time_levels.times[back], rates)
        if self.problem.buoyant:
            with self.regions("other", *self.counted.buoyancy()):
                self.kernels.subtract_buoyancy(fields, rates)

    def assemble(self, weak: Any) -> None:
        """Sum the copies of shared points, in place. Communicates with neighbours."""
        with self.regions("gather-scatter"):
            self.gather.sum(weak)

    def _solve_pressure(self, right: Any, at: StepCoefficients) -> None:
        """Set p from the assembled weak right-hand side of the velocity, [3, E, n, n, n]."""
        b = self._weak
        with self.regions("other", *self.counted.divergence()):
            self.kernels.force_divergence(right, self.inverse_mass, b)
            self.boundaries.add_pressure_terms(at, b)
        self.assemble(b)
        self.count_solve("pressure", self.pressure.solve(b, self._p))

    def _solve_velocity(self, right: Any, at: StepCoefficients) -> None:
        """Set the next level's velocity from the assembled weak right-hand side and the present pressure."""
        weak, levels = self._vector, self.time_levels

        def momentum(part: Part) -> None:
            self.kernels.momentum(part, self._p, right, self.inner.weights, weak)

        if self.problem.sides_of("outflow") or self.velocity.dirichlet.nonzero:
            with self.regions("other", *self.counted.momentum()):
                momentum(self.kernels.every)
                self.boundaries.add_backflow([(c, f[:3]) for c, f in zip(at.a, levels.fields)], weak)
            self.velocity.subtract_dirichlet(weak)
            self.assemble(weak)
        else:  # the sides add nothing
            self._sum_computed(weak, momentum, self.counted.momentum())
        # From here on `levels.fields[0]` is the new level, whose velocity is set here and whose scalars follow.
        new_fields = levels.begin_fields()
        self.count_solve("velocity", self.velocity.solve(weak, new_fields[:3]))

    def _solve_scalars(self, right: Any, at: StepCoefficients) -> None:
        """Set the next level's scalars from the unassembled weak right-hand sides [3 + S, E, n, n, n]."""
        for i, solve in enumerate(self.scalars, start=3):
            weak = right[i : i + 1]
            if len(solve.dirichlet.points[0]):  # `last_step` returns it as it is here
                weak = self._vector[:1]
                with self.regions("other", 0.0, 16.0 * weak.size):
                    self.inner.copy(right[i : i + 1], weak)
            solve.prepare(at.shift, at.order)
            solve.subtract_dirichlet(weak)
            self.assemble(weak)
            self.count_solve(solve.name, solve.solve(weak, self.time_levels.fields[0][i : i + 1]))

    def _step_from_rest(self, axis: int, velocity: Any, pressure: Any, known: bool) -> None:
        """Set velocity and pressure to the response of the present step to a unit force, see `StepFromRest`."""
        levels, none = self.time_levels, np.zeros(TIME_LEVELS)
        unit = self._numbers([float(i == axis) for i in range(self.n_fields)])
        self.kernels.right_hand_side(
            self.kernels.every, (none, none), unit, levels.fields, levels.rates, self._right
        )
        force, weak = self._right[:3], self._vector
        self.assemble(force)
        if not known:
            self.kernels.force_divergence(force, self.inverse_mass, self._weak)
            self.assemble(self._weak)
            result = self.pressure.solve(self._weak, pressure, remember=False)
            require_converged(self.step_index, "pressure", result)
        self.kernels.momentum(self.kernels.every, pressure, force, self.inner.weights, weak)
        self.assemble(weak)
        require_converged(self.step_index, "velocity", self.velocity.solve(weak, velocity, remember=False))

    def _write_dirichlet(self, fields: Any) -> None:
        self.velocity.dirichlet.write(fields[:3])
        for i, solve in enumerate(self.scalars, start=3):
            solve.dirichlet.write(fields[i : i + 1])

    def count_solve(self, name: str, result: SolveResult) -> None:
        """Count a solve of a step. Raises DivergedError if it did not converge."""
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
        """Return the rate before the first step, with the velocities that sides and a flow rate are about to give."""
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

    def _starts_suddenly(self, velocity: Array) -> bool:
        """Return whether sides or a flow rate change a velocity at once in the first step. Collective."""
        ahead, jump, target = self._vector, self._right[:3], self.problem.flow_rate
        self._put(velocity, ahead)
        self._put(velocity, jump)
        if self.flow_rate is not None and target is not None:
            missing = target.bulk_velocity - self.flow_rate.bulk(ahead)
            if abs(missing) > JUMP * abs(target.bulk_velocity):
                return True
        self.velocity.dirichlet.write(ahead)
        self.inner.subtract(ahead, jump, jump)
        return self._courant_rate_of(jump) > JUMP * self._courant_rate_of(ahead)
