"""The Navier-Stokes model: the parts of a run, as the time loop uses them.

The steps are those of `engine.SplittingEngine`, on CPUs and GPUs. Settings, initial flows, outputs, diagnostics and
checkpoints have their own files, whose objects are made in `NavierStokes.setup`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.part_selection import SelectedPoints, UniformGrid
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.contract import (
    Context,
    DistributedArray,
    Metric,
    Model,
    Recorder,
    Region,
    SolveCount,
    StepTimes,
    Variable,
    Work,
)
from ridgeline.models.navier_stokes.case_sections.output import InterpolatedPartSection
from ridgeline.models.navier_stokes.diagnostics import (
    DiagnosedScalar,
    Diagnostics,
    WallFluxes,
    locate_nonfinite,
    summarise,
)
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.estimate import least_work
from ridgeline.models.navier_stokes.flow_statistics import SAMPLED_STEP, Statistics
from ridgeline.models.navier_stokes.initial import history, initial_scalar, initial_velocity
from ridgeline.models.navier_stokes.part_places import located_grid
from ridgeline.models.navier_stokes.probes import Probes, probes_recorder
from ridgeline.models.navier_stokes.problem import FlowProblem, FlowState, field_names
from ridgeline.models.navier_stokes.problem_of_case import own_mesh, problem_of
from ridgeline.models.navier_stokes.recorders import (
    OutputFields,
    SampledPart,
    nek5000_recorder,
    statistics_recorder,
)
from ridgeline.models.navier_stokes.restart import EngineState, later_names
from ridgeline.models.navier_stokes.sampling import Lattice
from ridgeline.models.navier_stokes.settings import UNMAPPED_KINDS, NavierStokesCase
from ridgeline.models.navier_stokes.side_fluxes import SideFluxes
from ridgeline.models.navier_stokes.side_forces import SideForces, forces_recorder
from ridgeline.models.navier_stokes.side_parts import SidePart
from ridgeline.models.navier_stokes.streamfunction import AXES, Streamfunction
from ridgeline.parallel.allreduce import allreduce_max, allreduce_min, kernels_of_sums
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.parts import PartSection

REGIONS = (
    "gmres",
    "cg",
    "helmholtz",
    "advection",
    "schwarz",
    "transfer",
    "coarse",
    "projection",
    "gather-scatter",
    "other",
)


class NavierStokes(Model):
    """A simulation of incompressible flow on spectral elements on this rank."""

    name: ClassVar[str] = "navier_stokes"
    phases: ClassVar[tuple[str, ...]] = REGIONS[:-1]
    exchanges: ClassVar[tuple[str, ...]] = ("gather-scatter",)
    advice: str = "Try a smaller model.dt or model.courant, more elements or a higher grid.order."
    _case: NavierStokesCase

    def setup(self, case: NavierStokesCase, context: Context) -> None:
        """Decompose the mesh, compile what the set-up runs, allocate the fields and make plans. Collective.

        Raises ConfigError for settings that contradict each other on this mesh and for probes outside it,
        DecompositionError for more ranks than elements, and DeviceError if the case needs a GPU that is missing or
        something for which GPUs have no kernels.
        """
        super().setup(case, context)
        self.later = (*later_names(len(case.scalar)), SAMPLED_STEP)  # type: ignore[misc]
        comm = context.comm
        self._problem: FlowProblem = problem_of(case, case.model.dt or math.nan)
        self._least = least_work(case, comm.size)  # needs the whole mesh, which `own_mesh` gives up
        self._grid = ElementGrid(own_mesh(case, comm), case.grid.order, comm.size, comm.rank)
        self._geometry = ElementGeometry(self._grid)
        self._regions = context.regions
        arguments = comm, self._grid, self._problem, self._regions, self._geometry
        self._engine: SplittingEngine
        if context.device == "cuda":
            from ridgeline.models.navier_stokes.device.engine_cuda import CudaEngine

            self._engine = CudaEngine(*arguments)
        else:
            self._engine = CpuEngine(*arguments)
        self._state = EngineState(self._engine)
        self._diagnostics = self._make_diagnostics()
        self._fluxes = self._make_fluxes()
        gather = self._engine.host_gather
        planes = {
            name: Streamfunction(comm, self._geometry, gather, self._problem, axis)
            for name, axis in AXES.items()
            if name in case.fields_written()
        }
        self._outputs = OutputFields(
            comm, self._grid, self._geometry, gather, len(case.scalar), case.output.uniform, planes
        )
        self._statistics: Statistics | None = None
        if case.output.interval("statistics_every"):
            self._statistics = Statistics(
                comm,
                self._grid,
                self._geometry,
                len(case.scalar),
                case.output.statistics_start,
                case.model.viscosity if case.output.statistics_of == "budgets" else None,
            )

        self._probes = Probes(comm, self._grid, case) if case.has_probes else None
        self._forces = SideForces.of(comm, self._geometry, self._fluxes, case)

    def _make_diagnostics(self) -> Diagnostics:
        case, problem = self._case, self._problem
        axis = None
        if problem.flow_rate is not None:
            axis = problem.flow_rate.axis
        elif any(problem.force):
            axis = int(np.argmax(np.abs(problem.force)))
        elif case.initial.kind in UNMAPPED_KINDS:
            axis = "xyz".index(case.initial.direction)
        scalars = [
            DiagnosedScalar(
                s.diffusivity,
                tuple(k for k, v in s.sides.items() if v.kind in ("fixed", "flux")),
                bool(s.expansion),
                case.conduction_axes(i),
            )
            for i, s in enumerate(problem.scalars)
        ]
        walls = problem.sides_of("wall", "moving-wall")
        return Diagnostics(
            self._context.comm, self._grid, self._geometry, problem.viscosity, walls, axis, scalars
        )

    def _make_fluxes(self) -> SideFluxes:
        """Return the fluxes at walls and heated sides, and at sides of forces and parts. Collective."""
        output, diagnostics = self._case.output, self._diagnostics
        of_parts = {part.side for part in output.part if part.side and part.interval()}
        chosen = {*diagnostics.walls, *(output.forces.sides if output.forces.interval() else ()), *of_parts}

        def in_order(names: set[str]) -> list[str]:
            return [name for name in self._geometry.sides if name in names]

        heated = [in_order({*scalar.heated, *of_parts}) for scalar in diagnostics.scalars]
        return SideFluxes(self._context.comm, self._geometry, self._problem, in_order(chosen), heated)

    def compile(self) -> None:
        """Compile, or load from the cache, what `setup` did not need."""
        of_statistics = [] if self._statistics is None else self._statistics.kernels()
        compile_kernels([*kernels_of_sums(np.float64), *of_statistics])

    def initialize(self) -> None:
        """Set the initial state, point by point. Collective.

        Raises ConfigError if it is not finite, DivergedError if the first step from it is beyond stability.
        """
        case, comm = self._case, self._context.comm
        x, y, z = self._geometry.coordinates
        velocity = initial_velocity(case, x, y, z)
        scalars = [initial_scalar(case, i, x, y, z)[None] for i in range(len(case.scalar))]
        levels = case.model.time_order - 1
        fields = np.concatenate([velocity, *scalars])
        named = dict(zip(field_names(len(scalars)), fields))
        where = locate_nonfinite(comm, self._grid, self._geometry, named)
        if where is not None:
            raise ConfigError(
                f"the initial state of [initial] and [[scalar]] is not finite: {where}. It must be finite everywhere."
            )
        dt = self._engine.first_dt(fields)
        before = history(case, x, y, z, dt, levels) if levels else []
        self._engine.start(fields, 0.0, before, dt)
        self._engine.refuse_long_step(self._engine.dt)
        self._forget_times()

    def _forget_times(self) -> None:
        """Reset regions and solves, which are those of the run's steps and not of its start."""
        self._regions.reset()
        self._engine.solves.clear()
        self._engine.repeated = 0
        self._steps = 0

    def state(self) -> Mapping[str, DistributedArray]:
        """Return the levels of the flow, the spaces of past solutions, and the statistics."""
        arrays = self._state.arrays()
        return arrays if self._statistics is None else {**arrays, **self._statistics.state()}

    def restored(self, step: int, time: float) -> None:
        """Continue from what was read into the arrays of `state`. Collective.

        Raises DivergedError if the next step is beyond stability.
        """
        self._state.restored()
        self._engine.refuse_long_step(self._engine.dt)
        if self._statistics is not None:
            every = self._case.output.statistics_every
            self._statistics.restored(step - step % every if every else step)
        self._forget_times()

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by one time step. Collective.

        Raises DivergedError if a solve does not converge or the Courant number is beyond stability.
        """
        self._engine.advance(until=until)
        self._steps += 1
        return 1

    def time(self, step: int) -> float:
        return self._engine.time

    def rate_of_change(self) -> float:
        engine = self._engine
        new, old = engine.host_levels()[:2]
        mass, groups = self._geometry.mass, [slice(0, 3), *(slice(i, i + 1) for i in range(3, len(new)))]
        sums = np.array(
            [[float((mass * part[group] ** 2).sum()) for group in groups] for part in (new - old, new)]
        )
        changed, whole = self._context.comm.allreduce(sums)
        rates = np.sqrt(changed / np.where(whole > 0, whole, 1.0)) / engine.time_levels.steps[0]
        return float(rates.max())

    def _flow(self) -> FlowState:
        engine = self._engine
        return FlowState(engine.time, engine.u, engine.p, engine.fields[3:])

    def diagnostics(self) -> dict[str, float]:
        """Return the figures that need no derivative. Collective."""
        engine = self._engine
        return self._diagnostics.bulk_quantities(engine.u, engine.fields[3:])

    def summary(self) -> Mapping[str, Metric]:
        """Return energy, flow, friction between walls or forces on walls, and scalars. Collective."""
        diagnostics, forces, fluxes = self._diagnostics, self._forces, self._wall_fluxes()
        figures = summarise(self._row(fluxes), diagnostics.between_walls) | diagnostics.differences(fluxes)
        if forces is None and diagnostics.walls and not diagnostics.between_walls:
            forces = SideForces(self._context.comm, self._geometry, self._fluxes, diagnostics.walls)
        return figures if forces is None else figures | forces.figures(self._flow(), self._engine.last_step())

    def series(self) -> Mapping[str, float]:
        return self._row(self._wall_fluxes())

    def _wall_fluxes(self) -> WallFluxes:
        """Return the fluxes of the present flow. Collective."""
        fluxes, flow, step = self._fluxes, self._flow(), self._engine.last_step()
        return WallFluxes(
            fluxes.traction(flow, step),
            [fluxes.heat(i, flow, step) for i in range(len(flow.scalars))],
        )

    def _row(self, fluxes: WallFluxes) -> Mapping[str, float]:
        """Return the row of the present state in the time series. Collective."""
        engine, problem = self._engine, self._problem
        force = np.array(problem.force)
        if engine.flow_rate is not None:
            force[engine.flow_rate.target.axis] += engine.flow_rate.force
        names = ("pressure", engine.velocity.name, *(solve.name for solve in engine.scalars))
        iterations = {name.replace(" ", "_"): float(engine.last_iterations.get(name, 0)) for name in names}
        return self._diagnostics.series(
            engine.u,
            engine.fields[3:],
            engine.time_levels.steps[0] if engine.step_index else 0.0,
            engine.courant_rate(),
            tuple(float(f) for f in force),
            iterations,
            fluxes,
            self._viscosity(),
        )

    def _viscosity(self) -> NDArray[np.float64] | None:
        """Return the viscosity of the present flow at the points, None if it does not vary."""
        engine = self._engine
        viscosity = self._problem.variable_viscosity
        if viscosity is None:
            return None
        return viscosity.evaluate(self._geometry.coordinates, engine.time, engine.fields)

    def locate_nonfinite(self) -> str | None:
        engine = self._engine
        fields = dict(zip(field_names(len(self._problem.scalars)), engine.fields))
        return locate_nonfinite(
            self._context.comm, self._grid, self._geometry, {**fields, "pressure": engine.p}
        )

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        return self._outputs.layout(names)

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        engine = self._engine
        return self._outputs.compute(names, engine.u, engine.p, engine.fields[3:])

    def part_grid(self, part: PartSection) -> UniformGrid:
        places = self._grid.coordinates.reshape(3, -1)
        comm = self._context.comm
        low, high = allreduce_min(comm, places.min(axis=1)), allreduce_max(comm, places.max(axis=1))
        (x_low, y_low, z_low), (x_high, y_high, z_high) = low.tolist(), high.tolist()
        box = (z_low, y_low, x_low), (z_high, y_high, x_high)
        return located_grid(part, self._case.part_points(part), box)

    def part_source(self, grid: UniformGrid, points: SelectedPoints, names: Sequence[str]) -> SampledPart:
        """Return what interpolates the fields to the points of a part. Collective."""
        z, y, x = (
            np.asarray(grid.places(axis))[start::stride][:count]
            for axis, (start, count, stride) in enumerate(zip(points.start, points.count, points.stride))
        )
        return SampledPart(self._context.comm, self._grid, Lattice(z, y, x), self._field)

    def _field(self, name: str) -> NDArray[np.float64]:
        """Return an output of the present flow at the points of the elements. Collective."""
        engine = self._engine
        return self._outputs.field(name, engine.u, engine.p, engine.fields[3:])

    def placed_part(self, part: PartSection) -> SidePart | None:
        """Return what computes a part on a side. Collective."""
        assert isinstance(part, InterpolatedPartSection)
        if not part.side:
            return None
        comm, last_step = self._context.comm, self._engine.last_step
        return SidePart(
            comm,
            self._geometry,
            self._case,
            part,
            part.side,
            self._fluxes,
            self._flow,
            last_step,
            self._field,
        )

    def settable(self) -> tuple[str, ...]:
        """Name velocity and scalars at the points of the elements; pressure follows from them."""
        if self._case.output.uniform is not None:
            raise ConfigError(
                "set_fields cannot be used with output.uniform, because its fields are interpolated and do not "
                "determine the flow. Leave output.uniform out to set the fields at the points of the elements."
            )
        return field_names(len(self._case.scalar))

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace velocity or scalars and continue at first order, see `SplittingEngine.restart`. Collective."""
        engine = self._engine
        whole = np.array(engine.fields)
        for row, name in enumerate(self.settable()):
            if name in fields:
                whole[row] = fields[name]
        engine.restart(whole)

    def recorders(self, case: NavierStokesCase, comm: MPI.Comm) -> list[Recorder]:
        return [
            *super().recorders(case, comm),
            *nek5000_recorder(case, comm, self._grid, self._geometry, self._flow),
            *statistics_recorder(case, comm, self._grid, self._statistics, self._flow),
            *probes_recorder(case, comm, self._probes, self._flow),
            *forces_recorder(case, comm, self._forces, self._flow, self._engine.last_step),
        ]

    def image_fields(self) -> tuple[str, ...]:
        return self._outputs.image_fields()

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self._outputs.image_geometry()

    def work(self) -> Work:
        """Return the work of a step on all ranks: the mean of this run's steps, or an estimate before. Collective."""
        comm = self._context.comm
        least = self._least
        if not self._steps:
            return least
        table = self._regions.table.values()
        mine = np.array([sum(region.flops for region in table), sum(region.bytes for region in table)])
        flops, moved = comm.allreduce(mine) / self._steps
        return Work(least.points, float(flops), float(moved), least.bytes_exchanged, least.messages)

    def regions(self) -> Mapping[str, Region]:
        table = self._regions.table
        return {name: table[name] for name in REGIONS}

    def precisions(self) -> Mapping[str, str]:
        """Return the precision of the preconditioner's regions."""
        return dict.fromkeys(("schwarz", "transfer", "coarse"), self._problem.pressure.precision)

    def solves(self) -> Mapping[str, SolveCount]:
        """Return how the solves of this run's steps went."""
        return dict(self._engine.solves)

    def describe(self) -> dict[str, Any]:
        """Return decomposition, memory and methods. Collective."""
        grid, problem = self._grid, self._problem
        pressure = problem.pressure
        memory = self._engine.memory()
        points = (
            f"{problem.dealias_points}^3 Gauss points" if problem.dealias_points else "the element's points"
        )
        control = problem.control
        steps = "" if control is None else f" at Courant number {control.courant:g}"
        return {
            "process_grid": [self._context.comm.size],
            "block": [max(grid.counts()), grid.n, grid.n, grid.n],
            "method": f"BDF{problem.time_order}/EXT{problem.time_order}{steps}, advection on {points}; pressure by "
            f"{pressure.solver} with {pressure.preconditioner} in {pressure.precision}; "
            f"{'axis-aligned' if self._geometry.axis_aligned else 'curved'} elements, {self._engine.describe()}",
            "field_bytes_per_rank": sum(memory.values()),
            "memory": memory,
        }

    def figures(self, step: StepTimes) -> Mapping[str, Metric]:
        """Return the time per step and unique point, by which codes of this kind are compared.

        With model.courant also the steps that were repeated, because their Courant number was beyond stability.
        """
        figures = {"seconds_per_step_and_point": Metric(step.total / self._grid.n_unique, "s")}
        if self._problem.control is not None:
            figures["repeated_steps"] = Metric(self._engine.repeated, "steps")
        return figures


def create_model() -> NavierStokes:
    """Return a model to set up and run."""
    return NavierStokes()
