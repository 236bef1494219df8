"""The wind model: decomposes the grid, owns the engine with the fields, and answers the time loop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ridgeline.blocks.cartesian import decompose
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.contract import Context, Metric, Model, Recorder, SolveCount, Variable, Work
from ridgeline.models.time_steps import FixedSteps, next_step
from ridgeline.models.wind.diagnostics import Diagnostics
from ridgeline.models.wind.engine_cpu import PHASES, CpuEngine
from ridgeline.models.wind.estimate import device_bytes, estimate, least_work, process_grid
from ridgeline.models.wind.initial import InitialState, set_start
from ridgeline.models.wind.physical_terms import PhysicalTerms
from ridgeline.models.wind.problem import GHOST
from ridgeline.models.wind.problem_of_case import make_problem
from ridgeline.models.wind.profiles import ProfiledFlow, profile_windows_recorder
from ridgeline.models.wind.recorders import (
    DESCRIPTIONS,
    NODE_PRESSURE,
    distributed,
    field_names,
    make_height_profiles,
)
from ridgeline.models.wind.settings import ENERGY, WindCase
from ridgeline.models.wind.subgrid import initial_energy
from ridgeline.parallel.allreduce import allreduce_max, raise_on_all_ranks
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import ConfigError, DivergedError

if TYPE_CHECKING:
    from mpi4py import MPI


class Wind(Model):
    """A large-eddy simulation of wind on this rank."""

    name: ClassVar[str] = "wind"
    points_name: ClassVar[str] = "cells"
    phases: ClassVar[tuple[str, ...]] = PHASES
    advice: str = "Try a smaller model.courant or model.dt."
    _case: WindCase

    def __init__(self) -> None:
        self._step, self._time = 0, 0.0

    def setup(self, case: WindCase, context: Context) -> None:
        """Decompose the grid, allocate the fields, and plan exchanges and solvers. Collective."""
        super().setup(case, context)
        comm = context.comm
        refusals = estimate(case, comm.size).refusals
        raise_on_all_ranks(comm, ConfigError(refusals[0]) if refusals else None)
        grid = process_grid(case, comm.size)
        cartesian, self._block = decompose(comm, case.grid.shape, grid, case.boundary.periodic(), GHOST)
        problem, m = make_problem(case), case.model
        self._engine: CpuEngine
        if context.device == "cpu":
            self._terms = PhysicalTerms(case, self._block, comm)
            self._engine = CpuEngine(
                problem, cartesian, self._block, context, self._terms, m.tolerance, m.solver == "direct"
            )
            self._device = ""
        else:
            from ridgeline.models.wind.device.engine_cuda import CudaEngine

            memory = device_bytes(case, self._block)
            engine = CudaEngine(problem, cartesian, self._block, context, case, m.tolerance, memory)
            assert engine.terms is not None
            self._engine, self._terms, self._device = engine, engine.terms, f" on {engine.device}"
        self._names = field_names(case)
        self._diagnostics = Diagnostics(self._engine, self._terms, comm, case.temperature.enabled)
        self._profiles = make_height_profiles(case, comm, self._block)
        self._fixed = None if m.dt is None else FixedSteps(m.dt)

    def compile(self) -> None:
        self._engine.compile()
        if self._profiles is not None:
            compile_kernels(self._profiles.kernels(np.float64))

    def initialize(self) -> None:
        """Set the initial state, make it free of divergence, and find its pressure. Collective."""
        case, engine = self._case, self._engine
        state = InitialState(case, case.grid.lengths, case.grid.shape, case.run.seed, case.passive())
        fields = dict(zip(self._names, (q.owned for q in engine.fields)))
        set_start(state, self._block, fields, self._context.comm)
        if ENERGY in fields:
            planes = self._block.offset_global[0] + np.arange(self._block.shape_local[0])
            heights = np.asarray((planes + 0.5) * case.grid.spacing()[0], np.float64)
            fields[ENERGY][...] = initial_energy(case.subgrid, heights)[:, np.newaxis, np.newaxis]
        self._step, self._time, engine.time = 0, case.begin_time(), case.begin_time()
        self._begin()

    def _begin(self) -> None:
        """Make the present velocity free of divergence, and find a pressure for it. Collective."""
        engine = self._engine
        engine.start()
        dt = self._length()
        self._check_courant(dt, engine.speeds()[1])
        engine.guess_pressure(dt)

    def _check_courant(self, dt: float, rate: float) -> None:
        """Raise DivergedError if a fixed step of length dt has a Courant number above 1."""
        if self._fixed is not None and dt * rate > 1.0:
            raise DivergedError(
                f"model.dt = {dt:g} gives the Courant number {dt * rate:.3g} at step {self._step}, but it must be at "
                f"most 1. Set a smaller model.dt, or model.courant instead."
            )

    def _length(self) -> float:
        """Return the length that the next step has where no output shortens it. Collective."""
        m = self._case.model
        if m.courant is None:
            return m.dt or math.nan
        longest = m.dt_max or math.inf
        self._engine.fill()
        _, rate, diffusivity = self._engine.speeds()
        h = self._case.grid.spacing()
        dt = m.courant / rate if rate else math.inf
        if m.diffusion == "explicit":
            dt = min(dt, self._case.diffusive_step())
        if diffusivity:
            # The transposed gradient stays explicit; its stencil is twice as wide.
            total = 0.25 * diffusivity
            if m.diffusion == "explicit":
                total = diffusivity + 2.0 * m.viscosity
            dt = min(dt, 0.9 / (2.0 * total * sum(1 / each**2 for each in h)))
        dt = min(dt, longest)
        if math.isnan(rate) or not dt > 0:
            raise DivergedError(f"The velocity is not finite at step {self._step}. {self.advice}")
        if math.isinf(dt):
            raise ConfigError(
                "model.dt_max is needed, because the fluid is at rest and model.courant sets no step."
            )
        return dt

    def state(self) -> Mapping[str, DistributedArray]:
        engine = self._engine
        fields = distributed((*self._names, NODE_PRESSURE), (*engine.fields, engine.pressure))
        return fields if self._profiles is None else {**fields, **self._profiles.state()}

    def restored(self, step: int, time: float) -> None:
        if self._profiles is not None:
            self._profiles.restored()
        self._engine.commit()
        self._step, self._time, self._engine.time = step, time, time

    def settable(self) -> tuple[str, ...]:
        return self._names

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace fields; the velocity is made free of divergence. Collective."""
        for name, field in zip(self._names, self._engine.fields, strict=True):
            if name in fields:
                field.owned[...] = fields[name]
        self._begin()

    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by one time step. Collective.

        Raises DivergedError if a fixed step has a Courant number above 1.
        """
        engine = self._engine
        if self._fixed is not None:
            dt, time = self._fixed.next(self._step, self._time, until)
        else:
            dt, time = next_step(self._time, self._length(), until)
        # A length that follows from the flow has filled its ghosts and found its speeds.
        engine.advance(dt, is_ready=self._fixed is None)
        self._check_courant(dt, engine.rate)
        self._step, self._time, engine.time = self._step + 1, time, time
        return 1

    def time(self, step: int) -> float:
        return self._time

    def diagnostics(self) -> dict[str, float]:
        """Return the columns of the time series (`Diagnostics.values`). Collective."""
        return self._diagnostics.values()

    def summary(self) -> Mapping[str, Metric]:
        return self._diagnostics.summary()

    def figures(self, step: Any) -> Mapping[str, Metric]:
        """Return the divergence of the face velocities of the last step. Collective."""
        largest = self._engine.largest_divergence()
        return {"mac_divergence": Metric(float(allreduce_max(self._context.comm, largest)), "1/time")}

    def work(self) -> Work:
        sent, messages = self._context.comm.allreduce(
            np.array([self._engine.bytes_exchanged, self._engine.messages])
        )
        cycles = {
            name: count.iterations / count.solves
            for name, count in self._engine.solves.items()
            if count.solves
        }
        return least_work(self._case, float(sent), float(messages), cycles)

    def solves(self) -> Mapping[str, SolveCount]:
        return {name: count for name, count in self._engine.solves.items() if count.solves}

    def describe(self) -> dict[str, Any]:
        m = self._case.model
        return {
            "process_grid": list(self._block.process_grid),
            "block": list(self._block.shape_local),
            "method": f"{m.advection}, {m.reconstruction}; diffusion {m.diffusion}; {m.solver}{self._device}",
            "field_bytes_per_rank": self._engine.allocated(),
        }

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        block = self._block
        return [
            Variable(
                name,
                np.float64,
                block.shape_global,
                block.offset_global,
                block.shape_local,
                description=DESCRIPTIONS.get(name, "passive scalar"),
            )
            for name in names
        ]

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        fields = distributed(self._names, self._engine.fields)
        block = self._block
        if "pressure" in names:
            pressure = self._engine.cell_pressure()
            fields["pressure"] = DistributedArray(
                "pressure", block.shape_global, block.offset_global, pressure
            )
        return {name: fields[name] for name in names}

    def recorders(self, case: WindCase, comm: MPI.Comm) -> list[Recorder]:
        found = [*super().recorders(case, comm)]
        if self._profiles is not None:
            found += profile_windows_recorder(case, case.output, comm, self._profiles, self._profiled)
        return found

    def _profiled(self) -> ProfiledFlow:
        """Return the present flow with its ghosts and eddy viscosities, for profiles. Collective."""
        self._engine.fill()
        fields = dict(zip(self._names, self._engine.fields))
        energy = fields.pop(ENERGY, None)
        velocity = [fields.pop(name) for name in ("u", "v", "w")]
        viscosity, diffusivity = self._engine.eddies
        on_surface = self._case.has_surface()
        return ProfiledFlow(self._time, velocity, fields, viscosity, diffusivity, energy, on_surface)

    def image_fields(self) -> tuple[str, ...]:
        return self._case.output_names()

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        h = self._case.grid.spacing()
        return tuple(width / 2 for width in h), h


def create_model() -> Wind:
    """Return a model to set up and run."""
    return Wind()
